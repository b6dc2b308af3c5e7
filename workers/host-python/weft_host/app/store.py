"""
`store.path` of langgraph.json: a store that the application brings, for `/store` and the graphs of both languages. Its
export is a BaseStore, a context manager or an awaitable of one, or a function that returns one of these.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import groupby
from typing import Any, cast

import orjson
from langgraph.store.base import BaseStore, Item

from ..objects import JsonObject
from ..render import render
from .description import open_export


async def open_store(stack: AsyncExitStack, exported: Any, text: str) -> BaseStore:
    """Raises ValueError with one sentence for an export that is no store. `stack` closes the store."""
    store = await open_export(stack, exported, BaseStore)
    if store is None:
        raise ValueError(
            f"store.path: {text} is no store; expected a BaseStore, or a function or an async context manager of one."
        )
    return store


class OwnStore:
    """The store, which is closed at the end of the process."""

    def __init__(self) -> None:
        self.stack = AsyncExitStack()

    async def open(self, exported: Any, text: str) -> None:
        self.store = await open_store(self.stack, exported, text)
        self.operations: dict[str, Callable[[JsonObject], Awaitable[Any]]] = {
            "get": self.get,
            "put": self.put,
            "delete": self.delete,
            "search": self.search,
            "namespaces": self.namespaces,
        }

    async def answer(self, batch: bytes) -> bytes:
        """Answers an ItemBatch (schemas/items/items.ts), both as JSON: in order, with reads in a row at once."""
        answers: list[Any] = []
        for is_write, operations in groupby(orjson.loads(batch)["operations"], is_write_operation):
            if is_write:
                answers += [await self.one(each) for each in operations]
            else:
                answers += await asyncio.gather(*(self.one(each) for each in operations))
        return render(answers)

    async def one(self, operation: JsonObject) -> Any:
        try:
            return await self.operations[operation["op"]](operation)
        except (ValueError, NotImplementedError) as error:
            return {"error": str(error)[:500] or type(error).__name__, "code": "invalid"}
        except Exception as error:
            traceback.print_exc()
            return {"error": f"{type(error).__name__}: {error}"[:500], "code": "internal"}

    async def get(self, asked: JsonObject) -> Any:
        found = await self.store.aget(tuple(asked["namespace"]), asked["key"], **given(asked, "refresh_ttl"))
        return None if found is None else item_of(found)

    async def put(self, asked: JsonObject) -> None:
        ttl = {"ttl": asked["ttl"]} if "ttl" in asked else {}
        options = {**given(asked, "index"), **ttl}
        await self.store.aput(tuple(asked["namespace"]), asked["key"], asked["value"], **options)

    async def delete(self, asked: JsonObject) -> None:
        await self.store.adelete(tuple(asked["namespace"]), asked["key"])

    async def search(self, asked: JsonObject) -> Any:
        options = given(asked, "filter", "query", "limit", "offset", "refresh_ttl")
        found = await self.store.asearch(tuple(asked.get("namespace_prefix") or ()), **options)
        return [{**item_of(each), "score": getattr(each, "score", None)} for each in found]

    async def namespaces(self, asked: JsonObject) -> Any:
        paths = {name: tuple(asked[name]) for name in ("prefix", "suffix") if asked.get(name)}
        return await self.store.alist_namespaces(**cast(Any, paths), **given(asked, "max_depth", "limit", "offset"))


def is_write_operation(operation: JsonObject) -> bool:
    return operation["op"] in ("put", "delete")


def given(asked: JsonObject, *names: str) -> JsonObject:
    """The library has defaults for arguments that are absent."""
    return {name: asked[name] for name in names if asked.get(name) is not None}


def item_of(item: Item) -> JsonObject:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": item.created_at.isoformat(),
        "updated_at": item.updated_at.isoformat(),
    }
