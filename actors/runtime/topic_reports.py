"""What a publisher gets back: at once how many it was sent to, and on request what became of it at each of them."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from retinue.actors.runtime.asking import note_received
from retinue.actors.runtime.asks import DONE, AskSlot
from retinue.actors.runtime.current import Delivery, current
from retinue.actors.runtime.cycles import add_wait, drop_wait
from retinue.actors.runtime.derivation import received
from retinue.actors.runtime.errors import ActorStopped
from retinue.security.errors import AuthorityError

if TYPE_CHECKING:
    from retinue.actors.runtime.deadlines import Entry
    from retinue.actors.runtime.kernel import Kernel

__all__ = ["DeliveryReport", "Outcome", "Published", "Report", "ReportSlot"]

_log = logging.getLogger("retinue.topics")

Outcome: TypeAlias = Literal["handled", "failed", "denied", "dropped", "stopped", "timeout"]


@attrs.frozen
class Published:
    """What `publish` returns. True where there was at least one subscriber.

    Attributes:
        topic: The topic's name.
        subscribers: How many actors and listeners it was sent to.
        lagging: How many of them dropped their oldest message for it, for they had as many waiting as they take.
    """

    topic: str
    subscribers: int
    lagging: int = 0

    def __bool__(self) -> bool:
        return self.subscribers > 0


@attrs.frozen
class DeliveryReport:
    """What became of one message at each subscriber. True where all have handled it (with no subscribers, too: see `outcomes`).

    Attributes:
        topic: The topic's name.
        outcomes: By path of the subscriber: "handled"; "failed", its handler raised; "denied", authority refused it; "dropped", it waited too long in a full
            room, or the subscription was closed; "stopped", the actor ended first, or while it handled it; "timeout", it was not done in time: the outcome is
            unknown, and the message is still handled in its turn.
        errors: By path: what was raised or refused, where there is something.
    """

    topic: str
    outcomes: Mapping[str, Outcome]
    errors: Mapping[str, BaseException]

    def _count(self, outcome: Outcome) -> int:
        return sum(one == outcome for one in self.outcomes.values())

    @property
    def handled(self) -> int:
        """How many have handled it."""
        return self._count("handled")

    @property
    def failed(self) -> int:
        """At how many it failed."""
        return self._count("failed")

    @property
    def denied(self) -> int:
        """At how many it was refused."""
        return self._count("denied")

    @property
    def dropped(self) -> int:
        """How many dropped it."""
        return self._count("dropped")

    @property
    def stopped(self) -> int:
        """How many ended before they were done with it."""
        return self._count("stopped")

    @property
    def timed_out(self) -> int:
        """How many were not done in time."""
        return self._count("timeout")

    def __bool__(self) -> bool:
        return all(outcome == "handled" for outcome in self.outcomes.values())


class ReportSlot(AskSlot):
    """Where the outcome at one subscriber goes. It has no deadline of its own and withdraws nothing: a publisher that waits no longer changes nothing."""

    __slots__ = ("_report", "first", "labels", "outcome", "path")

    detached = True

    def __init__(self, report: Report, delivery: Delivery) -> None:
        super().__init__(report.kernel, delivery)
        self._report = report
        self.first = delivery
        self.labels: frozenset[str] = frozenset()
        self.path = delivery.cell.path
        self.outcome: Outcome = "timeout"

    def answer(self, value: Any) -> bool:  # noqa: ARG002 - told messages have no answers
        """The handler returned; the value goes nowhere."""
        return super().answer(None) if self._settled("handled") else False

    def fail(self, error: BaseException) -> bool:
        """It was refused, or the handler raised."""
        if isinstance(error, ActorStopped) and error.path in (self.path, self.delivery.cell.path):
            outcome: Outcome = "stopped"
        else:
            outcome = "denied" if isinstance(error, AuthorityError) else "failed"
        if self._settled(outcome):
            return super().fail(error)
        if outcome == "failed":  # nobody is told any more
            _log.error("%s failed on %s", self.path, type(self.delivery.message).__qualname__, exc_info=error)
        return False

    def drop(self) -> None:
        """The subscription gave it up."""
        if self._settled("dropped"):
            super().answer(None)

    def stop(self) -> None:
        """The subscriber takes nothing any more."""
        if self._settled("stopped"):
            super().answer(None)

    def arm(self) -> None:
        """The report has a limit, the slot has none."""

    def wake(self) -> None:
        """One outcome more is known."""
        self.task = None
        self._report.note(self)

    def give_up(self, reason: str = "withdrawn") -> None:  # noqa: ARG002 - nothing is withdrawn
        """The publisher waits no longer; the message is handled all the same."""
        if self.stage < DONE:
            self.disarm()
            self.stage = DONE
            self.task = None

    def _settled(self, outcome: Outcome) -> bool:
        if self.stage >= DONE:
            return False
        self.outcome = outcome
        turn = current()
        if self.kernel.labelled and turn.__class__ is Delivery:  # somebody answers what was deferred
            self.labels = turn.security.labels
        return True


class Report:
    """The outcomes of one publication, while they come in.

    Args:
        kernel: The system.
        turn: The turn that publishes, None for the holder. It waits for all its subscribers meanwhile, as for so many asks.
    """

    __slots__ = ("_open", "_slots", "_task", "_turn", "kernel")

    def __init__(self, kernel: Kernel, turn: Delivery | None) -> None:
        self.kernel = kernel
        self._turn = turn
        self._task: trio.lowlevel.Task | None = None
        self._slots: list[ReportSlot] = []
        self._open = 0

    def expect(self, delivery: Delivery) -> None:
        """One message more whose outcome belongs to it."""
        slot = delivery.slot = ReportSlot(self, delivery)
        delivery.timeout = math.inf
        slot.task = trio.lowlevel.current_task()
        self._slots.append(slot)
        self._open += 1
        if self._turn is not None:
            add_wait(self._turn, delivery)

    def note(self, slot: ReportSlot) -> None:
        """One outcome is known."""
        self._open -= 1
        if self._turn is not None:
            drop_wait(self._turn, slot.first)
        if not self._open and self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)

    @enable_ki_protection
    async def wait(self, topic: str, timeout: float) -> DeliveryReport:
        """Waits until all outcomes are known, for at most `timeout` seconds, and returns them."""
        timer: Entry | None = None
        try:
            if self._open:
                if timeout != math.inf:
                    timer = self.kernel.deadlines.add(trio.current_time() + timeout, self._expire)
                self._task = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._abort)
            else:
                await trio.lowlevel.checkpoint()
        finally:
            if timer is not None:
                self.kernel.deadlines.cancel(timer)
            for slot in self._slots:
                slot.give_up()
                if self._turn is not None:
                    drop_wait(self._turn, slot.first)
        return self._result(topic)

    def _expire(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def _abort(self, _: Any) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _result(self, topic: str) -> DeliveryReport:
        """What is known; the publishing turn has the labels of those that have answered from then on."""
        errors: dict[str, BaseException] = {}
        for slot in self._slots:
            if self._turn is not None and self.kernel.labelled and slot.outcome in ("handled", "failed", "denied"):
                received(self._turn, slot.delivery, slot.labels)
            if slot.error is not None:
                errors[slot.path] = slot.error
                if self._turn is not None:
                    note_received(self._turn, slot.error)
                slot.error = None
        outcomes: dict[str, Outcome] = {slot.path: slot.outcome for slot in self._slots}
        return DeliveryReport(topic, MappingProxyType(outcomes), MappingProxyType(errors))
