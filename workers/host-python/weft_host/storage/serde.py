"""
Converts channel values to typed bytes and back: with the library's serialiser (`null`, `bytes`, `msgpack`). Hosts for
JavaScript write `json`, whose `lc` constructors become messages here.

Metadata and the envelope of a checkpoint are always JSON: the resource worker reads the metadata when it prunes, and
hosts of both languages read the envelope.
"""

from __future__ import annotations

from typing import Any, NoReturn, cast

import orjson
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ..packed import read_json
from ..render import render

# Everything that JSON has no word for is passed to `refuse`.
STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
OPTIONS = ("pickle_fallback", "allowed_json_modules", "allowed_msgpack_modules")


class Serde:
    """The library's SerializerProtocol."""

    def __init__(self, inner: Any = None) -> None:
        self.inner: Any = inner or JsonPlusSerializer()

    @classmethod
    def of(cls, settings: dict[str, Any]) -> Serde:
        """`settings`: `checkpointer.serde` of langgraph.json. Older libraries lack some of the options."""
        given = {name: settings[name] for name in OPTIONS if name in settings}
        while given:
            try:
                return cls(JsonPlusSerializer(**given))
            except TypeError:
                name, _ = given.popitem()
                print(f'checkpointer.serde: this version of langgraph has no "{name}"; it is ignored.')
        return cls()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return self.inner.dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        kind, value = data
        # Text without any "lc" member holds nothing that the library would revive.
        if kind == "json" and b'"lc":' not in value:
            return read_json(value)
        return self.inner.loads_typed(data)

    def with_msgpack_allowlist(self, extra: Any) -> Serde:
        return Serde(self.inner.with_msgpack_allowlist(extra))


def refuse(value: object) -> NoReturn:
    raise TypeError(f"JSON has no {type(value).__name__}")


def json_bytes(value: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(value, refuse, STRICT)
    except (TypeError, ValueError):
        return render(value)


def json_object(kind: str, data: bytes) -> dict[str, Any]:
    """Raises ValueError for another type than `json`: no host writes one."""
    if kind != "json":
        raise ValueError(f'the metadata of a checkpoint is of type "{kind}", expected "json"')
    return cast(dict[str, Any], read_json(data))
