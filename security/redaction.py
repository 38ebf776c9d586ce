"""Redaction: values as they may be shown in logs, dead letters and traces. What looks like a secret is left out, what is large is cut.

A value is secret by the name that it stands under (`password`, `x-api-key`, `accessToken`; not `max_tokens`), or by its shape (a bearer's
token, a private key, a URL with a password in it). That finds what is named and formed as secrets are; a secret in plain words under an
innocent name it does not find. Not to be shown at all is safer.
"""

from __future__ import annotations

import datetime as dt
import enum
import pathlib
import uuid
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Any, Final

from retinue.security.secret_shapes import REDACTED, hide_secrets, is_secret_name

__all__ = ["REDACTED", "redact"]

MAX_DEPTH: Final = 8
MAX_ITEMS: Final = 100
"""Items of one container that are shown."""

MAX_PARTS: Final = 2000
"""Values that are shown, all containers together."""

MAX_TEXT: Final = 2000
"""Characters of one text that are shown."""

MAX_SEARCHED: Final = 2**13
"""Characters of one text that are looked at: what is shown, and enough beyond it for a secret to end in."""

LAST_SEARCHED: Final = 1024
"""Characters at the end of those that are never shown: a secret may begin there whose shape is not to be seen yet."""

MAX_SEARCHED_IN_ALL: Final = 2**18
"""Characters of all texts together that are looked at; of what comes after them only the length is shown."""

_AS_THEY_ARE: Final = (dt.datetime, dt.date, dt.time, dt.timedelta, Decimal, uuid.UUID)
_LONG: Final = 1024  # bits of an int
_NAME_KEYS: Final = frozenset({"name", "key", "header", "field", "param", "variable"})
_VALUE_KEYS: Final = frozenset({"value", "values"})


def redact(value: Any) -> Any:
    """The value as it may be shown: plain data, new throughout, with "[redacted]" in the place of secrets.

    Messages and other attrs classes and dataclasses become dicts of their fields, with their class under "(type)"; bytes and unknown
    objects only say what they are. Texts are cut after 2,000 characters, containers after 100 items and 8 levels, the whole after 2,000
    values or 262,144 characters. The value is not changed. Never raises.

    Args:
        value: Anything.
    """
    return _Shown().of(value, 0)


class _Shown:
    """One walk through a value."""

    __slots__ = ("left", "room")

    def __init__(self) -> None:
        self.left = MAX_PARTS
        self.room = MAX_SEARCHED_IN_ALL

    def of(self, value: Any, depth: int) -> Any:
        self.left -= 1
        # By its type alone: what an object says of itself (`__class__`) may be anything, and saying it may raise.
        cls = type(value)
        if value is None or cls is bool or cls in _AS_THEY_ARE:
            return value
        if issubclass(cls, enum.Enum):
            return f"{cls.__name__}.{value._name_}"
        if issubclass(cls, str):
            return self._text(str.__str__(value))
        if issubclass(cls, int):
            # Of an int with thousands of digits not even the digits are made.
            size = int.bit_length(value)
            return int.__int__(value) if size <= _LONG else f"[int of {size} bits]"
        if issubclass(cls, float):
            return float.__float__(value)
        if cls in (bytes, bytearray, memoryview):
            return f"[{len(value)} bytes]"
        if depth >= MAX_DEPTH or self.left < 0:
            return "…"
        try:
            return self._of_many(value, cls, depth)
        except Exception:  # whatever it does when it is looked at
            return f"[unreadable {cls.__name__}]"

    def _text(self, text: str) -> str:
        self.room -= min(len(text), MAX_SEARCHED)
        if self.room < 0 and text:
            return f"[{len(text)} characters]"
        if len(text) > MAX_SEARCHED:
            return f"{hide_secrets(text[:MAX_SEARCHED])[:-LAST_SEARCHED][:MAX_TEXT]}… ({len(text)} characters)"
        shown = hide_secrets(text)
        return shown if len(shown) <= MAX_TEXT else f"{shown[:MAX_TEXT]}… ({len(text)} characters)"

    def _of_many(self, value: Any, cls: type, depth: int) -> Any:
        fields = _fields_of(value, cls)
        if fields is not None:
            return {"(type)": cls.__name__, **self._named(fields, depth)}
        if issubclass(cls, Mapping):
            return self._named(value, depth)
        if issubclass(cls, list | tuple | AbstractSet):
            items = self._items(value, depth)
            return tuple(items) if issubclass(cls, tuple) else items
        if issubclass(cls, pathlib.PurePath):
            return self._text(str(value))
        if issubclass(cls, BaseException):
            return f"{cls.__name__}: {self._text(str(value))}"
        return f"[{cls.__name__}]"

    def _named(self, value: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        hides = _is_named_pair(value)
        for number, (key, item) in enumerate(value.items()):
            if number >= MAX_ITEMS or self.left < 0:
                found["…"] = f"{len(value) - number} more"
                break
            secret = issubclass(type(key), str) and (is_secret_name(key, item) or (hides and key.lower() in _VALUE_KEYS))
            # A key that is a container itself is only shown as one: so keys stay hashable.
            found[self.of(key, MAX_DEPTH)] = _hidden(item) if secret else self.of(item, depth + 1)
        return found

    def _items(self, value: Any, depth: int) -> list[Any]:
        # A header or a row: its first item names the second.
        if type(value) in (list, tuple) and len(value) == 2 and issubclass(type(value[0]), str) and is_secret_name(value[0], value[1]):
            return [self._text(str.__str__(value[0])), _hidden(value[1])]
        found: list[Any] = []
        hides = False
        for number, item in enumerate(value):
            if number >= MAX_ITEMS or self.left < 0:
                found.append(f"… and {len(value) - number} more")
                break
            found.append(_hidden(item) if hides else self.of(item, depth + 1))
            # As a command's arguments are written: the name, then what it names.
            hides = type(item) is str and item.startswith("-") and "=" not in item and is_secret_name(item)
        return found


def _hidden(value: Any) -> Any:
    """That there is nothing is worth knowing, and no secret."""
    return value if value is None or value is True or value is False or (type(value) in (str, bytes) and not value) else REDACTED


def _is_named_pair(value: Mapping[Any, Any]) -> bool:
    """Whether it is an entry such as `{"name": "Authorization", "value": …}`."""
    if not 2 <= len(value) <= 8:
        return False
    return any(
        issubclass(type(key), str) and key.lower() in _NAME_KEYS and issubclass(type(item), str) and is_secret_name(item, "")
        for key, item in value.items()
    )


def _fields_of(value: Any, cls: Any) -> dict[str, Any] | None:
    """The fields of a message, an attrs class, a dataclass or a named tuple, those that are set; None for anything else."""
    if hasattr(cls, "__attrs_attrs__"):
        names = [field.name for field in cls.__attrs_attrs__]
    elif hasattr(cls, "__dataclass_fields__"):
        names = list(cls.__dataclass_fields__)
    elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
        names = list(getattr(cls, "_fields"))  # noqa: B009 -- named tuples have it, tuples do not
    else:
        return None
    return {name: getattr(value, name) for name in names if hasattr(value, name)}
