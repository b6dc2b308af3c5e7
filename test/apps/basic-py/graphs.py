"""The graphs of test/apps/basic in Python, under the same names."""

from __future__ import annotations

import asyncio
import os
import time
from operator import add
from typing import Annotated, Any, TypedDict

from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.runnables import RunnableConfig
from langgraph import channels
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import get_runtime
from langgraph.types import Send, interrupt


class Text(TypedDict, total=False):
    text: Any
    seen: Any


class Numbers(TypedDict, total=False):
    steps: int
    numbers: Annotated[list[Any], add]


def graph_of(state: Any, node: Any) -> Any:
    return StateGraph(state).add_node("node", node).add_edge(START, "node").add_edge("node", END)


async def see(state: Text) -> Text:
    return {"seen": state.get("text")}


echo = graph_of(Text, see).compile()


async def count(state: Numbers) -> Numbers:
    return {"numbers": [len(state["numbers"]) + 1]}


counter = (
    StateGraph(Numbers)
    .add_node("count", count)
    .add_edge(START, "count")
    .add_conditional_edges("count", lambda state: "count" if len(state["numbers"]) < state.get("steps", 0) else END)
    .compile()
)


def extend(state: list[int], writes: list[list[int]]) -> list[int]:
    return [*state, *(n for write in writes for n in write)]


# The oldest line of langgraph has no such channel: the graph is still there, and not incremental.
incremental = channels.DeltaChannel(extend) if hasattr(channels, "DeltaChannel") else add


class Fanned(TypedDict, total=False):
    number: int
    numbers: Annotated[list[int], incremental]


async def fan_in(state: Fanned) -> Fanned:
    number = state.get("number", 0)
    await asyncio.sleep((8 - number) / 100)
    return {"numbers": [number]}


def fan_out(state: Fanned) -> list[Send]:
    return [Send("each", {"number": n}) for n in range(8)]


fan = StateGraph(Fanned).add_node("each", fan_in).add_conditional_edges(START, fan_out, ["each"]).compile()


class Chunks(TypedDict, total=False):
    count: int
    size: int
    delay_ms: int
    say: str
    done: int


async def write_chunks(state: Chunks) -> Chunks:
    write, filler = get_stream_writer(), "x" * state.get("size", 0)
    for i in range(state.get("count", 10)):
        await asyncio.sleep(state.get("delay_ms", 0) / 1000)
        write({"i": i, "filler": filler} if filler else {"i": i})
    if "say" in state:
        print(state["say"])
    return {"done": state.get("count", 10)}


chunks = graph_of(Chunks, write_chunks).compile()


class TooBadError(Exception):
    pass


class Failing(TypedDict, total=False):
    message: str
    before: bool


def good(state: Failing) -> Failing:
    return {"before": True}


def bad(state: Failing) -> Failing:
    raise TooBadError(state.get("message") or "too bad")


fail = (
    StateGraph(Failing)
    .add_node("good", good)
    .add_node("bad", bad)
    .add_edge(START, "good")
    .add_edge("good", "bad")
    .compile()
)


class Asking(TypedDict, total=False):
    question: Any
    answer: Any


def put_question(state: Asking) -> Asking:
    return {"answer": {"given": interrupt({"question": state.get("question") or "why?"})}}


ask = graph_of(Asking, put_question).compile()


def inside(state: Numbers) -> Numbers:
    get_stream_writer()({"from": "inside"})
    return {"numbers": [2]}


def asking(state: Numbers) -> Numbers:
    return {"numbers": [interrupt("a number?")]}


inner = (
    StateGraph(Numbers)
    .add_node("inside", inside)
    .add_node("asking", asking)
    .add_edge(START, "inside")
    .add_edge("inside", "asking")
    .compile()
)


def outside(state: Numbers) -> Numbers:
    return {"numbers": [1]}


nested = (
    StateGraph(Numbers)
    .add_node("outside", outside)
    .add_node("sub", inner)
    .add_edge(START, "outside")
    .add_edge("outside", "sub")
    .compile()
)


async def use_tool(given: Any) -> Numbers:
    return await counter.ainvoke(given["tool_call"]["args"])


# A tool call whose tool runs another graph.
delegate = (
    StateGraph(Numbers)
    .add_node("tools", use_tool)
    .add_conditional_edges(
        START, lambda _: [Send("tools", {"tool_call": {"id": "call-1", "args": {"steps": 1}}})], ["tools"]
    )
    .compile()
)


