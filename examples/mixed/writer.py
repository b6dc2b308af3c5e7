"""An agent in Python: a scripted model, a tool, and a draft that a person approves."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt


@tool
def count_words(text: str) -> int:
    """Counts the words of a text."""
    return len(text.split())


class State(MessagesState):
    approved: bool


def topic_of(state: State) -> str:
    asked = [message.text for message in state["messages"] if isinstance(message, HumanMessage)]
    return str(asked[-1]) if asked else "nothing"


async def draft(state: State) -> Any:
    """Streams its answer token by token, as a model of a provider would."""
    answer = f"Once there was {topic_of(state)}. It ran on Weft, and its stream never broke."
    model = GenericFakeChatModel(messages=iter([AIMessage(answer)]))
    return {"messages": [await model.ainvoke(state["messages"])]}


def measure(state: State) -> Any:
    """A node that is not async runs in a thread: it may block."""
    get_stream_writer()({"words": count_words.invoke({"text": str(state["messages"][-1].text)})})
    return {}


def approve(state: State) -> Command[Any]:
    answer = interrupt({"draft": str(state["messages"][-1].text), "question": "Publish it?"})
    return Command(update={"approved": answer is True}, goto=END if answer is True else "draft")


writer = (
    StateGraph(State)
    .add_node("draft", draft)
    .add_node("measure", measure)
    .add_node("approve", approve, destinations=("draft", END))
    .add_edge(START, "draft")
    .add_edge("draft", "measure")
    .add_edge("measure", "approve")
    .compile()
)
