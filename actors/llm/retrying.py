"""Whether an endpoint is asked again, and after how long. The one place in which a request to a model is repeated.

An error is judged by its type and its status alone, never by the words of its text. Nothing is repeated after a piece of the answer was
passed on; that is for `Endpoint` to see to.
"""

from __future__ import annotations

import email.utils
import math
import random
import re
import time
from collections.abc import Callable, Mapping

import attrs

from retinue.actors.llm.errors import (
    BadStreamEvent,
    ContentFiltered,
    ContextOverflow,
    KeyRefused,
    ModelError,
    ModelFailed,
    ModelTimeout,
    ModelUnreachable,
    QuotaExceeded,
    RateLimited,
    StreamTruncated,
)

__all__ = ["LONGEST_WAIT", "Retries", "asked_wait", "is_retryable"]

LONGEST_WAIT = 60.0
"""Seconds; an endpoint that asks for a longer wait is not waited for: the asker gets the error, which says how long, at once."""

_FIRST_WAIT = 0.5
_LONGEST_OWN_WAIT = 8.0
_JITTER = 0.25

_NEVER = (KeyRefused, QuotaExceeded, ContextOverflow, ContentFiltered)
_ALWAYS = (ModelUnreachable, ModelTimeout, ModelFailed, RateLimited, StreamTruncated, BadStreamEvent)
_STATUSES = frozenset((408, 409, 425, 429))


def is_retryable(error: ModelError) -> bool:
    """Whether the same request may succeed when it is sent again: after a lost connection, a time-out, a broken stream, and the statuses 408,
    409, 425, 429 and 5xx; not where a quota is used up, and after no other 4xx.
    """
    if isinstance(error, _NEVER):
        return False
    status = error.status
    return isinstance(error, _ALWAYS) or (status is not None and (status in _STATUSES or 500 <= status < 600))


@attrs.frozen
class Retries:
    """How often and after which waits an endpoint is asked again.

    Attributes:
        most: How many more times; default 2.
        chance: Gives a number from 0 to 1; default the system's own randomness. Each wait is up to a quarter shorter by it, so that those
            who were refused together do not come back together.
    """

    most: int = 2
    chance: Callable[[], float] = attrs.field(default=random.random, repr=False, eq=False)

    def wait(self, retry: int, asked: float | None) -> float:
        """The seconds to wait before a retry: 0.5, 1, 2, … 8, less by chance, and never less than what the endpoint asked for.

        Args:
            retry: Which one, from 1.
            asked: What the endpoint asked for, in seconds, or None.
        """
        own: float = min(_FIRST_WAIT * 2.0 ** min(retry - 1, 10), _LONGEST_OWN_WAIT)
        own *= 1.0 - _JITTER * self.chance()
        if asked is None or asked <= own:
            return own
        return asked + own * _JITTER * self.chance()


def asked_wait(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """The seconds that an answer asks to wait, from 0 to a day: `retry-after-ms`, `retry-after` (seconds, whole or not, or a date), or the
    `x-ratelimit-reset…` of the limit that is used up ("6m0s", "250ms", seconds, or a time of the clock). None where it asks for nothing.

    Args:
        headers: The answer's headers, looked up in lower case.
        now: The wall clock's time in seconds since the epoch; default: read it.
    """
    value = headers.get("retry-after-ms")
    if value is not None and (milliseconds := _number(value)) is not None:
        return _bounded(milliseconds / 1000)
    value = headers.get("retry-after")
    if value is not None and (seconds := _retry_after(value, now)) is not None:
        return seconds
    used_up: list[float] = []
    others: list[float] = []
    for what in ("requests", "tokens", ""):
        tail = f"-{what}" if what else ""
        value = headers.get(f"x-ratelimit-reset{tail}")
        seconds = None if value is None else _reset(value, now)
        if seconds is not None:
            left = headers.get(f"x-ratelimit-remaining{tail}", "").strip()
            (used_up if left == "0" else others).append(seconds)
    # Of limits that are not known to be used up none may be the reason: the shortest is the one that cannot be wrong by much.
    return max(used_up) if used_up else min(others, default=None)


def _retry_after(value: str, now: float | None) -> float | None:
    seconds = _number(value)
    if seconds is None:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - (time.time() if now is None else now)
        except (ValueError, OverflowError, TypeError):
            return None
    return _bounded(seconds)


_SPAN = re.compile(
    r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?", re.ASCII
)
_UNITS = (86_400.0, 3600.0, 60.0, 1.0, 0.001)
_LONGEST_HEADER = 100
_EPOCH = 1_000_000_000.0  # a number above this is a time, not a wait


def _reset(value: str, now: float | None) -> float | None:
    value = value.strip()
    if not value or len(value) > _LONGEST_HEADER:
        return None
    number = _number(value)
    if number is not None:
        if number > _EPOCH:
            number = (number / 1000 if number > _EPOCH * 100 else number) - (time.time() if now is None else now)
        return _bounded(number)
    found = _SPAN.fullmatch(value)
    if found is None:
        return _retry_after(value, now)
    return _bounded(sum(float(part) * unit for part, unit in zip(found.groups(), _UNITS, strict=True) if part is not None))


def _number(value: str) -> float | None:
    if "_" in value:  # Python's own way to write numbers
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), 86_400.0)
