"""The saver against the published suite for checkpointers, and what the store expects of it beyond that."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from langgraph.checkpoint.base import CheckpointMetadata, create_checkpoint, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from supervisor import Checkpoints

from weft_host.limits import LARGEST_STATE, StateTooLarge
from weft_host.packed import unpack
from weft_host.storage.memory_saver import MemorySaver
from weft_host.storage.saver import SaverOptions, WeftSaver
from weft_host.storage.serde import Serde
from weft_host.storage.tuples import next_version

CAPABILITIES = {"put", "put_writes", "get_tuple", "list"}


class Store:
    """A transport to checkpoints in memory."""

    def __init__(self) -> None:
        self.checkpoints = Checkpoints()
        self.bodies: list[bytes] = []
        self.release: asyncio.Event | None = None

    async def save(self, body: bytes, thread_id: str) -> None:
        if self.release is not None:
            await self.release.wait()
        self.bodies.append(body)
        self.checkpoints.save(thread_id, body)

    async def get(self, query: dict[str, Any]) -> bytes:
        return self.checkpoints.packed(self.checkpoints.get(query["thread_id"], query))

    async def list(self, query: dict[str, Any]) -> bytes:
        found = self.checkpoints.find(query["thread_id"], query)
        return self.checkpoints.packed(found[: query["limit"]])


class AnyThread(WeftSaver):
    """The suite uses many threads with one saver: each has its own here, over one store."""

    def __init__(self) -> None:
        self.transport_of_all = Store()
        self.seq = 0
        self.savers: dict[str, WeftSaver] = {}
        super().__init__(SaverOptions(self.transport_of_all, "none"), Serde())

    def count(self) -> int:
        self.seq += 1
        return self.seq

    def of(self, config: Any) -> WeftSaver:
        thread = config["configurable"]["thread_id"]
        options = SaverOptions(self.transport_of_all, thread, next_seq=self.count)
        return self.savers.setdefault(thread, WeftSaver(options, Serde()))

    async def aget_tuple(self, config: Any) -> Any:
        return await self.of(config).aget_tuple(config)

    async def alist(self, config: Any, **options: Any) -> AsyncGenerator[Any]:
        async for found in self.of(config).alist(config, **options):
            yield found

    async def aput(self, config: Any, *rest: Any) -> Any:
        return await self.of(config).aput(config, *rest)

    async def aput_writes(self, config: Any, *rest: Any, **options: Any) -> None:
        await self.of(config).aput_writes(config, *rest, **options)


def config(**configurable: Any) -> Any:
    return {"configurable": {"thread_id": "t", "checkpoint_ns": "", **configurable}}


def meta(**members: Any) -> CheckpointMetadata:
    return {"source": "loop", "step": 1, **members}  # type: ignore[return-value,typeddict-item]


async def test_the_published_suite_for_checkpointers():
    @checkpointer_test(name="weft")
    async def saver() -> AsyncGenerator[Any]:
        yield AnyThread()

    failures: list[str] = []

    def on_result(capability: str, name: str, passed: bool, error: str | None) -> None:
        # A run has no method that deletes a thread: the server does.
        if not passed and capability != "delete_thread":
            failures.append(f"{capability}/{name}: {error}")

    report = await validate(saver, capabilities=CAPABILITIES, progress=on_progress(on_result))
    assert failures == []
    assert {name for name, result in report.results.items() if result.passed} >= CAPABILITIES


def on_progress(on_result: Any) -> Any:
    from langgraph.checkpoint.conformance.report import ProgressCallbacks

    return ProgressCallbacks(on_test_result=on_result)


async def test_every_durability_stores_the_same_at_its_own_time():
    for durability, saves in (("sync", 2), ("async", 1), ("exit", 0)):
        store = Store()
        saver = WeftSaver(SaverOptions(store, "t", durability=durability), Serde())
        checkpoint = empty_checkpoint()
        saved = await saver.aput(config(), checkpoint, meta(), {})
        await saver.aput_writes(saved, [("a", 1)], "task")
        await asyncio.sleep(0.01)
        assert len(store.bodies) == saves, durability
        left = await saver.outbox.take()
        assert (left != b"") == (durability == "exit")


async def test_at_most_one_save_is_in_flight():
    store = Store()
    store.release = asyncio.Event()
    saver = WeftSaver(SaverOptions(store, "t", durability="async"), Serde())
    saved = await saver.aput(config(), empty_checkpoint(), meta(), {})
    await asyncio.sleep(0.01)
    for n in range(5):
        await saver.aput_writes(saved, [("a", n)], f"task{n}")
        await asyncio.sleep(0)
    assert store.bodies == []
    store.release.set()
    await saver.outbox.flush()
    assert [len(unpack(body)[0]["writes"]) for body in store.bodies] == [0, 5]


async def test_writes_are_replayed_in_the_order_of_their_paths():
    store = Store()
    saver = WeftSaver(SaverOptions(store, "t"), Serde())
    saved = await saver.aput(config(), empty_checkpoint(), meta(), {})
    for n in (2, 0, 1):
        await saver.aput_writes(saved, [("a", n)], f"task{9 - n}", f"~__pregel_pull, {n}")
    fresh = WeftSaver(SaverOptions(store, "t"), Serde())
    found = await fresh.aget_tuple(config())
    assert found is not None
    assert [value for _, _, value in found.pending_writes or []] == [0, 1, 2]


async def test_a_negative_place_is_replaced_and_others_stay():
    store = Store()
    saver = WeftSaver(SaverOptions(store, "t"), Serde())
    saved = await saver.aput(config(), empty_checkpoint(), meta(), {})
    for value in ("first", "second"):
        await saver.aput_writes(saved, [("__error__", value), ("a", value)], "task")
    for reader in (saver, WeftSaver(SaverOptions(store, "t"), Serde())):
        found = await reader.aget_tuple(config())
        assert found is not None
        written = {channel: value for _, channel, value in found.pending_writes or []}
        assert written == {"__error__": "second", "a": "first"}


async def test_values_are_blobs_and_the_envelope_and_metadata_are_json():
    store = Store()
    saver = WeftSaver(SaverOptions(store, "t", metadata={"run_id": "r"}), Serde())
    checkpoint = create_checkpoint(empty_checkpoint(), None, 1)
    checkpoint["channel_values"] = {"a": {1, 2}, "b": "kept"}
    checkpoint["channel_versions"] = {"a": next_version(None), "b": next_version(None)}
    await saver.aput(config(), checkpoint, meta(), {"a": checkpoint["channel_versions"]["a"]})
    head, _ = unpack(store.bodies[0])
    [entry] = head["checkpoints"]
    assert (entry["type"], entry["meta_type"]) == ("json", "json")
    assert set(entry["refs"]) == {"a", "b"}
    assert [blob["channel"] for blob in head["blobs"]] == ["a"]
    assert b'"channel_values":{}' in store.checkpoints.rows[0]["value"]
    assert b'"run_id":"r"' in store.checkpoints.rows[0]["metadata"]


async def test_values_of_a_javascript_host_are_read():
    message = b'{"lc":1,"type":"constructor","id":["langchain_core","messages","AIMessage"],"kwargs":{"content":"hi"}}'
    assert Serde().loads_typed(("json", message)).content == "hi"
    assert Serde().loads_typed(("json", b'{"a":1}')) == {"a": 1}


async def test_a_run_reads_its_own_thread_only():
    saver = WeftSaver(SaverOptions(Store(), "t"), Serde())
    with pytest.raises(ValueError, match="cannot use the checkpoints of thread other"):
        await saver.aget_tuple(config(thread_id="other"))


async def test_a_state_beyond_the_limit_closes_the_outbox():
    failures: list[BaseException] = []
    saver = WeftSaver(SaverOptions(Store(), "t", failed=failures.append), Serde())
    saved = await saver.aput(config(), empty_checkpoint(), meta(), {})
    with pytest.raises(StateTooLarge):
        await saver.aput_writes(saved, [("a", bytes(LARGEST_STATE + 1))], "task")
    with pytest.raises(StateTooLarge):
        await saver.aput_writes(saved, [("a", b"small")], "task")
    assert len(failures) == 1


async def test_synchronous_methods_work_in_a_thread_and_not_on_the_loop():
    for saver in (WeftSaver(SaverOptions(Store(), "t"), Serde()), MemorySaver({})):
        saved = await asyncio.to_thread(saver.put, config(), empty_checkpoint(), meta(), {})
        assert (await asyncio.to_thread(saver.get_tuple, config())).config == saved  # type: ignore[union-attr]
        found = await asyncio.to_thread(lambda saver=saver: list(saver.list(config())))
        assert len(found) == 1
        with pytest.raises(RuntimeError, match="cannot be called synchronously"):
            saver.get_tuple(config())


def test_versions_sort_as_text_and_never_repeat():
    versions = [next_version(None)]
    for _ in range(20):
        versions.append(next_version(versions[-1]))
    assert versions == sorted(versions)
    assert len({next_version("0000000001.abc") for _ in range(1000)}) == 1000
    assert len({len(version) for version in versions}) == 1
