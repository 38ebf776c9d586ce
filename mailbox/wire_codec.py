"""What the parts of the wire share: a codec for each type, and the refusal that becomes a WireError."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
    "ARRAY", "BOOL", "EVERY", "INTEGER", "NULL", "NUMBER", "OBJECT", "STRING",
    "Codec", "CodecOf", "Refused", "at", "each", "expected", "json_kind", "unfit",
]  # fmt: skip

# The kinds of JSON value that a type may be on the wire.
STRING = frozenset({"string"})
INTEGER = frozenset({"integer"})
NUMBER = frozenset({"integer", "real"})
BOOL = frozenset({"bool"})
NULL = frozenset({"null"})
EVERY = frozenset({"string", "integer", "real", "bool", "null", "array", "object"})
ARRAY = frozenset({"array"})
OBJECT = frozenset({"object"})


class Refused(Exception):
    """A value that cannot cross, on its way to a WireError. Its text never quotes the value, which may be a secret.

    Attributes:
        text: What is wrong.
        problem: As in WireError; None stands for the direction's own word ("not_encodable" or "invalid_fields").
        path: Where, from the outside in: field names, indices.
    """

    def __init__(self, text: str, *, problem: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.problem = problem
        self.path: list[str | int] = []

    def at(self, place: str | int) -> Refused:
        """The same, seen from one level further out."""
        self.path.insert(0, place)
        return self


class Codec:
    """Both directions for one type.

    Attributes:
        tag: How the type is named where a union needs to say which of its members it is.
        kinds: The kinds of JSON value that it can be on the wire.
        accepts: Whether it is the codec for that value; a shallow look, for unions.
        dump: The JSON value for a value. Raises Refused.
        load: The value for a JSON value. Raises Refused.
        plain: Whether it is one of JSON's own scalars, which need no tag in a union.
    """

    __slots__ = ("accepts", "dump", "kinds", "load", "plain", "tag")

    def __init__(
        self,
        tag: str = "",
        kinds: frozenset[str] = frozenset(),
        accepts: Callable[[Any], bool] = lambda _: False,
        dump: Callable[[Any], Any] = lambda value: value,
        load: Callable[[Any], Any] = lambda value: value,
        *,
        plain: bool = False,
    ) -> None:
        self.tag = tag
        self.kinds = kinds
        self.accepts = accepts
        self.dump = dump
        self.load = load
        self.plain = plain


_JSON_KINDS: dict[type, str] = {
    str: "string", int: "integer", float: "real", bool: "bool", type(None): "null", list: "array", dict: "object",
}  # fmt: skip

_WORDS = {
    "string": "a string", "integer": "an integer", "real": "a number", "bool": "a boolean", "null": "null", "array": "an array",
    "object": "an object",
}  # fmt: skip


def json_kind(value: Any) -> str:
    """The kind of a parsed JSON value."""
    return _JSON_KINDS[type(value)]


def expected(what: str, value: Any) -> Refused:
    """The refusal of a JSON value of another kind than expected."""
    return Refused(f"expected {what}, got {_WORDS.get(_JSON_KINDS.get(type(value), ''), type(value).__name__)}")


def unfit(what: str, value: Any) -> Refused:
    """The refusal of a value of another type than its annotation says."""
    return Refused(f"is annotated {what} but holds {'None' if value is None else type(value).__qualname__}")


def at(convert: Callable[[Any], Any], value: Any, place: str | int) -> Any:
    """`convert(value)`, its refusal seen from one level further out."""
    try:
        return convert(value)
    except Refused as refused:
        raise refused.at(place) from None


def each(convert: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """All items converted; a refusal names the index."""
    made = []
    for item in items:
        try:
            made.append(convert(item))
        except Refused as refused:
            raise refused.at(len(made)) from None
    return made


CodecOf = Callable[[Any], Codec]
"""Gives the codec of a type. Raises Refused for a type that has no form on the wire."""
