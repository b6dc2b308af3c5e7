"""Encryption with a key per tenant, for tests: real handlers would ask a key service."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
from itertools import cycle
from typing import Any

from langgraph_sdk import Encryption

encryption = Encryption()
PLAIN = {"owner", "graph_id", "assistant_id", "run_id", "thread_id", "broken"}
PREFIX = "enc:"


def key_of(ctx: Any) -> bytes:
    tenant = ctx.metadata.get("tenant", "none")
    if tenant == "closed":
        raise RuntimeError(f"no key for a secret tenant: {tenant}")
    return hashlib.sha256(f"key of {tenant}".encode()).digest()


def mixed(key: bytes, nonce: bytes, data: bytes) -> bytes:
    stream = hashlib.sha256(key + nonce).digest()
    return bytes(a ^ b for a, b in zip(data, cycle(stream)))


def seal(ctx: Any, data: bytes) -> bytes:
    nonce = os.urandom(8)
    return nonce + hashlib.sha256(key_of(ctx) + data).digest()[:8] + mixed(key_of(ctx), nonce, data)


def unseal(ctx: Any, data: bytes) -> bytes:
    plain = mixed(key_of(ctx), data[:8], data[16:])
    if hashlib.sha256(key_of(ctx) + plain).digest()[:8] != data[8:16]:
        raise ValueError("another key")
    return plain


@encryption.encrypt.blob
async def encrypt_blob(ctx: Any, blob: bytes) -> bytes:
    return seal(ctx, blob)


@encryption.decrypt.blob
async def decrypt_blob(ctx: Any, blob: bytes) -> bytes:
    return unseal(ctx, blob)


@encryption.encrypt.json
async def encrypt_json(ctx: Any, data: dict[str, Any]) -> dict[str, Any]:
    if data.get("broken") == "keys":
        return {"all": "of it"}
    if data.get("broken") == "exit":
        os._exit(3)
    if data.get("broken") == "slow":
        await asyncio.sleep(0.3)
    return {
        name: value
        if name in PLAIN or value is None
        else PREFIX + base64.b64encode(seal(ctx, json.dumps(value).encode())).decode()
        for name, value in data.items()
    }


@encryption.decrypt.json
async def decrypt_json(ctx: Any, data: dict[str, Any]) -> dict[str, Any]:
    return {
        name: json.loads(unseal(ctx, base64.b64decode(value[len(PREFIX) :])))
        if isinstance(value, str) and value.startswith(PREFIX)
        else value
        for name, value in data.items()
    }


@encryption.context
async def context(user: Any, ctx: Any) -> dict[str, Any]:
    return {**ctx.metadata, "tenant": user.identity}
