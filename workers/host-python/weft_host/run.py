"""
One run in a slot, from its start frame to its finish frame. Every start gets exactly one finish, even if the run lost
its lease: then the finish is empty, and the supervisor, which has already removed the slot, ignores it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import traceback
from collections.abc import Coroutine
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple

from .command import input_of
from .config import config_of, context_of, drop_selection, fitting, is_newest
from .finish import Outcome, finish, settle
from .objects import JsonObject
from .port import Host, SlotTransport
from .pump import Job, pump, write_directly
from .render import error_of, render
from .run_state import RunState
from .storage.item_store import ItemStore
from .storage.memory_saver import MemorySaver
from .storage.saver import SaverOptions, WeftSaver
from .streaming.langsmith_runs import feedback_urls, traced_in
from .streaming.modes import Modes

# Time for a run that failed or lost its lease to unwind before it ends without its graph.
UNWIND_S = 1.0
# Time for the nodes of a run that was ordered to stop: the next run of the thread waits for them. The supervisor kills
# the host, and with it all its runs, 5 s after the order.
LINGER_S = 3.0
TIMED_OUT = {"error": "RunTimeout", "message": "The run took too long"}


class Run(RunState):
    """`newest`: the newest checkpoint of the thread, packed; empty: it has none."""

    def __init__(
        self, host: Host, slot: int, confirmed_at: int, start: JsonObject, newest: bytes, recorded: bool
    ) -> None:
        super().__init__(host, slot, confirmed_at, start, recorded)
        self.newest = newest

    async def execute(self) -> None:
        """Executes the run and sends its finish."""
        try:
            self.announce()
            # A resource of a factory is opened and closed by this task, as some libraries require, and closed after the
            # finish, because the final state needs the graph.
            async with contextlib.AsyncExitStack() as stack:
                try:
                    job = await self.unless_stopped(self.prepare(stack))
                except BaseException as error:
                    await self.end(error)
                else:
                    await self.end(await self.until_stopped(self.stream(job)))
        except BaseException as error:
            traceback.print_exc()
            if not self.over:
                await finish(self, Outcome("error", error_of(error)))

    def announce(self) -> None:
        """The first event of each attempt has exactly these keys (docs/spec/streams.md#format)."""
        start = self.start
        self.events.push("metadata", render({"run_id": start["run_id"], "attempt": start["attempt"]}))
        if self.v2 is not None:
            self.v2.start()

    async def unless_stopped(self, work: Coroutine[Any, Any, Job]) -> Job:
        """Awaits work in this task. Raises CancelledError when the run is stopped meanwhile."""
        task, is_waiting = asyncio.current_task(), True

        def stop(_: asyncio.Future[None]) -> None:
            if task is not None and is_waiting:
                task.cancel("The run was stopped")

        self.stopping.add_done_callback(stop)
        try:
            return await work
        except asyncio.CancelledError:
            if task is not None and self.stopping.done():
                task.uncancel()
            raise
        finally:
            is_waiting = False

    async def until_stopped(self, work: Coroutine[Any, Any, None]) -> BaseException | None:
        """Runs the graph to its end, or until it was stopped and has unwound. Returns its error."""
        task = self.host.loop.create_task(work)
        await asyncio.wait({task, self.stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel("The run was stopped")
            until = self.host.loop.time() + (UNWIND_S if self.stopped is None else LINGER_S)
            await asyncio.wait({task}, timeout=until - self.host.loop.time())
            if self.stopped is not None:
                await self.host.threads.unused(self.slot, until)
        if not task.done():
            # A later error of the graph concerns no run.
            task.add_done_callback(lambda late: late.cancelled() or late.exception())
            return None
        return asyncio.CancelledError("cancelled") if task.cancelled() else task.exception()

    async def end(self, error: BaseException | None) -> None:
        if self.is_lost:
            return await finish(self, Outcome("interrupted"))
        if self.stopped is not None and self.broken is None:
            is_late = self.stopped == "timeout"
            return await settle(self, Outcome("timeout", TIMED_OUT) if is_late else Outcome("interrupted"))
        if self.broken is not None:
            return await settle(self, Outcome("error", error_of(self.broken)))
        if error is not None:
            return await settle(self, Outcome("error", error_of(error), error))
        await settle(self, Outcome("success"))

    async def stream(self, job: Job) -> None:
        await pump(self, job)
        if keys := self.start["kwargs"].get("feedback_keys"):
            self.feedback = await feedback_urls(self.start["run_id"], keys)
            if self.feedback is not None and not self.over:
                self.events.push("feedback", render(self.feedback))

    async def prepare(self, stack: contextlib.AsyncExitStack) -> Job:
        """The graph with a checkpointer of this run, its input and its options."""
        start, application = self.start, self.host.application
        kwargs: JsonObject = start["kwargs"]
        found = application.graphs.get(start["graph_id"])
        if found is None:
            raise LookupError(f'Graph "{start["graph_id"]}" is not loaded.')
        config = config_of(start, application.execution)
        given = kwargs.get("context")
        context = context_of(config["configurable"], given)
        if "langsmith_project" in config["configurable"]:
            stack.enter_context(traced_in(config["configurable"]))
        saver = self.saver_of(config["metadata"])
        store = ItemStore(SlotTransport(self.host, self.slot).items, self.host.stores)
        self.store = self.host.stores[self.slot] = store
        # A factory reads the context in its config.
        made_with = config if found.fixed is not None else {**config, "context": context}
        graph = self.graph = await stack.enter_async_context(found.use(made_with, "threads.create_run", saver, store))
        # Values that a client put into `configurable` stay there.
        context = fitting(context, graph.context_schema, config["configurable"] if given else {})
        modes = Modes(kwargs["stream_mode"], kwargs["stream_subgraphs"], self.events, self.v2, self.lifecycle)
        if kwargs.get("resumable") and not kwargs["temporary"] and self.v2 is None:
            modes.report_checkpoints(self.send_checkpoint)
        if not application.values_have_interrupts:
            modes.show_interrupts_in_values()
        options: JsonObject = {
            "context": context,
            "durability": kwargs["durability"],
            "subgraphs": kwargs["stream_subgraphs"] or self.lifecycle is not None,
            "stream_mode": ["values"] if modes.direct else modes.library,
            # The mode `values` shows what the output schema names, and so does `updates`.
            "output_keys": graph.output_channels,
        }
        for name in ("interrupt_before", "interrupt_after"):
            if kwargs.get(name) is not None:
                options[name] = kwargs[name]
        if self.spans is not None:
            config["callbacks"] = [self.spans]
        job = Job(graph, await self.input_of(saver, config["configurable"]), config, options, modes)
        if modes.direct:
            write_directly(self, job)
        return job

    def saver_of(self, metadata: JsonObject) -> WeftSaver | MemorySaver:
        kwargs = self.start["kwargs"]
        if kwargs["temporary"]:
            return MemorySaver(metadata)
        seq = itertools.count(self.start["first_seq"])
        options = SaverOptions(
            transport=SlotTransport(self.host, self.slot),
            thread_id=self.start["thread_id"],
            durability=kwargs["durability"],
            next_seq=lambda: next(seq),
            newest=self.newest,
            # Checkpoints do not store identities.
            metadata={key: value for key, value in metadata.items() if not key.startswith("langgraph_auth_")},
            failed=self.fail,
            copies=self.host.application.copies,
        )
        self.saver = WeftSaver(options, self.host.application.serde)
        return self.saver

    async def input_of(self, saver: WeftSaver | MemorySaver, configurable: JsonObject) -> Any:
        """A repeated attempt continues from its own checkpoint; any other run begins with its input."""
        thread_id = self.start["thread_id"]

        async def tuple_at(**place: Any) -> CheckpointTuple | None:
            return await saver.aget_tuple({"configurable": {"thread_id": thread_id, **place}})

        async def newest_of(ns: str) -> str | None:
            if ns == "":
                return None if self.saver is None else self.saver.head()
            found = await tuple_at(checkpoint_ns=ns)
            return None if found is None else found.checkpoint["id"]

        async def pending() -> list[str]:
            checkpoint_id, ns = configurable.get("checkpoint_id"), configurable.get("checkpoint_ns")
            return interrupt_ids(
                await (tuple_at(checkpoint_id=checkpoint_id) if checkpoint_id and not ns else tuple_at())
            )

        if self.start["attempt"] > 1 and self.newest and self.is_own(await tuple_at()):
            drop_selection(configurable)
            return None
        if self.saver is None or await is_newest(configurable, newest_of):
            drop_selection(configurable)
        return await input_of(self.start["kwargs"], pending)

    def is_own(self, found: CheckpointTuple | None) -> bool:
        return found is not None and found.metadata.get("run_id") == self.start["run_id"]


def interrupt_ids(found: CheckpointTuple | None) -> list[str]:
    """Ids of the pending interrupts of a checkpoint."""
    writes = (found.pending_writes or []) if found is not None else []
    return [each.id for _, channel, value in writes if channel == "__interrupt__" for each in value]
