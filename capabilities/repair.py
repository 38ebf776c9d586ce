r"""Mending slips of syntax in JSON that a model wrote, where only one thing can be meant.

Mended are: a comma after the last item, strings in single quotes, `None`, `True` and `False`, line breaks and other control characters within strings, `\'` within
strings, and a fence of backquotes around the whole. What has no end gets none: a value that was cut off is not a shorter value, it is one that nobody knows. What can
be read in two ways is left as it is.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["repair"]

MAX_DEPTH: Final = 64

LONGEST: Final = 200_000
"""Characters of a text that is mended: mending is slower than reading, and whoever writes that much can write it again."""

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD: Final = re.compile(r"[A-Za-z]+")
_PLAIN: Final[dict[str, re.Pattern[str]]] = {'"': re.compile(r'[^"\\\x00-\x1f]+'), "'": re.compile(r"[^'\"\\\x00-\x1f]+")}
_ESCAPE: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})')
_FENCE: Final = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\r?\n")
_WORDS: Final = {"null": "null", "true": "true", "false": "false", "None": "null", "True": "true", "False": "false"}


class _Unclear(Exception):
    """More than one thing can be meant, or nothing."""


def repair(text: str) -> str | None:
    """The JSON that a text was meant to be: the text itself where it is JSON; None where that is not certain.

    Args:
        text: What a model wrote.
    """
    if len(text) > LONGEST:
        return None
    try:
        return _Mender(_unfenced(text)).whole()
    except _Unclear:
        return None


def _unfenced(text: str) -> str:
    """What stands within a fence around the whole; else the text, without a byte order mark."""
    bare = text.strip()
    opening = _FENCE.match(bare)
    if opening is None or not bare.endswith("```") or len(bare) < opening.end() + 3:
        return text.removeprefix("\ufeff")
    return bare[opening.end() : -3]


class _Mender:
    """Reads a text once from left to right, and writes down what is JSON as it is, and what is not as what it means."""

    __slots__ = ("_at", "_out", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._out: list[str] = []

    def whole(self) -> str:
        self._space()
        self._value(0)
        self._space()
        if self._at != len(self._text):
            raise _Unclear
        return "".join(self._out)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _copy(self, count: int) -> None:
        self._out.append(self._text[self._at : self._at + count])
        self._at += count

    def _space(self) -> None:
        match = _SPACE.match(self._text, self._at)
        if match and match.end() != self._at:
            self._copy(match.end() - self._at)

    def _value(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _Unclear
        first = self._peek()
        if first == "{":
            self._items("}", depth)
        elif first == "[":
            self._items("]", depth)
        elif first and first in "\"'":
            self._string(first)
        else:
            self._single()

    def _items(self, end: str, depth: int) -> None:
        self._copy(1)
        self._space()
        while self._peek() != end:
            if end == "}":
                quote = self._peek()
                if not quote or quote not in "\"'":
                    raise _Unclear
                self._string(quote)
                self._space()
                if self._peek() != ":":
                    raise _Unclear
                self._copy(1)
                self._space()
            self._value(depth + 1)
            self._space()
            if self._peek() == ",":
                self._comma(end)
            elif self._peek() != end:
                raise _Unclear
        self._copy(1)

    def _comma(self, end: str) -> None:
        """One comma; left out where the end comes next."""
        comma = len(self._out)
        self._copy(1)
        self._space()
        if self._peek() == end:
            del self._out[comma]

    def _single(self) -> None:
        number = _NUMBER.match(self._text, self._at)
        if number:
            after = self._text[number.end() : number.end() + 1]
            if after.isalnum() or (after and after in "._+-"):  # 01, 1_000, 1.5.2
                raise _Unclear
            self._copy(number.end() - self._at)
            return
        word = _WORD.match(self._text, self._at)
        meant = _WORDS.get(word[0]) if word else None
        if word is None or meant is None:
            raise _Unclear
        self._out.append(meant)
        self._at = word.end()

    def _string(self, quote: str) -> None:
        text, out = self._text, self._out
        plain = _PLAIN[quote]
        self._at += 1
        out.append('"')
        while True:
            match = plain.match(text, self._at)
            if match:
                out.append(match[0])
                self._at = match.end()
            character = self._peek()
            if character == quote:
                break
            if not character:  # it has no end
                raise _Unclear
            if character == "\\":
                self._escape()
                continue
            self._at += 1
            if character == '"':  # within single quotes
                out.append('\\"')
            else:
                out.append(_CONTROLS.get(character) or f"\\u{ord(character):04x}")
        self._at += 1
        out.append('"')
        self._after_string()

    def _after_string(self) -> None:
        """What follows a string is structure; else the quote that ended it may have been one within it."""
        match = _SPACE.match(self._text, self._at)
        following = self._text[match.end() : match.end() + 1] if match else ""
        if following and following not in ",:]}":
            raise _Unclear

    def _escape(self) -> None:
        match = _ESCAPE.match(self._text, self._at)
        if match:
            self._copy(match.end() - self._at)
        elif self._text[self._at + 1 : self._at + 2] == "'":
            self._out.append("'")
            self._at += 2
        else:  # \d or \x41: a backslash that was meant, or an escape of another language
            raise _Unclear


_CONTROLS: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
