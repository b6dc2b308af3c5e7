"""`store.path`: which exports are a store, what is asked of it, and what it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import orjson
import pytest
from langgraph.store.memory import InMemoryStore

from weft_host.app.store import OwnStore, open_store

closed: list[str] = []


@asynccontextmanager
async def managed() -> AsyncIterator[InMemoryStore]:
    yield InMemoryStore()
    closed.append("managed")


@contextmanager
def plain() -> Iterator[InMemoryStore]:
    yield InMemoryStore()
    closed.append("plain")


async def awaited() -> InMemoryStore:
    return InMemoryStore()


def nested() -> Any:
    return managed()


@pytest.mark.parametrize("exported", [InMemoryStore(), InMemoryStore, managed, plain, awaited, nested, managed()])
async def test_an_export_is_a_store_or_makes_one(exported: Any) -> None:
    async with AsyncExitStack() as stack:
        assert isinstance(await open_store(stack, exported, "s.py:s"), InMemoryStore)


async def test_a_context_manager_is_left_at_the_end() -> None:
    closed.clear()
    async with AsyncExitStack() as stack:
        await open_store(stack, managed, "s.py:s")
        await open_store(stack, plain, "s.py:s")
        assert closed == []
    assert closed == ["plain", "managed"]


@pytest.mark.parametrize("exported", [None, {}, lambda: {"a": 1}, "text"])
async def test_any_other_export_is_refused(exported: Any) -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(ValueError, match=r"store\.path: s\.py:s is no store; expected a BaseStore"):
            await open_store(stack, exported, "s.py:s")


async def asked(*operations: dict[str, Any], exported: Any = InMemoryStore) -> list[Any]:
    store = OwnStore()
    await store.open(exported, "s.py:s")
    return orjson.loads(await store.answer(orjson.dumps({"operations": operations})))


async def test_operations_are_carried_out_in_order() -> None:
    one = {"namespace": ["a", "b"], "key": "one"}
    answers = await asked(
        {"op": "put", **one, "value": {"n": 1, "list": [None, "ü"]}},
        {"op": "get", **one},
        {"op": "search", "namespace_prefix": ["a"], "filter": {"n": 1}, "limit": 5, "offset": None},
        {"op": "namespaces", "prefix": ["a"], "suffix": None, "max_depth": 1},
        {"op": "delete", **one},
        {"op": "get", **one, "refresh_ttl": False},
    )
    item = {**one, "value": {"n": 1, "list": [None, "ü"]}}
    assert answers[0] is None
    assert {name: answers[1][name] for name in item} == item
    assert answers[1]["created_at"].endswith("+00:00")
    assert answers[2] == [{**answers[1], "score": None}]
    assert answers[3:] == [[["a"]], None, None]


class Broken(InMemoryStore):
    async def abatch(self, ops: Any) -> Any:
        raise ConnectionError("the database is gone")


async def test_an_operation_that_fails_does_not_fail_the_others() -> None:
    one = {"namespace": ["a"], "key": "one"}
    answers = await asked(
        {"op": "put", **one, "value": {}, "ttl": 5},
        {"op": "put", "namespace": ["langgraph"], "key": "k", "value": {}},
        {"op": "put", **one, "value": {}, "ttl": None, "index": False},
        {"op": "get", **one},
    )
    assert [each["code"] for each in answers[:2]] == ["invalid", "invalid"]
    assert "TTL is not supported" in answers[0]["error"]
    assert answers[3]["value"] == {}
    broken = await asked({"op": "get", **one}, exported=Broken)
    assert broken == [{"error": "ConnectionError: the database is gone", "code": "internal"}]
