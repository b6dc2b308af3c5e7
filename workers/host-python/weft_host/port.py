"""The host as its runs and calls know it: the application, the pipe, and its questions."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import orjson

from .application import Application
from .frames import Answer, Ask, FromHost
from .limits import Refused, Unanswered
from .node_gate import NodeGates
from .packed import read_json
from .pipe import Pipe
from .storage.item_store import ItemStore
from .threads import SlotThreads


class Host:
    def __init__(self, application: Application, threads: SlotThreads) -> None:
        self.application, self.threads = application, threads
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.gates = NodeGates()
        # The stores of runs, by slot.
        self.stores: dict[int, ItemStore] = {}
        self.asked: dict[int, asyncio.Future[bytes]] = {}
        self.last_ask = 0
        self.connected: Pipe | None = None

    @property
    def pipe(self) -> Pipe:
        if self.connected is None:
            raise RuntimeError("the host is not connected")
        return self.connected

    def is_on_loop(self) -> bool:
        return threading.get_ident() == self.thread

    def ask(self, slot: int, flags: Ask, body: bytes) -> asyncio.Future[bytes]:
        """The answer of the supervisor. Raises Refused or Unanswered when it is awaited."""
        self.last_ask += 1
        answer: asyncio.Future[bytes] = self.loop.create_future()
        self.pipe.send(FromHost.ASK, flags, slot, self.last_ask, body=body)
        self.asked[self.last_ask] = answer
        return answer

    def on_answer(self, id: int, flags: int, body: bytes) -> None:
        answer = self.asked.pop(id, None)
        if answer is None or answer.done():
            return
        if flags == Answer.OK:
            answer.set_result(body)
        elif flags == Answer.REFUSED:
            answer.set_exception(Refused("A later attempt holds this run"))
        else:
            answer.set_exception(Unanswered(detail_of(body)))


def detail_of(body: bytes) -> str:
    try:
        return str(read_json(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return "The store did not answer"


class SlotTransport:
    """The questions of one slot; the supervisor adds run, attempt and token."""

    def __init__(self, host: Host, slot: int) -> None:
        self.host, self.slot = host, slot

    async def save(self, body: bytes, thread_id: str) -> None:
        await self.host.ask(self.slot, Ask.SAVE, body)

    async def get(self, query: dict[str, Any]) -> bytes:
        return await self.host.ask(self.slot, Ask.GET, orjson.dumps(query))

    async def list(self, query: dict[str, Any]) -> bytes:
        return await self.host.ask(self.slot, Ask.LIST, orjson.dumps(query))

    async def items(self, body: bytes) -> bytes:
        return await self.host.ask(self.slot, Ask.ITEMS, body)
