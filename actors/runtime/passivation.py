"""Passivation: which instances of virtual actors nobody needs any more.

Nothing on the way of a message notes the time. Sixteen times in `idle` seconds a region looks at each of its instances: one that is busy, or has handled anything since the
last look, was used. So an instance goes between `idle` seconds after its last message and a sixteenth more. The order of use, for a region that is full, is exact for what
comes by refs, and as fine as these looks for what comes another way (from another thread, say).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Final

import trio

from retinue.actors.runtime.cell import RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable

    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.deadlines import Entry

__all__ = ["CROWDED", "LOOKS", "Seat", "Seats", "is_needed", "need_of"]

LOOKS: Final = 16
"""How often an instance is looked at within the time after which it is passivated."""

CROWDED: Final = 64
"""How many instances a region that was found full of busy ones looks at for each further one that is wanted."""


def is_needed(cell: Cell) -> bool:
    """Whether an actor has anything to do: mail, a message in progress or deferred, a timer, a task, a child, a subscription, or mail that it has set aside."""
    extra = cell.extra
    if cell.turn is not None or cell.children or cell.control or cell.waiting():
        return True
    return extra is not None and bool(extra.tasks or extra.timers or extra.deferred or extra.ties or extra.inlets)


def need_of(cell: Cell) -> str:
    """What an actor has to do, for a text; the first of what there is."""
    extra = cell.extra
    if cell.children:
        return "a child"
    if extra is not None:
        for there, what in (
            (extra.tasks, "a task"),
            (extra.timers, "a timer"),
            (extra.ties, "a subscription or a registration"),
            (extra.deferred, "a deferred request"),
            (extra.stash, "mail that it has set aside"),
        ):
            if there:
                return what
    return "a message"


def _is_used(cell: Cell) -> bool:
    return cell.state == RUNNING or is_needed(cell)


class Seat:
    """One living instance.

    Attributes:
        cell: The instance's cell.
        handled: How many messages it had handled when it was last looked at.
        look: The number of the look at which it was last found in use.
        leaving: It was asked to leave, if it is idle still.
        ending: It ends, whatever comes.
    """

    __slots__ = ("cell", "ending", "handled", "leaving", "look")

    def __init__(self, cell: Cell, look: int) -> None:
        self.cell = cell
        self.handled = 0
        self.look = look
        self.leaving = False
        self.ending = False


class Seats:
    """The living instances of one region by key, the least recently used first.

    Args:
        home: The region's own cell.
        idle: Seconds without use after which an instance leaves.
        capacity: How many there may be.
        dismiss: Called with the seat of an idle instance that is to leave.
    """

    __slots__ = ("_crowded", "_deadline", "_dismiss", "_home", "_look", "by_key", "capacity", "idle", "leaving")

    def __init__(self, home: Cell, idle: float, capacity: int, dismiss: Callable[[Seat], None]) -> None:
        self._home = home
        self._dismiss = dismiss
        self._deadline: Entry | None = None
        self._look = 0
        self._crowded = False
        self.idle = idle
        self.capacity = capacity
        self.by_key: OrderedDict[str, Seat] = OrderedDict()
        self.leaving = 0

    def add(self, key: str, cell: Cell) -> None:
        """A new instance."""
        self.by_key[key] = Seat(cell, self._look + 1)
        self.by_key.move_to_end(key)
        if self._deadline is None:
            self._arm()

    def remove(self, key: str, cell: Cell) -> None:
        """An instance has ended; another one of the same key may have its place by now."""
        seat = self.by_key.get(key)
        if seat is None or seat.cell is not cell:
            return
        self.stays(seat)
        del self.by_key[key]
        self._crowded = False
        if not self.by_key and self._deadline is not None:
            self._home.kernel.deadlines.cancel(self._deadline)
            self._deadline = None

    def stays(self, seat: Seat) -> None:
        """It does not leave after all, or has left."""
        if seat.leaving:
            seat.leaving = False
            self.leaving -= 1

    def make_room(self) -> bool:
        """Whether there is room for one more: idle instances are asked to leave, the least recently used first. Those that end are no longer counted."""
        by_key = self.by_key
        looks = CROWDED if self._crowded else len(by_key)
        while len(by_key) - self.leaving >= self.capacity:
            if not looks or self.leaving >= self.capacity:
                self._crowded = True
                return False
            looks -= 1
            key = next(iter(by_key))
            seat = by_key[key]
            if seat.leaving or _is_used(seat.cell):
                by_key.move_to_end(key)
            else:
                self.leave(seat)
        return True

    def needs(self) -> str:
        """What the instances are kept by, for the text of who finds no room: "a timer (60), a message (4)", by the last 64 that were used."""
        found = Counter(need_of(seat.cell) for seat in itertools.islice(reversed(self.by_key.values()), CROWDED))
        return ", ".join(f"{what} ({count})" for what, count in found.most_common())

    def leave(self, seat: Seat) -> None:
        """Asks an idle instance to leave."""
        seat.leaving = True
        self.leaving += 1
        self._dismiss(seat)

    def _arm(self) -> None:
        if self.idle != math.inf:
            deadlines = self._home.kernel.deadlines
            self._deadline = deadlines.add(trio.current_time() + self.idle / LOOKS, self._look_round)

    def _look_round(self) -> None:
        self._deadline = None
        self._look = look = self._look + 1
        by_key = self.by_key
        if by_key:
            self._arm()
        for key, seat in list(by_key.items()):
            cell = seat.cell
            if cell.handled != seat.handled or seat.ending or _is_used(cell):
                seat.handled = cell.handled
                seat.look = look
                by_key.move_to_end(key)
            elif look - seat.look >= LOOKS and not seat.leaving:
                self.leave(seat)
