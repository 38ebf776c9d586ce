"""What a message says, as text: content of any kind for models and readers that take texts alone."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import uuid
from pathlib import PurePath
from typing import Any, Final

import attrs

__all__ = ["content_text", "plain_field"]

LONGEST_REPR: Final = 2000
"""Characters of an object that nobody has told how to write itself."""


def content_text(content: Any) -> str:
    """The content as text: a str as it is, None as "", a list of parts part by part, other plain data and attrs classes as JSON, the rest as its `repr`.

    A part in OpenAI's form is its text, or "[image_url]" where it is none.
    """
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list | tuple) and content and all(_is_part(part) for part in content):
        return "\n".join(_part_text(part) for part in content)
    if isinstance(content, bytes | bytearray | memoryview):
        return f"[{len(content)} bytes]"
    try:
        return json.dumps(content, ensure_ascii=False, default=plain_field)
    except (TypeError, ValueError, RecursionError):
        return _repr(content)


def _is_part(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("type"), str))


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text", part.get("content"))
    return text if isinstance(text, str) else f"[{part['type']}]"


def plain_field(value: Any) -> Any:
    """An object that is no plain data, one level nearer to it: the fields of attrs classes, dataclasses and pydantic models, sets as lists, times in ISO 8601.

    Decimals, UUIDs and paths are their text, an enumeration's member is its value, and anything else is its `repr`.
    """
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, decimal.Decimal | uuid.UUID | PurePath):
        return str(value)
    if attrs.has(type(value)):
        return {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
    fields = getattr(type(value), "__dataclass_fields__", None)
    if fields is not None:
        return {name: getattr(value, name) for name in fields}
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    return list(value) if isinstance(value, set | frozenset) else _repr(value)


def _repr(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # whatever it does when it is looked at
        return f"[{type(value).__name__}]"
    return text if len(text) <= LONGEST_REPR else f"{text[:LONGEST_REPR]}… ({len(text)} characters)"
