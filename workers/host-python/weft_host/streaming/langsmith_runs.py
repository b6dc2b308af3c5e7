"""
LangSmith, where the environment of the application has it. The library sends traces by itself; this adds the project
that a run names, and the URLs at which feedback about a run may be given (docs/spec/runs.md#langsmith).
"""

from __future__ import annotations

import asyncio
import inspect
import os
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from ..objects import JsonObject

if TYPE_CHECKING:
    from langsmith import Client

# The events of a run wait for them.
FEEDBACK_S = 5.0
API_KEYS = ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY")


def traced_in(configurable: JsonObject) -> AbstractContextManager[Any]:
    """Sends the trace of a run to its project, too. Nothing for a run that names none, or when nothing is traced."""
    # Only such a run needs the package, which takes a tenth of a second to import.
    from langsmith import run_helpers, utils

    project, example = configurable.get("langsmith_project"), configurable.get("langsmith_example_id")
    if not isinstance(project, str) or not project or not is_tracing(utils):
        return nullcontext()
    tracing_context = cast(Any, run_helpers).tracing_context
    updates = {"reference_example_id": example} if isinstance(example, str) and example else None
    if "replicas" not in inspect.signature(tracing_context).parameters:
        return tracing_context(project_name=project)
    replicas: list[Any] = [{"project_name": project, "updates": updates}]
    if (usual := utils.get_tracer_project()) != project:
        replicas.append({"project_name": usual, "updates": None})
    return tracing_context(replicas=replicas)


async def feedback_urls(run_id: str, keys: list[str]) -> dict[str, str] | None:
    """URLs by key. None, and a line in the log: LangSmith does not give them."""
    try:
        from langsmith import utils

        if not is_tracing(utils) and not any(os.environ.get(name) for name in API_KEYS):
            raise LookupError("LANGSMITH_API_KEY is not set")
        asked = asyncio.to_thread(lambda: client().create_presigned_feedback_tokens(run_id, keys))
        try:
            tokens = await asyncio.wait_for(asked, FEEDBACK_S)
        except TimeoutError:
            raise TimeoutError(f"LangSmith has not answered within {FEEDBACK_S:g} s") from None
        return {key: token.url for key, token in zip(keys, tokens, strict=True)}
    except Exception as error:
        print(f"No URLs for feedback_keys of run {run_id}: {error}", flush=True)
        return None


def is_tracing(utils: Any) -> bool:
    return bool(utils.tracing_is_enabled())


@lru_cache(maxsize=1)
def client() -> Client:
    from langsmith import Client

    return Client()
