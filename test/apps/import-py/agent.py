"""A model that calls a tool and asks a person, with a state of messages, pydantic and dataclass values."""

import operator
from dataclasses import dataclass
from typing import Annotated

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send, interrupt
from pydantic import BaseModel


class Order(BaseModel):
    total: int


@dataclass
class Note:
    text: str


class State(MessagesState, total=False):
    order: Order
    notes: Annotated[list[Note], operator.add]
    answer: str
    number: int


def model(state: State):
    call = {"name": "find", "args": {"q": "x"}, "id": "call-1"}
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    return {
        "messages": [AIMessage("", id="ai-1", tool_calls=[call], usage_metadata=usage)],
        "order": Order(total=5),
        # A JavaScript number would round it.
        "number": 2**62 + 1,
    }


def each(state: State):
    return [Send("take", {"text": text}) for text in ("one", "two")]


def take(given: dict):
    text = given["text"]
    message = ToolMessage(text, tool_call_id="call-1", name="find", id=f"tool-{text}")
    return {"messages": [message], "notes": [Note(text)]}


def ask(state: State):
    answer = interrupt({"question": "send it?"})
    # Both are objects, not dicts.
    text = f"{state['order'].total} {state['notes'][0].text} {state['messages'][-1].type}"
    return {"answer": f"{answer}: {text} {state['number']}"}


builder = StateGraph(State).add_node(model).add_node(take).add_node(ask)
builder.add_edge(START, "model").add_conditional_edges("model", each, ["take"]).add_edge("take", "ask")
graph = builder.compile()
