"""
What a run has put and not yet stored. With durability `sync` every put waits for the answer of the store; `async` sends
once per turn of the event loop, with at most one save in flight; `exit` sends nothing before the end. What is left at
the end travels in the finish frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ..limits import LARGEST_STATE, StateTooLarge
from ..objects import JsonObject
from ..packed import pack

# An entry for the head, and its value.
Entry = tuple[JsonObject, bytes]


class Part:
    """One put. `checkpoint`: its entry, its value and its metadata."""

    __slots__ = ("blobs", "checkpoint", "size", "writes")

    def __init__(
        self,
        checkpoint: tuple[JsonObject, bytes, bytes] | None = None,
        blobs: Sequence[Entry] = (),
        writes: Sequence[Entry] = (),
    ) -> None:
        self.checkpoint, self.blobs, self.writes = checkpoint, blobs, writes
        size = 0 if checkpoint is None else len(checkpoint[1]) + len(checkpoint[2])
        self.size = size + sum(len(value) for _, value in (*blobs, *writes))


def pack_parts(parts: Sequence[Part]) -> bytes:
    """A packed SaveHead (schemas/checkpoints.ts)."""
    checkpoints = [part.checkpoint for part in parts if part.checkpoint is not None]
    blobs = [blob for part in parts for blob in part.blobs]
    writes = [write for part in parts for write in part.writes]
    head = {
        "checkpoints": [entry for entry, _, _ in checkpoints],
        "blobs": [entry for entry, _ in blobs],
        "writes": [entry for entry, _ in writes],
    }
    values = [each for _, value, metadata in checkpoints for each in (value, metadata)]
    return pack(head, [*values, *(value for _, value in blobs), *(value for _, value in writes)])


class Outbox:
    def __init__(
        self,
        durability: str,
        save: Callable[[bytes, str], Awaitable[None]],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.durability, self.save, self.failed = durability, save, failed
        self.loop = asyncio.get_running_loop()
        self.parts: list[Part] = []
        self.thread = ""
        self.in_flight: asyncio.Task[None] | None = None
        self.due: asyncio.Handle | None = None
        # Why nothing more is stored.
        self.error: BaseException | None = None
        self.ended = False

    async def add(self, thread_id: str, part: Part) -> None:
        """Raises the error that closed the outbox, and StateTooLarge."""
        if self.ended:
            return
        if self.error is not None:
            raise self.error
        if thread_id != self.thread:
            await self.flush()
            self.thread = thread_id
        if part.size > LARGEST_STATE:
            error = StateTooLarge("The values to be saved", part.size)
            self.close(error)
            raise error
        self.parts.append(part)
        if self.durability == "exit":
            return
        if self.durability == "async":
            return self.send_soon()
        # The writes of a step and its checkpoint travel together at the end of the turn.
        await asyncio.sleep(0)
        await self.flush()

    async def flush(self) -> None:
        """Returns when everything added so far is stored. Raises the error that closed the outbox."""
        while self.parts or self.in_flight is not None:
            await asyncio.shield(self.in_flight or self.send())
            if self.error is not None:
                raise self.error

    async def take(self) -> bytes:
        """Ends the outbox: waits for the save in flight and returns what was never sent."""
        self.ended = True
        if self.due is not None:
            self.due.cancel()
        if self.in_flight is not None:
            await asyncio.shield(self.in_flight)
        if self.error is not None and self.durability == "exit":
            self.parts = []
        most = LARGEST_STATE if self.error is None else 0
        while sum(part.size for part in self.parts) > most:
            await asyncio.shield(self.send())
        rest = pack_parts(self.parts) if self.parts else b""
        self.parts = []
        return rest

    def close(self, error: BaseException) -> None:
        """Takes nothing more because of this error. What was added before is still sent."""
        if self.error is None:
            self.error = error
            self.failed(error)

    def send_soon(self) -> None:
        if self.due is None:
            self.due = self.loop.call_soon(self.send_due)

    def send_due(self) -> None:
        self.due = None
        if not self.ended and self.parts and self.in_flight is None:
            self.send()

    def send(self) -> asyncio.Task[None]:
        """Sends as many parts as fit into one save, at least one."""
        count = size = 0
        for part in self.parts:
            size += part.size
            if count > 0 and size > LARGEST_STATE:
                break
            count += 1
        body, self.parts = pack_parts(self.parts[:count]), self.parts[count:]
        self.in_flight = self.loop.create_task(self.deliver(body))
        return self.in_flight

    async def deliver(self, body: bytes) -> None:
        try:
            await self.save(body, self.thread)
        except BaseException as error:
            self.parts = []
            self.close(error)
        finally:
            self.in_flight = None
            if self.parts and self.durability != "exit":
                self.send_soon()
