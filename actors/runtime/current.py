"""Who acts: the turn or the root mark of the code that is running.

One private context variable answers it. Its value is

- a `Delivery` while an actor handles a message (and in everything that the handler started: it goes on under that message's authority),
- a `Roots` in the task that entered a system and in its children: they act under the system's root context,
- None anywhere else: "no turn" never reads as root, so sending from there needs an explicit `context=`.

Each message gets a fresh value. A reused one would hand a background task the authority of the *next* message.
"""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any, TypeAlias

from retinue.mailbox.envelope import Envelope

if TYPE_CHECKING:
    import trio

    from retinue.actors.runtime.actor import HandlerInfo
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.scheduler import Kernel
    from retinue.security.context import SecurityContext

__all__ = ["Current", "Delivery", "Roots", "Suspension", "current", "current_variable", "make_delivery"]


class Suspension:
    """Where a suspended handler waits.

    Attributes:
        task: The trio task that runs the handler (a worker's, or the asker's own).
        scope: The cancel scope around the handler, which nobody else shares.
    """

    __slots__ = ("scope", "task")

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope) -> None:
        self.task = task
        self.scope = scope


class Delivery(Envelope):
    """An envelope on its way to one cell, and then the turn in which it is handled.

    Attributes:
        cell: The receiver.
        handler: The receiver's handler for the message's type; None for turns without a message (start, stop, background tasks).
        security: The effective context: the message's, narrowed by the receiver's grant. Set when the turn begins.
        waits: What the turn waits for: a delivery, a set of deliveries (asks raced inside one turn), or None.
        suspension: Where the handler waits, once it has suspended.
        received: Exceptions that the turn got as answers; letting one through is no failure of this actor.
        depth: How many handlers run inside each other in one task at this point.
        thread: The thread that runs the turn where it is not the system's own (blocking actors), else 0.
        asked: Somebody waits for the answer (or waited, when the request was taken up).
        expired: The deadline passed while the handler ran, so its answer comes late.
    """

    __slots__ = ("asked", "cell", "depth", "expired", "handler", "received", "security", "suspension", "thread", "waits")

    cell: Cell
    handler: HandlerInfo | None
    security: SecurityContext
    waits: Delivery | set[Delivery] | None
    suspension: Suspension | None
    received: list[BaseException] | None
    depth: int
    thread: int
    asked: bool
    expired: bool


class Roots:
    """The mark of a task that entered a system; `outer` is the mark of a system entered before it in the same task."""

    __slots__ = ("kernel", "outer")

    def __init__(self, kernel: Kernel, outer: Any) -> None:
        self.kernel = kernel
        self.outer = outer

    def of(self, kernel: Kernel) -> bool:
        mark: Any = self
        while mark.__class__ is Roots:
            if mark.kernel is kernel:
                return True
            mark = mark.outer
        return False


Current: TypeAlias = "Delivery | Roots | None"

current_variable: contextvars.ContextVar[Current] = contextvars.ContextVar("retinue_current", default=None)
current = current_variable.get


_new = Delivery.__new__


def make_delivery(
    cell: Cell,
    handler: HandlerInfo | None,
    message: Any,
    context: SecurityContext,
    origin: Cell | None,
    asker: Delivery | None = None,
    timeout: float | None = None,
) -> Delivery:
    """A fresh delivery. (`Ref.ask` and `Ref.tell` spell this out instead of calling it: a call costs more than the stores.)"""
    delivery = _new(Delivery)
    delivery.message = message
    delivery.context = delivery.security = context
    delivery.origin = origin
    delivery.slot = delivery.postmark = delivery.deadline = None
    delivery.asker = asker
    delivery.timeout = timeout
    delivery.cell = cell
    delivery.handler = handler
    delivery.waits = delivery.suspension = delivery.received = None
    delivery.depth = delivery.thread = 0
    delivery.asked = delivery.expired = False
    return delivery
