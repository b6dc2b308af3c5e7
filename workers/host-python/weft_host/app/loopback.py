"""
The way from code of the application into the API: a socket that only this process and the edge can open. `get_client()`
of langgraph_sdk without an address uses it, without authentication, and `http.app` passes on what it does not serve.
"""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import json
import sys
from collections.abc import AsyncIterator
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx

# schemas/app-host.ts
EDGE_SOCKET = "edge.sock"
LOOPBACK = "x-weft-loopback"
CALLER = b"x-weft-caller"
RUN_USER = "x-weft-run-user"
# Headers of one connection, which are not passed on.
HOP = frozenset(
    (b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"te", b"trailer", b"proxy-connection")
)
NO_TIMEOUT = {"connect": 10.0, "read": None, "write": None, "pool": None}
# The edge closes an unused connection after 10 s.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=4)


def edge_transport(folder: str) -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(uds=str(Path(folder) / EDGE_SOCKET), limits=LIMITS)


# The user of the run whose code asks, who is the caller then: also of what the run has left behind.
current_user: ContextVar[Any] = ContextVar("current_user", default=None)


def register_loopback(folder: str) -> None:
    """
    The client of the SDK asks modules of the server of LangGraph Platform for its transport. An application that has
    that server installed keeps its other modules.
    """

    class LoopbackTransport(httpx.AsyncBaseTransport):
        def __init__(self, app: Any = None, root_path: str = "", **_: Any) -> None:
            self.app = app
            self.inner = edge_transport(folder)

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            request.headers[LOOPBACK] = "1"
            if (user := current_user.get()) is not None:
                request.headers[RUN_USER] = base64.b64encode(json.dumps(user).encode()).decode()
            request.headers["host"] = "localhost"
            # The edge takes whole bodies, and closes the connection behind one without a length.
            content = await request.aread()
            headers = [
                (name, value) for name, value in request.headers.raw if name.lower() not in (*HOP, b"content-length")
            ]
            whole = httpx.Request(
                request.method, request.url, headers=headers, content=content or None, extensions=request.extensions
            )
            return await self.inner.handle_async_request(whole)

        async def aclose(self) -> None:
            await self.inner.aclose()

    server, transport = ModuleType("langgraph_api.server"), ModuleType("langgraph_api.asgi_transport")
    server.__dict__["app"] = None
    transport.__dict__["ASGITransport"] = LoopbackTransport
    if "langgraph_api" not in sys.modules and importlib.util.find_spec("langgraph_api") is None:
        package = ModuleType("langgraph_api")
        package.__path__ = []
        package.__dict__.update(server=server, asgi_transport=transport)
        sys.modules["langgraph_api"] = package
    sys.modules["langgraph_api.server"] = server
    sys.modules["langgraph_api.asgi_transport"] = transport


class EdgeApp:
    """An ASGI application: the built-in routes of the edge. Answers stream."""

    def __init__(self, folder: str) -> None:
        self.transport = edge_transport(folder)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            return await refuse(scope, send)
        body = await body_of(receive)
        if body is None:
            return
        answering = asyncio.create_task(self.answer(request_of(scope, body), send))
        leaving = asyncio.create_task(receive())
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            # Middleware may have made a `receive` that knows of no disconnect.
            if leaving.done() and not answering.done() and leaving.result()["type"] == "http.disconnect":
                return
            await answering
        finally:
            answering.cancel()
            leaving.cancel()

    async def answer(self, request: httpx.Request, send: Any) -> None:
        response = await self.transport.handle_async_request(request)
        try:
            headers = [(name.lower(), value) for name, value in response.headers.raw if name.lower() not in HOP]
            await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
            async for part in parts_of(response):
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await response.aclose()


async def refuse(scope: Any, send: Any) -> None:
    """No WebSocket of the application has this path."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        return await send({"type": "websocket.close", "code": 1000})
    headers = [(b"content-type", b"application/json")]
    await send({"type": "websocket.http.response.start", "status": 404, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": b'{"detail":"Not found"}'})


def request_of(scope: Any, body: bytes) -> httpx.Request:
    query = scope["query_string"].decode("latin-1")
    path = scope.get("raw_path") or scope["path"].encode()
    headers = [
        (name, value)
        for name, value in scope["headers"]
        if name not in HOP and name != b"content-length" and (not name.startswith(b"x-weft-") or name == CALLER)
    ]
    url = httpx.URL(scheme="http", host="localhost", raw_path=path + (f"?{query}".encode() if query else b""))
    extensions = {"timeout": NO_TIMEOUT}
    return httpx.Request(scope["method"], url, headers=headers, content=body or None, extensions=extensions)


async def body_of(receive: Any) -> bytes | None:
    """The whole body; None: the client is gone."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def parts_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """As they arrive, without decoding them."""
    stream: Any = response.stream
    async for part in stream:
        yield part
