"""A research agent: a plan, a subgraph for each question of the plan, and a report.

START ─▶ plan ─▶ researcher (search ─▶ read), one per question, at the same time ─▶ write ─▶ END
"""

from __future__ import annotations

import operator
from typing import Annotated, Any

from langchain_core.messages import BaseMessage, SystemMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send

from model import chat_model
from researcher import Note, researcher

QUESTIONS = 3


class State(MessagesState):
    questions: list[str]
    notes: Annotated[list[Note], operator.add]


def plan_script(messages: list[BaseMessage]) -> str:
    topic = messages[-1].text.rstrip("?").lower()
    return "\n".join(f"What has the {part} to do with it: {topic}?" for part in ("moon", "sun", "coast"))


def report_script(messages: list[BaseMessage]) -> str:
    return " ".join(line.partition(": ")[2] for line in messages[0].text.splitlines()[1:])


async def plan(state: State) -> dict[str, Any]:
    order = SystemMessage(f"Split the question into {QUESTIONS} questions that can be answered apart, one per line.")
    said = await chat_model(plan_script).ainvoke([order, state["messages"][-1]])
    lines = [line.strip() for line in said.text.splitlines()]
    return {"questions": [line for line in lines if line][:QUESTIONS]}


def spread(state: State) -> list[Send]:
    return [Send("researcher", {"question": question}) for question in state["questions"]]


async def write(state: State) -> dict[str, Any]:
    notes = "\n".join(f"{note['source']}: {note['text']}" for note in state["notes"])
    order = SystemMessage(f"Write a short report from these notes, and name the sources.\n{notes}")
    return {"messages": [await chat_model(report_script).ainvoke([order, *state["messages"]])]}


research = (
    StateGraph(State, input_schema=MessagesState)
    .add_node("plan", plan)
    .add_node("researcher", researcher)
    .add_node("write", write)
    .add_edge(START, "plan")
    .add_conditional_edges("plan", spread, ["researcher"])
    .add_edge("researcher", "write")
    .add_edge("write", END)
    .compile()
)
