"""Where messages and answers are that a fault holds back, and who waits for those that it has lost.

Whatever happens, each of them comes to an end: a message that is held back is delivered, or refused when the system ends; an asker whose request or answer was lost
gets its time-out, or hears of the system's end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from retinue.actors.runtime.asks import ABANDONED, DONE, QUEUED, ROOM, RUNNING, AskSlot, DetachedSlot
from retinue.actors.runtime.current import Delivery, make_delivery
from retinue.actors.runtime.errors import ActorStopped
from retinue.actors.runtime.receipts import ACCEPTED, Receipt
from retinue.mailbox.envelope import Postmark
from retinue.mailbox.errors import MailboxFull
from retinue.security.errors import AuthorityError, RetinueError

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.deadlines import Entry
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.watch import Terminated
    from retinue.mailbox.letters import Reason

__all__ = ["EchoSlot", "Limbo", "copy_of"]


class EchoSlot(DetachedSlot):
    """The slot of a request's second delivery: nobody waits at it, so whatever answer it gets is late."""

    __slots__ = ()

    def answer(self, value: Any) -> bool:
        """A late reply."""
        return self._end(value, None)

    def fail(self, error: BaseException) -> bool:
        """A late reply."""
        return self._end(None, error)

    def _end(self, value: Any, error: BaseException | None) -> bool:
        if self.stage != DONE:
            self.stage = DONE
            self.disarm()
            self._late(value, error)
        return False


def copy_of(delivery: Delivery, slot: AskSlot | None) -> Delivery:
    """The same message once more, not begun."""
    copy = make_delivery(
        delivery.cell, delivery.handler, delivery.message, delivery.context, delivery.origin, delivery.asker, delivery.timeout
    )
    postmark = delivery.postmark
    if postmark is not None:
        copy.postmark = Postmark(postmark.approvals, postmark.trace)
        copy.postmark.deadline, copy.postmark.bounded = postmark.deadline, postmark.bounded
    copy.slot = slot
    return copy


class _Fate:
    """What has taken a reply slot away, as an actor does that defers (`AskSlot.owner`).

    Attributes:
        fate: What became of the request, as part of a sentence of its asker's time-out.
        deferred: The slots.
    """

    def __init__(self, fate: str) -> None:
        self.fate = fate
        self.deferred: set[AskSlot] = set()
        self.extra = self

    def keep(self, slot: AskSlot) -> None:
        """Takes a slot away from whoever has it."""
        if slot.owner is not None:
            slot.owner.extra.deferred.discard(slot)
        slot.owner = self
        self.deferred.add(slot)


class _Held:
    """A message on its way to a cell, and when it is to arrive."""

    __slots__ = ("cell", "delivery", "due", "patient")

    def __init__(self, cell: Cell, delivery: Delivery, due: float, *, patient: bool) -> None:
        self.cell = cell
        self.delivery = delivery
        self.due = due
        self.patient = patient


