"""The host's end of the pipe: dispatches frames to runs and calls."""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections.abc import Coroutine
from typing import Any

from .app.loopback import current_user
from .call import answer_call
from .frames import FromHost, Start, Stop, ToHost
from .limits import CallFailure
from .node_gate import NodeGate, current_gate
from .packed import pack, read_json, unpack
from .port import Host
from .render import error_of, render
from .run import Run
from .watchdog import Watchdog

# Starts in one turn of the event loop: a crowd that starts together ends together.
PER_TURN = 4


class Server:
    def __init__(self, host: Host, watchdog: Watchdog) -> None:
        self.host, self.watchdog = host, watchdog
        self.runs: dict[int, Run] = {}
        # The slots of calls that have no answer yet.
        self.calls: set[int] = set()
        # A task without a reference may be collected.
        self.tasks: set[asyncio.Task[None]] = set()
        # Start frames by slot, in the order of their arrival: flags, when the lease was confirmed, body.
        self.starting: dict[int, tuple[int, int, bytes]] = {}
        self.is_retiring = False
        if not host.gates.guard():
            print("This version of langgraph starts nodes unguarded after a lost connection.", file=sys.stderr)
        self.handlers = {
            ToHost.START: self.on_start,
            ToHost.ANSWER: self.on_answer,
            ToHost.CANCEL: self.on_cancel,
            ToHost.PING: self.on_ping,
            ToHost.CALL: self.on_call,
            ToHost.CONFIRM: self.on_confirm,
            ToHost.PAUSE: self.on_pause,
            ToHost.RESUME: self.on_resume,
        }

    def on_frame(self, kind: int, flags: int, slot: int, id: int, body: bytes) -> None:
        if (handler := self.handlers.get(kind)) is None:  # type: ignore[call-overload]
            return
        try:
            handler(flags, slot, id, body)
        except Exception as error:
            self.on_broken(slot, error)

    def on_broken(self, slot: int, error: BaseException) -> None:
        """A callback failed: it costs the run of its slot, never the host, whose other runs go on."""
        traceback.print_exception(error)
        if (run := self.runs.get(slot)) is not None:
            run.fail(error)

    def on_start(self, flags: int, slot: int, id: int, body: bytes) -> None:
        if not self.starting:
            self.host.loop.call_soon(self.admit)
        self.starting[slot] = (flags, id, body)

    def admit(self) -> None:
        for slot in list(self.starting)[:PER_TURN]:
            self.begin(slot)
        if self.starting:
            self.host.loop.call_soon(self.admit)

    def begin(self, slot: int) -> None:
        flags, confirmed_at, body = self.starting.pop(slot)
        try:
            start, newest = unpack(body)
            run = self.runs[slot] = Run(self.host, slot, confirmed_at, start, newest, flags == Start.RECORDED)
            task = self.spawn(slot, run.execute(), run.gate, start.get("user"))
            task.add_done_callback(lambda task: self.on_end(slot, task))
        except Exception as error:
            traceback.print_exception(error)
            self.runs.pop(slot, None)
            self.host.gates.close(slot)
            self.host.pipe.send(FromHost.FINISH, slot=slot, body=unstarted(error))

    def on_end(self, slot: int, task: asyncio.Task[None]) -> None:
        run = self.runs.pop(slot, None)
        if run is not None and (task.cancelled() or task.exception() is not None):
            # Its finish failed. The supervisor drops a second one.
            error = asyncio.CancelledError("cancelled") if task.cancelled() else task.exception()
            body = unstarted(error or RuntimeError(), run.events.last_id())
            self.host.pipe.send(FromHost.FINISH, slot=slot, body=body)
        self.host.gates.close(slot)
        if self.is_retiring or not self.host.threads.is_exhausted(lambda slot: slot in self.runs or slot in self.calls):
            return
        self.is_retiring = True
        print("Nodes of ended runs occupy more than half of the threads of this host: it takes no further runs.")
        self.host.pipe.send(FromHost.RETIRE)

    def on_answer(self, flags: int, slot: int, id: int, body: bytes) -> None:
        self.host.on_answer(id, flags, body)

    def on_cancel(self, flags: int, slot: int, id: int, body: bytes) -> None:
        if slot in self.starting:
            self.begin(slot)
        if (run := self.runs.get(slot)) is not None:
            run.cancel(flags == Stop.TIMEOUT)

    def on_confirm(self, flags: int, slot: int, id: int, body: bytes) -> None:
        if slot in self.starting:
            start_flags, confirmed_at, start = self.starting[slot]
            self.starting[slot] = (start_flags, max(confirmed_at, id), start)
        self.host.gates.confirm(slot, id)

    def on_pause(self, flags: int, slot: int, id: int, body: bytes) -> None:
        self.host.pipe.pause(slot)

    def on_resume(self, flags: int, slot: int, id: int, body: bytes) -> None:
        self.host.pipe.resume(slot)

    def on_ping(self, flags: int, slot: int, id: int, body: bytes) -> None:
        """Measures one whole turn of the event loop: the current delay of a new event."""
        asked, loop = time.perf_counter(), self.host.loop

        def pong() -> None:
            self.host.pipe.send(FromHost.PONG, count=round((time.perf_counter() - asked) * 1000))

        loop.call_soon(lambda: loop.call_soon(pong))

    def on_call(self, flags: int, slot: int, id: int, body: bytes) -> None:
        self.calls.add(slot)
        self.spawn(slot, self.answer(slot, id, body)).add_done_callback(lambda _: self.calls.discard(slot))

    async def answer(self, slot: int, id: int, body: bytes) -> None:
        """Each call gets exactly one answer."""
        send = self.host.pipe.send
        try:
            send(FromHost.CALLED, 0, slot, id, body=await answer_call(self.host, slot, read_json(body)))
        except CallFailure as error:
            send(FromHost.CALLED, 1, slot, id, body=render({"code": error.code, "detail": error.detail}))
        except BaseException as error:  # Also SystemExit and a cancel.
            traceback.print_exception(error)
            shown = error_of(error)
            failure = {"code": "internal", "detail": f"{shown['error']}: {shown['message']}"}
            send(FromHost.CALLED, 1, slot, id, body=render(failure))

    def spawn(
        self, slot: int, work: Coroutine[Any, Any, None], gate: NodeGate | None = None, user: Any = None
    ) -> asyncio.Task[None]:
        """Starts a task: its code is that of the slot, its nodes pass the gate, and it calls the API as the user."""
        self.watchdog.use(1)
        context = self.watchdog.enter(slot)
        context.run(current_gate.set, gate)
        context.run(current_user.set, user)
        task = self.host.loop.create_task(work, context=context)
        self.tasks.add(task)
        task.add_done_callback(self.on_task_end)
        return task

    def on_task_end(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self.watchdog.use(-1)
        if not task.cancelled() and (error := task.exception()) is not None:
            traceback.print_exception(error)


def unstarted(error: BaseException, last_event_id: int = -1) -> bytes:
    """The finish of a run that reports no state (FinishHead, schemas/host.ts); -1: it has sent no event."""
    head: dict[str, Any] = {"status": "error", "error": error_of(error), "last_event_id": last_event_id}
    nothing: dict[str, Any] = {
        "head": None,
        "next": [],
        "interrupts": {},
        "values_size": 0,
        "rest_size": 0,
        "save_size": 0,
    }
    return pack(render(head | nothing))
