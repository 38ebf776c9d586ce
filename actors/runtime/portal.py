"""The portal: how other threads reach a system. One coalesced `run_sync_soon` for a whole batch, since each call of it writes a socket."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any

import trio

from retinue.actors.runtime.current import Delivery, current, make_delivery
from retinue.actors.runtime.handlers import GENERATOR
from retinue.actors.runtime.receipts import CLOSED, FULL, HANDED_OVER, Receipt
from retinue.mailbox.envelope import Postmark
from retinue.mailbox.errors import Unhandled

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.kernel import Kernel
    from retinue.security.context import SecurityContext

__all__ = ["PORTAL_CAPACITY", "Portal"]

_log = logging.getLogger("retinue.runtime")

PORTAL_CAPACITY = 65_536
"""Calls from other threads that may wait for the system's thread."""
BATCH = 256
"""Calls that are run before the loop gets a turn."""


class Portal:
    """Runs calls from other threads in the system's thread, in the order they came."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._calls: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._armed = False
        self._token: trio.lowlevel.TrioToken | None = None

    def open(self, token: trio.lowlevel.TrioToken) -> None:
        """The system's loop runs."""
        self._token = token

    def close(self) -> None:
        """The system's loop ends; calls that still wait are run now, in the system's thread."""
        self._token = None
        while self._calls:
            self._run_one()

    def __len__(self) -> int:
        return len(self._calls)

    def post(self, function: Callable[..., Any], *arguments: Any) -> bool:
        """Hands a call over; False where the system is closed. Whatever the call raises is logged: it must not end trio's run."""
        token = self._token
        if token is None:
            return False
        self._calls.append((function, arguments))
        if not self._armed:
            self._armed = True
            try:
                token.run_sync_soon(self._drain)
            except trio.RunFinishedError:
                return False
        return True

    def _drain(self) -> None:
        self._armed = False  # first: a call that is appended from now on arms again
        for _ in range(BATCH):
            if not self._calls:
                return
            self._run_one()
        if self._calls and not self._armed and self._token is not None:
            self._armed = True
            self._token.run_sync_soon(self._drain)

    def _run_one(self) -> None:
        function, arguments = self._calls.popleft()
        try:
            function(*arguments)
        except BaseException:
            _log.exception("a call from another thread failed: %s", getattr(function, "__qualname__", function))

    # -- messages from other threads -----------------------------------------------------------------------------------------------------------------

    def tell(self, cell: Cell, message: Any, context: SecurityContext | None, approvals: Sequence[object]) -> Receipt:
        """A tell from another thread. What is wrong with the call is raised here, in that thread; the mailbox is touched in the system's thread only."""
        kernel = self._kernel
        handler = kernel.find_handler(cell, message)
        if handler.kind == GENERATOR:
            raise Unhandled(f"{type(message).__qualname__} is answered by a stream: use `async with ref.stream(message) as items`, not tell")
        turn = current()
        security = kernel.sending_context(turn, context, cell)
        acts = turn.__class__ is Delivery and turn.cell.kernel is kernel and turn.thread == get_ident()
        delivery = make_delivery(cell, handler, message, security, turn.cell if acts else None)
        if approvals:
            delivery.postmark = Postmark(tuple(approvals))
        if len(self._calls) >= PORTAL_CAPACITY:
            self.post(self._refused, delivery, "mailbox_full")
            return FULL
        if not self.post(kernel.post, cell, delivery):
            return CLOSED
        return HANDED_OVER

    def _refused(self, delivery: Delivery, reason: str) -> None:
        self._kernel.sent += 1
        self._kernel.record(reason, delivery)
