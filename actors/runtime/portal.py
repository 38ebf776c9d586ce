"""The portal: how other threads reach a system. One coalesced `run_sync_soon` for a whole batch, since each call of it writes a socket."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

import trio

from retinue.actors.runtime.asking import tokens_of
from retinue.actors.runtime.asks import ROOM, AskSlot
from retinue.actors.runtime.coercing import addressed
from retinue.actors.runtime.current import Delivery, current, make_delivery
from retinue.actors.runtime.derivation import sending
from retinue.actors.runtime.errors import SystemClosed, WrongThread
from retinue.actors.runtime.receipts import ACCEPTED, CLOSED, FULL, HANDED_OVER, Receipt
from retinue.actors.runtime.tracing import sent_in
from retinue.capabilities.places import shorten
from retinue.mailbox.envelope import Postmark
from retinue.mailbox.errors import Unhandled

if TYPE_CHECKING:
    from retinue.actors.runtime.carrying import Approvals
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.kernel import Kernel
    from retinue.security.context import SecurityContext

__all__ = ["PORTAL_CAPACITY", "Latch", "Portal"]

_log = logging.getLogger("retinue.runtime")

PORTAL_CAPACITY = 65_536
"""Messages from other threads that may wait for the system's thread."""
BATCH = 256
"""Calls that are run before the loop gets a turn."""
PULSE = 1.0
"""Seconds after which a thread that waits for the loop looks whether the loop is still there."""


