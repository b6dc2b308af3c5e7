"""Checkpoints and writes as the library's tuples, and their references and versions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, Checkpoint, CheckpointMetadata, CheckpointTuple

from ..objects import JsonObject


@dataclass(slots=True)
class Write:
    task_id: str
    channel: str
    value: Any
    # Where in the step its task stood.
    path: str


# By task id and place. A negative place is replaced, the first write of another one stays.
Writes = dict[tuple[str, int], Write]


@dataclass(slots=True)
class Put:
    """A checkpoint as the run has put it, by reference."""

    id: str
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    parent: str | None

    def tuple(self, thread_id: str, ns: str, writes: Writes | None) -> CheckpointTuple:
        return CheckpointTuple(
            config_of(thread_id, ns, self.id),
            copied(self.checkpoint),
            self.metadata,
            None if self.parent is None else config_of(thread_id, ns, self.parent),
            ordered(writes),
        )


def reference_of(config: RunnableConfig) -> tuple[str, str, str | None]:
    """Thread id, namespace and checkpoint id. Raises ValueError without a thread."""
    configurable = config.get("configurable") or {}
    thread_id = configurable.get("thread_id")
    if thread_id is None:
        raise ValueError('A checkpoint needs "thread_id" in the "configurable" of its config.')
    checkpoint_id = configurable.get("checkpoint_id") or configurable.get("thread_ts") or None
    return str(thread_id), configurable.get("checkpoint_ns") or "", checkpoint_id


def config_of(thread_id: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def next_version(current: Any) -> str:
    """
    Versions that sort as text, with a random tail, in the form of the JavaScript host: a blob is stored once per
    version, so two forks must never give one version to two values.
    """
    last = int(str(current or "0").split(".")[0] or 0)
    return f"{last + 1:010d}.{''.join(random.choices(DIGITS, k=10))}"


def contains(stored: Any, wanted: Any) -> bool:
    """JSON containment: every member of `wanted` is in `stored`."""
    if isinstance(wanted, dict):
        if not isinstance(stored, dict):
            return False
        members = cast(JsonObject, stored)
        return all(key in members and contains(members[key], item) for key, item in cast(JsonObject, wanted).items())
    if isinstance(wanted, list):
        if not isinstance(stored, list):
            return False
        items = cast(list[Any], stored)
        return all(any(contains(each, item) for each in items) for item in cast(list[Any], wanted))
    return type(stored) is type(wanted) and stored == wanted


def copied(checkpoint: Checkpoint) -> Checkpoint:
    """The library changes what it is given."""
    copy = checkpoint.copy()
    copy["channel_values"] = dict(checkpoint["channel_values"])
    copy["channel_versions"] = dict(checkpoint["channel_versions"])
    copy["versions_seen"] = {node: dict(seen) for node, seen in checkpoint["versions_seen"].items()}
    return copy


def ordered(writes: Writes | None) -> list[tuple[str, str, Any]]:
    """
    By the path of the task, then its id, then the place: so the library applies them while it executes, and replays
    them into incremental channels.
    """
    if not writes:
        return []
    keys = sorted(writes, key=lambda key: (writes[key].path, *key))
    return [(writes[key].task_id, writes[key].channel, writes[key].value) for key in keys]


def remember(known: Writes, writes: Sequence[tuple[str, Any]], task_id: str, path: str) -> None:
    for place, (channel, value) in enumerate(writes):
        idx = WRITES_IDX_MAP.get(channel, place)
        if idx < 0 or (task_id, idx) not in known:
            known[task_id, idx] = Write(task_id, channel, value, path)


def size_of(entry: JsonObject) -> int:
    """Bytes of the parts of one TupleEntry."""
    values = (*entry["blobs"], *entry["writes"])
    return entry["size"] + entry["meta_size"] + sum(each["size"] for each in values)
