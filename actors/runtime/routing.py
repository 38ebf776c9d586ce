"""Fronts: the cells that stand before a pool's workers, and hand each message to one of them at the moment that it is sent.

A front is no actor: it has an address, a grant and handlers to check messages against, and no instance, so it never leaves the state in which a cell takes mail and runs
nothing. A message that is sent to it is addressed anew and goes into its worker's mailbox in the same step: no hop, no turn, no gate of its own. The workers are
the front's children, with its grant; the gate stands before each of them, as before any actor. Work pulling, where the choice is made later, stands in `pulling`.

A worker that ends for good leaves its place to another at once, which takes mail from then on, and starts after a delay. What waited at the one that ended, and had come
by the front, goes to others.
"""

from __future__ import annotations

import hashlib
import logging
import math
import random
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, Final

import trio

from retinue.actors.runtime import lifecycle
from retinue.actors.runtime.asks import ROOM
from retinue.actors.runtime.cell import DEAD, Cell, Spec
from retinue.actors.runtime.current import make_delivery
from retinue.actors.runtime.derivation import effective
from retinue.actors.runtime.handlers import GENERATOR
from retinue.actors.runtime.receipts import ACCEPTED, CLOSED, FULL, MISPLACED, STOPPED, Receipt
from retinue.actors.runtime.supervision import JITTER, RESET_AFTER
from retinue.actors.runtime.watch import StopReason, Watch, terminated_of
from retinue.mailbox.envelope import Postmark
from retinue.mailbox.errors import Unhandled
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from retinue.actors.runtime.asks import RoomSlot
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.watch import Terminated

__all__ = [
    "FIRST_DELAY",
    "LONGEST_DELAY",
    "Broadcast",
    "BroadcastWorker",
    "ConsistentHash",
    "Front",
    "LeastLoaded",
    "Place",
    "RoundRobin",
    "Router",
    "Worker",
    "digest_of",
]

_log = logging.getLogger("retinue.runtime")

FIRST_DELAY: Final = 0.1
"""Seconds before the first worker that takes the place of one that ended is started."""
LONGEST_DELAY: Final = 30.0
"""Seconds that this grows to, doubling each time; a worker that lived for `RESET_AFTER` seconds begins again."""

_MASK: Final = (1 << 64) - 1


class Place:
    """One of the places in a pool: it stays, and who works there may change.

    Attributes:
        name: The worker's name under the front; a member's path.
        cell: Who works there.
        seed: What its weight for a key is made from.
        delay: The last delay of a replacement, in seconds.
        since: When the worker started, or is going to.
    """

    __slots__ = ("cell", "delay", "name", "seed", "since")

    cell: Cell

    def __init__(self, name: str) -> None:
        self.name = name
        self.seed = digest_of(name)
        self.delay = 0.0
        self.since = -math.inf


class Departure(Watch):
    """How a front hears that a worker has ended."""

    __slots__ = ("_front", "place")

    def __init__(self, front: Front, place: Place) -> None:
        super().__init__(place.cell.ref)
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
        cell = place.cell
        watch = Departure(self, place)
        if cell.state == DEAD:
            watch.deliver(terminated_of(cell))
        else:
            extra = cell.extras()
            if len(extra.watchers) >= 16:  # of groups that have ended, perhaps
                extra.watchers = [one for one in extra.watchers if not one.stale]
            extra.watchers.append(watch)

    def join(self, cell: Cell) -> None:
        """One more member of a group."""
        place = Place(cell.path)
        place.cell = cell
        self.places.append(place)
        self.employ(place)

    def leave(self, place: Place) -> None:
        """A member leaves the group and lives on; what it has got by the group stays with it."""
        self.places.remove(place)
        extra = place.cell.extras()
        extra.watchers = [one for one in extra.watchers if not (isinstance(one, Departure) and one.place is place)]

    def departed(self, place: Place, terminated: Terminated) -> None:
        """Who worked at the place has ended for good."""
        kernel = self.kernel
        if self.closed or kernel.closing or self.state == DEAD:
            return
        if self.staff is None:
            self.places.remove(place)
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
        wait = place.delay * (1 + JITTER * ((kernel.dice or random).random() * 2 - 1))
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
        returned: list[tuple[Delivery, RoomSlot | None]] = [(one, None) for one in mail if _came_by(one, front)]
        waiters = self.extras().waiters
        for delivery, room_slot in list(waiters.items()):
            if _came_by(delivery, front):
                del waiters[delivery]
                returned.append((delivery, room_slot))
        if returned:
            mail = [one for one in mail if not _came_by(one, front)]
            front.take_back(returned)
        return mail


