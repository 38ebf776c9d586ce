"""Who acts: the turn or the root mark of the code that is running.

One private context variable answers it. Its value is

- a `Delivery` while an actor handles a message (and in everything that the handler started: it goes on under that message's authority),
- a `Roots` in the task that entered a system and in its children: they act under the system's root context,
- None anywhere else: "no turn" never reads as root, so sending from there needs an explicit `context=`.

Each message gets a fresh value. A reused one would hand a background task the authority of the *next* message.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from retinue.mailbox.envelope import Envelope

if TYPE_CHECKING:
    from collections import deque

    import trio

    from retinue.actors.runtime.actor import HandlerInfo
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.kernel import Kernel
    from retinue.security.context import SecurityContext

__all__ = ["Current", "Delivery", "Roots", "Suspension", "current", "current_variable", "make_delivery"]


class Suspension:
    """Where a turn waits that has suspended, or runs in a thread of its own.

    Attributes:
        task: The trio task that runs the handler (a worker's, or the asker's own).
        scope: The cancel scope around the handler, which nobody else shares.
        thread: The id of the thread that runs the handler, for a blocking actor; else 0.
        expired: The deadline passed while it waited, so its answer comes late.
        interrupt: The KeyboardInterrupt that reached the asker's own task meanwhile; meant for the asker, not for the handler.
    """

    __slots__ = ("expired", "interrupt", "scope", "task", "thread")

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope) -> None:
        self.task = task
        self.scope = scope
        self.thread = 0
        self.expired = False
        self.interrupt: BaseException | None = None


class Delivery(Envelope):
    """An envelope on its way to one cell, and then the turn in which it is handled.

    Attributes:
        cell: The receiver.
        handler: The receiver's handler for the message's type; None for turns without a message (start, stop, background tasks).
        security: The effective context: the message's, narrowed by the receiver's grant. Set when the turn begins.
        depth: How many handlers run inside each other in one task, for a request that its asker's task handles itself; else 0.
        waits: What the turn waits for: a delivery, a set of deliveries (asks raced inside one turn), or None.
        suspension: Where the handler waits, once it has suspended.
        received: Exceptions that the turn got as answers; letting one through is no failure of this actor.
    """

    __slots__ = ("cell", "depth", "handler", "received", "security", "suspension", "waits")

    cell: Cell
    handler: Any  # HandlerInfo | None; not spelled out, for the hot paths know that it is there
    security: SecurityContext
    depth: int
    waits: Delivery | set[Delivery] | None
    suspension: Suspension | None
    received: deque[BaseException] | None

    @property
    def asker(self) -> Delivery | None:
        """The turn that waits for the answer, where an actor's turn does."""
        source = self.source
        return source if source.__class__ is Delivery else None

    @property
    def origin(self) -> Cell | None:
        """The actor that sent the message."""
        source: Any = self.source
        found: Cell | None = source.cell if source.__class__ is Delivery else source
        return found

    @property
    def asked(self) -> bool:
        """Whether somebody waits for the answer, or did when the request was sent."""
        return self.depth > 0 or self.slot is not None

    @property
    def thread(self) -> int:
        """The id of the thread that runs the turn where it is not the system's own, else 0."""
        return self.suspension.thread if self.suspension is not None else 0

    @property
    def expired(self) -> bool:
        """Whether the deadline passed while the handler ran."""
        return self.suspension is not None and self.suspension.expired


class Roots:
    """The mark of a task that entered a system; `outer` is the mark of a system entered before it in the same task."""

    __slots__ = ("kernel", "outer")

    def __init__(self, kernel: Kernel, outer: Any) -> None:
        self.kernel = kernel
        self.outer = outer

    def of(self, kernel: Kernel) -> bool:
        """Whether the task entered that system."""
        mark: Any = self
        while mark.__class__ is Roots:
            if mark.kernel is kernel:
                return True
            mark = mark.outer
        return False


Current: TypeAlias = "Delivery | Roots | None"

current_variable: contextvars.ContextVar[Current] = contextvars.ContextVar("retinue_current", default=None)
current: Callable[[], Any] = current_variable.get
"""What is in force here; `Any` because callers look at the class first, and type checkers do not follow that."""


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
    delivery.source = origin if asker is None else asker
    delivery.timeout = timeout
    delivery.cell = cell
    delivery.handler = handler
    delivery.slot = delivery.postmark = delivery.waits = delivery.suspension = delivery.received = None
    delivery.depth = 0
    return delivery
