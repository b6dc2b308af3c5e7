"""
Frames between a supervisor and its hosts (docs/pipe.md): a 24-byte little-endian head, then an opaque body. Head: kind
u8, flags u8, 2 x zero, slot u32, id u64, count u32, length u32. The constants are those of workers/pipe.ts; a test
compares both files.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Protocol, cast

from .limits import LARGEST_FRAME

HEAD = struct.Struct("<BBHIQII")
MAX_BODY = 256 * 1024 * 1024
# Runs pause while more than this many bytes wait in the pipe.
FULL = 16 * 1024 * 1024


class FromHost(IntEnum):
    HELLO = 1
    CHUNK = 2
    ASK = 3
    FINISH = 4
    PONG = 5
    CALLED = 6
    HELD = 7
    FREE = 8
    LAST = 9
    FAILED = 10
    RETIRE = 11
    SPANS = 12


class ToHost(IntEnum):
    START = 16
    ANSWER = 17
    CANCEL = 18
    PING = 19
    CALL = 20
    CONFIRM = 21


class Start(IntEnum):
    TRACED = 1


class Chunk(IntEnum):
    V2 = 1


class Stop(IntEnum):
    CANCELLED = 0
    TIMEOUT = 1


class Answer(IntEnum):
    OK = 0
    REFUSED = 1
    FAILED = 2


class Ask(IntEnum):
    SAVE = 1
    GET = 2
    LIST = 3
    ITEMS = 4


class FrameTooLong(ValueError):
    """More bytes in one frame than a host may send."""


class MalformedFrame(ValueError):
    """The sender is broken, or is not a sender of frames."""


class OnFrame(Protocol):
    def __call__(self, kind: int, flags: int, slot: int, id: int, body: bytes) -> None: ...


def frame_bytes(kind: int, flags: int = 0, slot: int = 0, id: int = 0, count: int = 0, body: bytes = b"") -> bytes:
    """One frame as bytes, for writers that cannot wait for the end of the turn."""
    return HEAD.pack(kind, flags, 0, slot, id, count, len(body)) + body


class FrameReader:
    """Collects bytes and calls `on_frame` for each complete frame. The parts of a large body are joined once."""

    def __init__(self, on_frame: OnFrame) -> None:
        self.on_frame = on_frame
        self.parts: list[bytes] = []
        self.have = 0
        self.need = HEAD.size

    def feed(self, data: bytes) -> None:
        """Raises MalformedFrame for a body that no supervisor sends."""
        self.parts.append(data)
        self.have += len(data)
        if self.have < self.need:
            return
        everything = data if len(self.parts) == 1 else b"".join(self.parts)
        at, end = 0, len(everything)
        self.need = HEAD.size
        while end - at >= HEAD.size:
            kind, flags, _, slot, id, _, length = HEAD.unpack_from(everything, at)
            if length > MAX_BODY:
                raise MalformedFrame(f"a body of {length} bytes is larger than {MAX_BODY}")
            if end - at < HEAD.size + length:
                self.need = HEAD.size + length
                break
            body = everything[at + HEAD.size : at + HEAD.size + length]
            at += HEAD.size + length
            self.on_frame(kind, flags, slot, id, body)
        rest = everything[at:]
        self.parts = [rest] if rest else []
        self.have = len(rest)


class Pipe(asyncio.Protocol):
    """Reads whole frames; writes the frames of one turn of the event loop together."""

    def __init__(self, on_frame: OnFrame, on_end: Callable[[], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.reader = FrameReader(on_frame)
        self.on_end = on_end
        self.transport: asyncio.Transport | None = None
        self.waiting: list[bytes] = []
        self.full: asyncio.Future[None] | None = None

    def send(self, kind: int, flags: int = 0, slot: int = 0, id: int = 0, count: int = 0, body: bytes = b"") -> None:
        """Raises FrameTooLong."""
        if len(body) > LARGEST_FRAME:
            raise FrameTooLong(f"{len(body)} bytes in one piece are more than a run may send")
        if not self.waiting:
            self.loop.call_soon(self.flush)
        self.waiting.append(HEAD.pack(kind, flags, 0, slot, id, count, len(body)))
        if body:
            self.waiting.append(body)

    def flush(self) -> None:
        waiting, self.waiting = self.waiting, []
        if waiting and self.transport is not None and not self.transport.is_closing():
            self.transport.writelines(waiting)

    def drained(self) -> asyncio.Future[None] | None:
        """None while the pipe takes more; else a future that is done when it does again."""
        return self.full

    def pause_writing(self) -> None:
        self.full = self.loop.create_future()

    def resume_writing(self) -> None:
        if self.full is not None:
            self.full.set_result(None)
        self.full = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
        self.on_end()

    def data_received(self, data: bytes) -> None:
        self.reader.feed(data)
