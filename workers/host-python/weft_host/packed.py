"""A head and parts in one buffer: u32 length of the head (little-endian), the head as JSON, then the parts."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable
from typing import Any

import orjson

LENGTH = struct.Struct("<I")


def pack(head: Any, parts: Iterable[bytes] = ()) -> bytes:
    """`head`: a value, or its JSON text as bytes."""
    text: bytes = head if isinstance(head, bytes) else orjson.dumps(head)
    return b"".join((LENGTH.pack(len(text)), text, *parts))


def read_json(data: bytes) -> Any:
    """
    JSON as other programs of Weft write it. JavaScript writes texts that are not Unicode as escapes, which orjson
    refuses: half of a surrogate pair is read as U+FFFD. Raises ValueError for what is not JSON.
    """
    try:
        return orjson.loads(data)
    except ValueError:
        return json.loads(well_formed(data.decode()), strict=False)


# An escape: a backslash, a pair of surrogates, or half of one.
ESCAPE = re.compile(r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def well_formed(text: str) -> str:
    return ESCAPE.sub(lambda found: "\\ufffd" if len(found[0]) == 6 else found[0], text)


def unpack(data: bytes) -> tuple[Any, bytes]:
    """The head, and the parts in one piece. Raises ValueError if the buffer is shorter than its head."""
    if len(data) < LENGTH.size:
        raise ValueError("a packed buffer is shorter than the length of its head")
    (size,) = LENGTH.unpack_from(data)
    return read_json(data[LENGTH.size : LENGTH.size + size]), data[LENGTH.size + size :]


def cutter(parts: bytes) -> Callable[[int], bytes]:
    """Takes parts of given sizes from the front, one after the other. Raises ValueError after the last byte."""
    at = 0

    def cut(size: int) -> bytes:
        nonlocal at
        if at + size > len(parts):
            raise ValueError("a packed buffer is shorter than its parts")
        part = parts[at : at + size]
        at += size
        return part

    return cut
