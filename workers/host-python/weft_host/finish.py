"""The end of a run in its host: computes the final state once and sends the finish frame."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any, cast

from .factory import AnyGraph
from .failure import failure_of, frame_of, place_of
from .frames import FromHost
from .limits import LARGEST_FRAME, LARGEST_STATE, StateTooLarge
from .objects import JsonObject
from .packed import pack
from .render import error_of, render
from .run_state import RunState
from .state import interrupts_of, rest_of, state_of, streamed


@dataclass
class Outcome:
    # success, error, interrupted or timeout.
    status: str
    error: dict[str, str] | None = None
    # The error that graph code raised, for the log.
    thrown: BaseException | None = None
    # The place of that error in the application.
    at: JsonObject | None = None


@dataclass
class Left:
    """The results of the run. `values`: JSON text of the root state; `rest`: the ThreadState without it."""

    values: bytes = b""
    rest: bytes = b""
    state: JsonObject | None = None
    interrupts_only: bool = False
    # The part of the values that clients of wait and join get; empty: all of them.
    output: bytes = b""

    def next(self) -> list[str]:
        return [] if self.state is None else self.state["next"]

    def interrupts(self) -> dict[str, list[Any]]:
        found = {} if self.state is None else interrupts_of(self.state["tasks"])
        return {task: [streamed(each) for each in raised] for task, raised in found.items()}


NOTHING = Left()


async def settle(run: RunState, outcome: Outcome) -> None:
    """Computes the final state of the run once and ends the run."""
    # Writes after the store refused a save are not stored: the run reports no state, and the thread keeps its own.
    if run.saver is not None and run.saver.outbox.error is not None:
        return await finish(run, outcome)
    left = Left(values=b"{}")
    try:
        if run.saver is not None or not run.has_values or run.is_paused:
            left.state = await state_at_end(run)
        if left.state is not None and left.state["checkpoint"]:
            left.values = render(left.state["values"])
        elif run.has_values:
            left.values = render(run.values)
        left.output = output_of(run.graph, run.values if left.state is None else left.state["values"])
        if run.saver is not None and left.state is not None:
            left.rest = rest_of(left.state)
    except Exception as error:
        if outcome.status == "success":
            outcome = Outcome("error", error_of(error), error)
    if outcome.thrown is not None:
        outcome.at = report_failure(run, outcome.thrown, left.state)
    left.interrupts_only = is_entrypoint(run.graph) and bool(left.interrupts())
    await finish(run, outcome, left)


def report_failure(run: RunState, thrown: BaseException, state: JsonObject | None) -> JsonObject | None:
    """Sends the log entry. Returns the place of the error in the application."""
    try:
        frame = frame_of(thrown, run.host.application.folders)
        body = render(failure_of(run.start, thrown, state, frame))
    except Exception:
        traceback.print_exc()
        return None
    run.host.pipe.send(FromHost.FAILED, slot=run.slot, body=body)
    return None if frame is None else place_of(frame)


def is_entrypoint(graph: AnyGraph | None) -> bool:
    """
    The output of an entrypoint (functional API) is what it returned last. A run that stops at an interrupt has returned
    nothing yet.
    """
    return graph is not None and graph.output_channels == "__end__"


def output_of(graph: AnyGraph | None, values: Any) -> bytes:
    """The members of the graph's output schema; empty when the state has no others."""
    if graph is None or isinstance(graph.output_channels, str) or not isinstance(values, dict):
        return b""
    members = cast(JsonObject, values)
    names = set(graph.output_channels)
    return b"" if names.issuperset(members) else render({name: members[name] for name in members if name in names})


async def state_at_end(run: RunState) -> JsonObject | None:
    if run.graph is None:
        return None
    snapshot = await run.graph.aget_state({"configurable": {"thread_id": run.start["thread_id"]}})
    return None if run.saver is None and snapshot.created_at is None else state_of(snapshot)


async def finish(run: RunState, outcome: Outcome, left: Left = NOTHING) -> None:
    """Sends the finish frame of a start: exactly one, whatever has happened."""
    run.over = True
    if run.store is not None:
        run.store.close()
        run.host.stores.pop(run.slot, None)
    save = b"" if run.saver is None else await run.saver.outbox.take()
    # The save in flight can also fail.
    if run.is_lost:
        if run.spans is not None:
            run.spans.drop()
        run.events.flush()
        return send(run, Outcome("interrupted"), NOTHING, b"", head=None)
    if run.broken is not None and outcome.status == "success":
        outcome = Outcome("error", error_of(run.broken))
    excess = excess_of(left, save)
    if excess is not None:
        outcome = Outcome("error", error_of(excess))
    ended = lifecycle_of(outcome, left)
    if run.lifecycle is not None:
        run.lifecycle.end(ended, outcome.error)
    if outcome.error is not None:
        run.events.push("error", render(outcome.error))
    message = outcome.error["message"] if outcome.error else None
    if run.v2 is not None:
        run.v2.end(ended, message)
    if run.spans is not None:
        run.spans.end(span_status_of(outcome, ended), message)
    run.events.flush()
    if excess is not None or (run.saver is not None and run.saver.outbox.error is not None):
        # Reports nothing about a state that is not stored, not even the id of the newest checkpoint.
        return send(run, outcome, NOTHING, b"", head=None)
    send(run, outcome, left, save, head=None if run.saver is None else run.saver.head())


def excess_of(left: Left, save: bytes) -> StateTooLarge | None:
    if len(left.values) > LARGEST_STATE:
        return StateTooLarge("The values of the state", len(left.values))
    size = len(left.values) + len(left.rest) + len(save) + len(left.output)
    return StateTooLarge("The state and what is left to be saved", size) if size > LARGEST_FRAME else None


def lifecycle_of(outcome: Outcome, left: Left) -> str:
    """The name of the outcome in protocol v2."""
    if outcome.status == "success":
        return "interrupted" if left.next() or left.interrupts() else "completed"
    return "interrupted" if outcome.status == "interrupted" else "failed"


def span_status_of(outcome: Outcome, lifecycle: str) -> str:
    """The status of the graph among the recorded parts of the run."""
    if lifecycle == "interrupted":
        return "interrupted" if outcome.status == "success" else "cancelled"
    return "ok" if lifecycle == "completed" else "error"


def send(run: RunState, outcome: Outcome, left: Left, save: bytes, head: str | None) -> None:
    """A packed FinishHead (schemas/host.ts) and its parts."""
    only: JsonObject = {"interrupts_only": True} if left.interrupts_only else {}
    if run.feedback is not None and outcome.status == "success":
        only["feedback"] = run.feedback
    text = render(
        {
            "status": outcome.status,
            "error": outcome.error,
            **({} if outcome.at is None else {"at": outcome.at}),
            "last_event_id": run.events.last_id(),
            "head": head,
            "next": left.next(),
            "interrupts": left.interrupts(),
            **only,
            "values_size": len(left.values),
            "rest_size": len(left.rest),
            "save_size": len(save),
            **({"output_size": len(left.output)} if left.output else {}),
        }
    )
    run.host.pipe.send(FromHost.FINISH, slot=run.slot, body=pack(text, (left.values, left.rest, save, left.output)))
