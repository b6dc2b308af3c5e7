"""
The program of a probe: loads the graphs of a deployment as a host would, writes the hello frame's body to descriptor 3
and ends.
"""

from __future__ import annotations

import asyncio
import os
import sys

import orjson

from .main import load
from .process import PIPE_FD, leave


def main() -> None:
    os.set_inheritable(PIPE_FD, False)
    hello = asyncio.run(loaded())
    with os.fdopen(PIPE_FD, "wb") as pipe:
        pipe.write(orjson.dumps(hello))
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that graphs have started do not keep the process.
    leave(0)


async def loaded() -> dict[str, object]:
    """Within an event loop: modules may need one."""
    hello, _ = load()
    return hello
