"""The config and the context that a run passes to the library, from the stored request (docs/spec/runs.md#payload)."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, cast
from uuid import UUID

from pydantic import BaseModel, TypeAdapter

from .objects import JsonObject, member

# Keys of `configurable` that the server sets; the other keys belong to the user.
SYSTEM = re.compile(
    r"^(thread_id|run_id|graph_id|assistant_id|user_id|checkpoint_id|checkpoint_ns|checkpoint_map|thread_ts"
    r"|langgraph_.*|__.*)$"
)
SELECTION = ("checkpoint_id", "checkpoint_ns", "checkpoint_map", "thread_ts")


class User(dict[str, Any]):
    """The user of a run, as graphs read it: a mapping, which has its members as attributes, too."""

    @property
    def identity(self) -> str:
        return super().get("identity", "")

    @property
    def display_name(self) -> str:
        return super().get("display_name") or self.identity

    @property
    def is_authenticated(self) -> bool:
        return super().get("is_authenticated", True)

    @property
    def permissions(self) -> list[str]:
        return super().get("permissions") or []

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)

    def model_dump(self) -> JsonObject:
        return dict(self)


def config_of(start: JsonObject, execution: JsonObject) -> JsonObject:
    """
    The members of `config` that a request may set: a client can set neither callbacks nor internal keys of the library.
    `start`: StartHead (schemas/host.ts).
    """
    given: JsonObject = start["kwargs"]["config"]
    system = {name: start[name] for name in ("thread_id", "run_id", "graph_id")}
    configurable: JsonObject = {
        key: value
        for key, value in member(given, "configurable").items()
        if not key.startswith("__pregel_") and not (value is None and key in SELECTION)
    } | system
    assistant_id = configurable.get("assistant_id")
    metadata: JsonObject = {
        **member(start, "inherited"),
        **member(given, "metadata"),
        **start["metadata"],
        **system,
        **({} if assistant_id is None else {"assistant_id": assistant_id}),
        "run_attempt": start["attempt"],
        **execution,
    }
    config: JsonObject = {"configurable": configurable, "metadata": metadata, "run_id": UUID(start["run_id"])}
    # A default would override what is bound to the graph.
    for name, kind in (("tags", list), ("run_name", str), ("max_concurrency", int), ("recursion_limit", int)):
        if isinstance(given.get(name), kind):
            config[name] = given[name]
    if start["kwargs"].get("strict_resume"):
        configurable["__pregel_strict_resume"] = True
    # docs/spec/auth.md#graphs. What a client sent under these names was removed when the run was created.
    if isinstance(user := start.get("user"), dict):
        caller = cast(JsonObject, user)
        configurable["langgraph_auth_user"] = User(caller)
        configurable["langgraph_auth_user_id"] = caller["identity"]
        configurable["langgraph_auth_permissions"] = caller["permissions"]
    return config


def context_of(configurable: JsonObject, context: Any) -> Any:
    """
    `configurable` and `context` mirror each other if one is empty. Without any the context is `{}`: the defaults of its
    schema apply.
    """
    own = {key: value for key, value in configurable.items() if not SYSTEM.match(key)}
    if not context:
        return own
    if isinstance(context, dict) and not own:
        for key, value in cast(JsonObject, context).items():
            # A context is the client's: it says nothing about who called.
            if not key.startswith("langgraph_auth_"):
                configurable.setdefault(key, value)
    return cast(Any, context)


def fitting(context: Any, schema: Any, configurable: JsonObject) -> Any:
    """
    The part of a context that the context schema knows: the library refuses other keys. What is left out does not stay
    in `configurable`, where the context was mirrored.
    """
    if not isinstance(context, dict) or not isinstance(schema, type):
        return cast(Any, context)
    members = cast(JsonObject, context)
    known = names_of(cast(type[Any], schema))
    if not known:
        return members
    for key in members.keys() - known:
        if not SYSTEM.match(key) and configurable.get(key) == members[key]:
            del configurable[key]
    return {key: value for key, value in members.items() if key in known}


@functools.lru_cache(maxsize=1000)
def names_of(schema: type[Any]) -> frozenset[str]:
    """The keys that a context schema takes; empty: any. A schema is derived once."""
    if dataclasses.is_dataclass(schema):
        return frozenset(field.name for field in dataclasses.fields(schema) if field.init)
    # The names of a model's fields are its aliases, where it has any.
    with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
        return frozenset(TypeAdapter(schema).json_schema().get("properties") or ())
    # A field of a type without a JSON Schema does not hide the names of the fields.
    return frozenset(schema.model_fields if issubclass(schema, BaseModel) else getattr(schema, "__annotations__", ()))


async def is_newest(configurable: JsonObject, newest: Callable[[str], Awaitable[str | None]]) -> bool:
    """Whether the client chose the newest checkpoints: then the run is no fork. `newest` takes a namespace."""
    chosen = dict(configurable.get("checkpoint_map") or {})
    if checkpoint_id := configurable.get("checkpoint_id"):
        chosen[configurable.get("checkpoint_ns") or ""] = checkpoint_id
    for ns, checkpoint_id in chosen.items():
        if checkpoint_id and checkpoint_id != await newest(ns):
            return False
    return True


def drop_selection(configurable: JsonObject) -> None:
    """Continues from the newest checkpoint instead of the one that the client chose."""
    for key in SELECTION:
        configurable.pop(key, None)
