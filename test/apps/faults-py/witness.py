"""The graph of faults/witness.mjs in Python: the same input, as far as it is used here, and the same lines."""

import asyncio
import os
import time
from operator import add
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    file: str
    key: str
    steps: int
    ms: int
    hold: int
    done: Annotated[list[int], add]


async def step(state: State, config: RunnableConfig) -> Any:
    n = len(state.get("done", [])) + 1
    known = {**config.get("configurable", {}), **config.get("metadata", {})}

    def note(mark: str) -> None:
        words = [mark, known["run_id"], known["thread_id"], known["run_attempt"], n, os.getpid()]
        words += [time.clock_gettime_ns(time.CLOCK_MONOTONIC), state["key"]]
        with open(state["file"], "a") as file:
            file.write(" ".join(str(word) for word in words) + "\n")

    note("B")
    try:
        while n == state.get("hold") and not os.path.exists(f"{state['file']}.released"):
            await asyncio.sleep(0.02)
        await asyncio.sleep(state.get("ms", 5) / 1000)
    finally:
        note("E")
    return {"done": [n]}


witness = (
    StateGraph(State)
    .add_node(step)
    .add_edge(START, "step")
    .add_conditional_edges("step", lambda state: "step" if len(state["done"]) < state.get("steps", 3) else END)
    .compile()
)
