"""
The checkpointer of a run: asks the supervisor, which asks the store. Channel values are blobs, stored once per version;
a checkpoint refers to them. The newest checkpoint of each namespace that this run has put is kept by reference, so the
final state is read without a question.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from ..limits import LARGEST_STATE, StateTooLarge
from ..objects import JsonObject
from ..packed import cutter, unpack
from .base_saver import BaseSaver
from .copies import CheckpointCopies
from .outbox import Entry, Outbox, Part
from .serde import Serde, json_bytes, json_object
from .tuples import Put, Write, Writes, config_of, contains, ordered, reference_of, remember, size_of

PAGE = 50
PAGE_BYTES = 32 * 1024 * 1024


class Transport(Protocol):
    """The store as a run reaches it: CheckpointQuery in, packed TuplesHead out (schemas/checkpoints.ts)."""

    async def save(self, body: bytes, thread_id: str) -> None: ...
    async def get(self, query: JsonObject) -> bytes: ...
    async def list(self, query: JsonObject) -> bytes: ...


def no_metadata() -> JsonObject:
    return {}


@dataclass
class SaverOptions:
    transport: Transport
    thread_id: str
    durability: str = "sync"
    # The number of the next checkpoint.
    next_seq: Callable[[], int] = lambda: 0
    # The newest checkpoint of the thread, packed; b"": the thread has none; None: unknown.
    newest: bytes | None = None
    # Laid under the metadata of each checkpoint.
    metadata: JsonObject = field(default_factory=no_metadata)
    # Every checkpoint that was put is kept by reference.
    keep: bool = False
    # A save failed, or is too large.
    failed: Callable[[BaseException], None] = lambda error: None
    # The checkpointer of the application.
    copies: CheckpointCopies | None = None


class WeftSaver(BaseSaver):
    def __init__(self, options: SaverOptions, serde: Serde) -> None:
        super().__init__()
        self.serde = cast(Any, serde)
        self.transport, self.thread_id = options.transport, options.thread_id
        self.next_seq, self.metadata = options.next_seq, options.metadata
        self.copies = options.copies
        self.newest_put: dict[str, Put] = {}
        self.all_puts: dict[tuple[str, str], Put] | None = {} if options.keep else None
        self.written: dict[tuple[str, str], Writes] = {}
        # Bytes of the value of a channel, by namespace and channel.
        self.sizes: dict[tuple[str, str], int] = {}
        self.outbox = Outbox(options.durability, options.transport.save, options.failed)
        self.started = None if options.newest is None else first_of(options.newest)
        self.is_fresh = options.newest is not None and self.started is None
        if self.started is not None:
            for blob in self.started[0]["blobs"]:
                self.sizes["", blob["channel"]] = blob["size"]

    def with_allowlist(self, extra_allowlist: Any) -> WeftSaver:
        # A copy would not know what this saver has put.
        self.serde = cast(Any, self.serde).with_msgpack_allowlist(extra_allowlist)
        return self

    def head(self) -> str | None:
        """The newest checkpoint of the root namespace."""
        if put := self.newest_put.get(""):
            return put.id
        return self.started[0]["id"] if self.started else None

    def own_reference(self, config: RunnableConfig) -> tuple[str, str, str | None]:
        reference = reference_of(config)
        if reference[0] != self.thread_id:
            raise ValueError(f"A run of thread {self.thread_id} cannot use the checkpoints of thread {reference[0]}.")
        return reference

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread_id, ns, checkpoint_id = self.own_reference(config)
        put = self.newest_put.get(ns)
        if put is not None and checkpoint_id in (None, put.id):
            return put.tuple(thread_id, ns, self.written.get((ns, put.id)))
        if checkpoint_id is not None and self.all_puts and (old := self.all_puts.get((ns, checkpoint_id))):
            return old.tuple(thread_id, ns, self.written.get((ns, old.id)))
        if put is None and self.is_fresh:
            return None
        if ns == "" and self.started is not None and checkpoint_id in (None, self.started[0]["id"]):
            return self.read(*self.started, self.written.get(("", self.started[0]["id"])))
        await self.outbox.flush()
        query: JsonObject = {"thread_id": thread_id, "ns": ns}
        if checkpoint_id is not None:
            query["checkpoint_id"] = checkpoint_id
        found = first_of(await self.transport.get(query))
        if found is None:
            return None
        return self.read(*found, self.written.get((ns, found[0]["id"])) if self.all_puts is not None else None)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        await self.outbox.flush()
        configurable = (config or {}).get("configurable") or {}
        if config is not None and configurable.get("thread_id"):
            self.own_reference(config)
        left = float("inf") if limit is None else limit
        page = PAGE if filter else max(1, min(PAGE if limit is None else limit, PAGE))
        async for found in self.pages(configurable, before, page):
            if filter and not contains(found.metadata, filter):
                continue
            if left <= 0:
                return
            left -= 1
            yield found

    async def pages(
        self, configurable: JsonObject, before: RunnableConfig | None, page: int
    ) -> AsyncIterator[CheckpointTuple]:
        bound = ((before or {}).get("configurable") or {}).get("checkpoint_id")
        while True:
            query: JsonObject = {"thread_id": self.thread_id, "limit": page, "bytes": PAGE_BYTES}
            if configurable.get("checkpoint_id"):
                query["checkpoint_id"] = configurable["checkpoint_id"]
            if configurable.get("checkpoint_ns") is not None:
                query["ns"] = configurable["checkpoint_ns"]
            if bound is not None:
                query["before"] = bound
            head, rest = unpack(await self.transport.list(query))
            cut, taken = cutter(rest), 0
            for entry in head["tuples"]:
                taken += size_of(entry)
                yield self.read(entry, cut(size_of(entry)))
            if not head["tuples"] or (len(head["tuples"]) < page and taken < PAGE_BYTES):
                return
            bound = head["tuples"][-1]["id"]

    def read(self, entry: JsonObject, parts: bytes, unsaved: Writes | None = None) -> CheckpointTuple:
        """A checkpoint with its values. `unsaved`: writes that are not stored yet."""
        cut = cutter(parts)
        loads = self.serde.loads_typed
        checkpoint: Checkpoint = loads((entry["type"], cut(entry["size"])))
        metadata = json_object(entry["meta_type"], cut(entry["meta_size"]))
        checkpoint["channel_values"] = {
            blob["channel"]: loads((blob["type"], cut(blob["size"]))) for blob in entry["blobs"]
        }
        writes: Writes = {}
        for each in entry["writes"]:
            value = loads((each["type"], cut(each["size"])))
            writes[each["task_id"], each["idx"]] = Write(each["task_id"], each["channel"], value, each.get("path", ""))
        for key, write in (unsaved or {}).items():
            if key[1] < 0 or key not in writes:
                writes[key] = write
        put = Put(entry["id"], checkpoint, cast(CheckpointMetadata, metadata), entry["parent"])
        parent = None if put.parent is None else config_of(self.thread_id, entry["ns"], put.parent)
        config = config_of(self.thread_id, entry["ns"], put.id)
        return CheckpointTuple(config, checkpoint, put.metadata, parent, ordered(writes))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread_id, ns, parent = self.own_reference(config)
        checkpoint_id, versions = checkpoint["id"], checkpoint["channel_versions"]
        full = cast(CheckpointMetadata, {**self.metadata, **metadata})
        refs: dict[str, str] = {}
        blobs: list[Entry] = []
        # Values are serialised before the first await: the graph continues and may change them.
        for channel, value in checkpoint["channel_values"].items():
            version = versions.get(channel, new_versions.get(channel))
            if version is None:
                continue
            refs[channel] = str(version)
            if channel not in new_versions:
                continue
            kind, data = self.serde.dumps_typed(value)
            self.sizes[ns, channel] = len(data)
            entry = {"ns": ns, "channel": channel, "version": str(version), "type": kind, "size": len(data)}
            blobs.append((entry, data))
        self.keep_put(ns, Put(checkpoint_id, checkpoint, full, parent))
        if (size := sum(self.sizes.get((ns, channel), 0) for channel in refs)) > LARGEST_STATE:
            error = StateTooLarge("The values of the state", size)
            self.outbox.close(error)
            raise error
        envelope = json_bytes({**checkpoint, "channel_values": {}})
        meta = json_bytes(cast(JsonObject, full))
        entry = {
            "ns": ns,
            "id": checkpoint_id,
            "parent": parent,
            "seq": self.next_seq(),
            "type": "json",
            "size": len(envelope),
            "meta_type": "json",
            "meta_size": len(meta),
            "refs": refs,
        }
        await self.outbox.add(thread_id, Part((entry, envelope, meta), blobs))
        if self.copies is not None:
            await self.copies.put((thread_id, ns, parent), checkpoint, full, new_versions)
        return config_of(thread_id, ns, checkpoint_id)

    def keep_put(self, ns: str, put: Put) -> None:
        last = self.newest_put.get(ns)
        if last is not None and last.id != put.id and self.all_puts is None:
            self.written.pop((ns, last.id), None)
        self.newest_put[ns] = put
        if self.all_puts is not None:
            self.all_puts[ns, put.id] = put

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        thread_id, ns, checkpoint_id = self.own_reference(config)
        if checkpoint_id is None:
            raise ValueError('Writes need "checkpoint_id" in the "configurable" of their config.')
        remember(self.written.setdefault((ns, checkpoint_id), {}), writes, task_id, task_path)
        entries: list[Entry] = []
        for place, (channel, value) in enumerate(writes):
            kind, data = self.serde.dumps_typed(value)
            entry: JsonObject = {
                "ns": ns,
                "checkpoint_id": checkpoint_id,
                "task_id": task_id,
                "idx": WRITES_IDX_MAP.get(channel, place),
                "channel": channel,
                "type": kind,
                "size": len(data),
            }
            if task_path:
                entry["path"] = task_path
            entries.append((entry, data))
        await self.outbox.add(thread_id, Part(writes=entries))
        if self.copies is not None:
            await self.copies.put_writes((thread_id, ns, checkpoint_id), writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        raise RuntimeError("A run cannot delete its own thread.")


def first_of(packed: bytes) -> tuple[JsonObject, bytes] | None:
    """The first checkpoint of an answer, and its values as bytes."""
    if not packed:
        return None
    head, parts = unpack(packed)
    return (head["tuples"][0], parts) if head["tuples"] else None
