"""JSON as models write it, read strictly: a key twice, NaN and nonsense are refused with their place; half of a surrogate pair becomes U+FFFD."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from retinue.capabilities.schema_shapes import Number
from retinue.security.whole_texts import whole

__all__ = ["LONGEST", "MAX_DEPTH", "BrokenJson", "plain", "read", "read_exactly", "read_with", "without_surrogates"]

LONGEST: Final = 4 * 2**20
"""Characters of one text."""

MAX_DEPTH: Final = 64
"""Arrays and objects within each other."""


MOST_PARTS: Final = 100_000
"""Arrays and objects, within each other or not."""


class BrokenJson(ValueError):
    """The text is no JSON, or none that is read.

    Attributes:
        position: Where, in characters from 0; None where it is not one place.
        syntax: Whether the grammar is at fault, so that mending it could help.
    """

    def __init__(self, text: str, position: int | None = None, *, syntax: bool = False) -> None:
        super().__init__(text)
        self.position = position
        self.syntax = syntax


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise BrokenJson(f"the key {twice[:80]!r} stands twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise BrokenJson(f"{name} is no JSON number")


plain: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)


def _whole(text: str) -> int | Number:
    return Number(text) if text == "-0" else int(text)  # an int has no -0


_exact: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant, parse_float=Number)
_signed: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant, parse_float=Number, parse_int=_whole)


def read(text: str) -> Any:
    """The value of one JSON text.

    Raises:
        BrokenJson: It is none.
    """
    return read_with(plain, text)


def read_exactly(text: str) -> Any:
    """The same, with each number that has a fraction or an exponent as a `Number`, which knows how it was written. Raises as `read`."""
    return read_with(_signed if "-0" in text else _exact, text)


def read_with(decoder: json.JSONDecoder, text: str) -> Any:
    """The value as one of the decoders here makes it; what `read` and `read_exactly` call. Raises as they do."""
    if len(text) > LONGEST:
        raise BrokenJson(f"the text has {len(text):,} characters, and {LONGEST:,} are the most that is read")
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(text)
    try:
        try:
            value, end = decoder.scan_once(text, 0)  # type: ignore[attr-defined]  # what raw_decode calls
        except (json.JSONDecodeError, StopIteration):
            if text[:1] not in _SPACE:
                decoder.raw_decode(text)  # raises, and says where
            value, end = decoder.raw_decode(text, len(text) - len(text.lstrip(" \t\n\r")))
    except json.JSONDecodeError as error:
        raise BrokenJson(error.msg, error.pos, syntax=True) from None
    except BrokenJson:
        raise
    except ValueError:  # of int(), for thousands of digits
        raise BrokenJson("a number has too many digits") from None
    except RecursionError:
        raise BrokenJson(f"arrays and objects are nested more than {MAX_DEPTH} deep") from None
    if end != len(text) and text[end:].strip(" \t\n\r"):
        raise BrokenJson("Extra data", len(text) - len(text[end:].lstrip(" \t\n\r")), syntax=True)
    # Escapes may make half a pair; and what is not ASCII may have one in it already.
    if "\\u" in text or "\\U" in text or not text.isascii():
        return without_surrogates(value)
    return value


_SPACE: Final = frozenset(" \t\n\r")
_STRINGS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
"""With or without an end."""

_STRUCTURE: Final = re.compile(rf"{_STRINGS.pattern}|[\[{{\]}}]", re.DOTALL)


def _check_depth(text: str) -> None:
    bare = _STRINGS.sub("", text)
    count = bare.count("[") + bare.count("{")
    if count > MOST_PARTS:
        raise BrokenJson(f"there are {count:,} arrays and objects in it, and {MOST_PARTS:,} are the most that is read")
    if count <= MAX_DEPTH:
        return
    depth = 0
    for found in _STRUCTURE.finditer(text):
        character = found[0]
        if character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise BrokenJson(f"arrays and objects are nested more than {MAX_DEPTH} deep", found.start())
        elif character in "]}":
            depth -= 1


def without_surrogates(value: Any) -> Any:
    """The value, each half of a surrogate pair in it replaced by U+FFFD: half a character cannot be sent, stored or printed. Raises BrokenJson where that makes two keys one."""
    if type(value) is str:
        return whole(value)
    if type(value) is list:
        return [without_surrogates(item) for item in value]
    if type(value) is dict:
        return _object([(without_surrogates(key), without_surrogates(item)) for key, item in value.items()])
    return value
