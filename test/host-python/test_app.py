"""The Python part of an app host: exports that are refused, parameters of authenticate, users."""

from __future__ import annotations

import subprocess
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import orjson
import pytest
from fastapi import APIRouter, FastAPI
from langchain_core.embeddings import Embeddings
from langgraph_sdk import Auth
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from weft_host.app.auth import AuthHandlers
from weft_host.app.description import Export
from weft_host.app.embed import Embedder
from weft_host.app.http import HttpServer, prefixes_of, remove_pages
from weft_host.app.user import to_json, user_members, user_of

ASKED: dict[str, Any] = {
    "method": "POST",
    "url": "http://weft/threads/1?a=1",
    "headers": [["authorization", "Bearer x"], ["x-key", "y"]],
    "params": {"thread_id": "1"},
    "query": "a=1&b=",
}


def auth_with(authenticate: Any) -> AuthHandlers:
    auth = Auth()
    auth.authenticate(authenticate)
    return AuthHandlers(auth, "./auth.py:auth")


async def answer_of(authenticate: Any, body: bytes = b"") -> Any:
    return orjson.loads(await auth_with(authenticate).authenticate(ASKED, body))


async def test_authenticate_gets_its_parameters_by_name() -> None:
    async def authenticate(
        request: Any,
        body: Any,
        path: str,
        method: str,
        path_params: Any,
        query_params: Any,
        headers: Any,
        authorization: str,
        more: int = 7,
    ) -> Any:
        assert await request.json() == body and request.headers["X-Key"] == "y" and request.path_params == path_params
        assert request.query_params["a"] == "1" and str(request.url) == "http://weft/threads/1?a=1&b="
        assert headers[b"x-key"] == b"y" and headers.get("X-Key") == "y" and headers.get("other") is None
        return {"identity": "i", "seen": [body, path, method, path_params, query_params, authorization]}

    answer = await answer_of(authenticate, b'{"b":2}')
    seen = [{"b": 2}, "/threads/1", "POST", {"thread_id": "1"}, {"a": "1", "b": ""}, "Bearer x"]
    assert answer == {"result": {"identity": "i", "seen": seen}}


async def test_a_function_that_is_not_async_runs_and_a_body_that_is_no_json_is_400() -> None:
    def authenticate(body: Any) -> str:
        return "ada"

    assert await answer_of(authenticate) == {"result": "ada"}
    assert (await answer_of(authenticate, b"{"))["refused"]["status"] == 400


async def test_exceptions_with_a_status_are_refusals_and_others_fail_the_call() -> None:
    async def teapot() -> str:
        raise Auth.exceptions.HTTPException(status_code=418, detail="short", headers={"x-a": "b"})

    async def assertion() -> str:
        raise AssertionError("no token")

    async def secret() -> str:
        raise KeyError("secret")

    assert await answer_of(teapot) == {"refused": {"status": 418, "detail": "short", "headers": {"x-a": "b"}}}
    assert (await answer_of(assertion))["refused"]["status"] == 401
    with pytest.raises(KeyError):
        await answer_of(secret)


def test_exports_that_are_no_auth() -> None:
    with pytest.raises(ValueError, match=r"auth\.path: \./auth\.py:auth is no Auth"):
        AuthHandlers(SimpleNamespace(), "./auth.py:auth")

    async def odd(token: str) -> str:
        return token

    with pytest.raises(ValueError, match='has the parameter "token"; expected authorization, body'):
        auth_with(odd)


async def test_handlers_have_the_names_of_their_events_and_changes_are_answered() -> None:
    auth = Auth()

    @auth.on
    async def everything(ctx: Auth.types.AuthContext, value: Any) -> bool:
        return False

    @auth.on.threads.create
    async def create(ctx: Auth.types.AuthContext, value: Any) -> Any:
        value["metadata"]["owner"] = ctx.user.identity
        assert (ctx.resource, ctx.action, ctx.permissions) == ("threads", "create", ["p"])
        return {"owner": ctx.user["identity"]}

    @auth.on.store
    async def store(ctx: Auth.types.AuthContext, value: Any) -> None:
        return None

    handlers = AuthHandlers(auth, "")
    assert handlers.hello == {"authenticate": False, "handlers": ["threads:create", "store", "*"]}
    user = {"identity": "ada", "display_name": "ada", "is_authenticated": True, "permissions": ["p"]}
    asked = {"name": "threads:create", "resource": "threads", "action": "create", "user": user}
    answer = orjson.loads(await handlers.authorize(asked, {"metadata": {}}))
    assert answer == {"result": {"owner": "ada"}, "value": {"metadata": {"owner": "ada"}}}
    assert orjson.loads(await handlers.authorize({**asked, "name": "store"}, {"a": 1})) == {"result": None}


