"""A checkpointer of the application's own: checkpoints are in the file that OWN_CHECKPOINTS names."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


class Saver(AsyncSqliteSaver):
    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if checkpoint["channel_values"].get("text") == "break":
            raise ConnectionError("the database is gone")
        return await super().aput(config, checkpoint, metadata, new_versions)

    async def adelete_thread(self, thread_id: str) -> None:
        if os.path.exists(os.environ["OWN_CHECKPOINTS"] + ".locked"):
            raise ConnectionError("the database is locked")
        await super().adelete_thread(thread_id)


@asynccontextmanager
async def open_checkpointer() -> AsyncIterator[Saver]:
    async with Saver.from_conn_string(os.environ["OWN_CHECKPOINTS"]) as saver:
        await saver.setup()
        yield saver
    print("the checkpointer is closed", flush=True)


class Silent(BaseCheckpointSaver[str]):
    """It has no method of its own."""


silent = Silent()
nothing: list[str] = []
