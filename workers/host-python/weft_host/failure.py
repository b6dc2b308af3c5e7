"""The log entry of a failed run: the node, the line of the application, and the traceback."""

from __future__ import annotations

import os
import re
import sysconfig
import traceback
from dataclasses import dataclass
from pathlib import Path

from .objects import JsonObject, member
from .render import error_of

# Maximum number of characters of a traceback or a message.
LONGEST = 8_000
# The library adds this note to the error that a node raises.
NOTE = re.compile(r"^During task with name '(.*)' and id '")
OWN = str(Path(__file__).resolve().parent)
STANDARD = sysconfig.get_path("stdlib")
LONGEST_FILE, LONGEST_NAME = 1_024, 256
# Folders of packages inside the folder of an application.
PACKAGES = frozenset(("site-packages", "dist-packages", "node_modules", ".venv"))


@dataclass(frozen=True)
class AppFrame:
    """A frame of a traceback in code of the application."""

    # Absolute, and relative to the folder of langgraph.json.
    file: str
    path: str
    line: int
    column: int
    function: str | None


def failure_of(
    start: JsonObject, thrown: BaseException, state: JsonObject | None, frame: AppFrame | None
) -> JsonObject:
    """A RunFailure (schemas/host.ts)."""
    shown = error_of(thrown)
    assistant_id = member(start, "kwargs", "config", "configurable").get("assistant_id")
    return {
        "error": shown["error"],
        "message": shown["message"][:LONGEST],
        "graph_id": start["graph_id"],
        "assistant_id": assistant_id if isinstance(assistant_id, str) else None,
        "node": node_of(thrown, state),
        "at": None if frame is None else f"{frame.file}:{frame.line}:{frame.column}",
        "stack": "".join(traceback.format_exception(thrown))[-LONGEST:],
    }


def node_of(thrown: BaseException, state: JsonObject | None) -> str | None:
    """The node that raised; else the only node that did not finish."""
    for note in getattr(thrown, "__notes__", ()):
        if found := NOTE.match(str(note)):
            return found[1]
    tasks: list[JsonObject] = state["tasks"] if state is not None else []
    return tasks[0]["name"] if len(tasks) == 1 else None


def frame_of(thrown: BaseException, folders: list[str]) -> AppFrame | None:
    """The innermost frame in the folders of the application, outside of its packages."""
    for frame in reversed(traceback.extract_tb(thrown.__traceback__)):
        file = os.path.realpath(frame.filename)
        if os.path.isabs(frame.filename) and frame.lineno and any(is_within(folder, file) for folder in folders):
            path = os.path.relpath(file, folders[0]).replace(os.sep, "/")
            name = None if frame.name == "<module>" else frame.name
            return AppFrame(frame.filename, path, frame.lineno, (frame.colno or 0) + 1, name)
    return None


def is_within(folder: str, file: str) -> bool:
    """Not a file of a package, of Python, or of this host."""
    parts = os.path.relpath(file, folder).split(os.sep)
    return parts[0] != os.pardir and PACKAGES.isdisjoint(parts) and not file.startswith((OWN, STANDARD))


def place_of(frame: AppFrame) -> JsonObject:
    """An ErrorPlace (schemas/runs.ts)."""
    name = frame.function
    return {
        "file": frame.path[-LONGEST_FILE:],
        "line": frame.line,
        "function": None if name is None else name[:LONGEST_NAME],
    }
