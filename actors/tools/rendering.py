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

__all__ = ["LONGEST_TEXT", "NO_OUTPUT", "Joined", "bounded", "clean", "error_text", "text_of"]

NO_OUTPUT: Final = "done, no output"
"""What the model is told of a tool that returned None: an empty text makes models call it again."""

LONGEST_TEXT: Final = 16_000_000
"""Characters that are kept of one result, whatever its size; beyond that it loses its middle."""

ERROR_LIMIT: Final = 2_000
"""Characters of an exception's text that the model gets."""

REPR_LIMIT: Final = 10_000
"""Characters of what is shown by `repr`, for want of anything better."""


def clean(text: str) -> str:
    """`text` as it can be sent: halves of surrogate pairs that stand alone become U+FFFD, those that belong together one character."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def text_of(value: Any) -> str:
    """The text for a value: a str as it is, None as "done, no output", data as JSON, anything else as its `repr`, cut off. Never raises."""
    if value.__class__ is str:
        return clean(value)
    if value is None:
        return NO_OUTPUT
    if isinstance(value, str):
        return clean(str.__str__(value))
    try:
        return clean(json.dumps(value, ensure_ascii=False, default=_plain))
    except (TypeError, ValueError, RecursionError):
        return _shown(value)
    except Exception:  # what a value does when it is looked into is anybody's code
        return _shown(value)


def error_text(error: BaseException) -> str:
    """What a model is told of an exception: its type and text, never where in whose files it was raised."""
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:
        text = ""
    text = clean(text).strip()
    if isinstance(error, BaseExceptionGroup):
        text = f"{text}: {'; '.join(error_text(one) for one in error.exceptions[:5])}"
    if len(text) > ERROR_LIMIT:
        text = f"{text[:ERROR_LIMIT]}…"
    return f"{kind}: {text}" if text else kind


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
            text = clean(item)
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
        text = repr(value)
    except Exception:
        text = f"<{type(value).__qualname__}, which cannot be shown>"
    return clean(bounded(text, REPR_LIMIT))


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
