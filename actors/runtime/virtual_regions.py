"""Regions: where the virtual actors of one kind live. Each key has one instance at most, made by its first message and gone when nobody needs it.

An instance is a cell like any other, a child of the region's own. What is different:

- A message to a cell that has ended comes here (`Region.take_in`, out of the cold branch of `Cell.enqueue`): it is re-addressed to the instance of the moment, which is
  made for it if there is none. Its mailbox takes the message, and all that come meanwhile, before the constructor runs. So a hundred first messages make one.
- An instance that is to end is not closed: it takes mail until its `on_stop` is done. What waits then moves to a new cell, in its order and in the same step. So no
  message is lost, and two instances of a key never overlap.
- Who cannot pass the gate makes no instance: that is refused before there is one.
"""

from __future__ import annotations

import logging
import weakref
from collections import OrderedDict
from collections.abc import Coroutine
from threading import Lock
from typing import TYPE_CHECKING, Any

import trio

from retinue.actors.runtime import derivation, lifecycle
from retinue.actors.runtime.actor import Actor
from retinue.actors.runtime.cell import DEAD, Cell, Spec
from retinue.actors.runtime.current import Delivery, make_delivery
from retinue.actors.runtime.errors import ActorStopped
from retinue.actors.runtime.passivation import CROWDED, Seat, Seats, is_needed
from retinue.actors.runtime.receipts import CLOSED, DENIED, EXPIRED, FULL, STOPPED, Receipt
from retinue.actors.runtime.ref import new_cell
from retinue.actors.runtime.virtual_keys import check_key, key_of, segment_of
from retinue.actors.runtime.virtual_refs import VirtualRef
from retinue.actors.runtime.watch import StopReason
from retinue.mailbox.errors import MailboxFull
from retinue.security.errors import AuthorityError, Expired

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel

__all__ = ["Home", "Region"]

_log = logging.getLogger("retinue.runtime")

_new_ref = VirtualRef.__new__


class Home(Actor):
    """The actor behind a region: the parent of its instances. It handles nothing."""

    __slots__ = ("region",)
    region: Region


