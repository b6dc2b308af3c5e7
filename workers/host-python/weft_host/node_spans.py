"""
Measures the nodes of a traced run, also those of subgraphs. The supervisor makes spans of them (schemas/trace.ts): a
host has no connection for them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from contextvars import ContextVar

from langgraph.errors import GraphBubbleUp

from .objects import JsonObject
from .render import error_of

# Spans in a frame.
BATCH = 500
MAX_NAME = 256
MAX_ERROR = 1_024

# The task whose code this is: nodes of a subgraph are part of the node around them.
current_task: ContextVar[str | None] = ContextVar("weft_task", default=None)


class NodeSpans:
    """`send`: takes spans in the order of their start."""

    def __init__(self, send: Callable[[list[JsonObject]], None]) -> None:
        self.send = send
        self.ended: list[JsonObject] = []

    @contextlib.contextmanager
    def measure(self, task_id: str, name: str) -> Generator[None]:
        parent, start, error = current_task.get(), now(), None
        token = current_task.set(task_id)
        try:
            yield
        except GraphBubbleUp:
            # An interrupt is no error.
            raise
        except BaseException as raised:
            error = (error_of(raised)["message"] or type(raised).__name__)[:MAX_ERROR]
            raise
        finally:
            current_task.reset(token)
            span = {"id": task_id, "parent": parent, "name": name[:MAX_NAME], "start": start, "end": now()}
            self.ended.append({**span, "error": error})
            # The nodes around a node must be sent with it, or before it.
            if len(self.ended) >= BATCH and parent is None:
                self.flush()

    def flush(self) -> None:
        """Sends what has not been sent."""
        spans, self.ended = sorted(self.ended, key=lambda span: span["start"]), []
        for at in range(0, len(spans), BATCH):
            self.send(spans[at : at + BATCH])


def now() -> float:
    """Milliseconds since the epoch."""
    return time.time() * 1000
