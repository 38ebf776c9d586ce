"""Bodies of answers with a bound, on what comes over the wire and on what it unpacks to.

A few kilobytes of gzip can stand for gigabytes. So they are unpacked here, never further than to the bound, instead of by the client
library, which unpacks each piece whole; and an encoding that cannot be unpacked like that is refused.
"""

from __future__ import annotations

import zlib
from typing import Final

from retinue.security.errors import GuardRefused

__all__ = ["ENCODINGS", "Body"]

ENCODINGS: Final = "gzip, deflate"
"""What is asked for in `Accept-Encoding`."""

_GZIP: Final = 16 + zlib.MAX_WBITS


class Body:
    """Counts and unpacks one answer's body, piece by piece.

    Args:
        encoding: The answer's `Content-Encoding`; "" for none.
        limit: The most bytes, as they come and unpacked.
        where: Whose answer it is, for the text of errors.

    Raises:
        GuardRefused: The encoding is none of identity, gzip, deflate, or there are several. Its `what` is "body".
    """

    __slots__ = ("_encoding", "_head", "_limit", "_plain", "_raw", "_unpacker", "_where")

    def __init__(self, encoding: str, limit: int, where: str) -> None:
        names = [name for part in encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
        if names and (len(names) > 1 or names[0] not in ("gzip", "x-gzip", "deflate")):
            raise GuardRefused(
                f"the answer of {where} is in an encoding that was not asked for, so what it unpacks to has no bound. It was not read.",
                what="body",
            )
        self._encoding = names[0].removeprefix("x-") if names else ""
        self._limit = limit
        self._where = where
        self._raw = self._plain = 0
        self._head = b""
        self._unpacker = zlib.decompressobj(_GZIP) if self._encoding == "gzip" else None

    @property
    def unpacks(self) -> bool:
        """Whether what `feed` returns differs from what it takes."""
        return self._encoding != ""

    def announced(self, length: int) -> None:
        """Take note of the length that the answer announces. Raises GuardRefused for one above the bound."""
        if length > self._limit:
            raise self._too_much()

    def feed(self, piece: bytes) -> bytes:
        """What a piece of the body unpacks to.

        Raises:
            GuardRefused: With it the body is longer than its bound. Its `what` is "body".
            zlib.error: It cannot be unpacked.
        """
        self._raw += len(piece)
        if self._raw > self._limit:
            raise self._too_much()
        if not self._encoding:
            return piece
        return self._unpack(piece)

    def finish(self) -> None:
        """Note that the body has ended. Raises zlib.error if it may not end here."""
        if self._raw and self._encoding and (self._unpacker is None or not self._unpacker.eof):
            raise zlib.error("it ended too early")

    def _unpack(self, piece: bytes) -> bytes:
        if self._unpacker is None:  # deflate, of which there are two: with a header of two bytes and, from some servers, without
            self._head += piece
            if len(self._head) < 2:
                return b""
            piece = self._head
            headed = piece[0] & 0x0F == 8 and int.from_bytes(piece[:2]) % 31 == 0
            self._unpacker = zlib.decompressobj(zlib.MAX_WBITS if headed else -zlib.MAX_WBITS)
        unpacked: list[bytes] = []
        while piece:
            if self._unpacker.eof:
                if self._encoding != "gzip":
                    raise zlib.error("data after its end")
                self._unpacker = zlib.decompressobj(_GZIP)  # gzip may consist of several parts
            room = self._limit - self._plain
            unpacked.append(self._unpacker.decompress(piece, room + 1))
            self._plain += len(unpacked[-1])
            if self._plain > self._limit:
                raise self._too_much()
            piece = self._unpacker.unused_data
        return b"".join(unpacked)

    def _too_much(self) -> GuardRefused:
        return GuardRefused(
            f"the answer of {self._where} has more than {self._limit:,} bytes. It was cut off. Fix: ask for less, or give max_bytes= more.",
            what="body",
        )
