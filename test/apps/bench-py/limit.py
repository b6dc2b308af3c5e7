"""
The limit of a machine: the graphs invoked directly by the library in one process, as scripts/bench/limit-main.ts does
in JavaScript. Arguments: kind, seconds of warm-up, seconds of the window. Prints the figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import graphs
import uvloop
from langgraph.checkpoint.memory import InMemorySaver

CLIENTS = {
    "invoke": 64,
    "invoke-saver": 64,
    "steps-saver": 64,
    "first-event": 1,
    "first-event-16": 16,
    "tokens": 16,
    "custom": 50,
}
# Calls `unit` for each completed unit; may return its latency in ms.
Work = Callable[[int, int, Callable[[], None]], Awaitable[float | None]]


def require(condition: bool, why: str) -> None:
    if not condition:
        raise SystemExit(why)


def invoking(graph: Any, input_of: Callable[[int], Any], check: Callable[[int, int, Any], bool], saves: bool) -> Work:
    if saves:
        graph.checkpointer = InMemorySaver()
    threads = [str(uuid4()) for _ in range(64)]

    async def work(client: int, n: int, unit: Callable[[], None]) -> None:
        values = await graph.ainvoke(input_of(n), {"configurable": {"thread_id": threads[client]}})
        require(check(client, n, values), "another answer came back")
        unit()

    return work


def streaming(graph: Any, mode: str, input: Any, count: int) -> Work:
    async def work(client: int, n: int, unit: Callable[[], None]) -> None:
        units = 0
        async for chunk in graph.astream(input, stream_mode=mode):
            # The last chunk of a model is empty.
            if mode == "messages" and not chunk[0].content:
                continue
            units += 1
            unit()
        require(units == count, f"{units} of {count} came")

    return work


async def first(client: int, n: int, unit: Callable[[], None]) -> float | None:
    since, latency = time.perf_counter(), None
    async for _ in graphs.echo.astream({"text": f"text {n}"}, stream_mode="updates"):
        latency = latency or (time.perf_counter() - since) * 1000
    unit()
    return latency


def work_of(kind: str) -> Work:
    if kind.startswith("first-event"):
        return first
    if kind == "tokens":
        return streaming(graphs.chat, "messages", {"messages": [{"role": "user", "content": "100"}]}, 100)
    if kind == "custom":
        return streaming(graphs.custom, "custom", {"count": 1000}, 1000)
    if kind == "steps-saver":
        done = [0] * 64

        def check(client: int, n: int, values: Any) -> bool:
            done[client] += 4
            return values["done"] == done[client]

        return invoking(graphs.steps, lambda n: {"count": 4}, check, saves=True)
    return invoking(
        graphs.echo,
        lambda n: {"text": f"text {n}"},
        lambda client, n, values: values["seen"] == f"text {n}",
        saves=kind == "invoke-saver",
    )


async def measure(kind: str, warm: float, seconds: float) -> dict[str, Any]:
    work, samples, units, turn, spent = work_of(kind), [], 0, 0, None
    begin = time.perf_counter() + warm
    end = begin + seconds

    def is_counted(now: float) -> bool:
        nonlocal end, spent
        if now < begin:
            return False
        # A window without a completed operation has no value, so it lasts until the first one.
        if now > end and units == 0:
            end = now
        if now > end:
            return False
        spent = time.process_time() if spent is None else spent
        return True

    def unit() -> None:
        nonlocal units
        if is_counted(time.perf_counter()):
            units += 1

    async def client(index: int) -> None:
        nonlocal turn
        while (since := time.perf_counter()) < end or units == 0:
            turn += 1
            latency = await work(index, turn, unit)
            now = time.perf_counter()
            if is_counted(now):
                samples.append((now - since) * 1000 if latency is None else latency)

    await asyncio.gather(*(client(index) for index in range(CLIENTS[kind])))
    return {
        "perSecond": units / (end - begin),
        "samples": samples,
        "cpu": time.process_time() - (spent or 0),
        "count": units,
    }


if __name__ == "__main__":
    kind, warm, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    print(json.dumps(uvloop.run(measure(kind, warm, seconds))))
