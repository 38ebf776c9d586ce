"""The front of a broadcast pool: everyone gets a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retinue.actors.runtime import lifecycle
from retinue.actors.runtime.cell import DEAD, Cell
from retinue.actors.runtime.current import make_delivery
from retinue.actors.runtime.fronts import Front
from retinue.actors.runtime.receipts import ACCEPTED, CLOSED, FULL, MISPLACED, STOPPED, Receipt
from retinue.mailbox.envelope import Postmark
from retinue.mailbox.errors import Unhandled

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Spec
    from retinue.actors.runtime.current import Delivery

__all__ = ["Broadcast", "BroadcastWorker"]


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
        kernel.check_room()
        if delivery.slot is not None:
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
        more = len(cells) - 1
        kernel.sent += more
        taken = 0
        refused: list[tuple[Delivery, Receipt]] = []
        for cell in cells:
            copy = make_delivery(cell, delivery.handler, delivery.message, delivery.context, None)
            copy.source = delivery.source
            given = delivery.postmark
            copy.postmark = Postmark(given.approvals, given.trace) if given is not None else Postmark()
            copy.postmark.addressed = self
            try:
                receipt = cell.enqueue(copy)
            except BaseException as error:  # a key is anybody's code
                if not taken and not refused:
                    kernel.sent -= more
                    raise
                kernel.record("poison", copy, error)
                lifecycle.crash_if_fatal(self, error)
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
            except BaseException as error:
                self.kernel.record("poison", delivery, error)
                lifecycle.crash_if_fatal(self, error)
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
