"""Asking from the thread of a blocking actor: `self.ctx.ask(ref, message)`. The thread waits; everything else happens in the system's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retinue.actors.runtime.asking import check_timeout, note_received, prepare
from retinue.actors.runtime.asks import DONE, RUNNING, AskSlot
from retinue.actors.runtime.current import Delivery
from retinue.actors.runtime.cycles import add_wait, check_cycle, drop_wait
from retinue.actors.runtime.errors import ActorStopped, AskCycle, SystemClosed
from retinue.actors.runtime.portal import Latch
from retinue.actors.runtime.ref import Ref
from retinue.mailbox.errors import Unhandled
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.hosts.thread import ThreadHost
    from retinue.actors.runtime.carrying import Approvals
    from retinue.security.context import SecurityContext

__all__ = ["ThreadSlot", "ask"]


class ThreadSlot(AskSlot):
    """The slot of an asker that waits in a blocking actor's thread."""

    __slots__ = ("_first", "_host", "latch")

    def __init__(self, host: ThreadHost, delivery: Delivery) -> None:
        super().__init__(host.cell.kernel, delivery)
        self.latch = Latch()
        self._first = delivery
        self._host = host

    def begin(self, turn: Delivery) -> None:
        """Sends the request, unless that closes a ring or the turn is over (called through the portal)."""
        cell, kernel, suspension = self._first.cell, self.kernel, turn.suspension
        if self._host.due is not None or suspension is None or suspension.thread != self._host.ident:
            return self._refuse(ActorStopped(f"{turn.cell.path} is being stopped and asks nobody any more", path=cell.path, begun=False))
        try:
            check_cycle(turn, cell, suspension.task, f"the ask of {cell.path} for {type(self._first.message).__qualname__}")
        except AskCycle as error:
            return self._refuse(error)
        self.task = suspension.task  # nobody reschedules it: it says whose wait this is (see cycles)
        add_wait(turn, self._first)
        self._host.asking = self
        return kernel.portal.begin(self._first, self)

    def _refuse(self, error: Exception) -> None:
        self.stage = DONE
        self.latch.set(None, error)

    def wake(self) -> None:
        """The outcome is there: the wait is over, and the thread goes on."""
        turn = self._first.asker
        assert turn is not None
        self._host.asking = None
        drop_wait(turn, self.delivery)
        drop_wait(turn, self._first)
        if self.error is not None:
            note_received(turn, self.error)
        self.latch.set(self.value, self.error)
        self.value = self.error = self.task = None

    def interrupt(self, text: str) -> None:
        """The asker's actor is to end: the request is withdrawn or cancelled, and the thread gets an ActorStopped."""
        if self.stage < DONE:
            begun = self.stage == RUNNING
            self.give_up()
            self.error = ActorStopped(text, path=self.delivery.cell.path, begun=begun)
            self.wake()


def ask(
    host: ThreadHost,
    turn: Delivery,
    ref: object,
    message: Any,
    timeout: float | None,
    context: SecurityContext | None,
    approvals: Approvals,
) -> Any:
    """`ActorContext.ask`: runs in the actor's thread."""
    if not isinstance(ref, Ref):
        raise DefinitionError(f"ctx.ask takes a ref and a message; {ref!r} is no ref")
    cell = ref._cell
    kernel = turn.cell.kernel
    if cell.kernel is not kernel:
        raise DefinitionError(
            f"{ref!r} belongs to the system {cell.kernel.name!r}, and this actor to {kernel.name!r}: give it a ref of retinue.sync there"
        )
    if timeout is not None:
        check_timeout(timeout)
    delivery = prepare(cell, message, context, approvals, timeout, asked=True)
    if delivery.handler.streams:
        raise Unhandled(
            f"{type(message).__qualname__} is answered by a stream, and a blocking actor cannot read one; let a plain actor do it"
        )
    slot = ThreadSlot(host, delivery)
    del delivery, message
    if not kernel.portal.post(slot.begin, turn):
        raise SystemClosed(f"the system {kernel.name!r} is closed")
    return slot.latch.wait(kernel.portal)
