"""
Values that a server printed as JSON, as the objects that the graph works with: a replayed history holds what the nodes
wrote. The reducer for messages would put the members that it does not expect into `additional_kwargs`, and a node that
reads `state["order"].total` needs an object, not a dict. What a class refuses stays a dict.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import Any, cast

from langchain_core import messages
from langchain_core.messages import BaseMessage
from langgraph.graph.message import add_messages
from pydantic import BaseModel, TypeAdapter

from .factory import AnyGraph
from .objects import JsonObject

# Every printed message has these members; what a person wrote by hand is left to the reducer.
PRINTED = ("content", "additional_kwargs", "response_metadata", "type")
NAMES = ("Human", "AI", "System", "Tool", "Function", "Chat", "Remove")
# By `type`: a message, and the chunk of one.
CLASSES: dict[str, type[BaseMessage]] = {
    **{name.lower(): cast(type[BaseMessage], getattr(messages, f"{name}Message")) for name in NAMES},
    **{
        f"{name}MessageChunk": cast(type[BaseMessage], getattr(messages, f"{name}MessageChunk"))
        for name in NAMES
        if hasattr(messages, f"{name}MessageChunk")
    },
}


def rebuilt(values: Any, graph: AnyGraph) -> Any:
    """The writes of a step: an object of channels, or a list of such objects."""
    hints = hints_of(graph)
    if isinstance(values, list):
        return [written(each, graph, hints) for each in cast(list[Any], values)]
    return written(values, graph, hints)


def written(values: Any, graph: AnyGraph, hints: dict[str, Any]) -> Any:
    if not isinstance(values, dict):
        return values
    channels = cast(JsonObject, getattr(graph, "channels", {}))
    return {
        key: value_of(value, hints.get(key), getattr(channels.get(key), "operator", None))
        for key, value in cast(JsonObject, values).items()
    }


def value_of(value: Any, hint: Any, reducer: Any) -> Any:
    if reducer is add_messages or mentions(hint, is_message):
        value = with_messages(value)
    if not mentions(hint, is_model):
        return value
    try:
        return TypeAdapter[Any](hint).validate_python(value)
    except Exception:
        return value


def with_messages(value: Any) -> Any:
    if isinstance(value, list):
        return [with_messages(each) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    printed = cast(JsonObject, value)
    kind = CLASSES.get(str(printed.get("type"))) if all(name in printed for name in PRINTED) else None
    if kind is None:
        return {key: with_messages(each) for key, each in printed.items()}
    try:
        return kind(**printed)
    except Exception:
        return printed


def hints_of(graph: AnyGraph) -> dict[str, Any]:
    """The type of each channel of a graph that was built from schemas; others have none."""
    hints: dict[str, Any] = {}
    schemas: Any = getattr(getattr(graph, "builder", None), "schemas", None) or {}
    for schema in schemas:
        try:
            found = typing.get_type_hints(schema)
        except Exception:
            continue
        for key, hint in found.items():
            hints.setdefault(key, hint)
    return hints


def mentions(hint: Any, fits: Callable[[Any], bool]) -> bool:
    return fits(hint) or any(mentions(each, fits) for each in typing.get_args(hint))


def is_message(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseMessage)


def is_model(hint: Any) -> bool:
    if not isinstance(hint, type) or is_message(hint):
        return False
    found = cast(type[object], hint)
    return issubclass(found, BaseModel) or dataclasses.is_dataclass(found)
