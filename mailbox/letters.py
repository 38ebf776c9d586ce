"""Dead letters: every message that was sent and not handled, with the reason.

Recording is synchronous, cheap and never raises, for it stands on the paths where something has already gone wrong. What is recorded can
be counted (`counts`), looked at (`recent`), followed (`subscribe`), and is logged on `retinue.deadletters`, rate limited and without the
payload: payloads may hold secrets.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Literal, Self, TypeAlias, get_args

import attrs

from retinue.security.redaction import redact

__all__ = ["REASONS", "DeadLetter", "DeadLetterStatistics", "DeadLetters", "LetterSubscription", "Reason"]

Reason = Literal[
    "stopped",  # the target had stopped, or stopped with the message in its mailbox
    "mailbox_full",  # overflow="reject", or no room before the deadline
    "dropped_oldest",  # made room for a newer one
    "dropped_newest",  # the newest in a full mailbox
    "conflated",  # replaced by a newer message of the same key
    "poison",  # a tell whose handler failed
    "denied",  # authority refused it
    "withdrawn",  # the asker gave up before it was taken up
    "late_reply",  # not a message but an answer that nobody waits for any more
    "unhandled",  # no handler for it, found after it was sent
    "expired",  # its deadline passed before it was taken up
    "system_closed",  # the system was closing
    "cancelled",  # its handler was cancelled before it was done
    "fault",  # a test has lost it on purpose
    "lagged",  # the oldest of a topic's messages that waited for a slow subscriber
    "unsubscribed",  # the subscriber gave its subscription up while it waited
]
REASONS: tuple[Reason, ...] = get_args(Reason)

_ASKERS: frozenset[Reason] = frozenset({"withdrawn", "expired"})

_logger = logging.getLogger("retinue.deadletters")


def _type_name(value: object) -> str:
    return "None" if value is None else type(value).__qualname__


@attrs.frozen(eq=False)
class DeadLetter:
    """One message that was not handled. Its repr shows types only, never the payload.

    Attributes:
        reason: Why, one of `REASONS`.
        message: The message itself; for a "late_reply" the reply.
        target: The path of the actor that should have got it.
        sender: The path of the actor that sent it, or None (sent from outside, or a timer).
        error: The error that came of it, where there is one.
        at: When, in seconds since the epoch.
    """

    reason: Reason
    message: Any = attrs.field(repr=_type_name)
    target: str
    sender: str | None = None
    error: BaseException | None = attrs.field(default=None, repr=_type_name)
    at: float = 0.0

    @property
    def redacted(self) -> Any:
        """The message as it may be shown to people: what looks like a secret is left out, what is large is cut (`rt.redact`)."""
        return redact(self.message)


@attrs.frozen
class DeadLetterStatistics:
    """Counts since the system's start.

    Attributes:
        count: All dead letters, late replies included.
        messages: Those that were messages (the term of "sent = handled + dead letters + queued"): all but the late replies.
        counts: The number for each reason.
        logged: How many got a log line of their own.
        unlogged: How many were only counted in a summary line (or will be).
        recent: How many `recent` holds.
        subscriptions: How many subscriptions are open.
    """

    count: int
    messages: int
    counts: Mapping[Reason, int]
    logged: int
    unlogged: int
    recent: int
    subscriptions: int


_Entry: TypeAlias = tuple[Reason, Any, str, str | None, BaseException | None, float]


class LetterSubscription:
    """The dead letters from now on, in a bounded queue: when it is full the oldest is dropped, and `lagged` counts it.

    Close it when done, or use it as a context manager.

    Attributes:
        lagged: How many were dropped because the subscriber was too slow.
        closed: Whether it takes no more.
    """

    __slots__ = ("_letters", "_queue", "closed", "lagged")

    def __init__(self, letters: DeadLetters, capacity: int) -> None:
        self._letters = letters
        self._queue: deque[_Entry] = deque(maxlen=capacity)
        self.lagged = 0
        self.closed = False

    def get_nowait(self) -> DeadLetter | None:
        """The oldest letter not yet taken, or None."""
        try:
            return DeadLetter(*self._queue.popleft())
        except IndexError:
            return None

    def close(self) -> None:
        """Take no more; what is queued is forgotten. Closing twice is fine."""
        self._letters._unsubscribe(self)
        self._queue.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._queue)

    def __bool__(self) -> bool:  # an empty one is still a subscription
        return True

    def __repr__(self) -> str:
        return f"<LetterSubscription: {len(self)} queued, {self.lagged} lagged{', closed' if self.closed else ''}>"


class DeadLetters:
    """The dead letters of one system. Safe to use from any thread.

    Args:
        keep: How many of the latest `recent` holds (messages and errors stay in memory as long as they are there). Default: 1,000.
        lines: How many letters of a window get a log line of their own; the others are summed up in one line. Default: 10.
        window: The length of that window in seconds. Default: 60.
        clock: Seconds since the epoch.
    """

    def __init__(self, *, keep: int = 1000, lines: int = 10, window: float = 60.0, clock: Callable[[], float] = time.time) -> None:
        if keep < 0 or lines < 0 or not window > 0:
            raise ValueError(f"keep={keep} and lines={lines} count from 0, and window={window} is a number of seconds above 0")
        self._clock = clock
        self._lines = lines
        self._window = window
        # Re-entrant: a finaliser or a signal handler may send, and so record, while this thread holds it.
        self._lock = threading.RLock()
        self._counts: dict[Reason, int] = dict.fromkeys(REASONS, 0)
        self._recent: deque[_Entry] = deque(maxlen=keep)
        self._subscriptions: tuple[LetterSubscription, ...] = ()
        self._window_start = float("-inf")
        self._lines_left = 0
        self._logged = 0
        self._unlogged = 0
        self._to_sum_up: dict[Reason, int] = {}

    def __repr__(self) -> str:
        with self._lock:
            counts = [f"{count} {reason}" for reason, count in self._counts.items() if count]
        return f"<DeadLetters: {', '.join(counts) or 'none'}>"

    def record(self, reason: Reason, message: Any, target: str, sender: str | None = None, error: BaseException | None = None) -> None:
        """Count, keep and perhaps log one dead letter. Never raises."""
        summary: tuple[dict[Reason, int], float] | None = None
        try:
            with self._lock:
                self._counts[reason] = self._counts.get(reason, 0) + 1
                now = self._clock()
                entry = (reason, message, target, sender, error, now)
                self._recent.append(entry)
                for subscription in self._subscriptions:
                    queue = subscription._queue
                    if len(queue) == queue.maxlen:
                        subscription.lagged += 1
                    queue.append(entry)
                if reason in _ASKERS:  # the asker gave up and knows it: no line unless somebody debugs
                    _logger.debug("dead letter: %s to %s from %s: %s", _type_name(message), target, sender or "outside", reason)
                    return
                # A clock that was set back must not silence the log until it has caught up: hence the two-sided test.
                if not 0 <= now - self._window_start < self._window:
                    summary = self._open_window(now)
                if self._lines_left <= 0:
                    self._unlogged += 1
                    self._to_sum_up[reason] = self._to_sum_up.get(reason, 0) + 1
                    return
                self._lines_left -= 1
                self._logged += 1
            # Outside the lock: a log handler may block, or send messages itself.
            if summary is not None:
                _log_summary(*summary)
            _log_line(reason, message, target, sender, error)
        except Exception:
            return

    def flush(self) -> None:
        """Log the summary of what has not been logged yet; the system does so when it stops. Never raises."""
        try:
            with self._lock:
                summary = self._take_summary(self._clock())
            if summary is not None:
                _log_summary(*summary)
        except Exception:
            return

    def subscribe(self, capacity: int = 1000) -> LetterSubscription:
        """Follow the dead letters from now on, through a queue of `capacity` letters. Close what you get."""
        if capacity < 1:
            raise ValueError(f"capacity={capacity} holds no letter: give at least 1")
        subscription = LetterSubscription(self, capacity)
        with self._lock:
            self._subscriptions = (*self._subscriptions, subscription)
        return subscription

    @property
    def count(self) -> int:
        """All dead letters so far, late replies included."""
        with self._lock:
            return sum(self._counts.values())

    @property
    def messages(self) -> int:
        """The dead letters that were messages: all but the late replies, which are answers to a message that was counted as handled."""
        with self._lock:
            return sum(self._counts.values()) - self._counts["late_reply"]

    @property
    def counts(self) -> Mapping[Reason, int]:
        """The number for each reason, as of now; every reason is there."""
        with self._lock:
            return MappingProxyType(dict(self._counts))

    @property
    def recent(self) -> tuple[DeadLetter, ...]:
        """The latest, oldest first."""
        with self._lock:
            entries = tuple(self._recent)
        return tuple(DeadLetter(*entry) for entry in entries)

    def clear(self) -> None:
        """Forget what `recent` holds; the counts stay."""
        with self._lock:
            self._recent.clear()

    def statistics(self) -> DeadLetterStatistics:
        """A consistent snapshot of the counts."""
        with self._lock:
            return DeadLetterStatistics(
                count=self.count,
                messages=self.messages,
                counts=self.counts,
                logged=self._logged,
                unlogged=self._unlogged,
                recent=len(self._recent),
                subscriptions=len(self._subscriptions),
            )

    def _open_window(self, now: float) -> tuple[dict[Reason, int], float] | None:
        summary = self._take_summary(now)
        self._window_start = now
        self._lines_left = self._lines
        return summary

    def _take_summary(self, now: float) -> tuple[dict[Reason, int], float] | None:
        if not self._to_sum_up:
            return None
        summary = (self._to_sum_up, max(0.0, now - self._window_start))
        self._to_sum_up = {}
        return summary

    def _unsubscribe(self, subscription: LetterSubscription) -> None:
        with self._lock:
            subscription.closed = True
            self._subscriptions = tuple(other for other in self._subscriptions if other is not subscription)


def _log_line(reason: Reason, message: Any, target: str, sender: str | None, error: BaseException | None) -> None:
    if not _logger.isEnabledFor(logging.WARNING):
        return
    cause = "" if error is None else f" ({_type_name(error)})"
    _logger.warning("dead letter: %s to %s from %s: %s%s", _type_name(message), target, sender or "outside", reason, cause)


def _log_summary(counts: dict[Reason, int], seconds: float) -> None:
    each = ", ".join(f"{number} {reason}" for reason, number in counts.items())
    _logger.warning("%d more dead letters in %.0f s, not logged one by one: %s", sum(counts.values()), seconds, each)
