"""Plain data as a JSON text that keeps every type, for stores and for reviewers elsewhere; reading is the exact inverse of writing.

    {"to": "ACME", "amount": {"decimal": "40.00"}, "when": {"datetime": "2026-11-30T09:00:00+00:00"}}

None, bool, str and small ints stand for themselves, a list for a list; everything else is an object of one key, which says the type. So 1, True, 1.0
and "1" are four texts, and whoever looks into the store reads what they mean. Messages and members of enums come back as records (`retinue.security.records`)
with the same canonical bytes, because their classes need not be at hand.

A text that is not exactly what is written for the values that it gives is refused.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import json
import pathlib
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import attrs

from retinue.security.canonical import MAX_DEPTH, canonical_of_stored
from retinue.security.errors import CanonicalError
from retinue.security.records import FlagValue, Member, Record
from retinue.security.strict_json import read_json

__all__ = ["arguments_from_text", "arguments_to_text"]

MAX_TEXT: Final = 2**28
"""Bytes of a text that is read: more than the largest value with canonical bytes becomes."""

_MAX_NESTING: Final = 4 * MAX_DEPTH + 8
_PLAIN_INT: Final = 2**53
"""Ints from here on are written as text, because other readers of JSON take numbers for floats."""


def arguments_to_text(arguments: Mapping[str, Any]) -> str:
    """The arguments of an operation as JSON of ASCII characters; the values' types and the arguments' order are kept.

    Args:
        arguments: A dict of names to plain data, see `retinue.security.canonical`; or what was read back of such.

    Raises:
        CanonicalError: It is none, or something in it cannot be told apart once it is stored (two equal members of one set).
    """
    if type(arguments) is not dict:
        raise CanonicalError(f"the arguments of an operation are a dict by name, not an object of type {type(arguments).__name__}.")
    expected = canonical_of_stored(arguments)
    text = _dumped(arguments)
    if canonical_of_stored(_loaded(text)) != expected:
        raise CanonicalError(
            "the arguments have something in them that cannot be stored as it is, such as two equal members of one set. Pass a list."
        )
    return text


def arguments_from_text(text: object) -> dict[str, Any]:
    """The arguments that were written: equal values of the same types, a record for each message and each member of an enum.

    Args:
        text: What `arguments_to_text` gave.

    Raises:
        CanonicalError: It is anything else.
    """
    arguments = _loaded(text)
    canonical_of_stored(arguments)  # refuses what reads well and is no plain data: NaN, a time without a zone
    if _dumped(arguments) != text:
        raise CanonicalError("the stored arguments are not written the one way in which they are written. Were they edited?")
    return arguments


def _dumped(arguments: Mapping[str, Any]) -> str:
    return json.dumps({name: _data(value) for name, value in arguments.items()}, separators=(", ", ": "), allow_nan=False)


def _loaded(text: object) -> dict[str, Any]:
    if type(text) is not str:
        raise CanonicalError(f"stored arguments are a text, not an object of type {type(text).__name__}.")
    try:
        data = read_json(text, max_bytes=MAX_TEXT, max_depth=_MAX_NESTING)
        if type(data) is not dict:
            raise ValueError("it is no object")
        return {name: _value(one) for name, one in data.items()}
    except CanonicalError:
        raise
    except (ValueError, TypeError, KeyError, ArithmeticError, AttributeError, InvalidOperation, RecursionError):
        # Not the cause: its text may show a part of the arguments.
        raise CanonicalError("the stored arguments cannot be read. Were they edited, or cut?") from None


def _data(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -_PLAIN_INT < value < _PLAIN_INT else {"int": hex(value)}
    if kind is list:
        return [_data(item) for item in value]
    write = _WRITERS.get(kind)
    return _instance_data(value, kind) if write is None else write(value)


def _set_data(value: Any) -> list[Any]:
    return [_data(item) for item in sorted(value, key=canonical_of_stored)]


def _instance_data(value: Any, kind: Any) -> dict[str, Any]:
    name = f"{kind.__module__}.{kind.__qualname__}"
    if issubclass(kind, enum.Flag):
        return {"flag": [name, _data(value._value_)]}
    if issubclass(kind, enum.Enum):
        return {"member": [name, value._name_]}
    fields = attrs.fields(kind) if attrs.has(kind) else dataclasses.fields(kind)
    return {"record": [name, [[field.name, _data(getattr(value, field.name))] for field in fields]]}


def _path_data(value: pathlib.PurePath) -> dict[str, str]:
    return {"windows_path" if isinstance(value, pathlib.PureWindowsPath) else "path": str(value)}


_WRITERS: Final[dict[type, Callable[[Any], Any]]] = {
    float: lambda value: {"float": repr(value)},
    dict: lambda value: {"dict": {name: _data(value[name]) for name in sorted(value)}},
    tuple: lambda value: {"tuple": [_data(item) for item in value]},
    set: lambda value: {"set": _set_data(value)},
    frozenset: lambda value: {"frozenset": _set_data(value)},
    bytes: lambda value: {"bytes": base64.b64encode(value).decode("ascii")},
    Decimal: lambda value: {"decimal": str(value).upper()},  # the context of the thread may ask for a small e
    dt.datetime: lambda value: {"datetime": value.isoformat()},
    dt.date: lambda value: {"date": value.isoformat()},
    dt.time: lambda value: {"later_time" if value.fold else "time": value.replace(fold=0).isoformat()},
    dt.timedelta: lambda value: {"timedelta": [value.days, value.seconds, value.microseconds]},
    uuid.UUID: lambda value: {"uuid": str(value)},
    **dict.fromkeys((pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path())), _path_data),
    Record: lambda value: {"record": [value.type_name, [[name, _data(item)] for name, item in value.fields]]},
    Member: lambda value: {"member": [value.type_name, value.name]},
    FlagValue: lambda value: {"flag": [value.type_name, _data(value.number)]},
}


def _value(data: Any) -> Any:
    kind = type(data)
    if data is None or kind is bool or kind is str or kind is int:
        return data
    if kind is list:
        return [_value(item) for item in data]
    if kind is not dict or len(data) != 1:
        raise ValueError("no value")
    ((tag, content),) = data.items()
    return _READERS[tag](content)


def _items(content: Any) -> list[Any]:
    if type(content) is not list:
        raise TypeError("no list")
    return [_value(item) for item in content]


def _members(content: Any) -> list[Any]:
    items = _items(content)
    if len(frozenset(items)) != len(items):
        raise CanonicalError("the stored arguments have a set with two equal members, which no set has.")
    return items


def _dict(content: Any) -> dict[str, Any]:
    if type(content) is not dict:
        raise TypeError("no object")
    return {name: _value(item) for name, item in content.items()}


def _text(content: Any) -> str:
    if type(content) is not str:
        raise TypeError("no text")
    return content


def _record(content: Any) -> Record:
    name, fields = content
    return Record(_text(name), tuple((_text(field), _value(item)) for field, item in fields))


def _member(content: Any) -> Member:
    enumeration, name = content
    return Member(_text(enumeration), _text(name))


def _flag(content: Any) -> FlagValue:
    name, number = content
    return FlagValue(_text(name), _value(number))


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "int": lambda content: int(_text(content), 16),
    "float": lambda content: float(_text(content)),
    "dict": _dict,
    "tuple": lambda content: tuple(_items(content)),
    "set": lambda content: set(_members(content)),
    "frozenset": lambda content: frozenset(_members(content)),
    "bytes": lambda content: base64.b64decode(_text(content), validate=True),
    "decimal": lambda content: Decimal(_text(content)),
    "datetime": lambda content: dt.datetime.fromisoformat(_text(content)),
    "date": lambda content: dt.date.fromisoformat(_text(content)),
    "time": lambda content: dt.time.fromisoformat(_text(content)),
    "later_time": lambda content: dt.time.fromisoformat(_text(content)).replace(fold=1),
    "timedelta": lambda content: dt.timedelta(*_items(content)),
    "uuid": lambda content: uuid.UUID(_text(content)),
    "path": lambda content: pathlib.PurePosixPath(_text(content)),
    "windows_path": lambda content: pathlib.PureWindowsPath(_text(content)),
    "record": _record,
    "member": _member,
    "flag": _flag,
}
