"""A `Shape` is one type as tools see it: its JSON Schema, how it is read from JSON, and how it is said in words."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, Self, TypeAlias

from retinue.capabilities.tool_problems import Problem
from retinue.security.redaction import redact

__all__ = [
    "ARRAY",
    "BOOL",
    "EVERY",
    "INTEGER",
    "MOST_PROBLEMS",
    "NULL",
    "NUMBER",
    "OBJECT",
    "STRING",
    "Misfit",
    "Number",
    "Shape",
    "ShapeOf",
    "Unsupported",
    "either",
    "joined",
    "kind_of",
    "misfit",
    "remembering",
    "shown",
    "under",
]  # fmt: skip

STRING: Final = frozenset({"string"})
INTEGER: Final = frozenset({"integer"})
NUMBER: Final = frozenset({"integer", "real"})
BOOL: Final = frozenset({"boolean"})
NULL: Final = frozenset({"null"})
ARRAY: Final = frozenset({"array"})
OBJECT: Final = frozenset({"object"})
EVERY: Final = frozenset({"string", "integer", "real", "boolean", "null", "array", "object"})

_LONGEST_SHOWN: Final = 40


class Unsupported(Exception):
    """A type that has no JSON Schema; becomes a DefinitionError that names tool and parameter. The text says what it is and what would do instead."""


class Misfit(Exception):
    """A JSON value that is none of a shape's; becomes BadArguments.

    Args:
        problems: All that is wrong with it, one at least.
        later: What gives them, instead.
    """

    def __init__(self, problems: Iterable[Problem] = (), *, later: Callable[[], Iterable[Problem]] | None = None) -> None:
        super().__init__()
        self._problems = tuple(problems)
        self._later = later  # put into words only if somebody reads them: another shape, or a second reading, may well take the value

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All that is wrong with it."""
        if self._later is not None:
            self._problems, self._later = tuple(self._later()), None
        return self._problems

    def at(self, place: str | int) -> Misfit:
        """The same, seen from one level further out."""
        return Misfit(later=lambda: [under(problem, place) for problem in self.problems])


def joined(found: list[Misfit]) -> Misfit:
    """Several as one."""
    return Misfit(later=lambda: [problem for one in found for problem in one.problems][: 2 * MOST_PROBLEMS])


class Number(float):
    """A number with a fraction or an exponent, and how it was written: where text is wanted after all, 1.50 is "1.50"."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        """The number of a text of JSON."""
        made = super().__new__(cls, text)
        made.text = text
        return made


Load: TypeAlias = Callable[..., Any]
"""Gives the value for a JSON value; a second argument, which cattrs gives, is not looked at. Raises Misfit."""


class Shape:
    """One type.

    Attributes:
        schema: Its JSON Schema.
        load: Gives the value for a JSON value. Raises Misfit.
        words: What is expected: "an integer".
        kinds: The kinds of JSON value that it can be.
        text: Whether it is text as such: where a number stands instead, its digits may be meant.
        memo: Of a union: what it has read meanwhile.
        cls: The class of the values where there is one: a value that is one already is taken by a lenient reader.
    """

    __slots__ = ("cls", "kinds", "load", "memo", "schema", "text", "words")

    def __init__(
        self,
        schema: dict[str, Any],
        load: Load,
        words: str,
        kinds: frozenset[str],
        *,
        text: bool = False,
        cls: type | None = None,
    ) -> None:
        self.schema = schema
        self.load = load
        self.words = words
        self.kinds = kinds
        self.text = text
        self.cls = cls
        self.memo: Memo | None = None

    def fill(self, made: Shape) -> None:
        """Become another shape: what was only named is known now."""
        for slot in Shape.__slots__:
            setattr(self, slot, getattr(made, slot))

    def with_schema(self, **more: Any) -> Shape:
        """The same shape, its schema with more in it."""
        return Shape({**self.schema, **more}, self.load, self.words, self.kinds, text=self.text, cls=self.cls)


ShapeOf: TypeAlias = Callable[[Any], Shape]
"""Gives the shape of a type. Raises Unsupported."""

_KINDS: Final[dict[type, str]] = {
    str: "string", int: "integer", float: "real", Number: "real", bool: "boolean", type(None): "null", list: "array", dict: "object",
}  # fmt: skip


def kind_of(value: Any) -> str:
    """The kind of a parsed JSON value; "" for what is none."""
    return _KINDS.get(type(value), "")


def shown(value: Any) -> str:
    """A value for a text: short, and without what looks like a secret."""
    kind = kind_of(value)
    if kind == "string":
        text = str(redact(value[: 4 * _LONGEST_SHOWN]))
        return f"the string {text!r}" if len(text) <= _LONGEST_SHOWN else f"a string of {len(value):,} characters"
    if kind == "real":
        written = value.text if type(value) is Number else ""
        return f"the number {written if 0 < len(written) <= _LONGEST_SHOWN else repr(float(value))}"
    if kind == "integer":
        return "a number of too many digits" if value.bit_length() > 128 else f"the number {value!r}"
    if kind == "boolean":
        return "true" if value else "false"
    return {"null": "null", "array": "an array", "object": "an object"}.get(kind) or f"an object of type {type(value).__name__}"


MOST_PROBLEMS: Final = 50
"""Problems that are looked for in one collection: who has that many has said nothing that one would read to the end."""


class Memo(threading.local):
    """What a union has read within one reading, for one thread: each array and object is looked at once. Types that contain themselves by way of unions would take a
    time that doubles with each level.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.made: dict[int, tuple[Any, Any, Misfit | None]] = {}

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if not self.depth:
            self.made.clear()


def remembering(shape: Shape) -> Shape:
    """The same shape, of a union, with a memo."""
    memo, load = Memo(), shape.load

    def read(value: Any, _: Any = None) -> Any:
        if type(value) is not dict and type(value) is not list:
            return load(value)
        known = memo.made.get(id(value))  # with the value, since an id names it only while it lives
        if known is not None:
            failed = known[2]
            if failed is not None:
                raise Misfit(later=lambda: failed.problems)
            return known[1]
        with memo:
            try:
                made = load(value)
            except Misfit as error:
                memo.made[id(value)] = (value, None, error)
                raise
            memo.made[id(value)] = (value, made, None)
            return made

    shape.load = read
    shape.memo = memo
    return shape


def misfit(expected: str, value: Any, hint: str = "") -> Misfit:
    """The error for a value that is something else than expected."""
    return Misfit(later=lambda: [Problem("", expected, shown(value), hint)])


def under(problem: Problem, place: str | int) -> Problem:
    """The problem, seen from one level further out."""
    here = f"[{place}]" if isinstance(place, int) else place
    joint = "" if not problem.where or problem.where.startswith("[") else "."
    return Problem(f"{here}{joint}{problem.where}", problem.expected, problem.got, problem.hint)


def either(words: Iterable[str]) -> str:
    """Alternatives in words: "a string, an integer or null"."""
    found = list(dict.fromkeys(words))
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} or {found[-1]}"
