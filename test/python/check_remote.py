"""A graph on Weft as a graph of a Python program: RemoteGraph of the library, alone and as a node of a local graph."""

import asyncio
import operator
import uuid
from typing import Annotated

from common import check, refused, run_all, url
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.pregel.remote import RemoteException, RemoteGraph
from langgraph.types import Command
from typing_extensions import TypedDict


def remote(graph_id, **more):
    return RemoteGraph(graph_id, url=url, **more)


def on_thread():
    """A thread that is made by the first run on it."""
    return {"configurable": {"thread_id": str(uuid.uuid4())}}


async def invoke():
    check(remote("counter").invoke({"steps": 3}) == {"steps": 3, "numbers": [1, 2, 3]}, "invoke")
    check((await remote("counter").ainvoke({"steps": 2}))["numbers"] == [1, 2], "ainvoke")
    seen_config = (await remote("seen_config").ainvoke({"ask": 1}, {"tags": ["mine"], "configurable": {"x": 1}, "recursion_limit": 7}))["seen_config"]
    check(seen_config["configurable"]["x"] == 1 and "mine" in seen_config["tags"] and seen_config["recursionLimit"] == 7, "its config arrives")
    seen_config = (await remote("seen_config").with_config({"configurable": {"y": 2}}).ainvoke({"ask": 1}))["seen_config"]
    check(seen_config["configurable"]["y"] == 2, "a bound config")
    seen_config = (await remote("seen_config").ainvoke({"ask": 1}, context={"z": 3}))["seen_config"]
    check(seen_config["context"] == {"z": 3}, "a context")
    await refused(RemoteException, remote("fail").ainvoke({"message": "oh no"}), "a failure is raised")


async def stream():
    parts = [p async for p in remote("counter").astream({"steps": 2})]
    check(parts == [{"count": {"numbers": [1]}}, {"count": {"numbers": [2]}}], "updates are the default")
    parts = [(p.event, p.data) for p in remote("counter").stream({"steps": 1}, stream_mode=["values", "updates"])]
    first, second = {"steps": 1, "numbers": []}, {"steps": 1, "numbers": [1]}
    check(parts == [("values", first), ("updates", {"count": {"numbers": [1]}}), ("values", second)], "two modes in order")
    parts = [p async for p in remote("deep").astream({}, stream_mode=["updates", "custom"], subgraphs=True)]
    check({mode for _, mode, _ in parts} == {"updates", "custom"}, "several modes with subgraphs")
    places = [[part.split(":")[0] for part in ns] for ns, mode, _ in parts if mode == "custom"]
    check(places == [[], ["sub"], ["sub", "down"]], "each chunk tells where it is from")
    parts = [p async for p in remote("deep").astream({}, stream_mode="updates")]
    check([list(p) for p in parts] == [["top"], ["sub"]], "without subgraphs none of theirs")
    asked = {"messages": [HumanMessage("say it").model_dump()]}
    tokens = [p async for p in remote("model").astream(asked, stream_mode="messages")]
    check("".join(m["content"] for m, _ in tokens) == "every token must arrive, also the last one.", "every token")
    check(all(meta["langgraph_node"] == "node" for _, meta in tokens), "and who said it")
    parts = [p async for p in remote("counter").astream({"steps": 1}, stream_mode=["values", "updates"], version="v2")]
    check([p["type"] for p in parts] == ["values", "updates", "values"] and parts[-1]["data"] == second, "version 2")
    parts = [p async for p in remote("steps").astream({}, on_thread(), stream_mode="values", interrupt_before=["b"], version="v2")]
    check(parts[-2]["data"]["path"] == ["a"] and parts[-1]["interrupts"] == (), "a breakpoint")