class Region:
    """One region. Everything but `ref` is for the system's own thread.

    Args:
        cell: The region's own cell, whose grant each instance gets.
        spec: What its instances share.
        birth: Their constructor's arguments.
        idle, capacity: See `Seats`.
    """

    __slots__ = ("_birth", "_lock", "_refs", "cell", "kernel", "seats", "spec")

    def __init__(self, cell: Cell, spec: Spec, birth: tuple[tuple[Any, ...], dict[str, Any]] | None, idle: float, capacity: int) -> None:
        self.kernel: Kernel = cell.kernel
        self.cell = cell
        self.spec = spec
        self.seats = Seats(cell, idle, capacity, self._dismiss)
        self._birth = birth
        self._refs: weakref.WeakValueDictionary[str, VirtualRef[Any]] = weakref.WeakValueDictionary()
        self._lock = Lock()

    @property
    def open(self) -> bool:
        """Whether it takes messages."""
        return not self.cell.closed and self.cell.state != DEAD

    # -- refs ----------------------------------------------------------------------------------------------------------------------------------------

    def ref(self, key: str) -> VirtualRef[Any]:
        """The ref of a key, the same one as long as anybody holds it; from any thread. Makes no instance."""
        key = check_key(key)
        ref = self._refs.get(key)
        if ref is None:
            with self._lock:
                ref = self._refs.get(key)
                if ref is None:
                    ref = self._refs[key] = self._new_ref(key)
        return ref

    def at(self, segment: str) -> VirtualRef[Any] | None:
        """The ref of the key that the last part of a path stands for, None where it stands for none."""
        key = key_of(segment)
        return self.ref(key) if key is not None and self.open else None

    def _new_ref(self, key: str) -> VirtualRef[Any]:
        """A ref with a cell that has ended, for nobody has sent anything yet."""
        ref: VirtualRef[Any] = _new_ref(VirtualRef)
        ref._seats = self.seats.by_key
        ref.key = key
        cell = new_cell(self.kernel, self.cell, self.spec, segment_of(key), self.cell.grant)
        cell.state = DEAD
        cell.queue = None
        cell.ref = ref
        ref._cell = cell
        return ref

    # -- mail ----------------------------------------------------------------------------------------------------------------------------------------

    def take_in(self, cell: Cell, delivery: Delivery, patient: bool) -> Receipt:
        """Takes a message in for the key of a cell that has ended; see `Cell.enqueue`.

        Raises:
            Denied, Expired, Revoked: The gate refuses it, and its sender waits for something.
            MailboxFull: The region is full of busy instances, and its sender waits for something.
        """
        kernel, ref = self.kernel, cell.ref
        assert isinstance(ref, VirtualRef)
        if not self.open:
            return CLOSED if kernel.closing else STOPPED
        seat = self.seats.by_key.get(ref.key)
        if seat is not None:
            now = seat.cell
        else:
            kernel.check_room()
            refusal: Exception | None = self._refusal(cell, delivery)
            receipt = EXPIRED if isinstance(refusal, Expired) else DENIED
            if refusal is None and not self.seats.make_room():
                refusal, receipt = self._full(delivery), FULL
            if refusal is not None:
                if delivery.slot is None and not patient:
                    return receipt
                raise refusal
            now = self._settle(ref)
        ref._cell = now
        delivery.cell = now
        return now.enqueue(delivery, patient=patient)

    def _refusal(self, cell: Cell, delivery: Delivery) -> Exception | None:
        """What the gate says to a message that cannot pass, whatever its arguments: it is asked before an instance is made for it, and that is on record."""
        handler = delivery.handler
        authority = self.kernel.authority
        security = derivation.effective(delivery.context, self.cell.grant)
        try:
            authority.check(security)
            if not authority.expired(security) and (
                handler is None or handler.requires is None or security.permissions.may_permit(handler.requires)
            ):
                return None
        except AuthorityError:
            pass
        try:
            self.kernel.door.admit(cell, delivery)
        except Exception as error:
            return error
        finally:
            self.kernel.door.forget(cell)
            cell.context = None  # that was the gate's; an ended cell holds nothing
        return None

    def _full(self, delivery: Delivery) -> MailboxFull:
        count = len(self.seats.by_key)
        looked = "" if count <= CROWDED else f"; of the last {CROWDED}"
        return MailboxFull(
            f"{self.cell.path} has {count} active virtual actors, and its capacity is {self.seats.capacity}. None is idle{looked}: {self.seats.needs()}. "
            f"{delivery.cell.path} was not activated, and {type(delivery.message).__qualname__} was not delivered and may be sent again. Give spawn_virtual a larger "
            "capacity=, or let its actors end what keeps them awake"
        )

    # -- beginning -----------------------------------------------------------------------------------------------------------------------------------

    def _settle(self, ref: VirtualRef[Any]) -> Cell:
        """A new cell for a key. It takes mail from now on; the constructor runs as its first entry."""
        kernel, home, old = self.kernel, self.cell, ref._cell
        cell = new_cell(kernel, home, self.spec, old.name, home.grant)
        cell.birth = self._birth
        cell.ref = ref
        cell.signal(_begin)  # first: it raises where the stack is full
        ref._cell = cell
        children = home.children
        if children is None:
            children = home.children = {}
        children[old.name] = cell
        self.seats.add(ref.key, cell)
        kernel.spawned += 1
        return cell

    # -- end -----------------------------------------------------------------------------------------------------------------------------------------

    def end(self, cell: Cell, reason: StopReason, error: BaseException | None, until: float) -> bool:
        """Ends the instance, and not its key: False where the region itself ends, and so do all."""
        if not self.open:
            return False
        seat = self._seat(cell)
        if seat is not None and not seat.ending:
            cell.signal(_end, reason, error, until)
            seat.ending = True
        return True

    def ended(self, cell: Cell) -> None:
        """The cell has ended."""
        assert isinstance(cell.ref, VirtualRef)
        self.seats.remove(cell.ref.key, cell)

    def _seat(self, cell: Cell) -> Seat | None:
        assert isinstance(cell.ref, VirtualRef)
        seat = self.seats.by_key.get(cell.ref.key)
        return seat if seat is not None and seat.cell is cell else None

    def _dismiss(self, seat: Seat) -> None:
        """Lets an idle instance end: at once if there is nothing to wait for."""
        cell = seat.cell
        extra = cell.extra
        if cell.spec.has_stop or (extra is not None and extra.host is not None) or cell.control:
            cell.signal(_leave, seat)
        else:
            lifecycle.finish(cell, StopReason.PASSIVATED)

    def replace(self, cell: Cell, reason: StopReason) -> None:
        """The instance has ended: what waits by now is for a new one, else the key is at rest."""
        extra = cell.extras()
        if extra.reason is None:
            extra.reason = reason
        for inlet in tuple(extra.inlets or ()):  # ticks and topics are the old instance's
            for delivery in inlet.clear():
                self.kernel.refuse(delivery, "stopped")
        if cell.waiting():
            assert isinstance(cell.ref, VirtualRef)
            _move_mail(cell, self._settle(cell.ref))
        lifecycle.finish(cell, reason)


