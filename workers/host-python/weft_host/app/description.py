"""
What the parent read in langgraph.json: the exports of this process. It arrives as JSON in WEFT_DESCRIPTION, as the
description of a graph host does.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import orjson

from ..modules import advice_on, extend_path, import_module

Wanted = TypeVar("Wanted")

# As in a function that returns a context manager.
DEEPEST = 4


@dataclass(frozen=True)
class Export:
    # The text of langgraph.json, for messages: `./auth.py:auth`.
    text: str
    # Absolute path of the file, or the name of a module; of an embedder also `provider:model`.
    place: str
    # The name of the export; None: `place` is `provider:model`.
    name: str | None
    folder: str

    def load(self, key: str) -> Any:
        """Raises ValueError with one sentence that begins with the key."""
        assert self.name is not None
        try:
            module = import_module(self.place, Path(self.folder))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # A module may also call sys.exit().
            traceback.print_exc()
            why = f"{type(error).__name__}: {error}{advice_on(error)}"
            raise ValueError(f"{key}: {self.text} cannot be loaded: {why}") from None
        if not hasattr(module, self.name):
            raise ValueError(f'{key}: {self.place} has no export named "{self.name}".')
        return getattr(module, self.name)


async def open_export(stack: AsyncExitStack, exported: Any, wanted: type[Wanted]) -> Wanted | None:
    """
    What an export gives that is an object of this class, a context manager or an awaitable of it, or a function that
    returns one of these; None for any other. `stack` closes it.
    """
    found: Any = exported
    for _ in range(DEEPEST):
        if isinstance(found, wanted):
            break
        if hasattr(found, "__aenter__"):
            found = await stack.enter_async_context(found)
        elif hasattr(found, "__enter__"):
            found = stack.enter_context(found)
        elif inspect.isawaitable(found):
            found = await found
        elif callable(found):
            found = found()
    return found if isinstance(found, wanted) else None


@dataclass(frozen=True)
class AppDescription:
    # The folder of langgraph.json.
    folder: str
    # Folders of `dependencies`, absolute: their modules can be imported.
    dependencies: list[str]
    auth: Export | None
    embed: Export | None
    encryption: Export | None
    http: Export | None
    store: Export | None
    # The folder of the sockets that the edge and `http.app` share.
    sockets: str | None

    def prepare(self) -> None:
        extend_path([Path(self.folder), *(Path(each) for each in self.dependencies)])


def read_app_description(text: str) -> AppDescription:
    """Raises ValueError with a sentence."""
    try:
        given = orjson.loads(text)
        if not isinstance(given, Mapping):
            raise TypeError("it must be an object")
        members = dict(cast(Mapping[str, Any], given))
        folder = members["folder"]

        def export(part: str) -> Export | None:
            found = members.pop(part, None)
            return None if found is None else Export(**found, folder=folder)

        parts = {part: export(part) for part in ("auth", "embed", "encryption", "http", "store")}
        return AppDescription(**parts, **members)
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"WEFT_DESCRIPTION has other members than expected: {error}") from None
