"""weft-asgi inside FastAPI on uvicorn: through the official SDK, and before a server in the place of Weft."""

import asyncio
import importlib
import json
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

import weft_asgi

ROOT = Path(__file__).resolve().parents[3]
COMMAND = ["node", str(ROOT / "dist/cli/weft.js")]
ENV = {"WEFT_STOP_MS": "1000", "WEFT_DISCONNECT_GRACE_MS": "100", "LOG_LEVEL": "warn"}


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([listener]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


@pytest.fixture(scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    data = tmp_path_factory.mktemp("weft")
    agent = weft_asgi.app(ROOT / "test/apps/chat", data=data, env=ENV, command=COMMAND)
    app = FastAPI(lifespan=agent.lifespan)
    app.mount("/agent", agent)
    async with served(app) as outer:
        yield f"{outer}/agent"


@pytest.fixture
def client(url: str) -> LangGraphClient:
    return get_client(url=url)


def says(content: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


async def test_streams_tokens_while_the_run_executes(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    text, status = "", None
    stream = client.runs.stream(thread_id, "chat", input=says("count 40 20"), stream_mode="messages-tuple")
    async for part in stream:
        if part.event == "messages":
            text += part.data[0]["content"]
            status = status or (await client.threads.get(thread_id))["status"]
    assert text == " ".join(str(n + 1) for n in range(40))
    assert status == "busy"


async def test_joins_a_run_behind_an_event(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "chat", input=says("hello"), stream_resumable=True)

    async def ids(last: str) -> list[Any]:
        return [part.id async for part in client.runs.join_stream(thread_id, run["run_id"], last_event_id=last)]

    every = await ids("-1")
    assert len(every) > 1
    assert await ids(every[0]) == every[1:]


async def test_a_client_that_disconnects_cancels_its_run(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    stream = client.runs.stream(
        thread_id, "chat", input=says("count 1000 50"), stream_mode="messages-tuple", on_disconnect="cancel"
    )
    async for part in stream:
        if part.event == "messages":
            break
    await stream.aclose()  # type: ignore[attr-defined]
    while (run := (await client.runs.list(thread_id))[0])["status"] == "running":
        await asyncio.sleep(0.1)
    assert run["status"] == "interrupted"


async def test_errors_bodies_of_deletes_and_redirects_pass(client: LangGraphClient, url: str) -> None:
    with pytest.raises(Exception, match="not found"):
        await client.threads.get("00000000-0000-4000-8000-000000000000")
    await client.store.put_item(["a"], "b", {"c": 1})
    await client.store.delete_item(["a"], "b")
    assert (await client.store.search_items(["a"]))["items"] == []
    async with httpx.AsyncClient() as http:
        wrong = await http.post(f"{url}/threads/search", json={"limit": "x"})
        assert wrong.status_code == 422
        assert "limit" in wrong.json()["detail"]
        slash = await http.post(f"{url}/threads/search/", json={})
        assert (slash.status_code, slash.headers["location"]) == (307, "../search")


Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def in_front_of(answer: Answer, **options: Any) -> AsyncIterator[str]:
    """The app before a server in the place of Weft."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        finally:
            writer.close()

    weft = await asyncio.start_server(one, "127.0.0.1", 0)
    port = weft.sockets[0].getsockname()[1]
    app = FastAPI()
    app.mount("/agent", weft_asgi.app(url=f"http://127.0.0.1:{port}/below", **options))
    async with served(app) as outer:
        yield f"{outer}/agent"
    weft.close()


async def head(reader: asyncio.StreamReader) -> list[str]:
    return (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")


async def test_headers_of_one_connection_stay_there_and_those_of_the_server_are_added() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = json.dumps(await head(reader)).encode()
        more = "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nConnection: x-here\r\nX-Here: 1\r\nLocation: /console"
        writer.write(f"HTTP/1.1 303 See\r\nContent-Length: {len(body)}\r\n{more}\r\n\r\n".encode() + body)

    async def headers(scope: Any) -> dict[str, str | None]:
        return {"X-User": scope["client"][0], "x-role": None}

    async with in_front_of(answer, headers=headers) as url, httpx.AsyncClient() as http:
        host = httpx.URL(url).netloc.decode()
        sent = {"x-user": "mallory", "x-role": "admin", "te": "trailers", "origin": f"http://{host}", "cookie": "c=3"}
        got = await http.get(f"{url}/a%2Fb//c?d=%20", headers=sent)
        line, *rest = got.json()
        assert line == "GET /below/a%2Fb//c?d=%20 HTTP/1.1"
        names = {row.split(": ")[0].lower(): row.split(": ")[1] for row in rest}
        assert names["x-user"] == "127.0.0.1"
        assert names["cookie"] == "c=3"
        assert not {"x-role", "te", "origin"} & names.keys()
        assert names["host"] != host
        assert got.headers.get_list("set-cookie") == ["a=1", "b=2"]
        assert got.headers["location"] == "/agent/console"
        assert "x-here" not in got.headers
        other = (await http.get(f"{url}/x", headers={"origin": "http://elsewhere.example"})).json()
        assert "http://elsewhere.example" in " ".join(other)
        assert (await http.get(f"{url}/%2e%2e/x")).status_code == 404


async def test_bodies_are_streams_in_both_directions() -> None:
    arrived, wanted = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)
        await reader.readuntil(b"first")
        arrived.set()
        await reader.readuntil(b"0\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\none")
        await wanted.wait()
        writer.write(b"two")

    async def parts() -> AsyncIterator[bytes]:
        yield b"first"
        await arrived.wait()
        yield b"second"

    async with (
        in_front_of(answer) as url,
        httpx.AsyncClient() as http,
        http.stream("POST", f"{url}/runs", content=parts()) as response,
    ):
        got = []
        async for part in response.aiter_raw():
            got.append(part)
            wanted.set()
        assert got == [b"one", b"two"]


async def test_a_weft_that_fails_is_an_error_of_the_api() -> None:
    async def answer(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await head(reader)

    async with in_front_of(answer) as url, httpx.AsyncClient() as http:
        broken = await http.get(f"{url}/ok")
        assert (broken.status_code, list(broken.json())) == (502, ["detail"])
    app = FastAPI()
    app.mount("/agent", weft_asgi.app(url="http://127.0.0.1:1"))
    async with served(app) as url, httpx.AsyncClient() as http:
        gone = await http.get(f"{url}/agent/ok")
        assert (gone.status_code, gone.json()) == (503, {"detail": "Weft cannot be reached at the moment"})


async def test_one_that_cannot_start_is_a_sentence(tmp_path: Path) -> None:
    app = weft_asgi.app(tmp_path / "none", data=tmp_path, command=COMMAND)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as http:
        answer = await http.get("/ok")
    assert answer.status_code == 503
    assert answer.json() == {"detail": "Weft has ended with exit code 2; it has printed why"}


async def test_weft_ends_with_the_process_that_has_started_it(tmp_path: Path) -> None:
    code = f"""
import asyncio, os, signal, weft_asgi
async def main():
    app = weft_asgi.app({str(ROOT / "test/apps/chat")!r}, data={str(tmp_path)!r}, command={COMMAND!r})
    print(await app.ready(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    env = {**os.environ, **ENV, "PYTHONPATH": str(ROOT / "handler/python")}
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, env=env)
    assert child.stdout is not None
    url = httpx.URL((await child.stdout.readline()).decode().strip())
    await child.wait()
    while True:
        try:
            _, writer = await asyncio.open_connection(url.host, url.port)
        except OSError:
            return
        writer.close()
        await asyncio.sleep(0.1)


async def test_the_example_serves_its_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As after `npm install` in a copy of the folder.
    folder = tmp_path / "fastapi"
    shutil.copytree(ROOT / "examples/fastapi", folder, ignore=shutil.ignore_patterns(".weft", "node_modules"))
    (folder / "node_modules/.bin").mkdir(parents=True)
    command = folder / "node_modules/.bin/weft"
    command.write_text(f'#!/bin/sh\nexec node {ROOT / "dist/cli/weft.js"} "$@"\n')
    command.chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "")
    async with served(importlib.import_module("server").app) as url, httpx.AsyncClient() as http:
        assert (await http.get(f"{url}/hello")).json() == {"says": "a route of your own"}
        client = get_client(url=f"{url}/agent")
        ended: Any = await client.runs.wait(None, "planner", input=says("Turin"))
        assert ended["messages"][-1]["content"].startswith("Start with coffee")
