"""
Loads the Python graphs of an application. A graph that fails to load is reported, and the other graphs are served.
"""

from __future__ import annotations

import inspect
import os
import re
import traceback
from contextlib import AsyncExitStack
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .app.description import Export
from .description import Description, GraphSource
from .factory import Graph, compiled, inputs_of
from .modules import advice_on, extend_path, import_module
from .objects import JsonObject
from .storage.copies import CheckpointCopies, open_copies
from .storage.serde import Serde

# The first langgraph that shows interrupts in the mode `values`; earlier ones show them in `updates` only.
INTERRUPTS_IN_VALUES = (1, 0, 4)


class Application:
    """`hello` carries the errors; `execution` is added to the metadata of each run."""

    def __init__(self, description: Description) -> None:
        self.graphs: dict[str, Graph] = {}
        for name, value in description.env.items():
            os.environ.setdefault(name, value)
        self.library = library_version()
        self.execution = execution_of(self.library)
        self.values_have_interrupts = not is_before(self.library, INTERRUPTS_IN_VALUES)
        self.serde = Serde.of(description.serde)
        self.description = description
        # The checkpointer that the application brings, and what closes it.
        self.copies: CheckpointCopies | None = None
        self.stack = AsyncExitStack()
        folder = Path(description.folder)
        extend_path([folder, *(Path(each) for each in description.dependencies)])
        # Those of its code: first that of langgraph.json.
        graphs = (os.path.dirname(graph.place) for graph in description.graphs if os.path.isabs(graph.place))
        self.folders = [os.path.realpath(each) for each in (folder, *description.dependencies, *graphs)]
        rows = [self.add(source, folder) for source in description.graphs]
        self.hello: JsonObject = {"error": None, "graphs": rows, "library": self.library, **description.hello}

    async def open_checkpointer(self) -> None:
        """Opens that of `checkpointer.path`. Raises ValueError with one sentence."""
        given = self.description.checkpointer
        if given is None:
            return
        export = Export(**given, folder=self.description.folder)
        self.copies = await open_copies(self.stack, export.load("checkpointer.path"), export.text)
        if not self.copies.deletes:
            note = f"{export.text} has no adelete_thread: it keeps the checkpoints of threads that are deleted."
            self.hello["notes"] = [*self.hello.get("notes", ()), note]
        elif self.graphs:
            self.hello["app_checkpointer"] = next(iter(self.graphs))

    def add(self, source: GraphSource, folder: Path) -> JsonObject:
        """Loads one graph. Returns its row of the hello frame."""
        row: JsonObject = {
            "graph_id": source.graph_id,
            "description": source.description,
            "config": source.config,
            "context": source.context,
        }
        found = source.error or load(source, folder)
        if isinstance(found, str):
            return {**row, "error": found}
        self.graphs[source.graph_id] = found
        inputs = {} if found.fixed is None else {"inputs": inputs_of(found.fixed)}
        return {**row, "error": None, **inputs}


def library_version() -> str:
    try:
        return version("langgraph")
    except PackageNotFoundError:
        return "unknown"


def is_before(library: str, oldest: tuple[int, ...]) -> bool:
    numbers = [int(number) for number in re.findall(r"\d+", library)[:3]]
    return bool(numbers) and tuple(numbers) < oldest


def execution_of(library: str) -> JsonObject:
    """The environment of a run: the values that the platform sets for a self-hosted server without a licence."""
    execution = {"langgraph_version": library, "langgraph_plan": "developer", "langgraph_host": "self-hosted"}
    if url := os.environ.get("LANGGRAPH_API_URL"):
        execution["langgraph_api_url"] = url
    return execution


def load(source: GraphSource, folder: Path) -> Graph | str:
    """The graph of an export, or a sentence with the reason for its absence."""
    graph_id, place, name = source.graph_id, source.place, source.name
    try:
        module = import_module(place, folder)
        if not hasattr(module, name):
            return f'Graph "{graph_id}": {place} has no export named "{name}".'
        exported = getattr(module, name)
        if compiled(exported) is None and (not callable(exported) or inspect.isclass(exported)):
            return f'Graph "{graph_id}": the export "{name}" of {place} is not a graph.'
        return Graph(graph_id, exported)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # A module may also call sys.exit().
        traceback.print_exc()
        return f'Graph "{graph_id}" cannot be loaded: {type(error).__name__}: {error}{advice_on(error)}'
