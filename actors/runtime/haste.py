"""Haste: what an actor that is to stop is busy with has so many seconds, and is cut off then."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from retinue.actors.runtime.cell import RUNNING

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell

__all__ = ["hurry", "hurry_suspended", "on_the_stack", "unlimit"]


def hurry(cell: Cell, until: float) -> None:
    """The cell is busy: with a turn, which is cut off then, or with ending its children, which have no longer than that either."""
    extra = cell.extras()
    until = extra.stop_by = min(until, extra.stop_by)
    for child in (cell.children or {}).values():
        if child.closed and child.state == RUNNING:
            hurry(child, until)
    if cell.turn is None:
        return
    kernel = cell.kernel
    now = trio.current_time()
    if extra.ending:  # `on_stop` has some time of its own
        until = max(until, now + kernel.stop_grace)

    def cut() -> None:
        extra.limit = None
        if cell.turn is not None:
            kernel.cancel_turn(cell.turn, force=True)

    if until <= now:
        unlimit(cell)  # a later one, which could hit `on_stop`
        cut()
    elif extra.limit is None or extra.limit[0] > until:
        unlimit(cell)
        extra.limit = kernel.deadlines.add(until, cut)


def on_the_stack(cell: Cell) -> bool:
    """Whether the cell is busy with a handler that has not suspended, for the first stop that is asked for: there is nothing to be cut off yet, and nearly never will
    be. Most actors that stop themselves do it like that.
    """
    turn = cell.turn
    return turn is not None and turn.handler is not None and turn.suspension is None and not cell.closed and cell.spec.region is None


def hurry_suspended(cell: Cell) -> None:
    """A handler has suspended in an actor that is to stop: what was ordered while it was on the stack holds from now on."""
    from retinue.actors.runtime.lifecycle import stop

    orders = [arguments[-1] for function, arguments in cell.control or () if function is stop]
    until = min(orders, default=math.inf)
    if cell.extra is not None:
        until = min(until, cell.extra.stop_by)
    if until != math.inf:
        hurry(cell, until)


def unlimit(cell: Cell) -> None:
    """Takes the limit away."""
    extra = cell.extra
    if extra is not None and extra.limit is not None:
        cell.kernel.deadlines.cancel(extra.limit)
        extra.limit = None
