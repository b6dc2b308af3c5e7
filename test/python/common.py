"""What the checks share. One line per check; any failure ends the program with code 1."""

import os

from langgraph_sdk import get_client

url = os.environ["WEFT_URL"]
client = get_client(url=url)
count = 0


def check(good, text):
    global count
    if not good:
        raise AssertionError(text)
    count += 1
    print("ok", text, flush=True)


async def refused(kind, work, text):
    try:
        await work
    except kind:
        return check(True, text)
    check(False, text)


async def run_all(*parts):
    for part in parts:
        await part()
    print(f"{count} checks")
