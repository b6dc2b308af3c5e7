"""
What the programs of Python hosts share: their pipes, event loop and end. It imports no LangGraph, whose import takes
0.7 s of CPU time: an app host may need none.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, cast

from .watchdog import Watchdog

PIPE_FD = 3
leave = os._exit


def keep_pipes() -> int | None:
    """Keeps the pipes from child processes, and writes each line of output at once. Returns that of the notes."""
    notes = os.environ.get("WEFT_NOTES_FD")
    notes_fd = None if notes is None else int(notes)
    for fd in (PIPE_FD, notes_fd):
        if fd is not None:
            os.set_inheritable(fd, False)
    os.register_at_fork(after_in_child=lambda: close_pipes(notes_fd))
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(line_buffering=True, errors="backslashreplace")
    return notes_fd


def mark_output(slot_of: Callable[[], int]) -> None:
    """
    Marks what a run writes to stdout and stderr: the supervisor then knows whose line it is (child/output-marks.ts).
    `slot_of`: the slot whose code is running; 0: none.
    """
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            mark(cast("io.TextIOWrapper[Any]", output), slot_of)


def mark_of(slot: int) -> str:
    return f"\x1b_w{slot}\x1b\\"


def mark(output: io.TextIOWrapper[Any], slot_of: Callable[[], int]) -> None:
    """The parts of one print() are separate writes: they share their marks when they end with a line."""
    write = output.write
    lock = threading.RLock()
    last = 0

    def marked(text: str, /) -> int:
        nonlocal last
        slot = slot_of()
        if not isinstance(text, str) or (slot == 0 and last == 0):  # pyright: ignore[reportUnnecessaryIsInstance]
            return write(text)
        with lock:
            begin = "" if slot == last else mark_of(slot)
            is_whole = text.endswith("\n")
            end = mark_of(0) if is_whole and slot != 0 else ""
            last = 0 if is_whole else slot
            write(f"{begin}{text}{end}")
        return len(text)

    output.write = marked  # type: ignore[method-assign]


def close_pipes(notes_fd: int | None) -> None:
    """A child that a graph forks has no part in the pipes: the supervisor must see them end with the host."""
    for fd in (PIPE_FD, notes_fd):
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop saves 3 to 6 % of the CPU time of a short run, if the application has it."""
    if os.environ.get("WEFT_HOST_UVLOOP") != "0":
        with contextlib.suppress(ImportError):
            import uvloop  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

            return cast(asyncio.AbstractEventLoop, cast(Any, uvloop).new_event_loop())
    return asyncio.new_event_loop()


def run_forever(loop: asyncio.AbstractEventLoop, watchdog: Watchdog) -> NoReturn:
    while True:
        try:
            loop.run_forever()
        except SystemExit as error:
            # sys.exit() in a node is an error of its run. The loop passes it on, and the other runs continue.
            print(f"SystemExit({error.code}) in a graph.", file=sys.stderr)
        except KeyboardInterrupt:
            continue
        except BaseException as error:
            traceback.print_exc()
            watchdog.last("UncaughtException", f"{type(error).__name__}: {error}")
            leave(1)


def exit_on_failure(serving: asyncio.Task[None]) -> None:
    if not serving.cancelled() and (error := serving.exception()) is not None:
        traceback.print_exception(error)
        leave(1)
