"""A Python program with Weft, through the official SDK. One line per check; any failure ends it with code 1."""

import asyncio
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from common import check, client, refused, run_all
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError


async def assistants():
    system = await client.assistants.get("echo")
    check(system["graph_id"] == "echo" and system["metadata"] == {"created_by": "system"}, "a system assistant")
    made = await client.assistants.create("factory", config={"configurable": {"who": "ada"}}, name="Mine")
    check(made["name"] == "Mine" and made["version"] == 1, "an assistant of one's own")
    values = await client.runs.wait(None, made["assistant_id"], input={})
    check(values == {"who": "ada"}, "its config reaches its runs")
    await refused(ConflictError, client.assistants.create("echo", assistant_id=made["assistant_id"]), "a second one of the id is 409")
    await refused(NotFoundError, client.assistants.get("0198f2a5-0000-7000-8000-000000000000"), "an unknown one is 404")


async def threads_and_runs():
    thread = await client.threads.create(metadata={"user": "ada"})
    tid = thread["thread_id"]
    check(thread["status"] == "idle" and thread["metadata"] == {"user": "ada"}, "a thread")
    check(await client.runs.wait(tid, "counter", input={"steps": 3}) == {"steps": 3, "numbers": [1, 2, 3]}, "wait")
    state = await client.threads.get_state(tid)
    check(state["values"]["numbers"] == [1, 2, 3] and state["next"] == [], "state")
    run = await client.runs.create(tid, "counter", input={"steps": 5})
    check((await client.runs.join(tid, run["run_id"]))["numbers"] == [1, 2, 3, 4, 5], "create and join")
    check((await client.runs.get(tid, run["run_id"]))["status"] == "success", "the run's status")
    await refused(NotFoundError, client.runs.get(tid, tid), "an unknown run is 404")
    await refused(UnprocessableEntityError, client.threads.get("no-uuid"), "a malformed id is 422")


async def thread_methods():
    mark = "python"
    made = await client.threads.create(metadata={"mark": mark, "tags": ["a", "b"]}, ttl=60)
    tid = made["thread_id"]
    shown = await client.threads.get(tid, include=["ttl"])
    check(shown["ttl"]["ttl_minutes"] == 60 and shown["ttl"]["strategy"] == "delete", "a time to live")
    updated = await client.threads.update(tid, metadata={"more": 1})
    check(updated["metadata"] == {"mark": mark, "tags": ["a", "b"], "more": 1}, "update merges metadata")
    await client.runs.wait(tid, "counter", input={"steps": 4})
    found = await client.threads.search(metadata={"mark": mark, "tags": ["b"]}, values={"numbers": [4]}, status="idle")
    check([t["thread_id"] for t in found] == [tid], "search by metadata, values and status")
    found = await client.threads.search(ids=[tid], sort_by="created_at", sort_order="asc", select=["thread_id", "values"])
    check(found == [{"thread_id": tid, "values": {"steps": 4, "numbers": [1, 2, 3, 4]}}], "search by ids with select")
    found = await client.threads.search(ids=[tid], select=["thread_id"], extract={"last": "values.numbers[-1]"})
    check(found[0]["extracted"] == {"last": 4}, "search with extract")
    check(await client.threads.count(metadata={"mark": mark}) == 1, "count is a bare number")
    history = await client.threads.get_history(tid, limit=100)
    check([s["metadata"]["step"] for s in history] == [4, 3, 2, 1, 0, -1], "history, newest first")
    third = history[2]["checkpoint"]
    check(await client.threads.get_history(tid, limit=100, before=third) == history[3:], "history before a checkpoint")
    check(await client.threads.get_history(tid, before=third["checkpoint_id"]) == history[3:], "history before an id")
    check(await client.threads.get_history(tid, metadata={"step": 2}) == history[2:3], "history by metadata")
    state = await client.threads.get_state(tid, checkpoint=third, subgraphs=True)
    check(state["values"]["numbers"] == [1, 2], "the state of a checkpoint")
    check((await client.threads.get_state(tid, checkpoint_id=third["checkpoint_id"]))["next"] == ["count"], "the same by id")
    reply = await client.threads.update_state(tid, {"numbers": [9]}, as_node="count", checkpoint=third)
    state = await client.threads.get_state(tid)
    check(state["values"]["numbers"] == [1, 2, 9] and state["next"] == ["count"], "an update forks an old checkpoint")
    check(reply["checkpoint"]["checkpoint_id"] == state["checkpoint"]["checkpoint_id"], "and answers its checkpoint")
    check((await client.threads.get(tid))["status"] == "interrupted", "the thread rests where it leads to")
    copy = await client.threads.copy(tid)
    check(len(await client.threads.get_history(copy["thread_id"], limit=100)) == len(history) + 1, "a copy has the history")
    check((await client.runs.wait(copy["thread_id"], "counter", input=None))["numbers"] == [1, 2, 9, 4], "and goes on")
    steps = [{"updates": [{"values": {"numbers": [n]}, "as_node": "count"}]} for n in (1, 2)]
    replayed = await client.threads.create(graph_id="counter", supersteps=steps)
    check(replayed["values"] == {"numbers": [1, 2]}, "supersteps")
    pruned = await client.threads.prune([tid], strategy="keep_latest")
    check(pruned["pruned_count"] == 1 and len(await client.threads.get_history(tid)) == 1, "prune keeps the newest")
    await client.threads.delete(tid)
    await refused(NotFoundError, client.threads.get(tid), "a deleted thread is 404")
    await refused(NotFoundError, client.threads.delete(tid), "and so it stays")
    run = await client.runs.create(copy["thread_id"], "slow", input={"ms": 20000})
    await refused(ConflictError, client.threads.update_state(copy["thread_id"], {"ms": 1}), "a busy thread takes no update")
    await client.runs.cancel(copy["thread_id"], run["run_id"], wait=True)


