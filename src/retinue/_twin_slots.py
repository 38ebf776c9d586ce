"""Where the askers of a twin wait: slots and watches whose outcome goes to a callback, since whoever waits is in another thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import trio

from retinue.actors.runtime.asks import RUNNING, AskSlot, DetachedSlot
from retinue.actors.runtime.current import Delivery
from retinue.actors.runtime.ref import Ref
from retinue.actors.runtime.streams import StreamSlot
from retinue.actors.runtime.watch import Terminated, Watch

__all__ = ["Deliver", "DetachedTwinSlot", "TwinSlot", "TwinStreamSlot", "TwinWatch"]

Deliver: TypeAlias = Callable[[Any, BaseException | None], None]
"""Takes the value or the error of something. Called once, in the system's thread."""


class TwinSlot(AskSlot):
    """The slot of an asker outside the loop: its outcome is handed to a callback.

    Attributes:
        begun: Whether the request was sent. (A Ctrl-C may come before.)
    """

    __slots__ = ("begun", "deliver")

    def __init__(self, delivery: Delivery, deliver: Deliver) -> None:
        super().__init__(delivery.cell.kernel, delivery)
        self.begun = False
        self.deliver: Deliver | None = deliver

    def wake(self) -> None:
        """The outcome is there."""
        deliver, self.deliver = self.deliver, None
        if deliver is not None:
            deliver(self.value, self.error)
        self.value = self.error = None


class DetachedTwinSlot(TwinSlot, DetachedSlot):
    """The same for an asker that wants the request carried out whether or not it is there to hear of it."""

    __slots__ = ()


class TwinStreamSlot(StreamSlot):
    """The slot of a stream's reader outside the loop. Items are pushed to it, and it gives the credit back as it reads.

    Attributes:
        emit: Takes an item (and None, False), or at the end None, the error or None, and True.
        ahead: How many items the handler is ahead of the reader.
        begun: Whether the request was sent.
    """

    __slots__ = ("ahead", "begun", "emit")

    def __init__(self, delivery: Delivery, window: int, emit: Callable[[Any, BaseException | None, bool], None]) -> None:
        super().__init__(delivery.cell.kernel, delivery, window)
        self.emit: Callable[[Any, BaseException | None, bool], None] | None = emit
        self.ahead = 0
        self.begun = False

    async def put(self, item: Any) -> None:
        """Takes an item from the handler; waits while the reader is a whole window behind."""
        if self.emit is not None:
            self.emit(item, None, False)
        self.ahead += 1
        while self.ahead >= self.window and self.stage == RUNNING:
            self.writer = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort_put)

    def wake(self) -> None:
        """The stream has ended, one way or another."""
        emit, self.emit = self.emit, None
        if emit is not None:
            emit(None, self.error, True)

    def credit(self, count: int) -> None:
        """The reader has read some (called through the portal)."""
        self.ahead -= count
        self._resume_writer()

    def leave(self) -> None:
        """The reader has left (called through the portal)."""
        self.emit = None
        self.closed = True
        if self.begun:
            self.give_up()
            self._resume_writer()

    def _resume_writer(self) -> None:
        writer, self.writer = self.writer, None
        if writer is not None:
            trio.lowlevel.reschedule(writer)


class TwinWatch(Watch):
    """A watch whose `Terminated` goes to a callback, too."""

    __slots__ = ("_deliver",)

    def __init__(self, ref: Ref[Any], deliver: Deliver) -> None:
        super().__init__(ref)
        self._deliver = deliver

    def deliver(self, terminated: Terminated) -> None:
        super().deliver(terminated)
        self._deliver(terminated, None)
