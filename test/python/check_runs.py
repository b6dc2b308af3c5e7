"""Runs through the official Python SDK: every form of their payload, joins and broken connections, ends of every kind."""

import asyncio
from urllib.parse import urlsplit

from httpx import HTTPStatusError

from common import check, client, refused, run_all, url
from langgraph_sdk import get_client
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

ABSENT = "0198f2a5-0000-7000-8000-000000000000"
QUESTION = {"messages": [{"role": "user", "content": "hi"}]}
TOKENS = "every token must arrive, also the last one."


async def new_thread():
    return (await client.threads.create())["thread_id"]


async def until(ask, wanted):
    for _ in range(3000):
        if await ask() == wanted:
            return
        await asyncio.sleep(0.02)
    check(False, f"waited in vain for {wanted}")


async def status(tid, rid):
    return (await client.runs.get(tid, rid))["status"]


async def next_nodes(tid):
    return (await client.threads.get_state(tid))["next"]


async def payload_forms():
    tid = await new_thread()
    values = await client.runs.wait(
        tid,
        "seen_config",
        input={"ask": 1},
        metadata={"ticket": 7},
        config={"tags": ["t"], "recursion_limit": 9},
        context={"b": 2},
        durability="sync",
    )
    seen_config = values["seen_config"]
    check(seen_config["context"] == {"b": 2}, "config and context")
    check(seen_config["recursionLimit"] == 9 and "t" in seen_config["tags"] and seen_config["metadata"]["ticket"] == 7, "limit, tags, metadata")
    values = await client.runs.wait(tid, "counter", input={"steps": 2}, multitask_strategy="enqueue", after_seconds=0)
    check(values["numbers"] == [1, 2], "the numbers of the SDK's own defaults are taken")
    values = await client.runs.wait(tid, "counter", command={"update": {"steps": 4}, "goto": "count"})
    check(values["numbers"] == [1, 2, 3, 4], "command with update and goto")
    values = await client.runs.wait(tid, "counter", input={"steps": 5}, command={})
    check(values["numbers"][-1] == 5, "an empty command says nothing")
    fresh = ABSENT.replace("0000-7000", "0001-7000")
    await refused(NotFoundError, client.runs.create(fresh, "echo", input={}), "an unknown thread is 404")
    await refused(HTTPStatusError, client.runs.wait(fresh, "echo", input={}), "before a wait begins, too")
    values = await client.runs.wait(fresh, "echo", input={"text": "x"}, if_not_exists="create")
    check(values["seen"] == "x", "if_not_exists")
    await refused(NotFoundError, client.runs.create(tid, "absent", input={}), "an unknown assistant is 404")
    await refused(UnprocessableEntityError, client.runs.create(tid, "echo", stream_mode="odd"), "an unknown mode is 422")
    values = await client.runs.wait(tid, "fail", input={}, interrupt_before=["bad"])
    check("__error__" not in values and (await client.threads.get_state(tid))["next"] == ["bad"], "a breakpoint")


async def forks():
    tid = await new_thread()
    await client.runs.wait(tid, "counter", input={"steps": 1})
    one = (await client.threads.get_state(tid))["checkpoint"]
    await client.runs.wait(tid, "counter", input={"steps": 3})
    values = await client.runs.wait(tid, "counter", input={"steps": 2}, checkpoint=one)
    check(values["numbers"] == [1, 2], "a fork from a checkpoint")
    values = await client.runs.wait(tid, "counter", checkpoint_id=one["checkpoint_id"])
    check(values["numbers"] == [1], "a replay from a checkpoint id")


