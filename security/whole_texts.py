"""Texts without half characters. JSON can carry lone surrogates, and no file, no terminal and no other endpoint takes them."""

from __future__ import annotations

__all__ = ["whole"]


def whole(text: str) -> str:
    """The text as it can be kept, shown and sent on: halves of surrogate pairs that stand alone become U+FFFD, those that belong together one character."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
