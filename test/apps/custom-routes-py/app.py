"""The routes and the middleware of test/apps/custom-routes, as a FastAPI application."""

import asyncio
import json
import os
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request, Response, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from langgraph_sdk import get_client
from starlette.routing import Route

go_on = asyncio.Event()
closed = 0
hooks: list[dict] = []
life: list[str] = []
seen: list[dict] = []


@asynccontextmanager
async def lifespan(app: FastAPI):
    life.append("begun")
    yield
    if file := os.environ.get("TEST_LIFESPAN"):
        with open(file, "w") as end:
            end.write("ended")


app = FastAPI(lifespan=lifespan)


class Around:
    """Answers instead of the routes, and adds a header to every answer."""

    def __init__(self, inner) -> None:
        self.inner = inner

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "lifespan":
            return await self.inner(scope, receive, send)
        headers = dict(scope["headers"])
        text = {name.decode(): value.decode("latin-1") for name, value in headers.items()}
        seen.append({"path": scope["path"], "headers": text})
        if b"x-stop" in headers:
            response = PlainTextResponse("stopped", 418)
            if scope["type"] == "http":
                return await response(scope, receive, send)
            await send({"type": "websocket.http.response.start", "status": 418, "headers": []})
            return await send({"type": "websocket.http.response.body", "body": b"stopped"})

        async def send_more(message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"x-middleware", b"yes")]}
            await send(message)

        if scope["path"] != "/runs/wait" or scope["type"] != "http":
            return await self.inner(scope, receive, send_more)
        body = json.loads(await Request(scope, receive).body())
        body["input"] = {"said": f"{body['input']['said']}, changed"}

        async def changed():
            return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

        await self.inner(scope, changed, send_more)


app.add_middleware(Around)


@app.api_route("/custom/hello/{name}", methods=["GET", "HEAD"])
async def hello(name: str, q: str | None = None):
    return {"hello": name, "q": q}


@app.get("/info")
async def info():
    return {"mine": True}


@app.get("/threads/mine")
async def mine():
    return {"mine": True}


@app.get("/docs/{page}")
async def page(page: str):
    return {"mine": True}


class Echo:
    """Answers while it reads: a StreamingResponse on uvicorn would read the messages of the request itself."""

    async def __call__(self, scope, receive, send) -> None:
        headers = [(b"content-type", b"application/octet-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        more = True
        while more:
            message = await receive()
            more = message.get("more_body", False)
            await send({"type": "http.response.body", "body": message.get("body", b""), "more_body": more})


app.router.routes.append(Route("/custom/echo", Echo()))


@app.post("/custom/hook")
async def hook(request: Request):
    body = await request.json()
    signature = request.headers.get("webhook-signature", "")
    signed = request.headers.get("webhook-id") == body["run_id"] and signature.startswith("v1,")
    query = request.query_params.get("from")
    hooks.append({"run_id": body["run_id"], "status": body["status"], "query": query, "signed": signed})
    return Response(status_code=204)


@app.get("/custom/hooks")
async def get_hooks():
    return hooks


@app.get("/custom/seen")
async def get_seen():
    return seen


@app.get("/custom/life")
async def get_life():
    return life


@app.get("/custom/go-on")
async def go():
    go_on.set()
    return Response(status_code=204)


@app.get("/custom/ticks")
async def ticks():
    async def body():
        yield "data: 0\n\n"
        # The others leave when the first one was read: the test asks for them.
        await go_on.wait()
        for n in (1, 2):
            yield f"data: {n}\n\n"

    return StreamingResponse(body(), media_type="text/event-stream")


@app.get("/custom/api")
async def api():
    client = get_client()
    thread = await client.threads.create()
    streamed = []
    async for part in client.runs.stream(thread["thread_id"], "agent", input={"said": "x"}, stream_mode="custom"):
        streamed.append(part.event)
    assert "custom" in streamed, streamed
    return await client.runs.wait(thread["thread_id"], "agent", input={"said": "from a route"})


@app.get("/custom/refuse")
async def refuse():
    raise HTTPException(409, "my own refusal")


@app.exception_handler(409)
async def refusal(request: Request, error: HTTPException):
    return PlainTextResponse(error.detail, 409)


@app.get("/custom/throw")
async def throw():
    raise RuntimeError("a secret detail")


@app.get("/custom/exit")
async def leave():
    os._exit(3)


@app.get("/custom/cookies")
async def cookies():
    response = RedirectResponse("/elsewhere", 302)
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    response.raw_headers[:] = [
        (name, value.split(b";")[0] if name == b"set-cookie" else value) for name, value in response.raw_headers
    ]
    return response


@app.websocket("/custom/socket")
async def socket(ws: WebSocket):
    global closed
    await ws.accept()
    await ws.send_text(f"hello {ws.headers.get('x-user', 'nobody')}")
    try:
        while True:
            message = await ws.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message["code"])
            if (data := message.get("bytes")) is not None:
                await ws.send_bytes(data)
            elif (text := message["text"]) == "close":
                return await ws.close(4000, "as you wish")
            elif text == "many":
                for i in range(200):
                    await ws.send_text(f"{i} {'x' * 50_000}")
            elif text == "exit":
                os._exit(3)
            else:
                await ws.send_text(text)
    except WebSocketDisconnect as error:
        closed = error.code


@app.get("/custom/closed")
async def get_closed():
    return JSONResponse({"code": closed})
