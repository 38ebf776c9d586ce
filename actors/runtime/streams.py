"""Streams: many answers to one request, through a window of credit, and always a terminal event.

The handler is an async generator. It may be `window` items ahead of its reader; then it waits, which is the backpressure. While it streams, its actor is
busy with that one message, as with any other. Or it is one that hands the message over (`forwards=True`): then the reader's slot goes on to whoever gets it.
"""

from __future__ import annotations

from collections import deque
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import trio
from trio.lowlevel import enable_ki_protection

from retinue.actors.runtime.asks import DONE, RUNNING, AskSlot
from retinue.actors.runtime.current import Delivery, Suspension, current, make_delivery
from retinue.actors.runtime.cycles import add_wait, check_cycle, drop_wait
from retinue.actors.runtime.derivation import received
from retinue.actors.runtime.entering import EnteredAsync
from retinue.actors.runtime.errors import StreamClosed
from retinue.actors.runtime.stepping import call, drive
from retinue.mailbox.errors import Unhandled
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.carrying import Approvals
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.kernel import Kernel
    from retinue.security.context import SecurityContext

__all__ = ["StreamReader", "StreamSlot", "pump"]

E = TypeVar("E")


class StreamSlot(AskSlot):
    """Where the items of one stream go.

    Attributes:
        items: What was yielded and not read yet.
        window: How many that may be.
        writer: The producer's task while it waits for credit.
        waits: What the producer's turn waits for meanwhile, noted for the search for rings.
        closed: The reader has left.
    """

    __slots__ = ("closed", "items", "waits", "window", "writer")

    def __init__(self, kernel: Kernel, delivery: Delivery, window: int) -> None:
        super().__init__(kernel, delivery)
        self.items: deque[Any] = deque()
        self.window = window
        self.writer: trio.lowlevel.Task | None = None
        self.waits: Delivery | None = None
        self.closed = False

    async def put(self, item: Any) -> None:
        """Takes an item from the producer; waits while the reader is a whole window behind."""
        self.items.append(item)
        self.wake()
        while len(self.items) >= self.window and self.stage == RUNNING:
            turn, reader = self.delivery, self.delivery.asker
            self.writer = task = trio.lowlevel.current_task()
            if reader is not None:  # the producer waits for the reader's actor: part of a ring, if there is one
                self.waits = waits = make_delivery(reader.cell, None, None, turn.context, None)
                waits.suspension = Suspension(task, trio.CancelScope())
                add_wait(turn, waits)
            try:
                await trio.lowlevel.wait_task_rescheduled(self._abort_put)
            finally:
                self._waits_no_longer()

    def _waits_no_longer(self) -> None:
        """At once when the producer may go on, and not only when it does: the reader may look for rings before."""
        if self.waits is not None:
            drop_wait(self.delivery, self.waits)
            self.waits = None

    def _abort_put(self, _: Any) -> trio.lowlevel.Abort:
        self.writer = None
        return trio.lowlevel.Abort.SUCCEEDED

    def take(self) -> Any:
        """The next item, for the reader; gives its credit back to the producer."""
        item = self.items.popleft()
        writer = self.writer
        if writer is not None:
            self.writer = None
            self._waits_no_longer()
            trio.lowlevel.reschedule(writer)
        return item

    def give_up(self, reason: str = "withdrawn") -> None:
        """The reader has left, or the deadline has passed."""
        super().give_up(reason)
        if self.closed:
            self.items.clear()

    def _late(self, value: Any, error: BaseException | None) -> None:
        if not self.closed:  # the end of a stream that its reader has left is no answer, and nobody misses it
            super()._late(value, error)

    async def next(self) -> Any:
        """The next item; raises StopAsyncIteration at the end, or the error that the stream ended with."""
        while not self.items:
            if self.stage >= DONE:
                await self.wait()  # raises the error, if there is one
                if self.stage != DONE:
                    raise StreamClosed(f"the stream of {self.delivery.cell.path} was left and cannot be read on")
                raise StopAsyncIteration
            if self.task is not None:
                raise DefinitionError(
                    f"another task is reading this stream of {self.delivery.cell.path}; give each reader a stream of its own"
                )
            self.task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        return self.take()


