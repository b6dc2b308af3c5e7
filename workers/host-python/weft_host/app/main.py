"""
The Python part of an app host: a child process of workers/host/app, which decides what is asked and checks what is
answered. This program loads the files of the application and calls their functions. It has no credential and no
connection but descriptor 3 (calls), WEFT_NOTES_FD (its watchdog) and the sockets of `http.app`. docs/pipe.md describes
the frames.
"""

from __future__ import annotations

import asyncio
import os
import socket
import traceback
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import orjson

from ..frames import FromHost, ToHost
from ..packed import unpack
from ..pipe import Pipe
from ..process import PIPE_FD, exit_on_failure, keep_pipes, leave, new_loop, run_forever
from ..threads import THREADS, SlotThreads
from ..watchdog import Watchdog, current_slot
from .auth import AuthHandlers
from .description import AppDescription, read_app_description
from .embed import Embedder
from .encryption import EncryptionHandlers
from .http import HttpServer
from .loopback import register_loopback

if TYPE_CHECKING:
    from .store import OwnStore

# Every call and every request counts as this slot: the watchdog reports only code that has one.
SLOT = 1
# The parent waits as long for this process.
CLOSE_S = 2.5


def main() -> None:
    notes_fd = keep_pipes()
    given = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("WEFT_")}
    loop = new_loop()
    asyncio.set_event_loop(loop)
    current_slot.set(SLOT)
    loop.set_default_executor(SlotThreads(current_slot.get, THREADS))
    watchdog = Watchdog(loop, notes_fd, int(given.get("WEFT_HOST_MEMORY_MB") or 0))
    serving = loop.create_task(AppHost(watchdog).serve(given.get("WEFT_DESCRIPTION", "")))
    serving.add_done_callback(exit_on_failure)
    run_forever(loop, watchdog)


class AppHost:
    def __init__(self, watchdog: Watchdog) -> None:
        self.watchdog = watchdog
        self.auth: AuthHandlers | None = None
        self.embedder: Embedder | None = None
        self.encryption: EncryptionHandlers | None = None
        self.http: HttpServer | None = None
        self.store: OwnStore | None = None
        self.pipe: Pipe | None = None
        # A task without a reference may be collected.
        self.tasks: set[asyncio.Task[None]] = set()
        self.verbs: dict[str, Callable[[dict[str, Any], bytes], Awaitable[bytes]]] = {
            "authenticate": self.authenticate,
            "authorize": self.authorize,
            "embed": self.embed,
            "encrypt": self.encrypt,
            "encryption_context": self.encryption_context,
            "items": self.items,
        }

    async def serve(self, description: str) -> None:
        """Loads the application, sends hello and answers calls until the pipe ends."""
        hello = await self.hello(description)
        _, self.pipe = await asyncio.get_running_loop().create_unix_connection(
            lambda: Pipe(self.on_frame, self.on_end), sock=socket.socket(fileno=PIPE_FD)
        )
        self.pipe.send(FromHost.HELLO, body=orjson.dumps(hello))

    async def hello(self, text: str) -> dict[str, Any]:
        try:
            await self.load(read_app_description(text))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # A module may also call sys.exit().
            if not isinstance(error, ValueError):
                traceback.print_exc()
            sentence = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            return {"error": sentence, "auth": None, "http": None}
        auth = None if self.auth is None else self.auth.hello
        encryption = None if self.encryption is None else self.encryption.hello
        http = None if self.http is None else self.http.prefixes
        return {"error": None, "auth": auth, "encryption": encryption, "http": http}

    async def load(self, description: AppDescription) -> None:
        description.prepare()
        if description.sockets is not None:
            register_loopback(description.sockets)
        if description.auth is not None:
            self.auth = AuthHandlers(description.auth.load("auth.path"), description.auth.text)
        if description.embed is not None:
            self.embedder = Embedder.of(description.embed)
        if description.encryption is not None:
            found = description.encryption.load("encryption.path")
            self.encryption = EncryptionHandlers(found, description.encryption.text)
        if description.store is not None:
            # Its import of LangGraph takes most of a second.
            from .store import OwnStore

            self.store = OwnStore()
            await self.store.open(description.store.load("store.path"), description.store.text)
        if description.http is not None and description.sockets is not None:
            app = description.http.load("http.app")
            self.http = HttpServer(app, description.http.text, description.sockets, self.watchdog.use)
            await self.http.start()

    def on_frame(self, kind: int, flags: int, slot: int, id: int, body: bytes) -> None:
        if kind != ToHost.CALL:
            return
        self.watchdog.use(1)
        task = asyncio.get_running_loop().create_task(self.answer(id, body))
        self.tasks.add(task)
        task.add_done_callback(self.on_task_end)

    def on_task_end(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self.watchdog.use(-1)

    async def answer(self, id: int, body: bytes) -> None:
        assert self.pipe is not None
        try:
            head, rest = unpack(body)
            answer = await self.verbs[head["verb"]](head, rest)
        except BaseException as error:  # Also SystemExit and a cancel: each call has an answer.
            traceback.print_exc()
            failure = {"code": "internal", "detail": f"{type(error).__name__}: {error}"[:500]}
            self.pipe.send(FromHost.CALLED, 1, id=id, body=orjson.dumps(failure))
        else:
            self.pipe.send(FromHost.CALLED, id=id, body=answer)

    async def authenticate(self, head: dict[str, Any], body: bytes) -> bytes:
        assert self.auth is not None
        return await self.auth.authenticate(head, body)

    async def authorize(self, head: dict[str, Any], body: bytes) -> bytes:
        assert self.auth is not None
        return await self.auth.authorize(head, orjson.loads(body))

    async def embed(self, head: dict[str, Any], body: bytes) -> bytes:
        assert self.embedder is not None
        return await self.embedder.embed(head["kind"], head["texts"])

    async def encrypt(self, head: dict[str, Any], body: bytes) -> bytes:
        assert self.encryption is not None
        return await self.encryption.answer(head, body)

    async def encryption_context(self, head: dict[str, Any], body: bytes) -> bytes:
        assert self.encryption is not None
        return await self.encryption.context(head)

    async def items(self, head: dict[str, Any], body: bytes) -> bytes:
        assert self.store is not None
        return await self.store.answer(body)

    def on_end(self) -> None:
        """The parent has ended, or wants this process to: `http.app` may end its lifespan, and a store is closed."""
        ending = asyncio.get_running_loop().create_task(self.end())
        self.tasks.add(ending)

    async def end(self) -> None:
        try:
            if self.http is not None:
                await self.http.stop()
            if self.store is not None:
                await asyncio.wait_for(self.store.stack.aclose(), CLOSE_S)
        finally:
            leave(0)
