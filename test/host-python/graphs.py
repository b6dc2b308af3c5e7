"""Graphs for the tests of the host."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from operator import add
from typing import Annotated, Any, TypedDict

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_store, get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.types import RetryPolicy, Send, interrupt
from langgraph_sdk import runtime as sdk_runtime
from langgraph_sdk.runtime import ServerRuntime as Rt


class State(TypedDict, total=False):
    steps: Annotated[list[str], add]
    answer: Any
    limit: int


entered: list[str] = []
left: list[str] = []
started = asyncio.Event()


async def first(state: State) -> State:
    return {"steps": ["first"]}


def second(state: State) -> State:
    get_stream_writer()({"progress": 1})
    return {"steps": ["second"]}


def two_steps() -> StateGraph[Any, Any, Any, Any]:
    builder = StateGraph(State)
    builder.add_node(first)
    builder.add_node(second)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    builder.add_edge("second", END)
    return builder


def single(node: Any) -> Any:
    return StateGraph(State).add_node("node", node).add_edge(START, "node").compile()


graph = two_steps().compile()
builder = two_steps()


def asks(state: State) -> State:
    return {"answer": interrupt({"question": 1}), "steps": ["asked"]}


asking = single(asks)


def outer_node(state: State) -> State:
    return {"steps": ["outer"]}


outer = (
    StateGraph(State)
    .add_node("outer", outer_node)
    .add_node("inner", asking)
    .add_edge(START, "outer")
    .add_edge("outer", "inner")
    .compile()
)


def raises(state: State) -> State:
    raise ValueError("no good")


failing = single(raises)


def exits(state: State) -> State:
    sys.exit(3)


exiting = single(exits)


async def waits(state: State, config: RunnableConfig) -> State:
    entered.append(config["configurable"]["run_id"])
    try:
        await asyncio.sleep(3600)
    finally:
        left.append(config["configurable"]["run_id"])
    return {}


waiting = single(waits)


async def ignores(state: State) -> State:
    for _ in range(100):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
    left.append("deaf")
    return {}


deaf = single(ignores)


def sleeps(state: State) -> State:
    time.sleep(1.5)
    left.append("sleeping")
    return {}


def sleeps_long(state: State) -> State:
    time.sleep(4)
    left.append("sleeping_long")
    return {}


sleeping = single(sleeps)
sleeping_long = single(sleeps_long)
released = threading.Event()


def holds(state: State) -> State:
    """Takes a thread until the test releases it."""
    released.wait(30)
    return {}


def notes(state: State) -> State:
    entered.append("noted")
    return {}


def invokes(state: State) -> State:
    """Invokes a graph in its thread when the test lets it."""
    entered.append("invokes")
    released.wait(30)
    noting.invoke({})
    return {}


async def tries_again(state: State) -> State:
    entered.append("tried")
    if entered.count("tried") == 1:
        raise ConnectionError("the first try fails")
    return {}


holding = single(holds)
noting = single(notes)
invoking = single(invokes)
trying = (
    StateGraph(State)
    .add_node("node", tries_again, retry_policy=RetryPolicy(initial_interval=0.5, jitter=False))
    .add_edge(START, "node")
    .compile()
)
model = GenericFakeChatModel(messages=iter(AIMessage("one two three", id=f"m{n}") for n in range(1000)))


async def speaks(state: MessagesState) -> Any:
    return {"messages": [await model.ainvoke(state["messages"])]}


speaking = StateGraph(MessagesState).add_node("model", speaks).add_edge(START, "model").compile()


async def remembers(state: State) -> State:
    store = get_store()
    await store.aput(("notes",), "a", {"text": "x"})
    found = await store.aget(("notes",), "a")
    return {"answer": None if found is None else found.value}


async def remembers_both(state: State) -> State:
    store = get_store()
    _, found = await asyncio.gather(store.aput(("notes",), "a", {"text": "x"}), store.aget(("notes",), "a"))
    return {"answer": None if found is None else found.value}


class Keeper:
    """Keeps the first store that it gets, as managers of memories do."""

    store: BaseStore | None = None


async def remembers_by_kept(state: State) -> State:
    Keeper.store = Keeper.store or get_store()
    await Keeper.store.aput(("notes",), "kept", {"text": "x"})
    await asyncio.to_thread(Keeper.store.put, ("notes",), "threads", {"text": "x"})
    return {"answer": None}


async def remembers_too_late(state: State) -> State:
    Keeper.store = get_store()
    return {"answer": None}


remembering_by_kept = single(remembers_by_kept)
remembering_too_late = single(remembers_too_late)
remembering = single(remembers)
remembering_both = single(remembers_both)


def writes_chunks(state: State) -> State:
    write = get_stream_writer()
    for n in range(3):
        write(n)
    return {"steps": ["wrote"]}


chunks = single(writes_chunks)


class Question(TypedDict, total=False):
    question: str


class Answer(TypedDict, total=False):
    answer: str


@dataclass
class Needed:
    said: str


def repeats(state: Needed) -> dict[str, str]:
    return {"said": state.said * 2}


# Without `said` there is no state of which its node could be called.
needing = StateGraph(Needed).add_node("node", repeats).add_edge(START, "node").compile()


class Private(Question, Answer, total=False):
    note: str


def thinks(state: Private) -> Private:
    return {"note": "margin"}


def answers(state: Private) -> Private:
    return {"answer": "12"}


private = (
    StateGraph(Private, input_schema=Question, output_schema=Answer)
    .add_sequence([thinks, answers])
    .add_edge(START, "thinks")
    .compile()
)


@dataclass
class Context:
    model: str = "default"
    n: int = 3


def tells_context(state: State, runtime: Runtime[Context]) -> State:
    return {"answer": asdict(runtime.context)}


contextual = StateGraph(State, context_schema=Context).add_node("node", tells_context).set_entry_point("node").compile()


class Opaque(TypedDict):
    word: str
    callback: Callable[[], None]


opaque = StateGraph(Opaque).add_node("node", lambda state: {}).set_entry_point("node").compile()
contextual_outer = (
    StateGraph(State, context_schema=Context).add_node("inner", contextual).set_entry_point("inner").compile()
)


def told(**given: Any) -> Any:
    def node(state: State) -> State:
        return {"answer": {name: type(value).__name__ for name, value in given.items()}}

    return single(node)


def keyword_factory(*, config: RunnableConfig) -> Any:
    return told(config=config)


def runtime_factory(rt: sdk_runtime.ServerRuntime[Context], settings: RunnableConfig) -> Any:
    context = rt.execution_runtime.context if rt.execution_runtime else None
    return told(rt=rt, settings=settings, context=context)


def annotated_factory(it: Annotated[Rt, "of the server"], /) -> Any:
    return told(it=it)


class Factories:
    def __call__(self, config: RunnableConfig) -> Any:
        return told(config=config)


object_factory = Factories()
partial_factory = functools.partial(runtime_factory, settings={})


def returns_message(state: MessagesState) -> Any:
    return {"messages": [AIMessage("just returned", id="r1")]}


def names_chunks_node(state: State) -> State:
    write = get_stream_writer()
    write({"name": "a", "more": 1})
    write({"more": 1})
    return {}


returning = StateGraph(MessagesState).add_node("node", returns_message).add_edge(START, "node").compile()
names_chunks = single(names_chunks_node)


def fan_out(state: State) -> list[Send]:
    return [Send("each", {"limit": n}) for n in range(8)]


def each(state: State) -> State:
    time.sleep((7 - state.get("limit", 0)) / 200)
    return {"steps": [str(state.get("limit"))]}


fanned = StateGraph(State).add_node("each", each).add_conditional_edges(START, fan_out, ["each"]).compile()


@task
async def double(value: int) -> int:
    entered.append("doubled")
    return value * 2


@entrypoint()
async def functional(value: int) -> int:
    doubled = await double(value)
    interrupt("really?")
    return doubled


@contextlib.asynccontextmanager
async def factory(config: RunnableConfig) -> AsyncIterator[Any]:
    task_at_start = asyncio.current_task()
    entered.append("factory")
    yield graph
    left.append("same task" if asyncio.current_task() is task_at_start else "another task")


def plain_factory() -> Any:
    return two_steps()


def factory_of_nothing() -> Any:
    return 42


not_a_graph = 42
