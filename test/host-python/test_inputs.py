import dataclasses
import json
from typing import Any

import pytest
from langgraph.types import Command, Send
from pydantic import BaseModel

from weft_host.command import input_of
from weft_host.config import config_of, context_of, fitting, is_newest

RUN = "00000000-0000-4000-8000-000000000001"


def start(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "run_id": RUN,
        "thread_id": "t",
        "graph_id": "g",
        "attempt": 2,
        "metadata": {"a": "run"},
        "kwargs": {"config": config},
    }


def test_a_request_sets_neither_callbacks_nor_internal_keys():
    config = config_of(
        start(
            {
                "callbacks": ["x"],
                "recursion_limit": 7,
                "tags": "no list",
                "metadata": {"a": "config", "b": 1},
                "configurable": {"__pregel_send": 1, "checkpoint_id": None, "model": "m", "thread_id": "other"},
            }
        ),
        {"langgraph_version": "1"},
    )
    assert set(config) == {"configurable", "metadata", "run_id", "recursion_limit"}
    assert config["configurable"] == {"model": "m", "thread_id": "t", "run_id": RUN, "graph_id": "g"}
    assert config["metadata"]["a"] == "run"
    assert config["metadata"]["b"] == 1
    assert config["metadata"]["run_attempt"] == 2
    assert config["metadata"]["langgraph_version"] == "1"


def test_nodes_see_metadata_of_the_thread_below_that_of_the_run():
    inherited = {"of": "thread", "a": "thread", "b": "thread", "thread_id": "other", "run_attempt": 9}
    metadata = config_of({**start({"metadata": {"b": "config"}}), "inherited": inherited}, {})["metadata"]
    found = {name: metadata[name] for name in inherited}
    assert found == {"of": "thread", "a": "run", "b": "config", "thread_id": "t", "run_attempt": 2}


def test_the_user_has_attributes_and_keys():
    caller = {"identity": "ada", "role": "x", "permissions": ["read"]}
    config = config_of({**start({}), "user": caller}, {})
    configurable = config["configurable"]
    assert configurable["langgraph_auth_user_id"] == "ada"
    assert configurable["langgraph_auth_permissions"] == ["read"]
    assert "langgraph_auth_user" not in str(config["metadata"])
    user = configurable["langgraph_auth_user"]
    assert {**user} == dict(user) == json.loads(json.dumps(user)) == caller
    assert isinstance(user, dict) and list(user.keys()) == list(caller)
    assert user.is_authenticated and user.display_name == "ada" and user.permissions == ["read"]
    assert (user.identity, user["identity"], user.role, user.get("none"), "role" in user) == (
        "ada",
        "ada",
        "x",
        None,
        True,
    )
    with pytest.raises(AttributeError):
        _ = user.missing


@dataclasses.dataclass
class Schema:
    model: str = ""
    hidden: int = dataclasses.field(default=0, init=False)


class Fields(BaseModel):
    model: str = ""


def test_configurable_and_context_mirror_each_other():
    configurable = {"thread_id": "t", "model": "m", "langgraph_x": 1}
    assert context_of(configurable, {}) == {"model": "m"}
    bare: dict[str, Any] = {"thread_id": "t"}
    assert context_of(bare, {"model": "c"}) == {"model": "c"}
    assert bare == {"thread_id": "t", "model": "c"}
    nobody: dict[str, Any] = {"thread_id": "t"}
    context_of(nobody, {"model": "c", "langgraph_auth_user_id": "mallory"})
    assert nobody == {"thread_id": "t", "model": "c"}
    assert context_of(configurable, {"model": "c"}) == {"model": "c"}
    assert configurable["model"] == "m"


@pytest.mark.parametrize("schema", [Schema, Fields])
def test_a_mirrored_context_is_cut_to_its_schema(schema: type):
    configurable = {"model": "m", "other": 1, "hidden": 3}
    assert fitting({"model": "m", "other": 1, "hidden": 2}, schema, configurable) == {"model": "m"}
    assert configurable == {"model": "m", "hidden": 3}, "what was mirrored is left out there, too"
    assert fitting({"other": 1}, schema, {}) == {}
    assert fitting({"other": 1}, None, {}) == {"other": 1}


async def pending() -> list[str]:
    return ["i1", "i2"]


ROWS: list[tuple[dict[str, Any], Any]] = [
    ({"input": {"a": 1}}, {"a": 1}),
    ({"input": None}, None),
    ({"input": 1, "command": {"resume": 0}}, Command(resume=0)),
    ({"input": 1, "command": {"resume": None}}, Command(resume={"i1": None})),
    ({"command": {"update": {"a": 1}}}, Command(update={"a": 1})),
    ({"command": {"update": [["a", 1]]}}, Command(update=[("a", 1)])),
    ({"command": {"goto": "n"}}, Command(goto=["n"])),
    ({"command": {"goto": [{"node": "n", "input": None}]}}, Command(goto=[Send("n", {})])),
    ({"input": 5, "command": {"update": {}, "goto": []}}, 5),
]


@pytest.mark.parametrize(("kwargs", "expected"), ROWS, ids=range(len(ROWS)))
async def test_commands_become_input(kwargs: dict[str, Any], expected: Any):
    assert await input_of(kwargs, pending) == expected


async def test_null_without_a_pending_interrupt_continues():
    async def nothing() -> list[str]:
        return []

    assert await input_of({"input": 1, "command": {"resume": None}}, nothing) is None


async def test_the_newest_checkpoints_are_no_fork():
    async def newest(ns: str) -> str | None:
        return {"": "c2", "inner:1": "s1"}.get(ns)

    assert await is_newest({"checkpoint_id": "c2"}, newest)
    assert not await is_newest({"checkpoint_id": "c1"}, newest)
    assert await is_newest({"checkpoint_map": {"": "c2", "inner:1": "s1"}}, newest)
    assert not await is_newest({"checkpoint_map": {"inner:1": "s0"}}, newest)
