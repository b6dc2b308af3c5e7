"""
Renders a run as events of protocol v2 (docs/spec/protocol-v2.md), beside the classic events, if the creator of the run
requested them: the output of each graph under the namespace of that graph, chat messages as content blocks, the
lifecycle of the run and of its subgraphs, and the pending interrupts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, cast

from langchain_core.messages import BaseMessage, BaseMessageChunk

from ..content import Content
from ..objects import JsonObject, member
from ..render import render
from ..state import interrupt_of
from ..stream import Events
from .debug import task_payload
from .subgraphs import Namespace, Subgraphs


class RunEvents:
    def __init__(self, events: Events, graph_id: str) -> None:
        self.events, self.graph_id = events, graph_id
        self.subgraphs = Subgraphs(self.subgraph_started, self.subgraph_ended)
        # Interrupts by id. They are sent when the run ends, because a client cannot answer earlier.
        self.asked: dict[str, tuple[Namespace, Any]] = {}
        # Values that wait for their checkpoint: clients expect the checkpoint before its state.
        self.held: tuple[Namespace, Any] | None = None
        self.content = Content(lambda ns, node, data: self.send("messages", ns, data, node=node))
        self.takers: dict[str, Callable[[Namespace, Any], None]] = {
            "values": self.take_values,
            "updates": self.take_updates,
            "custom": self.take_custom,
            "tasks": self.take_task,
            "checkpoints": self.take_checkpoint,
            "tools": lambda ns, payload: self.send("tools", ns, payload),
        }

    def start(self) -> None:
        self.send("lifecycle", (), {"event": "running", "graph_name": self.graph_id})

    def take(self, ns: Namespace, mode: str, payload: Any) -> None:
        """A chunk of the graph in `ns`, of a mode other than `messages`."""
        if not (mode == "checkpoints" and self.held is not None and list(self.held[0]) == list(ns)):
            self.release()
        self.subgraphs.see(ns)
        if (taker := self.takers.get(mode)) is not None:
            taker(ns, payload)

    def message(self, ns: Namespace, message: BaseMessage, metadata: JsonObject) -> None:
        """A token or a whole message of a chat model. What a node returns is in the values."""
        if not isinstance(message, BaseMessageChunk) and "ls_model_type" not in metadata:
            return
        self.release()
        self.subgraphs.see(ns)
        place: str = metadata.get("langgraph_checkpoint_ns") or ""
        task = place.split("|")
        self.content.take(ns, task, message, metadata)

    def end(self, outcome: str, error: str | None = None) -> None:
        """The last events of the run. `outcome`: completed, failed or interrupted."""
        self.release()
        if outcome == "failed":
            self.content.fail(error or "The run failed")
        self.content.finish([])
        self.subgraphs.end(outcome, error)
        if outcome == "interrupted":
            for interrupt_id, (ns, value) in self.asked.items():
                # One SDK reads `payload`, the other reads `value`.
                data = {"interrupt_id": interrupt_id, "payload": value, "value": value}
                self.send("input.requested", ns, data, channel="input", last=True)
        data = {"event": outcome, "graph_name": self.graph_id, **({"error": error} if error else {})}
        self.send("lifecycle", (), data, last=True)

    def send(
        self, method: str, ns: Namespace, data: Any, channel: str = "", node: str | None = None, last: bool = False
    ) -> None:
        by = {} if node is None else {"node": node}
        params = {"namespace": list(ns), "timestamp": int(time.time() * 1000), **by, "data": data}
        self.events.push_event(channel or method, list(ns), last, method, render(params))

    def release(self) -> None:
        held, self.held = self.held, None
        if held is not None:
            self.send("values", *held)

    def subgraph_started(self, at: Namespace, tool_call_id: str | None) -> None:
        cause = {} if tool_call_id is None else {"cause": {"type": "toolCall", "tool_call_id": tool_call_id}}
        self.send("lifecycle", at, {"event": "started", "graph_name": node_of(at), **cause})

    def subgraph_ended(self, at: Namespace, event: str, error: Any) -> None:
        why = {"error": str(error)} if error else {}
        self.send("lifecycle", at, {"event": event, "graph_name": node_of(at), **why})

    def ask(self, ns: Namespace, interrupts: Any) -> None:
        for each in cast(Iterable[Any], interrupts) if isinstance(interrupts, list | tuple) else ():
            interrupt = interrupt_of(each)
            if not isinstance(interrupt, dict):
                continue
            members = cast(JsonObject, interrupt)
            # The innermost graph reports an interrupt first, so the first report has the correct namespace.
            if members.get("id") is not None and members["id"] not in self.asked:
                self.asked[members["id"]] = (ns, members.get("value"))

    def take_values(self, ns: Namespace, payload: Any) -> None:
        if not isinstance(payload, dict):
            return self.send("values", ns, payload)
        members = cast(JsonObject, payload)
        if "__interrupt__" in members:
            self.ask(ns, members["__interrupt__"])
            members = {key: value for key, value in members.items() if key != "__interrupt__"}
        if members:
            self.held = (ns, members)

    def take_updates(self, ns: Namespace, payload: Any) -> None:
        for node, values in cast(JsonObject, payload or {}).items():
            if node == "__interrupt__":
                self.ask(ns, values)
            else:
                self.send("updates", ns, {"node": node, "values": {} if values is None else values}, node=node)

    def take_custom(self, ns: Namespace, payload: Any) -> None:
        if isinstance(payload, dict):
            members = cast(JsonObject, payload)
            if isinstance(members.get("name"), str):
                return self.send("custom", ns, members, channel=f"custom:{members['name']}")
        self.send("custom", ns, {"payload": payload})

    def take_task(self, ns: Namespace, payload: JsonObject) -> None:
        if "result" in payload:
            self.content.finish([*ns, f"{payload['name']}:{payload['id']}"])
        self.send("tasks", ns, task_payload(payload))
        self.subgraphs.task(ns, payload)

    def take_checkpoint(self, ns: Namespace, payload: JsonObject) -> None:
        metadata: JsonObject = payload.get("metadata") or {}
        parent_id = id_of(payload.get("parent_config"))
        parent = {"parent_id": parent_id} if parent_id else {}
        step, source = metadata.get("step"), metadata.get("source")
        self.send("checkpoints", ns, {"id": id_of(payload["config"]), **parent, "step": step, "source": source})
        self.release()


def node_of(ns: Namespace) -> str:
    """The node of a segment `node:task-id`."""
    return ns[-1].split(":", 1)[0] if ns else ""


def id_of(config: Any) -> Any:
    return member(config, "configurable").get("checkpoint_id")
