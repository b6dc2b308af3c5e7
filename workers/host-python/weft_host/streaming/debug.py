"""Payloads of the modes `checkpoints`, `tasks` and `debug` as a client sees them."""

from __future__ import annotations

from langgraph.types import StateSnapshot

from ..objects import JsonObject
from ..state import place_of, reference_of, state_of, streamed, visible


def debug_payload(chunk: JsonObject) -> JsonObject:
    payload = chunk["payload"]
    shown = checkpoint_payload(payload) if chunk["type"] == "checkpoint" else task_payload(payload)
    return {**chunk, "payload": shown}


def checkpoint_payload(payload: JsonObject) -> JsonObject:
    config, parent = payload["config"], payload.get("parent_config")
    return {
        "values": payload["values"],
        "next": payload["next"],
        "metadata": visible(payload["metadata"]),
        "config": visible_config(config),
        "parent_config": None if parent is None else visible_config(parent),
        "checkpoint": reference_of(config),
        "parent_checkpoint": reference_of(parent),
        "tasks": [task_payload(task) for task in payload["tasks"]],
    }


def streamed_checkpoint(payload: JsonObject) -> JsonObject:
    """In the mode `checkpoints`, a task with a subgraph has its config as `state`, too: clients read either."""
    shown = checkpoint_payload(payload)
    for task, given in zip(shown["tasks"], payload["tasks"], strict=True):
        state = given.get("state")
        if state is not None and not isinstance(state, StateSnapshot):
            task["state"] = visible_config(state)
    return shown


def task_payload(payload: JsonObject) -> JsonObject:
    task = {key: value for key, value in payload.items() if key != "state"}
    if "interrupts" in task:
        task["interrupts"] = [streamed(each) for each in task["interrupts"]]
    if "metadata" in task:
        task["metadata"] = visible(task["metadata"])
    state = payload.get("state")
    if isinstance(state, StateSnapshot):
        return {**task, "state": state_of(state)}
    if state is None:
        return {**task, "state": None} if "state" in payload else task
    return {**task, "checkpoint": place_of(state.get("configurable") or {})}


def visible_config(config: JsonObject) -> JsonObject:
    shown = {key: value for key, value in config.items() if key not in ("callbacks", "configurable", "metadata")}
    for name in ("metadata", "configurable"):
        if config.get(name) is not None:
            shown[name] = visible(config[name])
    return shown
