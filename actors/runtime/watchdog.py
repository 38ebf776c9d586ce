"""The watchdog: names the actor and prints the stack when a handler blocks the loop."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from typing import TYPE_CHECKING

from retinue.actors.runtime.stepping import turn_frame

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel

__all__ = ["Watchdog"]

_log = logging.getLogger("retinue.watchdog")


class Watchdog:
    """A daemon thread that samples the loop's thread and costs the loop nothing.

    A handler blocks when the same turn is on top of the same actor, in the same frame, for longer than the limit. It is reported once for each such turn.
    """

    def __init__(self, kernel: Kernel, limit: float) -> None:
        self._kernel = kernel
        self._limit = limit
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.reports = 0

    def start(self) -> None:
        """Starts to watch."""
        self._thread = threading.Thread(target=self._watch, name=f"retinue watchdog of {self._kernel.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops to watch."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def _watch(self) -> None:
        kernel = self._kernel
        step = min(self._limit / 2.5, 0.1)
        seen: tuple[object, ...] | None = None
        held = 0.0
        reported = False
        while not self._stop.wait(step):
            if kernel.missed and not kernel.lookers:
                kernel.portal.post(kernel.catch_up)
            now = self._fingerprint()
            if now is None or now != seen:
                seen, held, reported = now, 0.0, False
                continue
            held += step
            if held >= self._limit and not reported:
                reported = True
                self.reports += 1
                self._report(held)
        del kernel

    def _fingerprint(self) -> tuple[object, ...] | None:
        """What runs in the loop's thread, if it is a handler: changes as soon as that handler ends or suspends."""
        kernel = self._kernel
        frame = sys._getframe() if kernel.thread == 0 else sys._current_frames().get(kernel.thread)
        found = turn_frame(frame)
        if found is None:
            return None
        cell = kernel.running
        return (id(found), id(cell), cell.handled if cell is not None else 0, kernel.steps)

    def _report(self, held: float) -> None:
        frame = sys._current_frames().get(self._kernel.thread)
        found = turn_frame(frame)
        turn = found.f_locals.get("delivery") if found is not None else None
        if turn is None or frame is None:
            return
        label = "a hook or a task of its own" if turn.message is None else type(turn.message).__qualname__
        _log.warning(
            "%s has blocked the loop for more than %.2f s while handling %s; nothing else runs. %s. It is here:\n%s",
            turn.cell.path,
            held,
            label,
            turn.cell.spec.cls._instead_of_blocking,
            "".join(traceback.format_stack(frame)[-12:]),
        )