async def modes():
    async def names(graph, mode, **more):
        parts = [p async for p in client.runs.stream(None, graph, input=more.pop("input", {"steps": 2}), stream_mode=mode, **more)]
        check(parts[0].event == "metadata" and parts[0].data["attempt"] == 1, f"{mode}: metadata first")
        return parts[1:]

    for mode in ("values", "updates", "debug", "tasks", "checkpoints", "events"):
        check({p.event for p in await names("counter", mode)} == {mode}, f"{mode} alone")
    check({p.event for p in await names("counter", ["values", "updates"])} == {"values", "updates"}, "two modes")
    parts = await names("chunks", "custom", input={"count": 30})
    check([p.data["i"] for p in parts] == list(range(30)), "custom, in order")
    parts = await names("model", "messages-tuple", input=QUESTION)
    check("".join(p.data[0]["content"] for p in parts) == TOKENS, "messages-tuple: every token")
    parts = await names("model", "messages", input=QUESTION)
    check({p.event for p in parts} == {"messages/metadata", "messages/partial", "messages/complete"}, "messages")
    check(parts[-1].data[0]["content"] == TOKENS, "messages: the whole text")
    parts = await names("nested", "updates", input={}, stream_subgraphs=True)
    check(any(p.event.startswith("updates|sub:") for p in parts), "subgraphs by their path")


class Cutting:
    """A proxy that cuts the next answers after so many bytes of their bodies."""

    def __init__(self, *limits):
        self.limits = list(limits)
        self.cuts = 0

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        return get_client(url=f"http://127.0.0.1:{port}"), self

    async def __aexit__(self, *_):
        self.server.close()

    async def serve(self, reader, writer):
        to = urlsplit(url)
        up_reader, up_writer = await asyncio.open_connection(to.hostname, to.port)
        limit = None

        async def upwards():
            nonlocal limit
            while data := await reader.read(65536):
                if limit is None and self.limits:
                    limit = self.limits.pop(0)
                up_writer.write(data)
                await up_writer.drain()

        async def downwards():
            writer.write(await up_reader.readuntil(b"\r\n\r\n"))
            passed = 0
            while data := await up_reader.read(65536):
                data = data if limit is None else data[: limit - passed]
                passed += len(data)
                writer.write(data)
                await writer.drain()
                if passed == limit:
                    # The events that have passed arrive, and nothing after them.
                    await asyncio.sleep(0.1)
                    self.cuts += 1
                    writer.transport.abort()
                    up_writer.transport.abort()
                    return
            writer.close()

        await asyncio.gather(upwards(), downwards(), return_exceptions=True)


async def broken_connections():
    tid = await new_thread()
    async with Cutting(20_000, 20_000) as (cut, proxy):
        parts = [
            p
            async for p in cut.runs.stream(
                tid,
                "chunks",
                input={"count": 200, "size": 200, "delay_ms": 2},
                stream_mode="custom",
                stream_resumable=True,
                on_disconnect="continue",
            )
        ]
        check(proxy.cuts == 2, "the connection was cut twice")
    check([p.data["i"] for p in parts[1:]] == list(range(200)), "the SDK goes on by itself: nothing lost, nothing twice")
    rid = parts[0].data["run_id"]
    again = [p async for p in client.runs.join_stream(tid, rid, last_event_id="-1")]
    check([(p.id, p.event, p.data) for p in again] == [(p.id, p.event, p.data) for p in parts], "a join from the start is equal")
    rest = [p async for p in client.runs.join_stream(tid, rid, last_event_id=parts[150].id)]
    check([p.id for p in rest] == [p.id for p in parts[151:]], "a join after an id is what follows it")
    async with Cutting(10) as (cut, proxy):
        values = await cut.runs.wait(tid, "slow", input={"ms": 500})
        check(values["done"] is True and proxy.cuts == 1, "a wait goes on behind a cut")


