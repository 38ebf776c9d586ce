"""Text of others that is made fit to be kept, shown and sent on: no half characters."""

from __future__ import annotations

from retinue.security.whole_texts import whole

__all__ = ["Mender", "whole"]


class Mender:
    """`whole` for a text that comes in pieces: the two halves of a character may come in different ones."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Return what can be said of the text so far, without what was returned before."""
        if self._half:
            piece = self._half + piece
            self._half = ""
        elif piece.isascii():
            return piece
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            self._half = piece[-1]
            piece = piece[:-1]
        return whole(piece)

    def end(self) -> str:
        """Return what is left: nothing, or a replacement for half a character."""
        return whole(self._half)
