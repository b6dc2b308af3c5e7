"""A server of FastAPI with routes of its own, and the API of the agent at /agent.

`weft_asgi` starts Weft with this server, and stops it with this server.
"""

from pathlib import Path

import weft_asgi
from fastapi import FastAPI

HERE = Path(__file__).parent

agent = weft_asgi.app(HERE / "agent", data=HERE / ".weft")
app = FastAPI(lifespan=agent.lifespan)


@app.get("/hello")
async def hello() -> dict[str, str]:
    return {"says": "a route of your own"}


app.mount("/agent", agent)