async def state():
    config, graph = on_thread(), remote("counter")
    await graph.ainvoke({"steps": 2}, config)
    now = await graph.aget_state(config)
    check(now.values["numbers"] == [1, 2] and now.next == () and now.metadata["step"] == 2, "aget_state")
    check(graph.get_state(config) == now, "get_state")
    history = [s async for s in graph.aget_state_history(config)]
    check([s.values.get("numbers") for s in history] == [[1, 2], [1], [], []], "history, newest first")
    check([s.config for s in history[1:]] == [s.parent_config for s in history[:-1]], "each has its parent")
    check(list(graph.get_state_history(config, limit=2)) == history[:2], "so many")
    check(list(graph.get_state_history(config, before=history[1].config)) == history[2:], "before one")
    check(list(graph.get_state_history(config, filter={"step": 1})) == history[1:2], "by metadata")
    updated = await graph.aupdate_state(config, {"steps": 3, "numbers": [9]}, as_node="count")
    check((await graph.aget_state(updated)).values == {"steps": 3, "numbers": [1, 2, 9]}, "aupdate_state, and the state it made")
    check(graph.get_state(history[1].config) == history[1], "what was before stays")
    graph.update_state(history[1].config, {"numbers": [7]}, as_node="count")
    forked = graph.get_state(config)
    check(forked.values["numbers"] == [1, 7] and forked.parent_config["configurable"]["checkpoint_id"] == history[1].config["configurable"]["checkpoint_id"], "an update forks an old state")


async def questions():
    config, graph = on_thread(), remote("ask")
    asked = await graph.ainvoke({"question": "sure?"}, config)
    check(asked["__interrupt__"][0]["value"] == {"question": "sure?"}, "a question ends the call")
    waits = await graph.aget_state(config)
    check(waits.next == ("node",) and waits.interrupts[0].value == {"question": "sure?"}, "and waits in the state")
    check(waits.interrupts[0].id == asked["__interrupt__"][0]["id"] == waits.tasks[0].interrupts[0].id, "under its id")
    check((await graph.ainvoke(Command(resume="yes"), config))["answer"] == {"given": "yes"}, "Command(resume=…)")
    check((await graph.aget_state(config)).next == (), "then it is over")
    config, graph = on_thread(), remote("nested")
    parts = [p async for p in graph.astream({}, config, stream_mode="values", version="v2")]
    check(parts[-1]["interrupts"][0].value == "a number?", "version 2 gives questions apart")
    waits = graph.get_state(config, subgraphs=True)
    check(waits.tasks[0].state.values == {"numbers": [1, 2]}, "the state of a subgraph")
    ids = {waits.interrupts[0].id: 3}
    check((await graph.ainvoke(Command(resume=ids), config))["numbers"][-1] == 3, "an answer by the question's id")
    config, graph = on_thread(), remote("orders")
    await graph.ainvoke({"note": "x"}, config)
    done = await graph.ainvoke(Command(resume="go", update={"path": ["u"]}, goto="b"), config)
    check(sorted(done["path"]) == ["answer go", "b", "u"], "resume, update and goto at once")


async def as_node():
    class State(TypedDict):
        path: Annotated[list, operator.add]

    local = StateGraph(State).add_node("before", lambda _: {"path": ["local"]}).add_node("far", remote("deep", name="far"))
    graph = local.add_edge(START, "before").add_edge("before", "far").compile()
    done = await graph.ainvoke({"path": []})
    # Each graph appends what it was given to what it returns.
    far = ["local", "top", "local", "top", "mid", "local", "top", "mid", "low"]
    check(done["path"] == ["local", *far], "as a node it gets the state and gives its own back")
    parts = [p async for p in graph.astream({"path": []}, stream_mode=["updates", "custom"], subgraphs=True)]
    places = [[part.split(":")[0] for part in ns] for ns, mode, _ in parts if mode == "custom"]
    check(places == [["far"], ["far", "sub"], ["far", "sub", "down"]], "its chunks stand below the node, deeper ones too")
    check([list(p)[0] for ns, mode, p in parts if mode == "updates" and ns == ()] == ["before", "far"], "the node itself ends once")

    class Asked(TypedDict):
        question: str
        answer: dict

    asking = StateGraph(Asked).add_node("far", remote("ask")).add_edge(START, "far").compile(checkpointer=InMemorySaver())
    config = on_thread()
    paused = await asking.ainvoke({"question": "there?"}, config)
    check(paused["__interrupt__"][0].value == {"question": "there?"}, "its question stops the local graph")
    check((await asking.aget_state(config)).next == ("far",), "at the node")
    check((await remote("ask").aget_state(config)).next == ("node",), "and waits on the thread of the same id")


asyncio.run(run_all(invoke, stream, state, questions, as_node))