async def pump(kernel: Kernel, cell: Cell, delivery: Delivery) -> None:
    """Runs an async generator handler and hands its items to the reader."""
    assert delivery.handler is not None and cell.context is not None
    slot = delivery.slot
    assert isinstance(slot, StreamSlot)
    coroutine = cell.context.run(call, delivery, _pump, (delivery.handler.function, cell.actor, delivery.message, slot), {})
    try:
        trap = cell.context.run(coroutine.send, None)
    except StopIteration:
        return
    await drive(cell.context.run, coroutine, trap, kernel, delivery)


async def _pump(function: Any, actor: Any, message: Any, slot: StreamSlot) -> None:
    loopback, tracer = slot.kernel.loopback, slot.kernel.tracer
    async with aclosing(function(actor, message)) as items:
        async for item in items:
            if tracer is not None:
                tracer.item(slot.delivery, item)
            if slot.stage >= DONE:  # nobody reads on; or whoever has handed the stream over has failed it since
                return
            await slot.put(item if loopback is None else loopback.reply(slot.delivery, item))


class StreamReader(EnteredAsync, Generic[E]):
    """The reader's end: an async context manager and iterator. See `Ref.stream`."""

    def __init__(
        self, cell: Cell, message: Any, timeout: float | None, window: int, context: SecurityContext | None, approvals: Approvals
    ) -> None:
        self._cell = cell
        self._message = message
        self._timeout = timeout
        self._window = window
        self._context = context
        self._approvals = approvals
        self._slot: StreamSlot | None = None

    @enable_ki_protection
    async def __aenter__(self) -> Self:
        from retinue.actors.runtime.asking import prepare

        cell = self._cell
        kernel = cell.kernel
        kernel.check_thread("stream", cell.ref)
        if self._slot is not None:
            raise DefinitionError(f"this stream of {cell.path} is being read already; call ref.stream(…) again for another one")
        delivery = prepare(cell, self._message, self._context, self._approvals, self._timeout, asked=True, streamed=True)
        if not delivery.handler.streams:
            raise Unhandled(f"{type(self._message).__qualname__} is no Stream; ask for it")
        if delivery.asker is not None:
            check_cycle(delivery.asker, cell, trio.lowlevel.current_task(), f"the stream of {cell.path}")
        slot = delivery.slot = StreamSlot(kernel, delivery, self._window)
        receipt = kernel.take_in(cell, delivery)
        if not receipt:
            if receipt.reason not in ("mailbox_full", "dropped_newest"):
                slot.stage = DONE
                kernel.record(receipt.reason, delivery)
                raise kernel.gone(delivery)
            slot.stage = 0
            delivery.cell.extras().waiters[delivery] = None
        slot.arm()
        self._slot = slot
        return self

    @enable_ki_protection
    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.closed = True
            slot.items.clear()
            slot.give_up()
            if slot.writer is not None:
                trio.lowlevel.reschedule(slot.writer)
                slot.writer = None

    def __aiter__(self) -> Self:
        return self

    @enable_ki_protection
    async def __anext__(self) -> E:
        slot = self._slot
        if slot is None:
            raise StreamClosed(
                f"read the stream of {self._cell.path} inside its block: `async with ref.stream(message) as items: async for item in items: …`"
            )
        turn = current()
        asker = slot.delivery.asker
        try:
            return await self._next(slot, turn, asker)  # type: ignore[no-any-return]
        finally:
            if slot.kernel.labelled:
                for reader in {asker, turn}:
                    if reader.__class__ is Delivery:
                        received(reader, slot.delivery)

    async def _next(self, slot: StreamSlot, turn: Any, asker: Delivery | None) -> Any:
        if asker is None or turn is not asker:
            return await slot.next()
        from retinue.actors.runtime.asking import note_received

        if not slot.items and slot.stage < DONE:
            check_cycle(asker, slot.delivery.cell, trio.lowlevel.current_task(), f"reading on in the stream of {slot.delivery.cell.path}")
        first = slot.delivery
        add_wait(asker, first)
        try:
            return await slot.next()
        except StopAsyncIteration:
            raise
        except BaseException as raised:
            note_received(asker, raised)
            raise
        finally:
            drop_wait(asker, first)
            drop_wait(asker, slot.delivery)  # another one, where it was handed over meanwhile
