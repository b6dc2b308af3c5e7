"""
`auth` of langgraph.json: calls the functions of an `Auth` of langgraph_sdk. What is asked about which request, and what
an answer means, is decided by the parent (workers/host/app/auth.ts). Every answer is JSON: `{result, value?}`, or
`{refused: {status, detail, headers}}` for an exception that asks for it. Any other exception fails the call.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from ..objects import JsonObject
from .parameters import arguments_for, parameters_of
from .user import to_json, user_members, user_of

UNAUTHORIZED, FORBIDDEN = 401, 403


class AuthHandlers:
    """Raises ValueError with one sentence for an export that is no Auth."""

    def __init__(self, exported: Any, text: str) -> None:
        handlers = getattr(exported, "_handlers", None)
        if not isinstance(handlers, Mapping) or not hasattr(exported, "_authenticate_handler"):
            raise ValueError(f"auth.path: {text} is no Auth; expected an instance of Auth of langgraph_sdk.")
        self.handler: Callable[..., Any] | None = exported._authenticate_handler
        self.wanted = () if self.handler is None else parameters_of(self.handler, text)
        self.callbacks: dict[str, Callable[..., Any]] = {
            name_of(resource, action): found[-1]
            for (resource, action), found in cast("Mapping[tuple[str, str], list[Any]]", handlers).items()
            if found
        }
        everything = cast("list[Any]", getattr(exported, "_global_handlers", None) or [])
        if everything:
            self.callbacks["*"] = everything[-1]

    @property
    def hello(self) -> JsonObject:
        return {"authenticate": self.handler is not None, "handlers": list(self.callbacks)}

    async def authenticate(self, asked: JsonObject, body: bytes) -> bytes:
        """`asked`: method, url, headers, params, query. The result is what the function returned, as JSON."""
        assert self.handler is not None
        try:
            arguments = arguments_for(self.wanted, asked, body)
            returned = await call(self.handler, **arguments)
        except Exception as error:
            return refused(error, UNAUTHORIZED)
        return to_json({"result": user_members(returned)})

    async def authorize(self, asked: JsonObject, value: Any) -> bytes:
        """`asked`: name of the handler, resource, action, user. The answer has `value` when the handler changed it."""
        from langgraph_sdk import Auth

        user = user_of(asked["user"])
        before = to_json(value)
        try:
            context = context_of(Auth.types.AuthContext, asked, user)
            result = await call(self.callbacks[asked["name"]], ctx=context, value=value)
        except Exception as error:
            return refused(error, FORBIDDEN)
        after = to_json(value)
        return to_json({"result": result, **({} if after == before else {"value": value})})


def name_of(resource: str, action: str) -> str:
    """As schemas/auth/auth.ts names handlers: `threads:create`, `threads`, `*:create`, `*`."""
    return resource if action == "*" else f"{resource}:{action}"


def context_of(kind: Any, asked: JsonObject, user: Any) -> Any:
    """An AuthContext: in some versions of the SDK its class takes no user."""
    context = kind.__new__(kind)
    for name in ("resource", "action"):
        setattr(context, name, asked[name])
    context.user, context.permissions = user, user.permissions
    return context


async def call(function: Callable[..., Any], *values: Any, **arguments: Any) -> Any:
    """A function that is not async runs in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*values, **arguments)
    result = await asyncio.to_thread(function, *values, **arguments)
    return await result if inspect.isawaitable(result) else result


def refused(error: Exception, asserted: int) -> bytes:
    """
    The HTTPException of the SDK or of Starlette, a failed assertion, and a ValueError, which is 400; any other
    exception is raised again.
    """
    if isinstance(error, AssertionError):
        return to_json({"refused": {"status": asserted, "detail": str(error) or "Not allowed", "headers": {}}})
    if isinstance(error, ValueError) and not hasattr(error, "status_code"):
        return to_json({"refused": {"status": 400, "detail": str(error) or "Bad request", "headers": {}}})
    status, detail = getattr(error, "status_code", None), getattr(error, "detail", None)
    if not isinstance(status, int) or detail is None or not 400 <= status < 600:
        raise error
    headers = dict(cast("Mapping[str, str]", getattr(error, "headers", None) or {}))
    text = detail if isinstance(detail, str) else to_json(detail).decode()
    return to_json({"refused": {"status": status, "detail": text, "headers": headers}})
