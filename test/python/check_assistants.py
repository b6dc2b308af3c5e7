"""Each call of the Python SDK for assistants, the store and the system. One line per check."""

import asyncio

import httpx
from common import check, client, refused, run_all, url
from langgraph_sdk.errors import NotFoundError, UnprocessableEntityError


async def assistants():
    calls = client.assistants
    made = await calls.create("nested", name="Python's", metadata={"by": "python"}, description="first")
    aid = made["assistant_id"]
    check(made["description"] == "first" and made["config"] == {}, "create")
    changed = await calls.update(aid, metadata={"more": 1}, config={"tags": ["a"]}, name="Changed")
    check(changed["version"] == 2 and changed["metadata"] == {"by": "python", "more": 1}, "update merges metadata")
    check((await calls.update(aid, config={}))["config"] == {}, "update clears the config")
    versions = await calls.get_versions(aid, limit=2)
    check([one["version"] for one in versions] == [3, 2], "versions, newest first")
    latest = await calls.set_latest(aid, 1)
    check(latest["version"] == 1 and latest["name"] == "Python's", "set_latest takes all members back")
    await refused(NotFoundError, calls.set_latest(aid, 99), "an unknown version is 404")
    found = await calls.search(metadata={"by": "python"}, graph_id="nested", sort_by="name", sort_order="asc", select=["name"])
    check(found == [{"name": "Python's"}], "search with select")
    page = await calls.search(limit=1, response_format="object")
    check(len(page["assistants"]) == 1 and page["next"] == "1", "search names the next page")
    check(await calls.count(metadata={"by": "python"}) == 1, "count")
    await refused(UnprocessableEntityError, calls.search(limit=5000), "a limit out of range is 422")
    graph = await calls.get_graph(aid, xray=True)
    check(len(graph["nodes"]) > 2 and all(set(edge) <= {"source", "target", "data", "conditional"} for edge in graph["edges"]), "graph")
    schemas = await calls.get_schemas(aid)
    check(schemas["graph_id"] == "nested" and "state_schema" in schemas, "schemas")
    subgraphs = await calls.get_subgraphs(aid, recurse=True)
    check(all(one["graph_id"] == "nested" for one in subgraphs.values()) and len(subgraphs) > 0, "subgraphs")
    first = next(iter(subgraphs))
    check(first in await calls.get_subgraphs(aid, namespace=first), "subgraphs of a namespace")
    await calls.delete(aid, delete_threads=True)
    await refused(NotFoundError, calls.get(aid), "delete")


async def store():
    calls = client.store
    place = ["python", "users"]
    await calls.put_item(place, "ada", {"age": 36, "name": "Ada"})
    await calls.put_item(place, "bob", {"age": 41}, index=False, ttl=60)
    item = await calls.get_item(place, key="ada", refresh_ttl=True)
    check(item["namespace"] == place and item["value"]["name"] == "Ada", "get_item")
    check(await calls.get_item(place, key="none") is None, "an absent item is None")
    found = await calls.search_items(["python"], filter={"age": {"$gte": 40}}, limit=5, offset=0)
    check([one["key"] for one in found["items"]] == ["bob"], "search_items with a filter")
    spaces = await calls.list_namespaces(prefix=["python"], suffix=["users"], max_depth=2)
    check(spaces == {"namespaces": [place]}, "list_namespaces")
    await calls.delete_item(place, key="ada")
    await calls.delete_item(place, key="ada")
    check(await calls.get_item(place, key="ada") is None, "delete_item, twice")
    await refused(UnprocessableEntityError, calls.put_item(["langgraph"], "k", {}), "a reserved namespace is 422")


async def system():
    async with httpx.AsyncClient(base_url=url) as http:
        check((await http.get("/ok?check_db=1")).json() == {"ok": True}, "/ok")
        info = (await http.get("/info")).json()
        flags = {"assistants": True, "crons": True, "langsmith": False}
        flags |= {"strict_resume": True, "stream_namespaces": True, "langsmith_tracing_replicas": True}
        check(info["flags"] == flags, "/info has true flags")
        check((await http.get("/metrics")).text.startswith("# HELP"), "/metrics")
        check((await http.get("/openapi.json")).json()["openapi"] == "3.1.0", "/openapi.json")


asyncio.run(run_all(assistants, store, system))
