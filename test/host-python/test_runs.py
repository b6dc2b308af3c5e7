import asyncio
from pathlib import Path
from typing import Any

import graphs
import orjson
import pytest
from supervisor import Supervisor, source

from weft_host.frames import Answer, Ask, FromHost, Start, ToHost
from weft_host.packed import pack
from weft_host.state import HAS_SCHEMA

GRAPHS = Path(__file__).parent / "graphs.py"
EXPORTS = ["graph", "asking", "outer", "failing", "exiting", "waiting", "deaf", "sleeping", "speaking"]
EXPORTS += [
    "sleeping_long",
    "remembering",
    "remembering_both",
    "remembering_by_kept",
    "remembering_too_late",
    "returning",
    "names_chunks",
    "contextual",
    "contextual_outer",
    "keyword_factory",
    "runtime_factory",
    "annotated_factory",
    "object_factory",
    "partial_factory",
    "private",
    "chunks",
    "fanned",
    "functional",
]


def line_with(text: str) -> int:
    [line] = [number for number, each in enumerate(GRAPHS.read_text().splitlines(), 1) if text in each]
    return line


@pytest.fixture
async def supervisor() -> Supervisor:
    return Supervisor([source(name, GRAPHS, name) for name in EXPORTS], "/")


async def test_a_run_streams_its_values_and_leaves_its_state(supervisor: Supervisor):
    ended = await supervisor.run("graph", input={"steps": ["in"]}, stream_mode=["values", "updates", "custom"])
    assert ended["status"] == "success"
    assert ended.names[0] == "metadata"
    assert [id for id, _, _ in ended["events"]] == list(range(len(ended["events"])))
    assert ended.named("values")[-1] == {"steps": ["in", "first", "second"]}
    assert ended.named("updates") == [{"first": {"steps": ["first"]}}, {"second": {"steps": ["second"]}}]
    assert ended.named("custom") == [{"progress": 1}]
    assert ended["values"] == {"steps": ["in", "first", "second"]}
    assert (ended["next"], ended["rest"]["next"]) == ([], [])
    assert ended["head"] == ended["rest"]["checkpoint"]["checkpoint_id"]
    assert ended["rest"]["metadata"]["langgraph_plan"] == "developer"


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_the_state_is_stored_with_every_durability(supervisor: Supervisor, durability: str):
    ended = await supervisor.run("graph", input={"steps": []}, durability=durability)
    before_finish = supervisor.checkpoints.saves - (1 if ended["save"] else 0)
    assert (before_finish == 0) == (durability == "exit")
    state = await supervisor.call("state", "graph")
    assert state["values"] == {"steps": ["first", "second"]}
    history = await supervisor.call("history", "graph", limit=10)
    assert len(history) == (1 if durability == "exit" else 4)
    assert history[0]["checkpoint"]["checkpoint_id"] == ended["head"]


async def test_a_temporary_run_stores_nothing(supervisor: Supervisor):
    ended = await supervisor.run("graph", input={"steps": []}, temporary=True)
    assert ended["values"] == {"steps": ["first", "second"]}
    assert (ended["head"], ended["rest"], supervisor.checkpoints.saves) == (None, None, 0)


async def test_an_interrupt_pauses_and_an_answer_resumes(supervisor: Supervisor):
    paused = await supervisor.run("asking", input={"steps": []}, stream_mode=["values", "updates"])
    assert paused["status"] == "success"
    assert paused["next"] == ["node"]
    [[interrupt]] = paused["interrupts"].values()
    assert interrupt["value"] == {"question": 1}
    assert paused.named("updates")[-1] == {"__interrupt__": [interrupt]}
    assert ("response_schema" in interrupt) == HAS_SCHEMA
    assert "response_schema" not in paused["rest"]["interrupts"][0]
    for answer in (None, False, 0, "", {"a": 1}):
        await supervisor.run("asking", f"t{answer}", input={"steps": []})
        resumed = await supervisor.run("asking", f"t{answer}", command={"resume": answer})
        assert resumed["values"] == {"steps": ["asked"], "answer": answer}


async def test_subgraphs_stream_under_their_namespace(supervisor: Supervisor):
    paused = await supervisor.run("outer", input={"steps": []}, stream_subgraphs=True, stream_mode=["updates"])
    names = [name for name in paused.names if name.startswith("updates|inner:")]
    assert names
    state = await supervisor.call("state", "outer", subgraphs=True)
    assert state["tasks"][0]["state"]["next"] == ["node"]
    resumed = await supervisor.run("outer", command={"resume": "yes"})
    assert resumed["values"]["answer"] == "yes"


