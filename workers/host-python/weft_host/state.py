"""The library's snapshot as a ThreadState on the wire (schemas/threads.ts)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from langgraph.types import Interrupt, PregelTask, StateSnapshot

from .objects import JsonObject, member
from .render import error_of, render


def state_of(snapshot: StateSnapshot) -> JsonObject:
    """The members in the order of the wire: `values` is the first."""
    tasks = [task_of(task) for task in snapshot.tasks]
    values: Any = snapshot.values  # pyright: ignore[reportUnknownMemberType]
    return {
        "values": {} if values is None else values,
        "next": list(snapshot.next),
        "tasks": tasks,
        "checkpoint": reference_of(snapshot.config),
        "parent_checkpoint": reference_of(snapshot.parent_config),
        "metadata": visible(snapshot.metadata),
        "created_at": snapshot.created_at,
        "interrupts": [each for task in tasks for each in task["interrupts"]],
    }


def rest_of(state: JsonObject) -> bytes:
    """The text of a ThreadState without its first member: it begins with `"next":` and ends with `}`."""
    return render({key: value for key, value in state.items() if key != "values"})[1:]


def interrupts_of(tasks: Iterable[JsonObject]) -> dict[str, list[Any]]:
    """Task id -> what it raised; only tasks that raised something."""
    return {task["id"]: task["interrupts"] for task in tasks if task["interrupts"]}


HAS_SCHEMA = hasattr(Interrupt(value=None), "response_schema")


def streamed(interrupt: Any) -> Any:
    """As interrupt_of; in streams, and in the answer of wait, `response_schema` is null for one without."""
    shown = interrupt_of(interrupt)
    if not HAS_SCHEMA or not isinstance(shown, dict) or "id" not in shown:
        return cast(Any, shown)
    return {**cast(JsonObject, shown), "response_schema": cast(JsonObject, shown).get("response_schema")}


def interrupt_of(interrupt: Any) -> Any:
    """`{value, id}`, and `response_schema` if the interrupt has one."""
    if isinstance(interrupt, Interrupt):
        raised = cast(Any, interrupt)
        schema = getattr(raised, "response_schema", None)
        found = {"value": raised.value, "id": raised.id}
        return found if schema is None else {**found, "response_schema": schema}
    if isinstance(interrupt, Mapping) and "value" in interrupt:
        members = cast(Mapping[str, Any], interrupt)
        return {key: value for key, value in members.items() if value is not None or key != "response_schema"}
    return cast(Any, interrupt)


def reference_of(config: Any) -> JsonObject | None:
    """None without a checkpoint: clients take that for an empty thread."""
    configurable = member(config, "configurable")
    return place_of(configurable) if isinstance(configurable.get("checkpoint_id"), str) else None


def place_of(configurable: JsonObject) -> JsonObject:
    return {
        "thread_id": configurable.get("thread_id"),
        "checkpoint_ns": configurable.get("checkpoint_ns") or "",
        "checkpoint_id": configurable.get("checkpoint_id"),
        "checkpoint_map": configurable.get("checkpoint_map"),
    }


def is_hidden(key: str) -> bool:
    return key.startswith(("__", "langgraph_auth_")) or key == "langgraph_request_id"


def visible(metadata: Any) -> JsonObject:
    return {key: value for key, value in cast(JsonObject, metadata or {}).items() if not is_hidden(key)}


def task_of(task: PregelTask) -> JsonObject:
    state = task.state
    place = None if state is None or isinstance(state, StateSnapshot) else (state.get("configurable") or {})
    return {
        "id": task.id,
        "name": task.name,
        "path": list(cast(Any, task).path),
        "error": None if task.error is None else error_text(task.error),
        "interrupts": [interrupt_of(each) for each in task.interrupts],
        "checkpoint": None if place is None else place_of(place),
        "state": state_of(state) if isinstance(state, StateSnapshot) else None,
        "result": cast(Any, getattr(task, "result", None)),
    }


def error_text(error: Any) -> str:
    if not isinstance(error, BaseException):
        return str(error)
    shown = error_of(error)
    return f"{shown['error']}: {shown['message']}" if shown["message"] else shown["error"]
