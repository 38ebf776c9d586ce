"""A clock for deadlines: milliseconds since 1970 that never go back.

The wall clock may be set back, and a deadline that had passed would then lie ahead again. So the time is the larger of the wall clock
and of what the monotonic clock has counted since the start, and never smaller than what was answered before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, final

from retinue.security.errors import AuthorityError
from retinue.security.limits import NEVER

__all__ = ["Clock"]

_MS: Final = 1_000_000  # nanoseconds


@final
class Clock:
    """Tells the time for deadlines. Safe to use from any thread.

    Args:
        clock: For tests: milliseconds since 1970, in place of the wall clock and the monotonic one.
    """

    __slots__ = ("_clock", "_latest", "_lock", "_offset")

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self._clock = clock
        self._lock = threading.RLock()  # re-entrant, because a collection inside may run anybody's finaliser, and that may ask for the time
        self._latest = 0
        self._offset = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """Milliseconds since 1970.

        Raises:
            AuthorityError: The clock that was given raised, or answered something else than a number of milliseconds.
        """
        now = max(time.time_ns(), time.monotonic_ns() + self._offset) // _MS if self._clock is None else self._asked(self._clock)
        with self._lock:
            self._latest = max(self._latest, now)
            return self._latest

    @staticmethod
    def _asked(clock: Callable[[], int]) -> int:
        try:
            now: object = clock()
        except Exception as error:
            raise AuthorityError("the authority's clock failed, so nothing that expires can be permitted; its error is chained.") from error
        if type(now) is not int or not 0 <= now < NEVER:
            raise AuthorityError(f"the authority's clock answered no int of milliseconds since 1970, but a {type(now).__name__}.")
        return now
