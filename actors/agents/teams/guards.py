"""What keeps a swarm from handing a conversation about for ever: hops, repetition, time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Final, NoReturn

import attrs
import trio

from retinue.actors.agents.errors import HandoffLimit
from retinue.security.spelling import names_the_nearest

__all__ = ["HandoffGuards", "Watch"]

_COUNTS: Final = {"hops": 0, "window": 2, "least_different": 1}
_SECONDS: Final = ("member_seconds", "seconds")

SHOWN: Final = 12
"""Members of a way that an error's text names."""


@names_the_nearest
@attrs.frozen(kw_only=True)
class HandoffGuards:
    """How far one run of a swarm may go. Over a limit it ends with `HandoffLimit`, never as if it had succeeded. None: no limit of this kind.

    Attributes:
        hops: Handoffs of one run; default 20. 0: nobody hands over.
        window: So many members asked in a row are looked at for repetition; default 8.
        least_different: So many different ones have to be among them; default 3. Two that hand over to each other end at the window.
        member_seconds: Seconds that one member may take for its part; default 300.
        seconds: Seconds of the whole run; default 900. What a person takes over a run that waits for an approval does not count.

    Raises TypeError or ValueError for what is none of these.
    """

    __immutable__: ClassVar[bool] = True

    hops: int | None = 20
    window: int | None = 8
    least_different: int = 3
    member_seconds: float | None = 300.0
    seconds: float | None = 900.0

    def __attrs_post_init__(self) -> None:
        for field, least in _COUNTS.items():
            value = getattr(self, field)
            if value is None and field != "least_different":
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"HandoffGuards.{field} is a {type(value).__name__}: give an int, or None for no limit")
            if value < least:
                raise ValueError(f"HandoffGuards({field}={value}): give {least} or more")
        for field in _SECONDS:
            value = getattr(self, field)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"HandoffGuards.{field} is a {type(value).__name__}: give seconds, or None for no limit")
            if not 0 < value < math.inf:
                raise ValueError(f"HandoffGuards({field}={value}): give a number of seconds above zero, or None for no limit")
        if self.window is not None and self.least_different > self.window:
            raise ValueError(
                f"HandoffGuards(window={self.window}, least_different={self.least_different}): among {self.window} there are never so many different ones"
            )


class Watch:
    """One run under the guards.

    Args:
        guards: The limits.
        path: The swarm's address, for texts.
        now: The clock, in seconds.
    """

    __slots__ = ("_ends", "_now", "_path", "guards", "way")

    def __init__(self, guards: HandoffGuards, path: str, now: Callable[[], float] = trio.current_time) -> None:
        self.guards = guards
        self.way: list[str] = []
        self._path = path
        self._now = now
        self._ends = math.inf if guards.seconds is None else now() + guards.seconds

    def enter(self, member: str) -> None:
        """A member is about to be asked. Raises HandoffLimit where that is a hop, or a repetition, too many."""
        guards = self.guards
        self.way.append(member)
        if guards.hops is not None and len(self.way) - 1 > guards.hops:
            self._over("hops", f"there were {guards.hops} handoffs, and {self.way[-2]!r} wants another", "hops=…")
        window = guards.window
        if window is not None and len(self.way) >= window:
            seen = len(set(self.way[-window:]))
            if seen < guards.least_different:
                who = "one member" if seen == 1 else f"{seen} members"
                self._over(
                    "window", f"{who} had the conversation the last {window} times: they hand it to and fro", "window=…, least_different=…"
                )

    def timeout(self) -> float | None:
        """Seconds that the next member may take; None: as many as the asker gives. Raises HandoffLimit where there are none left."""
        left = self._ends - self._now()
        if left <= 0:
            self._over("seconds", f"it has taken {self.guards.seconds:g} seconds", "seconds=…")
        most = self.guards.member_seconds
        if most is None:
            return None if left == math.inf else left
        return min(most, left)

    def too_slow(self, member: str, began: float, timeout: float | None) -> None:
        """A member's ask timed out. Raises HandoffLimit where that was the guards' time, and returns where it was another's."""
        if timeout is None or self._now() - began < timeout:
            return
        if self._now() >= self._ends:
            self._over("seconds", f"it has taken {self.guards.seconds:g} seconds", "seconds=…")
        self._over("member_seconds", f"{member!r} has not answered within {timeout:g} seconds", "member_seconds=…")

    def _over(self, limit: str, why: str, option: str) -> NoReturn:
        way = " > ".join([*(["…"] if len(self.way) > SHOWN else []), *self.way[-SHOWN:]])
        raise HandoffLimit(
            f"{self._path}: the run has reached its limit {limit}: {why} ({way}). It stopped, and the swarm remembers nothing of it. Give more with "
            f"guards=rt.HandoffGuards({option}), or fewer handoffs with handoffs=",
            limit=limit,
            way=tuple(self.way),
        )
