"""The user of a request: what `authenticate` returned as JSON, and as the handlers of `on` see it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any, cast
from uuid import UUID

MEMBERS = ("identity", "display_name", "is_authenticated", "permissions")


def to_json(value: Any) -> bytes:
    """Raises TypeError or ValueError for what JSON does not have, such as NaN: it would become another value."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, default=plain).encode()


def plain(value: Any) -> Any:
    """For what is no JSON by itself. Raises TypeError."""
    if isinstance(value, Mapping):
        return dict(cast(Mapping[str, Any], value))
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return list(cast("set[Any]", value))
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"a value of the type {type(value).__name__} is no JSON")


def user_members(returned: Any) -> Any:
    """
    A text or a mapping as it is; of an object its members; of a pair of permissions and a user, the user with these
    permissions. None for anything else.
    """
    pair = cast("tuple[Any, ...]", returned) if isinstance(returned, tuple) else ()
    if len(pair) == 2:
        permissions, user = pair
        members = user_members(user)
        if members is None:
            return None
        own = {"identity": members} if isinstance(members, str) else dict(members)
        return {**own, "permissions": list(permissions)}
    if isinstance(returned, (str, Mapping)):
        return cast(Any, returned)
    if getattr(cast(Any, returned), "identity", None) is None:
        return None
    anything: Any = cast(Any, returned)
    members = members_of(anything)
    for name in MEMBERS:
        if (found := getattr(anything, name, None)) is not None:
            members[name] = list(cast("Sequence[str]", found)) if name == "permissions" else found
    return members


def members_of(user: Any) -> dict[str, Any]:
    try:
        return dict(plain(user))
    except TypeError:
        found: dict[str, Any] = getattr(user, "__dict__", {})
        return {name: each for name, each in found.items() if not name.startswith("_")}


class User:
    """The BaseUser of the SDK: members as attributes and as items."""

    def __init__(self, members: Mapping[str, Any]) -> None:
        self._members = dict(members)

    @property
    def identity(self) -> str:
        return self._members["identity"]

    @property
    def display_name(self) -> str:
        return self._members["display_name"]

    @property
    def is_authenticated(self) -> bool:
        return self._members["is_authenticated"]

    @property
    def permissions(self) -> list[str]:
        return self._members["permissions"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._members[name]
        except KeyError:
            raise AttributeError(f"the user has no {name}") from None

    def __getitem__(self, name: str) -> Any:
        return self._members[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self._members.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def keys(self) -> Any:
        return self._members.keys()

    def items(self) -> Any:
        return self._members.items()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, User) and other._members == self._members

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"User({self.identity!r})"


def user_of(members: Mapping[str, Any]) -> Any:
    """A user of LangGraph Studio is one of the SDK: handlers test its class."""
    if members.get("kind") == "StudioUser":
        from langgraph_sdk.auth.types import StudioUser

        return StudioUser(members["identity"], is_authenticated=True)
    return User(members)
