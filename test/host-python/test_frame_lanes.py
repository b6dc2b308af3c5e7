"""The order of frames in the pipe of a host, without a pipe and with a reader that is slow."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from weft_host.frame_lanes import Frame, FrameLanes
from weft_host.frames import HEAD, FrameReader, FrameTooLong, FromHost, frame_bytes
from weft_host.limits import LARGEST_FRAME
from weft_host.pipe import FULL, LARGE_FRAME, Pipe

PIECE = LARGE_FRAME // 4


class Stage:
    """A pipe, and `order`: what its reader has, as slot and id."""

    def __init__(self, pipe: Pipe, theirs: socket.socket, ended: asyncio.Future[None]) -> None:
        self.pipe, self.theirs, self.ended = pipe, theirs, ended
        self.loop = asyncio.get_running_loop()
        self.order: list[tuple[int, int]] = []
        self.reader = FrameReader(lambda kind, flags, slot, id, body: self.order.append((slot, id)))
        self.id = 0

    def send(self, slot: int, size: int) -> None:
        self.id += 1
        self.pipe.send(FromHost.CHUNK, slot=slot, id=self.id, count=1, body=bytes(size))

    async def read(self, frames: int) -> None:
        """Reads until at least so many frames have arrived."""
        async with asyncio.timeout(20):
            while len(self.order) < frames:
                self.reader.feed(await self.loop.sock_recv(self.theirs, 64 * 1024))
                await asyncio.sleep(0)

    def of(self, slot: int) -> list[int]:
        return [id for each, id in self.order if each == slot]


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    _, pipe = await loop.create_unix_connection(
        lambda: Pipe(lambda *_: None, lambda: ended.set_result(None)), sock=ours
    )
    yield Stage(pipe, theirs, ended)
    theirs.close()
    await asyncio.wait_for(ended, 5)


def test_the_slot_with_the_fewest_bytes_is_next_and_each_keeps_its_order():
    lanes = FrameLanes()
    for slot, size in [(1, 100), (1, 100), (2, 60), (2, 60), (3, 10)]:
        lanes.add(slot, Frame(b"%d" % slot, bytes(size - 1)))
    assert (lanes.bytes, lanes.bytes_of(2), lanes.bytes_of(9)) == (330, 120, 0)
    order = [frame.head for frame in iter(lanes.take, None)]
    assert order == [b"3", b"2", b"1", b"2", b"1"]
    assert (lanes.bytes, lanes.bytes_of(2), 2 in lanes, lanes.is_ready()) == (0, 0, False, False)


def test_a_slot_that_was_idle_has_saved_up_nothing():
    lanes = FrameLanes()
    for _ in range(4):
        lanes.add(1, Frame(b"1", bytes(99)))
    assert [lanes.take(), lanes.take()] == [Frame(b"1", bytes(99))] * 2
    for _ in range(4):
        lanes.add(2, Frame(b"2", bytes(99)))
    order = [frame.head for frame in iter(lanes.take, None)]
    assert order == [b"1", b"2", b"1", b"2", b"2", b"2"]


def test_a_paused_slot_waits_and_has_not_saved_up_its_time():
    lanes = FrameLanes()
    for slot in (1, 2):
        for _ in range(6):
            lanes.add(slot, Frame(b"%d" % slot, bytes(99)))
    lanes.pause(1)
    lanes.pause(3)
    lanes.add(3, Frame(b"3", b""))
    assert [frame.head for _ in range(3) if (frame := lanes.take())] == [b"2"] * 3
    lanes.resume(1)
    lanes.resume(1)
    order = [frame.head for frame in iter(lanes.take, None)]
    assert order == [b"1", b"2", b"1", b"2", b"1", b"2", b"1", b"1", b"1"]
    assert (3 in lanes, lanes.is_ready()) == (True, False)
    lanes.resume(3)
    assert lanes.take() == Frame(b"3", b"")


async def test_frames_of_one_turn_leave_together():
    async with stage() as on:
        on.pipe.send(FromHost.PONG, count=3)
        on.pipe.send(FromHost.HELLO, body=b"{}")
        assert on.pipe.drained(0) is None
        data = await on.loop.sock_recv(on.theirs, 4096)
        assert data == frame_bytes(FromHost.PONG, count=3) + frame_bytes(FromHost.HELLO, body=b"{}")
        with pytest.raises(FrameTooLong):
            on.pipe.send(FromHost.CHUNK, body=bytes(LARGEST_FRAME + 1))


async def test_a_small_frame_passes_the_megabytes_of_other_slots():
    async with stage() as on:
        for _ in range(40):
            for slot in (1, 2, 3):
                on.send(slot, PIECE)
        assert on.pipe.waiting() >= 120 * PIECE
        await asyncio.sleep(0.01)
        for _ in range(2):
            on.send(4, 10)
        await on.read(20)
        assert on.of(4) == [121, 122]
        assert on.order.index((4, 121)) <= 8, "about a megabyte comes first"
        await on.read(122)
        for slot in (1, 2, 3):
            assert on.of(slot) == list(range(slot, 121, 3)), "nothing is lost, and the order is kept"
            assert any(each == slot for each, _ in on.order[-20:]), "the pipe is shared to the end"
        assert on.pipe.waiting() == 0


async def test_a_small_frame_waits_for_one_large_frame():
    async with stage() as on:
        for slot in (1, 2, 3):
            on.send(slot, 4 * LARGE_FRAME)
        await asyncio.sleep(0.01)
        on.send(4, 10)
        await on.read(4)
        assert on.order == [(1, 1), (4, 4), (2, 2), (3, 3)]


async def test_a_run_pauses_for_its_own_bytes_only():
    async with stage() as on:
        for _ in range(24):
            on.send(1, LARGE_FRAME)
        on.send(2, 10)
        assert on.pipe.drained(2) is None, "a slot that sends little goes on"
        full = on.pipe.drained(1)
        assert full is not None
        paused = asyncio.ensure_future(full)
        await on.read(5)
        assert not paused.done()
        await on.read(12)
        await asyncio.wait_for(paused, 5)
        assert on.pipe.waiting() <= FULL
        assert on.pipe.drained(1) is None
        await on.read(25)
        assert on.of(1) == [*range(1, 25)]


async def test_a_paused_run_sends_nothing_and_others_go_on():
    async with stage() as on:
        on.send(1, 10)
        on.pipe.pause(1)
        on.send(1, LARGE_FRAME)
        on.send(2, 10)
        paused = on.pipe.drained(1)
        assert paused is not None
        assert on.pipe.drained(2) is None
        await on.read(2)
        await asyncio.sleep(0.01)
        assert on.order == [(1, 1), (2, 3)]
        on.pipe.resume(1)
        await asyncio.wait_for(paused, 5)
        await on.read(3)
        assert on.order == [(1, 1), (2, 3), (1, 2)]


async def test_threads_write_in_their_order_while_the_pipe_is_full():
    async with stage() as on:

        def write() -> None:
            for _ in range(40):
                on.loop.call_soon_threadsafe(on.send, 1, PIECE)

        await asyncio.to_thread(write)
        on.send(2, 10)
        await on.read(41)
        assert on.of(1) == [*range(1, 41)]
        assert on.order.index((2, 41)) <= 8


async def test_all_frames_arrive_after_the_supervisor_has_ended_its_side():
    async with stage() as on:
        for _ in range(24):
            on.send(1, LARGE_FRAME)
        on.send(2, 10)
        on.pipe.pause(1)
        await asyncio.sleep(0.01)
        on.theirs.shutdown(socket.SHUT_WR)
        await on.read(25)
        assert on.of(1) == [*range(1, 25)]
        assert on.of(2) == [25]
        await asyncio.wait_for(asyncio.shield(on.ended), 5)


async def test_runs_that_pause_go_on_when_the_pipe_is_lost():
    async with stage() as on:
        for _ in range(24):
            on.send(1, LARGE_FRAME)
        full = on.pipe.drained(1)
        assert full is not None
        on.theirs.close()
        await asyncio.wait_for(full, 5)
        on.send(1, 10)
        await asyncio.sleep(0.01)
        assert on.pipe.waiting() <= HEAD.size + 10