async def joins():
    tid = await new_thread()
    run = await client.runs.create(tid, "counter", input={"steps": 3}, stream_mode=["values", "updates"])
    check(run["status"] == "pending" and run["multitask_strategy"] == "enqueue", "a run that was made")
    parts = [p async for p in client.runs.join_stream(tid, run["run_id"], stream_mode="updates")]
    check({p.event for p in parts} == {"metadata", "updates"}, "a join in one mode of two")
    parts = [p async for p in client.runs.join_stream(tid, run["run_id"], stream_mode=["updates", "values"])]
    check({p.event for p in parts} == {"metadata", "updates", "values"}, "as repeated parameters")
    await refused(HTTPStatusError, client.runs.join(tid, ABSENT), "a join of an unknown run is 404")
    bad = await client.runs.create(tid, "fail", input={})
    values = await client.runs.join(tid, bad["run_id"])
    check(values["__error__"] == {"error": "TooBadError", "message": "too bad"}, "a join of a failed run does not raise")
    parts = [p async for p in client.runs.join_stream(tid, bad["run_id"])]
    check(parts[-1].event == "error" and parts[-1].data["error"] == "TooBadError", "its stream ends with the error")
    values = await client.runs.wait(tid, "fail", input={}, raise_error=False)
    check(values["__error__"]["error"] == "TooBadError", "wait without raising")
    made = []
    async for part in client.runs.stream(None, "echo", input={"text": "a"}, on_run_created=made.append):
        pass
    check(part.data["seen"] == "a" and made[0].get("thread_id") is None, "a stream without a thread")


async def lists_and_deletes():
    tid = await new_thread()
    made = [(await client.runs.create(tid, "echo", input={}))["run_id"] for _ in range(3)]
    await client.runs.join(tid, made[-1])
    check([r["run_id"] for r in await client.runs.list(tid)] == made[::-1], "list, newest first")
    check([r["run_id"] for r in await client.runs.list(tid, limit=1, offset=1)] == [made[1]], "a page of it")
    check(await client.runs.list(tid, status="error") == [], "by status")
    picked = await client.runs.list(tid, limit=1, select=["run_id", "status"])
    check(picked == [{"run_id": made[-1], "status": "success"}], "selected")
    await client.runs.delete(tid, made[0])
    await refused(NotFoundError, client.runs.get(tid, made[0]), "delete")
    slow = await client.runs.create(tid, "slow", input={"ms": 20000})
    await refused(ConflictError, client.runs.delete(tid, slow["run_id"]), "an active run is not deleted")
    await client.runs.cancel(tid, slow["run_id"], wait=True)
    batch = await client.runs.create_batch(
        [{"assistant_id": "echo", "input": {"text": "a"}}, {"assistant_id": "counter", "input": {"steps": 1}}]
    )
    check([r["metadata"]["graph_id"] for r in batch] == ["echo", "counter"], "a batch, in order")
    await refused(UnprocessableEntityError, client.runs.create_batch([]), "an empty batch is 422")


async def cancels():
    for action in ("interrupt", "rollback"):
        tid = await new_thread()
        run = await client.runs.create(tid, "slow", input={"ms": 20000})
        # It is running when it is claimed, and takes its input after that.
        await until(lambda: next_nodes(tid), ["node"])
        await client.runs.cancel(tid, run["run_id"], wait=True, action=action)
        if action == "rollback":
            await refused(NotFoundError, client.runs.get(tid, run["run_id"]), "rollback: the run is gone")
            check((await client.threads.get(tid))["values"] is None, "and with it what it left")
        else:
            check(await status(tid, run["run_id"]) == "interrupted", "interrupt")
            thread = await client.threads.get(tid)
            check(thread["status"] == "interrupted" and thread["values"] == {"ms": 20000}, "the thread keeps its values")
            await refused(ConflictError, client.runs.cancel(tid, run["run_id"]), "an ended run is 409")
    tid = await new_thread()
    runs = [(await client.runs.create(tid, "slow", input={"ms": 20000}))["run_id"] for _ in range(3)]
    await client.runs.cancel_many(thread_id=tid, run_ids=runs[1:])
    check([await status(tid, rid) for rid in runs[1:]] == ["interrupted"] * 2, "cancel_many by id")
    await client.runs.cancel_many(status="all")
    await until(lambda: status(tid, runs[0]), "interrupted")
    check(True, "cancel_many by status")
    await refused(NotFoundError, client.runs.cancel_many(status="all"), "nothing left to cancel is 404")