async def test_an_error_is_an_event_a_finish_and_a_log_entry(supervisor: Supervisor):
    slot = supervisor.start("failing", input={"steps": []})
    ended = await supervisor.end(slot)
    error = {"error": "ValueError", "message": "no good"}
    assert (ended["status"], ended["error"], ended.named("error")) == ("error", error, [error])
    failure = supervisor.failures[slot]
    assert (failure["node"], failure["graph_id"]) == ("node", "failing")
    line = line_with('raise ValueError("no good")')
    assert failure["at"].startswith(f"{GRAPHS}:{line}:")
    assert ended["at"] == {"file": str(GRAPHS).lstrip("/"), "line": line, "function": "raises"}
    assert "no good" in failure["stack"]


async def test_a_cancelled_run_ends_with_its_node_and_leaves_a_long_one_behind(supervisor: Supervisor):
    for name in ("waiting", "deaf", "sleeping", "sleeping_long"):
        slot = supervisor.start(name, f"t-{name}", input={"steps": []})
        await asyncio.sleep(0.2)
        supervisor.server.on_frame(ToHost.CANCEL, 0, slot, 0, b"")
        ended = await supervisor.end(slot)
        assert (ended["status"], ended["error"]) == ("interrupted", None), name
        assert ended.named("error") == []
        is_left_behind = name == "sleeping_long"
        assert (graphs.left[-1] == (graphs.entered[-1] if name == "waiting" else name)) != is_left_behind, name


async def test_a_timeout_has_an_error(supervisor: Supervisor):
    slot = supervisor.start("waiting", input={"steps": []})
    await asyncio.sleep(0.1)
    supervisor.server.on_frame(ToHost.CANCEL, 1, slot, 0, b"")
    ended = await supervisor.end(slot)
    assert (ended["status"], ended["error"]["error"]) == ("timeout", "RunTimeout")


async def test_a_cancel_of_a_run_that_was_not_admitted_ends_it(supervisor: Supervisor):
    slots = [supervisor.start("waiting", f"t{n}", input={"steps": []}) for n in range(12)]
    for slot in reversed(slots):
        supervisor.server.on_frame(ToHost.CANCEL, 0, slot, 0, b"")
    assert [(await supervisor.end(slot))["status"] for slot in slots] == ["interrupted"] * 12
    assert supervisor.server.runs == {}
    assert supervisor.server.watchdog.busy == 0


async def test_a_lost_lease_ends_the_run_without_state(supervisor: Supervisor):
    supervisor.refusal = Answer.REFUSED
    ended = await supervisor.run("graph", input={"steps": []}, durability="sync")
    assert (ended["status"], ended["head"], ended["values"], ended["rest"]) == ("interrupted", None, None, None)
    assert "error" not in ended.names


async def test_a_store_that_fails_is_the_error_of_the_run(supervisor: Supervisor):
    supervisor.refusal = Answer.FAILED
    for durability in ("sync", "async"):
        ended = await supervisor.run("graph", f"t{durability}", input={"steps": []}, durability=durability)
        assert (ended["status"], ended["head"], ended["next"]) == ("error", None, [])
        assert ended["error"] == {"error": "Unanswered", "message": "the store failed"}


async def test_a_second_attempt_continues_its_own_checkpoint(supervisor: Supervisor):
    slot = supervisor.start("asking", input={"steps": ["in"]}, run_id="00000000-0000-4000-8000-000000000999")
    await supervisor.end(slot)
    again = await supervisor.run(
        "asking",
        input={"steps": ["in"]},
        run_id="00000000-0000-4000-8000-000000000999",
        attempt=2,
        first_id=10**9,
        config={"configurable": {"checkpoint_id": "1ef00000-0000-0000-0000-000000000000"}},
    )
    assert again["events"][0] == (10**9, "metadata", {"run_id": "00000000-0000-4000-8000-000000000999", "attempt": 2})
    assert again["rest"]["next"] == ["node"]
    assert again["values"] == {"steps": ["in"]}, "the input was not applied twice"
    other = await supervisor.run("asking", input={"steps": ["more"]}, attempt=2, first_id=10**9)
    assert other["values"]["steps"] == ["in", "more"], "the checkpoint of another run is no own one"


