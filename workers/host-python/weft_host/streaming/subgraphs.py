"""
Follows the subgraphs of a run: a subgraph starts with its first chunk, and so do the subgraphs around it. It ends with
the task that holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from ..objects import JsonObject

Namespace = Sequence[str]


class Subgraphs:
    """
    `started` gets the namespace and the id of the tool call whose task started the subgraph; `ended` gets the
    namespace, how it ended (completed, failed or interrupted), and the error.
    """

    def __init__(
        self, started: Callable[[Namespace, str | None], None], ended: Callable[[Namespace, str, Any], None]
    ) -> None:
        self.started, self.ended = started, ended
        self.running: dict[str, list[str]] = {}
        # Ids of tool calls by the id of the task that executes them.
        self.tool_calls: dict[str, str] = {}

    def see(self, ns: Namespace) -> None:
        """A chunk of the graph in `ns`."""
        for depth in range(1, len(ns) + 1):
            at = list(ns[:depth])
            if (key := "|".join(at)) not in self.running:
                self.running[key] = at
                self.started(at, self.tool_calls.get(at[-1].rpartition(":")[2]))

    def around(self, ns: tuple[str, ...]) -> tuple[str, ...]:
        """
        The graph of a custom chunk: the library names a `task` in a node as a subgraph. A subgraph has shown its own
        tasks before.
        """
        depth = len(ns)
        while depth > 0 and "|".join(ns[:depth]) not in self.running:
            depth -= 1
        return ns[:depth]

    def task(self, ns: Namespace, payload: JsonObject) -> None:
        """A task of the graph in `ns` starts or ends. Call `see` first."""
        if "result" in payload:
            error = payload.get("error")
            how = "failed" if error else "interrupted" if payload.get("interrupts") else "completed"
            self.close([*ns, f"{payload['name']}:{payload['id']}"], how, error)
            self.tool_calls.pop(payload["id"], None)
        elif (call := tool_call_of(payload.get("input"))) is not None:
            self.tool_calls[payload["id"]] = call

    def close(self, ns: Namespace, how: str, error: Any = None) -> None:
        key = "|".join(ns)
        for other, at in reversed(list(self.running.items())):
            if other == key or other.startswith(f"{key}|"):
                del self.running[other]
                self.ended(at, how, error)

    def end(self, how: str, error: Any = None) -> None:
        """Ends all that run."""
        for at in reversed(list(self.running.values())):
            self.close(at, how, error)


def tool_call_of(given: Any) -> str | None:
    """A task of tools gets one call, or a list of calls: the first one then stands for all."""
    calls: list[Any] = [cast(JsonObject, given).get("tool_call")] if isinstance(given, dict) else []
    if isinstance(given, list):
        calls = cast(list[Any], given)
    ids = [cast(JsonObject, call).get("id") for call in calls if isinstance(call, dict)]
    return next((each for each in ids if isinstance(each, str)), None)
