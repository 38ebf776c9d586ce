"""The text layer of the wire: JSON, strictly, within limits that are checked before anything is built from the bytes.

Refused in both directions: NaN and infinities, duplicate keys, lone surrogates, integers beyond `MOST_DIGITS`, texts beyond the size
and nesting limits. Whatever the bytes are, the only error is WireError.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

import attrs

from retinue.mailbox.errors import WireError

__all__ = ["HUGE", "MOST_DIGITS", "Limits", "parse", "render"]

MOST_DIGITS = 1000
"""Decimal digits of the longest integer that crosses: reading a longer one costs time that grows with the square of its length."""

HUGE = 10**MOST_DIGITS

# Possessive, and ending an unterminated string at the end of the text: so each character is looked at once, whatever the text.
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


@attrs.frozen
class Limits:
    """What a registry takes and gives.

    Attributes:
        max_bytes: The longest text, in bytes. Default: 1 MiB.
        max_depth: The deepest nesting of objects and arrays, the message's own two objects included. Default: 64.
    """

    max_bytes: int = 1024 * 1024
    max_depth: int = 64

    def __attrs_post_init__(self) -> None:
        if self.max_bytes < 1 or not 1 <= self.max_depth <= 200:
            raise ValueError(f"max_bytes={self.max_bytes} must be at least 1, and max_depth={self.max_depth} between 1 and 200")


def parse(data: bytes, limits: Limits) -> Any:
    """The JSON value that the bytes spell. Raises WireError."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise WireError(f"the wire carries bytes, not {type(data).__name__}: encode the text as UTF-8 first")
    data = bytes(data)
    if len(data) > limits.max_bytes:
        raise WireError(f"{len(data)} bytes are more than the limit of {limits.max_bytes}; send less, or by reference", problem="too_large")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError(f"not UTF-8: {error.reason} at byte {error.start}") from None
    _check_depth(text, limits)
    try:
        value = _DECODER.decode(text)
        if _SURROGATE_ESCAPE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except WireError:
        raise
    except UnicodeEncodeError:
        raise WireError("a string holds a lone surrogate, which is no character") from None
    except RecursionError:
        raise WireError("nested too deeply for the stack that was left", problem="too_deep") from None
    except json.JSONDecodeError as error:
        raise WireError(f"not JSON: {error.msg} at character {error.pos}") from None
    except ValueError:
        raise WireError("not JSON") from None
    return value


def render(value: Any, limits: Limits) -> bytes:
    """The shortest JSON text of a value made of dict, list, str, int, float, bool and None, as UTF-8. Raises WireError."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        data = text.encode("utf-8")
    except RecursionError:
        raise WireError("nested too deeply to be encoded, or it contains itself", problem="too_deep") from None
    except (TypeError, ValueError) as error:
        raise WireError(f"cannot be written as JSON ({type(error).__name__})", problem="not_encodable") from None
    if len(data) > limits.max_bytes:
        raise WireError(
            f"its {len(data)} bytes are more than the limit of {limits.max_bytes}: send less, or by reference", problem="too_large"
        )
    _check_depth(text, limits)
    return data


def _check_depth(text: str, limits: Limits) -> None:
    most = limits.max_depth
    if text.count("[") + text.count("{") <= most:
        return
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        first = text[match.start()]
        if first in "[{":
            depth += 1
            if depth > most:
                raise WireError(f"nested more than {most} deep", problem="too_deep")
        elif first != '"':
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise WireError("an object has the same key twice")
    return made


def _integer(digits: str) -> int:
    if len(digits) - digits.startswith("-") > MOST_DIGITS:
        raise WireError(f"an integer has more than {MOST_DIGITS} digits", problem="too_large")
    return int(digits)


def _real(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise WireError("a number is beyond the range of a float")
    return value


def _constant(name: str) -> NoReturn:
    raise WireError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_real, parse_constant=_constant)
