"""A graph that uses its store in the ways that the library offers."""

from __future__ import annotations

from typing import Any, TypedDict

from langgraph.config import get_store
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime


class State(TypedDict, total=False):
    text: str
    found: Any


async def put(state: State, runtime: Runtime) -> State:
    assert runtime.store is not None
    await runtime.store.aput(("notes", "python"), "first", {"text": state["text"], "length": len(state["text"])})
    return {}


def read(state: State) -> State:
    store = get_store()
    item = store.get(("notes", "python"), "first")
    assert item is not None
    found = store.search(("notes",), filter={"length": len(state["text"])})
    return {"found": [item.value, [each.key for each in found], store.list_namespaces(prefix=("notes",))]}


builder = StateGraph(State)
builder.add_sequence([put, read])
builder.add_edge(START, "put")
remember = builder.compile()
