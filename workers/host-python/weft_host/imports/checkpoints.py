"""
Reads a database of langgraph-checkpoint-sqlite or langgraph-checkpoint-postgres for `weft import`: a request per line
of stdin, an answer per line of stdout. Nothing is written to the database. Its contents come from elsewhere, so the
serialiser builds only the classes that the library lists as safe, and executes no pickle: an object of another class
is the dict of its members, and `classes` names it.

States are derived without the graph: a checkpoint names what follows in its channels, and its writes say what a task
wrote.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from typing import Any, Protocol, cast

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ..objects import JsonObject
from ..render import error_of, render
from .snapshot import state_from

Row = tuple[Any, ...]


class Database(Protocol):
    saver: Any
    # The table.
    writes: str
    # Older versions do not store the place of a task.
    has_paths: bool

    def rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Row]: ...
    def has(self, table: str) -> bool: ...


class Sqlite:
    writes = "writes"

    def __init__(self, file: str, serde: JsonPlusSerializer) -> None:
        sqlite3 = importlib.import_module("sqlite3")
        library = importlib.import_module("langgraph.checkpoint.sqlite")
        place = importlib.import_module("pathlib").Path(file).resolve().as_uri()
        self.connection = sqlite3.connect(f"{place}?mode=ro", uri=True, check_same_thread=False)
        self.saver = library.SqliteSaver(self.connection, serde=serde)
        # Its setup would write.
        self.saver.is_setup = True
        columns = [name for _, name, *_ in self.rows("PRAGMA table_info(writes)")]
        self.saver._has_task_path = self.has_paths = "task_path" in columns

    def rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Row]:
        return self.connection.execute(query, values).fetchall()

    def has(self, table: str) -> bool:
        return bool(self.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)))


class Postgres:
    writes = "checkpoint_writes"

    def __init__(self, url: str, serde: JsonPlusSerializer) -> None:
        psycopg = importlib.import_module("psycopg")
        by_name = importlib.import_module("psycopg.rows").dict_row
        library = importlib.import_module("langgraph.checkpoint.postgres")
        self.connection = psycopg.connect(url, autocommit=True, prepare_threshold=0, row_factory=by_name)
        self.connection.execute("SET default_transaction_read_only = on")
        self.saver = library.PostgresSaver(self.connection, serde=serde)
        query = "SELECT 1 FROM information_schema.columns WHERE table_name = ? AND column_name = 'task_path'"
        self.has_paths = bool(self.rows(query, (self.writes,)))

    def rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Row]:
        found = self.connection.execute(query.replace("?", "%s"), values).fetchall()
        return [tuple(row.values()) for row in found]

    def has(self, table: str) -> bool:
        return self.rows("SELECT to_regclass(?) IS NOT NULL", (table,))[0][0]


class Reader:
    def __init__(self, source: str) -> None:
        self.classes: set[str] = set()
        try:
            hooks = importlib.import_module("langgraph.checkpoint.serde.event_hooks")
            hooks.register_serde_event_listener(self.note)
            serde = JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=None)
        except (ImportError, TypeError):
            sys.exit("This langgraph-checkpoint has no list of allowed classes: a version from 4.0 on is needed.")
        kind = Postgres if source.startswith(("postgres://", "postgresql://")) else Sqlite
        self.database: Database = kind(source, serde)
        if not self.database.has("checkpoints"):
            sys.exit("The database has no table `checkpoints` of a checkpointer of LangGraph.")

    def note(self, event: Any) -> None:
        if event["kind"].endswith("blocked"):
            self.classes.add(f"{event['module']}.{event['name']}")

    def threads(self, offset: int, limit: int) -> list[JsonObject]:
        query = "SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id LIMIT ? OFFSET ?"
        return [
            {"thread_id": thread_id, "metadata": self.metadata(thread_id)}
            for (thread_id,) in self.database.rows(query, (limit, offset))
        ]

    def metadata(self, thread_id: str) -> JsonObject:
        """Of the table that aegra has beside these; else what the newest checkpoint names."""
        if self.database.has("thread"):
            found = self.database.rows("SELECT metadata_json FROM thread WHERE thread_id = ?", (thread_id,))
            if found and found[0][0]:
                return cast(JsonObject, found[0][0])
        query = "SELECT metadata FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''"
        newest = self.database.rows(f"{query} ORDER BY checkpoint_id DESC LIMIT 1", (thread_id,))
        found = newest[0][0] if newest else None
        given = cast(JsonObject, parsed(found) or {})
        return {name: given[name] for name in ("graph_id", "assistant_id") if given.get(name)}

    def history(self, thread_id: str, before: str | None, limit: int) -> JsonObject:
        """Newest first. `classes`: of objects that are dicts now."""
        self.classes.clear()
        config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        bound = None if before is None else {"configurable": {"checkpoint_id": before}}
        found: Iterator[CheckpointTuple] = self.database.saver.list(config, before=bound, limit=limit)
        states = [state_from(each, self.paths(thread_id, each.config)) for each in found]
        return {"states": states, "classes": sorted(self.classes)}

    def paths(self, thread_id: str, config: Any) -> dict[str, str]:
        if not self.database.has_paths:
            return {}
        query = f"SELECT DISTINCT task_id, task_path FROM {self.database.writes}"
        place = (thread_id, config["configurable"]["checkpoint_id"])
        rows = self.database.rows(f"{query} WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ?", place)
        return dict(cast(list[tuple[str, str]], rows))

    def items(self, offset: int, limit: int) -> list[JsonObject]:
        if not self.database.has("store"):
            return []
        query = "SELECT prefix, key, value FROM store ORDER BY prefix, key LIMIT ? OFFSET ?"
        return [
            {"namespace": prefix.split("."), "key": key, "value": parsed(value)}
            for prefix, key, value in self.database.rows(query, (limit, offset))
        ]

    def count(self, table: str) -> int:
        if not self.database.has(table):
            return 0
        what = "DISTINCT thread_id" if table == "checkpoints" else "*"
        return self.database.rows(f"SELECT count({what}) FROM {table}")[0][0]


def parsed(value: Any) -> Any:
    """PostgreSQL's driver has parsed it."""
    return json.loads(value) if isinstance(value, str | bytes) else value


def main() -> None:
    try:
        reader = Reader(sys.stdin.readline().rstrip("\n"))
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")
    calls = {name: getattr(reader, name) for name in ("threads", "history", "items", "count")}
    for line in sys.stdin:
        call = json.loads(line)
        try:
            answer = render({"answer": calls[call.pop("call")](**call)})
        except Exception as error:
            answer = render({"error": error_of(error)["message"]})
        sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.buffer.flush()
