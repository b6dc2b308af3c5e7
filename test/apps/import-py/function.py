"""A functional graph."""

from langgraph.func import entrypoint, task


@task
def double(number: int) -> int:
    return number * 2


async def body(given: dict, *, previous=None) -> dict:
    return {"doubled": await double(given["number"]), "before": previous}


graph = entrypoint()(body)
