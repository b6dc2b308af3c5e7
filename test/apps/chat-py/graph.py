"""The graph of test/apps/chat in Python."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt


def heard(messages: list[BaseMessage]) -> str:
    return str(messages[-1].content)


class Parrot(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "parrot"

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        text = heard(messages)
        count = re.match(r"(?:deep )?count (\d+) (\d+)", text)
        words = [str(i + 1) for i in range(int(count[1]))] if count else ["You", "said:", *text.split(" ")]
        for i, word in enumerate(words):
            if count:
                await asyncio.sleep(int(count[2]) / 1000)
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=word if i == 0 else f" {word}"))
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=f"You said: {heard(messages)}"))])


async def talk(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await Parrot().ainvoke(state["messages"])]}


def ask(state: MessagesState) -> dict[str, Any]:
    answer = interrupt({"question": heard(state["messages"])})
    return {"messages": [{"role": "ai", "content": f"The answer was {answer}"}]}


def route(state: MessagesState) -> str:
    text = heard(state["messages"])
    return "ask" if text.startswith("may I") else "deep" if text.startswith("deep") else "talk"


deep = StateGraph(MessagesState).add_node("talk", talk).add_edge(START, "talk").add_edge("talk", END).compile()

chat = (
    StateGraph(MessagesState)
    .add_node("talk", talk)
    .add_node("ask", ask)
    .add_node("deep", deep)
    .add_conditional_edges(START, route, ["talk", "ask", "deep"])
    .add_edge("talk", END)
    .add_edge("ask", END)
    .add_edge("deep", END)
    .compile()
)
