"""The handlers of `encryption`: which exports are accepted, what they are given, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langgraph_sdk import Encryption

from weft_host.app.encryption import EncryptionHandlers, KeysChangedError
from weft_host.packed import cutter, pack, unpack


class Result:
    """As DecryptResult of newer SDKs."""

    def __init__(self, plaintext: Any) -> None:
        self.plaintext = plaintext


def whole() -> Any:
    encryption = Encryption()

    @encryption.encrypt.json
    async def encrypt(ctx: Any, data: dict[str, Any]) -> Any:
        if "list" in data:
            return [1]
        if "more" in data:
            return {**data, "added": 1}
        return {name: [ctx.model, ctx.field, ctx.metadata, value] for name, value in data.items()}

    @encryption.decrypt.json
    async def decrypt(ctx: Any, data: dict[str, Any]) -> Any:
        return Result({name: value[-1] for name, value in data.items()})

    return encryption


async def asked(handlers: EncryptionHandlers, op: str, value: bytes, kind: str = "json") -> bytes:
    head = {"op": op, "kind": kind, "model": "thread", "field": "metadata", "context": {"t": 1}, "size": len(value)}
    head, rest = unpack(await handlers.answer({"values": [head, head]}, value + value))
    cut = cutter(rest)
    first, second = [cut(size) for size in head["sizes"]]
    assert first == second
    return first


async def test_values_pass_the_handlers_with_their_context() -> None:
    handlers = EncryptionHandlers(whole(), "e.py:e")
    assert handlers.hello == {"json": True, "blob": False, "context": False}
    value = json.dumps({"a": "ü", "big": 2**70, "half": "\ud800", "none": None}).encode()
    sealed = await asked(handlers, "encrypt", value)
    assert json.loads(sealed)["a"] == ["thread", "metadata", {"t": 1}, "ü"]
    assert json.loads(await asked(handlers, "decrypt", sealed)) == json.loads(value)


async def test_other_keys_and_other_kinds_of_values_are_refused() -> None:
    handlers = EncryptionHandlers(whole(), "e.py:e")
    with pytest.raises(KeysChangedError, match="added or removed the key added"):
        await asked(handlers, "encrypt", b'{"more":1}')
    with pytest.raises(KeysChangedError, match="returned list; expected a dict"):
        await asked(handlers, "encrypt", b'{"list":1}')
    with pytest.raises(LookupError):
        await asked(handlers, "encrypt", b"x", "blob")


async def test_the_context_is_that_of_the_handler() -> None:
    encryption = whole()

    @encryption.context
    async def context(user: Any, ctx: Any) -> Any:
        return {**ctx.metadata, "tenant": user.identity}

    handlers = EncryptionHandlers(encryption, "e.py:e")
    answer, _ = unpack(await handlers.context({"user": {"identity": "ann"}, "context": {"a": 1}}))
    assert answer == {"context": {"a": 1, "tenant": "ann"}}


def test_what_is_no_encryption_is_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"e\.py:e is no Encryption"):
        EncryptionHandlers({}, "e.py:e")
    with pytest.raises(ValueError, match="has no handlers"):
        EncryptionHandlers(Encryption(), "e.py:e")
    half = Encryption()

    @half.encrypt.blob
    async def encrypt(ctx: Any, blob: bytes) -> bytes:
        return blob

    with pytest.raises(ValueError, match=r"needs both encrypt\.blob and decrypt\.blob"):
        EncryptionHandlers(half, "e.py:e")


def test_packed_answers_name_their_sizes() -> None:
    assert unpack(pack({"sizes": [1]}, [b"x"])) == ({"sizes": [1]}, b"x")
