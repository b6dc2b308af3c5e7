"""A chat agent. Its model is scripted, so that it runs without a key: replace it by one of a provider."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


def model_for(question: str) -> GenericFakeChatModel:
    """As `init_chat_model("openai:gpt-5")` of the package langchain."""
    return GenericFakeChatModel(messages=iter([AIMessage(f"You said: {question}. I am a scripted model.")]))


async def answer(state: MessagesState) -> dict[str, Any]:
    messages = state["messages"]
    return {"messages": [await model_for(str(messages[-1].content)).ainvoke(messages)]}


agent = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()
