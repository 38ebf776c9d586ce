"""Arguments as a reviewer sees them: every value in full and with its type, in printable characters, so that what is shown is what is hashed.

Each is shown as Python would be typed: `1`, `True`, `1.0`, `"1"`, `Decimal("1.00")`, `shop.Pay(to="ACME", amount=40)`. Nothing is ever cut; what is long
goes on over more lines, a long text as several literals one after the other. Two different sets of arguments never show the same.
"""

from __future__ import annotations

import datetime as dt
import keyword
import pathlib
import re
import uuid
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import attrs

from retinue.security.canonical import canonical_of_stored
from retinue.security.records import FlagValue, Member, Record
from retinue.security.typed_data import arguments_from_text, arguments_to_text
from retinue.security.visible import columns, escaped, oddities, quoted, quoted_parts, visible

__all__ = ["escaped", "shown_arguments", "visible"]

_STEP: Final = "  "
_MOST_DIGITS: Final = 10**60
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_DOTTED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.([A-Za-z_][A-Za-z0-9_]*|<locals>))+", re.ASCII)


def shown_arguments(arguments: Mapping[str, Any], *, width: int = 100) -> list[str]:
    """Lines that show the arguments of an operation, each argument from a line of its own on, in their order.

    A line that begins with `  ! ` is no part of a value: it says what in the value may be taken for something else.

    Args:
        arguments: The arguments, plain data or what was stored of such.
        width: Columns that a line has at most, where a value can be broken. Default: 100.

    Raises:
        CanonicalError: Something in them is no plain data.
    """
    lines: list[str] = []
    # Read back from what is stored, so that there is one way to show whatever is given.
    for name, value in arguments_from_text(arguments_to_text(dict(arguments))).items():
        lines += _lines(value, f"{_label(name)} = ", "", "", width)
        notes = dict.fromkeys(note for text in (name, *_texts(value)) for note in oddities(text))
        lines += [f"{_STEP}! {part}" for note in notes for part in _wrapped(note, width - 4)]
    return lines or ["(none)"]


def _label(name: str) -> str:
    return name if _is_plain_name(name) else quoted(name)


def _is_plain_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and not keyword.iskeyword(name)


@attrs.frozen
class _Shape:
    """How a value is typed: all in one text, or items between two brackets.

    Attributes:
        text: The whole of it; or what stands before the items.
        items: What stands before each item, and the item; None where there are none to break at.
        end: What stands after the items.
    """

    text: str
    items: list[tuple[str, Any]] | None = None
    end: str = ""


@attrs.frozen
class _Typed:
    """Something that is shown as it stands, as an item of something else."""

    text: str


def _shape(value: Any) -> _Shape:
    kind = type(value)
    if kind is _Typed:
        return _Shape(value.text)
    if value is None or kind is bool or kind is float:
        return _Shape(repr(value))
    if kind is int:
        return _Shape(repr(value)) if -_MOST_DIGITS < value < _MOST_DIGITS else _Shape("int(", [("", hex(value)), ("", _Typed("16"))], ")")
    if kind is list:
        return _Shape("[", [("", item) for item in value], "]")
    if kind is tuple:
        return _Shape("(", [("", item) for item in value], ",)" if len(value) == 1 else ")")
    if kind is dict:
        return _Shape("{", [(f"{quoted(name)}: ", value[name]) for name in sorted(value)], "}")
    if kind is set or kind is frozenset:
        items = [("", item) for item in sorted(value, key=canonical_of_stored)]
        return (
            _Shape("{", items, "}")
            if items and kind is set
            else _Shape(f"{kind.__name__}({'{' if items else ''}", items, "})" if items else ")")
        )
    if kind is Record:
        return _Shape(f"{_class(value.type_name)}(", [(f"{name}=", item) for name, item in value.fields], ")")
    if kind is Member:
        if _DOTTED.fullmatch(value.type_name) and _is_plain_name(value.name):
            return _Shape(f"{value.type_name}.{value.name}")
        return _Shape("member(", [("", value.type_name), ("", value.name)], ")")
    if kind is FlagValue:
        return _Shape(f"{_class(value.type_name)}(", [("", value.number)], ")")
    return _shape_of_scalar(value)


