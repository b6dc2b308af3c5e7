"""A digest of what has come since the last one. A cron runs it; news and digests are items of the store.

START ─▶ collect ─▶ summarize ─▶ publish ─▶ END
            └──▶ END, when there is nothing new
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypedDict

from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.config import get_store
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from model import chat_model

NEWS = ("news",)
DIGESTS = ("digests",)
# At most so many news are in one digest; the next one has the rest.
MOST = 50


class State(TypedDict):
    # Ids of the news in this digest, oldest first.
    keys: list[str]
    titles: list[str]
    text: str


def script(messages: list[BaseMessage]) -> str:
    titles = messages[-1].text.splitlines()[1:]
    return f"{len(titles)} news: {'; '.join(titles)}."


async def collect(state: State) -> Command[Any]:
    """News that are in no digest yet. Values of the store are found by their members."""
    found = await get_store().asearch(NEWS, filter={"digest": None}, limit=MOST)
    if not found:
        return Command(goto=END)
    news = sorted(found, key=lambda item: item.created_at)
    return Command(
        update={"keys": [item.key for item in news], "titles": [str(item.value["title"]) for item in news]},
        goto="summarize",
    )


async def summarize(state: State) -> dict[str, Any]:
    prompt = "\n".join(["Summarize these news in a few sentences:", *state["titles"]])
    said = await chat_model(script).ainvoke([HumanMessage(prompt)])
    return {"text": said.text}


async def publish(state: State) -> None:
    """A node runs at least once. The digest has the key of its first news: a second time writes the same item."""
    key, store = state["keys"][0], get_store()
    made = datetime.now(UTC).isoformat(timespec="seconds")
    await store.aput(DIGESTS, key, {"text": state["text"], "news": state["keys"], "made": made})
    for news, title in zip(state["keys"], state["titles"], strict=True):
        await store.aput(NEWS, news, {"title": title, "digest": key})


digest = (
    StateGraph(State)
    .add_node("collect", collect, destinations=("summarize", END))
    .add_node("summarize", summarize)
    .add_node("publish", publish)
    .add_edge(START, "collect")
    .add_edge("summarize", "publish")
    .add_edge("publish", END)
    .compile()
)
