"""The API of Weft inside another ASGI server: `app.mount("/agent", weft_asgi.app("./agent"))`."""

from .app import App
from .app import App as app  # noqa: N813

__all__ = ["App", "app"]
