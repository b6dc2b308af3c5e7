"""Helpers of the checks of the SDK."""

import os

from checks import check, refused, report
from langgraph_sdk import get_client

__all__ = ["check", "client", "refused", "run_all", "url"]

url = os.environ["WEFT_URL"]
client = get_client(url=url)


async def run_all(*parts):
    for part in parts:
        await part()
    report()
