"""
Records the parts of a run by a callback handler of the library: nodes, also those of subgraphs, calls of models and
tools. What has started or ended is sent at most once a second, and at the end of the run: a short run sends one frame.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.errors import GraphBubbleUp, ParentCommand

from .objects import JsonObject, member
from .render import error_of

FLUSH_S = 1.0
# Spans of an attempt; more are counted only.
MAX_SPANS = 1_000
MAX_NAME = 256
MAX_ERROR = 512
# The library gives this tag to the call of a node.
NODE = "graph:step:"
HIDDEN = "langsmith:hidden"


@dataclass(slots=True)
class Call:
    """A call of the library that has not ended: `span` is its own, or that of the call around it."""

    span: JsonObject
    is_own: bool


class Spans(BaseCallbackHandler):
    """`send`: takes a HostSpans (schemas/trace.ts). `is_stopped`: what fails from now on was cancelled."""

    # Called where the call is made, and before it starts.
    run_inline = True

    def __init__(
        self,
        graph_id: str,
        attempt: int,
        loop: asyncio.AbstractEventLoop,
        send: Callable[[JsonObject], None],
        is_stopped: Callable[[], bool],
        is_sealed: bool = False,
    ) -> None:
        self.attempt, self.loop, self.send, self.is_stopped = attempt, loop, send, is_stopped
        # Errors are recorded by their names only.
        self.is_sealed = is_sealed
        self.graph = span_of(0, None, "graph", graph_id)
        self.calls: dict[UUID, Call] = {}
        self.open: dict[int, JsonObject] = {0: self.graph}
        self.changed: dict[int, JsonObject] = {0: self.graph}
        self.count, self.left_out = 1, 0
        self.is_over = False
        self.is_flush_due = False
        self.timer: asyncio.TimerHandle | None = None
        # Synchronous nodes run in threads.
        self.lock = threading.Lock()

    # The parts that run.

    def begin(self, run_id: UUID, parent: UUID | None, kind: str, name: str) -> JsonObject | None:
        """The span of the call; None: there are too many."""
        with self.lock:
            above = self.around(parent)
            if self.count == MAX_SPANS:
                self.left_out += 1
                self.calls[run_id] = Call(above, False)
                return None
            span = span_of(self.count, above["id"], kind, name)
            self.count += 1
            if kind == "node" and above["type"] == "node":
                above["type"] = "subgraph"
                self.change(above)
            self.calls[run_id] = Call(span, True)
            self.open[span["id"]] = span
            self.change(span)
            return span

    def around(self, parent: UUID | None) -> JsonObject:
        call = None if parent is None else self.calls.get(parent)
        return self.graph if call is None else call.span

    def ended(self, run_id: UUID, status: str, error: str | None = None, **more: Any) -> None:
        with self.lock:
            call = self.calls.pop(run_id, None)
            if call is not None and call.is_own:
                call.span.update(more)
                self.close(call.span, status, error)

    def close(self, span: JsonObject, status: str, error: str | None = None) -> None:
        self.open.pop(span["id"], None)
        span["end"], span["status"] = now(), status
        if error is not None:
            span["error"] = (error.splitlines() or [""])[0][:MAX_ERROR]
        self.change(span)

    def change(self, span: JsonObject) -> None:
        # A node may go on after the end of its run.
        if self.is_over:
            return
        self.changed[span["id"]] = span
        if not self.is_flush_due:
            self.is_flush_due = True
            self.loop.call_soon_threadsafe(self.flush_later)

    def flush_later(self) -> None:
        if not self.is_over:
            self.timer = self.loop.call_later(FLUSH_S, self.flush)

    def flush(self) -> None:
        """Sends what has changed."""
        if self.timer is not None:
            self.timer.cancel()
        with self.lock:
            self.is_flush_due = False
            spans = [dict(self.changed[id]) for id in sorted(self.changed)]
            self.changed.clear()
        if spans:
            self.send({"attempt": self.attempt, "spans": spans, "left_out": self.left_out})

    def end(self, status: str, error: str | None = None) -> None:
        """Ends the run: what has not ended was cancelled."""
        with self.lock:
            for span in list(self.open.values()):
                if span is not self.graph:
                    self.close(span, "cancelled")
            self.close(self.graph, status, None if self.is_sealed else error)
        self.flush()
        self.is_over = True

    def drop(self) -> None:
        """Nothing more is sent."""
        self.is_over = True
        self.changed.clear()
        self.flush()

    def fail(self, run_id: UUID, error: BaseException) -> None:
        # A jump to a node of the parent graph is raised, too.
        if isinstance(error, GraphBubbleUp):
            return self.ended(run_id, "ok" if isinstance(error, ParentCommand) else "interrupted")
        if self.is_stopped():
            return self.ended(run_id, "cancelled")
        name = type(error).__name__
        self.ended(run_id, "error", name if self.is_sealed else error_of(error)["message"] or name)

    # Methods that the library calls.

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any
    ) -> None:
        tags, name = more.get("tags") or (), more.get("name") or "node"
        # `__start__` writes the input.
        is_node = any(tag.startswith(NODE) for tag in tags) and HIDDEN not in tags and not name.startswith("__")
        if is_node:
            self.begin(run_id, parent_run_id, "node", name)
        else:
            self.calls[run_id] = Call(self.around(parent_run_id), False)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **more: Any) -> None:
        self.ended(run_id, "ok")

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        self.fail(run_id, error)

    def on_tool_start(
        self, serialized: Any, input_str: str, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any
    ) -> None:
        self.begin(run_id, parent_run_id, "tool", more.get("name") or name_of(serialized) or "tool")

    def on_tool_end(self, output: Any, *, run_id: UUID, **more: Any) -> None:
        self.ended(run_id, "ok")

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        self.fail(run_id, error)

    def on_llm_start(self, serialized: Any, prompts: Any, *, run_id: UUID, **more: Any) -> None:
        self.begin_model(serialized, run_id, more)

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, **more: Any) -> None:
        self.begin_model(serialized, run_id, more)

    def begin_model(self, serialized: Any, run_id: UUID, more: JsonObject) -> None:
        name = more.get("name") or name_of(serialized) or "model"
        span = self.begin(run_id, more.get("parent_run_id"), "model", name)
        if span is None:
            return
        metadata, asked = member(more, "metadata"), member(more, "invocation_params")
        for key, found in (
            ("model", (metadata.get("ls_model_name"), asked.get("model"), asked.get("model_name"))),
            ("provider", (metadata.get("ls_provider"),)),
        ):
            if value := next((each for each in found if isinstance(each, str)), None):
                span[key] = value[:MAX_NAME]

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **more: Any) -> None:
        call = self.calls.get(run_id)
        if call is not None and call.is_own and "first_token" not in call.span:
            call.span["first_token"] = now()

    def on_llm_end(self, response: Any, *, run_id: UUID, **more: Any) -> None:
        self.ended(run_id, "ok", **usage_of(response))

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        self.fail(run_id, error)


def span_of(id: int, parent: int | None, kind: str, name: str) -> JsonObject:
    return {
        "id": id,
        "parent": parent,
        "type": kind,
        "name": name[:MAX_NAME],
        "start": now(),
        "end": None,
        "status": "running",
    }


def name_of(serialized: Any) -> str | None:
    facts: JsonObject = serialized or {}
    ids: list[str] = facts.get("id") or [""]
    return facts.get("name") or ids[-1] or None


def usage_of(response: Any) -> JsonObject:
    """The tokens and the model of an answer, as far as the model reports them."""
    generations = getattr(response, "generations", None)
    message = getattr(generations[0][0], "message", None) if generations and generations[0] else None
    output: JsonObject = getattr(response, "llm_output", None) or {}
    usage: JsonObject = getattr(message, "usage_metadata", None) or {}
    told = member(output, "token_usage")
    facts: JsonObject = getattr(message, "response_metadata", None) or {}
    found: JsonObject = {}
    for key, older in (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens")):
        count = usage.get(key, told.get(older))
        if isinstance(count, int) and count >= 0:
            found[key] = count
    model = facts.get("model_name") or facts.get("model") or output.get("model_name")
    if isinstance(model, str):
        found["model"] = model[:MAX_NAME]
    return found


def now() -> float:
    """Milliseconds since the epoch."""
    return time.time() * 1000
