"""The checkpointer of a run without a thread: it keeps references, serialises nothing, and is dropped with the run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple

from .base_saver import BaseSaver
from .tuples import Put, Writes, config_of, contains, reference_of, remember


class MemorySaver(BaseSaver):
    def __init__(self, metadata: dict[str, Any]) -> None:
        super().__init__()
        self.metadata = metadata
        self.puts: dict[tuple[str, str], list[Put]] = {}
        self.written: dict[tuple[str, str, str], Writes] = {}

    def with_allowlist(self, extra_allowlist: Any) -> MemorySaver:
        return self

    def tuple_of(self, thread_id: str, ns: str, put: Put) -> CheckpointTuple:
        return put.tuple(thread_id, ns, self.written.get((thread_id, ns, put.id)))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread_id, ns, checkpoint_id = reference_of(config)
        for put in reversed(self.puts.get((thread_id, ns), [])):
            if checkpoint_id in (None, put.id):
                return self.tuple_of(thread_id, ns, put)
        return None

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        thread_id, ns, _ = reference_of(config or {})
        bound = reference_of(before)[2] if before else None
        left = float("inf") if limit is None else limit
        for put in reversed(self.puts.get((thread_id, ns), [])):
            if left <= 0:
                return
            if (bound and put.id >= bound) or (filter and not contains(put.metadata, filter)):
                continue
            left -= 1
            yield self.tuple_of(thread_id, ns, put)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread_id, ns, parent = reference_of(config)
        full = cast(CheckpointMetadata, {**self.metadata, **metadata})
        self.puts.setdefault((thread_id, ns), []).append(Put(checkpoint["id"], checkpoint, full, parent))
        return config_of(thread_id, ns, checkpoint["id"])

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        thread_id, ns, checkpoint_id = reference_of(config)
        remember(self.written.setdefault((thread_id, ns, checkpoint_id or ""), {}), writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        self.puts.clear()
        self.written.clear()
