"""Fronts: the cells that stand before a pool's workers, and hand on what is sent to the pool.

A front is no actor: it has an address, a grant and handlers to check messages against, and no instance, so it never leaves the state in which a cell takes mail and runs
nothing. There is no hop, no turn and no gate of its own: a message is addressed anew, and the gate stands before its worker, as before any actor. The workers are the
front's children, with its grant. How a worker is chosen stands in `routing`, `broadcasting` and `pulling`.

A worker that ends for good leaves its place to another at once, which takes mail from then on, and starts after a delay. What waited at the one that ended, and had come
by the front, goes to others.
"""

from __future__ import annotations

import hashlib
import logging
import math
from typing import TYPE_CHECKING, Any, ClassVar, Final

import trio

from retinue.actors.runtime import lifecycle
from retinue.actors.runtime.cell import DEAD, Cell, Spec
from retinue.actors.runtime.supervision import JITTER, RESET_AFTER
from retinue.actors.runtime.watch import StopReason, Watch, terminated_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from retinue.actors.runtime.asks import RoomSlot
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.virtual_regions import Region
    from retinue.actors.runtime.watch import Terminated

__all__ = ["FIRST_DELAY", "LONGEST_DELAY", "Front", "Place", "Worker", "came_by", "digest_of"]

_log = logging.getLogger("retinue.runtime")

FIRST_DELAY: Final = 0.1
"""Seconds before the first worker that takes the place of one that ended is started."""
LONGEST_DELAY: Final = 30.0
"""Seconds that this grows to, doubling each time; a worker that lived for `RESET_AFTER` seconds begins again."""


class Place:
    """One of the places in a pool: it stays, and who works there may change.

    Attributes:
        name: The worker's name under the front; a member's path.
        cell: Who works there; of a virtual actor, which is there for good, any cell of its key.
        region: Of a virtual actor, which is a member whether or not it has an instance: its region.
        seed: What its weight for a key is made from.
        delay: The last delay of a replacement, in seconds.
        since: When the worker started, or is going to.
    """

    __slots__ = ("cell", "delay", "name", "region", "seed", "since")

    cell: Cell
    region: Region | None

    def __init__(self, name: str) -> None:
        self.name = name
        self.region = None
        self.seed = digest_of(name)
        self.delay = 0.0
        self.since = -math.inf

    def taker(self) -> Cell | None:
        """The cell that takes mail here, None where nobody does any more. That of a virtual actor without an instance has ended, and takes mail all the same."""
        if self.region is None:
            return None if self.cell.closed else self.cell
        return self.cell.ref._cell if self.region.open else None

    @property
    def bound_to(self) -> Cell:
        """Whose end is the end of who works here."""
        return self.cell if self.region is None else self.region.cell


class Departure(Watch):
    """How a front hears that a worker has ended."""

    __slots__ = ("_front", "place")

    def __init__(self, front: Front, place: Place) -> None:
        super().__init__(place.bound_to.ref)
        self._front = front
        self.place = place

    @property
    def stale(self) -> bool:
        """Whether the front has ended itself."""
        return self._front.state == DEAD

    def deliver(self, terminated: Terminated) -> None:
        """The worker has ended."""
        super().deliver(terminated)
        self._front.departed(self.place, terminated)


