"""A value of a kind that JSON does not have, at the place that the input names."""

from __future__ import annotations

import datetime
import decimal
import enum
import ipaddress
import pathlib
import re
import uuid
from collections import deque, namedtuple
from dataclasses import dataclass
from typing import Any, TypedDict

from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import BaseModel


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: int
    y: Any = None


class Person(BaseModel):
    name: str
    born: datetime.date | None = None


Pair = namedtuple("Pair", ["left", "right"])
UTC = datetime.timezone.utc

KINDS: dict[str, Any] = {
    "null": lambda: None,
    "integer": lambda: 7,
    "float": lambda: 1.5,
    "whole float": lambda: 2.0,
    "large integer": lambda: 2**70,
    "not a number": lambda: float("nan"),
    "infinity": lambda: [float("inf"), float("-inf")],
    "text": lambda: "é \U0001f600 \u2028",
    "bytes": lambda: b"\x00\xffabc",
    "tuple": lambda: (1, ("two", None)),
    "set": lambda: {1},
    "frozen set": lambda: frozenset(["a"]),
    "deque": lambda: deque([1, 2]),
    "named tuple": lambda: Pair(1, "r"),
    "date": lambda: datetime.date(2024, 2, 29),
    "time": lambda: datetime.time(12, 30, 1, 5),
    "datetime": lambda: datetime.datetime(2024, 2, 29, 12, 30, 1, 5),
    "datetime with zone": lambda: datetime.datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
    "duration": lambda: datetime.timedelta(days=1, seconds=2.5),
    "decimal": lambda: decimal.Decimal("1.10"),
    "enum": lambda: Color.RED,
    "integer enum": lambda: Level.HIGH,
    "dataclass": lambda: Point(1, Point(2)),
    "pydantic": lambda: Person(name="Ada", born=datetime.date(1815, 12, 10)),
    "uuid": lambda: uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8"),
    "path": lambda: pathlib.PurePosixPath("/a/b"),
    "address": lambda: ipaddress.ip_address("127.0.0.1"),
    "pattern": lambda: re.compile("a+"),
    "message": lambda: HumanMessage(content="hi", id="m1"),
    "document": lambda: Document(page_content="text", metadata={"at": 1}),
    "integer keys": lambda: {1: "one", 2: {3: "three"}},
    "null key": lambda: {None: 1, True: 2},
    "empty": lambda: [{}, [], "", (), set()],
    "nested": lambda: {"a": [Point(1), (Color.RED, b"x")]},
    "exception": lambda: ValueError("wrong"),
    "range": lambda: range(3),
    "complex": lambda: complex(1, 2),
}


class Kind(TypedDict, total=False):
    kind: str
    place: str
    value: Any


async def make(state: Kind, runtime: Runtime) -> Kind:
    value, place = KINDS[state["kind"]](), state["place"]
    if place == "custom":
        get_stream_writer()({"value": value})
        return {}
    if place == "interrupt":
        interrupt({"value": value})
        return {}
    if place == "store":
        await runtime.store.aput(("compare", "kinds"), state["kind"], {"value": value})
        return {}
    return {"value": value}


kinds = StateGraph(Kind).add_node("make", make).add_edge(START, "make").add_edge("make", END).compile()