# -- what runs in the control lane of an instance's cell -----------------------------------------------------------------------------------------------


def _begin(cell: Cell) -> Coroutine[Any, Any, None] | None:
    """The first entry: makes the instance."""
    if cell.closed or cell.state == DEAD:
        return None  # the region ends, and this cell with it
    born = make_delivery(cell, None, None, cell.grant, None)
    if cell.spec.hooked:
        return _bring_up(cell, born)
    try:
        lifecycle.build(cell)
    except BaseException as error:
        return _not_begun(cell, born, error)
    return None


async def _bring_up(cell: Cell, born: Delivery) -> None:
    try:
        await lifecycle.bring_up(cell, born)
    except BaseException as error:
        await _not_begun(cell, born, error)
    cell.turn = None


async def _not_begun(cell: Cell, born: Delivery, error: BaseException) -> None:
    """The instance could not be made: who asks gets the error, and the next message tries again."""
    cell.turn = None
    failure = lifecycle.failure_of(error)
    if failure is None:
        raise error
    cell.actor = None
    with trio.CancelScope(shield=True):
        await lifecycle.end_dependents(cell, StopReason.STOPPED, trio.current_time())
        await lifecycle.close_host(cell)
    if cell.closed or cell.state == DEAD:
        return
    answer = failure
    if lifecycle.crash_if_fatal(cell, failure):
        answer = ActorStopped(
            f"{cell.path} raised {type(failure).__name__} when it was activated, which ends the whole system", path=cell.path, begun=False
        )
        answer.__cause__ = failure
    if not _turn_away(cell, born, answer):
        _log.error("%s failed to start", cell.path, exc_info=failure)
    cell.extras().cause = failure
    lifecycle.finish(cell, StopReason.START_FAILED)


def _turn_away(cell: Cell, born: Delivery, error: BaseException) -> bool:
    """Everything that waits becomes a dead letter, and its askers get the error. Says whether everybody could be told."""
    kernel, told, asked = cell.kernel, True, False
    waiters = cell.extra.waiters if cell.extra is not None else OrderedDict()
    waiting = [*cell.clear_mail(), *waiters]
    for delivery in waiting:
        room_slot = waiters.pop(delivery, None)
        kernel.record("stopped", delivery, error)
        if room_slot is not None:
            room_slot.answer(STOPPED)
        elif delivery.slot is not None:
            if kernel.labelled:
                derivation.answered(delivery, born.security.labels)
            asked = True
            delivery.slot.fail(error)
            continue
        told = False
    return told and asked


async def _leave(cell: Cell, seat: Seat) -> None:
    """An idle instance was asked to leave; whoever has mail by now stays."""
    region = cell.spec.region
    assert region is not None
    if cell.closed or cell.state == DEAD or seat.ending:
        return
    cell.turn = None
    if is_needed(cell) or cell.actor is None:
        region.seats.stays(seat)
        return
    seat.ending = True
    await _end(cell, StopReason.PASSIVATED, None, trio.current_time() + cell.kernel.grace)


async def _end(cell: Cell, reason: StopReason, error: BaseException | None, until: float) -> None:
    """Ends the instance; what waits or comes meanwhile is for the next one. Not so what waited behind a failure that was its end."""
    region = cell.spec.region
    assert region is not None
    if cell.closed or cell.state == DEAD:
        return
    extra = cell.extras()
    if error is not None:
        extra.cause, extra.reason = error, reason
        lifecycle.refuse_mail(cell)
    grace = max(0.0, until - trio.current_time())
    try:
        await lifecycle.end_instance(cell, reason, grace, max(grace, cell.kernel.stop_grace))
    except Exception:  # what actors raise was dealt with inside; the key must go on all the same
        _log.exception("%s could not be ended in good order; this is a fault of the runtime", cell.path)
    if not cell.closed and cell.state != DEAD:
        region.replace(cell, reason)


def _move_mail(old: Cell, new: Cell) -> None:
    """Moves all mail to a cell that has none, in its order."""
    new.head, new.box, old.head, old.box = old.head, old.box, None, None
    new.queue, old.queue = old.queue, new.queue
    extra = old.extra
    if extra is not None and (extra.waiters or extra.withdrawn):
        after = new.extras()
        after.waiters, extra.waiters = extra.waiters, OrderedDict()
        after.withdrawn, extra.withdrawn = extra.withdrawn, 0
    for delivery in new.mail():
        delivery.cell = new
