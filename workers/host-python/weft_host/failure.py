"""The log entry of a failed run: the node, the line of the application, and the traceback."""

from __future__ import annotations

import re
import sys
import sysconfig
import traceback
from pathlib import Path

from .objects import JsonObject, member
from .render import error_of

# Maximum number of characters of a traceback or a message.
LONGEST = 8_000
# The library adds this note to the error that a node raises.
NOTE = re.compile(r"^During task with name '(.*)' and id '")
OWN = str(Path(__file__).resolve().parent)
STANDARD = sysconfig.get_path("stdlib")


def failure_of(start: JsonObject, thrown: BaseException, state: JsonObject | None) -> JsonObject:
    """A RunFailure (schemas/host.ts)."""
    shown = error_of(thrown)
    assistant_id = member(start, "kwargs", "config", "configurable").get("assistant_id")
    return {
        "error": shown["error"],
        "message": shown["message"][:LONGEST],
        "graph_id": start["graph_id"],
        "assistant_id": assistant_id if isinstance(assistant_id, str) else None,
        "node": node_of(thrown, state),
        "at": line_of(thrown),
        "stack": "".join(traceback.format_exception(thrown))[-LONGEST:],
    }


def node_of(thrown: BaseException, state: JsonObject | None) -> str | None:
    """The node that raised; else the only node that did not finish."""
    for note in getattr(thrown, "__notes__", ()):
        if found := NOTE.match(str(note)):
            return found[1]
    tasks: list[JsonObject] = state["tasks"] if state is not None else []
    return tasks[0]["name"] if len(tasks) == 1 else None


def line_of(thrown: BaseException) -> str | None:
    """The innermost frame outside of packages, Python and this host: `file:line:column`."""
    for frame in reversed(traceback.extract_tb(thrown.__traceback__)):
        if is_application(frame.filename):
            return f"{frame.filename}:{frame.lineno}:{(frame.colno or 0) + 1}"
    return None


def is_application(file: str) -> bool:
    if not file.startswith("/") or file.startswith((OWN, STANDARD)):
        return False
    return "/site-packages/" not in file and not file.startswith(f"{sys.prefix}/lib/python")
