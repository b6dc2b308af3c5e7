"""START ─▶ model ─▶ END: plans a day in a city."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.graph import START, MessagesState, StateGraph

from model import chat_model


def script(messages: list[BaseMessage]) -> str:
    if len([message for message in messages if message.type == "human"]) > 1:
        return "Then have dinner late, and walk back along the river."
    return "Start with coffee at the market, see one museum before noon, and keep the hills for the evening light."


async def model(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await chat_model(script).ainvoke(state["messages"])]}


planner = StateGraph(MessagesState).add_node("model", model).add_edge(START, "model").compile()
