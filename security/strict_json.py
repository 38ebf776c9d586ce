"""JSON read strictly: what two readers could read differently is refused.

The standard library's reader takes the last of two equal keys, takes NaN, makes lone surrogates, and goes as deep as the stack. Whoever
checks with one reader and acts with another can be told two things by one text.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

__all__ = ["MAX_DEPTH", "read_json"]

MAX_DEPTH: Final = 64
"""Arrays and objects within each other."""

MAX_DIGITS: Final = 400
"""Characters of one number."""


def read_json(data: bytes | str, *, max_bytes: int = 2**20, max_depth: int = MAX_DEPTH) -> Any:
    """The value of one JSON text.

    Args:
        data: The text; bytes are UTF-8 without a byte order mark.
        max_bytes: The longest text that is read. Default: 1 MiB.
        max_depth: Arrays and objects within each other. Default: 64.

    Raises:
        ValueError: It is no JSON, is too long or too deep, has a key twice, a number that is no number or has more than 400 characters, or
            half of a surrogate pair. The text says which, and shows nothing of the data.
    """
    try:
        raw = data.encode("utf-8") if isinstance(data, str) else data
        if len(raw) > max_bytes:
            raise ValueError(f"the JSON text has {len(raw):,} bytes, and {max_bytes:,} are the most that is read")
        text = raw.decode("utf-8")
    except UnicodeError:
        raise ValueError("the JSON text is not UTF-8") from None
    # The depth is looked at first, without a stack: the reader's own limit would be the interpreter's, and an error of another kind.
    _check_depth(text, max_depth)
    try:
        value = _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"the text is no JSON: {error.msg}, at character {error.pos}") from None
    if "\\u" in text or "\\U" in text:
        _check_surrogates(value)
    return value


def _check_depth(text: str, most: int) -> None:
    if text.count("[") + text.count("{") <= most:
        return
    depth = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            if depth > most:
                raise ValueError(f"the JSON text is nested more than {most} deep")
        elif character in "]}":
            depth -= 1


def _check_surrogates(value: Any) -> None:
    if type(value) is str:
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise ValueError("the JSON text has half of a surrogate pair")
    elif type(value) is list:
        for item in value:
            _check_surrogates(item)
    elif type(value) is dict:
        for key, item in value.items():
            _check_surrogates(key)
            _check_surrogates(item)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("the JSON text has an object with a key twice")
    return found


def _int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"the JSON text has a number of more than {MAX_DIGITS} characters")
    return int(digits)


def _float(digits: str) -> float:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"the JSON text has a number of more than {MAX_DIGITS} characters")
    value = float(digits)
    if value - value != 0.0:
        raise ValueError("the JSON text has a number that is too large for a float")
    return value


_decoder: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant, parse_int=_int, parse_float=_float)
