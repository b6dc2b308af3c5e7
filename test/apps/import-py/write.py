"""Writes threads into a database with the library's own checkpointer: `write.py <file or URL>`."""

import asyncio
import sys

from agent import builder
from function import body
from langgraph.func import entrypoint
from langgraph.types import Command

ASKED, ANSWERED, FUNCTION, NAMELESS = (f"0196c0de-0000-7000-8000-00000000000{n}" for n in range(1, 5))


def config(thread_id: str, graph: str | None):
    return {"configurable": {"thread_id": thread_id}, "metadata": {"graph_id": graph} if graph else {}}


async def fill(saver) -> None:
    graph, function = builder.compile(checkpointer=saver), entrypoint(checkpointer=saver)(body)
    hello = {"messages": [("user", "hello")]}
    for thread_id, name in ((ASKED, "agent"), (ANSWERED, "agent"), (NAMELESS, None)):
        await graph.ainvoke(hello, config(thread_id, name))
    await graph.ainvoke(Command(resume="no"), config(ANSWERED, "agent"))
    for number in (2, 3):
        await function.ainvoke({"number": number}, config(FUNCTION, "function"))


async def main(place: str) -> None:
    if place.startswith("postgres"):
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from langgraph.store.postgres import PostgresStore

        async with AsyncPostgresSaver.from_conn_string(place) as saver:
            await saver.setup()
            await fill(saver)
        with PostgresStore.from_conn_string(place) as store:
            store.setup()
            store.put(("users", "ada"), "colour", {"is": "green"})
    else:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(place) as saver:
            await fill(saver)


asyncio.run(main(sys.argv[1]))
