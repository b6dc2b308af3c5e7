"""The state that the parts of one run share."""

from __future__ import annotations

import asyncio
from typing import Any

from .factory import AnyGraph
from .frames import Chunk, FromHost
from .limits import Refused
from .objects import JsonObject
from .port import Host
from .render import render
from .spans import Spans
from .storage.item_store import ItemStore
from .storage.saver import WeftSaver
from .stream import Events
from .streaming.events import RunEvents
from .streaming.lifecycle import Lifecycle


class RunState:
    """`confirmed_at`: of its lease (monotonic). `start`: StartHead (schemas/host.ts)."""

    def __init__(self, host: Host, slot: int, confirmed_at: int, start: JsonObject, recorded: bool) -> None:
        self.host, self.slot, self.start = host, slot, start
        self.events = Events(start["first_id"], start["first_seq"], self.send_chunk)
        self.v2 = RunEvents(self.events, start["graph_id"]) if start["events"] else None
        modes = start["kwargs"]["stream_mode"]
        self.lifecycle = Lifecycle(self.events) if "lifecycle" in modes else None
        self.spans = (
            Spans(
                start["graph_id"],
                start["attempt"],
                host.loop,
                self.send_spans,
                lambda: self.stopped is not None,
                start.get("sealed", False),
            )
            if recorded
            else None
        )
        self.gate = host.gates.open(slot, confirmed_at)
        # None: a run without a thread.
        self.saver: WeftSaver | None = None
        self.store: ItemStore | None = None
        self.graph: AnyGraph | None = None
        # The values that the graph yielded last.
        self.values: Any = None
        self.has_values = False
        # It yielded an interrupt.
        self.is_paused = False
        # URLs for feedback, by their keys; None: none were asked for, or LangSmith gave none.
        self.feedback: dict[str, str] | None = None
        # A later attempt holds the run.
        self.is_lost = False
        # Why it cannot go on: a save failed, or something is too large.
        self.broken: BaseException | None = None
        # Its finish was sent.
        self.over = False
        # `cancelled` or `timeout`, once it was ordered to stop.
        self.stopped: str | None = None
        self.stopping: asyncio.Future[None] = host.loop.create_future()

    def send_chunk(self, id: int, count: int, body: bytes, v2: bool) -> None:
        self.host.pipe.send(FromHost.CHUNK, Chunk.V2 if v2 else 0, self.slot, id, count, body)

    def send_spans(self, spans: JsonObject) -> None:
        self.host.pipe.send(FromHost.SPANS, slot=self.slot, body=render(spans))

    def send_checkpoint(self, checkpoint_id: str) -> None:
        id = self.events.last_id()
        self.host.pipe.send(FromHost.CHECKPOINT, slot=self.slot, id=id, body=checkpoint_id.encode())

    def cancel(self, timeout: bool) -> None:
        """Stops it: it finishes as `interrupted`, or as `timeout`."""
        self.stopped = self.stopped or ("timeout" if timeout else "cancelled")
        self.halt()

    def fail(self, error: BaseException) -> None:
        """A save failed, or something is too large."""
        if isinstance(error, Refused):
            self.is_lost = True
        else:
            self.broken = self.broken or error
        self.halt()

    def halt(self) -> None:
        self.gate.stop()
        if not self.stopping.done():
            self.stopping.set_result(None)
