"""
The threads of synchronous nodes, conditional edges and tools. asyncio's own pool has a few threads per core, so some
nodes that wait would stop all others; 256 waiting threads cost 5 MB. A synchronous node cannot be stopped: its thread
continues when its run has ended, and is counted here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from .node_gate import current_gate

THREADS = 256
# Threads do not wake the event loop: it looks whether they have ended.
LOOK_S = 0.02
P = ParamSpec("P")
T = TypeVar("T")


class SlotThreads(ThreadPoolExecutor):
    """`slot_now`: the slot whose code calls."""

    def __init__(self, slot_now: Callable[[], int], threads: int = THREADS) -> None:
        super().__init__(threads, "weft")
        self.threads, self.slot_now = threads, slot_now
        self.in_use: Counter[int] = Counter()
        self.counting = Lock()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        slot = self.slot_now()
        future = super().submit(behind_gate(fn), *args, **kwargs)
        with self.counting:
            self.in_use[slot] += 1

        def done(_: Future[Any]) -> None:
            with self.counting:
                self.in_use[slot] -= 1
                if self.in_use[slot] <= 0:
                    del self.in_use[slot]

        future.add_done_callback(done)
        return future

    async def unused(self, slot: int, until: float) -> None:
        """Returns when no thread executes code of this slot, or at this time of the loop."""
        loop = asyncio.get_running_loop()
        while self.in_use[slot] > 0 and loop.time() < until:
            await asyncio.sleep(LOOK_S)

    def is_exhausted(self, active: Callable[[int], bool]) -> bool:
        """More than half of the threads execute nodes of ended runs. `active`: whether the slot has a run."""
        ended = sum(count for slot, count in list(self.in_use.items()) if slot != 0 and not active(slot))
        return ended > self.threads // 2


def behind_gate(fn: Callable[P, T]) -> Callable[P, T]:
    """A node that may start now, but waits for a thread: when it has one, the lease may be older."""
    gate = current_gate.get()
    if gate is None or not gate.may_start():
        return fn

    def node(*args: P.args, **kwargs: P.kwargs) -> T:
        gate.wait_in_thread()
        return fn(*args, **kwargs)

    return node