async def multitask():
    for strategy, first, values in (("interrupt", "interrupted", {"seen": "now"}), ("rollback", None, {"seen": "now"})):
        tid = await new_thread()
        old = await client.runs.create(tid, "slow", input={"ms": 20000})
        got = await client.runs.wait(tid, "echo", input={"text": "now"}, multitask_strategy=strategy)
        check(got["seen"] == values["seen"], strategy)
        if first is None:
            await refused(NotFoundError, client.runs.get(tid, old["run_id"]), f"{strategy}: the first is gone")
        else:
            check(await status(tid, old["run_id"]) == first, f"{strategy}: the first is {first}")
    tid = await new_thread()
    runs = [client.runs.wait(tid, "counter", input={"steps": n}) for n in (1, 2, 3)]
    check(len(await asyncio.gather(*runs)) == 3 and (await client.threads.get(tid))["status"] == "idle", "enqueue")
    await client.runs.create(tid, "slow", input={"ms": 500})
    await refused(ConflictError, client.runs.create(tid, "echo", input={}, multitask_strategy="reject"), "reject")
    late = await client.runs.create(tid, "echo", input={"text": "late"}, after_seconds=1)
    check((await client.runs.join(tid, late["run_id"]))["seen"] == "late", "after_seconds")


async def messages():
    for said in ({"role": "user", "content": "hi"}, ("human", "hi"), {"type": "human", "content": "hi"}, "hi"):
        values = await client.runs.wait(None, "stream", input={"messages": [said]})
        check([(m["type"], m["content"]) for m in values["messages"]] == [("human", "hi"), ("ai", "streamed")], f"said as {said}")
    asked = {"messages": [{"role": "user", "content": "hi", "id": "q"}]}
    for resumable in (True, False):
        tid = await new_thread()
        parts = [
            p
            async for p in client.runs.stream(
                tid, "shapes", input=asked, stream_mode=["messages-tuple", "values"], stream_resumable=resumable
            )
        ]
        said, *whole = [p.data[0] for p in parts if p.event == "messages" and p.data[0]["id"]]
        pieces = [said, *(m for m in whole if m["id"] == said["id"])]
        text = "".join(b["text"] for m in pieces if isinstance(m["content"], list) for b in m["content"] if b["type"] == "text")
        check(text == "Looking up", "the pieces of a message")
        check(any((m.get("usage_metadata") or {}).get("total_tokens") == 8 for m in pieces), "its usage")
        calls = [c for m in pieces for c in m.get("tool_call_chunks") or []]
        check([c["index"] for c in calls] == [0, 0, 1] and all(isinstance(c["args"], str) for c in calls), "calls of tools in pieces")
        tool, broken, shown = [m for m in whole if m["id"] != said["id"]]
        check(tool["artifact"] == {"rows": [{"id": 1}], "raw": None} and tool["status"] == "success", "what a tool gave")
        check(broken["status"] == "error" and broken["tool_call_id"] == "call-b", "a tool that failed")
        check([b["type"] for b in shown["content"]] == ["text", "image_url"] and shown["name"] == "painter", "parts that are no text")
        values = parts[-1].data
        check([m["type"] for m in values["messages"]] == ["ai", "tool", "tool", "ai"], "a message that was removed")
        check(values["messages"][0]["response_metadata"]["finish_reason"] == "tool_calls", "what the provider said of it")
        check((await client.threads.get_state(tid))["values"] == values, "the state has the same")


asyncio.run(
    run_all(payload_forms, forks, modes, broken_connections, joins, lists_and_deletes, cancels, multitask, messages)
)
