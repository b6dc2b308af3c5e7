"""The graphs that `npm run compare` runs on two servers; those of ../javascript are the same."""

from __future__ import annotations

import asyncio
from operator import add
from typing import Annotated, Any, TypedDict

from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send, interrupt


def graph_of(state: Any, node: Any, context: Any = None) -> Any:
    return StateGraph(state, context_schema=context).add_node("node", node).add_edge(START, "node").add_edge("node", END)


class Text(TypedDict, total=False):
    text: Any
    seen: Any


async def see(state: Text) -> Text:
    return {"seen": state.get("text")}


echo = graph_of(Text, see).compile()

model = FakeListChatModel(responses=["Hello there"])


async def say(state: MessagesState) -> Any:
    return {"messages": [await model.ainvoke(state["messages"])]}


async def call_tool(state: MessagesState) -> Any:
    call = {"name": "look", "args": {"at": "it"}, "id": "call-1", "type": "tool_call"}
    return {
        "messages": [
            AIMessage(content="", id="asked", tool_calls=[call]),
            ToolMessage(content="seen", id="told", tool_call_id="call-1", name="look"),
        ]
    }


chat = (
    StateGraph(MessagesState)
    .add_node("say", say)
    .add_node("tool", call_tool)
    .add_edge(START, "say")
    .add_edge("say", "tool")
    .compile()
)


class Asked(TypedDict, total=False):
    question: Any
    answer: Any


async def ask_once(state: Asked) -> Asked:
    return {"answer": {"given": interrupt({"question": state.get("question", "why?")})}}


ask = graph_of(Asked, ask_once).compile()


class Numbers(TypedDict, total=False):
    steps: int
    delay_ms: int
    numbers: Annotated[list[Any], add]


async def ask_left(state: Numbers) -> Numbers:
    return {"numbers": [interrupt("left?")]}


async def ask_right(state: Numbers) -> Numbers:
    return {"numbers": [interrupt("right?")]}


asks = (
    StateGraph(Numbers)
    .add_node("left", ask_left)
    .add_node("right", ask_right)
    .add_edge(START, "left")
    .add_edge(START, "right")
    .compile()
)


async def inside(state: Numbers) -> Numbers:
    get_stream_writer()({"from": "inside"})
    return {"numbers": [2]}


async def ask_inside(state: Numbers) -> Numbers:
    return {"numbers": [interrupt("a number?")]} if state.get("steps") == 1 else {"numbers": [3]}


inner = (
    StateGraph(Numbers)
    .add_node("inside", inside)
    .add_node("asking", ask_inside)
    .add_edge(START, "inside")
    .add_edge("inside", "asking")
    .compile()
)


async def one(state: Numbers) -> Numbers:
    return {"numbers": [1]}


outer = (
    StateGraph(Numbers)
    .add_node("one", one)
    .add_node("inner", inner)
    .add_edge(START, "one")
    .add_edge("one", "inner")
    .compile()
)


async def count(state: Numbers) -> Numbers:
    get_stream_writer()({"counted": len(state["numbers"])})
    await asyncio.sleep(state.get("delay_ms", 0) / 1000)
    return {"numbers": [len(state["numbers"]) + 1]}


def more(state: Numbers) -> str:
    return "count" if len(state["numbers"]) < state.get("steps", 1) else END


counter = (
    StateGraph(Numbers).add_node("count", count).add_edge(START, "count").add_conditional_edges("count", more).compile()
)


async def put(state: Text, runtime: Runtime) -> Text:
    key = str(state.get("seen"))
    await runtime.store.aput(("compare", "graph"), key, {"value": state.get("text")})
    found = await runtime.store.aget(("compare", "graph"), key)
    return {"seen": None if found is None else found.value}


stored = graph_of(Text, put).compile()


class Context(TypedDict, total=False):
    model: Any
    depth: Any


async def look(state: Text, config: RunnableConfig, runtime: Runtime[Context]) -> Text:
    configurable = config.get("configurable") or {}
    own = {key: value for key, value in configurable.items() if key in ("model", "depth", "user_id", "graph_id")}
    metadata = {key: value for key, value in (config.get("metadata") or {}).items() if key in ("purpose", "source")}
    return {
        "seen": {
            "configurable": own,
            "context": runtime.context,
            "metadata": metadata,
            "tags": config.get("tags"),
            "limit": config.get("recursion_limit"),
        }
    }


seen = graph_of(Text, look, Context).compile()


class TooBadError(Exception):
    pass


async def good(state: Text) -> Text:
    return {"seen": True}


async def bad(state: Text) -> Any:
    how = state.get("text")
    if how == "no dict":
        return "not a state"
    if how == "no message":
        raise TooBadError
    if how == "value":
        raise ValueError("a wrong value")
    if how == "key":
        return {}["absent"]
    raise TooBadError(str(how))


def each(state: Text) -> list[Send]:
    return [Send("absent" if state.get("text") == "send" else "bad", state)]


fail = (
    StateGraph(Text)
    .add_node("good", good)
    .add_node("bad", bad)
    .add_edge(START, "good")
    .add_conditional_edges("good", each, ["bad"])
    .compile()
)
