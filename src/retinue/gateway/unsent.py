"""Unsent: what clients have asked for and do not take. It is kept for them, in all and for each token only so much of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from retinue.gateway.bounds import Bounds

__all__ = ["SMALL", "Unsent"]

SMALL: Final = 16_384
"""Bytes of an answer that are not worth counting: the bound on connections is their bound."""


class Taker(Protocol):
    """A connection that is being sent something.

    Attributes:
        owner: A name of the token that it was opened with.
        moved: When its client last took something, in seconds of trio's clock.
    """

    owner: str
    moved: float

    def abort(self) -> None:
        """Cuts it off."""


class Unsent:
    """Counts bytes that are being sent. Where there are too many, the connection is cut whose client has taken nothing for longest: of the token that has too
    many, or, where all of them together have, of the token that has most. Who is alone gets what it has asked for, which has a bound of its own.

    Args:
        bounds: `max_unsent` and `max_unsent_per_token`.
    """

    __slots__ = ("_most", "_most_of_token", "_of_token", "_total")

    def __init__(self, bounds: Bounds) -> None:
        self._most = bounds.max_unsent
        self._most_of_token = bounds.max_unsent_per_token
        self._total = 0
        self._of_token: dict[str, dict[Taker, int]] = {}

    @property
    def total(self) -> int:
        """Bytes that are counted now."""
        return self._total

    def begin(self, taker: Taker, size: int) -> str:
        """So much is to be sent. Returns under which name it is counted."""
        owner = taker.owner
        self._of_token.setdefault(owner, {})[taker] = size
        self._total += size
        while self._sum(owner) > self._most_of_token and len(self._of_token[owner]) > 1:
            self._cut(owner)
        while self._total > self._most and sum(map(len, self._of_token.values())) > 1:
            self._cut(max(self._of_token, key=self._sum))
        return owner

    def end(self, taker: Taker, owner: str) -> None:
        """It was sent, or will not be."""
        takers = self._of_token.get(owner)
        if takers is None or taker not in takers:
            return  # it was cut off
        self._total -= takers.pop(taker)
        if not takers:
            del self._of_token[owner]

    def _sum(self, owner: str) -> int:
        return sum(self._of_token.get(owner, {}).values())

    def _cut(self, owner: str) -> None:
        slowest = min(self._of_token[owner], key=lambda taker: taker.moved)
        self.end(slowest, owner)
        slowest.abort()