async def test_messages_as_tokens_and_as_a_whole(supervisor: Supervisor):
    message = {"messages": [{"role": "human", "content": "hi"}]}
    ended = await supervisor.run("speaking", input=message, stream_mode=["messages-tuple", "messages", "values"])
    tokens = [chunk["content"] for chunk, _ in ended.named("messages")]
    assert "".join(tokens) == "one two three"
    assert len(ended.named("messages/metadata")) == 1
    partial = [each for [each] in ended.named("messages/partial")]
    assert partial[-1]["content"] == "one two three"
    assert {each["type"] for each in partial} == {"ai"}
    assert not [each for each in partial if "tool_call_chunks" in each or "chunk_position" in each]
    assert [each[0]["content"] for each in ended.named("messages/complete")] == ["one two three"]


async def test_a_message_that_a_node_returns_has_its_metadata_before_it_is_complete(supervisor: Supervisor):
    message = {"messages": [{"role": "human", "content": "hi"}]}
    ended = await supervisor.run("returning", input=message, stream_mode=["messages"])
    assert ended.names == ["metadata", "messages/metadata", "messages/complete"]
    assert list(ended.named("messages/metadata")[0]) == ["r1"]


async def test_the_mode_events_streams_callbacks(supervisor: Supervisor):
    ended = await supervisor.run("graph", input={"steps": []}, stream_mode=["events", "values"])
    kinds = {data["event"] for data in ended.named("events")}
    assert ended.named("events")[0]["name"] == "graph", "the id of the graph"
    assert {"on_chain_start", "on_chain_end"} <= kinds
    assert ended.named("values")[-1] == {"steps": ["first", "second"]}


async def test_only_custom_is_written_directly_also_from_a_thread(supervisor: Supervisor):
    ended = await supervisor.run("chunks", input={"steps": []}, stream_mode=["custom"])
    assert ended.named("custom") == [0, 1, 2]
    assert ended["values"] == {"steps": ["wrote"]}


async def test_debug_modes_hide_internal_keys(supervisor: Supervisor):
    modes = ["debug", "tasks", "checkpoints"]
    ended = await supervisor.run("graph", input={"steps": []}, stream_mode=modes)
    assert {data["type"] for data in ended.named("debug")} == {"checkpoint", "task", "task_result"}
    assert {"result", "interrupts"} <= set(ended.named("tasks")[-1])
    checkpoint = ended.named("checkpoints")[-1]
    assert checkpoint["checkpoint"]["checkpoint_id"] == ended["head"]
    assert not [key for key in checkpoint["config"]["configurable"] if key.startswith("__")]


async def test_a_task_with_a_subgraph_has_its_config_in_checkpoints(supervisor: Supervisor):
    modes = ["debug", "checkpoints"]
    paused = await supervisor.run("outer", input={"steps": []}, stream_mode=modes)
    task = paused.named("checkpoints")[-1]["tasks"][0]
    place = {key: task["checkpoint"][key] for key in ("thread_id", "checkpoint_ns")}
    assert place["checkpoint_ns"].startswith("inner:")
    assert task["state"] == {"configurable": place}
    debugged = [data["payload"] for data in paused.named("debug") if data["type"] == "checkpoint"]
    assert "state" not in debugged[-1]["tasks"][0]


async def test_order_of_writes_of_parallel_tasks(supervisor: Supervisor):
    ended = await supervisor.run("fanned", input={"steps": []})
    assert ended["values"]["steps"] == [str(n) for n in range(8)]


async def test_an_entrypoint_that_asks_answers_its_question_only(supervisor: Supervisor):
    ended = await supervisor.run("functional", input=21)
    assert ended["interrupts_only"] is True
    resumed = await supervisor.run("functional", command={"resume": True})
    assert resumed["values"] == 42
    assert "interrupts_only" not in resumed


async def test_the_item_store_travels_with_the_run(supervisor: Supervisor):
    item = {"namespace": ["notes"], "key": "a", "value": {"text": "x"}}
    times = {"created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z"}
    supervisor.answer_items = lambda operations: [item | times if each["op"] == "get" else None for each in operations]
    ended = await supervisor.run("remembering", input={"steps": []})
    assert ended["values"]["answer"] == {"text": "x"}
    assert supervisor.items[0] == {"op": "put", **item}

    supervisor.answer_items = lambda operations: [{"error": "namespace: reserved"} for _ in operations]
    refused = await supervisor.run("remembering", "t2", input={"steps": []})
    assert refused["error"] == {"error": "RefusedOperation", "message": "namespace: reserved"}


async def test_a_store_that_an_object_keeps_is_that_of_the_run_that_calls(supervisor: Supervisor):
    graphs.Keeper.store = None
    first, second = [supervisor.start("remembering_by_kept", thread, input={"steps": []}) for thread in ("t1", "t2")]
    for slot in (first, second):
        assert (await supervisor.end(slot))["status"] == "success"
    third = supervisor.start("remembering_by_kept", "t3", input={"steps": []})
    assert (await supervisor.end(third))["status"] == "success"
    assert sorted(supervisor.item_slots) == sorted([first, second, third] * 2)


