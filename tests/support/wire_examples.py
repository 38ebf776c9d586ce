"""Messages and other classes that cross the wire, for its tests."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any, Generic, NewType, TypeVar

import attrs
import pytest

from retinue.mailbox.errors import WireError
from retinue.mailbox.messages import Message, Request, message
from retinue.mailbox.wire import WireRegistry

T = TypeVar("T")
Cents = NewType("Cents", int)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"
    NONE = None


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@attrs.frozen
class Point:
    x: int
    y: int = 0


@attrs.frozen
class Node:
    value: int
    next: Node | None = None
    children: tuple[Node, ...] = ()


@attrs.frozen
class Pair(Generic[T]):
    first: T
    second: T


@dataclasses.dataclass
class Item:
    name: str
    tags: list[str] = dataclasses.field(default_factory=list)
    _private: int = 0


@attrs.frozen
class Private:
    _hidden: int
    made: int = attrs.field(init=False, default=7)
    only: int = attrs.field(kw_only=True, default=1)


@message(name="shop/Pay@1", timeout=5)
class Pay(Request[int]):
    amount: int
    note: str = ""


@message
class Batch(Message):
    messages: list[Message]


@message
class Wrapped(Request[T], Generic[T]):
    value: T


@message
class Positive(Message):
    x: int = attrs.field(validator=attrs.validators.gt(0))


@message
class Anything(Message):
    value: Any


class Plain:
    """Has no form on the wire."""


def examples() -> WireRegistry:
    """A registry that knows the messages above."""
    registry = WireRegistry()
    for cls in (Pay, Batch, Wrapped, Positive, Anything):
        registry.register(cls)
    return registry


def problem_of(call: Any, *arguments: Any) -> tuple[str, str]:
    """The problem and the text of the WireError that the call raises."""
    with pytest.raises(WireError) as caught:
        call(*arguments)
    return caught.value.problem, str(caught.value)


def pay_bytes(**fields: Any) -> bytes:
    """A `Pay` with these fields, whether they fit or not."""
    return json.dumps({"type": "shop/Pay@1", "body": fields}).encode()
