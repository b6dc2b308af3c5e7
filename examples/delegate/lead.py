"""An agent that gives work to another one. Each task is a run of its own on this server, on a thread of its own.

The subagent has no address, so the tools of deepagents call the server that runs the lead, as the user of its run.
"""

from __future__ import annotations

import re

from deepagents import AsyncSubAgent, create_deep_agent
from langchain_core.messages import BaseMessage, ToolMessage

from model import Call, chat_model

RESEARCHER = AsyncSubAgent(
    name="researcher",
    description="Reads every page of a library and answers a question. It takes a while.",
    graph_id="researcher",
)
PROMPT = "Give questions to the researcher, say at once that you did, and report what it finds when you are told."


def script(messages: list[BaseMessage]) -> str | Call:
    """Without a key: `research …`, `also …`, `status` and `stop` call a tool; a notification becomes a report."""
    last = messages[-1]
    if isinstance(last, ToolMessage):
        return last.text
    if found := re.search(r"<result>\s*(.*?)\s*</result>", last.text, re.DOTALL):
        return f"The researcher says: {found[1]}"
    if found := re.search(r"<status>(\w+)</status>", last.text):
        return f"The researcher is {found[1]}"
    order, _, rest = last.text.partition(" ")
    if order == "research":
        return Call("start_async_task", {"description": rest, "subagent_type": RESEARCHER["name"]})
    tasks = re.findall(r"Launched async subagent. task_id: (\S+)", "\n".join(message.text for message in messages))
    if order == "status":
        return Call("list_async_tasks", {})
    if tasks and order == "also":
        return Call("update_async_task", {"task_id": tasks[-1], "message": rest})
    if tasks and order == "stop":
        return Call("cancel_async_task", {"task_id": tasks[-1]})
    return "Say for example: research why are there tides?"


lead = create_deep_agent(model=chat_model(script), system_prompt=PROMPT, subagents=[RESEARCHER])
