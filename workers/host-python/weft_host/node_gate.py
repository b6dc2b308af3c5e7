"""
In every durability, no node starts 11 s after the last confirmation of its run's lease: a resource worker takes a run
from its holder after 12 s without a heartbeat. A worker that is cut off or paused therefore executes at most one node
of a run beside its successor. The nodes wait until a heartbeat is confirmed, or until the run is stopped.

The gate wraps the function that the library calls for each task: nodes of graphs and subgraphs, and tasks of the
functional API. It knows how many of them execute.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from .node_spans import NodeSpans

CONFIRMED_MS = 11_000


def monotonic_ms() -> int:
    """The machine's monotonic clock: both ends of a pipe read the same."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000


class NodeGate:
    """`spans`: measures the nodes; None: the run is not traced."""

    def __init__(self, gates: NodeGates, confirmed_at: int, spans: NodeSpans | None) -> None:
        self.gates, self.confirmed_at, self.spans = gates, confirmed_at, spans

    def is_confirmed(self) -> bool:
        return monotonic_ms() - max(self.confirmed_at, self.gates.confirmed_at) < CONFIRMED_MS

    async def confirmed(self) -> None:
        """Returns when a node may start. A stopped run is cancelled here."""
        while not self.is_confirmed():
            await asyncio.shield(self.gates.next_confirmation())


class NodeGates:
    """`slot_now`: the slot whose code calls."""

    def __init__(self, slot_now: Callable[[], int]) -> None:
        self.slot_now = slot_now
        self.gates: dict[int, NodeGate] = {}
        self.confirmed_at = 0
        self.waiting: asyncio.Future[None] | None = None

    def open(self, slot: int, confirmed_at: int, spans: NodeSpans | None = None) -> None:
        """`confirmed_at`: when the lease of the run was last confirmed (monotonic)."""
        self.gates[slot] = NodeGate(self, confirmed_at, spans)

    def close(self, slot: int) -> None:
        self.gates.pop(slot, None)

    def confirm(self, at: int) -> None:
        """The leases of all runs were confirmed at this time (monotonic)."""
        self.confirmed_at = max(self.confirmed_at, at)
        waiting, self.waiting = self.waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def next_confirmation(self) -> asyncio.Future[None]:
        if self.waiting is None:
            self.waiting = asyncio.get_running_loop().create_future()
        return self.waiting

    def guard(self) -> bool:
        """Makes every node pass the gate of the slot that executes it. False: this library has no place for it."""
        try:
            from langgraph.pregel import _runner as found
        except ImportError:
            return False
        runner: Any = found
        run_task: Callable[..., Awaitable[Any]] | None = getattr(runner, "arun_with_retry", None)
        if run_task is None:
            return False
        # The gates of an earlier host in this process.
        unguarded = getattr(run_task, "unguarded", run_task)

        async def guarded(task: Any, *args: Any, **options: Any) -> Any:
            gate = self.gates.get(self.slot_now())
            if gate is not None and not gate.is_confirmed():
                await gate.confirmed()
            # The library's own tasks are no nodes: `__start__` writes the input.
            if gate is None or gate.spans is None or task.name.startswith("__"):
                return await unguarded(task, *args, **options)
            with gate.spans.measure(task.id, task.name):
                return await unguarded(task, *args, **options)

        guarded.__dict__["unguarded"] = unguarded
        runner.arun_with_retry = guarded
        return True
