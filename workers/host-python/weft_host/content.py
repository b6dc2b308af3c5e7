"""
Chat messages as content blocks of protocol v2: a message starts, its blocks start, grow and finish one after the other,
and the message finishes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
from langchain_core.messages import BaseMessage, BaseMessageChunk

from .objects import JsonObject

Namespace = Sequence[str]
# The key of a block, its first content, and what it grows by.
Piece = tuple[str, JsonObject, JsonObject | None]

ROLES = {"human": "human", "HumanMessageChunk": "human", "system": "system", "tool": "tool"}
# Parts of the content that the tool calls of the message also carry.
TOOL_PARTS = ("tool_use", "tool_call", "tool_call_chunk", "input_json_delta")
# Name in the event -> key in the metadata of the library.
METADATA = {
    "provider": "ls_provider",
    "model": "ls_model_name",
    "model_type": "ls_model_type",
    "langgraph_node": "langgraph_node",
    "langgraph_step": "langgraph_step",
    "run_id": "run_id",
    "thread_id": "thread_id",
}


def no_block() -> JsonObject:
    return {}


@dataclass(slots=True)
class Message:
    """A message that grows. `task`: the namespace of the task that writes it."""

    id: str
    ns: Namespace
    task: list[str]
    node: str | None
    # The block that grows, and the number of blocks so far.
    key: str | None = None
    block: JsonObject = field(default_factory=no_block)
    count: int = 0
    usage: JsonObject | None = None


class Content:
    def __init__(self, send: Callable[[Namespace, str | None, JsonObject], None]) -> None:
        self.send_event = send
        self.growing: dict[str, Message] = {}

    def take(self, ns: Namespace, task: list[str], message: BaseMessage, metadata: JsonObject) -> None:
        """A token or a whole message."""
        if not message.id:
            return
        known = self.growing.get(message.id)
        if known is None:
            known = Message(message.id, ns, task, metadata.get("langgraph_node"))
            self.growing[message.id] = known
            call = {"tool_call_id": cast(Any, message).tool_call_id} if hasattr(message, "tool_call_id") else {}
            shown = {name: metadata[key] for name, key in METADATA.items() if key in metadata}
            role = ROLES.get(message.type, "ai")
            self.send(known, {"event": "message-start", "role": role, "id": known.id, **call, "metadata": shown})
        for piece in pieces_of(message):
            self.grow(known, piece)
        known.usage = summed(known.usage, getattr(message, "usage_metadata", None))
        if not isinstance(message, BaseMessageChunk):
            self.finish_message(known)

    def finish(self, ns: Namespace) -> None:
        """Finishes the messages of the task in `ns`, and of the tasks below it."""
        for message in list(self.growing.values()):
            if message.task[: len(ns)] == list(ns):
                self.finish_message(message)

    def fail(self, error: str) -> None:
        for message in self.growing.values():
            self.send(message, {"event": "error", "message": error})
        self.growing.clear()

    def send(self, message: Message, data: JsonObject) -> None:
        # Messages of one namespace may grow at the same time: each SDK distinguishes them by its own key.
        self.send_event(message.ns, message.node, {**data, "message_id": message.id, "run_id": message.id})

    def grow(self, message: Message, piece: Piece) -> None:
        key, block, delta = piece
        if message.key != key:
            self.finish_block(message)
            message.key, message.block = key, dict(block)
            self.send(message, {"event": "content-block-start", "index": message.count, "content": block})
            message.count += 1
        if delta is None:
            return
        extend(message.block, delta)
        # A patch replaces the block, so it carries everything so far.
        sent = {"type": "block-delta", "fields": dict(message.block)} if delta["type"] == "block-delta" else delta
        self.send(message, {"event": "content-block-delta", "index": message.count - 1, "delta": sent})

    def finish_block(self, message: Message) -> None:
        if message.key is None:
            return
        message.key = None
        content = finished(message.block)
        self.send(message, {"event": "content-block-finish", "index": message.count - 1, "content": content})

    def finish_message(self, message: Message) -> None:
        self.finish_block(message)
        self.growing.pop(message.id, None)
        self.send(message, {"event": "message-finish", **({} if message.usage is None else {"usage": message.usage})})


def pieces_of(message: BaseMessage) -> Iterator[Piece]:
    content, extra = cast(Any, message).content, message.additional_kwargs
    reasoning = extra.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning:
        yield reasoning_piece("reasoning", reasoning)
    if isinstance(content, str):
        if content:
            yield text_piece("text", content)
    else:
        for place, part in enumerate(cast(list[Any], content)):
            if isinstance(part, str):
                yield text_piece("text", part)
            elif isinstance(part, Mapping):
                yield from part_pieces(cast(JsonObject, part), place)
    if isinstance(message, BaseMessageChunk):
        yield from call_chunk_pieces(getattr(message, "tool_call_chunks", ()))
        return
    for call in cast(Sequence[JsonObject], getattr(message, "tool_calls", ())):
        block = {"type": "tool_call", "id": call["id"], "name": call["name"], "args": call["args"]}
        yield f"call {call['id']}", block, None


def call_chunk_pieces(chunks: Sequence[JsonObject]) -> Iterator[Piece]:
    for chunk in chunks:
        index, id, name = chunk.get("index"), chunk.get("id"), chunk.get("name")
        block = {"type": "tool_call_chunk", "id": id, "name": name, "args": ""}
        fields = {"id": id, "name": name, "args": chunk.get("args")}
        yield f"tool {id or '' if index is None else index}", block, {"type": "block-delta", "fields": fields}


def part_pieces(part: JsonObject, place: int) -> Iterator[Piece]:
    kind, text, index = part.get("type"), part.get("text"), part.get("index", "")
    reasoning = part.get("reasoning") or part.get("thinking")
    if kind in TOOL_PARTS:
        return
    if isinstance(text, str) and kind in ("text", "text_delta"):
        yield text_piece(f"text {index}", text)
    elif isinstance(reasoning, str):
        yield reasoning_piece(f"{kind} {index}", reasoning)
    else:
        yield f"{kind} {index} {place}", part, None


def text_piece(key: str, text: str) -> Piece:
    return key, {"type": "text", "text": ""}, {"type": "text-delta", "text": text}


def reasoning_piece(key: str, reasoning: str) -> Piece:
    return key, {"type": "reasoning", "reasoning": ""}, {"type": "reasoning-delta", "reasoning": reasoning}


def extend(block: JsonObject, delta: JsonObject) -> None:
    if delta["type"] == "text-delta":
        block["text"] += delta["text"]
    elif delta["type"] == "reasoning-delta":
        block["reasoning"] += delta["reasoning"]
    else:
        fields: JsonObject = delta["fields"]
        block["id"] = block.get("id") or fields.get("id")
        block["name"] = block.get("name") or fields.get("name")
        block["args"] += fields.get("args") or ""


def finished(block: JsonObject) -> JsonObject:
    """A finished tool call has its arguments as a value, or says that they cannot be read."""
    if block.get("type") != "tool_call_chunk":
        return block
    call = {"id": block["id"], "name": block["name"]}
    try:
        return {"type": "tool_call", **call, "args": orjson.loads(block["args"]) if block["args"] else {}}
    except ValueError:
        return {"type": "invalid_tool_call", **call, "args": block["args"], "error": "The arguments are not JSON"}


def summed(before: JsonObject | None, more: Any) -> JsonObject | None:
    """The token usage of all chunks of a message."""
    if not more or before is None:
        return dict(more) if more else before
    total = dict(before)
    for key, value in more.items():
        known = total.get(key)
        if isinstance(value, int | float) and isinstance(known, int | float):
            total[key] = known + value
        elif value is not None:
            total[key] = value
    return total
