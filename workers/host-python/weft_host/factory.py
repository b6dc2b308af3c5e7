"""The graph behind an export: a compiled graph, a builder, an agent, or a factory that makes one for each use."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, get_args, get_type_hints

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot

from .objects import JsonObject, member

# The name of a graph that was compiled without one.
UNNAMED = "LangGraph"


class AnyGraph(Protocol):
    """The members of a compiled graph that the host uses. Its types are those of the application."""

    channels: Mapping[str, Any]
    input_channels: str | Sequence[str]
    # `__end__` for an entrypoint of the functional API.
    output_channels: str | Sequence[str]
    checkpointer: Any
    store: Any
    name: Any
    context_schema: Any

    @property
    def stream_channels_list(self) -> Sequence[str]: ...
    def get_name(self, suffix: str | None = None) -> str: ...
    def astream(self, input: Any, config: Any, **options: Any) -> AsyncIterator[Any]: ...
    def astream_events(self, input: Any, config: Any, **options: Any) -> AsyncIterator[Any]: ...
    async def aget_state(self, config: Any, *, subgraphs: bool = False) -> StateSnapshot: ...
    def aget_state_history(self, config: Any, **options: Any) -> AsyncIterator[StateSnapshot]: ...
    async def abulk_update_state(self, config: Any, supersteps: Any) -> Any: ...
    async def aget_graph(self, config: Any = None, *, xray: int | bool = False) -> Any: ...
    def aget_subgraphs(self, *, recurse: bool = False) -> AsyncIterator[tuple[str, Any]]: ...
    def get_input_jsonschema(self) -> Any: ...
    def get_output_jsonschema(self) -> Any: ...
    def get_context_jsonschema(self) -> Any: ...


class Graph:
    def __init__(self, graph_id: str, exported: Any) -> None:
        self.graph_id = graph_id
        self.fixed = compiled(exported)
        self.make: Any = None if self.fixed is not None else exported
        self.wants = parameters_of(exported) if self.fixed is None else ()

    @contextlib.asynccontextmanager
    async def use(self, config: JsonObject, access: str, saver: Any, store: Any) -> AsyncGenerator[AnyGraph]:
        """
        The graph for one run or one call, with this checkpointer and this store (None: the graph's own). `access` is
        the access context that a ServerRuntime reports.
        """
        async with contextlib.AsyncExitStack() as stack:
            graph = self.fixed or await self.made(stack, config, access, store)
            # The exported graph stays unchanged, because runs of one graph overlap. Subgraphs inherit.
            own = copy.copy(graph)
            own.checkpointer = saver
            # The name of the root in the mode `events`, unless it has one.
            if own.name == UNNAMED:
                own.name = self.graph_id
            if store is not None:
                own.store = store
            yield own

    async def made(self, stack: contextlib.AsyncExitStack, config: JsonObject, access: str, store: Any) -> AnyGraph:
        positional: list[Any] = []
        named: JsonObject = {}
        for want in self.wants:
            value = runtime_of(config, access, store) if want.is_runtime else config
            if want.is_positional:
                positional.append(value)
            else:
                named[want.name] = value
        found = self.make(*positional, **named)
        if inspect.isawaitable(found):
            found = await found
        if isinstance(found, contextlib.AbstractAsyncContextManager):
            found = await stack.enter_async_context(cast(Any, found))
        elif isinstance(found, contextlib.AbstractContextManager):
            found = stack.enter_context(cast(Any, found))
        graph = compiled(found)
        if graph is None:
            raise TypeError(f'The factory of graph "{self.graph_id}" returned no graph.')
        return graph


def compiled(value: Any) -> AnyGraph | None:
    """Returns a compiled graph, compiles a builder, unwraps an agent; None for other values."""
    if isinstance(value, Pregel):
        return cast(AnyGraph, value)
    if inspect.isclass(value):
        return None
    if callable(getattr(value, "compile", None)) and hasattr(value, "nodes"):
        return compiled(value.compile())
    inner = getattr(value, "graph", None)
    return compiled(inner) if inner is not None and not callable(value) else None


def inputs_of(graph: AnyGraph) -> list[str]:
    """The keys of a graph's input."""
    channels = graph.input_channels
    if isinstance(channels, str):
        schema = getattr(getattr(graph, "builder", None), "input_schema", None)
        names: list[str] = list(getattr(schema, "__annotations__", None) or ())
        return names or [name for name in graph.channels if not name.startswith(("__", "branch:"))]
    return [name for name in channels if not name.startswith("__")]


@dataclass(frozen=True)
class Wanted:
    """A parameter of a factory: a ServerRuntime, else the config."""

    name: str
    is_runtime: bool
    is_positional: bool


def parameters_of(make: Any) -> tuple[Wanted, ...]:
    """The config, a ServerRuntime, both in any order, or none. One with a default is left out unless it asks for it."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return ()
    hints = hints_of(make)
    wants: list[Wanted] = []
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        hint = hints.get(parameter.name, parameter.annotation)
        is_runtime = is_runtime_hint(hint)
        is_config = "Config" in str(hint) or parameter.name == "config" or parameter.default is parameter.empty
        if is_runtime or is_config:
            wants.append(Wanted(parameter.name, is_runtime, parameter.kind == parameter.POSITIONAL_ONLY))
    return tuple(wants[:2])


def hints_of(make: Any) -> JsonObject:
    """Also those that are texts. ServerRuntime may be imported for type checkers only."""
    found: Any = cast(Any, make).func if isinstance(make, functools.partial) else make
    if not inspect.isroutine(found):
        found = cast(Any, type(found)).__call__
    try:
        from langgraph_sdk.runtime import ServerRuntime
    except ImportError:
        return {}
    names: JsonObject = {"ServerRuntime": ServerRuntime, "RunnableConfig": RunnableConfig}
    try:
        return get_type_hints(inspect.unwrap(found), localns=names, include_extras=True)
    except Exception:
        return {}


def is_runtime_hint(hint: Any) -> bool:
    """ServerRuntime, one of its two classes, one of a context, and any of them within Annotated or a union."""
    if isinstance(hint, str):
        return "ServerRuntime" in hint
    name = str(hint)
    if "langgraph_sdk.runtime." in name or name == "ServerRuntime" or name.startswith("ServerRuntime["):
        return True
    return any(is_runtime_hint(each) for each in get_args(hint)[:2])


def runtime_of(config: JsonObject, access: str, store: Any) -> Any:
    # The classes have no public constructor.
    from langgraph_sdk import runtime

    classes = cast(Any, runtime)
    user = member(config, "configurable").get("langgraph_auth_user")
    common: JsonObject = {"access_context": access, "user": user, "store": store}
    if access == "threads.create_run":
        return classes._ExecutionRuntime(context=config.get("context"), **common)
    return classes._ReadRuntime(**common)
