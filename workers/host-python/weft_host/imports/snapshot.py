"""A stored checkpoint as the ThreadState that a server answers (schemas/threads.ts), as far as it needs no graph."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Send

from ..objects import JsonObject
from ..state import interrupt_of, reference_of, visible

# Channels of the library; the others are keys of the state.
OWN = ("__", "branch:", "join:", "start:")
SENDS = "__pregel_tasks"
# The channels of a task that asks, was answered, or failed. One that has finished writes to another channel, if only to
# `__no_writes__`.
UNFINISHED = ("__interrupt__", "__resume__", "__error__")


# A task as the library names its place: a node, or the number of a Send.
PULL, PUSH = re.compile(r"^~__pregel_pull, (.+)$"), re.compile(r"^~__pregel_push, 0*(\d+)(?:, \d+)?$")


def state_from(stored: CheckpointTuple, paths: dict[str, str]) -> JsonObject:
    """`paths`: the place of each task that wrote, by its id."""
    channels = stored.checkpoint["channel_values"]
    body = body_of(stored, paths)
    tasks = tasks_of(stored, paths, body)
    if body or is_functional(stored):
        values = channels.get("__end__")
    else:
        values = channels["__root__"] if "__root__" in channels else state_part(channels)
    return {
        "values": values,
        "next": [task["name"] for task in tasks if task["result"] is None],
        "tasks": tasks,
        "checkpoint": reference_of(stored.config),
        "parent_checkpoint": reference_of(stored.parent_config),
        "metadata": visible(stored.metadata),
        "created_at": stored.checkpoint["ts"],
        "interrupts": [each for task in tasks for each in task["interrupts"]],
    }


def state_part(channels: JsonObject) -> JsonObject:
    return {name: value for name, value in channels.items() if not name.startswith(OWN)}


def is_functional(stored: CheckpointTuple) -> bool:
    return "__end__" in stored.checkpoint["channel_versions"]


def body_of(stored: CheckpointTuple, paths: dict[str, str]) -> str | None:
    """The name of the entrypoint that the input of a functional graph starts; None: not known, or another graph."""
    if "__start__" not in stored.checkpoint["channel_values"]:
        return None
    names = [found[1] for path in paths.values() if (found := PULL.match(path))]
    return next((name for name in names if name != "__start__"), None)


def tasks_of(stored: CheckpointTuple, paths: dict[str, str], body: str | None) -> list[JsonObject]:
    written: dict[str, list[tuple[str, Any]]] = {}
    ids: dict[str, str] = {}
    for task_id, channel, value in stored.pending_writes or []:
        path = paths.get(task_id, "")
        if place := PULL.match(path) or PUSH.match(path):
            written.setdefault(place[1], []).append((channel, value))
            ids[place[1]] = task_id
    made: list[JsonObject] = []
    for name, place in [(body, body)] if body else planned(stored.checkpoint["channel_values"]):
        writes = written.get(place, [])
        asked = [each for channel, value in writes if channel == "__interrupt__" for each in listed(value)]
        made.append(
            {
                "id": ids.get(place, ""),
                "name": name,
                "path": [],
                "error": None,
                "interrupts": [interrupt_of(each) for each in asked],
                "checkpoint": None,
                "state": None,
                "result": result_of(writes),
            }
        )
    return made


def planned(channels: JsonObject) -> list[tuple[str, str]]:
    """Name and place of each task that follows a checkpoint, in the order in which the library applies their writes."""
    sends = enumerate(channels.get(SENDS) or [])
    found = [(each.node, str(index)) for index, each in sends if isinstance(each, Send)]
    names = {"__start__"} & channels.keys()
    for channel, value in channels.items():
        if channel.startswith("branch:to:"):
            names.add(channel.removeprefix("branch:to:"))
        elif channel.startswith("join:") and is_complete(channel, value):
            names.add(channel.rsplit(":", 1)[1])
    return [*((name, name) for name in sorted(names)), *found]


def is_complete(channel: str, seen: Any) -> bool:
    """An edge that waits for several nodes: `join:first+second:then`."""
    return set(channel.split(":")[1].split("+")) == set(cast(Iterable[str], seen or []))


def result_of(writes: list[tuple[str, Any]]) -> Any:
    """None: it has not finished. A channel that was written twice is a list of updates."""
    if all(channel in UNFINISHED for channel, _ in writes):
        return None
    returned = next((value for channel, value in writes if channel == "__end__"), None)
    if returned is not None:
        return returned
    kept = [(channel, value) for channel, value in writes if not channel.startswith(OWN)]
    if len({channel for channel, _ in kept}) < len(kept):
        return [{channel: value} for channel, value in kept]
    return dict(kept)


def listed(value: Any) -> list[Any]:
    return list(cast(Iterable[Any], value)) if isinstance(value, list | tuple) else [value]