async def test_the_store_of_an_ended_run_refuses(supervisor: Supervisor):
    await supervisor.run("remembering_too_late", input={"steps": []})
    assert graphs.Keeper.store is not None
    with pytest.raises(RuntimeError, match="during runs only"):
        await asyncio.wait_for(graphs.Keeper.store.aget(("notes",), "a"), 5)


async def test_protocol_v2_tells_the_life_of_a_run(supervisor: Supervisor):
    modes = ["values", "updates", "messages-tuple", "tasks", "checkpoints", "custom"]
    message: dict[str, Any] = {"messages": [{"role": "human", "content": "hi"}]}
    ended = await supervisor.run("speaking", input=message, stream_mode=modes, stream_subgraphs=True, events=True)
    methods = [each["method"] for each in ended["v2"]]
    assert methods[0] == methods[-1] == "lifecycle"
    assert ended["v2"][-1]["params"]["data"] == {"event": "completed", "graph_name": "speaking"}
    assert ended["v2"][-1]["tag"] == ["lifecycle", [], 1]
    told = [each["params"]["data"]["event"] for each in ended["v2"] if each["method"] == "messages"]
    assert told[0] == "message-start"
    assert told[-1] == "message-finish"
    assert told.count("content-block-start") == 1
    assert methods.index("checkpoints") < methods.index("values")
    returned = await supervisor.run("returning", "t3", input=message, stream_mode=modes, events=True)
    assert [each["method"] for each in returned["v2"] if each["method"] == "messages"] == [], "it is in the values"
    named = await supervisor.run("names_chunks", "t4", input={"steps": []}, stream_mode=["custom"], events=True)
    custom = [(each["tag"][0], each["params"]["data"]) for each in named["v2"] if each["method"] == "custom"]
    assert custom == [("custom:a", {"name": "a", "more": 1}), ("custom", {"payload": {"more": 1}})]

    options: dict[str, Any] = {"stream_mode": modes, "stream_subgraphs": True, "events": True}
    asked = await supervisor.run("outer", "t2", input={"steps": []}, **options)
    question = asked["v2"][-2]
    assert question["method"] == "input.requested"
    assert question["params"]["namespace"][0].startswith("inner:")
    assert question["params"]["data"]["value"] == {"question": 1}


async def test_threads_of_ended_runs_retire_the_host(supervisor: Supervisor):
    supervisor.threads.threads = 2
    slots = [supervisor.start("sleeping_long", f"t{n}", input={"steps": []}) for n in range(2)]
    await asyncio.sleep(0.1)
    for slot in slots:
        supervisor.server.on_frame(ToHost.CANCEL, 0, slot, 0, b"")
    for slot in slots:
        await supervisor.end(slot)
    await asyncio.sleep(0.05)
    assert supervisor.others == [FromHost.RETIRE]


async def test_what_cannot_be_read_costs_its_run_and_not_the_host(supervisor: Supervisor):
    """Starts of one turn are admitted together: none waits behind one that fails."""
    slots = [supervisor.start("graph", f"t{n}", input={"steps": ["in"]}) for n in range(3)]
    flags, at, _ = supervisor.server.starting[slots[1]]
    supervisor.server.starting[slots[1]] = (flags, at, pack({"kwargs": {}}))
    supervisor.server.starting[slots[0]] = (flags, at, b"x")
    ends = [await supervisor.end(slot) for slot in slots]
    assert [each["status"] for each in ends] == ["error", "error", "success"]
    assert [each["error"]["error"] for each in ends[:2]] == ["ValueError", "KeyError"]
    assert ends[0]["last_event_id"] == -1
    assert supervisor.server.watchdog.busy == 0
    assert supervisor.server.runs == {}

    supervisor.called[99] = asyncio.get_running_loop().create_future()
    supervisor.server.on_frame(ToHost.CALL, 0, 99, 99, b"{")
    failed, answer = await asyncio.wait_for(supervisor.called[99], 30)
    assert (failed, orjson.loads(answer)["code"]) == (1, "internal")


async def test_a_finish_that_fails_is_replaced(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch):
    async def fails(*given: Any) -> None:
        raise ZeroDivisionError("finish")

    monkeypatch.setattr("weft_host.run.finish", fails)
    monkeypatch.setattr("weft_host.run.settle", fails)
    ended = await supervisor.run("graph", input={"steps": []})
    assert (ended["status"], ended["error"]["error"]) == ("error", "ZeroDivisionError")
    assert ended["last_event_id"] >= 0


