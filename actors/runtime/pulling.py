"""Work pulling: messages wait at the pool's front, and a worker that is free takes the next one.

In the field's words every worker gives credit for one message, when it has nothing to do, and nothing is prefetched: what waits, waits in one mailbox, in its order, until
the very moment that somebody begins with it. So no message waits behind a slow one while another worker is idle, a message that comes late with a high priority is
the next one all the same, and a worker that dies takes nothing with it but the message that it was busy with.

Between any two steps it holds that

    mail waits at the front  =>  no worker is idle: each is busy, is about to look, or is not up

for whoever brings mail wakes an idle worker, whoever takes some wakes another one if more is left, and whoever becomes idle looks first.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING, Any

from retinue.actors.runtime.asks import QUEUED, RUNNING, AskSlot, TakenSlot
from retinue.actors.runtime.cell import DEAD, IDLE, Cell
from retinue.actors.runtime.current import make_delivery
from retinue.actors.runtime.cycles import add_wait, drop_wait
from retinue.actors.runtime.fronts import Front, Place, Worker, came_by
from retinue.actors.runtime.handlers import GENERATOR
from retinue.actors.runtime.receipts import ACCEPTED, Receipt
from retinue.actors.runtime.scheduler import BREATH
from retinue.mailbox.envelope import Postmark

if TYPE_CHECKING:
    from collections.abc import Callable

    from retinue.actors.runtime.asks import RoomSlot
    from retinue.actors.runtime.cell import Spec
    from retinue.actors.runtime.current import Delivery

__all__ = ["Puller", "WorkPulling"]


class WorkPulling(Front):
    """The front of a pool whose workers pull.

    Attributes:
        idle: Workers that have nothing to do, the longest first; some of them may have got something in the meantime.
        retries: How often a message is handed to another worker after one has failed on it, or has ended with it.
    """

    __slots__ = ("idle", "retries")

    idle: dict[Cell, None]
    retries: int

    def furnish(self, staff: Spec | None) -> None:
        """Makes the fresh cell a front, without places yet."""
        super().furnish(staff)
        self.idle = {}
        self.retries = 0

    def hire(self, place: Place) -> Cell:
        """A new worker for the place. It takes mail from now on, and is not started yet."""
        cell = super().hire(place)
        assert isinstance(cell, Puller)
        cell.until = None
        cell.owes = False
        return cell

    @property
    def has_mail(self) -> bool:
        """Whether something waits for a worker."""
        return self.head is not None or (self.queue is not None and len(self.queue) > 0)

    def enqueue(self, delivery: Delivery, *, patient: bool = False) -> Receipt:
        """Takes a message into the mailbox, as any actor does, and wakes a worker."""
        if self.idle:
            self.kernel.check_room()  # a worker that is no longer among the idle ones, and was not woken, would never be
        receipt = super().enqueue(delivery, patient=patient)
        if receipt is ACCEPTED and self.idle:
            self.wake()
        return receipt

    def wake(self) -> None:
        """Wakes the worker that has been idle for longest, if there is one."""
        idle = self.idle
        while idle:
            cell = next(iter(idle))
            del idle[cell]
            if cell.state == IDLE:
                cell.get_ready()
                return

    def misses(self, cell: Cell) -> None:  # noqa: ARG002 - for those that count on it
        """A worker has something else to do first: somebody else takes what waits."""
        if self.has_mail:
            self.wake()

    def look(self, cell: Cell) -> None:
        """A worker has become idle, unless there is something to do."""
        if self.has_mail:
            cell.get_ready()
        else:
            self.idle[cell] = None

    def pull(self, cell: Cell) -> Delivery | None:
        """The next message, for the worker that begins with it now."""
        while (delivery := super().take()) is not None:
            slot = delivery.slot
            if slot is None or not slot.withdrawn:
                break
            self.extras().withdrawn -= 1
        else:
            return None
        delivery.cell = cell
        postmark = delivery.postmark
        if postmark is None:
            postmark = delivery.postmark = Postmark()
        postmark.addressed = self
        postmark.attempts += 1  # before it is begun: what kills its worker has been tried, too
        if self.has_mail:
            self.wake()
        return delivery

    def rearrange(self) -> None:
        """Somebody has left, who may have been about to look."""
        for cell in [cell for cell in self.idle if cell.state == DEAD]:
            del self.idle[cell]
        if self.has_mail:
            self.wake()

    def take_back(self, mail: list[tuple[Delivery, RoomSlot | None]]) -> None:
        """Takes over what a worker that ends had set aside: it is next."""
        for delivery, _ in reversed(mail):
            delivery.cell = self
            self.put_back(delivery)

    def put_back(self, delivery: Delivery) -> None:
        """Lets a message wait that was taken before: first in line, or at its priority."""
        if self.queue is None:
            self.push_front(delivery)
        else:
            try:
                self.queue.push(delivery, delivery.message, alone=True)
            except Exception:  # its key has become odd
                self.push_front(delivery)
        self.wake()


class Puller(Worker):
    """A worker that takes its messages from its front, and those that are its own: of its timers and topics, and what is sent to itself. It takes them in turns.

    Attributes:
        until: When its turn has taken so long that others have theirs; None before it has pulled anything.
        owes: Whether the last message was its own, so that the next is the pool's, where one waits.
    """

    __slots__ = ("owes", "until")

    until: float | None
    owes: bool

    @property
    def front(self) -> WorkPulling:
        """Its pool's front."""
        front = self.parent
        assert isinstance(front, WorkPulling)
        return front

    def take(self) -> Delivery | None:
        """The next message, or None."""
        front = self.front
        if self.owes and front.has_mail and not self.extras().notices:
            if self._has_had_its_time():
                return None
            self.owes = False
            delivery = front.pull(self)
            if delivery is not None:
                return delivery
        delivery = super().take()
        if delivery is None:
            return None if self._has_had_its_time() else front.pull(self)
        self.owes = not came_by(delivery, front)
        front.misses(self)  # this one is busy with mail of its own
        return delivery

    def _has_had_its_time(self) -> bool:
        """As the scheduler sees to for a mailbox, of which it knows that something waits in it. With a seed turns do not depend on the machine's speed."""
        until, kernel = self.until, self.kernel
        if until is None:
            self.until = math.inf if kernel.paced else perf_counter() + BREATH
            return False
        return until != math.inf and perf_counter() > until and self.front.has_mail

    def signal(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Puts an entry into the control lane. If this one was about to look for mail, another one does: the entry may take its time."""
        super().signal(function, *arguments)
        self.front.misses(self)

    def settle(self) -> None:
        """Ends a turn: idle, or back into the ready queue."""
        super().settle()
        self.until = None
        if self.state == IDLE:
            self.front.look(self)

    def hand_back(self, delivery: Delivery) -> bool:
        """The worker has failed on the message, or ends with it: gives it back, to be tried once more, where it may be. False where it has to be settled here.

        It may not where its answer has begun (a stream) or is somebody else's to give, and where a person's consent was used up by this attempt.
        """
        front, postmark, handler = self.front, delivery.postmark, delivery.handler
        if front.closed or self.kernel.closing or postmark is None or postmark.addressed is not front or postmark.attempts > front.retries:
            return False
        message = delivery.message if postmark.original is None else postmark.original
        if handler is None or handler.kind == GENERATOR or postmark.approvals or front.handlers.get(type(message)) is not handler:
            return False
        slot = delivery.slot
        if slot is not None and (not isinstance(slot, AskSlot) or slot.stage != RUNNING):
            return False
        again = make_delivery(front, handler, message, delivery.context, None, None, delivery.timeout)
        again.source = delivery.source
        again.postmark = postmark
        postmark.original = None
        delivery.slot = TakenSlot(slot)
        if slot is not None:
            again.slot, slot.delivery, slot.stage = slot, again, QUEUED
            if delivery.asker is not None:
                drop_wait(delivery.asker, delivery)
                add_wait(delivery.asker, again)
        front.put_back(again)
        self.kernel.event(self, "handed back", type(message).__qualname__)
        return True
