"""
`http.app` of langgraph.json: a Starlette or FastAPI application, served by uvicorn on a Unix socket to which the edge
connects. What the application does not serve goes back to the edge, inside of the application's middleware, which
therefore wraps the built-in routes. Its lifespan is that of this process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from .loopback import EdgeApp

# schemas/app-host.ts
APP_SOCKET = "app/app.sock"
# The edge closes unused connections.
KEEP_ALIVE_S = 24 * 3600
# Time limit of the lifespan's end, in seconds. The parent kills this process after 3 s.
STOP_S = 2.0
LOOK_S = 0.01


class HttpServer:
    """Raises ValueError with one sentence for an export that is no application. `use` counts requests."""

    def __init__(self, app: Any, text: str, folder: str, use: Callable[[int], None]) -> None:
        router = getattr(app, "router", None)
        if not callable(app) or not hasattr(router, "routes") or not hasattr(router, "default"):
            raise ValueError(f"http.app: {text} is no application; expected one of Starlette or FastAPI.")
        try:
            import uvicorn
        except ImportError:
            raise ValueError(
                f"http.app: {text} needs the package uvicorn: add it to the dependencies of the application."
            ) from None
        self.app: Any = app
        self.text, self.use = text, use
        remove_pages(app)
        self.prefixes = prefixes_of(app)
        # Unknown paths are for the built-in routes, and not for a 404 of the application.
        cast(Any, router).default = EdgeApp(folder)
        path = str(Path(folder) / APP_SOCKET)
        Path(path).unlink(missing_ok=True)
        options: dict[str, Any] = {
            "uds": path,
            "lifespan": "on",
            "interface": "asgi3",
            "log_config": None,
            "access_log": False,
            "proxy_headers": False,
            "server_header": False,
            "date_header": False,
            "timeout_keep_alive": KEEP_ALIVE_S,
            "timeout_graceful_shutdown": 1,
        }
        self.server = uvicorn.Server(uvicorn.Config(self.counted, **options))
        self.serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when the lifespan has begun and the socket listens. Raises ValueError with one sentence."""
        self.serving = asyncio.get_running_loop().create_task(self.serve())
        while not self.server.started:
            if self.serving.done():
                error = self.serving.exception()
                why = "its lifespan failed at the start" if error is None else f"{type(error).__name__}: {error}"
                raise ValueError(f"http.app: {self.text} cannot be served: {why}")
            await asyncio.sleep(LOOK_S)

    async def serve(self) -> None:
        # Without its handlers of signals: the end of the pipe ends this process.
        serve = getattr(self.server, "_serve", self.server.serve)
        # uvicorn logs why a lifespan failed, and exits.
        with contextlib.suppress(SystemExit):
            await serve()

    async def stop(self) -> None:
        self.server.should_exit = True
        if self.serving is not None:
            await asyncio.wait([self.serving], timeout=STOP_S)

    async def counted(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        self.use(1)
        try:
            await self.app(scope, receive, send)
        finally:
            self.use(-1)


def remove_pages(app: Any) -> None:
    """FastAPI's own pages would hide those of the API, which have the same paths."""
    own = {
        getattr(app, name, None) for name in ("openapi_url", "docs_url", "redoc_url", "swagger_ui_oauth2_redirect_url")
    }
    routes: list[Any] = app.router.routes
    routes[:] = [route for route in routes if not (getattr(route, "path", None) in own - {None} and is_page(route))]


def is_page(route: Any) -> bool:
    return getattr(getattr(route, "endpoint", None), "__module__", "") == "fastapi.applications"


def prefixes_of(app: Any) -> list[str]:
    """The beginnings of the paths that it may handle: all of them if it has middleware."""
    if getattr(app, "user_middleware", None):
        return ["/"]
    return sorted({prefix_of(route) for route in app.router.routes})


def prefix_of(route: Any) -> str:
    path = getattr(route, "path", None)
    # A route of a host, or of a router that FastAPI includes: any path.
    return path.split("{")[0] or "/" if isinstance(path, str) else "/"
