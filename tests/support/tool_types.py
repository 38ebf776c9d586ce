"""Types that a tool may take, with values of theirs and how a model writes those as JSON: for laws about any signature."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import pathlib
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypedDict

import attrs
from hypothesis import strategies as st

__all__ = ["Case", "Colour", "Leaf", "Pair", "Point", "Tree", "kinds", "signatures"]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@attrs.frozen
class Point:
    x: int
    label: str = "origin"


@dataclasses.dataclass(frozen=True)
class Pair:
    left: Point
    right: float | None = None


class Leaf(TypedDict):
    name: str


class Spot(NamedTuple):
    row: int
    column: str = "a"


@attrs.frozen
class Tree:
    value: int
    branches: list[Tree] = attrs.field(factory=list)


@attrs.frozen
class Case:
    """A type, a value of it, and that value as JSON."""

    annotation: Any
    value: Any
    written: Any


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTS = st.integers(-(10**30), 10**30)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def _plain(annotation: Any, values: st.SearchStrategy[Any], write: Callable[[Any], Any] = lambda value: value) -> st.SearchStrategy[Case]:
    return values.map(lambda value: Case(annotation, value, write(value)))


SCALARS: st.SearchStrategy[Case] = st.one_of(
    _plain(str, TEXT),
    _plain(int, INTS),
    _plain(float, FLOATS),
    _plain(bool, st.booleans()),
    _plain(type(None), st.none()),
    _plain(bytes, st.binary(max_size=8), lambda value: base64.b64encode(value).decode()),
    _plain(dt.date, st.dates(), lambda value: value.isoformat()),
    _plain(dt.datetime, st.datetimes(timezones=st.just(dt.UTC)), lambda value: value.isoformat()),
    _plain(dt.time, st.times(), lambda value: value.isoformat()),
    _plain(uuid.UUID, st.uuids(), str),
    _plain(Decimal, st.decimals(allow_nan=False, allow_infinity=False, places=3), str),
    _plain(pathlib.Path, st.from_regex(r"[a-z]{1,4}(/[a-z]{1,4}){0,2}", fullmatch=True).map(pathlib.Path), str),
    _plain(Colour, st.sampled_from(Colour), lambda value: value.value),
    _plain(Size, st.sampled_from(Size), int),
    _plain(Literal["km", "miles"], st.sampled_from(["km", "miles"])),
    _plain(
        Any,
        st.recursive(
            TEXT | INTS | st.booleans() | st.none(), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2)
        ),
    ),
    _plain(Point, st.builds(Point, INTS, TEXT), lambda value: {"x": value.x, "label": value.label}),
    _plain(
        Pair,
        st.builds(Pair, st.builds(Point, INTS, TEXT), st.none() | FLOATS),
        lambda value: {"left": {"x": value.left.x, "label": value.left.label}, "right": value.right},
    ),
    _plain(Leaf, st.fixed_dictionaries({"name": TEXT})),
    _plain(Spot, st.builds(Spot, INTS, TEXT), lambda value: value._asdict()),
    _plain(
        Tree,
        st.recursive(st.builds(Tree, INTS), lambda inner: st.builds(Tree, INTS, st.lists(inner, max_size=2)), max_leaves=4),
        lambda value: _tree(value),
    ),
)


def _tree(tree: Tree) -> dict[str, Any]:
    return {"value": tree.value, "branches": [_tree(branch) for branch in tree.branches]}


def _wrapped(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    """Collections of one case, repeated: all items are of one type."""
    return st.one_of(
        inner.map(lambda one: Case(list[one.annotation], [one.value, one.value], [one.written, one.written])),  # type: ignore[name-defined]
        inner.map(lambda one: Case(tuple[one.annotation, str], (one.value, "end"), [one.written, "end"])),  # type: ignore[name-defined]
        inner.map(lambda one: Case(tuple[one.annotation, ...], (one.value,), [one.written])),  # type: ignore[name-defined]
        inner.map(lambda one: Case(dict[str, one.annotation], {"key": one.value}, {"key": one.written})),  # type: ignore[name-defined]
        inner.map(lambda one: Case(one.annotation | None, one.value, one.written)),
        inner.map(lambda one: Case(one.annotation | None, None, None)),
    )


def kinds() -> st.SearchStrategy[Case]:
    """Any type that a parameter may have, with a value."""
    return SCALARS | _wrapped(SCALARS.filter(lambda case: case.annotation is not Any)) | _wrapped(_wrapped(SCALARS.filter(_nests)))


def _nests(case: Case) -> bool:
    return case.annotation is not Any and case.annotation is not type(None)


@st.composite
def signatures(draw: st.DrawFn) -> tuple[Callable[..., Any], list[tuple[str, Case, bool]]]:
    """A function of up to four parameters, and for each its name, a value, and whether a call leaves it out for its default."""
    cases = draw(st.lists(kinds(), max_size=4))
    required = draw(st.integers(0, len(cases)))
    parameters: list[str] = []
    scope: dict[str, Any] = {}
    taken: list[tuple[str, Case, bool]] = []
    for number, case in enumerate(cases):
        scope[f"T{number}"] = case.annotation
        text = f"p{number}: T{number}"
        if number >= required:
            scope[f"D{number}"] = case.value
            text += f" = D{number}"
        parameters.append(text)
        taken.append((f"p{number}", case, number >= required and draw(st.booleans())))
    star = draw(st.integers(0, len(parameters)))
    if star < len(parameters):
        parameters.insert(star, "*")
    exec(f"def example({', '.join(parameters)}): return dict(locals())", scope)
    return scope["example"], taken
