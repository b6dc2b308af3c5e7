"""
The ASGI app. Both bodies are streams that nothing collects: what Weft sends is passed on at once, and a client that
disconnects ends the request, which may cancel its run.
"""

import asyncio
import inspect
import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpx

from .server import Server

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
# None removes a header that a client has sent.
Added = Mapping[str, str | None]
Pairs = list[tuple[bytes, bytes]]

# They belong to one connection (RFC 9110, 7.6.1).
OF_CONNECTION = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
# Written anew, or answered by the server around.
OF_SERVER = {b"host", b"expect", b"proxy-authorization"}
# Weft closes an unused connection after 10 s: a request on one that is about to be closed would fail.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=4)
# Streams are silent for as long as their runs.
TIMEOUT = httpx.Timeout(None, connect=10)


class App:
    """
    Weft's API as an ASGI app, for `mount`.

    application: the langgraph.json, or its folder. data: the data folder. url: of a Weft that runs already; without
    one, a Weft is started at the first request or by `lifespan`. dev: start `weft dev`, which serves changed files at
    once. env: variables of Weft. command: instead of the `weft` that is installed. headers: added to each request, or
    a function of the scope that returns them.
    """

    def __init__(
        self,
        application: str | Path = ".",
        *,
        data: str | Path = ".weft",
        url: str | None = None,
        dev: bool = False,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
        headers: Added | Callable[[Scope], Added | Awaitable[Added]] | None = None,
    ) -> None:
        self._server = Server(application, data, url, dev, env or {}, command)
        self._headers = headers or {}
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def ready(self) -> str:
        """Starts Weft unless it runs; returns its URL when it serves."""
        return await self._server.ready()

    async def close(self) -> None:
        """Stops the Weft that was started here."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
        await self._server.close()

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncGenerator[None]:
        """The lifespan of the server around: a mounted app has none of its own."""
        await self.ready()
        try:
            yield
        finally:
            await self.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            kind = (await receive())["type"]
            try:
                await (self.ready() if kind == "lifespan.startup" else self.close())
            except RuntimeError as error:
                return await send({"type": f"{kind}.failed", "message": str(error)})
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_below(scope)
        if path is None:
            return await refuse(send, 404, "Not found")
        try:
            url = httpx.URL(await self.ready())
        except RuntimeError as error:
            return await refuse(send, 503, str(error))
        added = self._headers(scope) if callable(self._headers) else self._headers
        headers = headers_for(scope["headers"], await added if inspect.isawaitable(added) else added)
        names = {name for name, _ in headers}
        has_body = b"content-length" in names or any(name == b"transfer-encoding" for name, _ in scope["headers"])
        body = Body(receive, has_body)
        request = httpx.Request(
            scope["method"],
            url.copy_with(raw_path=url.raw_path.rstrip(b"/") + path),
            headers=headers,
            content=body.parts() if has_body else None,
        )
        relay = asyncio.create_task(self._relay(request, scope, send))
        gone = asyncio.create_task(body.disconnected())
        try:
            await asyncio.wait({relay, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not relay.done():
                relay.cancel()
            with suppress(asyncio.CancelledError):
                await relay

    async def _relay(self, request: httpx.Request, scope: Scope, send: Send) -> None:
        try:
            response = await self._connections().send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            return await refuse(send, 503, "Weft cannot be reached at the moment")
        except httpx.TransportError:
            return await refuse(send, 502, "Weft has closed the connection before it answered")
        try:
            headers = answered(response, scope.get("root_path", ""))
            await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
            async for part in response.aiter_raw():
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await response.aclose()

    def _connections(self) -> httpx.AsyncClient:
        """They belong to the loop that runs."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            # Proxies of the environment are not for a server of this machine.
            self._client, self._loop = httpx.AsyncClient(limits=LIMITS, timeout=TIMEOUT, trust_env=False), loop
        return self._client


class Body:
    """The body of a request as it arrives, and the disconnect behind it."""

    def __init__(self, receive: Receive, has_parts: bool) -> None:
        self._receive = receive
        self._read = asyncio.Event()
        if not has_parts:
            self._read.set()
        self._gone = asyncio.Event()

    async def parts(self) -> AsyncIterator[bytes]:
        try:
            while True:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    self._gone.set()
                    # Weft must not take a part of a body for all of it.
                    await asyncio.Event().wait()
                yield message.get("body", b"")
                if not message.get("more_body", False):
                    return
        finally:
            self._read.set()

    async def disconnected(self) -> None:
        reading, gone = (asyncio.create_task(event.wait()) for event in (self._read, self._gone))
        await asyncio.wait({reading, gone}, return_when=asyncio.FIRST_COMPLETED)
        while not self._gone.is_set():
            if (await self._receive())["type"] == "http.disconnect":
                return


def path_below(scope: Scope) -> bytes | None:
    """The path and the query below the mount, as they were received; None when dots would lead out of it."""
    path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    if path != root and not path.startswith(f"{root}/"):
        root = ""
    if ".." in path.split("/") or ".." in unquote(path).split("/"):
        return None
    whole: bytes = scope.get("raw_path") or quote(path, safe="/:@!$&'()*+,;=~").encode()
    # As many slashes as there are in the mount end it, however its letters are encoded.
    below = b"/".join(whole.split(b"/")[root.count("/") + 1 :])
    query: bytes = scope.get("query_string", b"")
    return b"/" + below + (b"?" + query if query else b"")


def named_in(headers: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    """The names that Connection lists."""
    return {
        part.strip().lower() for name, value in headers if name.lower() == b"connection" for part in value.split(b",")
    }


def headers_for(received: Pairs, added: Added) -> Pairs:
    """
    The headers of a request for Weft. A page of the server around is one of Weft, too, which has another host: its
    Origin is left out, and that of other pages stays, for Weft's own rules.
    """
    given = dict(received)
    origin = urlsplit(given.get(b"origin", b"").decode("latin-1")).netloc
    is_own = origin != "" and origin.lower() == given.get(b"host", b"").decode("latin-1").lower()
    dropped = (
        OF_CONNECTION | OF_SERVER | named_in(received) | ({b"origin", b"sec-fetch-site"} if is_own else set[bytes]())
    )
    dropped |= {name.lower().encode("latin-1") for name in added}
    kept = [(name, value) for name, value in received if name.lower() not in dropped]
    more = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in added.items() if value is not None]
    return kept + more


def answered(response: httpx.Response, root: str) -> Pairs:
    """
    The headers of an answer. Those of the API that name a path are relative to the URL that a client was given, which
    has the mount: only a redirect, which a browser follows, gets it.
    """
    raw = response.headers.raw
    dropped = OF_CONNECTION | named_in(raw)
    kept: Pairs = []
    for name, value in raw:
        key = name.lower()
        if key in dropped:
            continue
        is_path = key == b"location" and value.startswith(b"/") and not value.startswith(b"//")
        kept.append((key, quote(root).encode() + value if is_path and response.is_redirect else value))
    return kept


async def refuse(send: Send, status: int, detail: str) -> None:
    """In the shape of the API's errors."""
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
