"""Values of a replayed history (weft_host/rebuild.py), as a server prints them."""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from weft_host.rebuild import rebuilt
from weft_host.render import render


class Order(BaseModel):
    total: int


@dataclass
class Note:
    text: str


class State(MessagesState, total=False):
    log: Annotated[Sequence[BaseMessage], operator.add]
    order: Order | None
    notes: list[Note]
    raw: list[dict[str, Any]]


graph: Any = StateGraph(State).add_node("node", lambda state: state).add_edge(START, "node").compile()

CALL = {"name": "find", "args": {"q": "x"}, "id": "call-1", "type": "tool_call"}
AI = AIMessage(
    "",
    id="ai-1",
    tool_calls=[CALL],  # pyright: ignore[reportArgumentType]
    usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    additional_kwargs={"own": 1},
)
MESSAGES = [HumanMessage("hi", id="1"), AI, ToolMessage("found", tool_call_id="call-1"), RemoveMessage("1")]


def printed(value: Any) -> Any:
    return json.loads(render(value))


def test_messages_are_the_same_in_every_key_of_messages():
    for key in ("messages", "log"):
        made = rebuilt({key: printed(MESSAGES)}, graph)[key]
        assert made == MESSAGES
        assert printed(made) == printed(MESSAGES)
        assert rebuilt({key: printed(AI)}, graph) == {key: AI}
    assert rebuilt([{"messages": printed(AI)}], graph) == [{"messages": AI}]


def test_objects_of_the_types_of_the_state_are_built():
    values = {"order": Order(total=5), "notes": [Note("a"), Note("b")]}
    assert rebuilt(printed(values), graph) == values
    assert rebuilt({"order": None}, graph) == {"order": None}


def test_other_values_stay_as_they_are():
    by_hand = {"role": "user", "content": "hi"}
    values = {"messages": [by_hand, "text"], "raw": printed(MESSAGES), "order": {"sum": "no"}, "unknown": {"a": 1}}
    assert rebuilt(values, graph) == values
    assert rebuilt(None, graph) is None
