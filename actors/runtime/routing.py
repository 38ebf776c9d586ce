"""Fronts that choose a worker when a message is sent: in turn, by load, or by the message's key. The message goes into its worker's mailbox in the same step."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from retinue.actors.runtime import lifecycle
from retinue.actors.runtime.asks import ROOM
from retinue.actors.runtime.cell import DEAD, IDLE, Cell
from retinue.actors.runtime.derivation import effective
from retinue.actors.runtime.errors import ActorStopped
from retinue.actors.runtime.fronts import Front, digest_of
from retinue.actors.runtime.receipts import ACCEPTED, CLOSED, FULL, MISPLACED, STOPPED, Receipt
from retinue.mailbox.envelope import Postmark
from retinue.mailbox.errors import MailboxFull, Unhandled
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from retinue.actors.runtime.asks import RoomSlot
    from retinue.actors.runtime.cell import Spec
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.fronts import Place

__all__ = ["ConsistentHash", "LeastLoaded", "RoundRobin", "Router"]

_MASK: Final = (1 << 64) - 1


class Router(Front):
    """A front that chooses when a message is sent.

    Attributes:
        level: How many fronts are in a row, this one included, where they are members of one another.
        turn_of: The index of the place whose turn is next.
    """

    __slots__ = ("level", "turn_of")

    level: int
    turn_of: int

    def furnish(self, staff: Spec | None) -> None:
        """Makes the fresh cell a front, without places yet."""
        super().furnish(staff)
        self.level = 1
        self.turn_of = 0
        self.room = 0  # so that a tell never appends to its mail without asking it

    # -- the choice ----------------------------------------------------------------------------------------------------------------------------------

    def choose(self, delivery: Delivery) -> Cell | None:
        """Who gets the message; None where nobody can take it now."""
        raise NotImplementedError

    def others(self, chosen: Cell) -> Iterable[Cell]:
        """Who else may get it, the best first, where the chosen one has no room: first those that run. Who is seen to be full is left out."""
        down: list[Cell] = []
        for place in self._in_turn():
            cell: Cell | None = place.cell
            if place.cell.closed or place.region is not None:
                cell = place.taker()
            if cell is None or cell is chosen or _is_full(cell):
                continue
            if _is_down(cell):
                down.append(cell)
            else:
                yield cell
        yield from down

    def _in_turn(self) -> list[Place]:
        places, first = self.places, self.turn_of
        return places[first:] + places[:first]

    # -- taking mail in ------------------------------------------------------------------------------------------------------------------------------

    def enqueue(self, delivery: Delivery, *, patient: bool = False) -> Receipt:
        """Hands the message to a worker. Where no worker has room, the message has the address of the one at which it may wait for some."""
        if self.closed or self.state == DEAD:
            return STOPPED if not self.kernel.closing else CLOSED
        return self._route(delivery, patient)

    def _route(self, delivery: Delivery, patient: bool, tried: set[Cell] | None = None) -> Receipt:
        """Once for all: where groups are members of groups, and some actors of several, `tried` are those that were asked for this message already."""
        context, handler = delivery.context, delivery.handler  # as they came here: each member has its own
        chosen = self.choose(delivery)
        if chosen is None:
            return self._hold(delivery)
        self._address(delivery, chosen)
        if tried is None and self.staff is None:
            tried = set()
        crowded: MailboxFull | None = None
        try:
            receipt = self._offer(chosen, delivery, patient, tried)
        except MailboxFull as error:  # there is no room for one more virtual actor
            crowded, receipt = error, FULL
        if receipt is ACCEPTED:
            return receipt
        waits_at = delivery.cell, delivery.context, delivery.handler
        for other in self.others(chosen):
            delivery.context, delivery.handler = context, handler
            if self._goes_to(other, delivery, patient, tried):
                self.turn_of = (1 + next(index for index, place in enumerate(self.places) if place.cell.ref is other.ref)) % len(
                    self.places
                )
                return ACCEPTED
        if crowded is not None:
            raise crowded
        delivery.cell, delivery.context, delivery.handler = waits_at
        return receipt

    def _offer(self, cell: Cell, delivery: Delivery, patient: bool, tried: set[Cell] | None) -> Receipt:
        if tried is None:
            return cell.enqueue(delivery, patient=patient)
        if cell in tried:
            return FULL
        tried.add(cell)
        if isinstance(cell, Router) and not cell.closed:
            return cell._route(delivery, patient, tried)
        return cell.enqueue(delivery, patient=patient)

    def _goes_to(self, cell: Cell, delivery: Delivery, patient: bool, tried: set[Cell] | None) -> bool:
        self._address(delivery, cell)
        try:
            return self._offer(cell, delivery, patient, tried) is ACCEPTED
        except MailboxFull:
            return False

    def _address(self, delivery: Delivery, cell: Cell) -> None:
        delivery.cell = cell
        postmark = delivery.postmark
        if postmark is None:
            postmark = delivery.postmark = Postmark()
        if postmark.addressed is None:
            postmark.addressed = self
        if self.staff is None:  # an actor of its own: its handlers may differ, and its grant is not within that of the group
            handler = self.kernel.find_handler(cell, delivery.message)
            if handler.streams is not delivery.handler.streams:
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
        except BaseException as error:  # its key is anybody's code, and the others are to go on
            self.kernel.record("poison", delivery, error)
            lifecycle.crash_if_fatal(self, error)
            if room_slot is not None:
                room_slot.answer(MISPLACED)
            elif slot is not None:
                slot.fail(error if isinstance(error, Exception) else misplaced(delivery, error))
            return
        if receipt is not ACCEPTED:
            if slot is not None:
                slot.stage = ROOM
            delivery.cell.extras().waiters[delivery] = room_slot
        elif room_slot is not None:
            room_slot.answer(ACCEPTED)
        elif slot is not None:
            slot.admitted()


def misplaced(delivery: Delivery, error: BaseException) -> ActorStopped:
    """What an asker gets whose request had no place any more: an error that is not one of an actor's must not cross."""
    failure = ActorStopped(
        f"{delivery.cell.path} lost {type(delivery.message).__qualname__}, for the pool's key raised {type(error).__name__} when another worker was to get it",
        path=delivery.cell.path,
        begun=False,
    )
    failure.__cause__ = error
    return failure


