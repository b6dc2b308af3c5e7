"""The chat model of an example: that of a provider when its key is in the environment, else a script.

Each example in Python has this file, so that its folder can be copied alone; what the script says is beside the graph.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult


class Call(NamedTuple):
    """A reply that calls a tool."""

    tool: str
    args: dict[str, Any]


Script = Callable[[list[BaseMessage]], str | Call]

# The variable of the key, the provider, and its default model.
PROVIDERS = (("OPENAI_API_KEY", "openai", "openai:gpt-5-mini"), ("ANTHROPIC_API_KEY", "anthropic", None))
# The pause before each token of the script.
TOKEN_SECONDS = 0.01


def chat_model(script: Script) -> BaseChatModel:
    """`MODEL` names the model, as `openai:gpt-5`; OpenAI has a default."""
    for key, provider, default in PROVIDERS:
        if not os.environ.get(key):
            continue
        name = os.environ.get("MODEL") or default
        if name is None:
            raise RuntimeError(f"{key} is set: MODEL must name a model of it, as {provider}:NAME")
        try:
            import_module(f"langchain_{provider}")
            models = import_module("langchain.chat_models")
        except ImportError as error:
            needed = f"add langchain and langchain-{provider} to requirements.txt"
            raise RuntimeError(f"{key} is set, and its model needs two packages: {needed}") from error
        return models.init_chat_model(name)
    return ScriptedModel(script=script)


class ScriptedModel(BaseChatModel):
    """Streams the reply of the script word by word, as a model of a provider would."""

    script: Script

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> ScriptedModel:
        """The script knows the tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        reply = self.script(messages)
        text, calls = ("", [call_of(reply)]) if isinstance(reply, Call) else (reply, [])
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=text, tool_calls=calls))])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        reply = self.script(messages)
        if isinstance(reply, Call):
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_calls=[call_of(reply)]))
            return
        for token in re.findall(r"\s*\S+", reply):
            await asyncio.sleep(TOKEN_SECONDS)
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=token))
            if run_manager:
                await run_manager.on_llm_new_token(token, chunk=chunk)
            yield chunk


def call_of(reply: Call) -> ToolCall:
    return ToolCall(name=reply.tool, args=reply.args, id=f"call_{uuid4()}", type="tool_call")
