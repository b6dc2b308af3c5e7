"""
Exports of an application that are opened, as a store or a checkpointer is: the object, a context manager or an
awaitable of it, or a function that returns one of these.
"""

from __future__ import annotations

import inspect
from contextlib import AsyncExitStack
from typing import Any, TypeVar

Wanted = TypeVar("Wanted")

# As in a function that returns a context manager.
DEEPEST = 4


async def open_export(stack: AsyncExitStack, exported: Any, wanted: type[Wanted]) -> Wanted | None:
    """None for an export that leads to another object. `stack` closes what is opened."""
    found: Any = exported
    for _ in range(DEEPEST):
        if isinstance(found, wanted):
            break
        if hasattr(found, "__aenter__"):
            found = await stack.enter_async_context(found)
        elif hasattr(found, "__enter__"):
            found = stack.enter_context(found)
        elif inspect.isawaitable(found):
            found = await found
        elif callable(found):
            found = found()
    return found if isinstance(found, wanted) else None
