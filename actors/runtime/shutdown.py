"""The end of a system: in good order, in a hurry, or without any waiting."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from retinue.actors.runtime import lifecycle
from retinue.actors.runtime.cell import DEAD, RUNNING
from retinue.actors.runtime.watch import StopReason

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel

_log = logging.getLogger("retinue.runtime")

__all__ = ["HARD_STOP", "Patience", "abandon", "shut_down", "shut_down_hard"]

HARD_STOP = 1.0
"""Seconds that cancelled handlers and hooks have to end at a second Ctrl-C, before their actors are given up."""


class Patience:
    """How the end of a system takes Ctrl-C where the holder runs trio itself: there it reaches the holder's task, also while that waits for the end.

    As under `rt.run` the first one leaves the order as it is, and is raised when the system has ended; a later one is raised at once.

    Attributes:
        interrupt: The last one that came.
    """

    def __init__(self, *, interrupted: bool) -> None:
        self.interrupt: KeyboardInterrupt | None = None
        self._interrupted = interrupted

    async def wait(self, wait: Callable[[], Awaitable[object]]) -> None:
        """Awaits `wait()`, once more where the first Ctrl-C ended it."""
        while True:
            try:
                await wait()
                return
            except KeyboardInterrupt as interrupt:
                self.interrupt = interrupt
                if self._interrupted:
                    raise
                self._interrupted = True


async def shut_down(kernel: Kernel, grace: float, patience: Patience) -> None:
    """Closes the intake, lets the actors drain for `grace` seconds, then stops all of them, children before parents, last born first; the system's own last.

    Asked for again, it waits for the same end, and cuts it short once its own grace is over.
    """
    household = kernel.household
    if kernel.user.state == DEAD:
        await patience.wait(household.close)
        return
    kernel.portal.flush()  # what was handed over before the stop is drained, too
    again, kernel.closing, kernel.plain = kernel.closing, True, False
    watch = kernel.watch(kernel.user)
    deadline = trio.current_time() + grace
    with trio.move_on_at(deadline):
        if again:
            await patience.wait(watch.wait)
            await patience.wait(household.close)
            return
        await patience.wait(kernel.wait_quiet)
    lifecycle.request_stop(kernel.user, StopReason.SYSTEM, None, max(0.0, deadline - trio.current_time()))
    for cell in kernel.cells():
        if cell.state == RUNNING and cell.turn is not None:
            lifecycle.hurry(cell, deadline)
    await patience.wait(watch.wait)
    await patience.wait(household.close)


async def shut_down_hard(kernel: Kernel) -> None:
    """Ends what an orderly stop was still waiting for: what runs is cancelled, `on_stop` hooks included, and every ask is resolved."""
    kernel.closing = True
    kernel.plain = False
    kernel.stop_grace = 0.0
    lifecycle.request_stop(kernel.user, StopReason.SYSTEM, None, 0.0)  # the orderly stop may not have come so far
    for cell in reversed(kernel.cells()):
        if cell.turn is not None:
            kernel.cancel_turn(cell.turn, force=True)
    for scope in list(kernel.hook_scopes):
        scope.cancel()
    try:
        with trio.move_on_after(HARD_STOP):
            await kernel.watch(kernel.user).wait()
        with trio.move_on_after(HARD_STOP):  # the outcomes of approved effects are worth as much once more
            await kernel.household.close()
    finally:  # also at one more Ctrl-C
        abandon(kernel)


def abandon(kernel: Kernel) -> None:
    """The end without any waiting: every actor ends here and now, and every ask is resolved."""
    kernel.closing, kernel.plain = True, False
    kernel.household.ended = True
    for cell in (*reversed(kernel.cells()), *reversed(kernel.household.cells())):
        if cell.state == DEAD:
            continue
        try:
            if cell.extra is not None and cell.extra.host is not None:
                cell.extra.host.abandon()
            lifecycle.finish(cell, StopReason.SYSTEM)
        except Exception:  # this runs in a task of trio's own, which nothing may leave
            _log.exception("%s could not be ended; this is a fault of the runtime", cell.path)
