"""A supervisor in miniature, in the process of the tests: starts runs and calls, and answers questions from memory."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from weft_host.application import Application
from weft_host.description import Description, GraphSource
from weft_host.frames import Answer, Ask, FromHost, ToHost
from weft_host.node_gate import monotonic_ms
from weft_host.packed import cutter, pack, unpack
from weft_host.port import Host
from weft_host.server import Server
from weft_host.threads import SlotThreads
from weft_host.watchdog import Watchdog, current_slot

FOREVER_MS = 86_400_000
KWARGS: dict[str, Any] = {
    "input": None,
    "command": None,
    "config": {},
    "context": None,
    "stream_mode": ["values"],
    "stream_subgraphs": False,
    "durability": "async",
    "temporary": False,
    "interrupt_before": None,
    "interrupt_after": None,
}


def source(graph_id: str, place: str | Path, name: str = "graph") -> GraphSource:
    return GraphSource(graph_id, None, str(place), name, None, {}, {})


class Ended(dict[str, Any]):
    """The head of a finish, with `values`, `rest`, `save` and `events` (id, name, data)."""

    def named(self, name: str) -> list[Any]:
        return [data for _, event, data in self["events"] if event == name]

    @property
    def names(self) -> list[str]:
        return [event for _, event, _ in self["events"]]


class Checkpoints:
    """The checkpoints of one store, as the resource worker keeps them."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.blobs: dict[tuple[Any, ...], tuple[str, bytes]] = {}
        self.writes: dict[tuple[Any, ...], tuple[dict[str, Any], bytes]] = {}
        self.saves = 0

    def save(self, thread: str, body: bytes) -> None:
        self.saves += 1
        head, parts = unpack(body)
        cut = cutter(parts)
        for row in head["checkpoints"]:
            self.rows.append({**row, "thread": thread, "value": cut(row["size"]), "metadata": cut(row["meta_size"])})
        for blob in head["blobs"]:
            key = (thread, blob["ns"], blob["channel"], blob["version"])
            self.blobs.setdefault(key, (blob["type"], cut(blob["size"])))
        for write in head["writes"]:
            key = (thread, write["ns"], write["checkpoint_id"], write["task_id"], write["idx"])
            value = (write, cut(write["size"]))
            if write["idx"] < 0 or key not in self.writes:
                self.writes[key] = value

    def find(self, thread: str, query: dict[str, Any]) -> list[dict[str, Any]]:
        def fits(row: dict[str, Any]) -> bool:
            if row["thread"] != thread or ("ns" in query and row["ns"] != query["ns"]):
                return False
            if query.get("checkpoint_id") and row["id"] != query["checkpoint_id"]:
                return False
            return not query.get("before") or row["id"] < query["before"]

        return sorted(filter(fits, self.rows), key=lambda row: -row["seq"])

    def get(self, thread: str, query: dict[str, Any]) -> list[dict[str, Any]]:
        return self.find(thread, {"ns": "", **query})[:1]

    def packed(self, rows: list[dict[str, Any]]) -> bytes:
        entries: list[dict[str, Any]] = []
        parts: list[bytes] = []
        for row in rows:
            place = (row["thread"], row["ns"])
            refs = [(channel, self.blobs[(*place, channel, version)]) for channel, version in row["refs"].items()]
            found = sorted((key[3], key[4]) for key in self.writes if key[:3] == (*place, row["id"]))
            writes = [self.writes[(*place, row["id"], *key)] for key in found]
            entry = {name: row[name] for name in ("ns", "id", "parent", "type", "size", "meta_type", "meta_size")}
            blobs = [{"channel": channel, "type": kind, "size": len(value)} for channel, (kind, value) in refs]
            entries.append({**entry, "blobs": blobs, "writes": [head for head, _ in writes]})
            parts += [row["value"], row["metadata"], *(value for _, (_, value) in refs)]
            parts += [value for _, value in writes]
        return pack({"tuples": entries}, parts)