class Counted(TypedDict, total=False):
    count: int


async def speak(_: Counted) -> Counted:
    get_stream_writer()({"i": 2})
    return {}


speaker = graph_of(Counted, speak).compile()


@task
async def speak_once() -> None:
    get_stream_writer()({"i": 1})


async def speak_twice(_: Counted) -> Counted:
    """In a task of this node, and in a subgraph."""
    await speak_once()
    await speaker.ainvoke({})
    return {"count": 2}


tasked = graph_of(Counted, speak_twice).compile()


class Slow(TypedDict, total=False):
    ms: int
    # Waits until this file exists.
    file: str
    done: bool


async def wait(state: Slow) -> Slow:
    while "file" in state and not os.path.exists(state["file"]):
        await asyncio.sleep(0.02)
    await asyncio.sleep(state.get("ms", 1000) / 1000)
    return {"done": True}


slow = graph_of(Slow, wait).compile()


def block(state: Slow) -> Slow:
    time.sleep(state.get("ms", 1000) / 1000)
    return {"done": True}


sync = graph_of(Slow, block).compile()

model_of_tokens = FakeListChatModel(responses=["every token must arrive, also the last one."])


async def speak(state: MessagesState) -> Any:
    return {"messages": [await model_of_tokens.ainvoke(state["messages"])]}


model = graph_of(MessagesState, speak).compile()
model_of_one_word = FakeListChatModel(responses=["streamed"])


async def say(state: MessagesState) -> Any:
    return {"messages": [await model_of_one_word.ainvoke(state["messages"])]}


stream = graph_of(MessagesState, say).compile()


class Who(TypedDict, total=False):
    who: str


async def factory(config: RunnableConfig) -> Any:
    who = config.get("configurable", {}).get("who", "nobody")
    return graph_of(Who, lambda state: {"who": who})


class Seen(TypedDict, total=False):
    ask: int
    seen_config: Any


def show_config(state: Seen, config: RunnableConfig) -> Seen:
    configurable = {key: value for key, value in config["configurable"].items() if not key.startswith("__")}
    return {
        "seen_config": {
            "configurable": configurable,
            "context": get_runtime().context,
            "recursionLimit": config.get("recursion_limit"),
            "tags": config.get("tags"),
            "metadata": config["metadata"],
            "variable": os.environ.get("WEFT_TEST_VARIABLE"),
            "secrets": [name for name in os.environ if name.startswith(("NATS_", "MONGODB_"))],
        }
    }


seen_config = graph_of(Seen, show_config).compile()


class Files(TypedDict, total=False):
    notes: Annotated[list[str], add]


async def note(state: Files, config: RunnableConfig) -> Files:
    store = get_runtime().store
    assert store is not None
    await store.aput(("notes",), "last", {"text": state["notes"][-1]})
    found = await store.aget(("notes",), "last")
    names = await store.alist_namespaces(prefix=("notes",))
    return {"notes": [found.value["text"] if found else "", *("/".join(name) for name in names)]}


stored = graph_of(Files, note).compile()


@task
async def double(value: int) -> int:
    return value * 2


@entrypoint()
async def functional(value: int) -> int:
    doubled = await double(value)
    return doubled + interrupt("how much more?")


class Steps(TypedDict, total=False):
    file: str
    steps: Annotated[list[int], add]


async def step(state: Steps) -> Steps:
    """Appends the number of its step to a file: a step that is executed twice is there twice."""
    number = len(state["steps"])
    with open(state["file"], "a") as file:
        file.write(f"{number}\n")
    await asyncio.sleep(0.2)
    return {"steps": [number]}


steps = (
    StateGraph(Steps)
    .add_node("step", step)
    .add_edge(START, "step")
    .add_conditional_edges("step", lambda state: "step" if len(state["steps"]) < 20 else END)
    .compile()
)


def leave(state: Slow) -> Slow:
    os._exit(7)


exits = graph_of(Slow, leave).compile()


async def hold(state: Slow) -> Slow:
    time.sleep(state.get("ms", 1000) / 1000)
    return {"done": True}


blocks = graph_of(Slow, hold).compile()


async def eat(state: Slow) -> Slow:
    """Takes memory until the host ends."""
    eaten: list[bytes] = []
    while True:
        eaten.append(bytes(b"x" * 8_000_000))
        await asyncio.sleep(0.01)


hungry = graph_of(Slow, eat).compile()
