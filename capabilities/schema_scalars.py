"""Single values as tools take them: strictly. "1" is no int, True is no int, an int may stand for a float, NaN is no number."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import enum
import pathlib
import re
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from retinue.capabilities.schema_shapes import (
    BOOL,
    EVERY,
    INTEGER,
    NULL,
    NUMBER,
    STRING,
    Misfit,
    Number,
    Shape,
    Unsupported,
    kind_of,
    misfit,
)
from retinue.capabilities.tool_problems import Problem

__all__ = ["ANY", "LARGEST", "MAX_DEPTH", "NOTHING", "enum_shape", "literal_choice", "literal_shape", "plain_json", "scalar_shape"]

LARGEST: Final = 10**400
"""Ints reach up to here: arithmetic on what a model may write down must not take for ever."""

MAX_DEPTH: Final = 64
"""Arrays and objects within each other."""

_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?")
_SHOWN_CHOICES: Final = 20


def _str(value: Any, _: Any = None) -> str:
    if type(value) is not str:
        raise misfit("a string", value)
    return value


def _int(value: Any, _: Any = None) -> int:
    if type(value) is not int:
        raise misfit("an integer", value)
    if not -LARGEST < value < LARGEST:
        raise misfit("an integer of at most 400 digits", value)
    return value


def _float(value: Any, _: Any = None) -> float:
    if type(value) is not float:
        if type(value) is not int and type(value) is not Number:
            raise misfit("a number", value)
        try:
            value = float(value)
        except OverflowError:
            raise misfit("a number within the range of a float", value) from None
    number = float(value)
    if number - number != 0.0:  # infinite: written as 1e999; NaN
        raise Misfit([Problem("", "a number within the range of a float", "a larger one, or none")])
    return number


def _bool(value: Any, _: Any = None) -> bool:
    if type(value) is not bool:
        raise misfit("true or false", value)
    return value


def _none(value: Any, _: Any = None) -> None:
    if value is not None:
        raise misfit("null", value)


def plain_json(value: Any, _: Any = None, depth: int = 0) -> Any:
    """A JSON value of any kind, with arrays and objects of its own. Raises Misfit for what JSON cannot say."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int:
        return _int(value)
    if isinstance(value, float):
        return _float(float(value))
    if depth >= MAX_DEPTH:
        raise Misfit([Problem("", f"at most {MAX_DEPTH} arrays and objects within each other", "more")])
    if kind is list or kind is tuple:
        return [plain_json(item, None, depth + 1) for item in value]
    if isinstance(value, Mapping):
        if any(type(key) is not str for key in value):
            raise Misfit([Problem("", "an object whose keys are strings", "another key")])
        return {key: plain_json(item, None, depth + 1) for key, item in value.items()}
    raise misfit("a JSON value", value)


def _text_shape(cls: type, words: str, read: Callable[[str], Any], **schema: Any) -> Shape:
    """A shape that is written as text."""

    def load(value: Any, _: Any = None) -> Any:
        if type(value) is not str:
            raise misfit(words, value)
        try:
            return read(value)
        except (ValueError, ArithmeticError, binascii.Error):
            raise misfit(words, value) from None

    return Shape({"type": "string", **schema}, load, words, STRING, cls=cls)


def _date(text: str) -> dt.date:
    if "T" in text or " " in text:
        raise ValueError
    return dt.date.fromisoformat(text)


def _datetime(text: str) -> dt.datetime:
    if len(text) < len("2026-01-01T0"):  # a day alone: whoever wants it says date
        raise ValueError
    return dt.datetime.fromisoformat(text)


def _uuid(text: str) -> uuid.UUID:
    if len(text) not in (32, 36):  # braces and prefixes are left to others
        raise ValueError
    return uuid.UUID(text)


def _decimal(text: str) -> Decimal:
    if not _DECIMAL.fullmatch(text):
        raise ValueError
    return Decimal(text)