async def streams():
    tid = (await client.threads.create())["thread_id"]
    created = []
    parts = [
        part
        async for part in client.runs.stream(
            tid, "counter", input={"steps": 2}, stream_mode=["values", "updates"], on_run_created=created.append
        )
    ]
    check([p.event for p in parts] == ["metadata", "values", "updates", "values", "updates", "values"], "modes in order")
    check(created[0]["run_id"] == parts[0].data["run_id"] and created[0]["thread_id"] == tid, "on_run_created has both ids")
    again = [p async for p in client.runs.join_stream(tid, created[0]["run_id"], last_event_id="-1")]
    check([(p.event, p.data) for p in again] == [(p.event, p.data) for p in parts], "a join from the start replays it")
    parts = [p async for p in client.runs.stream(None, "fail", input={})]
    check(parts[-1].event == "error" and parts[-1].data["error"] == "TooBadError", "an error is the last event")
    try:
        await client.runs.wait(None, "fail", input={})
        check(False, "wait raises")
    except Exception as error:
        check("TooBadError" in str(error), "wait raises the error")


async def interrupts():
    tid = (await client.threads.create())["thread_id"]
    values = await client.runs.wait(tid, "ask", input={"question": "sure?"})
    check(values["__interrupt__"][0]["value"] == {"question": "sure?"}, "an interrupt in the answer of wait")
    check((await client.threads.get(tid))["status"] == "interrupted", "the thread is interrupted")
    values = await client.runs.wait(tid, "ask", command={"resume": "yes"})
    check(values["answer"] == {"given": "yes"}, "resume")


async def cancel_and_multitask():
    tid = (await client.threads.create())["thread_id"]
    run = await client.runs.create(tid, "slow", input={"ms": 20000})
    await refused(ConflictError, client.runs.create(tid, "slow", input={}, multitask_strategy="reject"), "reject is 409")
    await client.runs.cancel(tid, run["run_id"], wait=True)
    check((await client.runs.get(tid, run["run_id"]))["status"] == "interrupted", "cancel with wait")
    run = await client.runs.create(tid, "slow", input={"ms": 20000})
    values = await client.runs.wait(tid, "echo", input={"text": "now"}, multitask_strategy="interrupt")
    check(values["seen"] == "now", "interrupt")
    check((await client.runs.get(tid, run["run_id"]))["status"] == "interrupted", "the first was interrupted")


async def thread_stream():
    tid = (await client.threads.create())["thread_id"]
    for text in ("one", "two"):
        await client.runs.wait(tid, "echo", input={"text": text})
    seen = []
    async for part in await client.threads.join_stream(tid, last_event_id="-", stream_mode=["run_modes", "state_update"]):
        seen.append(part)
        if [p.event for p in seen].count("state_update") == 2:
            break
    one = ["metadata", "values", "values", "run_done", "state_update"]
    check([p.event for p in seen] == one * 2, "the stream of a thread goes over its runs")
    check(seen[-1].data["values"]["seen"] == "two" and seen[-1].data["status"] == "idle", "and says what each has left")
    async for part in await client.threads.join_stream(tid, last_event_id=seen[4].id):
        check(part.data == seen[5].data, "and is resumed from any of its ids")
        break


