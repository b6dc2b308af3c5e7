"""The stream mode `lifecycle`: an event when a subgraph starts and when it ends, named after its namespace."""

from __future__ import annotations

from typing import Any, cast

from ..objects import JsonObject
from ..render import error_of, render
from ..stream import Events, event_name
from .subgraphs import Namespace, Subgraphs


class Lifecycle:
    def __init__(self, events: Events) -> None:
        self.events = events
        self.subgraphs = Subgraphs(self.started, self.ended)

    def take(self, ns: Namespace, mode: str, payload: Any) -> None:
        self.subgraphs.see(ns)
        if mode == "tasks":
            self.subgraphs.task(ns, payload)

    def end(self, how: str, error: Any = None) -> None:
        """The run ends: so do the subgraphs that execute."""
        self.subgraphs.end(how, error)

    def started(self, at: Namespace, tool_call_id: str | None) -> None:
        self.send(at, {"event": "started"} | ({} if tool_call_id is None else {"tool_call_id": tool_call_id}))

    def ended(self, at: Namespace, event: str, error: Any) -> None:
        self.send(at, {"event": event} | ({"error": shown(error)} if error else {}))

    def send(self, at: Namespace, data: JsonObject) -> None:
        self.events.push(event_name("lifecycle", at), render({**data, "namespace": list(at)}))


def shown(error: Any) -> Any:
    """The error of a task, or the error of a run, which has this form already."""
    if isinstance(error, dict):
        return cast(JsonObject, error)
    return error_of(error) if isinstance(error, BaseException) else {"error": "Error", "message": str(error)}
