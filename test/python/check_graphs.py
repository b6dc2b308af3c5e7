"""Graphs in Python, alone and beside a graph in JavaScript, through the official SDK."""

import asyncio

from common import check, client, run_all


async def new_thread():
    return (await client.threads.create())["thread_id"]


async def both_languages():
    for graph in ("counter", "javascript"):
        values = await client.runs.wait(None, graph, input={"steps": 3})
        check(values == {"steps": 3, "numbers": [1, 2, 3]}, f"{graph} runs")
    names = {a["graph_id"] for a in await client.assistants.search(limit=100)}
    check({"counter", "javascript"} <= names, "assistants of both languages")


async def answers():
    for answer in (False, 0, "", "yes", {"a": 1}):
        tid = await new_thread()
        await client.runs.wait(tid, "ask", input={"question": "sure?"})
        values = await client.runs.wait(tid, "ask", command={"resume": answer})
        check(values["answer"] == {"given": answer}, f"the answer {answer!r}")
    tid = await new_thread()
    await client.runs.wait(tid, "nested", input={})
    state = await client.threads.get_state(tid, subgraphs=True)
    check(state["tasks"][0]["state"]["next"] == ["asking"], "the state of a subgraph")
    values = await client.runs.wait(tid, "nested", command={"resume": 3})
    check(values["numbers"] == [1, 1, 2, 3], "an answer to a subgraph")


async def functional():
    tid = await new_thread()
    asked = await client.runs.wait(tid, "functional", input=20)
    check(asked["__interrupt__"][0]["value"] == "how much more?", "an entrypoint asks")
    check(await client.runs.wait(tid, "functional", command={"resume": 2}) == 42, "and returns")


async def context_and_environment():
    values = await client.runs.wait(None, "seen_config", input={}, config={"configurable": {"a": 1}})
    seen = values["seen_config"]
    check(seen["context"] == {"a": 1}, "configurable is the context, too")
    check(
        seen["variable"] == "from langgraph.json" and seen["secrets"] == [],
        "variables of the application, no credentials",
    )
    check(seen["metadata"]["langgraph_plan"] == "developer", "metadata of the server")


async def store():
    values = await client.runs.wait(None, "stored", input={"notes": ["remember"]})
    check(values["notes"] == ["remember", "remember", "notes"], "the item store in a graph")
    check((await client.store.get_item(["notes"], "last"))["value"] == {"text": "remember"}, "is that of the server")


async def sync_nodes():
    began = asyncio.get_running_loop().time()
    runs = [client.runs.wait(None, "sync", input={"ms": 1000}) for _ in range(20)]
    check([values["done"] for values in await asyncio.gather(*runs)] == [True] * 20, "twenty sync nodes")
    check(asyncio.get_running_loop().time() - began < 10, "wait at the same time")
    tid = await new_thread()
    run = await client.runs.create(tid, "sync", input={"ms": 5000})
    await asyncio.sleep(0.5)
    await client.runs.cancel(tid, run["run_id"], wait=True)
    check((await client.runs.get(tid, run["run_id"]))["status"] == "interrupted", "a sync node that is cancelled")
    check((await client.runs.wait(tid, "echo", input={"text": "next"}))["seen"] == "next", "does not hold its thread")


async def descriptions():
    assistant = (await client.assistants.search(graph_id="nested"))[0]["assistant_id"]
    drawn = await client.assistants.get_graph(assistant, xray=True)
    check({"outside", "sub:inside"} <= {node["id"] for node in drawn["nodes"]}, "a drawing with its subgraph")
    schemas = await client.assistants.get_schemas(assistant)
    check("numbers" in schemas["input_schema"]["properties"], "schemas")
    check(list(await client.assistants.get_subgraphs(assistant)) == ["sub"], "subgraphs")


async def forks_and_updates():
    tid = await new_thread()
    await client.runs.wait(tid, "counter", input={"steps": 3}, durability="sync")
    history = await client.threads.get_history(tid, limit=100)
    check([s["metadata"]["step"] for s in history] == [3, 2, 1, 0, -1], "history")
    await client.threads.update_state(tid, {"numbers": [9]}, as_node="count", checkpoint=history[1]["checkpoint"])
    check((await client.threads.get_state(tid))["values"]["numbers"] == [1, 2, 9], "an update of an old checkpoint")
    for durability in ("sync", "async", "exit"):
        tid = await new_thread()
        await client.runs.wait(tid, "counter", input={"steps": 4}, durability=durability)
        states = len(await client.threads.get_history(tid, limit=100))
        check(states == (1 if durability == "exit" else 6), f"durability {durability}")


async def incremental_channels():
    tid = await new_thread()
    values = await client.runs.wait(tid, "fan", input={"numbers": []})
    check(values["numbers"] == list(range(8)), "eight parallel writes, in the order of their tasks")
    state = await client.threads.get_state(tid, checkpoint_id=(await client.threads.get_state(tid))["checkpoint"]["checkpoint_id"])
    check(state["values"]["numbers"] == list(range(8)), "are replayed in this order")


async def languages_on_one_thread():
    for first, second in (("counter", "javascript"), ("javascript", "counter")):
        tid = await new_thread()
        await client.runs.wait(tid, first, input={"steps": 2})
        values = await client.runs.wait(tid, second, input={"steps": 4})
        check(values["numbers"] == [1, 2, 3, 4], f"a thread of {first} continued by {second}")
        history = await client.threads.get_history(tid, limit=100)
        check(history[-1]["values"] == {"numbers": []}, "its history is readable")


PARTS = [
    both_languages,
    answers,
    functional,
    context_and_environment,
    store,
    sync_nodes,
    descriptions,
    forks_and_updates,
]
PARTS.append(languages_on_one_thread)

asyncio.run(run_all(*PARTS))