class Supervisor:
    """The `pipe` of a host, and what is at its other end."""

    def __init__(self, graphs: list[GraphSource], folder: str | Path, threads: int = 256, **description: Any) -> None:
        loop = asyncio.get_running_loop()
        self.threads = SlotThreads(current_slot.get, threads)
        loop.set_default_executor(self.threads)
        self.application = Application(Description(str(folder), graphs, **description))
        self.host = Host(self.application, self.threads)
        self.host.connected = self  # type: ignore[assignment]
        self.server = Server(self.host, Watchdog(loop, None, 0))
        self.checkpoints = Checkpoints()
        self.items: list[dict[str, Any]] = []
        self.item_slots: list[int] = []
        self.answer_items: Callable[[list[dict[str, Any]]], list[Any]] = lambda operations: [None] * len(operations)
        # Answers to questions; Answer.OK: the answer.
        self.refusal = Answer.OK
        self.thread_of: dict[int, str] = {}
        self.events: dict[int, list[tuple[int, str, Any]]] = {}
        self.v2: dict[int, list[dict[str, Any]]] = {}
        self.finished: dict[int, asyncio.Future[Ended]] = {}
        self.called: dict[int, asyncio.Future[tuple[int, bytes]]] = {}
        self.failures: dict[int, dict[str, Any]] = {}
        self.others: list[int] = []
        self.spans: dict[int, list[dict[str, Any]]] = {}
        self.slots = itertools.count(1)
        self.on_event: Callable[[int, str, Any], None] = lambda slot, event, data: None

    # The pipe.

    def drained(self, slot: int) -> None:
        return None

    def send(self, kind: int, flags: int = 0, slot: int = 0, id: int = 0, count: int = 0, body: bytes = b"") -> None:
        asyncio.get_running_loop().call_soon(self.receive, kind, flags, slot, id, body)

    def receive(self, kind: int, flags: int, slot: int, id: int, body: bytes) -> None:
        if kind == FromHost.CHUNK:
            self.receive_chunk(slot, flags, body)
        elif kind == FromHost.ASK:
            self.server.on_frame(ToHost.ANSWER, self.refusal, slot, id, self.answer(flags, slot, body))
        elif kind == FromHost.FINISH:
            self.finished[slot].set_result(self.ended(slot, body))
        elif kind == FromHost.CALLED:
            self.called[slot].set_result((flags, body))
        elif kind == FromHost.SPANS:
            self.spans.setdefault(slot, []).extend(orjson.loads(body)["spans"])
        elif kind == FromHost.FAILED:
            self.failures[slot] = orjson.loads(body)
        else:
            self.others.append(kind)

    def receive_chunk(self, slot: int, flags: int, body: bytes) -> None:
        for text in body.decode().split("\n\n")[:-1]:
            lines = text.split("\n")
            fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
            if flags:
                self.v2[slot].append({**orjson.loads(fields["data"]), "tag": orjson.loads(lines[0][2:])})
                continue
            event = (int(fields["id"]), fields["event"], orjson.loads(fields["data"]))
            self.events[slot].append(event)
            self.on_event(slot, *event[1:])

    def answer(self, flags: int, slot: int, body: bytes) -> bytes:
        if self.refusal != Answer.OK:
            return orjson.dumps({"detail": "the store failed"})
        thread = self.thread_of[slot]
        if flags == Ask.SAVE:
            self.checkpoints.save(thread, body)
            return b""
        asked = orjson.loads(body)
        if flags == Ask.ITEMS:
            self.items += asked["operations"]
            self.item_slots.append(slot)
            return orjson.dumps(self.answer_items(asked["operations"]))
        found = self.checkpoints.get(thread, asked) if flags == Ask.GET else self.checkpoints.find(thread, asked)
        return self.checkpoints.packed(found[: asked.get("limit")])

    def ended(self, slot: int, body: bytes) -> Ended:
        head, parts = unpack(body)
        cut = cutter(parts)
        values, rest, save = cut(head["values_size"]), cut(head["rest_size"]), cut(head["save_size"])
        output = cut(head.get("output_size", 0))
        if save:
            self.checkpoints.save(self.thread_of[slot], save)
        decoded = {
            "values": orjson.loads(values) if values else None,
            "rest": orjson.loads(b"{" + rest) if rest else None,
            "save": save,
            "output": orjson.loads(output) if output else None,
        }
        return Ended(head | decoded | {"events": self.events[slot], "v2": self.v2[slot]})

    # The calls of tests.

    def start(self, graph_id: str, thread: str = "thread", **options: Any) -> int:
        """Starts a run; `options`: members of StartHead, and of its kwargs. Returns its slot."""
        slot = next(self.slots)
        self.thread_of[slot], self.events[slot], self.v2[slot] = thread, [], []
        self.finished[slot] = asyncio.get_running_loop().create_future()
        kwargs = {name: options.pop(name, default) for name, default in KWARGS.items()}
        flags = options.pop("flags", 0)
        confirmed_at = options.pop("confirmed_at", monotonic_ms() + FOREVER_MS)
        head = {
            "run_id": f"00000000-0000-4000-8000-{slot:012}",
            "thread_id": thread,
            "graph_id": graph_id,
            "attempt": 1,
            "first_id": 0,
            "first_seq": slot * 2**24,
            "metadata": {},
            "events": False,
            "kwargs": kwargs,
        }
        found = self.checkpoints.get(thread, {})
        newest = self.checkpoints.packed(found) if found else b""
        self.server.on_frame(ToHost.START, flags, slot, confirmed_at, pack(head | options, [newest]))
        return slot

    def confirm(self, slot: int, at: int) -> None:
        """The lease of the run in this slot was confirmed by a heartbeat that was sent at this time."""
        self.server.on_frame(ToHost.CONFIRM, 0, slot, at, b"")

    def cancel(self, slot: int) -> None:
        self.server.on_frame(ToHost.CANCEL, 0, slot, 0, b"")

    async def end(self, slot: int) -> Ended:
        return await asyncio.wait_for(self.finished[slot], 30)

    async def run(self, graph_id: str, thread: str = "thread", **options: Any) -> Ended:
        return await self.end(self.start(graph_id, thread, **options))

    async def call(self, verb: str, graph_id: str, thread: str = "thread", **members: Any) -> Any:
        """The answer of a call as it was sent. Raises AssertionError with the code and the sentence of a failure."""
        slot = next(self.slots)
        self.thread_of[slot] = thread
        self.called[slot] = asyncio.get_running_loop().create_future()
        call = {"verb": verb, "graph_id": graph_id, "thread_id": thread, "config": {}, **members}
        self.server.on_frame(ToHost.CALL, 0, slot, slot, orjson.dumps(call))
        flags, body = await asyncio.wait_for(self.called[slot], 30)
        if flags != 0:
            failure = orjson.loads(body)
            raise AssertionError(f"{failure['code']}: {failure['detail']}")
        return body if verb == "update" else orjson.loads(body)
