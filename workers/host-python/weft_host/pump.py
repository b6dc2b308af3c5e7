"""Reads the library's stream and produces the events of a run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

from langgraph.config import get_config

from .factory import AnyGraph
from .objects import JsonObject
from .run_state import RunState
from .streaming.modes import Modes, Namespace


@dataclass
class Job:
    graph: AnyGraph
    input: Any
    config: JsonObject
    options: JsonObject
    modes: Modes


async def pump(run: RunState, job: Job) -> None:
    """Runs the graph to its end. Raises its error, or why the run cannot go on."""
    pipe = run.host.pipe
    async for item in stream_of(job):
        # The loop drains the stream after an error: the graph of an abandoned stream would continue.
        if run.over or run.broken is not None:
            continue
        try:
            take_item(run, job, item)
        except Exception as error:
            run.fail(error)
        if (full := pipe.drained(run.slot)) is not None:
            await full
    if run.broken is not None:
        raise run.broken


def stream_of(job: Job) -> AsyncIterator[Any]:
    graph, config = job.graph, job.config
    if job.modes.callbacks:
        return graph.astream_events(job.input, config, version="v2", **job.options)
    return graph.astream(job.input, config, **job.options)


def take_item(run: RunState, job: Job, item: Any) -> None:
    if not job.modes.callbacks:
        take_chunk(run, job, item)
    # The chunks of the graph itself arrive as events of its own run; clients receive them under their modes only.
    elif item["event"] == "on_chain_stream" and item["run_id"] == run.start["run_id"]:
        take_chunk(run, job, item["data"]["chunk"])
    else:
        job.modes.callback(item)


def take_chunk(run: RunState, job: Job, item: Any) -> None:
    ns, mode, payload = item if job.options["subgraphs"] else ((), *item)
    if mode == "values" and not ns:
        if isinstance(payload, dict) and "__interrupt__" in payload:
            run.is_paused = True
        else:
            run.values, run.has_values = payload, True
    job.modes.take(ns, mode, payload)
    if (interrupts := job.modes.pause_of(mode, payload)) is not None:
        values: Any = run.values
        state = cast(JsonObject, values) if not ns and isinstance(values, dict) else {}
        paused = {**state, "__interrupt__": interrupts}
        take_chunk(run, job, (ns, "values", paused) if job.options["subgraphs"] else ("values", paused))


def write_directly(run: RunState, job: Job) -> None:
    """
    For the mode `custom` alone: chunks go straight to the buffer, past the queue and the waiter of the library, at 1.5
    times the rate. Without the parts of the library that this needs, the mode is streamed like the others.
    """
    try:
        from langgraph.pregel.protocol import StreamProtocol
        from langgraph.runtime import Runtime
    except ImportError:
        job.options["stream_mode"] = ["custom"]
        return
    host, modes = run.host, job.modes

    def write(chunk: Any) -> None:
        config = get_config()
        ns: str = (config.get("configurable") or {}).get("checkpoint_ns") or ""
        graph = tuple(ns.split("|")[: -1 if modes.subgraphs else -1 - calls_around(config)])
        if host.is_on_loop():
            take_custom(run, modes, graph, chunk)
        else:
            host.loop.call_soon_threadsafe(take_custom, run, modes, graph, chunk)

    runtime = Runtime(context=job.options["context"], store=job.graph.store, stream_writer=write)
    job.config["configurable"]["__pregel_runtime"] = runtime
    job.config["configurable"]["__pregel_stream"] = StreamProtocol(lambda chunk: None, set())


def calls_around(config: Any) -> int:
    """
    How many calls of a `task` lie between this code and the node of a graph. Each extends the namespace as a subgraph
    does. The path of a call has that of its caller.
    """
    path: Any = cast(JsonObject, config.get("metadata") or {}).get("langgraph_path")
    depth = -1
    while isinstance(path, tuple):
        depth, path = depth + 1, cast(tuple[Any, ...], path)[1]
    return max(depth, 0)


def take_custom(run: RunState, modes: Modes, ns: Namespace, chunk: Any) -> None:
    if run.over or run.broken is not None:
        return
    try:
        modes.custom(ns, chunk)
    except Exception as error:
        run.fail(error)