class Limbo:
    """What the faults of one kernel hold back or have lost. In the system's thread only.

    Attributes:
        held: Messages that are held back.
    """

    stale = False  # as a watch is asked

    @classmethod
    def of(cls, kernel: Kernel) -> Limbo:
        """The kernel's: the one that earlier faults have left, for what they have lost, or a new one."""
        extra = kernel.user.extra
        left = [one for one in extra.watchers if isinstance(one, cls)] if extra is not None else []
        return left[0] if left else cls(kernel)

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._lost = _Fate("was lost on its way, or its answer was: a fault that a test injected")
        self._under_way = _Fate("was still on its way: a fault that a test injected delays it")
        self._links: dict[object, deque[_Held]] = {}
        self._replies: dict[AskSlot, tuple[Any, BaseException | None]] = {}
        self._timers: list[Entry] = []
        self._last: tuple[Delivery, _Fate] | None = None
        self.held = 0
        self.settling = False
        kernel.user.extras().watchers.append(self)  # type: ignore[arg-type]  # told of the end as a watch is

    # -- messages --------------------------------------------------------------------------------------------------------------------------------------

    def lose(self, delivery: Delivery) -> None:
        """A request is lost: its asker waits on."""
        slot = delivery.slot
        if slot is not None:
            self._keep(delivery, self._lost)

    def forward(self, cell: Cell, delivery: Delivery, *, patient: bool) -> Receipt:
        """Delivers a message, behind those that are held back on the same link."""
        link = self._links.get((delivery.origin, cell)) if self._links else None
        if link:
            return self._hold(link, cell, delivery, link[-1].due, patient=patient)
        return cell.enqueue(delivery, patient=patient)

    def forward_again(self, cell: Cell, again: Delivery) -> Receipt:
        """Delivers a message a second time. What was kept last stays what `keep_again` knows: the first one may be on its way to be handed over."""
        last = self._last
        try:
            return self.forward(cell, again, patient=False)
        finally:
            self._last = last

    def hold(self, cell: Cell, delivery: Delivery, seconds: float, *, patient: bool, reorder: bool) -> Receipt:
        """Holds a message back; later ones of its link wait behind it, unless it is to be overtaken (`reorder`)."""
        key: object = object() if reorder else (delivery.origin, cell)
        link = self._links.setdefault(key, deque())
        due = trio.current_time() + seconds
        if link:
            due = max(due, link[-1].due)
        receipt = self._hold(link, cell, delivery, due, patient=patient)
        self._call_at(due, lambda: self._arrive(key, due))
        return receipt

    def _hold(self, link: deque[_Held], cell: Cell, delivery: Delivery, due: float, *, patient: bool) -> Receipt:
        link.append(_Held(cell, delivery, due, patient=patient))
        self.held += 1
        slot = delivery.slot
        if slot is not None:
            self._keep(delivery, self._under_way)
        return ACCEPTED

    def _keep(self, delivery: Delivery, fate: _Fate) -> None:
        delivery.slot.stage = RUNNING  # as far as its asker can tell, who cannot withdraw it any more
        fate.keep(delivery.slot)
        self._last = (delivery, fate)

    def keep_again(self, delivery: Delivery) -> None:
        """A request that was handed over has its slot from now on: what was kept last, if it is that one, stays so."""
        if self._last is not None and self._last[0] is delivery:
            self._keep(*self._last)
        self._last = None

    def _arrive(self, key: object, due: float) -> None:
        link = self._links.get(key)
        while link and link[0].due <= due:
            held = link.popleft()
            self.held -= 1
            self._deliver(held)
        if link is not None and not link:
            self._links.pop(key, None)

    def _deliver(self, held: _Held) -> None:
        kernel, cell, delivery = self._kernel, held.cell, held.delivery
        asker: AskSlot | None = delivery.slot
        if asker is not None and asker.stage != RUNNING:
            asker = None  # it waits no longer
        if asker is not None:
            self._give_back(asker)
            asker.stage = QUEUED
        try:
            receipt = cell.enqueue(delivery, patient=held.patient)
        except RetinueError as error:  # no place for it in that mailbox, or no instance of a virtual actor; its sender has gone on
            kernel.record(_reason_of(error), delivery, error)
            if asker is not None:
                asker.fail(error)
            return
        if receipt is ACCEPTED:
            return
        if asker is not None and receipt.reason in ("mailbox_full", "dropped_newest"):
            asker.stage = ROOM
            delivery.cell.extras().waiters[delivery] = None  # a pool has handed it to one of its workers
            return
        kernel.record(receipt.reason, delivery)
        if asker is not None:
            asker.fail(kernel.gone(delivery))

    def _give_back(self, slot: AskSlot) -> None:
        if slot.owner is not None:
            slot.owner.extra.deferred.discard(slot)
            slot.owner = None

    # -- answers ---------------------------------------------------------------------------------------------------------------------------------------

    def lose_reply(self, slot: AskSlot) -> None:
        """An answer is lost: its asker waits on."""
        slot.value = slot.error = None
        self._keep_reply(slot, self._lost)

    def hold_reply(self, slot: AskSlot, seconds: float) -> None:
        """Holds an answer back."""
        self._replies[slot] = (slot.value, slot.error)
        slot.value = slot.error = None
        self._keep_reply(slot, self._under_way)
        self._call_at(trio.current_time() + seconds, lambda: self._answer(slot))

    def _keep_reply(self, slot: AskSlot, fate: _Fate) -> None:
        delivery = slot.delivery
        slot.delivery = copy_of(delivery, slot)  # the turn is over, and lets go of its message, which the time-out's text names
        slot.delivery.security = delivery.security
        slot.stage = RUNNING
        fate.keep(slot)

    def _answer(self, slot: AskSlot) -> None:
        outcome = self._replies.pop(slot, None)
        if outcome is None:
            return
        value, error = outcome
        settling, self.settling = self.settling, True
        try:
            if error is not None:
                slot.fail(error)
            else:
                slot.answer(value)
        finally:
            self.settling = settling

    def _call_at(self, when: float, function: Callable[[], None]) -> None:
        def fire() -> None:
            self._timers.remove(entry)
            function()

        entry = self._kernel.deadlines.add(when, fire)
        self._timers.append(entry)

    def _disarm(self) -> None:
        for entry in self._timers:
            self._kernel.deadlines.cancel(entry)
        self._timers.clear()

    # -- the end ---------------------------------------------------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Lets all that is held back arrive now, in its order."""
        self._disarm()
        waiting = sorted(((held.due, key) for key, link in self._links.items() for held in link), key=lambda pair: pair[0])
        for due, key in waiting:
            self._arrive(key, due)
        for slot in list(self._replies):
            self._answer(slot)

    def leave(self) -> None:
        """The faults are over: stays only where somebody still waits for what is lost, to be told of the system's end."""
        self._last = None
        extra = self._kernel.user.extra
        if extra is not None and self in extra.watchers and not self._lost.deferred:  # type: ignore[comparison-overlap]
            extra.watchers.remove(self)  # type: ignore[arg-type]

    def deliver(self, _: Terminated) -> None:
        """The system ends: what is held back is refused, and nobody waits on (called as a watch is)."""
        kernel = self._kernel
        self.settling = True
        self._disarm()
        for link in self._links.values():
            for held in link:
                self.held -= 1
                slot = held.delivery.slot
                if slot is not None and slot.stage >= ABANDONED:
                    kernel.record("system_closed", held.delivery)
                else:
                    kernel.refuse(held.delivery, "system_closed")
        self._links.clear()
        for slot in list(self._replies):
            self._answer(slot)
        for slot in list(self._lost.deferred):
            delivery = slot.delivery
            label = type(delivery.message).__qualname__
            slot.fail(
                ActorStopped(
                    f"the system {kernel.name!r} ended before {delivery.cell.path} had answered {label}; the outcome is unknown",
                    path=delivery.cell.path,
                    begun=True,
                )
            )


def _reason_of(error: RetinueError) -> Reason:
    """Why a message is a dead letter whose sending has raised."""
    return "mailbox_full" if isinstance(error, MailboxFull) else "denied" if isinstance(error, AuthorityError) else "poison"