def _came_by(delivery: Delivery, front: Front) -> bool:
    return delivery.postmark is not None and delivery.postmark.addressed is front


class Router(Front):
    """A front that chooses when a message is sent."""

    __slots__ = ("turn_of",)

    turn_of: int

    def furnish(self, staff: Spec | None) -> None:
        """Makes the fresh cell a front, without places yet."""
        super().furnish(staff)
        self.turn_of = 0
        self.room = 0  # so that a tell never appends to its mail without asking it

    # -- the choice ----------------------------------------------------------------------------------------------------------------------------------

    def choose(self, delivery: Delivery) -> Cell | None:
        """Who gets the message; None where nobody can take it now."""
        raise NotImplementedError

    def others(self, chosen: Cell) -> Iterable[Cell]:
        """Who else may get it, the best first, where the chosen one has no room: first those that run."""
        cells = [place.cell for place in self._in_turn() if not place.cell.closed and place.cell is not chosen]
        return sorted(cells, key=_is_down)

    def _in_turn(self) -> list[Place]:
        places, first = self.places, self.turn_of
        return places[first:] + places[:first]

    # -- taking mail in ------------------------------------------------------------------------------------------------------------------------------

    def enqueue(self, delivery: Delivery, *, patient: bool = False) -> Receipt:
        """Hands the message to a worker. Where no worker has room, the message has the address of the one at which it may wait for some."""
        if self.closed or self.state == DEAD:
            return STOPPED if not self.kernel.closing else CLOSED
        return self._route(delivery, patient)

    def _route(self, delivery: Delivery, patient: bool) -> Receipt:
        try:
            chosen = self.choose(delivery)
            if chosen is None:
                return self._hold(delivery)
            self._address(delivery, chosen)
        except BaseException:
            self.kernel.sent -= 1  # what raises at the send site was never sent
            raise
        receipt = chosen.enqueue(delivery, patient=patient)
        if receipt is ACCEPTED:
            return receipt
        for other in self.others(chosen):
            self._address(delivery, other)
            if other.enqueue(delivery, patient=patient) is ACCEPTED:
                self.turn_of = (1 + next(index for index, place in enumerate(self.places) if place.cell is other)) % len(self.places)
                return ACCEPTED
        self._address(delivery, chosen)
        return receipt

    def _address(self, delivery: Delivery, cell: Cell) -> None:
        delivery.cell = cell
        postmark = delivery.postmark
        if postmark is None:
            postmark = delivery.postmark = Postmark()
        if postmark.addressed is None:
            postmark.addressed = self
        if self.staff is None:  # an actor of its own: its handlers may differ, and its grant is not within that of the group
            handler = self.kernel.find_handler(cell, delivery.message)
            if (handler.kind == GENERATOR) is not (delivery.handler.kind == GENERATOR):
                raise Unhandled(
                    f"{cell.path} and the group {self.path} that it is in answer {type(delivery.message).__qualname__} differently: one of them with a stream. "
                    "Group actors whose handlers are alike"
                )
            delivery.handler = handler
            delivery.context = effective(delivery.context, self.grant)

    def _hold(self, delivery: Delivery) -> Receipt:
        """Nobody can take it: it waits here, as long as there is room."""
        delivery.cell = self
        extra = self.extra
        if (extra is not None and extra.waiters) or self.waiting() >= self.spec.mailbox.capacity:
            return FULL
        if self.head is None:
            self.head = delivery
        else:
            if self.box is None:
                self.box = deque()
            self.box.append(delivery)
        return ACCEPTED

    # -- when workers come and go ----------------------------------------------------------------------------------------------------------------------

    def take_back(self, mail: list[tuple[Delivery, RoomSlot | None]]) -> None:
        """Takes over what waited at a worker that ends, in its order: it goes to others, or waits for room there."""
        for delivery, room_slot in mail:
            self._route_again(delivery, room_slot)

    def rearrange(self) -> None:
        """What waited here goes to whoever can take it now."""
        mail: list[tuple[Delivery, RoomSlot | None]] = [(delivery, None) for delivery in self.clear_mail()]
        if self.extra is not None:
            while self.extra.waiters:
                mail.append(self.extra.waiters.popitem(last=False))
        self.take_back(mail)

    def _route_again(self, delivery: Delivery, room_slot: RoomSlot | None) -> None:
        """Once more for a message that was let in before, or waits to be: it is never refused."""
        slot = delivery.slot
        try:
            receipt = self._route(delivery, patient=True)
        except Exception as error:
            self.kernel.sent += 1  # it was sent long ago
            self.kernel.record("poison", delivery, error)
            if room_slot is not None:
                room_slot.answer(MISPLACED)
            elif slot is not None:
                slot.fail(error)
            return
        if receipt is not ACCEPTED:
            if slot is not None:
                slot.stage = ROOM
            delivery.cell.extras().waiters[delivery] = room_slot
        elif room_slot is not None:
            room_slot.answer(ACCEPTED)
        elif slot is not None:
            slot.admitted()


