"""Models, tools and messages of every kind: the graphs of test/apps/basic/payload.mjs in Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, RemoveMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph

Piece = dict[str, Any]
USAGE = {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}


class ScriptedModel(BaseChatModel):
    """Streams what it is given, as a provider would: one id for all pieces, usage with the last."""

    pieces: list[Piece]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        whole = AIMessageChunk("")
        for piece in self.pieces:
            whole = whole + AIMessageChunk(**piece)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(whole.content, tool_calls=whole.tool_calls))])

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        id = f"answer-{uuid4()}"
        for piece in self.pieces[:-1]:
            yield ChatGenerationChunk(message=AIMessageChunk(id=id, **piece))
        yield ChatGenerationChunk(message=AIMessageChunk(id=id, chunk_position="last", **self.pieces[-1]))


def letters(text: str) -> list[Piece]:
    return [{"content": letter} for letter in text]


def tool_call(index: int = 0, name: str | None = None, args: str = "", id: str | None = None) -> Piece:
    chunk = {"index": index, "type": "tool_call_chunk", "name": name, "args": args, "id": id}
    return {"content": "", "tool_call_chunks": [chunk]}


calling = ScriptedModel(
    pieces=[
        *letters("begin"),
        tool_call(name="lookup", args='{"te', id="call-1"),
        tool_call(args='xt":"x"}'),
        {"content": "", "usage_metadata": USAGE},
    ]
)
blocks = ScriptedModel(
    pieces=[
        {"content": [{"type": "text", "text": "e", "index": 0}]},
        {"content": [{"type": "text", "text": "nd", "index": 0}]},
        {"content": [], "usage_metadata": USAGE},
    ]
)


@tool
def lookup(text: str) -> str:
    """Looks up."""
    return f"found {text}"


async def ask_model(state: MessagesState) -> Any:
    return {"messages": [await calling.ainvoke(state["messages"])]}


async def use_tools(state: MessagesState) -> Any:
    [call] = state["messages"][-1].tool_calls
    return {"messages": [ToolMessage(await lookup.ainvoke(call["args"]), tool_call_id=call["id"], name="lookup")]}


async def answer(state: MessagesState) -> Any:
    return {"messages": [await blocks.ainvoke(state["messages"])]}


agent = (
    StateGraph(MessagesState)
    .add_node("model", ask_model)
    .add_node("tools", use_tools)
    .add_node("answer", answer)
    .add_edge(START, "model")
    .add_edge("model", "tools")
    .add_edge("tools", "answer")
)
talker = agent.compile()
outer = (
    StateGraph(MessagesState)
    .add_node("agent", agent.compile())
    .add_node("note", lambda state: {"messages": [{"role": "human", "content": "noted"}]})
    .add_edge(START, "agent")
    .add_edge("agent", "note")
    .compile()
)

provider = ScriptedModel(
    pieces=[
        {"content": [{"type": "reasoning", "reasoning": "let me ", "index": 0}], "additional_kwargs": {"trace": "abc"}},
        {"content": [{"type": "reasoning", "reasoning": "see", "index": 0}]},
        {"content": [{"type": "text", "text": "Looking ", "index": 1}]},
        {"content": [{"type": "text", "text": "up", "index": 1}]},
        tool_call(name="lookup", args='{"text":', id="call-a"),
        tool_call(args='"a"}'),
        tool_call(1, name="lookup", args='{"text":"b"}', id="call-b"),
        {"content": [], "response_metadata": {"finish_reason": "tool_calls", "model_name": "scripted"}},
        {"content": [], "usage_metadata": {**USAGE, "input_token_details": {"cache_read": 1}}},
    ]
)


async def ask_provider(state: MessagesState) -> Any:
    return {"messages": [await provider.ainvoke(state["messages"])]}


def answer_tools(state: MessagesState) -> Any:
    found = ToolMessage(
        "found",
        id="tool-a",
        tool_call_id="call-a",
        name="lookup",
        status="success",
        artifact={"rows": [{"id": 1}], "raw": None},
    )
    broken = ToolMessage("broken", id="tool-b", tool_call_id="call-b", name="lookup", status="error")
    return {"messages": [found, broken]}


def show(state: MessagesState) -> Any:
    content = [
        {"type": "text", "text": "Here:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    shown = AIMessage(content, id="shown", name="painter")
    return {"messages": [RemoveMessage(id=state["messages"][0].id), shown]}


shapes = (
    StateGraph(MessagesState)
    .add_node("ask", ask_provider)
    .add_node("tools", answer_tools)
    .add_node("show", show)
    .add_edge(START, "ask")
    .add_edge("ask", "tools")
    .add_edge("tools", "show")
    .compile()
)
