import asyncio
import json

import pytest

from weft_host.limits import LARGEST_STATE, StateTooLarge
from weft_host.stream import ALONE, FULL, Events

Sent = list[tuple[int, int, bytes, bool]]


def events(sent: Sent, first_id: int = 10) -> Events:
    return Events(first_id, 2**24, lambda *frame: sent.append(frame))


async def test_events_of_one_turn_are_one_frame_and_ids_have_no_gap():
    sent: Sent = []
    buffer = events(sent)
    buffer.push("values", b"{}")
    buffer.push_event("messages", ["a:1"], False, "messages", b'{"namespace":["a:1"]}')
    buffer.push("custom|a:1", b"1")
    await asyncio.sleep(0)
    buffer.push("values", b"{}")
    buffer.flush()
    assert [(id, count, v2) for id, count, _, v2 in sent] == [(10, 2, False), (12, 1, True), (13, 1, False)]
    assert sent[0][2] == b"id: 10\nevent: values\ndata: {}\n\nid: 11\nevent: custom|a:1\ndata: 1\n\n"
    assert buffer.last_id() == 13


async def test_a_v2_event_carries_its_tag_and_its_number_in_the_thread():
    sent: Sent = []
    buffer = events(sent)
    buffer.push_event("input", [], True, "input.requested", b'{"data":1}')
    buffer.flush()
    tag, id, event, data = sent[0][2].decode().strip().split("\n")
    assert tag == ': ["input",[],1]'
    assert event == "event: input.requested"
    decoded = json.loads(data.removeprefix("data: "))
    assert decoded["seq"] == 2**24
    assert id == f"id: {decoded['event_id']}"
    assert decoded["params"] == {"data": 1}


async def test_large_events_leave_alone_and_frames_are_bounded():
    sent: Sent = []
    buffer = events(sent)
    for _ in range(5):
        buffer.push("values", b"x" * (ALONE - 10))
    buffer.push("values", b"y" * (ALONE + 1))
    buffer.push("values", b"z")
    buffer.flush()
    assert [count for _, count, _, _ in sent] == [2, 2, 1, 1, 1]
    assert all(len(body) <= FULL + 200 for _, count, body, _ in sent if count > 1)


async def test_an_event_beyond_the_limit_is_refused():
    buffer = events([])
    with pytest.raises(StateTooLarge, match="values of an event"):
        buffer.push("values", bytes(LARGEST_STATE + 1))
    with pytest.raises(StateTooLarge):
        buffer.push_event("values", [], False, "values", bytes(LARGEST_STATE + 1))
    assert buffer.last_id() == 9
