"""A graph whose subgraph asks a person."""

from __future__ import annotations

from typing import Any, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import interrupt


class State(TypedDict, total=False):
    text: str
    answer: Any


def question(state: State) -> State:
    return {"answer": interrupt({"about": state["text"]})}


def finish(state: State) -> State:
    return {"text": f"{state['text']}: {state['answer']}"}


inner = StateGraph(State).add_node("question", question).add_edge(START, "question").compile(checkpointer=True)
ask = (
    StateGraph(State)
    .add_node("inner", inner)
    .add_node("finish", finish)
    .add_edge(START, "inner")
    .add_edge("inner", "finish")
    .compile()
)
