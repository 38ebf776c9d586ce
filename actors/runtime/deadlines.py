"""Deadlines: one heap and one task for all of them. A cancel scope for each ask would cost more than the ask."""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import trio
from trio.lowlevel import enable_ki_protection

from retinue.actors.runtime.depths import TRIO_DEPTH, check_stack

__all__ = ["Deadlines", "Entry"]

_log = logging.getLogger("retinue.runtime")

Entry: TypeAlias = list[Any]
"""[when in seconds of trio's clock, a number that orders equal ones, the callback or None once cancelled]"""


class Deadlines:
    """Calls back at given times. Callbacks are synchronous and quick: they mark, cancel and reschedule."""

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._count = 0
        self._stale = 0
        self._scope: trio.CancelScope | None = None
        self._due = math.inf  # what the scope's deadline is

    def __len__(self) -> int:
        """How many deadlines are armed."""
        return len(self._heap) - self._stale

    def add(self, when: float, callback: Callable[[], None]) -> Entry:
        """Arms a deadline at `when` (seconds of trio's clock)."""
        first = when < self._due and self._scope is not None
        check_stack(TRIO_DEPTH if first else 3)  # else all others would wait for one that nobody waits for
        self._count += 1
        entry: Entry = [when, self._count, callback]
        heapq.heappush(self._heap, entry)
        if first and self._scope is not None:
            self._scope.deadline = self._due = when
        return entry

    def cancel(self, entry: Entry) -> None:
        """Disarms it. A fired or cancelled one may be cancelled again."""
        if entry[2] is not None:
            entry[2] = None
            self._stale += 1
            if self._stale > 64 and self._stale * 2 > len(self._heap):
                self._heap = [kept for kept in self._heap if kept[2] is not None]
                heapq.heapify(self._heap)
                self._stale = 0

    @enable_ki_protection
    async def run(self) -> None:
        """The one task that waits for the next deadline. A Ctrl-C is never meant for it: it would end the system without an orderly stop."""
        while True:
            with trio.CancelScope() as scope:
                scope.deadline = self._due = self._heap[0][0] if self._heap else math.inf
                self._scope = scope
                await trio.sleep_forever()
            self._scope = None
            self._fire(trio.current_time())

    def _fire(self, now: float) -> None:
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            callback = entry[2]
            if callback is None:
                self._stale -= 1
                continue
            entry[2] = None
            try:
                callback()
            except Exception:  # a callback's fault must not stop all other deadlines
                _log.exception("a deadline's callback failed; this is a fault of the runtime")
