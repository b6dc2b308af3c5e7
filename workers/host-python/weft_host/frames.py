"""
Frames between a supervisor and its hosts (docs/pipe.md): a 24-byte little-endian head, then an opaque body. Head: kind
u8, flags u8, 2 x zero, slot u32, id u64, count u32, length u32. The constants are those of workers/pipe.ts; a test
compares both files.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Protocol

HEAD = struct.Struct("<BBHIQII")
MAX_BODY = 256 * 1024 * 1024


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
    CHECKPOINT = 13


class ToHost(IntEnum):
    START = 16
    ANSWER = 17
    CANCEL = 18
    PING = 19
    CALL = 20
    CONFIRM = 21
    PAUSE = 22
    RESUME = 23


class Start(IntEnum):
    RECORDED = 1


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
