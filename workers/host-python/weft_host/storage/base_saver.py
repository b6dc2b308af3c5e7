"""The synchronous methods of both checkpointers, for synchronous nodes that call graphs from their thread."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, ClassVar, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from .tuples import next_version

Result = TypeVar("Result")


def wait_for(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result], what: str) -> Result:
    """Waits in a thread for work on the event loop. Raises RuntimeError on the event loop itself."""
    try:
        is_loop = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_loop = False
    if is_loop:
        work.close()
        raise RuntimeError(f"{what} cannot be called synchronously on the event loop; await its async methods there.")
    return asyncio.run_coroutine_threadsafe(work, loop).result()


class WriteMethod:
    """
    A bound `aput_writes` that has its signature: the library asks for it with every run, and to find that of a method
    costs 3 % of a short one.
    """

    __slots__ = ("method",)
    __signature__: ClassVar[inspect.Signature]

    def __init__(self, method: Callable[..., Awaitable[None]]) -> None:
        self.method = method

    def __call__(self, *args: Any, **options: Any) -> Awaitable[None]:
        return self.method(*args, **options)


class BaseSaver(BaseCheckpointSaver[str]):
    """Not initialised by its base class, which checks its serialiser: 7 % of a short run."""

    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        cast(Any, self).aput_writes = WriteMethod(self.aput_writes)

    def wait_for(self, work: Coroutine[Any, Any, Result]) -> Result:
        return wait_for(self.loop, work, "A graph")

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self.wait_for(self.aget_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        async def collect() -> Sequence[CheckpointTuple]:
            return [each async for each in self.alist(config, filter=filter, before=before, limit=limit)]

        return iter(self.wait_for(collect()))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self.wait_for(self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        return self.wait_for(self.aput_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        return self.wait_for(self.adelete_thread(thread_id))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        raise NotImplementedError

    def get_next_version(self, current: str | None, channel: None) -> str:
        return next_version(current)


WriteMethod.__signature__ = inspect.signature(BaseSaver.aput_writes)
