"""Reply slots: where an asker waits, and how it is told."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import trio

from retinue.actors.runtime.deadlines import Entry
from retinue.actors.runtime.due import deadline_of, expired_error, timeout_of
from retinue.actors.runtime.errors import ActorStopped, AskTimeout, text_of
from retinue.actors.runtime.watch import StopReason
from retinue.capabilities.places import shorten
from retinue.mailbox.errors import MailboxFull

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.receipts import Receipt

__all__ = [
    "ABANDONED",
    "DONE",
    "QUEUED",
    "ROOM",
    "RUNNING",
    "UNARMED",
    "WITHDRAWN",
    "AskSlot",
    "DetachedSlot",
    "RoomSlot",
    "StartSlot",
    "TakenSlot",
    "stopped_error",
]

ROOM: Final = 0  # waits for room in a full mailbox
QUEUED: Final = 1
RUNNING: Final = 2  # taken up; perhaps deferred
DONE: Final = 3
WITHDRAWN: Final = 4  # the asker gave up before it was taken up
ABANDONED: Final = 5  # the asker gave up while it ran

UNARMED: Entry = [math.inf, 0, None]
"""Stands for the deadline of a slot that sets it when somebody waits there: whoever is answered before never reads the clock. (As an entry it is a cancelled one.)"""


class AskSlot:
    """Where the answer to one request goes. Single use: an answer that comes late is a dead letter.

    Attributes:
        delivery: The request; after a forward, the forwarded one.
        stage: How far it has come; one of the constants above.
        task: The asker's task while it is suspended here.
        owner: The cell that took the slot away to answer later, if one did.
    """

    __slots__ = ("delivery", "error", "kernel", "owner", "stage", "task", "timer", "value")

    detached = False
    """Whether the request goes on when its asker does not wait any longer."""

    def __init__(self, kernel: Kernel, delivery: Delivery, stage: int = QUEUED) -> None:
        self.kernel = kernel
        self.delivery = delivery
        self.stage = stage
        self.value: Any = None
        self.error: BaseException | None = None
        self.task: trio.lowlevel.Task | None = None
        self.timer: Entry | None = None
        self.owner: Any = None

    @property
    def withdrawn(self) -> bool:
        """Whether the asker gave up before the request was taken up."""
        return self.stage == WITHDRAWN

    def admitted(self) -> None:
        """There was room at last."""
        if self.stage == ROOM:
            self.stage = QUEUED

    def answer(self, value: Any) -> bool:
        """Gives the answer; False where nobody waits for it any more (then it is a dead letter)."""
        if self.stage >= DONE:
            self._late(value, None)
            return False
        self.value = value
        self._finish()
        return True

    def fail(self, error: BaseException) -> bool:
        """Gives an error as the answer; False where nobody waits for it any more."""
        if self.stage >= DONE:
            self._late(None, error)
            return False
        self.error = error
        self._finish()
        return True

    def _finish(self) -> None:
        faults = self.kernel.faults
        if faults is not None and faults.keeps(self):
            return
        self.stage = DONE
        self.disarm()
        self.wake()

    def disarm(self) -> None:
        """Takes the deadline away, and the slot from whoever deferred it."""
        if self.timer is not None:
            self.kernel.deadlines.cancel(self.timer)
            self.timer = None
        if self.owner is not None:
            self.owner.extra.deferred.discard(self)
            self.owner = None

    def wake(self) -> None:
        """Wakes whoever waits. (Other kinds of asker, from threads and other loops, override this.)"""
        task = self.task
        if task is not None:
            self.task = None
            trio.lowlevel.reschedule(task)

    def arm(self) -> None:
        """Sets the deadline."""
        self.timer = None
        deadline = deadline_of(self.delivery)
        if deadline != math.inf:
            self.timer = self.kernel.deadlines.add(deadline, self.expire)

    def expire(self) -> None:
        """The deadline has passed."""
        self.timer = None
        if self.stage >= DONE:
            return
        delivery = self.delivery
        cell = delivery.cell
        label = type(delivery.message).__qualname__
        bounded = delivery.postmark is not None and delivery.postmark.bounded
        if bounded and self.stage != RUNNING:
            error: Exception = self.kernel.book.refused(expired_error(delivery, "before it was taken up, so it was not carried out"))
        elif self.stage == ROOM:
            error = MailboxFull(
                f"{cell.path} had no room for {label} within {_seconds(delivery)} ({cell.waiting()} messages wait, capacity {cell.spec.mailbox.capacity}): "
                "it was not delivered and may be sent again"
            )
        else:
            within = "before its authority expired" if bounded else f"within {_seconds(delivery)}"
            hint = "" if bounded else "; give `timeout=` in seconds if it may take longer"
            error = AskTimeout(
                f"{cell.path} did not answer {label} {within}; the request {self._fate()}{hint}",
                path=cell.path,
                begun=self.stage == RUNNING or (None if self.detached else False),
            )
            if bounded:
                error.__cause__ = expired_error(delivery, "while it was handled")
        self.give_up("mailbox_full" if self.stage == ROOM and not bounded else "expired")
        self.error = error
        self.wake()

    def _fate(self) -> str:
        """What becomes of the request now that its deadline has passed, as part of a sentence."""
        delivery = self.delivery
        cell = delivery.cell
        if self.stage == QUEUED:
            behind = _behind(cell)
            if self.detached:
                return f"still waits {behind} and will be handled all the same, for it is detached. The outcome is unknown"
            if cell.actor is None and cell.extra is not None and cell.extra.incarnation:
                behind += ", while its actor waits to be restarted after a failure"
            return f"still waited {behind} and was withdrawn. It was not carried out"
        if delivery.thread:
            state = "goes on in its actor's thread, which cannot be cancelled"
        elif cell.turn is not delivery:
            deferred: str = getattr(cell.spec.cls, "_unanswered", "had been deferred, and was not answered")
            state = getattr(self.owner, "fate", deferred)
        elif self.detached or (delivery.handler is not None and delivery.handler.shield):
            state = f"is still being handled and goes on, for {'it is detached' if self.detached else 'its handler is shielded'}"
        else:
            state = "was being handled and is cancelled now"
        return f"{state}. The outcome is unknown"

    def give_up(self, reason: str = "withdrawn") -> None:
        """The asker does not wait any longer: a queued request is withdrawn, a running one cancelled."""
        stage = self.stage
        if stage >= DONE:
            return
        self.disarm()
        delivery = self.delivery
        cell = delivery.cell
        if stage == RUNNING:
            self.stage = ABANDONED
            if cell.turn is delivery:
                if delivery.suspension is not None:
                    delivery.suspension.expired = reason == "expired"
                self.kernel.cancel_turn(delivery)
            return
        self.stage = WITHDRAWN
        self.kernel.record(reason, delivery)
        if stage == ROOM:
            cell.extras().waiters.pop(delivery, None)
        else:
            cell.withdrew()

    def turn_away(self, error: BaseException) -> None:
        """The request will not be taken up: it is withdrawn for its asker, who is told why."""
        if self.stage < DONE:
            self.give_up()
            self.error = error
            self.wake()

    async def wait(self) -> Any:
        """Suspends the calling task until the answer is there, and returns or raises it."""
        if self.stage < DONE:
            if self.timer is UNARMED:
                self.arm()
            self.task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        error = self.error
        if error is not None:
            self.error = None
            shorten(error)
            try:
                raise error
            finally:
                del error  # else the error's traceback would hold this frame, and this frame the error
        return self.value

    def _abort(self, _: Any) -> trio.lowlevel.Abort:
        self.task = None
        self.give_up()
        return trio.lowlevel.Abort.SUCCEEDED

    def _late(self, value: Any, error: BaseException | None) -> None:
        self.kernel.late_reply(self.delivery, value, error)


class DetachedSlot(AskSlot):
    """The slot of an asker that wants the request carried out whether or not it is there to hear of it."""

    __slots__ = ()

    detached = True

    def give_up(self, reason: str = "withdrawn") -> None:
        """The asker does not wait any longer; the request goes on, once it was let in: `MailboxFull` means that it was not and never will be."""
        if self.stage == ROOM:
            super().give_up(reason)
        elif self.stage < DONE:
            self.disarm()
            self.stage = ABANDONED


class StartSlot(AskSlot):
    """Where a spawner waits for its actor to have started. Its envelope holds no message, so giving up makes no dead letter."""

    __slots__ = ()

    def give_up(self, reason: str = "withdrawn") -> None:  # noqa: ARG002 - the spawner undoes the start
        """The spawner does not wait any longer."""
        if self.stage < DONE:
            self.stage = ABANDONED

    def _late(self, value: Any, error: BaseException | None) -> None:
        """Whoever starts the actor knows what to do with one that nobody waits for."""


class TakenSlot:
    """Stands in an envelope whose real slot was taken away, to be answered later or by somebody else: what the handler returns goes nowhere."""

    __slots__ = ("again", "real")

    stage = DONE
    withdrawn = False
    detached = True  # the turn goes on whoever waits
    delivery = None

    def __init__(self, real: AskSlot | None) -> None:
        self.real = real
        self.again: Delivery | None = None  # the envelope in the stash, where the message was stashed

    def answer(self, value: Any) -> bool:  # noqa: ARG002 - somebody else answers
        """The handler returned; that is no answer."""
        return True

    def fail(self, error: BaseException) -> bool:
        """The handler raised after it had taken the slot away; the asker hears of it."""
        return self.real is not None and self.real.stage < DONE and self.real.fail(error)


class RoomSlot:
    """Where a `send` waits for room.

    Attributes:
        delivery: The message.
        turn: The sender's turn while it waits here, if a turn sends; noted for the search for rings.
        receipt: What became of the message, once that is known.
    """

    __slots__ = ("delivery", "kernel", "receipt", "task", "timer", "turn")

    def __init__(self, kernel: Kernel, delivery: Delivery, turn: Delivery | None) -> None:
        self.kernel = kernel
        self.delivery = delivery
        self.turn = turn
        self.receipt: Receipt | None = None
        self.task: trio.lowlevel.Task | None = None
        self.timer: Entry | None = None

    def answer(self, receipt: Receipt) -> None:
        """Tells the sender what became of its message."""
        self.receipt = receipt
        self._waits_no_longer()
        task = self.task
        if task is not None:
            self.task = None
            trio.lowlevel.reschedule(task)

    async def wait(self, timeout: float) -> Receipt:
        """Waits until the message was let in, or refused. Raises MailboxFull after `timeout` seconds."""
        delivery = self.delivery
        if timeout != math.inf:
            self.timer = self.kernel.deadlines.add(trio.current_time() + timeout, self._expire)
        if self.receipt is None:
            self.task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        self._disarm()
        if self.receipt is None:
            raise MailboxFull(
                f"{delivery.cell.path} had no room for {type(delivery.message).__qualname__} within {timeout:g} s: it was not delivered and may be sent again"
            )
        return self.receipt

    def _expire(self) -> None:
        if self.receipt is None:
            self._leave("mailbox_full")
            task = self.task
            if task is not None:
                self.task = None
                trio.lowlevel.reschedule(task)

    def _leave(self, reason: str) -> None:
        self._waits_no_longer()
        self.delivery.cell.extras().waiters.pop(self.delivery, None)
        self.kernel.record(reason, self.delivery)

    def _waits_no_longer(self) -> None:
        """At once when the sender may go on, and not only when it does: by then the message may be in progress, and its handler may ask the sender."""
        if self.turn is not None:
            from retinue.actors.runtime.cycles import drop_wait

            drop_wait(self.turn, self.delivery)
            self.delivery.suspension = None
            self.turn = None

    def _abort(self, _: Any) -> trio.lowlevel.Abort:
        self.task = None
        self._disarm()  # at once: the deadline may be due in this very moment too
        self._leave("withdrawn")
        return trio.lowlevel.Abort.SUCCEEDED

    def _disarm(self) -> None:
        if self.timer is not None:
            self.kernel.deadlines.cancel(self.timer)
            self.timer = None


def stopped_error(delivery: Delivery) -> ActorStopped:
    """What an asker gets whose target is gone: with the cause chained, where a failure was its end (and not one that it survived)."""
    cell = delivery.cell
    extra = cell.extra
    cause = extra.cause if extra is not None and extra.reason in (StopReason.FAILED, StopReason.START_FAILED) else None
    error = ActorStopped(
        f"{cell.path} has stopped and cannot answer {type(delivery.message).__qualname__}"
        + (
            f": it failed with {type(cause).__qualname__}: {text_of(cause)}"
            if cause is not None
            else "; watch it to learn of its end, or spawn another"
        ),
        path=cell.path,
        begun=False,
    )
    error.__cause__ = cause
    return error


def _behind(cell: Cell) -> str:
    """What a request that waits in a mailbox waits for, as part of a sentence."""
    turn, others = cell.turn, max(cell.waiting() - 1, 0)
    ahead = []
    if turn is not None and turn.message is not None:
        ahead.append(f"a {type(turn.message).__qualname__} that is in progress")
    if others:
        ahead.append(f"{others} other message{'s' if others > 1 else ''}")
    return f"behind {' and '.join(ahead)}" if ahead else "in the mailbox"


def _seconds(delivery: Delivery) -> str:
    return f"{timeout_of(delivery):g} s"
