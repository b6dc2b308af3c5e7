"""
The checkpointer that the application brings (`checkpointer.path` of langgraph.json): it gets a copy of each checkpoint
and write of a thread. Runs read their own, which the store of Weft has.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata

from ..app.description import open_export
from .tuples import config_of

# Hosts start together, and several that make the same tables can disturb each other.
TRIES = 3
PAUSE_S = 0.5


class CheckpointerFailedError(Exception):
    """The run ends with this: its checkpoint is not where the application wants it."""


class CheckpointCopies:
    """Raises ValueError with one sentence for a checkpointer without the async methods."""

    def __init__(self, saver: BaseCheckpointSaver[Any], text: str) -> None:
        self.saver = saver
        kind = type(saver)
        missing = [name for name in REQUIRED if is_missing(kind, name)]
        if missing:
            raise ValueError(f"checkpointer.path: the checkpointer of {text} must implement {' and '.join(missing)}.")
        self.takes_path = takes_path(kind)
        self.deletes = not is_missing(kind, "adelete_thread")

    async def put(
        self,
        place: tuple[str, str, str | None],
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> None:
        """`place`: the thread, the namespace and the parent."""
        try:
            await self.saver.aput(config_at(*place), checkpoint, metadata, new_versions)
        except Exception as error:
            raise failure(error) from error

    async def put_writes(
        self, place: tuple[str, str, str], writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        path = (task_path,) if self.takes_path else ()
        try:
            await self.saver.aput_writes(config_at(*place), writes, task_id, *path)
        except Exception as error:
            raise failure(error) from error


REQUIRED = ("aput", "aput_writes")
SAVER = cast("type[BaseCheckpointSaver[Any]]", BaseCheckpointSaver)


def is_missing(kind: type[Any], method: str) -> bool:
    return getattr(kind, method) is getattr(BaseCheckpointSaver, method)


def takes_path(kind: type[Any]) -> bool:
    """Checkpointers for earlier versions of the library know no path of a task."""
    code = getattr(kind.aput_writes, "__code__", None)
    return code is None or "task_path" in code.co_varnames


def config_at(thread_id: str, ns: str, checkpoint_id: str | None) -> RunnableConfig:
    if checkpoint_id is not None:
        return config_of(thread_id, ns, checkpoint_id)
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}


def failure(error: Exception) -> CheckpointerFailedError:
    return CheckpointerFailedError(f"The checkpointer of the application failed: {type(error).__name__}: {error}")


async def open_copies(stack: AsyncExitStack, exported: Any, text: str) -> CheckpointCopies:
    """Raises ValueError with one sentence."""
    saver = await opened(stack, exported, text)
    if saver is None:
        raise ValueError(
            f"checkpointer.path: {text} is no checkpointer; expected a BaseCheckpointSaver, "
            "or a function or an async context manager of one."
        )
    return CheckpointCopies(saver, text)


async def opened(stack: AsyncExitStack, exported: Any, text: str) -> BaseCheckpointSaver[Any] | None:
    first: Exception | None = None
    for _ in range(TRIES):
        async with AsyncExitStack() as attempt:
            try:
                saver = await open_export(attempt, exported, SAVER)
            except Exception as error:
                traceback.print_exc()
                first = first or error
                await asyncio.sleep(PAUSE_S)
            else:
                stack.push_async_exit(attempt.pop_all())
                return saver
    raise ValueError(f"checkpointer.path: {text} cannot be opened: {type(first).__name__}: {first}")