class Front(Cell):
    """What fronts of all kinds have in common: places, and who works there.

    Attributes:
        places: The places.
        staff: What its workers have in common; None for a group, whose members are actors of their own.
        lasting: Whether it stays when nobody is there any more.
        birth: The constructor arguments of its workers.
    """

    __slots__ = ("lasting", "places", "staff")

    relays: ClassVar[bool] = True

    places: list[Place]
    staff: Spec | None
    lasting: bool

    def furnish(self, staff: Spec | None) -> None:
        """Makes the fresh cell a front, without places yet."""
        self.staff = staff
        self.places = []
        self.lasting = True

    @property
    def state_name(self) -> str:
        """What statistics show for its state."""
        return "stopped" if self.state == DEAD else "routing"

    def signal(self, function: Callable[..., Any], *arguments: Any) -> None:
        """A front never fails with a worker that gives up, for that one is replaced; where it is to be restarted with its siblings, its workers are."""
        if function is lifecycle.fail:
            return
        if function is not lifecycle.restart:
            super().signal(function, *arguments)
            return
        for place in self.places if self.staff is not None else ():
            if not place.cell.closed:
                place.cell.signal(function, *arguments)

    # -- who works here ------------------------------------------------------------------------------------------------------------------------------

    def hire(self, place: Place) -> Cell:
        """A new worker for the place. It takes mail from now on, and is not started yet."""
        assert self.staff is not None
        cell = place.cell = self.kernel.make_cell(self, self.staff, place.name, self.grant, self.birth)
        cell.extras()  # so that the scheduler always asks the cell itself for its next message
        return cell

    def employ(self, place: Place) -> None:
        """From now on the place is filled again when who works there ends; at once, where that has happened."""
        cell = place.bound_to
        watch = Departure(self, place)
        if cell.state == DEAD:
            watch.deliver(terminated_of(cell))
        else:
            extra = cell.extras()
            if len(extra.watchers) >= 16:  # of groups that have ended, perhaps
                extra.watchers = [one for one in extra.watchers if not one.stale]
            extra.watchers.append(watch)

    def join(self, cell: Cell, region: Region | None = None) -> None:
        """One more member of a group: an actor, or the key of a region."""
        place = Place(cell.path)
        place.cell = cell
        place.region = region
        known = region is not None and any(other.region is region for other in self.places)
        self.places.append(place)
        if not known:  # one end of a region is that of all its keys
            self.employ(place)

    def leave(self, place: Place) -> None:
        """A member leaves the group and lives on; what it has got by the group stays with it."""
        self.places.remove(place)
        extra = place.bound_to.extras()
        extra.watchers = [one for one in extra.watchers if not (isinstance(one, Departure) and one.place is place)]

    def departed(self, place: Place, terminated: Terminated) -> None:
        """Who worked at the place has ended for good."""
        kernel = self.kernel
        if self.closed or kernel.closing or self.state == DEAD:
            return
        if self.staff is None:
            region = place.region
            self.places[:] = [one for one in self.places if (one is not place if region is None else one.region is not region)]
            if not self.places and not self.lasting:
                lifecycle.request_stop(self, StopReason.STOPPED, None)
                return
        else:
            self._replace(place, terminated)
        self.rearrange()

    def _replace(self, place: Place, terminated: Terminated) -> None:
        kernel = self.kernel
        now = trio.current_time()
        if now - place.since > RESET_AFTER:
            place.delay = 0.0
        place.delay = min(max(place.delay * 2, FIRST_DELAY), LONGEST_DELAY)
        wait = place.delay * (1 + JITTER * (kernel.luck.random() * 2 - 1))
        place.since = now + wait
        cell = self.hire(place)
        self.employ(place)
        cell.extras().revival = kernel.deadlines.add(place.since, lambda: cell.signal(lifecycle.start, None))
        kernel.event(cell, "replaced", str(terminated.reason))
        _log.warning("%s has ended (%s); another worker takes its place in %.2g s", cell.path, terminated.reason, wait)

    def rearrange(self) -> None:
        """Somebody has left, and perhaps somebody new has come: who waits here may go on."""
        raise NotImplementedError

    def take_back(self, mail: list[tuple[Delivery, RoomSlot | None]]) -> None:
        """Takes over what waited at a worker that ends, in its order."""
        raise NotImplementedError


class Worker(Cell):
    """A worker's cell. When it ends, mail that came by its front goes back there."""

    __slots__ = ()

    def clear_mail(self) -> list[Delivery]:
        """Takes out everything that waits, in order, but for what others get now."""
        mail = super().clear_mail()
        front = self.parent
        assert isinstance(front, Front)
        if front.closed or front.kernel.closing:
            return mail
        returned: list[tuple[Delivery, RoomSlot | None]] = [(one, None) for one in mail if came_by(one, front)]
        waiters = self.extras().waiters
        for delivery, room_slot in list(waiters.items()):
            if came_by(delivery, front):
                del waiters[delivery]
                returned.append((delivery, room_slot))
        if returned:
            mail = [one for one in mail if not came_by(one, front)]
            front.take_back(returned)
        return mail


def came_by(delivery: Delivery, front: Front) -> bool:
    """Whether a message was sent to the pool, and not to the worker itself."""
    return delivery.postmark is not None and delivery.postmark.addressed is front


def digest_of(key: object) -> int:
    """64 bits that are the same for equal keys in every process. Raises TypeError for a key of another kind than text, bytes, whole numbers, None and tuples of these."""
    return int.from_bytes(hashlib.blake2b(_bytes_of(key), digest_size=8).digest(), "big")


def _bytes_of(key: object) -> bytes:
    if isinstance(key, str):
        return b"s" + str.encode(key, "utf-8", "surrogatepass")
    if isinstance(key, bytes):
        return b"b" + key
    if isinstance(key, int):  # a bool too, which equals a number
        return b"i" + int.to_bytes(key, (key.bit_length() + 8) // 8, "big", signed=True)
    if key is None:
        return b"n"
    if isinstance(key, tuple):
        parts = [_bytes_of(part) for part in key]
        return b"t" + b"".join(b"%d:%b" % (len(part), part) for part in parts)
    raise TypeError(f"a key is text, bytes, a whole number, None or a tuple of these, not {type(key).__qualname__}")
