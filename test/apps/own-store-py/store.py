"""A store of the application's own: items are in the file that OWN_STORE names."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from langgraph.store.sqlite.aio import AsyncSqliteStore


@asynccontextmanager
async def open_store() -> AsyncIterator[AsyncSqliteStore]:
    async with AsyncSqliteStore.from_conn_string(os.environ["OWN_STORE"]) as store:
        await store.setup()
        print("the store is open", flush=True)
        yield store
    print("the store is closed", flush=True)
