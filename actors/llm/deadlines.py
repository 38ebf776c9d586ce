"""How long an endpoint may take, and the clock that is read while its answer comes in."""

from __future__ import annotations

import math

import attrs
import trio

__all__ = ["LONGEST_TAIL", "MOST_GAPS", "Clock", "Timeouts"]

MOST_GAPS = 10
"""An answer whose connection lives, but in which no token comes, ends after this many times `between_tokens`: a server may send comments
for ever."""

LONGEST_TAIL = 5.0
"""Seconds in which an endpoint may send the usage after the model is finished; the answer is whole without it."""


def _seconds(_instance: object, field: attrs.Attribute[float], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value <= 0:
        raise ValueError(f"Timeouts.{field.name} is {value!r}: give seconds above zero, or math.inf for none")


@attrs.frozen(kw_only=True)
class Timeouts:
    """How long an endpoint may take, in seconds; `math.inf` for no limit.

    Attributes:
        connect: To open the connection, and once more for its TLS; default 10.
        first_token: From then until the first piece of the answer; default 60. Comments that keep a connection alive are none.
        between_tokens: Without any byte after that; default 120. Comments count as signs of life, ten times as long at most.
        total: For the whole request, with all its retries and the waits before them; default `math.inf`: the ask's own time-out.

    An answer that comes in one piece (a profile without streaming) has `first_token` and `between_tokens` together.
    """

    connect: float = attrs.field(default=10.0, validator=_seconds)
    first_token: float = attrs.field(default=60.0, validator=_seconds)
    between_tokens: float = attrs.field(default=120.0, validator=_seconds)
    total: float = attrs.field(default=math.inf, validator=_seconds)


class Clock:
    """When one attempt's next wait is over, and by which of the time-outs. Times are those of `trio.current_time()`.

    Args:
        timeouts: The endpoint's.
        total_at: When the whole request is over.
        whole: Whether the answer comes in one piece.
    """

    __slots__ = ("_between", "_connect", "_first", "_told_at", "_total", "_total_at", "cause", "deadline", "limit")

    def __init__(self, timeouts: Timeouts, total_at: float, *, whole: bool = False) -> None:
        self._first = timeouts.first_token + (timeouts.between_tokens if whole else 0.0)
        self._between = timeouts.between_tokens
        self._total_at = total_at
        self._told_at: float | None = None
        self._total = timeouts.total
        self.deadline = math.inf
        self.cause = "total"
        """The name of the time-out that `deadline` stands for."""
        self.limit = timeouts.total
        """Its seconds."""
        self._connect = timeouts.connect
        self._set(trio.current_time() + timeouts.connect, "connect", timeouts.connect)

    def shakes_hands(self) -> None:
        """The connection's TLS begins, whose time-out is httpcore's: it closes the socket for that one, and not for a cancellation by this."""
        self._set(trio.current_time() + self._connect + 1.0, "connect", self._connect)

    def connected(self) -> None:
        """The request can be sent: the wait for the first token begins."""
        self._set(trio.current_time() + self._first, "first_token", self._first)

    def alive(self) -> None:
        """Bytes came, whatever they are. Before the first token that changes nothing."""
        if self._told_at is None:
            return
        now = trio.current_time()
        most = self._told_at + MOST_GAPS * self._between
        if now + self._between <= most:
            self._set(now + self._between, "between_tokens", self._between)
        else:
            self._set(most, "between_tokens", MOST_GAPS * self._between)

    def told(self) -> None:
        """A token came."""
        self._told_at = now = trio.current_time()
        self._set(now + self._between, "between_tokens", self._between)

    def ended(self) -> None:
        """The model is finished; what may still come is its usage."""
        self._set(trio.current_time() + LONGEST_TAIL, "between_tokens", LONGEST_TAIL)

    def _set(self, deadline: float, cause: str, limit: float) -> None:
        if deadline <= self._total_at:
            self.deadline, self.cause, self.limit = deadline, cause, limit
        else:
            self.deadline, self.cause, self.limit = self._total_at, "total", self._total
