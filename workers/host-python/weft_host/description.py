"""
What the supervisor read in langgraph.json (schemas/application.ts): the graphs of this host, and what it reports of the
application. It arrives as JSON in WEFT_DESCRIPTION, so that one program alone interprets the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from .objects import JsonObject


@dataclass(frozen=True)
class GraphSource:
    graph_id: str
    description: str | None
    # Absolute path of the file, or the name of a module.
    place: str
    # The name of the export.
    name: str
    # A sentence: the graph cannot be loaded.
    error: str | None
    # Defaults of its system assistant.
    config: JsonObject
    context: JsonObject


def no_strings() -> list[str]:
    return []


def no_values() -> JsonObject:
    return {}


def no_variables() -> dict[str, str]:
    return {}


def no_graphs() -> list[GraphSource]:
    return []


@dataclass(frozen=True)
class Description:
    # The folder of langgraph.json.
    folder: str
    graphs: list[GraphSource] = field(default_factory=no_graphs)
    # Folders of `dependencies`, absolute: their modules can be imported.
    dependencies: list[str] = field(default_factory=no_strings)
    # Variables of `env`; those that the process has take precedence.
    env: dict[str, str] = field(default_factory=no_variables)
    # Members of the hello frame: ttl, item_ttl, notes.
    hello: JsonObject = field(default_factory=no_values)
    # `checkpointer.serde`.
    serde: JsonObject = field(default_factory=no_values)
    # `checkpointer.path`: members of an Export.
    checkpointer: JsonObject | None = None


def read_description(text: str) -> Description:
    """Raises ValueError with a sentence."""
    try:
        given = orjson.loads(text)
    except ValueError as error:
        raise ValueError(f"WEFT_DESCRIPTION is not JSON: {error}") from None
    if not isinstance(given, Mapping):
        raise ValueError("WEFT_DESCRIPTION must be an object")
    members = dict(cast(Mapping[str, Any], given))
    try:
        graphs = [GraphSource(**graph) for graph in members.pop("graphs", ())]
        return Description(**members, graphs=graphs)
    except TypeError as error:
        raise ValueError(f"WEFT_DESCRIPTION has other members than expected: {error}") from None