def _is_down(cell: Cell) -> bool:
    return cell.actor is None and not cell.relays


class RoundRobin(Router):
    """Each in turn; who is being started or restarted is passed over while another one runs."""

    __slots__ = ()

    def choose(self, delivery: Delivery) -> Cell | None:  # noqa: ARG002 - whatever it is
        """The next one."""
        places = self.places
        count = len(places)
        fallback = None
        first = self.turn_of if self.turn_of < count else 0
        for step in range(first, first + count):
            index = step if step < count else step - count
            cell = places[index].cell
            if cell.closed:
                continue
            if not _is_down(cell):
                self.turn_of = index + 1 if index + 1 < count else 0
                return cell
            if fallback is None:
                fallback = index
        if fallback is None:
            return None
        self.turn_of = (fallback + 1) % count
        return places[fallback].cell


class LeastLoaded(Router):
    """Whoever has the least waiting and in progress; of several the next in turn."""

    __slots__ = ()

    def choose(self, delivery: Delivery) -> Cell | None:  # noqa: ARG002 - whatever it is
        """The least busy one."""
        best = None
        least = math.inf
        for index, place in enumerate(self.places):
            cell = place.cell
            if cell.closed:
                continue
            load = load_of(cell)
            # Of those that are as busy: the first one from the turn on.
            if load < least or (load == least and best is not None and best < self.turn_of <= index):
                best, least = index, load
        if best is None:
            return None
        self.turn_of = (best + 1) % len(self.places)
        return self.places[best].cell

    def others(self, chosen: Cell) -> Iterable[Cell]:
        """The least busy first."""
        return sorted(super().others(chosen), key=load_of)


def load_of(cell: Cell) -> float:
    """Messages that wait at an actor or are in progress; one that is being started or restarted comes after all that run."""
    load = cell.waiting() + (cell.turn is not None)
    return load + 1e18 if _is_down(cell) else load


class ConsistentHash(Router):
    """The same key goes to the same place, in every process: by rendezvous hashing (Thaler and Ravishankar 1998), so that one place more or less moves only its share."""

    __slots__ = ("key",)

    key: Callable[[Any], Any]

    def choose(self, delivery: Delivery) -> Cell | None:
        """Who works at the key's place; None while that one is ending, for nobody else has its state."""
        message = delivery.message
        try:
            digest = digest_of(self.key(message))
        except Exception as error:
            if isinstance(error, RecursionError):
                raise
            raise DefinitionError(
                f"the pool {self.path} cannot place {type(message).__qualname__}: its key raised, or gave what is not text, bytes, a whole number, None or "
                "a tuple of these; give a key that suits every message that the workers take"
            ) from error
        best = None
        most = -1
        for place in self.places:
            weight = _mixed(digest ^ place.seed)
            if weight > most:
                best, most = place.cell, weight
        return best if best is not None and not best.closed else None

    def others(self, chosen: Cell) -> Iterable[Cell]:  # noqa: ARG002 - never anybody
        """Nobody."""
        return ()


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


