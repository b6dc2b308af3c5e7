"""
Selects the modes that a run requests from the library and converts the library's chunks to events
(docs/spec/streams.md#events). A mode that no client requested is never sent, even if another mode needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from ..objects import JsonObject
from ..render import render
from ..state import streamed
from ..stream import Events, event_name
from .debug import debug_payload, streamed_checkpoint, task_payload
from .events import RunEvents
from .lifecycle import Lifecycle
from .messages import Accumulated, MessageTexts

Namespace = tuple[str, ...]
Taker = Callable[[Namespace, Any], None]


def with_interrupts(payload: Any) -> Any:
    if not isinstance(payload, dict) or "__interrupt__" not in payload:
        return cast(Any, payload)
    members = cast(JsonObject, payload)
    return {**members, "__interrupt__": [streamed(each) for each in members["__interrupt__"]]}


def unchanged(payload: Any) -> Any:
    return payload


def checkpoint_id_of(payload: JsonObject) -> str | None:
    """None: a graph with a stream of its own may leave out the place of a checkpoint."""
    config: JsonObject = payload.get("config") or {}
    configurable: JsonObject = config.get("configurable") or {}
    return configurable.get("checkpoint_id")


SHAPES: dict[str, Callable[[Any], Any]] = {
    "values": with_interrupts,
    "updates": with_interrupts,
    "custom": unchanged,
    "tasks": task_payload,
    "checkpoints": streamed_checkpoint,
    "debug": debug_payload,
    "tools": unchanged,
}


class Modes:
    """
    `library`: the modes to request. `direct`: only `custom`, which no other mode must be in order with. `lifecycle`
    needs the chunks of subgraphs, which then arrive in all modes.
    """

    def __init__(
        self,
        requested: Iterable[str],
        subgraphs: bool,
        events: Events,
        v2: RunEvents | None,
        lifecycle: Lifecycle | None = None,
    ) -> None:
        modes = set(requested) or {"values"}
        self.subgraphs, self.events, self.v2, self.lifecycle = subgraphs, events, v2, lifecycle
        self.takers: dict[str, Taker] = {mode: self.sender(mode) for mode in SHAPES if mode in modes}
        if "messages" in modes or "messages-tuple" in modes:
            self.add_messages("messages-tuple" in modes, "messages" in modes)
        self.library = list(self.takers) or ["values"]
        if lifecycle is not None and "tasks" not in self.takers:
            self.library = [*self.takers, "tasks"]
        self.direct = modes == {"custom"} and v2 is None
        # Callbacks are streamed, too.
        self.callbacks = "events" in modes
        # Interrupts of the mode `updates` are shown in `values`, too; `hides_updates`: no client requested them.
        self.from_updates = self.hides_updates = False
        self.on_checkpoint: Callable[[str], None] | None = None

    def show_interrupts_in_values(self) -> None:
        """For a library that shows them in the mode `updates` only."""
        self.from_updates = "values" in self.takers
        self.hides_updates = self.from_updates and "updates" not in self.takers
        if self.hides_updates:
            self.library.append("updates")

    def report_checkpoints(self, on_checkpoint: Callable[[str], None]) -> None:
        """`on_checkpoint` gets the id of each checkpoint of the root graph, behind the events before it."""
        self.on_checkpoint = on_checkpoint
        if "checkpoints" not in self.library:
            self.library.append("checkpoints")

    def sender(self, mode: str) -> Taker:
        push, shape = self.events.push, SHAPES[mode]

        def send(ns: Namespace, payload: Any) -> None:
            if not ns or self.subgraphs:
                push(event_name(mode, ns), render(shape(payload)))

        return send

    def add_messages(self, tuples: bool, whole: bool) -> None:
        push, v2, lifecycle = self.events.push, self.v2, self.lifecycle
        accumulated = Accumulated(push) if whole else None
        texts = MessageTexts()

        def take_message(ns: Namespace, payload: Any) -> None:
            message, metadata = payload
            if lifecycle is not None:
                lifecycle.take(ns, "messages", message)
                if ns and not self.subgraphs:
                    return
            if v2 is not None:
                v2.message(ns, message, metadata)
            if tuples:
                push(event_name("messages", ns if self.subgraphs else ()), texts.of(message, metadata))
            if accumulated is not None:
                accumulated.chunk(message, metadata)

        self.takers["messages"] = take_message
        if accumulated is None:
            return
        values = self.takers.get("values")

        def take_values(ns: Namespace, payload: Any) -> None:
            if values is not None:
                values(ns, payload)
            if not ns or self.subgraphs:
                accumulated.values("|".join(ns), payload)

        self.takers["values"] = take_values

    def pause_of(self, mode: str, payload: Any) -> Any:
        """The interrupts of an update that the mode `values` must show; None: there are none."""
        is_update = self.from_updates and mode == "updates" and isinstance(payload, dict)
        return cast(JsonObject, payload).get("__interrupt__") or None if is_update else None

    def take(self, ns: Namespace, mode: str, payload: Any) -> None:
        if self.hides_updates and mode == "updates":
            return
        follower = self.lifecycle or self.v2
        graph = follower.subgraphs.around(ns) if mode == "custom" and follower is not None else ns
        if self.lifecycle is not None and mode != "messages":
            self.lifecycle.take(graph, mode, payload)
        taker = self.takers.get(mode)
        if taker is not None:
            taker(ns if self.subgraphs else graph, payload)
        if self.v2 is not None and mode != "messages":
            self.v2.take(graph, mode, payload)
        if self.on_checkpoint is None or mode != "checkpoints" or ns:
            return
        if (checkpoint_id := checkpoint_id_of(payload)) is not None:
            self.on_checkpoint(checkpoint_id)

    def custom(self, ns: Namespace, payload: Any) -> None:
        if not ns or self.subgraphs:
            self.events.push(event_name("custom", ns), render(payload))

    def callback(self, event: JsonObject) -> None:
        if "langsmith:hidden" not in (event.get("tags") or ()):
            self.events.push("events", render(event))