def _shape_of_scalar(value: Any) -> _Shape:
    """What is typed as a call with a text."""
    if isinstance(value, Decimal):
        return _Shape("Decimal(", [("", str(value))], ")")
    if isinstance(value, dt.datetime):
        return _Shape("datetime(", [("", value.isoformat())], ")")
    if isinstance(value, dt.date):
        return _Shape("date(", [("", value.isoformat())], ")")
    if isinstance(value, dt.time):
        text = value.replace(fold=0).isoformat()
        return _Shape("time(", [("", text), *([("fold=", value.fold)] if value.fold else [])], ")")
    if isinstance(value, dt.timedelta):
        return _Shape(f"timedelta(days={value.days}, seconds={value.seconds}, microseconds={value.microseconds})")
    if isinstance(value, uuid.UUID):
        return _Shape("UUID(", [("", str(value))], ")")
    assert isinstance(value, pathlib.PurePath)
    return _Shape("WindowsPath(" if isinstance(value, pathlib.PureWindowsPath) else "Path(", [("", str(value))], ")")


def _class(name: str) -> str:
    """The name of a class where it can be mistaken for nothing else; words of one part are taken by what is built in."""
    return name if _DOTTED.fullmatch(name) else f"record[{quoted(name)}]"


def _flat(value: Any, room: int) -> str | None:
    """The value in one line, or None where that would take more columns."""
    if isinstance(value, str | bytes):
        parts = quoted_parts(value, room) if len(value) <= room else ()
        return parts[0] if len(parts) == 1 and columns(parts[0]) <= room else None
    shape = _shape(value)
    if shape.items is None:
        return shape.text if columns(shape.text) <= room else None
    room -= columns(shape.text) + columns(shape.end)
    texts = []
    for before, item in shape.items:
        text = _flat(item, room - columns(before))
        if text is None:
            return None
        texts.append(before + text)
        room -= columns(before) + columns(text) + 2
        if room < -2:
            return None
    return f"{shape.text}{', '.join(texts)}{shape.end}"


def _lines(value: Any, before: str, after: str, indent: str, width: int) -> list[str]:
    room = width - len(indent) - columns(before) - len(after)
    flat = _flat(value, room)
    if flat is not None:
        return [f"{indent}{before}{flat}{after}"]
    if isinstance(value, str | bytes):
        first, *others = quoted_parts(value, max(room, 24))
        return (
            [f"{indent}{before}{first}", *(f"{indent}{_STEP}{part}" for part in others[:-1]), f"{indent}{_STEP}{others[-1]}{after}"]
            if others
            else [f"{indent}{before}{first}{after}"]
        )
    shape = _shape(value)
    if shape.items is None:
        return [f"{indent}{before}{shape.text}{after}"]
    lines = [f"{indent}{before}{shape.text}"]
    end = shape.end.removeprefix(",")
    for number, (label, item) in enumerate(shape.items, 1):
        comma = "," if number < len(shape.items) or end != shape.end else ""
        lines += _lines(item, label, comma, indent + _STEP, width)
    return [*lines, f"{indent}{end}{after}"]


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value."""
    if type(value) is str:
        yield value
    elif type(value) is dict:
        for name, item in value.items():
            yield name
            yield from _texts(item)
    elif type(value) in (list, tuple, set, frozenset):
        for item in value:
            yield from _texts(item)
    elif type(value) is Record:
        yield value.type_name
        for _, item in value.fields:
            yield from _texts(item)
    elif type(value) is Member:
        yield value.type_name
        yield value.name
    elif isinstance(value, pathlib.PurePath):
        yield str(value)


def _wrapped(note: str, width: int) -> list[str]:
    """A note over several lines; what it quotes is escaped already."""
    return [note[start : start + width] for start in range(0, len(note), max(width, 20))]