async def test_halves_of_surrogate_pairs_from_javascript_are_read_as_replacements(supervisor: Supervisor):
    cut = rb'{"value":{"cut \ud83d":"\udc00 \ud83d\ude00 \\ud83d"},"namespace":["notes"],"key":"a",'
    times = b'"created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-01T00:00:00.000Z"}'
    text = b"[null," + cut + times + b"]"
    supervisor.answer = lambda flags, slot, body: text if flags == Ask.ITEMS else b""  # type: ignore[method-assign]
    ended = await supervisor.run("remembering_both", input={"steps": []})
    assert ended["values"]["answer"] == {"cut \ufffd": "\ufffd \U0001f600 \\ud83d"}


async def test_an_output_schema_hides_the_other_keys(supervisor: Supervisor):
    ended = await supervisor.run("private", input={"question": "?"}, stream_mode=["values", "updates"])
    assert ended.named("values") == [{"answer": "12"}]
    assert ended.named("updates") == [{"thinks": None}, {"answers": {"answer": "12"}}]
    assert ended["values"] == {"question": "?", "note": "margin", "answer": "12"}
    assert ended["output"] == {"answer": "12"}
    temporary = await supervisor.run("private", input={"question": "?"}, temporary=True)
    assert temporary["values"] == {"answer": "12"}
    paused = await supervisor.run("private", "t2", input={"question": "?"}, interrupt_before=["answers"])
    assert (paused["output"], paused["next"]) == ({}, ["answers"])
    whole = await supervisor.run("graph", "t3", input={"steps": []})
    assert whole["output"] is None


@pytest.mark.parametrize("graph", ["contextual", "contextual_outer"])
async def test_a_context_has_the_defaults_of_its_schema_and_no_other_keys(supervisor: Supervisor, graph: str):
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {"model": "default", "n": 3}),
        ({"context": {}}, {"model": "default", "n": 3}),
        ({"context": {"n": 5, "other": 1}}, {"model": "default", "n": 5}),
        ({"config": {"configurable": {"model": "m", "other": 1}}}, {"model": "m", "n": 3}),
    ]
    for n, (options, context) in enumerate(rows):
        for mode in ("values", "custom"):
            ended = await supervisor.run(graph, f"t{n}{mode}", input={"steps": []}, stream_mode=[mode], **options)
            assert ended["values"] == {"steps": [], "answer": context}, options


async def test_factories_of_every_form(supervisor: Supervisor):
    runtime = "_ExecutionRuntime"
    rows: dict[str, dict[str, str]] = {
        "keyword_factory": {"config": "dict"},
        "runtime_factory": {"rt": runtime, "settings": "dict", "context": "dict"},
        "annotated_factory": {"it": runtime},
        "object_factory": {"config": "dict"},
        "partial_factory": {"rt": runtime, "settings": "dict", "context": "dict"},
    }
    for name, given in rows.items():
        ended = await supervisor.run(name, name, input={"steps": []})
        assert (ended["error"], ended["values"]["answer"]) == (None, given), name
        assert await supervisor.call("schemas", name), name


async def test_a_run_of_an_unknown_graph_fails(supervisor: Supervisor):
    ended = await supervisor.run("nowhere", input={})
    assert ended["error"] == {"error": "LookupError", "message": 'Graph "nowhere" is not loaded.'}


async def test_a_run_records_its_nodes(supervisor: Supervisor):
    slot = supervisor.start("outer", input={"steps": []}, flags=Start.RECORDED)
    await supervisor.end(slot)
    graph, outer, inner, asked = supervisor.spans[slot]
    assert [span["name"] for span in (graph, outer, inner, asked)] == ["outer", "outer", "inner", "node"]
    assert [span["type"] for span in (graph, outer, inner, asked)] == ["graph", "node", "subgraph", "node"]
    assert [span["parent"] for span in (graph, outer, inner, asked)] == [None, 0, 0, inner["id"]]
    # An interrupt is no error.
    statuses = [span["status"] for span in (graph, outer, inner, asked)]
    assert statuses == ["interrupted", "ok", "interrupted", "interrupted"]
    assert all(span["start"] <= span["end"] and "error" not in span for span in (graph, outer, inner, asked))
    failed = supervisor.start("failing", "t2", input={"steps": []}, flags=Start.RECORDED)
    await supervisor.end(failed)
    assert [(span["status"], span["error"]) for span in supervisor.spans[failed]] == [("error", "no good")] * 2
    plain = supervisor.start("graph", "t3", input={"steps": []})
    await supervisor.end(plain)
    assert plain not in supervisor.spans
