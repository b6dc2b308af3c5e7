"""The graphs of test/apps/bench in Python: what `npm run bench -- --python` runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, TypedDict

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph


def graph_of(state: Any, node: Any) -> Any:
    return StateGraph(state).add_node("node", node).add_edge(START, "node").add_edge("node", END)


class Text(TypedDict, total=False):
    text: str
    seen: str


async def see(state: Text) -> Text:
    return {"seen": state.get("text", "")}


echo = graph_of(Text, see).compile()


class Chunks(TypedDict, total=False):
    count: int
    delay_ms: int
    start_ms: int
    done: int


async def write_chunks(state: Chunks) -> Chunks:
    """Writes the custom chunks {i: 0}, {i: 1} …: `count` of them, `delay_ms` apart, the first after `start_ms`."""
    write, count, delay_ms = get_stream_writer(), state.get("count", 0), state.get("delay_ms", 0)
    if start_ms := state.get("start_ms", 0):
        await asyncio.sleep(start_ms / 1000)
    for i in range(count):
        if delay_ms > 0:
            await asyncio.sleep(delay_ms / 1000)
        elif i % 50 == 49:
            # Like code that waits for something now and then.
            await asyncio.sleep(0)
        write({"i": i})
    return {"done": count}


custom = graph_of(Chunks, write_chunks).compile()


class Steps(TypedDict, total=False):
    count: int
    done: Annotated[int, lambda _, new: new]


async def step(state: Steps) -> Steps:
    return {"done": state.get("done", 0) + 1}


def is_over(state: Steps) -> str:
    return END if state.get("done", 0) % state["count"] == 0 else "step"


steps = (
    StateGraph(Steps).add_node("step", step).add_edge(START, "step").add_conditional_edges("step", is_over).compile()
)


class CountingModel(BaseChatModel):
    """Says "w0 w1 … " as a stream of as many tokens as the last message asks for."""

    @property
    def _llm_type(self) -> str:
        return "counting"

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        text = "".join(f"w{i} " for i in range(int(messages[-1].content)))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for i in range(int(messages[-1].content)):
            if i % 10 == 9:
                await asyncio.sleep(0)
            yield ChatGenerationChunk(message=AIMessageChunk(f"w{i} "))


model = CountingModel()


async def speak(state: MessagesState) -> Any:
    return {"messages": [await model.ainvoke(state["messages"])]}


chat = graph_of(MessagesState, speak).compile()
