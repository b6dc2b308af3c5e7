"""The parameters of `authenticate`, by name: what the SDK documents for a request."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import orjson

from ..objects import JsonObject

PARAMETERS = frozenset(
    ("request", "body", "path", "method", "path_params", "query_params", "headers", "authorization", "scope")
)


class BadBody(Exception):
    """Answered as an HTTPException."""

    status_code, detail = 400, "The body is not JSON in UTF-8"


class Headers(dict[bytes, bytes]):
    """As the server of LangGraph Platform passes them: bytes by lower-case bytes. Also found by text, as text."""

    def __getitem__(self, name: Any) -> Any:
        return (
            super().__getitem__(name.lower().encode()).decode("latin-1")
            if isinstance(name, str)
            else super().__getitem__(name)
        )

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name.lower().encode() if isinstance(name, str) else name)

    def get(self, name: Any, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401


def parameters_of(handler: Callable[..., Any], text: str) -> tuple[str, ...]:
    """Raises ValueError for a parameter that nobody fills."""
    names: list[str] = []
    for name, parameter in inspect.signature(handler).parameters.items():
        if name in PARAMETERS:
            names.append(name)
        elif (
            parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            or parameter.default is not parameter.empty
        ):
            continue
        else:
            known = ", ".join(sorted(PARAMETERS))
            raise ValueError(f'auth.path: authenticate of {text} has the parameter "{name}"; expected {known}.')
    if "request" in names and importlib.util.find_spec("starlette") is None:
        raise ValueError(
            f"auth.path: authenticate of {text} asks for request, which needs the package starlette: "
            "add it to the dependencies of the application."
        )
    return tuple(names)


def arguments_for(wanted: tuple[str, ...], asked: JsonObject, body: bytes) -> dict[str, Any]:
    url = urlsplit(cast(str, asked["url"]))
    headers = Headers((name.encode(), value.encode("latin-1", "replace")) for name, value in asked["headers"])
    values: dict[str, Callable[[], Any]] = {
        "request": lambda: request_of(scope_of(asked, headers), body),
        "scope": lambda: scope_of(asked, headers),
        "body": lambda: orjson.loads(body) if body else None,
        "path": lambda: url.path,
        "method": lambda: asked["method"],
        "path_params": lambda: asked["params"],
        "query_params": lambda: dict(parse_qsl(asked["query"], keep_blank_values=True)),
        "headers": lambda: headers,
        "authorization": lambda: headers.get("authorization"),
    }
    try:
        return {name: values[name]() for name in wanted}
    except orjson.JSONDecodeError:
        raise BadBody from None


def scope_of(asked: JsonObject, headers: Headers) -> JsonObject:
    """The scope of ASGI."""
    url = urlsplit(cast(str, asked["url"]))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": asked["method"],
        "scheme": url.scheme,
        "path": url.path,
        "raw_path": url.path.encode(),
        "root_path": "",
        "query_string": asked["query"].encode(),
        "headers": list(headers.items()),
        "server": (url.hostname or "", url.port or 80),
        "client": None,
        "path_params": asked["params"],
    }


def request_of(scope: JsonObject, body: bytes) -> Any:
    from starlette.requests import Request

    async def receive() -> JsonObject:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(scope, receive)
