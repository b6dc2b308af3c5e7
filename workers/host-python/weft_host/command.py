"""The input that a run passes to the library, from the stored request (docs/spec/runs.md#payload)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from langgraph import errors
from langgraph.types import Command, Send

from .objects import JsonObject

MISSING = object()


async def input_of(kwargs: JsonObject, pending: Callable[[], Awaitable[list[str]]]) -> Any:
    """
    A Command, the input, or None to continue. `pending` returns the ids of the pending interrupts, for an answer that
    the library would ignore.
    """
    command: JsonObject = kwargs.get("command") or {}
    parts: JsonObject = {}
    # Absent and null differ: null is an answer.
    if (resume := command.get("resume", MISSING)) is not MISSING:
        is_strict = kwargs.get("strict_resume") is True
        if is_strict and not hasattr(errors, "UnknownInterruptError"):
            raise RuntimeError("strict_resume needs langgraph 1.2.20 or newer: update it, or send strict_resume: false")
        parts["resume"] = await answer_of(resume, pending, is_strict)
    if update := command.get("update"):
        parts["update"] = update if isinstance(update, dict) else [tuple(each) for each in update]
    if goto := command.get("goto"):
        targets = cast(list[Any], goto) if isinstance(goto, list) else [goto]
        parts["goto"] = [target(each) for each in targets]
    if not parts:
        return kwargs.get("input")
    return None if all(part is None for part in parts.values()) else Command(**parts)


async def answer_of(resume: Any, pending: Callable[[], Awaitable[list[str]]], is_strict: bool) -> Any:
    """The library ignores None. An answer that is keyed by the id of its interrupt reaches the node."""
    if resume is not None:
        return resume
    ids = await pending()
    # In strict mode the library refuses an answer that fits several interrupts.
    if is_strict and len(ids) > 1:
        return False
    return {ids[0]: None} if ids else None


def target(goto: Any) -> str | Send:
    if isinstance(goto, str):
        return goto
    return Send(goto["node"], {} if goto.get("input") is None else goto["input"])
