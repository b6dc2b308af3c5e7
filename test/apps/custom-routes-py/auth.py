from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
def authenticate(headers: dict) -> str:
    user = headers.get(b"x-user")
    if user is None:
        raise Auth.exceptions.HTTPException(status_code=401, detail="Who are you?")
    return user.decode()
