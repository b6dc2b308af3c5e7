"""
A graph host: a child process that loads the Python graphs of an application and runs them. It exchanges frames with
its supervisor over descriptor 3. Its watchdog reports the run that holds the event loop over WEFT_NOTES_FD. Its code
may call the API over the socket in WEFT_LOOPBACK. The host has no other connection, no lease token and no credential.

Before the process dies by its own doing it reports the cause and the responsible run in a last message. The other runs
in the host are handed back and lose nothing but time.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable
from typing import Any, NoReturn

import orjson

from .app.loopback import register_loopback
from .application import Application
from .description import read_description
from .frames import FromHost
from .pipe import Pipe
from .port import Host
from .process import PIPE_FD, exit_on_failure, keep_pipes, leave, mark_output, new_loop, run_forever
from .server import Server
from .threads import THREADS, SlotThreads
from .watchdog import Watchdog, current_slot

# New objects before the garbage collector runs: short runs make thousands, and nearly all are freed by their counters.
# 10 % of the CPU time of a one-step run.
YOUNG = (50_000, 50, 100)
# The supervisor waits for 3 s.
CLOSE_S = 2.5


def main() -> None:
    notes_fd = keep_pipes()
    mark_output(current_slot.get)
    loop = new_loop()
    asyncio.set_event_loop(loop)
    threads = SlotThreads(current_slot.get, int(os.environ.get("WEFT_HOST_THREADS") or THREADS))
    loop.set_default_executor(threads)
    watchdog = Watchdog(loop, notes_fd, int(os.environ.get("WEFT_HOST_MEMORY_MB") or 0))
    report_exits(watchdog)
    serving = loop.create_task(serve(watchdog, threads))
    serving.add_done_callback(exit_on_failure)
    run_forever(loop, watchdog)


async def serve(watchdog: Watchdog, threads: SlotThreads) -> None:
    """Loads the application, sends hello and serves until the pipe ends."""
    if folder := os.environ.get("WEFT_LOOPBACK"):
        register_loopback(folder)
    hello, application = load()
    if application is not None:
        try:
            await application.open_checkpointer()
        except ValueError as error:
            hello, application = failed(error)
    host = Host(application, threads) if application is not None else None
    # The loaded modules stay: the garbage collector need not walk it.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*YOUNG)
    server = None
    if host is not None:
        server = Server(host, watchdog)

    def on_frame(kind: int, flags: int, slot: int, id: int, body: bytes) -> None:
        if server is not None:
            server.on_frame(kind, flags, slot, id, body)

    # Without its parent no process waits for results of this host.
    _, pipe = await asyncio.get_running_loop().create_unix_connection(
        lambda: Pipe(on_frame, end_with(application)), sock=socket.socket(fileno=PIPE_FD)
    )
    if host is not None:
        host.connected = pipe
    pipe.send(FromHost.HELLO, body=orjson.dumps(hello))


def end_with(application: Application | None) -> Callable[[], None]:
    """What the end of the pipe does: a checkpointer of the application is closed."""
    if application is None or application.copies is None:
        return lambda: leave(0)
    loop, stack = asyncio.get_running_loop(), application.stack
    # The end of the pipe follows it.
    loop.add_signal_handler(signal.SIGTERM, lambda: None)
    ending: list[asyncio.Task[None]] = []

    async def end() -> None:
        try:
            await asyncio.wait_for(stack.aclose(), CLOSE_S)
        finally:
            leave(0)

    return lambda: ending.append(loop.create_task(end()))


def load() -> tuple[dict[str, Any], Application | None]:
    """The hello frame, and the application unless its description is wrong."""
    try:
        application = Application(read_description(os.environ.get("WEFT_DESCRIPTION", "")))
    except ValueError as error:
        return failed(error)
    return application.hello, application


def failed(error: ValueError) -> tuple[dict[str, Any], None]:
    return {"error": str(error), "graphs": []}, None


def report_exits(watchdog: Watchdog) -> None:
    """Python has no event for os._exit() and os.abort()."""
    abort = os.abort

    def exit_with(status: int) -> NoReturn:
        watchdog.last("ProcessExit", f"the process ended with exit code {status}")
        leave(status)

    def abort_with_report() -> NoReturn:
        watchdog.last("ProcessExit", "the process called abort()")
        abort()

    os._exit, os.abort = exit_with, abort_with_report
