import collections
import dataclasses
import datetime
import decimal
import enum
import ipaddress
import json
import pathlib
import re
from typing import Any, NamedTuple

import pytest
from langchain_core.messages import AIMessage
from langgraph.types import Interrupt, Send
from pydantic import BaseModel

from weft_host.render import error_of, render


class Color(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int


@dataclasses.dataclass
class Box:
    inner: Any


class Model(BaseModel):
    a: int = 1


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


cycle: dict[str, Any] = {}
cycle["self"] = cycle

ROWS: list[tuple[Any, Any]] = [
    ({1: 2, None: 3}, {"1": 2, "null": 3}),
    ({1, 2}, [1, 2]),
    (collections.deque([1]), [1]),
    (b"ab", "YWI="),
    (decimal.Decimal("1.50"), 1.5),
    (decimal.Decimal("12"), 12),
    (decimal.Decimal("NaN"), None),
    ([decimal.Decimal(2), "\ud800"], [2, "\ufffd"]),
    (re.compile("a.b"), "a.b"),
    (pathlib.Path("/a"), "/a"),
    (ipaddress.ip_address("::1"), "::1"),
    (datetime.UTC, "UTC"),
    (Send("n", {"a": 1}), {"node": "n", "args": {"a": 1}}),
    ([object(), dict, len, 1j, range(3), re], [None] * 6),
    (datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), "2026-01-02T00:00:00+00:00"),
    (datetime.timedelta(seconds=90), 90.0),
    (float("nan"), None),
    (float("inf"), None),
    (Color.RED, "red"),
    (Point(3), {"x": 3}),
    (Box({"a": {1}}), {"inner": {"a": [1]}}),
    (Model(), {"a": 1}),
    (ValueError("why"), {"error": "ValueError", "message": "why"}),
    (2**70, str(2**70)),
    ("lone \ud800", "lone \ufffd"),
    ({"\ud800": 1}, {"\ufffd": 1}),
    (cycle, {"self": "[Circular]"}),
    ([Color.RED, Point(1), 2**70], ["red", {"x": 1}, str(2**70)]),
]


@pytest.mark.parametrize(("value", "expected"), ROWS, ids=range(len(ROWS)))
def test_values_become_json(value: Any, expected: Any):
    assert json.loads(render(value)) == expected


def test_a_message_is_a_flat_object():
    flat = json.loads(render(AIMessage("hi", id="1", tool_calls=[{"name": "f", "args": {}, "id": "c"}])))
    assert flat["type"] == "ai"
    assert flat["content"] == "hi"
    assert flat["tool_calls"][0]["name"] == "f"
    assert "lc" not in flat


def test_an_interrupt_shows_its_value_and_id():
    assert json.loads(render(Interrupt(value=1, id="i"))).items() >= {"value": 1, "id": "i"}.items()


def test_a_send_shows_its_node_and_input():
    assert json.loads(render(Send("node", {"a": 1})))["node"] == "node"


def test_deep_nesting_ends_in_text():
    deep: Any = 1
    for _ in range(2_000):
        deep = [deep]
    assert b"[Too deep]" in render(deep)


def test_an_error_without_text_has_a_message():
    assert error_of(Unspeakable()) == {"error": "Unspeakable", "message": "something that cannot be shown"}