async def protocol():
    async with client.threads.stream(assistant_id="outer") as thread:
        await thread.run.start(input={"messages": [{"type": "human", "content": "find it"}]})
        graphs = []
        async for name, item in thread.interleave_projections(["subgraphs", "values"]):
            if name == "subgraphs":
                graphs.append(item.graph_name)
        check(graphs == ["agent"], "protocol v2: the subgraphs of a run")
        output = await thread.output
        check(output["messages"][-1]["content"] == "noted", "its output")
    async with client.threads.stream(assistant_id="talker") as thread:
        await thread.run.start(input={"messages": [{"type": "human", "content": "find it"}]})
        calls = [call.name async for call in thread.tool_calls]
        check(calls == ["lookup"], "its tool calls")
    async with client.threads.stream(assistant_id="model") as thread:
        await thread.run.start(input={"messages": [{"type": "human", "content": "say it"}]})
        messages = [message async for message in thread.messages]
        texts = [await message.text for message in messages]
        check(texts == ["every token must arrive, also the last one."], "its messages")
    async with client.threads.stream(assistant_id="ask") as thread:
        await thread.run.start(input={"question": "sure?"})
        snapshots = [values async for values in thread.values]
        check(snapshots[-1] == {"question": "sure?"}, "its values")
        check(thread.interrupted and thread.interrupts[0]["value"] == {"question": "sure?"}, "its question")
        await thread.run.respond("yes")
        check((await thread.output)["answer"] == {"given": "yes"}, "which is answered")
    async with client.threads.stream(assistant_id="counter", transport="websocket") as thread:
        await thread.run.start(input={"steps": 2})
        snapshots = [values async for values in thread.values]
        check(snapshots[-1]["numbers"] == [1, 2], "its values over a WebSocket")


async def crons():
    tid = (await client.threads.create())["thread_id"]
    rarely = "30 9 1 1 *"
    end = datetime(2999, 12, 31, 12, 0)
    cron = await client.crons.create_for_thread(
        tid,
        "counter",
        schedule=rarely,
        input={"steps": 2},
        metadata={"user": "ada"},
        config={"tags": ["c"], "recursion_limit": 9},
        context={"who": "ada"},
        interrupt_before="*",
        interrupt_after="*",
        multitask_strategy="interrupt",
        end_time=end,
        timezone=ZoneInfo("Asia/Tokyo"),
    )
    check(cron["thread_id"] == tid and cron["schedule"] == rarely and cron["metadata"] == {"user": "ada"}, "a cron of a thread")
    check(cron["timezone"] == "Asia/Tokyo" and cron["next_run_date"].endswith("-01-01T00:30:00.000Z"), "in its zone")
    check(cron["end_time"] == "2999-12-31T12:00:00.000Z", "an end without an offset is UTC")
    check(cron["payload"]["input"] == {"steps": 2} and cron["payload"]["multitask_strategy"] == "interrupt", "its payload")
    own = await client.crons.create("echo", schedule="*/5 * * * *", input={"text": "a"}, on_run_completed="keep", enabled=False)
    check(own["thread_id"] is None and own["on_run_completed"] == "keep" and own["enabled"] is False, "a cron without a thread")
    changed = await client.crons.update(own["cron_id"], schedule=rarely, enabled=True, metadata={"b": 1}, end_time=end.replace(tzinfo=timezone(timedelta(hours=2))))
    check(changed["enabled"] and changed["schedule"] == rarely and changed["end_time"] == "2999-12-31T10:00:00.000Z", "update")
    changed = await client.crons.update(own["cron_id"], metadata={"c": 2})
    check(changed["metadata"] == {"b": 1, "c": 2} and changed["end_time"] is not None, "metadata is merged, the rest stays")
    check((await client.crons.update(own["cron_id"], end_time=None))["end_time"] is None, "an end can be taken back")
    found = await client.crons.search(thread_id=tid)
    check([one["cron_id"] for one in found] == [cron["cron_id"]], "search by thread")
    check(await client.crons.count(assistant_id="echo") == 1 and await client.crons.count(thread_id=tid) == 1, "count")
    found = await client.crons.search(sort_by="created_at", sort_order="asc", limit=1, select=["cron_id"])
    check(found == [{"cron_id": cron["cron_id"]}], "sorted, selected, one page")
    for bad in ({"schedule": "never"}, {"schedule": rarely, "timezone": "Nowhere"}):
        await refused(UnprocessableEntityError, client.crons.create("echo", **bad), f"{bad} is 422")
    await refused(NotFoundError, client.crons.create_for_thread(own["cron_id"], "echo", schedule=rarely), "an unknown thread is 404")
    for one in (cron, own):
        await client.crons.delete(one["cron_id"])
    await refused(NotFoundError, client.crons.delete(own["cron_id"]), "deleted is deleted")
    check(await client.crons.count() == 0, "none is left")


asyncio.run(
    run_all(assistants, threads_and_runs, thread_methods, streams, interrupts, cancel_and_multitask, thread_stream, protocol, crons)
)