class Latch:
    """Where a thread waits for an outcome that the system's thread will give. Single use."""

    __slots__ = ("_lock", "done", "error", "value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None

    def set(self, value: Any, error: BaseException | None) -> None:
        """Gives the outcome."""
        self.value = value
        self.error = error
        self.done = True
        self._lock.release()

    def release(self) -> None:
        """Lets the next one through that waits here, once the outcome has been read."""
        self._lock.release()

    def wait(self, portal: Portal, limit: float = math.inf) -> Any:
        """Blocks the calling thread until the outcome is there, and returns or raises it.

        Raises SystemClosed where the loop is gone without giving one, and TimeoutError (with `done` still False) after `limit` seconds.
        """
        end = time.monotonic() + limit
        while not self._lock.acquire(timeout=max(0.0, min(PULSE, end - time.monotonic()))):
            if not portal.is_open() and not self._lock.acquire(timeout=PULSE):
                raise SystemClosed("the system's loop has ended without an answer")
            if self.done:
                break
            if time.monotonic() >= end:
                raise TimeoutError(f"the system's loop has given no answer within {limit:g} s")
        error, self.error = self.error, None
        if error is not None:
            shorten(error)
            try:
                raise error
            finally:
                del error  # else the error's traceback would hold this frame, and this frame the error
        return self.value


class Portal:
    """Runs calls from other threads in the system's thread, in the order they came."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._calls: deque[list[Any]] = deque()  # [arguments, function]; whoever pops the function has the call
        self._armed = False
        self._token: trio.lowlevel.TrioToken | None = None
        self._lock = threading.Lock()
        self._refused = 0

    def open(self, token: trio.lowlevel.TrioToken) -> None:
        """The system's loop runs."""
        self._token = token

    def close(self) -> None:
        """The system's loop ends; calls that still wait are run now, in the system's thread."""
        self._token = None
        self._count_refused()
        while self._calls:
            self._run_one()

    @property
    def closed(self) -> bool:
        """Whether it takes no calls."""
        return self._token is None

    def is_open(self) -> bool:
        """Whether there still is a loop behind it. Looks, where `closed` only remembers."""
        token = self._token
        if token is None:
            return False
        try:
            token.run_sync_soon(self._drain, idempotent=True)
        except trio.RunFinishedError:
            self._token = None
        return self._token is not None

    def __len__(self) -> int:
        return len(self._calls)

    def post(self, function: Callable[..., Any], *arguments: Any) -> bool:
        """Hands a call over; False where the system is closed. Whatever the call raises is logged: it must not end trio's run."""
        token = self._token
        if token is None:
            return False
        call = [arguments, function]
        self._calls.append(call)
        if self.closed:
            return not _take_back(call)  # in between: either the last drain has run the call, or nobody will
        if not self._armed:
            self._armed = True
            try:
                token.run_sync_soon(self._drain)
            except trio.RunFinishedError:
                self._token = None
                return not _take_back(call)
            except BaseException:  # a Ctrl-C, in a script's main thread: it must not leave the portal armed, with no drain to come
                self._armed = False
                raise
        return True

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Runs a function in the system's thread, blocks until it has, and returns or raises its outcome. Not for the system's own thread."""
        if get_ident() == self._kernel.thread:
            raise WrongThread(f"this is the thread of the system {self._kernel.name!r}: it would wait for itself")
        latch = Latch()
        if not self.post(_answer, latch, function, arguments):
            raise SystemClosed(f"the system {self._kernel.name!r} is closed")
        return latch.wait(self)

    def _drain(self) -> None:
        self._armed = False  # first: a call that is appended from now on arms again
        if self._refused:
            self._count_refused()
        for _ in range(min(BATCH, len(self._calls))):
            self._run_one()
        if not self._calls:
            self._kernel.notice_quiet()
        elif not self._armed and self._token is not None:
            self._armed = True
            self._token.run_sync_soon(self._drain)

    def flush(self) -> None:
        """Runs all calls that wait at this moment, in the system's thread."""
        self._count_refused()
        for _ in range(len(self._calls)):
            self._run_one()

    def _run_one(self) -> None:
        call = self._calls.popleft()
        try:
            function = call.pop()
        except IndexError:
            return  # taken back
        try:
            function(*call[0])
        except BaseException:
            _log.exception("a call from another thread failed: %s", getattr(function, "__qualname__", function))

    # -- messages from other threads -----------------------------------------------------------------------------------------------------------------

    def tell(self, cell: Cell, message: Any, context: SecurityContext | None, approvals: Approvals) -> Receipt:
        """A tell from another thread. What is wrong with the call is raised here, in that thread; the mailbox is touched in the system's thread only."""
        kernel = self._kernel
        handler, message = addressed(cell, message, streamed=False)
        if handler.streams:
            raise Unhandled(
                f"{type(message).__qualname__} is answered by a stream: use `async with ref.stream(message) as items`, not tell"
            )
        turn = current()
        security = sending(kernel, turn, context, cell)
        acts = turn.__class__ is Delivery and turn.cell.kernel is kernel and turn.thread == get_ident()
        delivery = make_delivery(cell, handler, message, security, turn.cell if acts else None)
        trace = sent_in(kernel, turn if acts else None)
        if trace is not None or approvals:
            delivery.postmark = Postmark(tokens_of(approvals) if approvals else (), trace)
        if kernel.loopback is not None and not kernel.household.owns(cell):
            delivery.message = kernel.loopback.message(message)
        return self.hand_over(delivery)

    def hand_over(self, delivery: Delivery, *, squeeze: bool = False) -> Receipt:
        """Hands a prepared tell over. Its receipt tells only that; a mailbox that refuses it makes it a dead letter.

        With `squeeze` it is taken though there is no room: by whoever has waited for room, and was overtaken by another thread.
        """
        if len(self._calls) >= PORTAL_CAPACITY and not squeeze:
            return self._refuse(delivery, FULL)
        if not self.post(self._tell, delivery):
            return self._refuse(delivery, CLOSED)
        return HANDED_OVER

    def _tell(self, delivery: Delivery) -> None:
        kernel = self._kernel
        try:
            kernel.post(delivery.cell, delivery)
        except Exception as error:  # it has no place in that mailbox, and its sender is gone
            kernel.sent += 1
            kernel.record("poison", delivery, error)

    def _refuse(self, delivery: Delivery, receipt: Receipt) -> Receipt:
        """A dead letter, made in the sender's thread. Nothing is queued for the loop, which has enough to do: its next drain counts what was sent."""
        self._kernel.record(receipt.reason, delivery)
        with self._lock:
            self._refused += 1
            if self.closed:
                self._count()
        return receipt

    def begin(self, delivery: Delivery, slot: AskSlot) -> None:
        """Runs in the system's thread: enqueues a request from another one. Whatever becomes of it, the slot is told."""
        kernel, cell = self._kernel, delivery.cell
        delivery.slot = slot
        try:
            receipt = kernel.take_in(cell, delivery)
        except Exception as error:  # it has no place in that mailbox: a priority key that raises, say
            slot.fail(error)
            return
        if receipt is not ACCEPTED:
            if receipt.reason not in ("mailbox_full", "dropped_newest"):
                kernel.record(receipt.reason, delivery)
                slot.fail(kernel.gone(delivery))
                return
            slot.stage = ROOM
            delivery.cell.extras().waiters[delivery] = None
        slot.arm()

    def _count_refused(self) -> None:
        with self._lock:
            self._count()

    def _count(self) -> None:
        self._kernel.sent += self._refused
        self._refused = 0


def _take_back(call: list[Any]) -> bool:
    try:
        call.pop()
    except IndexError:
        return False
    call.clear()
    return True


def _answer(latch: Latch, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        value = function(*arguments)
    except BaseException as error:
        latch.set(None, error)
    else:
        latch.set(value, None)
