"""
`encryption` of langgraph.json: calls the handlers of an `Encryption` of langgraph_sdk. What is encrypted, and when, is
decided by resource workers (workers/resources/encryption); a question has all values of one write or one read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from ..objects import JsonObject
from ..packed import cutter, pack
from .user import plain, user_of

Handler = Callable[[Any, Any], Awaitable[Any]]


class KeysChangedError(Exception):
    """A handler returned another kind of value, or an object with other keys: its values could not be merged."""


class EncryptionHandlers:
    """Raises ValueError with one sentence for an export that is no Encryption."""

    def __init__(self, exported: Any, text: str) -> None:
        if not hasattr(exported, "_blob_encryptor") or not hasattr(exported, "_json_encryptor"):
            raise ValueError(f"encryption.path: {text} is no Encryption; expected an instance of langgraph_sdk.")
        self.handlers: dict[tuple[str, str], Handler | None] = {
            (op, kind): getattr(exported, f"_{kind}_{op}or", None) for op in ("encrypt", "decrypt") for kind in KINDS
        }
        self.context_handler: Handler | None = getattr(exported, "_context_handler", None)
        for kind in KINDS:
            pair = [self.handlers[op, kind] is None for op in ("encrypt", "decrypt")]
            if pair[0] != pair[1]:
                raise ValueError(f"encryption.path: {text} needs both encrypt.{kind} and decrypt.{kind}, or neither.")
        if all(handler is None for handler in self.handlers.values()):
            raise ValueError(f"encryption.path: {text} has no handlers; expected encrypt.json, encrypt.blob or both.")

    @property
    def hello(self) -> JsonObject:
        has = {kind: self.handlers["encrypt", kind] is not None for kind in KINDS}
        return {**has, "context": self.context_handler is not None}

    async def answer(self, head: JsonObject, body: bytes) -> bytes:
        """The sizes of the results, and the results in the order of the values. Raises what a handler raises."""
        cut = cutter(body)
        values = [(each, cut(each["size"])) for each in head["values"]]
        results = await asyncio.gather(*(self.one(each, value) for each, value in values))
        return pack({"sizes": [len(each) for each in results]}, results)

    async def one(self, asked: JsonObject, value: bytes) -> bytes:
        op, kind = asked["op"], asked["kind"]
        handler = self.handlers[op, kind]
        if handler is None:
            raise LookupError(f"the application has no {op}.{kind}")
        context = context_of(asked["context"], asked["model"], asked["field"])
        given: Any = json.loads(value) if kind == "json" else value
        returned = await handler(context, given)
        # DecryptResult of newer SDKs; what should replace the stored value is not written.
        result: Any = getattr(returned, "plaintext", returned)
        where = f"{op}.{kind} for {asked['model']}.{asked['field']}"
        if kind == "blob":
            if not isinstance(result, (bytes, bytearray, memoryview)):
                raise KeysChangedError(f"{where} returned {type(result).__name__}; expected bytes")
            return bytes(cast(Any, result))
        if not isinstance(result, Mapping):
            raise KeysChangedError(f"{where} returned {type(result).__name__}; expected a dict")
        found = cast("Mapping[str, Any]", result)
        if changed := sorted(set(found) ^ set(given)):
            raise KeysChangedError(f"{where} added or removed the key {changed[0]}; expected the same keys")
        return to_json(found)

    async def context(self, asked: JsonObject) -> bytes:
        """The result of the `context` handler for the user and the header of a request."""
        assert self.context_handler is not None
        context = await self.context_handler(user_of(asked["user"]), context_of(asked["context"], None, None))
        if not isinstance(context, Mapping):
            raise KeysChangedError(f"encryption.context returned {type(context).__name__}; expected a dict")
        return pack(to_json({"context": context}))


KINDS = ("blob", "json")


def to_json(value: Any) -> bytes:
    """JSON in ASCII, because a text may hold half of a surrogate pair."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"), default=plain).encode()


def context_of(metadata: JsonObject, model: str | None, field: str | None) -> Any:
    from langgraph_sdk.encryption import types

    return types.EncryptionContext(model=model, metadata=metadata, field=field)
