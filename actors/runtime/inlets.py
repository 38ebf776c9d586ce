"""Inlets: mail of an actor that has a room of its own beside the mailbox, such as the ticks of its timers and what it gets from its topics.

A full mailbox does not keep such mail out, and such mail takes no room in the mailbox: whoever owns an inlet bounds it. The actor takes its messages in turns, one from
the mailbox and one from an inlet, and the inlets in turn, so that neither side can starve the other. Within an inlet the order is first in, first out; none is promised
between an inlet and the mailbox.

Nobody on the way of a plain message looks at inlets. Instead, between any two steps it holds that

    mail waits in an inlet  =>  mail waits in the cell's head, or in its special queue

for the first item of an inlet waits in the head (and in the inlet, both) where nothing else does. `Extra.inlets` holds those inlets that hold something.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from retinue.actors.runtime.cell import DEAD, IDLE
from retinue.actors.runtime.receipts import ACCEPTED, CLOSED, STOPPED, Receipt

if TYPE_CHECKING:
    from collections.abc import Callable

    from retinue.actors.runtime.cell import Cell, Extra
    from retinue.actors.runtime.current import Delivery

__all__ = ["Inlet"]


class Inlet:
    """One such room. It has no bound: its owner keeps one, and makes dead letters of what it takes out again.

    Args:
        cell: Whose mail it is. Every delivery that is put in has this cell as its receiver, and no slot: nobody waits for its answer.
        on_taken: Called with each item that leaves for its turn, not with what is discarded or cleared. It runs in the scheduler, and must not raise.
    """

    __slots__ = ("_items", "cell", "on_taken")

    def __init__(self, cell: Cell, on_taken: Callable[[Delivery], None] | None = None) -> None:
        self.cell = cell
        self.on_taken = on_taken
        self._items: deque[Delivery] = deque()

    def put(self, delivery: Delivery) -> Receipt:
        """Counts the message as sent and takes it in, whatever the mailbox holds. An actor that takes no mail any more makes it a dead letter, as the receipt says.

        Only in the system's own thread. Safe for an actor that waits for its restart: the item waits as mail does.
        """
        cell = self.cell
        kernel = cell.kernel
        kernel.sent += 1
        if kernel.ring is not None:
            kernel.ring.add(cell, "sent", type(delivery.message).__qualname__)
        if cell.closed or cell.state == DEAD or (kernel.closing and delivery.source is None):
            receipt = CLOSED if kernel.closing else STOPPED
            kernel.record(receipt.reason, delivery)
            return receipt
        extra = cell.extras()
        if not self._items:
            if extra.inlets is None:
                extra.inlets = []
            extra.inlets.append(self)
        self._items.append(delivery)
        if cell.head is None:
            cell.refill()
            if cell.state == IDLE:
                cell.get_ready()
        return ACCEPTED

    def discard(self, delivery: Delivery) -> bool:
        """Takes one item out that waits here; False where it does not, or has left for its turn. Whoever does so makes a dead letter of it."""
        items = self._items
        try:
            index = items.index(delivery)
        except ValueError:
            return False
        if index == 0:
            self._unseat()
        del items[index]
        self._check_out()
        self.cell.refill()
        return True

    def clear(self) -> list[Delivery]:
        """Takes all items out, in order. Whoever does so makes dead letters of them."""
        if not self._items:
            return []
        self._unseat()
        found = list(self._items)
        self._items.clear()
        self._check_out()
        self.cell.refill()
        return found

    def items(self) -> list[Delivery]:
        """What waits here, in order."""
        return list(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __bool__(self) -> bool:  # an empty one is still an inlet
        return True

    # -- for the cell --------------------------------------------------------------------------------------------------------------------------------

    def seat(self, extra: Extra) -> None:
        """Lets the first item wait in the head, which is free."""
        extra.guest = self
        self.cell.head = self._items[0]

    def leave(self, extra: Extra) -> None:
        """The item in the head has been taken for its turn; the next is another inlet's, where there is one."""
        extra.guest = None
        self._items.popleft()
        inlets = extra.inlets
        assert inlets is not None
        if len(inlets) > 1:
            inlets.remove(self)
            if self._items:
                inlets.append(self)
        elif not self._items:
            extra.inlets = None  # an idle cell should not hold one

    def _unseat(self) -> None:
        cell = self.cell
        extra = cell.extras()
        if extra.guest is self:
            extra.guest = None
            box = cell.box
            cell.head = box.popleft() if box else None

    def _check_out(self) -> None:
        extra = self.cell.extras()
        if not self._items and extra.inlets is not None:
            extra.inlets.remove(self)
            if not extra.inlets:
                extra.inlets = None  # an idle cell should not hold one
