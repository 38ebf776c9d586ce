"""Rates: a bucket of requests for each token, refilled steadily."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final

__all__ = ["Rates"]

MOST_BUCKETS: Final = 4096
"""Tokens whose buckets are remembered; the one that was not used for longest is forgotten first, which means full."""


class Rates:
    """Buckets by name.

    Args:
        rate: Requests a second.
        burst: The size of a bucket.
    """

    __slots__ = ("_buckets", "_burst", "_rate")

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, now: float, cost: float = 1.0) -> float:
        """Takes requests out of a bucket: 0.0, or the seconds after which there are so many again.

        Args:
            name: Whose bucket.
            now: The time in seconds, by a clock that does not go back.
            cost: How many requests it counts as; never more than a full bucket has. Default: 1.
        """
        if self._rate == math.inf:
            return 0.0
        left = self._left(name, now)
        cost = min(cost, self._burst)
        if left < cost:
            return (cost - left) / self._rate
        self._keep(name, left - cost, now)
        return 0.0

    def owe(self, name: str, now: float, cost: float) -> None:
        """Takes more for a request that was let in and turned out to cost more: the bucket may owe as much as it holds.

        Args:
            name: Whose bucket.
            now: The time in seconds.
            cost: How many requests it counts as beyond the one.
        """
        if self._rate != math.inf:
            self._keep(name, max(-self._burst, self._left(name, now) - cost), now)

    def _left(self, name: str, now: float) -> float:
        left, at = self._buckets.get(name, (self._burst, now))
        return min(self._burst, left + (now - at) * self._rate)

    def _keep(self, name: str, left: float, now: float) -> None:
        self._buckets[name] = left, now
        self._buckets.move_to_end(name)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)
