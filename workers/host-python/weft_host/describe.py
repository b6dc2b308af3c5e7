"""
Describes a graph: its drawing, the JSON Schemas of its state, and its subgraphs
(docs/spec/assistants.md#drawing). No run is needed; a schema that cannot be derived is null.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, create_model

from .factory import AnyGraph, inputs_of
from .objects import JsonObject
from .render import render


async def draw(call: JsonObject, graph: AnyGraph) -> bytes:
    """`xray`: the depth to which subgraphs are drawn; true: all of them."""
    drawn = (await graph.aget_graph(xray=call.get("xray") or False)).to_json(with_schemas=False)
    return render(
        {
            "nodes": [pick(node, ("id", "type", "data", "metadata")) for node in drawn["nodes"]],
            # The Python client passes the members of an edge as arguments and accepts no others.
            "edges": [pick(edge, ("source", "target", "data", "conditional")) for edge in drawn["edges"]],
        }
    )


def pick(given: Any, names: tuple[str, ...]) -> JsonObject:
    return {name: given[name] for name in names if name in given}


async def schemas(call: JsonObject, graph: AnyGraph) -> bytes:
    return render({"graph_id": call["graph_id"], **schemas_of(graph)})


async def subgraphs(call: JsonObject, graph: AnyGraph) -> bytes:
    """Keyed by path; the first level, or all levels below with `recurse`."""
    namespace, recurse = call.get("namespace"), call.get("recurse") is True
    found: JsonObject = {}
    # The library finds a path below the first level only if it walks through all of them.
    async for path, subgraph in graph.aget_subgraphs(recurse=recurse or namespace is not None):
        is_below = recurse and namespace is not None and path.startswith(f"{namespace}|")
        if namespace is not None and path != namespace and not is_below:
            continue
        described = schemas_of(cast(AnyGraph, subgraph))
        short = {name: described[f"{name}_schema"] for name in ("state", "input", "output", "config")}
        found[path] = {"graph_id": call["graph_id"], **described, **short}
    return render(found)


def schemas_of(graph: AnyGraph) -> JsonObject:
    """
    Before Python 3.12 the library derives none for a typing.TypedDict: then the channels tell the input and the output.
    """
    names = graph.stream_channels_list
    return {
        "input_schema": derive(graph.get_input_jsonschema, lambda: channel_schema(graph, "Input", inputs_of(graph))),
        "output_schema": derive(graph.get_output_jsonschema, lambda: channel_schema(graph, "Output", names)),
        "state_schema": derive(lambda: channel_schema(graph, "State", names)),
        # What `configurable` may have: the members of the context. Clients look for their properties.
        "config_schema": derive(lambda: graph.get_context_jsonschema() or {}),
        "context_schema": derive(graph.get_context_jsonschema),
    }


def derive(*ways: Callable[[], Any]) -> Any:
    """The first schema that can be derived: one that cannot does not hide the others."""
    failures: list[str] = []
    for way in ways:
        try:
            with warnings.catch_warnings(action="ignore"):
                return way()
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")
    print("A schema of a graph cannot be derived:", *failures)
    return None


def channel_schema(graph: AnyGraph, suffix: str, names: Sequence[str]) -> JsonObject:
    """A channel whose type has no schema may have any value: it does not hide the others."""
    kinds = {name: graph.channels[name].UpdateType for name in names if name in graph.channels}
    fields = {name: kind if has_schema(kind) else Any for name, kind in kinds.items()}
    return model_of(graph.get_name(suffix), fields).model_json_schema()


def has_schema(kind: Any) -> bool:
    try:
        model_of("Channel", {"value": kind}).model_json_schema()
    except Exception:
        return False
    return True


def model_of(name: str, kinds: dict[str, Any]) -> type[BaseModel]:
    create = cast(Callable[..., type[BaseModel]], create_model)
    return create(
        name,
        __config__=ConfigDict(arbitrary_types_allowed=True),
        **{name: (kind, None) for name, kind in kinds.items()},
    )
