"""The host's end of its pipe: whole frames in both directions, and the runs that wait while it is full."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from .frame_lanes import Frame, FrameLanes
from .frames import HEAD, FrameReader, FrameTooLong, OnFrame
from .limits import LARGEST_FRAME

# Bytes in the pipe beyond which frames wait in their lanes. A body of this size fills it alone.
LARGE_FRAME = 1024 * 1024
# While more than this many bytes wait, slots pause that have more than their part in it.
FULL = 16 * LARGE_FRAME
PART = LARGE_FRAME


class Pipe(asyncio.Protocol):
    """Reads whole frames; writes the frames of one turn of the event loop together. Not for threads."""

    def __init__(self, on_frame: OnFrame, on_end: Callable[[], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.reader = FrameReader(on_frame)
        self.on_end = on_end
        self.transport: asyncio.Transport | None = None
        self.lanes = FrameLanes()
        # The parts that are written at the end of this turn, and the sum of their bytes.
        self.turn: list[bytes] = []
        self.turn_bytes = 0
        # Bytes that the transport had not written when it was last asked, which costs a walk over all of them.
        self.unwritten = 0
        self.is_flush_due = False
        # The transport takes more later, and says when.
        self.is_paused = False
        # Done when frames have left the lanes, or a slot was resumed.
        self.advanced: asyncio.Future[None] | None = None

    def send(self, kind: int, flags: int = 0, slot: int = 0, id: int = 0, count: int = 0, body: bytes = b"") -> None:
        """Sends a frame after those of its slot. Raises FrameTooLong."""
        if len(body) > LARGEST_FRAME:
            raise FrameTooLong(f"{len(body)} bytes in one piece are more than a run may send")
        frame = Frame(HEAD.pack(kind, flags, 0, slot, id, count, len(body)), body)
        if slot in self.lanes or slot in self.lanes.paused or self.is_full():
            self.lanes.add(slot, frame)
        else:
            self.enter(frame)
        self.flush_soon()

    def waiting(self) -> int:
        """Bytes that have not left this process."""
        return self.lanes.bytes + self.turn_bytes + self.buffered()

    def drained(self, slot: int) -> Awaitable[None] | None:
        """None while the pipe takes frames of this slot; else returns when it does again."""
        return self.until_drained(slot) if self.must_pause(slot) else None

    def pause(self, slot: int) -> None:
        """The supervisor takes no frames of this slot until `resume`."""
        self.lanes.pause(slot)

    def resume(self, slot: int) -> None:
        self.lanes.resume(slot)
        self.wake()
        self.flush_soon()

    def must_pause(self, slot: int) -> bool:
        if slot in self.lanes.paused:
            return True
        return self.lanes.bytes_of(slot) > PART and self.waiting() > FULL

    async def until_drained(self, slot: int) -> None:
        while self.must_pause(slot):
            if self.advanced is None:
                self.advanced = self.loop.create_future()
            await asyncio.shield(self.advanced)

    def is_full(self) -> bool:
        return self.turn_bytes + self.unwritten >= LARGE_FRAME

    def enter(self, frame: Frame) -> None:
        self.turn.append(frame.head)
        if frame.body:
            self.turn.append(frame.body)
        self.turn_bytes += frame.size()

    def flush_soon(self) -> None:
        # A transport that does not pause is full for this turn at most.
        if not self.is_flush_due and (self.turn or (self.lanes.is_ready() and not self.is_paused)):
            self.is_flush_due = True
            self.loop.call_soon(self.flush)

    def flush(self) -> None:
        self.is_flush_due = False
        self.advance()
        self.write()
        self.advance()
        self.flush_soon()

    def advance(self) -> None:
        """Frames enter the pipe while there is room in it."""
        self.unwritten = self.buffered()
        if not self.lanes.is_ready():
            return
        while not self.is_full() and (frame := self.lanes.take()) is not None:
            self.enter(frame)
        self.wake()

    def buffered(self) -> int:
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def write(self) -> None:
        parts, self.turn, self.turn_bytes = self.turn, [], 0
        if parts and self.transport is not None and not self.transport.is_closing():
            self.transport.writelines(parts)

    def wake(self) -> None:
        advanced, self.advanced = self.advanced, None
        if advanced is not None:
            advanced.set_result(None)

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        self.advance()
        self.flush_soon()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        # It pauses exactly when the pipe is full.
        self.transport.set_write_buffer_limits(high=LARGE_FRAME - 1)

    def data_received(self, data: bytes) -> None:
        self.reader.feed(data)

    def eof_received(self) -> None:
        """The supervisor sends nothing more, but reads to the end: the transport closes when it has written all."""
        for slot in list(self.lanes.paused):
            self.lanes.resume(slot)
        while (frame := self.lanes.take()) is not None:
            self.enter(frame)
        self.write()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lanes = FrameLanes()
        self.wake()
        self.on_end()
