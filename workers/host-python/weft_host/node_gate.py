"""
In every durability, no node starts 11 s after the last confirmation of its run's lease: a resource worker takes a run
from its holder after 12 s without a heartbeat. A worker that is cut off or paused therefore starts no node beside its
successor, and what executes then is at most the node that was under way. The nodes wait until a heartbeat is confirmed,
or until the run is stopped. A stopped run starts no node any more, whatever is confirmed.

A confirmation counts from when its heartbeat was sent, not from when it arrived. Its clock goes on while a process is
paused; what was confirmed before the machine was suspended is void.

The gate wraps the functions that the library calls for each task: nodes of graphs and subgraphs, and tasks of the
functional API.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

CONFIRMED_MS = 11_000
# Half of what lies between the last start of a node and a takeover.
LEAST_SUSPEND_MS = 500
# A thread cannot await: it looks whether its node may start.
LOOK_S = 0.02
BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def monotonic_ms() -> int:
    """The machine's monotonic clock: both ends of a pipe read the same."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000


def boot_ms() -> int:
    """A clock that also goes on while the machine is suspended."""
    return time.clock_gettime_ns(BOOT_CLOCK) // 1_000_000


class Suspends:
    """Notices that the machine was suspended, when the monotonic clock stands still."""

    def __init__(self, monotonic: Callable[[], int] = monotonic_ms, boot: Callable[[], int] = boot_ms) -> None:
        self.monotonic, self.boot = monotonic, boot
        self.asleep = boot() - monotonic()
        self.noticed = 0

    def resumed_at(self) -> int:
        """When the end of the last suspend was noticed (monotonic); before one 0."""
        now = self.monotonic()
        asleep = self.boot() - now
        if asleep - self.asleep >= LEAST_SUSPEND_MS:
            self.asleep, self.noticed = asleep, now
        return self.noticed


class NodeGate:
    """The gate of one run."""

    def __init__(self, suspends: Suspends, confirmed_at: int) -> None:
        self.suspends, self.confirmed_at = suspends, confirmed_at
        self.is_stopped = False
        self.has_ended = False
        self.waiting: list[asyncio.Future[None]] = []

    def may_start(self) -> bool:
        return not self.is_stopped and (self.has_ended or self.is_confirmed())

    def is_confirmed(self) -> bool:
        return monotonic_ms() - self.confirmed_at < CONFIRMED_MS and self.confirmed_at >= self.suspends.resumed_at()

    async def wait(self) -> None:
        """Returns when a node may start. What waits in a stopped run is cancelled, at its end at the latest."""
        while not self.may_start():
            if self.has_ended:
                raise asyncio.CancelledError("The run has ended")
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.append(changed)
            await changed

    def wait_in_thread(self) -> None:
        """As `wait`. The event loop, which would have to read the confirmation, is not waited for."""
        while not self.may_start() and not is_on_loop():
            if self.is_stopped:
                raise asyncio.CancelledError("The run was stopped")
            time.sleep(LOOK_S)

    def confirm(self, at: int) -> None:
        self.confirmed_at = max(self.confirmed_at, at)
        self.wake()

    def stop(self) -> None:
        """No node of the run starts from now on."""
        self.is_stopped = True

    def end(self) -> None:
        """The run has ended: what it left behind has no lease. If it was stopped, that starts no node."""
        self.has_ended = True
        self.wake()

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, []
        for changed in waiting:
            # Code of the run may have an event loop of its own, which may have ended.
            with contextlib.suppress(RuntimeError):
                changed.get_loop().call_soon_threadsafe(settle, changed)


# The gate of the run whose code this is.
current_gate: ContextVar[NodeGate | None] = ContextVar("weft_gate", default=None)


class Gated:
    """The code of a task that may be tried again: each try passes the gate."""

    def __init__(self, gate: NodeGate, proc: Any) -> None:
        self.gate, self.proc = gate, proc

    def invoke(self, *args: Any, **options: Any) -> Any:
        self.gate.wait_in_thread()
        return self.proc.invoke(*args, **options)

    async def ainvoke(self, *args: Any, **options: Any) -> Any:
        await self.gate.wait()
        return await self.proc.ainvoke(*args, **options)

    async def astream(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        await self.gate.wait()
        async for each in self.proc.astream(*args, **options):
            yield each


class NodeGates:
    """The gates of the runs of a host, by slot."""

    def __init__(self) -> None:
        self.gates: dict[int, NodeGate] = {}
        self.suspends = Suspends()

    def open(self, slot: int, confirmed_at: int) -> NodeGate:
        """`confirmed_at`: when the lease of the run was last confirmed (monotonic)."""
        gate = self.gates[slot] = NodeGate(self.suspends, confirmed_at)
        return gate

    def close(self, slot: int) -> None:
        if (gate := self.gates.pop(slot, None)) is not None:
            gate.end()

    def confirm(self, slot: int, at: int) -> None:
        """The lease of the run in this slot was confirmed by a heartbeat that was sent at this time (monotonic)."""
        if (gate := self.gates.get(slot)) is not None:
            gate.confirm(at)

    def guard(self) -> bool:
        """Makes every node pass the gate of the run that executes it. False: this library has no place for it."""
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

        async def guarded(task: Any, retry_policy: Any, *args: Any, **options: Any) -> Any:
            gate = current_gate.get()
            if gate is not None:
                if not gate.may_start():
                    await gate.wait()
                task = each_try_gated(gate, task, retry_policy)
            return await unguarded(task, retry_policy, *args, **options)

        guarded.__dict__["unguarded"] = unguarded
        runner.arun_with_retry = guarded
        self.guard_threads(runner)
        return True

    def guard_threads(self, runner: Any) -> None:
        """The same for graphs that synchronous nodes invoke."""
        unguarded = getattr(runner.run_with_retry, "unguarded", runner.run_with_retry)

        def guarded(task: Any, retry_policy: Any, *args: Any, **options: Any) -> Any:
            if (gate := current_gate.get()) is not None:
                gate.wait_in_thread()
                task = each_try_gated(gate, task, retry_policy)
            return unguarded(task, retry_policy, *args, **options)

        guarded.__dict__["unguarded"] = unguarded
        runner.run_with_retry = guarded


def each_try_gated(gate: NodeGate, task: Any, retry_policy: Any) -> Any:
    return replace(task, proc=Gated(gate, task.proc)) if task.retry_policy or retry_policy else task


def settle(changed: asyncio.Future[None]) -> None:
    if not changed.done():
        changed.set_result(None)


def is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