def _base64(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii", "strict"), validate=True)


def _path(cls: Any) -> Shape:
    def read(text: str) -> Any:
        if not text or "\0" in text:
            raise ValueError
        return cls(text)

    return _text_shape(cls, "a path", read, format="path")


def _decimal_shape() -> Shape:
    shape = _text_shape(Decimal, "a decimal number as a string", _decimal, format="decimal")
    as_text = shape.load

    def load(value: Any, _: Any = None) -> Decimal:
        written = getattr(value, "text", None)  # of a `Number`
        if type(value) is float:  # its digits may be other ones than those that were written
            raise misfit(shape.words, value)
        made: Decimal = as_text(written if written is not None else str(value) if type(value) is int else value)
        return made

    return Shape(shape.schema, load, shape.words, STRING | NUMBER, cls=Decimal)


def _timedelta_shape() -> Shape:
    def load(value: Any, _: Any = None) -> dt.timedelta:
        seconds = _float(value)
        try:
            return dt.timedelta(seconds=seconds)
        except OverflowError:
            raise misfit("a number of seconds below 86,400,000,000,000", value) from None

    return Shape({"type": "number", "description": "seconds"}, load, "a number of seconds", NUMBER, cls=dt.timedelta)


ANY: Final = Shape({}, plain_json, "any JSON value", EVERY)
NOTHING: Final = Shape({"type": "null"}, _none, "null", NULL)

_SCALARS: Final[dict[Any, Shape]] = {
    str: Shape({"type": "string"}, _str, "a string", STRING, text=True),
    int: Shape({"type": "integer"}, _int, "an integer", INTEGER),
    float: Shape({"type": "number"}, _float, "a number", NUMBER),
    bool: Shape({"type": "boolean"}, _bool, "true or false", BOOL),
    type(None): NOTHING,
    bytes: _text_shape(bytes, "bytes in base64", _base64, contentEncoding="base64"),
    dt.datetime: _text_shape(dt.datetime, "a date and time such as '2026-11-30T09:00:00+00:00'", _datetime, format="date-time"),
    dt.date: _text_shape(dt.date, "a date such as '2026-11-30'", _date, format="date"),
    dt.time: _text_shape(dt.time, "a time of day such as '09:00:00'", dt.time.fromisoformat, format="time"),
    dt.timedelta: _timedelta_shape(),
    uuid.UUID: _text_shape(uuid.UUID, "a UUID", _uuid, format="uuid"),
    Decimal: _decimal_shape(),
    pathlib.Path: _path(pathlib.Path),
    pathlib.PurePath: _path(pathlib.PurePath),
    pathlib.PurePosixPath: _path(pathlib.PurePosixPath),
    pathlib.PureWindowsPath: _path(pathlib.PureWindowsPath),
}


def scalar_shape(kind: Any) -> Shape | None:
    """The shape of a type of single values; None for any other."""
    return _SCALARS.get(kind)


def _choice(by_value: Mapping[Any, Any], kinds: frozenset[str], cls: type | None = None) -> Shape:
    """One of some values: `by_value` has what each stands for, by (kind, JSON value), since to Python 1, 1.0 and True are one key."""
    values = [value for _, value in by_value]
    words = f"one of {', '.join(shown_choice(value) for value in values[:_SHOWN_CHOICES])}{', …' if len(values) > _SHOWN_CHOICES else ''}"

    def load(value: Any, _: Any = None) -> Any:
        try:
            return by_value[kind_of(value), value]
        except (KeyError, TypeError):
            raise misfit(words, value) from None

    schema: dict[str, Any] = {"enum": values}
    only = {"string": "string", "integer": "integer", "boolean": "boolean"}.get(next(iter(kinds))) if len(kinds) == 1 else None
    if only:
        schema = {"type": only, **schema}
    return Shape(schema, load, words, kinds, text="string" in kinds, cls=cls)


def shown_choice(value: Any) -> str:
    """A value that may be chosen, as JSON has it, near enough."""
    return "null" if value is None else "true" if value is True else "false" if value is False else repr(value)


def literal_shape(values: tuple[Any, ...]) -> Shape:
    """The shape of a `Literal`. Raises Unsupported for bytes in it."""
    found: dict[Any, Any] = {}
    for value in values:
        given = value.value if isinstance(value, enum.Enum) else value
        kind = kind_of(given)
        if kind not in ("string", "integer", "boolean", "null"):
            raise Unsupported(f"Literal[{value!r}], which JSON cannot say: use strings, ints, booleans or None")
        found[kind, given] = value
    return _choice(found, frozenset(kind for kind, _ in found))


def literal_choice(values: Any) -> Shape:
    """The shape of the `enum` of a JSON Schema. Raises Unsupported where it is no list of single values."""
    if not isinstance(values, list | tuple) or not values:
        raise Unsupported("an enum that is no list of values")
    found = {(kind_of(value), value): value for value in values if kind_of(value) in ("string", "integer", "boolean", "null", "real")}
    if len(found) != len(values):
        raise Unsupported("an enum with something else than different strings, numbers, booleans and null in it")
    kinds = frozenset(kind for kind, _ in found)
    return _choice(found, kinds)


def enum_shape(cls: type[enum.Enum]) -> Shape:
    """The shape of an enum: its values where all are JSON's own single values, else the names of its members. Raises Unsupported for flags."""
    if issubclass(cls, enum.Flag):
        raise Unsupported(f"{cls.__qualname__}, a Flag, whose members combine: use set[…] of an Enum or of a Literal")
    members = list(cls)
    if not members:
        raise Unsupported(f"{cls.__qualname__}, an Enum without members")
    kinds = {kind_of(member.value) for member in members}
    by_name = not kinds <= {"string", "integer", "boolean", "real"}
    found = {("string", member.name) if by_name else (kind_of(member.value), member.value): member for member in members}
    return _choice(found, frozenset(kind for kind, _ in found), cls)