def _is_down(cell: Cell) -> bool:
    return cell.actor is None and not cell.relays and cell.state != DEAD  # a virtual actor at rest is no further away than one that runs


def _is_full(cell: Cell) -> bool:
    """Whether it is seen at a glance that the actor takes no message more; where it is not, the actor is asked."""
    extra, mailbox = cell.extra, cell.spec.mailbox
    if cell.state == IDLE or cell.relays or extra is None or extra.withdrawn or mailbox.overflow not in ("reject", "wait"):
        return False
    if cell.queue is not None:
        return mailbox.kind == "priority" and len(cell.queue) >= mailbox.capacity
    box = cell.box
    return cell.head is not None and (len(box) if box is not None else 0) >= cell.room + (extra.guest is not None)


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
            place = places[index]
            cell: Cell | None = place.cell
            if place.cell.closed or place.region is not None:
                cell = place.taker()
            if cell is None:
                continue
            if not _is_down(cell):
                self.turn_of = index + 1 if index + 1 < count else 0
                return cell
            if fallback is None:
                fallback = index
        if fallback is None:
            return None
        self.turn_of = (fallback + 1) % count
        return places[fallback].taker()


class LeastLoaded(Router):
    """Whoever has the least waiting and in progress; of several the next in turn."""

    __slots__ = ()

    def choose(self, delivery: Delivery) -> Cell | None:  # noqa: ARG002 - whatever it is
        """The least busy one."""
        places = self.places
        count = len(places)
        first = self.turn_of if self.turn_of < count else 0
        best, least, index = None, math.inf, 0
        for step in range(first, first + count):
            at = step if step < count else step - count
            cell = places[at].taker()
            if cell is None:
                continue
            load = load_of(cell)
            if load < least:  # of those that are as busy: the first one from the turn on
                best, least, index = cell, load, at
                if not load:
                    break
        if best is not None:
            self.turn_of = (index + 1) % count
        return best

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
                best, most = place, weight
        return best.taker() if best is not None else None

    def others(self, chosen: Cell) -> Iterable[Cell]:  # noqa: ARG002 - never anybody
        """Nobody."""
        return ()


def _mixed(bits: int) -> int:
    """The finish of splitmix64: every bit of the outcome depends on every bit of what comes in."""
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return bits ^ (bits >> 31)
