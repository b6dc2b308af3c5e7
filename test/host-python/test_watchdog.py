import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from weft_host.frames import FrameReader, FromHost
from weft_host.threads import SlotThreads
from weft_host.watchdog import Watchdog, current_slot


class Notes:
    """The reports of a watchdog: kind, slot, body."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        self.frames: list[tuple[int, int, bytes]] = []
        self.reader = FrameReader(lambda kind, flags, slot, id, body: self.frames.append((kind, slot, body)))

    def read(self) -> list[tuple[int, int, bytes]]:
        try:
            while data := os.read(self.reading, 65536):
                self.reader.feed(data)
        except BlockingIOError:
            pass
        return self.frames


@pytest.mark.parametrize("how", ["in the task", "in a task that it starts"])
async def test_a_blocked_loop_is_reported_with_its_slot(how: str):
    notes = Notes()
    watchdog = Watchdog(asyncio.get_running_loop(), notes.writing, 0)

    async def block() -> None:
        time.sleep(1.4)

    async def work() -> None:
        await (asyncio.create_task(block()) if how != "in the task" else block())

    watchdog.use(1)
    await asyncio.sleep(0.2)
    await asyncio.get_running_loop().create_task(work(), context=watchdog.enter(7))
    for _ in range(50):
        await asyncio.sleep(0.05)
        if any(kind == FromHost.FREE for kind, _, _ in notes.read()):
            break
    assert [(kind, slot) for kind, slot, _ in notes.frames] == [
        (FromHost.HELD, 7),
        (FromHost.HELD, 7),
        (FromHost.FREE, 0),
    ]
    watchdog.use(-1)


async def test_code_of_no_run_is_not_reported():
    notes = Notes()
    watchdog = Watchdog(asyncio.get_running_loop(), notes.writing, 0)
    watchdog.use(1)
    await asyncio.sleep(0.1)
    time.sleep(0.5)
    await asyncio.sleep(0.1)
    assert notes.read() == []
    watchdog.use(-1)


async def test_the_last_words_are_said_once_with_the_slot():
    notes = Notes()
    watchdog = Watchdog(asyncio.get_running_loop(), notes.writing, 0)
    watchdog.enter(3).run(watchdog.last, "ProcessExit", "x" * 5000)
    watchdog.last("Other", "later")
    [(kind, slot, body)] = notes.read()
    assert (kind, slot) == (FromHost.LAST, 3)
    assert len(body) < 2100


def test_a_host_ends_at_its_memory_limit(tmp_path: Path):
    """In a process of its own, because it is killed."""
    reading, writing = os.pipe()
    program = (
        "import asyncio, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).resolve().parents[2] / 'workers' / 'host-python')!r})\n"
        "from weft_host.watchdog import Watchdog\n"
        "async def main():\n"
        f"    watchdog = Watchdog(asyncio.get_running_loop(), {writing}, 200)\n"
        "    watchdog.use(1)\n"
        "    async def eat():\n"
        "        kept = []\n"
        "        while True:\n"
        "            kept.append(bytearray(8 * 1024 * 1024))\n"
        "            await asyncio.sleep(0.01)\n"
        "    await asyncio.get_running_loop().create_task(eat(), context=watchdog.enter(5))\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.run([sys.executable, "-c", program], pass_fds=[writing], timeout=60, check=False)
    assert process.returncode == -9
    frames: list[tuple[int, bytes]] = []
    FrameReader(lambda kind, flags, slot, id, body: frames.append((kind, body))).feed(os.read(reading, 65536))
    assert frames[-1][0] == FromHost.LAST
    assert b"OutOfMemory" in frames[-1][1]
    assert b"200 MB" in frames[-1][1]


def test_threads_are_counted_by_slot():
    threads = SlotThreads(current_slot.get, 4)
    ends = threading.Event()
    token = current_slot.set(9)
    futures = [threads.submit(ends.wait) for _ in range(3)]
    current_slot.reset(token)
    assert threads.in_use == {9: 3}
    assert threads.is_exhausted(lambda slot: False)
    assert not threads.is_exhausted(lambda slot: True)
    ends.set()
    for future in futures:
        future.result()
    assert not threads.in_use
