"""An agent with a tool that takes long. A page that was read is not read again when the process dies in between."""

from __future__ import annotations

import asyncio
import os

from deepagents import create_deep_agent
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.func import task

from model import Call, chat_model

LIBRARY = {
    "moon": "The moon pulls the water of the nearer side more strongly than the earth below it.",
    "sun": "The sun pulls, too, a little less than half as strongly as the moon.",
    "coast": "A coast decides how high a tide becomes.",
}
PAGE_SECONDS = float(os.environ.get("PAGE_SECONDS") or 1)
PROMPT = "Read the library and answer the question from it."


@task
async def read_page(name: str) -> str:
    """The result of a task is stored with the checkpoint of the run: the next attempt takes it from there."""
    get_stream_writer()({"reads": name})
    await asyncio.sleep(PAGE_SECONDS)
    return LIBRARY[name]


@tool
async def read_library(question: str) -> str:
    """Reads every page of the library."""
    return " ".join([await read_page(name) for name in LIBRARY])


def script(messages: list[BaseMessage]) -> str | Call:
    """Without a key: reads the library, and says what is in it."""
    last = messages[-1]
    return last.text if isinstance(last, ToolMessage) else Call("read_library", {"question": last.text})


researcher = create_deep_agent(model=chat_model(script), system_prompt=PROMPT, tools=[read_library])
