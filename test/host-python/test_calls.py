from pathlib import Path

import pytest
from supervisor import Supervisor, source

from weft_host.packed import cutter, unpack

GRAPHS = Path(__file__).parent / "graphs.py"


@pytest.fixture
async def supervisor() -> Supervisor:
    names = ("graph", "outer", "factory", "needing", "contextual", "opaque")
    return Supervisor([source(name, GRAPHS, name) for name in names], "/")


async def test_an_update_stores_nothing_and_returns_what_to_store(supervisor: Supervisor):
    await supervisor.run("graph", input={"steps": []})
    saves = supervisor.checkpoints.saves
    steps = [{"updates": [{"values": {"steps": ["by hand"]}, "as_node": "first"}]}]
    answer = await supervisor.call("update", "graph", supersteps=steps, first_seq=99 * 2**24, metadata={"a": 1})
    assert supervisor.checkpoints.saves == saves
    head, parts = unpack(answer)
    cut = cutter(parts)
    assert cut(head["values_size"]) == b'{"steps":["first","second","by hand"]}'
    assert head["next"] == ["second"]
    assert cut(head["rest_size"]).startswith(b'"next":')
    for size in head["save_sizes"]:
        supervisor.checkpoints.save("thread", cut(size))
    state = await supervisor.call("state", "graph")
    assert state["checkpoint"]["checkpoint_id"] == head["head"] == head["checkpoint"]["checkpoint_id"]
    assert state["metadata"]["a"] == 1


async def test_a_list_of_values_is_applied_one_after_the_other(supervisor: Supervisor):
    values = [{"steps": ["a"]}, {"steps": ["b"]}]
    steps = [{"updates": [{"values": values, "as_node": "first"}]}]
    answer = await supervisor.call("update", "graph", supersteps=steps, first_seq=2**24, metadata={})
    head, parts = unpack(answer)
    assert parts[: head["values_size"]] == b'{"steps":["a","b"]}'


async def test_refusals_have_codes(supervisor: Supervisor):
    bad = [{"updates": [{"values": {"steps": ["x"]}, "as_node": "nowhere"}]}]
    with pytest.raises(AssertionError, match="invalid: InvalidUpdateError"):
        await supervisor.call("update", "graph", supersteps=bad, first_seq=2**24, metadata={})
    with pytest.raises(AssertionError, match='not_found: Graph "none"'):
        await supervisor.call("state", "none")
    with pytest.raises(AssertionError, match="not_found: Checkpoint x"):
        await supervisor.call("state", "graph", checkpoint={"checkpoint_id": "x"})
    with pytest.raises(AssertionError, match="bad_request: A host knows no call"):
        await supervisor.call("dance", "graph")


async def test_an_update_after_which_the_state_cannot_be_read_is_refused(supervisor: Supervisor):
    await supervisor.run("needing", input={"said": "a"})
    first = (await supervisor.call("history", "needing", limit=10))[-1]["checkpoint"]
    update = {"supersteps": [{"updates": [{"values": None, "as_node": "__start__"}]}], "checkpoint": first}
    with pytest.raises(AssertionError, match="invalid: TypeError: Needed"):
        await supervisor.call("update", "needing", **update, first_seq=2**24, metadata={})


async def test_history_is_narrowed(supervisor: Supervisor):
    await supervisor.run("graph", input={"steps": []})
    everything = await supervisor.call("history", "graph", limit=10)
    assert [state["next"] for state in everything] == [[], ["second"], ["first"], ["__start__"]]
    before = everything[1]["checkpoint"]["checkpoint_id"]
    older = await supervisor.call("history", "graph", limit=10, before=before)
    assert older == everything[2:]
    loops = await supervisor.call("history", "graph", limit=10, metadata={"source": "input"})
    assert loops == everything[3:]


async def test_descriptions_of_a_graph(supervisor: Supervisor):
    drawn = await supervisor.call("draw", "outer", xray=True)
    assert "inner:node" in {node["id"] for node in drawn["nodes"]}
    assert {"source", "target"} <= set(drawn["edges"][0])
    schemas = await supervisor.call("schemas", "graph")
    assert schemas["graph_id"] == "graph"
    assert set(schemas["input_schema"]["properties"]) == {"steps", "answer", "limit"}
    assert schemas["state_schema"]["properties"].keys() == schemas["output_schema"]["properties"].keys()
    assert (schemas["config_schema"], schemas["context_schema"]) == ({}, None)
    contextual = await supervisor.call("schemas", "contextual")
    assert contextual["config_schema"] == contextual["context_schema"]
    assert set(contextual["config_schema"]["properties"]) == {"model", "n"}
    opaque = (await supervisor.call("schemas", "opaque"))["state_schema"]["properties"]
    assert opaque["word"]["type"] == "string", "a member without a schema does not hide the others"
    assert "type" not in opaque["callback"]
    inner = await supervisor.call("subgraphs", "outer", namespace=None, recurse=False)
    assert set(inner) == {"inner"}
    assert inner["inner"]["state"] == inner["inner"]["state_schema"]
    assert await supervisor.call("subgraphs", "outer", namespace="none", recurse=True) == {}
    assert (await supervisor.call("schemas", "factory"))["input_schema"] is not None
