"""Who gets what is published: subscriptions of actors, and listeners of the system's holder. Each has a bounded room of its own, so a slow one costs nobody else.

Where the room is full its oldest message is dropped, and what comes next is preceded by `Lagged` with the number of those that were dropped there.
"""

from __future__ import annotations

from collections import deque
from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import trio

from retinue.actors.runtime import derivation
from retinue.actors.runtime.cell import DEAD, IDLE, READY
from retinue.actors.runtime.current import Delivery, make_delivery
from retinue.actors.runtime.depths import STEP_DEPTH, check_stack
from retinue.actors.runtime.entering import EnteredAsync
from retinue.actors.runtime.errors import SystemClosed
from retinue.actors.runtime.inlets import Inlet
from retinue.actors.runtime.names import tie, untie
from retinue.actors.runtime.receipts import ACCEPTED
from retinue.actors.runtime.topic_notices import Lagged
from retinue.mailbox.messages import Message
from retinue.security.errors import DefinitionError, Denied

if TYPE_CHECKING:
    from types import TracebackType

    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.topic_keys import Topic
    from retinue.actors.runtime.topics import Topics
    from retinue.security.context import SecurityContext

__all__ = ["Listener", "Subscription"]

M = TypeVar("M", bound=Message)


class Subscription(Inlet):
    """An actor's subscription to a topic. It survives a restart of the actor, as the mailbox does, and ends with the actor, or when it is closed.

    Attributes:
        topic: The topic.
        capacity: How many of its messages may wait for the actor.
        lagged: How many were dropped so far because the actor was too slow.
        closed: Whether it has ended.
    """

    __slots__ = ("_hub", "_marker", "capacity", "closed", "lagged", "topic", "under")

    def __init__(self, hub: Topics, cell: Cell, topic: Topic[Any], capacity: int, security: SecurityContext) -> None:
        super().__init__(cell)
        self._hub = hub
        self._marker: Delivery | None = None
        self.topic = topic
        self.capacity = capacity
        self.under = security  # what the actor subscribed under, and is told under that it lags
        self.lagged = 0
        self.closed = False

    @property
    def waiting(self) -> int:
        """How many of the topic's messages wait for the actor."""
        return len(self._items) - self._is_marked()

    def close(self) -> None:
        """Ends the subscription: what still waits becomes dead letters ("unsubscribed"). Closing twice is fine.

        Raises:
            Denied: Called by another actor.
            NoContext: Nobody's authority is in force.
        """
        kernel = self.cell.kernel
        check_stack(STEP_DEPTH)
        turn = derivation.acting(kernel)
        if turn is not None and turn.cell is not self.cell:
            raise kernel.book.refused(
                Denied(f"the subscription of {self.cell.path} is that actor's own, which nobody else closes", path=self.topic.path)
            )
        if get_ident() != kernel.thread:
            kernel.portal.call(self.end)
        else:
            self.end()

    def end(self) -> None:
        """Ends it, for the runtime; in the system's thread."""
        if self.closed:
            return
        untie(self.cell, self)
        self.cut()
        record = self.cell.kernel.record
        for delivery in self.clear():
            record("unsubscribed", delivery)
            if delivery.slot is not None:
                delivery.slot.drop()

    def cut(self) -> None:
        """The actor ends: what still waits is refused with its mail."""
        self.closed = True
        self._hub.remove(self)

    def offer(self, delivery: Delivery) -> int:
        """Takes a message in, for the runtime. Where it is one too many the oldest is dropped; says how many were."""
        cell = self.cell
        kernel = cell.kernel
        if cell.state == IDLE and kernel.plain and not cell.closed:  # what `put` comes to for it, at half the cost
            kernel.push(cell)
            kernel.sent += 1
            extra: Any = cell.extra  # there is one, for the subscription is tied to it
            extra.inlets, extra.guest = [self], self
            self._items.append(delivery)
            cell.head = delivery
            cell.state = READY
            return 0
        if self.put(delivery) is not ACCEPTED:
            if delivery.slot is not None:
                delivery.slot.stop()
            return 0
        return self.squeeze() if len(self._items) > self.capacity else 0

    def squeeze(self) -> int:
        """Drops the oldest until no more wait than may; says how many."""
        count = 0
        while self.waiting > self.capacity:
            self._drop_oldest()
            count += 1
        return count

    def _drop_oldest(self) -> None:
        items, cell = self._items, self.cell
        self.lagged += 1
        handler = cell.spec.private.get(Lagged)
        if self._is_marked():
            assert self._marker is not None
            self._marker.message = Lagged(self.topic.name, self._marker.message.missed + 1)
            victim = items[1]
            del items[1]
        else:
            victim = items.popleft()
            if handler is not None:
                self._marker = make_delivery(cell, handler, Lagged(self.topic.name, 1), self.under, None)
                cell.kernel.sent += 1
                items.appendleft(self._marker)
            extra = cell.extra
            if extra is not None and extra.guest is self:
                cell.head = items[0]  # where the first one waits, too
        cell.kernel.record("lagged", victim)
        if victim.slot is not None:
            victim.slot.drop()

    def _is_marked(self) -> bool:
        """Whether a `Lagged` waits; where it does, it is the first."""
        items = self._items
        return self._marker is not None and bool(items) and items[0] is self._marker

    def __repr__(self) -> str:
        return f"<Subscription of {self.cell.path} to {self.topic.name!r}: {self.waiting} waiting, {self.lagged} lagged{', closed' if self.closed else ''}>"


