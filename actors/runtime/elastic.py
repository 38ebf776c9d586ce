"""Elastic pools: work pulling whose workers are hired when a message waits and nobody is free for it, up to the pool's size. One worker stands there from the start.

So a pool of 64 that is asked one thing at a time has one worker and costs what one costs; 64 things at the same time find 64. Whoever was hired stays. Between any two
steps it holds, beside what holds for every pool whose workers pull, that

    more mail waits than workers are on their way to it  =>  the pool has as many workers as it may
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from retinue.actors.runtime import lifecycle
from retinue.actors.runtime.cell import DEAD, IDLE, RUNNING, Cell
from retinue.actors.runtime.depths import START_DEPTH, STEP_DEPTH, check_stack
from retinue.actors.runtime.fronts import Place
from retinue.actors.runtime.pulling import WorkPulling
from retinue.actors.runtime.receipts import ACCEPTED, Receipt
from retinue.actors.runtime.watch import StopReason

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Spec
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.pulling import Puller
    from retinue.actors.runtime.watch import Terminated

__all__ = ["Elastic"]


class Elastic(WorkPulling):
    """The front of an elastic pool.

    Attributes:
        most: How many workers there may be.
        coming: Workers that were woken or hired, and have not looked yet.
        held: The last start has failed, and nothing was done since: nobody more is hired until then, for he would fail alike.
    """

    __slots__ = ("coming", "held", "most")

    coming: set[Cell]
    held: bool
    most: int

    def furnish(self, staff: Spec | None) -> None:
        """Makes the fresh cell a front, without places yet."""
        super().furnish(staff)
        self.coming = set()
        self.held = False
        self.most = 1

    def enqueue(self, delivery: Delivery, *, patient: bool = False) -> Receipt:
        """Takes a message into the mailbox, as any actor does, and wakes or hires a worker."""
        first = next(iter(self.idle), None)
        hires = (first is None or first.state != IDLE) and len(self.places) < self.most
        if hires:
            check_stack(2 * STEP_DEPTH + START_DEPTH)  # what raises is to raise before anything is taken in
        receipt = super().enqueue(delivery, patient=patient)
        if hires and receipt is ACCEPTED and not self.idle:
            self.wake()
        return receipt

    def wake(self) -> None:
        """Wakes the worker that has been idle for longest; hires one where there is none, and more waits than are coming."""
        idle = self.idle
        while idle:
            cell = next(iter(idle))
            del idle[cell]
            if cell.state == IDLE:
                cell.get_ready()
                self.coming.add(cell)
                return
        if self.held or self.closed or self.kernel.closing:
            return
        if len(self.places) < self.most and self._waiting() > len(self.coming):
            self._grow()

    def misses(self, cell: Cell) -> None:
        """A worker has something else to do first: somebody else takes what waits."""
        self.coming.discard(cell)
        super().misses(cell)

    def look(self, cell: Cell) -> None:
        """A worker has become idle, unless there is something to do."""
        self.coming.discard(cell)
        super().look(cell)
        if cell not in self.idle:
            self.coming.add(cell)

    def give_back(self, worker: Puller) -> None:
        """Whom an asker had for himself has ended his turn: what `Puller.settle` does, and all of it where anything waits for anybody."""
        calm = worker.head is None and worker.control is None and worker.queue is None and worker.box is None and worker.state == RUNNING
        if calm and self.head is None and self.queue is None and worker.actor is not None:
            worker.turn = worker.until = None
            worker.state = IDLE
            self.idle[worker] = None
        else:
            worker.settle()

    def pull(self, cell: Cell) -> Delivery | None:
        """The next message, for the worker that begins with it now."""
        self.coming.discard(cell)
        self.held = False
        return super().pull(cell)

    def departed(self, place: Place, terminated: Terminated) -> None:
        """Who worked at the place has ended for good."""
        self.held = terminated.reason is StopReason.START_FAILED
        super().departed(place, terminated)

    def rearrange(self) -> None:
        """Somebody has left, who may have been about to look."""
        self.coming = {cell for cell in self.coming if cell.state != DEAD}
        super().rearrange()

    def _waiting(self) -> int:
        return (self.head is not None) + len(self.box or ()) + (len(self.queue) if self.queue is not None else 0)

    def _grow(self) -> None:
        """One more worker. It is started where it gets its first turn, by the scheduler: nothing of it runs here, on somebody's stack."""
        place = Place(str(len(self.places)))
        cell = self.hire(place)
        self.places.append(place)
        self.coming.add(cell)
        place.since = trio.current_time()
        self.employ(place)
        Cell.signal(cell, lifecycle.start, None)  # a puller's own wakes others, and nobody's work waits for this one
        self.kernel.event(cell, "hired", f"of at most {self.most}")