def _mixed(bits: int) -> int:
    """The finish of splitmix64: every bit of the outcome depends on every bit of what comes in."""
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return bits ^ (bits >> 31)


class Broadcast(Front):
    """Everyone gets a copy."""

    __slots__ = ()

    def furnish(self, staff: Spec | None) -> None:
        """Makes the fresh cell a front, without places yet."""
        super().furnish(staff)
        self.room = 0

    def enqueue(self, delivery: Delivery, *, patient: bool = False) -> Receipt:
        """Gives a copy to each worker. Who is `patient` gives none to anybody before all have room."""
        kernel = self.kernel
        if self.closed or self.state == DEAD:
            return STOPPED if not kernel.closing else CLOSED
        if delivery.slot is not None:
            kernel.sent -= 1
            raise Unhandled(
                f"{self.path} is a broadcast pool, and gives {type(delivery.message).__qualname__} to all its workers: there is no one answer to wait for. "
                "Tell it, or ask a pool of another kind"
            )
        cells = self._open()
        if (self.extra is not None and self.extra.waiters) or (patient and not _all_have_room(cells)):
            return FULL
        return self._fan_out(delivery, cells) if cells else STOPPED

    def _open(self) -> list[Cell]:
        return [place.cell for place in self.places if not place.cell.closed]

    def _fan_out(self, delivery: Delivery, cells: list[Cell]) -> Receipt:
        """Each copy counts as sent. Where some are refused, the message itself stands for the last of these, for its sender to deal with."""
        kernel = self.kernel
        kernel.sent -= 1
        taken = 0
        refused: list[tuple[Delivery, Receipt]] = []
        for cell in cells:
            copy = make_delivery(cell, delivery.handler, delivery.message, delivery.context, None)
            copy.source = delivery.source
            given = delivery.postmark
            copy.postmark = Postmark(given.approvals, given.trace) if given is not None else Postmark()
            copy.postmark.addressed = self
            kernel.sent += 1
            try:
                receipt = cell.enqueue(copy)
            except Exception as error:
                if not taken and not refused:
                    raise
                kernel.sent += 1
                kernel.record("poison", copy, error)
                continue
            if receipt is ACCEPTED:
                taken += 1
            else:
                refused.append((copy, receipt))
        if not refused:
            return ACCEPTED
        for copy, receipt in refused[:-1]:
            kernel.record(receipt.reason, copy)
        delivery.cell = refused[-1][0].cell
        return refused[-1][1]

    def admit_waiters(self) -> None:
        """Lets those in who wait for room, once every worker has some."""
        waiters = self.extras().waiters
        while waiters and _all_have_room(self._open()):
            delivery, room_slot = waiters.popitem(last=False)
            try:
                receipt = self._fan_out(delivery, self._open())
            except Exception as error:
                self.kernel.sent += 1
                self.kernel.record("poison", delivery, error)
                receipt = MISPLACED
            else:
                if receipt is not ACCEPTED:
                    self.kernel.record(receipt.reason, delivery)
            if room_slot is not None:
                room_slot.answer(receipt)

    def rearrange(self) -> None:
        """Who waited for one that has ended need not any longer."""
        if self.extra is not None and self.extra.waiters:
            self.admit_waiters()


class BroadcastWorker(Cell):
    """A worker that tells its front when it has room."""

    __slots__ = ()

    def take(self) -> Delivery | None:
        """The next message, or None."""
        delivery = super().take()
        front = self.parent
        assert front is not None
        if front.extra is not None and front.extra.waiters:
            front.admit_waiters()
        return delivery


def _all_have_room(cells: list[Cell]) -> bool:
    return bool(cells) and all(map(_has_room, cells))


def _has_room(cell: Cell) -> bool:
    if cell.extra is not None and cell.extra.waiters:
        return False
    if cell.queue is not None:
        return len(cell.queue) < cell.spec.mailbox.capacity
    return cell.head is None or len(cell.box or ()) < cell.room