class Listener(EnteredAsync, Generic[M]):
    """What `system.topics.listen(topic)` gives: `async with … as items: async for item in items: …`.

    An item is a message, or a `Lagged` where some were missed before the next one. The iteration ends when the block or the system does.

    Attributes:
        topic: The topic.
        capacity: How many messages may wait.
        lagged: How many were dropped so far.
        closed: Whether it takes no more.
    """

    __slots__ = ("_begun", "_hub", "_items", "_kernel", "_lot", "_missed", "capacity", "closed", "lagged", "topic")

    def __init__(self, kernel: Kernel, hub: Topics, topic: Topic[M], capacity: int) -> None:
        self._kernel = kernel
        self._hub = hub
        self._items: deque[M] = deque()
        self._missed = 0
        self._lot = trio.lowlevel.ParkingLot()
        self._begun = False
        self.topic = topic
        self.capacity = capacity
        self.lagged = 0
        self.closed = False

    @property
    def waiting(self) -> int:
        """How many messages wait."""
        return len(self._items)

    async def __aenter__(self) -> Self:
        if self._begun:
            raise DefinitionError("a listener is entered once; listen again for another")
        if self._kernel.user.state == DEAD:
            raise SystemClosed(f"the system {self._kernel.name!r} has ended, and nothing is published in it any more")
        await trio.lowlevel.checkpoint()
        self._begun = True
        self._hub.add_listener(self)
        tie(self._kernel.user, self)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Takes no more; what waits is forgotten. Closing twice is fine."""
        untie(self._kernel.user, self)
        self._items.clear()
        self._missed = 0
        self.cut()

    def cut(self) -> None:
        """Nothing will come any more: the iteration ends after what waits."""
        self.closed = True
        self._hub.remove_listener(self)
        self._lot.unpark_all()

    def offer(self, message: M) -> bool:
        """Takes a message in, for the runtime; says whether the oldest was dropped for it."""
        full = len(self._items) >= self.capacity
        if full:
            self._items.popleft()
            self._missed += 1
            self.lagged += 1
        self._items.append(message)
        self._lot.unpark()
        return full

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> M | Lagged:
        if not self._begun:
            raise DefinitionError("enter the listener first: `async with system.topics.listen(topic) as items: async for item in items: …`")
        await trio.lowlevel.checkpoint()
        await self._ready()
        item = self._pop()
        if item is None:
            raise StopAsyncIteration
        return item

    async def _ready(self) -> None:
        """Waits until an item is there, or none will come any more."""
        while not self._items and not self.closed:
            await self._lot.park()  # without a limit of its own: whoever listens may wait for the first message for ever

    def _has_items(self) -> bool:
        return bool(self._items)

    def _pop(self) -> M | Lagged | None:
        if self._items and self._missed:
            missed, self._missed = self._missed, 0
            return Lagged(self.topic.name, missed)
        return self._items.popleft() if self._items else None
