"""The subgraph: answers one question from the library. Several of them run at the same time."""

from __future__ import annotations

import asyncio
import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph

from model import chat_model

LIBRARY = Path(__file__).parent / "library"


class Note(TypedDict):
    question: str
    source: str
    text: str


class Question(TypedDict):
    """The input, which `Send` makes."""

    question: str


class State(Question):
    source: str
    page: str
    # The same name and reducer as in the parent, which adds up the notes of all subgraphs.
    notes: Annotated[list[Note], operator.add]


def script(messages: list[BaseMessage]) -> str:
    """The first sentence of the page."""
    return messages[-1].text.partition("\n")[2].replace("\n", " ").partition(". ")[0] + "."


def words_of(text: str) -> set[str]:
    return {word.strip(".,:?").lower() for word in text.split()}


def pages() -> dict[str, str]:
    return {path.stem: path.read_text().strip() for path in sorted(LIBRARY.glob("*.md"))}


async def search(state: Question) -> dict[str, Any]:
    """The page with the most words of the question. Files are read in a thread, because this one serves all runs."""
    found = await asyncio.to_thread(pages)
    wanted = words_of(state["question"])
    source = max(found, key=lambda name: (name in wanted, len(wanted & words_of(found[name]))))
    get_stream_writer()({"question": state["question"], "reads": source})
    return {"source": source, "page": found[source]}


async def read(state: State) -> dict[str, Any]:
    prompt = f"Answer in one sentence, from this page alone: {state['question']}\n{state['page']}"
    said = await chat_model(script).ainvoke([HumanMessage(prompt)])
    return {"notes": [{"question": state["question"], "source": state["source"], "text": said.text}]}


class Output(TypedDict):
    notes: list[Note]


researcher = (
    StateGraph(State, input_schema=Question, output_schema=Output)
    .add_node("search", search)
    .add_node("read", read)
    .add_edge(START, "search")
    .add_edge("search", "read")
    .add_edge("read", END)
    .compile()
)
