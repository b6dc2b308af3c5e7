"""The graphs of test/apps/spans in Python, with synchronous and asynchronous nodes."""

import contextlib
from typing import Any, TypedDict

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt


class State(TypedDict, total=False):
    text: str


class Parrot(BaseChatModel):
    """Answers "Hello world" in two tokens, and reports what a provider reports."""

    @property
    def _llm_type(self) -> str:
        return "parrot"

    def _get_ls_params(self, **options: Any) -> Any:
        return {
            **super()._get_ls_params(**options),
            "ls_provider": "forest",
            "ls_model_name": "parrot-1",
        }

    def _generate(self, *args: Any, **options: Any) -> ChatResult:
        raise NotImplementedError

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
        usage = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
        for text, more in (("Hello ", {}), ("world", {"usage_metadata": usage})):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=text, **more))
            if run_manager is not None:
                run_manager.on_llm_new_token(text, chunk=chunk)
            yield chunk


@tool
def look_up(word: str) -> str:
    """Looks a word up."""
    return f"{word}?"


@tool
def broken(word: str) -> str:
    """Fails."""
    raise ValueError("no such word\nand more that nobody needs")


async def think(state: State) -> State:
    return {"text": "".join([str(part.content) async for part in Parrot().astream("Hello")])}


def act(state: State) -> State:
    with contextlib.suppress(ValueError):
        broken.invoke({"word": "a"})
    return {"text": look_up.invoke({"word": "b"})}


def leaf(state: State) -> State:
    return {"text": "leaf"}


def bad(state: State) -> State:
    raise ValueError("too bad\nsecond line")


def before(state: State) -> State:
    return {}


def question(state: State) -> State:
    return {"text": interrupt("Which?")}


inner = StateGraph(State).add_node("leaf", leaf).add_edge(START, "leaf").compile()
agent = (
    StateGraph(State)
    .add_node("think", think)
    .add_node("act", act)
    .add_node("inner", inner)
    .add_edge(START, "think")
    .add_edge("think", "act")
    .add_edge("act", "inner")
    .compile()
)
fail = StateGraph(State).add_node("bad", bad).add_edge(START, "bad").compile()
ask = (
    StateGraph(State)
    .add_node("before", before)
    .add_node("question", question)
    .add_edge(START, "before")
    .add_edge("before", "question")
    .compile()
)
