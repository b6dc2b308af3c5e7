"""A graph with keys of its own, and graphs that call their server."""

import asyncio
from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph_sdk import get_client


class Question(TypedDict, total=False):
    question: str


class Answer(TypedDict, total=False):
    answer: str


class Private(Question, Answer, total=False):
    note: str


private = (
    StateGraph(Private, input_schema=Question, output_schema=Answer)
    .add_node("think", lambda state: {"note": "margin"})
    .add_node("say", lambda state: {"answer": "12"})
    .add_edge(START, "think")
    .add_edge("think", "say")
    .compile()
)


class Seen(TypedDict, total=False):
    thread_id: str
    owner: str
    child: Any
    user: Any


async def call(state: Seen, config: RunnableConfig) -> Seen:
    client = get_client()
    thread = await client.threads.create()
    child = await client.runs.wait(thread["thread_id"], "private", input={"question": "?"})
    user = config["configurable"]["langgraph_auth_user"]
    return {
        "thread_id": thread["thread_id"],
        "owner": thread["metadata"]["owner"],
        "child": child,
        "user": {**user, "name": user.identity},
    }


def call_in_thread(state: Seen, config: RunnableConfig) -> Seen:
    return asyncio.run(call(state, config))


calls = StateGraph(Seen).add_node("call", call).add_edge(START, "call").compile()
calls_threaded = StateGraph(Seen).add_node("call", call_in_thread).add_edge(START, "call").compile()
