"""What a tool gave, as the text that a model reads. Also imported by the process that a tool of its own process runs in: nothing here is heavy."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import sys
import uuid
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

__all__ = ["LONGEST_TEXT", "NO_OUTPUT", "Joined", "bounded", "error_text", "text_of"]

NO_OUTPUT: Final = "done, no output"
"""What the model is told of a tool that returned None: an empty text makes models call it again."""

LONGEST_TEXT: Final = 16_000_000
"""Characters that are kept of one result, whatever its size; beyond that it loses its middle."""

ERROR_LIMIT: Final = 2_000
"""Characters of an exception's text that the model gets."""

MOST_ERRORS: Final = 20
"""Exceptions of a group that the model is told of."""

REPR_LIMIT: Final = 10_000
"""Characters of what is shown by `repr`, for want of anything better."""

CUT: Final = 200_000
"""Characters that are made of a value whose text would be many times `LONGEST_TEXT`."""


_PLAIN: Final = 1 << 62


def _clean(text: str) -> str:
    """`whole`, which is loaded where there is something for it to do: a tool's own process seldom needs it."""
    if text.isascii():
        return text
    from retinue.security.whole_texts import whole

    return whole(text)


def text_of(value: Any) -> str:
    """The text for a value: a str as it is, None as "done, no output", data as JSON, anything else as its `repr`, cut off. Never raises."""
    if type(value) is str:
        return _clean(value)
    if value is None:
        return NO_OUTPUT
    if type(value) is int and -_PLAIN < value < _PLAIN:  # as JSON has it; a longer one takes a while to write
        return str(value)
    try:
        if isinstance(value, str):
            return _clean(str.__str__(value))
        return _clean(_json(value))
    except BaseException:  # what a value does when it is looked into is anybody's code: a KeyboardInterrupt of it is no user's
        return _shown(value)


def error_text(error: BaseException) -> str:
    """What a model is told of an exception: its type and text, never where in whose files it was raised. Never raises."""
    return _error_text(error, [MOST_ERRORS])


def _error_text(error: BaseException, left: list[int]) -> str:
    kind = _name(type(error))
    try:
        text = _clean(str(error)).strip()
    except BaseException:
        text = ""
    if issubclass(type(error), BaseExceptionGroup):
        inner: list[str] = []
        for one in _exceptions_of(error)[:5]:
            if left[0] <= 0:  # one exception may be in a group, and the group in others, any number of times
                break
            left[0] -= 1
            inner.append(_error_text(one, left))
        text = f"{text}: {'; '.join(inner)}"
    if len(text) > ERROR_LIMIT:
        text = f"{text[:ERROR_LIMIT]}…"
    return f"{kind}: {text}" if text else kind


_exceptions_of: Final[Any] = BaseExceptionGroup.__dict__["exceptions"].__get__
"""Gives those of a group, whatever its class says of them."""

_name: Final[Any] = type.__dict__["__name__"].__get__
"""Gives a class's name, whatever its metaclass says of it."""


def bounded(text: str, limit: int) -> str:
    """`text` in about `limit` characters: its head and its tail, and between them how much is left out."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    head = limit - tail
    return f"{text[:head]}\n[… {len(text) - head - tail:,} of {len(text):,} characters left out …]\n{text[len(text) - tail :]}"


class Joined:
    """The items of a generator as one text: a str as it is, anything else on a line of its own. Bounded, however many there are.

    Attributes:
        count: How many items there were.
    """

    __slots__ = ("_parts", "_size", "count")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self.count = 0

    def add(self, item: Any) -> None:
        """Takes one more item."""
        self.count += 1
        if isinstance(item, str):
            text = _clean(item)
        else:
            text = text_of(item)
            if self._parts and not self._parts[-1].endswith("\n"):
                text = f"\n{text}"
            text += "\n"
        self._parts.append(text)
        self._size += len(text)
        if self._size > 2 * LONGEST_TEXT:
            self._parts = [bounded("".join(self._parts), LONGEST_TEXT)]
            self._size = len(self._parts[0])

    def text(self) -> str:
        """All of it."""
        return "".join(self._parts).removesuffix("\n") if self.count else NO_OUTPUT


def _shown(value: Any) -> str:
    try:
        return _clean(bounded(repr(value), REPR_LIMIT))
    except BaseException:
        return f"<{_name(type(value))}, which cannot be shown>"


class _TooLong(Exception):
    """The text would be too long to be made."""


def _json(value: Any) -> str:
    """The JSON text; its beginning, where the whole would be very long: what is in a value at many places is written at each of them."""
    known: dict[int, int] = {}
    left = 4 * LONGEST_TEXT
    kept = []  # an `id` is an object's only as long as it lives

    def plain(one: Any) -> Any:
        nonlocal left
        made = _plain(one)
        kept.append(made)
        left -= 1_000 + _size(made, known)
        if left < 0:
            raise _TooLong
        return made

    try:
        if _size(value, known) > left:
            raise _TooLong
        return json.dumps(value, ensure_ascii=False, default=plain)
    except _TooLong:
        pass
    parts: list[str] = []
    length = 0
    try:
        for part in json.JSONEncoder(ensure_ascii=False, default=_plain).iterencode(value):
            parts.append(part)
            length += len(part)
            if length > CUT:
                break
    except BaseException:  # its `repr`, which is shown of what is no JSON, would be as long
        parts.append("…")
    return f"{''.join(parts)[:CUT]}\n[… cut off: the whole is too long to be written …]"


def _size(value: Any, known: dict[int, int]) -> int:
    """About how many characters the JSON text of a value has. Each part is looked at once, at however many places it is."""
    kind = type(value)
    if kind is str:
        return len(value) + 4
    if kind is not list and kind is not dict and kind is not tuple:
        return len(value) if isinstance(value, str) else 8
    size = known.get(id(value))
    if size is None:
        known[id(value)] = 0  # within itself: that has no JSON text, as `json` will say
        size = 2
        if kind is dict:
            for key in value:
                size += len(key) if type(key) is str else 8
            value_parts = value.values()
        else:
            value_parts = value
        for part in value_parts:
            size += _size(part, known)
        known[id(value)] = size
    return size


def _plain(value: Any) -> Any:
    """One level of a value that JSON has no form for; raises TypeError where there is none."""
    kind = type(value)
    if hasattr(kind, "__attrs_attrs__"):
        return {field.name: getattr(value, field.name) for field in kind.__attrs_attrs__}
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    if isinstance(value, enum.Enum):
        return value.value
    pydantic = sys.modules.get("pydantic")  # only where the user brought it
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, AbstractSet):
        return sorted(value, key=repr)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | uuid.UUID | pathlib.PurePath | datetime.timedelta):
        return str(value)
    raise TypeError(kind.__qualname__)
