"""Words in a text: whole ones, in scripts that put blanks between words and in those that put none."""

from __future__ import annotations

import unicodedata

__all__ = ["goes_on", "stands_in"]


def stands_in(words: str, text: str) -> bool:
    """Whether a text holds these words as they are written, and whole: "APPROVE" is not found in "DISAPPROVE"."""
    start = text.find(words)
    while start >= 0:
        end = start + len(words)
        if not goes_on(text[start - 1 : start], words[0]) and not goes_on(words[-1], text[end : end + 1]):
            return True
        start = text.find(words, start + 1)
    return False


def goes_on(left: str, right: str) -> bool:
    """Whether a word goes on from one character to the next. Scripts that put no blanks between words have no such border, so that it is none."""
    return _in_word(left) and _in_word(right)


def _in_word(character: str) -> bool:
    return (
        bool(character)
        and (character.isalnum() or character == "_" or unicodedata.category(character).startswith("M"))
        and unicodedata.east_asian_width(character) not in ("W", "F")
    )
