import pytest

from weft_host.frames import HEAD, MAX_BODY, FrameReader, MalformedFrame, frame_bytes
from weft_host.packed import cutter, pack, unpack


def test_frames_cut_anywhere_are_read_whole():
    frames: list[tuple[int, ...]] = []
    reader = FrameReader(lambda kind, flags, slot, id, body: frames.append((kind, flags, slot, id, len(body))))
    data = frame_bytes(16, 1, 7, 2**40, body=b"x" * 100) + frame_bytes(19) + frame_bytes(17, id=3, body=b"yz")
    for at in range(len(data)):
        reader.feed(data[at : at + 1])
    assert frames == [(16, 1, 7, 2**40, 100), (19, 0, 0, 0, 0), (17, 0, 0, 3, 2)]


def test_a_head_that_announces_too_much_is_malformed():
    reader = FrameReader(lambda *_: None)
    with pytest.raises(MalformedFrame, match=f"{MAX_BODY + 1} bytes"):
        reader.feed(HEAD.pack(16, 0, 0, 1, 0, 0, MAX_BODY + 1))


def test_packed_parts_come_back_and_a_short_buffer_is_refused():
    head, rest = unpack(pack({"sizes": [1, 2]}, [b"a", b"bc"]))
    cut = cutter(rest)
    assert (head, cut(1), cut(2)) == ({"sizes": [1, 2]}, b"a", b"bc")
    with pytest.raises(ValueError, match="shorter"):
        cut(1)
    with pytest.raises(ValueError, match="shorter"):
        unpack(b"\x01")
