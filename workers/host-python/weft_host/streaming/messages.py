"""The mode `messages`: each message so far, and each message when it is complete (docs/spec/streams.md#events)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from langchain_core.messages import BaseMessage, BaseMessageChunk, message_chunk_to_message

from ..objects import JsonObject
from ..render import render


class MessageTexts:
    """
    The mode `messages-tuple`: `[message, metadata]` as JSON. The tokens of a model share their metadata, which is
    rendered once.
    """

    def __init__(self) -> None:
        self.metadata: Any = None
        self.text = b"null"

    def of(self, message: Any, metadata: Any) -> bytes:
        if metadata is not self.metadata:
            self.metadata, self.text = metadata, render(metadata)
        return b"[%b,%b]" % (render(message), self.text)


class Accumulated:
    """
    messages/metadata once per message, messages/partial with the message so far, messages/complete once per message of
    this run when it is in the state.
    """

    def __init__(self, push: Callable[[str, bytes], None]) -> None:
        self.push = push
        self.growing: dict[str, BaseMessageChunk] = {}
        self.whole: set[str] = set()
        # Ids whose metadata was sent.
        self.told: set[str] = set()
        self.complete: set[str] = set()
        # Namespaces whose first state was seen: it holds the messages of earlier runs.
        self.started: set[str] = set()

    def chunk(self, message: BaseMessage, metadata: Any) -> None:
        id = message.id
        if id is None:
            return
        if id not in self.told:
            self.told.add(id)
            self.push("messages/metadata", render({id: {"metadata": metadata}}))
        if not isinstance(message, BaseMessageChunk):
            self.whole.add(id)
            return
        before = self.growing.get(id)
        now = message if before is None else before + message
        self.growing[id] = now
        # Its type is that of the message in the state.
        self.push("messages/partial", render([message_chunk_to_message(now)]))

    def values(self, ns: str, state: Any) -> None:
        is_first = ns not in self.started
        self.started.add(ns)
        done: list[BaseMessage] = []
        for message in messages_in(state):
            id = message.id
            if not id or id in self.complete:
                continue
            self.complete.add(id)
            is_own = self.growing.pop(id, None) is not None or id in self.whole
            self.whole.discard(id)
            if is_own or not is_first:
                done.append(message)
        if done:
            self.push("messages/complete", render(done))


def messages_in(state: Any) -> Iterator[BaseMessage]:
    values: Iterable[Any]
    if isinstance(state, Mapping):
        values = list(cast(Mapping[str, Any], state).values())
    elif isinstance(state, list | tuple):
        values = [cast(Any, state)]
    else:
        values = list(cast(JsonObject, vars(state)).values()) if hasattr(state, "__dict__") else []
    for value in values:
        for item in cast(Iterable[Any], value) if isinstance(value, list | tuple) else [value]:
            if isinstance(item, BaseMessage):
                yield item
