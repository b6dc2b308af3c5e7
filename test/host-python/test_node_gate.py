"""Nodes of a run wait while its lease is not confirmed, and a stopped run starts none, whatever is confirmed."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import graphs
import pytest
from supervisor import Supervisor, source

from weft_host.node_gate import CONFIRMED_MS, Suspends, monotonic_ms

GRAPHS = Path(__file__).parent / "graphs.py"
EXPORTS = ["graph", "noting", "functional", "holding", "invoking", "trying"]
# A lease that is valid for so long.
LEFT_MS = 300


@pytest.fixture
async def supervisor() -> Supervisor:
    graphs.entered.clear()
    graphs.released.clear()
    return Supervisor([source(name, GRAPHS, name) for name in EXPORTS], "/", threads=1)


def expired() -> int:
    return monotonic_ms() - CONFIRMED_MS


def expiring() -> int:
    return expired() + LEFT_MS


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not happened():
            await asyncio.sleep(0.01)


async def test_nodes_wait_until_their_lease_is_confirmed(supervisor: Supervisor):
    slot = supervisor.start("graph", input={"steps": []}, confirmed_at=expired())
    await asyncio.sleep(0.2)
    assert not supervisor.finished[slot].done()
    supervisor.confirm(slot, monotonic_ms())
    assert (await supervisor.end(slot))["status"] == "success"


async def test_a_confirmation_opens_the_gate_of_its_run_alone_and_counts_from_when_it_was_sent(supervisor: Supervisor):
    kept, lost = (supervisor.start("noting", thread, input={}, confirmed_at=expired()) for thread in ("t1", "t2"))
    await asyncio.sleep(0.1)
    # The answers to heartbeats that were sent before a pause.
    supervisor.confirm(kept, expired())
    supervisor.confirm(lost, expired() - CONFIRMED_MS)
    await asyncio.sleep(0.1)
    assert graphs.entered == []
    supervisor.confirm(kept, monotonic_ms())
    # The answer to an earlier one is late.
    supervisor.confirm(kept, expired())
    assert (await supervisor.end(kept))["status"] == "success"
    await asyncio.sleep(0.1)
    supervisor.cancel(lost)
    assert (await supervisor.end(lost))["status"] == "interrupted"
    assert graphs.entered == ["noted"]


@pytest.mark.parametrize("order", ["confirmed, then stopped", "stopped, then confirmed", "stopped, confirmed later"])
@pytest.mark.parametrize("graph_id", ["noting", "functional"])
async def test_a_run_that_is_stopped_starts_no_node(supervisor: Supervisor, graph_id: str, order: str):
    slot = supervisor.start(graph_id, input={} if graph_id == "noting" else 1, confirmed_at=expired())
    await asyncio.sleep(0.1)
    if order == "confirmed, then stopped":
        supervisor.confirm(slot, monotonic_ms())
    supervisor.cancel(slot)
    if order == "stopped, confirmed later":
        await asyncio.sleep(0)
    supervisor.confirm(slot, monotonic_ms())
    ended = await supervisor.end(slot)
    assert (ended["status"], graphs.entered) == ("interrupted", [])


async def test_a_run_that_waits_to_begin_keeps_what_is_confirmed_meanwhile(supervisor: Supervisor):
    slot = supervisor.start("noting", input={}, confirmed_at=expired())
    supervisor.confirm(slot, monotonic_ms())
    assert (await supervisor.end(slot))["status"] == "success"


async def test_a_node_that_waited_for_its_thread_starts_under_a_lease(supervisor: Supervisor):
    holder = supervisor.start("holding", "t1", input={})
    await until(lambda: supervisor.threads.in_use.total() == 1)
    waiting = supervisor.start("noting", "t2", input={}, confirmed_at=expiring())
    await until(lambda: supervisor.threads.in_use.total() == 2)
    await asyncio.sleep(LEFT_MS / 1000)
    graphs.released.set()
    await supervisor.end(holder)
    await asyncio.sleep(0.2)
    assert graphs.entered == []
    supervisor.confirm(waiting, monotonic_ms())
    assert (await supervisor.end(waiting))["status"] == "success"
    assert graphs.entered == ["noted"]


async def test_each_try_of_a_node_starts_under_a_lease(supervisor: Supervisor):
    slot = supervisor.start("trying", input={}, confirmed_at=expiring())
    await until(lambda: graphs.entered == ["tried"])
    await asyncio.sleep(1)
    assert graphs.entered == ["tried"]
    supervisor.confirm(slot, monotonic_ms())
    assert (await supervisor.end(slot))["status"] == "success"


async def test_nodes_of_a_graph_that_a_synchronous_node_invokes_start_under_its_lease(supervisor: Supervisor):
    kept = supervisor.start("invoking", input={}, confirmed_at=expiring())
    await until(lambda: graphs.entered == ["invokes"])
    await asyncio.sleep(LEFT_MS / 1000)
    graphs.released.set()
    await asyncio.sleep(0.2)
    assert graphs.entered == ["invokes"]
    supervisor.confirm(kept, monotonic_ms())
    assert (await supervisor.end(kept))["status"] == "success"
    assert graphs.entered == ["invokes", "noted"]


async def test_a_node_that_a_stopped_run_leaves_behind_starts_no_other(supervisor: Supervisor):
    slot = supervisor.start("invoking", input={})
    await until(lambda: graphs.entered == ["invokes"])
    supervisor.cancel(slot)
    assert (await supervisor.end(slot))["status"] == "interrupted"
    graphs.released.set()
    await until(lambda: supervisor.threads.in_use.total() == 0)
    assert graphs.entered == ["invokes"]


def test_a_suspend_of_the_machine_is_noticed_by_the_clock_that_goes_on():
    monotonic, boot = 1_000, 5_000
    suspends = Suspends(lambda: monotonic, lambda: boot)
    assert suspends.resumed_at() == 0
    monotonic, boot = 2_000, 6_000
    assert suspends.resumed_at() == 0
    monotonic, boot = 2_100, 40_000
    assert suspends.resumed_at() == 2_100
    monotonic, boot = 3_000, 40_900
    assert suspends.resumed_at() == 2_100
