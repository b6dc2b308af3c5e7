"""JSON objects."""

from __future__ import annotations

from typing import Any, cast

JsonObject = dict[str, Any]


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def member(value: Any, *path: str) -> JsonObject:
    """The object at `path`; empty where there is none."""
    for name in path:
        value = cast(JsonObject, value).get(name) if isinstance(value, dict) else None
    return cast(JsonObject, value) if isinstance(value, dict) else {}
