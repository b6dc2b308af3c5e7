"""
State updates (docs/spec/threads.md#state-and-history). The library applies them with a saver that stores nothing.
The parts to store return with the answer, so that the resource worker writes all of them or none.
"""

from __future__ import annotations

import itertools
from typing import Any, cast

from langgraph.types import Command, StateUpdate

from .command import input_of
from .factory import AnyGraph
from .limits import LARGEST_ANSWER, CallFailure, StateTooLarge, Unanswered
from .objects import JsonObject
from .packed import pack
from .port import Host, SlotTransport
from .rebuild import rebuilt
from .render import error_of, render
from .state import interrupts_of, reference_of, rest_of, state_of
from .storage.saver import SaverOptions, WeftSaver

# These nodes receive their values unchanged.
SPECIAL = ("__copy__", "__input__", "__end__")


class Collected(SlotTransport):
    """Reads from the store, and collects what would be saved."""

    def __init__(self, host: Host, slot: int) -> None:
        super().__init__(host, slot)
        self.saves: list[bytes] = []

    async def save(self, body: bytes, thread_id: str) -> None:
        self.saves.append(body)

    def options(self, call: JsonObject) -> SaverOptions:
        seq = itertools.count(call["first_seq"])
        return SaverOptions(
            transport=self,
            thread_id=call["thread_id"],
            durability="exit",
            next_seq=lambda: next(seq),
            metadata=call["metadata"],
            keep=True,
        )


async def update(
    graph: AnyGraph, saver: WeftSaver, configurable: JsonObject, call: JsonObject, saves: list[bytes]
) -> bytes:
    """A packed UpdatedHead (schemas/host.ts) and its parts. What the library refuses is `invalid`."""
    is_replay = bool(call.get("replay"))
    steps = [[await update_of(each, graph, is_replay) for each in step["updates"]] for step in call["supersteps"]]
    try:
        updated = await graph.abulk_update_state({"configurable": configurable}, steps)
        # It reads the input of the next nodes, which the update may have left without what their state needs.
        state = state_of(await graph.aget_state({"configurable": {"thread_id": call["thread_id"]}}))
    except (StateTooLarge, Unanswered):
        raise
    except Exception as error:
        # Nearly all errors here come from the client's input: an unknown node, values that a reducer rejects.
        shown = error_of(error)
        raise CallFailure("invalid", f"{shown['error']}: {shown['message']}") from error
    saves.append(await saver.outbox.take())
    parts = [render(state["values"]), rest_of(state), *saves]
    if (size := sum(map(len, parts))) > LARGEST_ANSWER:
        raise CallFailure("too_large", f"The update makes {size} bytes, more than {LARGEST_ANSWER}")
    head = {
        "checkpoint": reference_of(updated),
        "head": saver.head(),
        "next": state["next"],
        "interrupts": interrupts_of(state["tasks"]),
        "values_size": len(parts[0]),
        "rest_size": len(parts[1]),
        "save_sizes": [len(save) for save in saves],
    }
    return pack(render(head), parts)


async def update_of(given: JsonObject, graph: AnyGraph, is_replay: bool) -> StateUpdate:
    """A list of objects is applied one after the other, as commands; if the state is a list, the list is the value."""
    values: Any = rebuilt(given.get("values"), graph) if is_replay else given.get("values")
    as_node = given.get("as_node") or None
    if given.get("command"):
        values = await input_of({"command": given["command"], "input": None}, nothing_pending)
    elif isinstance(values, list) and as_node not in SPECIAL and "__root__" not in graph.channels:
        each_value = cast(list[Any], values)
        values = [Command(update=cast(Any, each)) if isinstance(each, dict) else each for each in each_value]
    return StateUpdate(cast(Any, values), as_node)


async def nothing_pending() -> list[str]:
    return []
