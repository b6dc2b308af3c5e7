"""
Detects which run holds the event loop of the host while the loop is blocked, which run ends the process, and when the
memory limit is reached. A thread checks 20 times a second whether the loop has turned; if it has not, it asks which
task the loop executes, and which slot that is. It reports to the supervisor over a dedicated pipe, so the event loop
takes no part in it.

Native code that holds the interpreter lock also stops this thread: it is attributed when it returns. Not detected: a
crash in native code within 100 ms, and a process that the kernel kills for its memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import sys
import threading
import time
from contextvars import Context, ContextVar, copy_context
from typing import Any

import orjson

from .frames import FromHost, frame_bytes

TICK_S = 0.05
IDLE_TICK_S = 5.0
# Blocks are reported from this duration on: if the process dies now, this slot is the cause.
HELD_S = 0.1
AGAIN_S = 1.0
# The thread stays awake this long without a run, because the next run may start at once.
DOZE_S = 2.0
MEMORY_S = 0.5
MAX_MESSAGE = 2_000
PAGE = resource.getpagesize()
# The slot whose code this is; 0 = none. Every task and thread that the code starts has a copy.
current_slot: ContextVar[int] = ContextVar("weft_slot", default=0)


class Watchdog:
    """`fd`: descriptor of the pipe; None: no supervisor reads reports. `memory_mb`: 0 = no limit."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int | None, memory_mb: int) -> None:
        self.loop, self.fd, self.memory_mb = loop, fd, memory_mb
        self.turns = 0
        self.busy = 0
        self.has_spoken = False
        self.pid, self.parent = os.getpid(), os.getppid()
        self.wake = threading.Event()
        self.timer: asyncio.TimerHandle | None = None
        if fd is not None:
            threading.Thread(target=Observer(self).observe, name="weft-watchdog", daemon=True).start()

    def enter(self, slot: int) -> Context:
        """A context for code of this slot, and for everything that it starts."""
        context = copy_context()
        context.run(current_slot.set, slot)
        return context

    def use(self, change: int) -> None:
        """Changes the number of slots in use: without any the thread checks only rarely."""
        was_busy, self.busy = self.busy > 0, self.busy + change
        if was_busy == (self.busy > 0):
            return
        if self.timer is not None:
            self.timer.cancel()
        self.turn()
        self.wake.set()

    def turn(self) -> None:
        self.turns += 1
        self.timer = self.loop.call_later(TICK_S if self.busy else IDLE_TICK_S, self.turn)

    def holder(self) -> int:
        """The slot of the task that the loop executes; 0 = none."""
        try:
            task = asyncio.current_task(self.loop)
        except RuntimeError:
            return 0
        return 0 if task is None else context_of(task).get(current_slot, 0)

    def last(self, error: str, message: str, slot: int | None = None) -> None:
        """Reports why the process ends. Only the first call counts, and no call of a forked child."""
        if self.has_spoken or os.getpid() != self.pid:
            return
        self.has_spoken = True
        body = orjson.dumps({"error": error, "message": message[:MAX_MESSAGE]}, default=str)
        self.send(FromHost.LAST, current_slot.get() if slot is None else slot, body=body)

    def send(self, kind: FromHost, slot: int, count: int = 0, body: bytes = b"") -> None:
        if self.fd is None:
            return
        # The supervisor may have closed the pipe.
        with contextlib.suppress(OSError):
            os.write(self.fd, frame_bytes(kind, slot=slot, count=count, body=body))


def context_of(task: asyncio.Task[Any]) -> Context:
    """Of the objects that a task refers to, its context is the first one of that type."""
    if sys.version_info >= (3, 12):
        return task.get_context()
    return next(each for each in gc.get_referents(task) if isinstance(each, Context))


class Observer:
    """The thread of a watchdog. It never waits for the event loop."""

    def __init__(self, watchdog: Watchdog) -> None:
        self.watchdog = watchdog
        now = time.monotonic()
        self.turns = -1
        # When the loop was last seen to turn, and when this thread last looked.
        self.turned, self.looked, self.used, self.measured = now, now, now, now
        self.spent = time.process_time()
        # The slot that holds the loop, since when, and the duration (s) at which the next report is due.
        self.slot, self.since, self.due = 0, now, HELD_S

    def observe(self) -> None:
        watchdog = self.watchdog
        while True:
            self.look()
            is_dozing = watchdog.busy == 0 and time.monotonic() - self.used > DOZE_S
            watchdog.wake.wait(IDLE_TICK_S if is_dozing else TICK_S)
            if watchdog.wake.is_set():
                watchdog.wake.clear()
                self.turned = self.looked = self.used = time.monotonic()

    def look(self) -> None:
        watchdog, now = self.watchdog, time.monotonic()
        tick = TICK_S if watchdog.busy else IDLE_TICK_S
        # A blocked loop does not detect the death of its supervisor, so this thread checks for it.
        if os.getppid() != watchdog.parent:
            os.kill(watchdog.pid, signal.SIGKILL)
        if self.has_slept(now, tick) or watchdog.turns != self.turns:
            self.turns, self.turned = watchdog.turns, now
            self.release()
        elif now - self.turned >= tick + HELD_S:
            self.report(now)
        if watchdog.busy:
            self.used = now
        if watchdog.memory_mb and now - self.measured >= MEMORY_S:
            self.measured = now
            self.check_memory()

    def has_slept(self, now: float, tick: float) -> bool:
        """
        This thread did not run either. A process that was stopped says nothing about its loop; one that used the
        processor meanwhile executed native code, which held the interpreter lock until now.
        """
        gap, spent = now - self.looked, time.process_time() - self.spent
        self.looked, self.spent = now, self.spent + spent
        return gap > 10 * tick and spent < gap / 2

    def report(self, now: float) -> None:
        holder = self.watchdog.holder()
        if holder != self.slot:
            # A second holder has held the loop from now at the earliest.
            since = self.turned if self.slot == 0 else now
            self.release()
            self.slot, self.since = holder, since
        held = now - self.since
        if self.slot == 0 or held < self.due:
            return
        self.watchdog.send(FromHost.HELD, self.slot, count=round(held * 1000))
        self.due = max(AGAIN_S, (held // AGAIN_S + 1) * AGAIN_S)

    def release(self) -> None:
        if self.slot and self.due > HELD_S:
            self.watchdog.send(FromHost.FREE, 0)
        self.slot, self.due = 0, HELD_S

    def check_memory(self) -> None:
        watchdog = self.watchdog
        if resident() <= watchdog.memory_mb * 1024 * 1024:
            return
        sentence = f"the graph host used up its {watchdog.memory_mb} MB of memory (WEFT_HOST_MEMORY_MB)"
        watchdog.last("OutOfMemory", sentence, watchdog.holder())
        os.kill(watchdog.pid, signal.SIGKILL)


def resident() -> int:
    """Bytes of memory that the process holds; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return 0
