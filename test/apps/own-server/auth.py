"""Each user has threads of their own."""

from typing import Any

from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def authenticate(headers: dict[bytes, bytes]) -> Any:
    name = headers.get(b"x-user", b"").decode()
    if not name:
        raise Auth.exceptions.HTTPException(status_code=401, detail="no user")
    return ["read"], {"identity": name, "role": "editor"}


@auth.on.threads
async def owned(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> dict[str, str]:
    value.setdefault("metadata", {})["owner"] = ctx.user.identity
    return {"owner": ctx.user.identity}
