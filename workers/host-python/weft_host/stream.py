"""
Encodes the events of a run as the final bytes of its stream: once, here; no later component parses them. All events of
one event-loop turn leave in one frame. Ids have no gaps. Events of protocol v2 leave in separate frames, behind the
classic events of their turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

import orjson

from .limits import LARGEST_STATE, StateTooLarge

# Bytes: a larger event gets a separate frame.
ALONE = 256 * 1024
# Bytes of one frame.
FULL = 512 * 1024
# Bytes of the head of a v2 event.
TAG = 200


class Send(Protocol):
    def __call__(self, id: int, count: int, body: bytes, v2: bool) -> None: ...


class Events:
    """`first_id`: id of the first event of this attempt; `first_seq`: number of its first v2 event in the thread."""

    def __init__(self, first_id: int, first_seq: int, send: Send) -> None:
        self.first_id, self.first_seq, self.send = first_id, first_seq, send
        self.next = first_id
        self.loop = asyncio.get_running_loop()
        self.classic: list[bytes] = []
        self.classic_size = 0
        self.tagged: list[tuple[bytes, str, bytes]] = []
        self.tagged_size = 0
        self.is_due = False

    def push(self, event: str, json: bytes) -> None:
        """Raises StateTooLarge."""
        size = size_of(json)
        if size > ALONE or self.classic_size + size > FULL:
            self.flush_classic()
        self.classic.append(b"id: %d\nevent: %b\ndata: %b\n\n" % (self.next, event.encode("utf8", "replace"), json))
        self.classic_size += size
        self.next += 1
        if size > ALONE:
            self.flush_classic()
        else:
            self.flush_soon()

    def push_event(self, channel: str, namespace: Sequence[str], last: bool, method: str, params: bytes) -> None:
        """An event of protocol v2 with its tag (schemas/protocols/v2.ts). Raises StateTooLarge."""
        size = size_of(params)
        # Waiting v2 events have no ids yet, so the classic events, which have ids, leave first.
        if size > ALONE or self.tagged_size + size > FULL:
            self.flush()
        tag = [channel, namespace, 1] if last else [channel, namespace]
        self.tagged.append((orjson.dumps(tag), method, params))
        self.tagged_size += size + TAG
        if size > ALONE:
            self.flush()
        else:
            self.flush_soon()

    def last_id(self) -> int:
        return self.next - 1

    def flush_soon(self) -> None:
        if not self.is_due:
            self.is_due = True
            self.loop.call_soon(self.flush)

    def flush(self) -> None:
        self.is_due = False
        self.flush_classic()
        self.flush_tagged()

    def flush_classic(self) -> None:
        if self.classic:
            events, self.classic, self.classic_size = self.classic, [], 0
            self.send(self.next - len(events), len(events), b"".join(events), False)

    def flush_tagged(self) -> None:
        if not self.tagged:
            return
        tagged, self.tagged, self.tagged_size = self.tagged, [], 0
        first, now = self.next, int(time.time() * 1000)
        seq = self.first_seq + (first - self.first_id)
        self.next += len(tagged)
        self.send(first, len(tagged), b"".join(frame_of(each, seq + n, now) for n, each in enumerate(tagged)), True)


def frame_of(event: tuple[bytes, str, bytes], seq: int, now: int) -> bytes:
    tag, method, params = event
    id, name = b"%d-%d" % (now, seq), method.encode()
    return (
        b': %b\nid: %b\nevent: %b\ndata: {"type":"event","event_id":"%b","seq":%d,"method":"%b","params":%b}\n\n'
    ) % (tag, id, name, id, seq, name, params)


def size_of(json: bytes) -> int:
    if len(json) > LARGEST_STATE:
        raise StateTooLarge("The values of an event", len(json))
    return len(json)


def event_name(event: str, ns: Sequence[str]) -> str:
    """The namespace follows the name; root events have the bare name."""
    return f"{event}|{'|'.join(ns)}".replace("\r", " ").replace("\n", " ") if ns else event
