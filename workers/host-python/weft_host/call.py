"""Calls that need graph code but no run. A failure is raised as CallFailure."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace

from .describe import draw, schemas, subgraphs
from .factory import AnyGraph
from .limits import LARGEST_ANSWER, CallFailure, StateTooLarge
from .objects import JsonObject, member
from .port import Host, SlotTransport
from .render import error_of, render
from .state import state_of
from .storage.item_store import ItemStore
from .storage.saver import SaverOptions, WeftSaver
from .update import Collected, update

ACCESS = {"state": "threads.read", "history": "threads.read", "update": "threads.update"}


@dataclass
class Called:
    """`configurable`: the thread, with the checkpoint that the call names."""

    graph: AnyGraph
    saver: WeftSaver
    configurable: JsonObject


@contextlib.asynccontextmanager
async def called(host: Host, call: JsonObject, options: SaverOptions) -> AsyncGenerator[Called]:
    """The graph with a saver that can access this thread only."""
    found = host.application.graphs.get(call["graph_id"])
    if found is None:
        raise CallFailure("not_found", f'Graph "{call["graph_id"]}" not found')
    place = place_in(call.get("checkpoint"))
    config = member(call, "config")
    configurable = {**member(config, "configurable"), **place, "thread_id": options.thread_id}
    saver = WeftSaver(replace(options, copies=host.application.copies), host.application.serde)
    access = ACCESS.get(call["verb"], "assistants.read")
    # The store is the one of runs: outside of a run, its operations are refused in one sentence.
    async with found.use(
        {**config, "configurable": configurable}, access, saver, ItemStore(None, host.stores)
    ) as graph:
        yield Called(graph, saver, {"thread_id": options.thread_id, **place})


def place_in(checkpoint: JsonObject | None) -> JsonObject:
    """The part of the checkpoint that a client named; null and absent are equivalent."""
    given = checkpoint or {}
    names = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")
    return {name: given[name] for name in names if given.get(name) is not None}


def reading(host: Host, slot: int, call: JsonObject) -> SaverOptions:
    return SaverOptions(transport=SlotTransport(host, slot), thread_id=call.get("thread_id") or "")


async def answer_state(host: Host, slot: int, call: JsonObject) -> bytes:
    async with called(host, call, reading(host, slot, call)) as target:
        with_subgraphs = call.get("subgraphs") is True
        snapshot = await target.graph.aget_state({"configurable": target.configurable}, subgraphs=with_subgraphs)
        checkpoint_id = target.configurable.get("checkpoint_id")
        if checkpoint_id and snapshot.created_at is None:
            raise CallFailure("not_found", f"Checkpoint {checkpoint_id} not found")
        return render(state_of(snapshot))


async def answer_history(host: Host, slot: int, call: JsonObject) -> bytes:
    async with called(host, call, reading(host, slot, call)) as target:
        options: JsonObject = {"limit": call["limit"]}
        if call.get("before"):
            before = {"thread_id": call["thread_id"], "checkpoint_id": call["before"]}
            options["before"] = {"configurable": before}
        if call.get("metadata"):
            options["filter"] = call["metadata"]
        states: list[bytes] = []
        size = 0
        async for snapshot in target.graph.aget_state_history({"configurable": target.configurable}, **options):
            states.append(render(state_of(snapshot)))
            size += len(states[-1])
            if size > LARGEST_ANSWER:
                sentence = f"The history holds more than {LARGEST_ANSWER} bytes: ask for fewer states (limit)"
                raise CallFailure("too_large", sentence)
        return b"[" + b",".join(states) + b"]"


async def answer_update(host: Host, slot: int, call: JsonObject) -> bytes:
    collected = Collected(host, slot)
    async with called(host, call, collected.options(call)) as target:
        return await update(target.graph, target.saver, target.configurable, call, collected.saves)


async def answer_description(host: Host, slot: int, call: JsonObject) -> bytes:
    describe = {"draw": draw, "schemas": schemas, "subgraphs": subgraphs}[call["verb"]]
    async with called(host, call, reading(host, slot, call)) as target:
        return await describe(call, target.graph)


async def answer_forget(host: Host, slot: int, call: JsonObject) -> bytes:
    """Removes the copies of a thread."""
    if (copies := host.application.copies) is not None and copies.deletes:
        await copies.saver.adelete_thread(call["thread_id"])
    return b"null"


HANDLERS: dict[str, Callable[[Host, int, JsonObject], Awaitable[bytes]]] = {
    "state": answer_state,
    "history": answer_history,
    "update": answer_update,
    "forget": answer_forget,
    "draw": answer_description,
    "schemas": answer_description,
    "subgraphs": answer_description,
}


async def answer_call(host: Host, slot: int, call: JsonObject) -> bytes:
    """The bytes of the answer (schemas/host.ts, Call)."""
    handler = HANDLERS.get(call["verb"])
    if handler is None:
        raise CallFailure("bad_request", f'A host knows no call "{call["verb"]}"')
    try:
        return await handler(host, slot, call)
    except CallFailure:
        raise
    except StateTooLarge as error:
        raise CallFailure("too_large", str(error)) from error
    except Exception as error:
        traceback.print_exc()
        shown = error_of(error)
        raise CallFailure("internal", f"{shown['error']}: {shown['message']}") from error
