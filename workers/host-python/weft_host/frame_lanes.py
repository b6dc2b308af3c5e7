"""
The order in which the frames of a host enter its pipe (workers/host/guards/frame-lanes.ts does the same). Frames of
one slot keep their order. While the pipe is full they wait here, and the slot with the fewest bytes to send comes first
(self-clocked fair queueing): a small frame of a run waits for about a megabyte, however much the other runs have to
send. The frames of a slot that the supervisor has paused wait here, too.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class Frame:
    head: bytes
    body: bytes

    def size(self) -> int:
        """Bytes in the pipe."""
        return len(self.head) + len(self.body)


@dataclass(slots=True)
class Lane:
    frames: deque[Frame] = field(default_factory=deque[Frame])
    bytes: int = 0
    # When its first frame would have been sent if the lanes had shared the pipe by bytes.
    due: int = 0


class FrameLanes:
    """Not for threads: all frames of a host are sent on its event loop."""

    def __init__(self) -> None:
        # By slot; none is empty.
        self.lanes: dict[int, Lane] = {}
        self.paused: set[int] = set()
        # `due` and slot of each lane that is not paused, as a heap.
        self.queue: list[tuple[int, int]] = []
        # `due` of the frame that was taken last.
        self.now = 0
        # Bytes in all lanes.
        self.bytes = 0

    def __contains__(self, slot: int) -> bool:
        return slot in self.lanes

    def bytes_of(self, slot: int) -> int:
        lane = self.lanes.get(slot)
        return 0 if lane is None else lane.bytes

    def add(self, slot: int, frame: Frame) -> None:
        size = frame.size()
        lane = self.lanes.get(slot)
        if lane is None:
            lane = self.lanes[slot] = Lane(due=self.now + size)
            self.enqueue(slot, lane)
        lane.frames.append(frame)
        lane.bytes += size
        self.bytes += size

    def is_ready(self) -> bool:
        """A frame waits whose slot is not paused."""
        return bool(self.queue)

    def take(self) -> Frame | None:
        """The next frame to send; None: none is ready."""
        if not self.queue:
            return None
        self.now, slot = heapq.heappop(self.queue)
        lane = self.lanes[slot]
        frame = lane.frames.popleft()
        lane.bytes -= frame.size()
        self.bytes -= frame.size()
        if lane.frames:
            lane.due = self.now + lane.frames[0].size()
            self.enqueue(slot, lane)
        else:
            del self.lanes[slot]
        return frame

    def pause(self, slot: int) -> None:
        """The frames of this slot wait until `resume`."""
        self.paused.add(slot)
        if slot in self.lanes:
            self.queue = [each for each in self.queue if each[1] != slot]
            heapq.heapify(self.queue)

    def resume(self, slot: int) -> None:
        if slot in self.paused:
            self.paused.discard(slot)
            if (lane := self.lanes.get(slot)) is not None:
                # A paused lane gains no credit.
                lane.due = max(lane.due, self.now + lane.frames[0].size())
                self.enqueue(slot, lane)

    def enqueue(self, slot: int, lane: Lane) -> None:
        if slot not in self.paused:
            heapq.heappush(self.queue, (lane.due, slot))
