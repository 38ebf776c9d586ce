"""Generated message classes with values for their fields, for Hypothesis."""

from __future__ import annotations

import datetime as dt
import enum
import functools
import operator
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import attrs
from hypothesis import strategies as st

from retinue.mailbox.messages import Message, message

__all__ = ["Shape", "json_values", "messages", "shapes"]

Shape: TypeAlias = tuple[Any, st.SearchStrategy[Any]]
"""A type that crosses the wire, and the values of it."""


class Suit(enum.Enum):
    """By value."""

    CLUBS = "c"
    HEARTS = "h"


class Odd(enum.Enum):
    """By name."""

    ONE = 1
    TWO = "2"


@attrs.frozen
class Leaf:
    """A nested attrs class."""

    x: int
    word: str | None = None


@attrs.frozen
class Twig:
    """Another, to be told apart from `Leaf`."""

    x: int


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
integers = st.integers(-(10**40), 10**40)
floats = st.floats(allow_nan=False, allow_infinity=False)
offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
decimals = st.decimals(allow_nan=False, allow_infinity=False)

SCALARS: list[Shape] = [
    (str, text),
    (int, integers),
    (float, floats),
    (bool, st.booleans()),
    (type(None), st.none()),
    (bytes, st.binary(max_size=20)),
    (Decimal, decimals),
    (dt.datetime, st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 1, 1), timezones=offsets)),  # noqa: DTZ001 -- bounds are naive
    (dt.date, st.dates()),
    (dt.timedelta, st.timedeltas()),
    (uuid.UUID, st.uuids()),
    (Suit, st.sampled_from(Suit)),
    (Odd, st.sampled_from(Odd)),
    (Literal["a", 1], st.sampled_from(["a", 1])),
    (Leaf, st.builds(Leaf, integers, st.none() | text)),
    (Twig, st.builds(Twig, integers)),
]

json_values = st.recursive(
    st.none() | st.booleans() | integers | floats | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


def _hashable(shape: Shape) -> bool:
    return shape[0] in {kind for kind, _ in SCALARS}


def _wider(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    def of(make: Callable[[Any], Any], values: Callable[[Any], Any]) -> st.SearchStrategy[Shape]:
        return inner.map(lambda shape: (make(shape[0]), values(shape[1])))

    keys = st.sampled_from(SCALARS)
    return st.one_of(
        of(lambda kind: list[kind], lambda values: st.lists(values, max_size=3)),
        of(lambda kind: tuple[kind, ...], lambda values: st.lists(values, max_size=3).map(tuple)),
        of(lambda kind: kind | None, lambda values: st.none() | values),
        st.lists(inner, max_size=3).map(
            lambda shapes: (tuple[tuple(kind for kind, _ in shapes)], st.tuples(*(values for _, values in shapes)))
        ),
        keys.map(lambda shape: (frozenset[shape[0]], st.frozensets(shape[1], max_size=3))),
        st.tuples(keys, inner).map(lambda pair: (dict[pair[0][0], pair[1][0]], st.dictionaries(pair[0][1], pair[1][1], max_size=3))),
        st.lists(keys, min_size=2, max_size=4).map(
            lambda shapes: (functools.reduce(operator.or_, (kind for kind, _ in shapes)), st.one_of(*(values for _, values in shapes)))
        ),
    )


shapes: st.SearchStrategy[Shape] = st.recursive(st.sampled_from([*SCALARS, (Any, json_values)]), _wider, max_leaves=4)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """A message of a class made for it."""
    fields = draw(st.lists(shapes, max_size=4))
    names = [f"field_{index}" for index in range(len(fields))]
    body = {"__annotations__": {name: kind for name, (kind, _) in zip(names, fields, strict=True)}, "__module__": __name__}
    cls = message(type("Generated", (Message,), body))
    return cls(*(draw(values) for _, values in fields))
