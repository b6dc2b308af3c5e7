"""The rules of test/apps/auth in Python: every user owns what they make, and headers ask for what a test needs."""

import asyncio
import re
import threading
import time

from langgraph_sdk import Auth
from starlette.requests import Request

USERS = ("alice", "bob", "carol")
auth = Auth()
authentications = 0


@auth.authenticate
async def authenticate(request: Request, authorization: str | None, headers: dict[bytes, bytes]) -> object:
    global authentications
    wish = request.headers.get("x-wish")
    assert headers.get(b"x-wish", b"").decode() == (wish or "")
    if wish == "throw":
        raise RuntimeError("a secret detail")
    if wish == "nothing":
        return None
    if wish == "nonsense":
        return {"permissions": ["all"]}
    if wish == "number":
        return 17
    if wish == "hang":
        await asyncio.sleep(3600)
    if wish == "block":
        time.sleep(3600)
    if wish == "exit":
        raise SystemExit(3)
    if wish == "killed":
        import os

        os.kill(os.getpid(), 9)
    match = re.fullmatch(r"Bearer (\w+)", authorization or "")
    if match is None or match[1] not in USERS:
        raise Auth.exceptions.HTTPException(status_code=401, detail="Who are you?", headers={"WWW-Authenticate": "X"})
    authentications += 1
    user = {"identity": match[1], "permissions": [f"{match[1]}:all"], "wish": wish, "authentications": authentications}
    return {**user, "thread": threading.current_thread() is threading.main_thread()}


@auth.on
async def everything(ctx: Auth.types.AuthContext, value: dict) -> object:
    user = ctx.user
    if isinstance(user, Auth.types.StudioUser):
        return {"owner": user.identity}
    wish = user.get("wish")
    if wish == "handler:throw":
        raise RuntimeError("a secret detail")
    if wish == "handler:false":
        return False
    if wish == "handler:number":
        return 17
    if wish == "handler:list":
        return []
    if wish == "handler:operator":
        return {"owner": {"$ne": user.identity}}
    if wish == "handler:undefined":
        return {"owner": float("nan")}
    if wish == "handler:hang":
        await asyncio.sleep(3600)
    assert wish != "handler:assert", "not today"
    if wish == f"deny {ctx.resource}:{ctx.action}":
        return False
    if isinstance(value.get("metadata"), dict):
        value["metadata"]["owner"] = user.identity
    return {"owner": user["identity"]}


@auth.on.store
async def store(ctx: Auth.types.AuthContext, value: dict) -> object:
    if isinstance(ctx.user, Auth.types.StudioUser):
        return None
    wish = ctx.user.wish or ""
    if wish.startswith("handler:"):
        return 17
    # Carol has a part of the store of her own; the others share it and see what names them.
    if ctx.user.identity != "carol":
        return {"namespace": {"$contains": ctx.user.identity}}
    value["namespace"] = ["of-carol", *(value.get("namespace") or [])]
    return None
