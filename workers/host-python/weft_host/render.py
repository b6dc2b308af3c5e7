"""
Renders values as the JSON text that a client sees. orjson writes nearly all of it natively and passes what it does not
know to `plain`. What it refuses (a cycle, a lone surrogate, an int of more than 64 bits) is copied once by `tamed`, and
written again.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import ipaddress
import math
import pathlib
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import orjson
from langchain_core.messages import BaseMessage
from langgraph.types import Send
from pydantic import BaseModel

OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
DEEPEST = 200
LISTS = (list, tuple, set, frozenset, collections.deque)


def render(value: Any) -> bytes:
    """Compact JSON."""
    try:
        return orjson.dumps(message_dict(value) if isinstance(value, BaseMessage) else value, plain, OPTIONS)
    except (TypeError, ValueError, RecursionError):
        return orjson.dumps(tamed(value, ()), plain, OPTIONS)


def error_of(error: BaseException) -> dict[str, str]:
    """An error as events and finish frames carry it: the name of its class and its message."""
    try:
        message = str(error)
    except Exception:
        message = "something that cannot be shown"
    return {"error": type(error).__name__, "message": message}


def message_dict(message: BaseMessage) -> dict[str, Any]:
    """A message as a flat object, from its own fields: `model_dump` gives the same at several times the cost."""
    flat = dict(message.__dict__)
    if extra := message.__pydantic_extra__:
        flat.update(extra)
    return flat


def fields_of_model(value: BaseModel) -> Any:
    try:
        return value.model_dump()
    except Exception:
        return dict(value.__dict__)


def named(value: tuple[Any, ...]) -> Any:
    return cast(Any, value)._asdict() if hasattr(value, "_asdict") else list(value)


def encoded(value: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(value).decode()


def listed(value: Iterable[Any]) -> list[Any]:
    return list(value)


def number_of(value: decimal.Decimal) -> int | float | None:
    """An int unless it has decimal places."""
    if not value.is_finite():
        return None
    return float(value) if int(value.as_tuple().exponent) < 0 else int(value)


# Values that orjson does not know, one level. The first class that fits converts.
CONVERTERS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (BaseMessage, message_dict),
    (BaseModel, fields_of_model),
    (BaseException, error_of),
    ((set, frozenset, collections.deque), listed),
    (tuple, named),
    ((bytes, bytearray, memoryview), encoded),
    (decimal.Decimal, number_of),
    (Send, lambda value: {"node": value.node, "args": value.arg}),
    (Mapping, dict),
    (type, lambda value: None),
    (datetime.timedelta, lambda value: value.total_seconds()),
    (datetime.tzinfo, lambda value: value.tzname(None)),
    (re.Pattern, lambda value: value.pattern),
    (
        (pathlib.PurePath, ipaddress.IPv4Address, ipaddress.IPv4Interface, ipaddress.IPv4Network),
        str,
    ),
    ((ipaddress.IPv6Address, ipaddress.IPv6Interface, ipaddress.IPv6Network), str),
)
METHODS: tuple[str, ...] = ("model_dump", "dict", "to_dict", "tolist", "_asdict")


def plain(value: Any) -> Any:
    for kinds, convert in CONVERTERS:
        if isinstance(value, kinds):
            return convert(value)
    for name in METHODS:
        method = getattr(value, name, None)
        if callable(method):
            try:
                return method()
            except Exception:
                continue
    kind = cast(type[Any], type(value))
    if kind.__module__.startswith("langgraph."):
        slots: Iterable[str] = getattr(kind, "__slots__", ())
        if found := {name: getattr(value, name) for name in slots if hasattr(value, name)}:
            return found
    # Other servers write it so, too: its text would often be the address of an object.
    return None


def tamed(value: Any, above: tuple[int, ...]) -> Any:
    """A copy without what orjson refuses. `above`: ids of the values around it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return tamed(cast(Any, value).value, above)
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if id(value) in above:
        return "[Circular]"
    if len(above) > DEEPEST:
        return "[Too deep]"
    inner = (*above, id(value))
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value).items()
        return {key_text(key): tamed(item, inner) for key, item in items}
    if isinstance(value, LISTS) and not hasattr(cast(Any, value), "_asdict"):
        return [tamed(item, inner) for item in cast(Iterable[Any], value)]
    anything: Any = cast(Any, value)
    if dataclasses.is_dataclass(anything) and not isinstance(anything, type):
        return {field.name: tamed(getattr(anything, field.name), inner) for field in dataclasses.fields(anything)}
    if isinstance(value, datetime.date | datetime.time | uuid.UUID):
        return value
    return tamed(plain(value), inner)


def well_formed(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def key_text(key: Any) -> str:
    return well_formed(str(cast(Any, key).value if isinstance(key, enum.Enum) else key))
