"""
The item store as graphs get it: `config.store`, `get_store()`, `Runtime.store`. The operations of one turn of the event
loop travel to the resource worker in one message, under the lease of the run. An awaited put is stored durably.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from ..objects import JsonObject, member
from ..packed import read_json
from ..render import render
from ..watchdog import current_slot
from .base_saver import wait_for

Ask = Callable[[bytes], Awaitable[bytes]]


class RefusedOperation(ValueError):
    """The store refuses an operation: its sentence says why."""


def operation_of(op: Op) -> JsonObject:
    """An ItemOperation (schemas/items/items.ts)."""
    if isinstance(op, GetOp):
        return {"op": "get", "namespace": op.namespace, "key": op.key}
    if isinstance(op, PutOp):
        return put_of(op)
    if isinstance(op, SearchOp):
        return {
            "op": "search",
            "namespace_prefix": op.namespace_prefix,
            "filter": op.filter,
            "query": op.query,
            "limit": op.limit,
            "offset": op.offset,
            "refresh_ttl": op.refresh_ttl,
        }
    if type(op) is ListNamespacesOp:
        paths = {condition.match_type: condition.path for condition in op.match_conditions or ()}
        return {
            "op": "namespaces",
            "prefix": paths.get("prefix"),
            "suffix": paths.get("suffix"),
            "max_depth": op.max_depth,
            "limit": op.limit,
            "offset": op.offset,
        }
    raise TypeError(f"A store knows no operation {type(op).__name__}.")


def put_of(op: PutOp) -> JsonObject:
    reference = {"namespace": op.namespace, "key": op.key}
    value: Any = op.value
    if value is None:
        return {"op": "delete", **reference}
    if not isinstance(value, Mapping):
        raise TypeError("The value of an item must be an object.")
    index = {} if op.index is None else {"index": op.index}
    ttl = {"ttl": op.ttl} if isinstance(op.ttl, int | float) else {}
    return {"op": "put", **reference, "value": cast(Mapping[str, Any], value), **index, **ttl}


def item_of(found: JsonObject, kind: type[Item] = Item) -> Item:
    fields: JsonObject = {
        "namespace": tuple(found["namespace"]),
        "key": found["key"],
        "value": found["value"],
        "created_at": datetime.fromisoformat(found["created_at"]),
        "updated_at": datetime.fromisoformat(found["updated_at"]),
    }
    if kind is SearchItem:
        fields["score"] = found.get("score")
    return kind(**fields)


def result_of(op: Op, answer: Any) -> Result | RefusedOperation:
    """An ItemAnswer (schemas/items/items.ts) as the library's result."""
    if "error" in member(answer) and "key" not in member(answer):
        return RefusedOperation(str(member(answer)["error"]))
    if isinstance(op, GetOp):
        return None if answer is None else item_of(member(answer))
    rows = cast(list[Any], answer)
    if isinstance(op, SearchOp):
        return [cast(SearchItem, item_of(each, SearchItem)) for each in rows]
    return [tuple(each) for each in rows] if isinstance(op, ListNamespacesOp) else None


class ItemStore(BaseStore):
    """
    The store of one run. `ask` takes an ItemBatch and answers a list of ItemAnswer; None: calls have no store. An
    object that outlives a run may keep its store, because other servers have one for all runs: an operation is that
    of the run in `stores`, by slot, whose code calls.
    """

    __slots__ = ("ask", "loop", "stores", "waiting")
    supports_ttl = True

    def __init__(self, ask: Ask | None, stores: Mapping[int, ItemStore] | None = None) -> None:
        self.stores: Mapping[int, ItemStore] = {} if stores is None else stores
        self.loop = asyncio.get_running_loop()
        self.ask = ask
        self.waiting: list[tuple[list[Op], asyncio.Future[list[Result]]]] = []

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Raises RefusedOperation for the first operation that the store refuses; the others are carried out."""
        store = self.stores.get(current_slot.get(), self)
        if store is not self:
            return await store.abatch(ops)
        result: asyncio.Future[list[Result]] = self.loop.create_future()
        if not self.waiting:
            self.loop.call_soon(self.send)
        self.waiting.append((list(ops), result))
        return await result

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return wait_for(self.loop, self.abatch(ops), "The store")

    def close(self) -> None:
        """Its run has ended: nobody answers any more."""
        self.ask = None

    def send(self) -> None:
        batch, self.waiting = self.waiting, []
        task = self.loop.create_task(self.answer(batch))
        # A task without a reference may be collected.
        PENDING.add(task)
        task.add_done_callback(PENDING.discard)

    async def answer(self, batch: list[tuple[list[Op], asyncio.Future[list[Result]]]]) -> None:
        try:
            if self.ask is None:
                raise RuntimeError("A graph has its store during runs only.")
            operations = [operation_of(op) for ops, _ in batch for op in ops]
            answers: Iterator[Any] = iter(read_json(await self.ask(render({"operations": operations}))))
            for ops, result in batch:
                settle(result, [result_of(op, next(answers)) for op in ops])
        except BaseException as error:
            for _, result in batch:
                if not result.done():
                    result.set_exception(error)


PENDING: set[asyncio.Task[None]] = set()


def settle(result: asyncio.Future[list[Result]], results: list[Result | RefusedOperation]) -> None:
    if result.done():
        return
    refused = next((each for each in results if isinstance(each, RefusedOperation)), None)
    if refused is not None:
        result.set_exception(refused)
    else:
        result.set_result(cast(list[Result], results))