def test_users_of_all_kinds_become_json() -> None:
    @dataclass
    class Member:
        identity: str
        org: str

        @property
        def permissions(self) -> tuple[str, ...]:
            return ("read",)

    members = user_members(Member("ada", "weft"))
    assert orjson.loads(to_json(members)) == {"identity": "ada", "org": "weft", "permissions": ["read"]}
    assert user_members("ada") == "ada" and user_members(17) is None and user_members({"a": 1}) == {"a": 1}
    with pytest.raises(ValueError):
        to_json({"owner": float("nan")})
    full = {"identity": "ada", "display_name": "Ada", "is_authenticated": True, "permissions": [], "org": "weft"}
    user = user_of(full)
    assert (user.identity, user.org, user["org"], "org" in user, user.get("x")) == ("ada", "weft", "weft", True, None)
    assert dict(user) == full and not hasattr(user, "nothing")
    assert isinstance(user_of({**full, "kind": "StudioUser"}), Auth.types.StudioUser)


def test_the_paths_of_an_application() -> None:
    async def endpoint(request: Any) -> Any: ...

    app = Starlette(routes=[Route("/a/{id}/b", endpoint), Route("/c", endpoint), Mount("/files", Starlette())])
    assert prefixes_of(app) == ["/a/", "/c", "/files"]
    app.add_middleware(lambda inner: inner)  # type: ignore[arg-type]
    assert prefixes_of(app) == ["/"]
    fast = FastAPI()
    fast.add_api_route("/mine", endpoint)
    remove_pages(fast)
    assert prefixes_of(fast) == ["/mine"], "its own pages would hide those of the API"
    fast.include_router(APIRouter())
    assert set(prefixes_of(fast)) <= {"/", "/mine"}


def test_an_export_that_is_no_application() -> None:
    with pytest.raises(
        ValueError, match=r"http\.app: \./a\.py:app is no application; expected one of Starlette or FastAPI"
    ):
        HttpServer(lambda scope: None, "./a.py:app", "/nowhere", lambda change: None)


async def test_a_lifespan_that_fails_at_the_start_is_one_sentence(tmp_path: Any) -> None:
    def lifespan(app: Any) -> Any:
        raise RuntimeError("no database")

    server = HttpServer(Starlette(lifespan=lifespan), "./a.py:app", str(tmp_path), lambda change: None)
    with pytest.raises(ValueError, match=r"http\.app: \./a\.py:app cannot be served: its lifespan failed"):
        await server.start()


def provider_module(monkeypatch: pytest.MonkeyPatch, init_embeddings: Any) -> None:
    """The package langchain with this `init_embeddings`."""
    for name in ("langchain", "langchain.embeddings"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    cast(Any, sys.modules["langchain.embeddings"]).init_embeddings = init_embeddings


class Lengths(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[len(text), 1.0, 2.0] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


async def test_an_embedder_of_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    provider_module(monkeypatch, lambda text: Lengths() if text == "fake:small" else None)
    embedder = Embedder.of(Export("fake:small", "fake:small", None, "/"))
    for kind in ("documents", "query"):
        answer = await embedder.embed(kind, ["a", "bb"])
        assert array("I", answer[:8]).tolist() == [3, 3]
        assert array("f", answer[8:]).tolist() == [1, 1, 2, 2, 1, 2]


@pytest.mark.parametrize(
    ("init_embeddings", "sentence"),
    [
        (None, "needs the package langchain and the one of the provider"),
        (ValueError("Unknown provider 'fake'"), "store.index.embed: fake:small: Unknown provider 'fake'"),
        (ImportError("Please install langchain-fake"), "store.index.embed: fake:small: Please install langchain-fake"),
    ],
)
def test_an_embedder_of_a_provider_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, init_embeddings: Exception | None, sentence: str
) -> None:
    def fail(text: str) -> Any:
        assert init_embeddings is not None
        raise init_embeddings

    if init_embeddings is None:
        monkeypatch.setitem(sys.modules, "langchain", None)
    else:
        provider_module(monkeypatch, fail)
    with pytest.raises(ValueError, match=sentence):
        Embedder.of(Export("fake:small", "fake:small", None, "/"))


def test_an_app_host_imports_no_langgraph() -> None:
    """Its import takes most of a second and 40 MB, and handlers of requests rarely need it."""
    program = "import sys, weft_host.app.main; print([name for name in sys.modules if name.startswith('lang')])"
    host = Path(__file__).resolve().parents[2] / "workers" / "host-python"
    assert subprocess.check_output([sys.executable, "-c", program], cwd=host, text=True) == "[]\n"


async def test_a_pair_of_permissions_and_user_and_a_value_error() -> None:
    async def pair(authorization: str) -> Any:
        return ["read", "write"], {"identity": "ada", "role": "x"}

    assert await answer_of(pair) == {"result": {"identity": "ada", "role": "x", "permissions": ["read", "write"]}}

    async def name_only(authorization: str) -> Any:
        return ("read",), "ada"

    assert await answer_of(name_only) == {"result": {"identity": "ada", "permissions": ["read"]}}

    async def refuses(authorization: str) -> Any:
        raise ValueError("no such tenant")

    refused = {"status": 400, "detail": "no such tenant", "headers": {}}
    assert await answer_of(refuses) == {"refused": refused}

    async def is_no_json(authorization: str) -> Any:
        return {"identity": "ada", "score": float("nan")}

    with pytest.raises(ValueError):
        await answer_of(is_no_json)
