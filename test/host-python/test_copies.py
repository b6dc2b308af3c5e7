"""`checkpointer.path`: which exports are a checkpointer, what it is given, and what its failures are."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver

from weft_host.storage import copies
from weft_host.storage.copies import CheckpointCopies, CheckpointerFailedError, open_copies

PLACE = ("thread", "", None)


async def opened(exported: Any) -> CheckpointCopies:
    async with AsyncExitStack() as stack:
        return await open_copies(stack, exported, "c.py:c")


async def test_a_checkpointer_gets_checkpoints_and_writes() -> None:
    saver = InMemorySaver()
    own = await opened(lambda: saver)
    checkpoint = {**empty_checkpoint(), "channel_values": {"x": 1}, "channel_versions": {"x": "0000000001.a"}}
    await own.put(PLACE, checkpoint, {"source": "loop", "step": 1}, {"x": "0000000001.a"})
    await own.put_writes(("thread", "", checkpoint["id"]), [("x", 2)], "task", "~path")
    found = await saver.aget_tuple({"configurable": {"thread_id": "thread"}})
    assert found is not None
    assert found.checkpoint["channel_values"] == {"x": 1}
    assert found.metadata["step"] == 1
    assert found.pending_writes == [("task", "x", 2)]
    assert own.deletes


class Earlier(BaseCheckpointSaver[str]):
    """As for a library without paths of tasks. It cannot delete."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Any] = []

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        raise ConnectionError("gone")

    async def aput_writes(self, config: Any, writes: Any, task_id: str) -> None:  # type: ignore[override]
        self.written.append((writes, task_id))


async def test_a_failure_names_the_checkpointer_and_an_earlier_one_gets_no_path() -> None:
    saver = Earlier()
    own = await opened(saver)
    with pytest.raises(CheckpointerFailedError, match="checkpointer of the application failed: ConnectionError: gone"):
        await own.put(PLACE, empty_checkpoint(), {}, {})
    await own.put_writes(("thread", "", "id"), [("x", 2)], "task", "~path")
    assert saver.written == [([("x", 2)], "task")]
    assert not own.deletes


class Silent(BaseCheckpointSaver[str]):
    pass


@pytest.mark.parametrize(
    ("exported", "reason"),
    [
        (None, "is no checkpointer; expected a BaseCheckpointSaver"),
        (dict, "is no checkpointer"),
        (Silent, "must implement aput and aput_writes"),
    ],
)
async def test_any_other_export_is_refused(exported: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=f"checkpointer.path: .*{reason}"):
        await opened(exported)


async def test_opening_is_tried_again_because_hosts_start_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "PAUSE_S", 0)
    tries: list[int] = []

    def open_once(failures: int) -> Any:
        def exported() -> InMemorySaver:
            tries.append(failures)
            if len(tries) <= failures:
                raise ConnectionError(f"table exists {len(tries)}")
            return InMemorySaver()

        return exported

    await opened(open_once(2))
    assert len(tries) == 3
    tries.clear()
    with pytest.raises(ValueError, match="cannot be opened: ConnectionError: table exists 1"):
        await opened(open_once(5))
    assert len(tries) == 3
