"""Fault injection: messages and answers that are lost, come twice or come late, and actors that die, in a running system and reproducibly.

While faults are installed nothing takes the fast paths, so every message passes `Faults.take_in`. Without them they cost nothing. Every message still ends in
exactly one place, so the books balance whatever is injected.
"""

from __future__ import annotations

import contextlib
import logging
import math
import random
from collections import deque
from collections.abc import Callable
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, TypedDict, Unpack, overload

import attrs
import trio

from retinue.actors.runtime import lifecycle
from retinue.actors.runtime.asks import AskSlot
from retinue.actors.runtime.cell import DEAD
from retinue.actors.runtime.errors import SystemClosed, WrongThread
from retinue.actors.runtime.names import cell_of
from retinue.actors.runtime.receipts import ACCEPTED, Receipt
from retinue.actors.runtime.ref import Ref
from retinue.actors.runtime.system import ActorSystem
from retinue.actors.testing.deadly import deadly, killed_error
from retinue.actors.testing.limbo import EchoSlot, Limbo, copy_of
from retinue.actors.testing.matching import Match, Pattern, Place
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.kernel import Kernel

__all__ = ["FaultRule", "Faults", "InjectedFault"]

_log = logging.getLogger("retinue.testing")

FaultKind: TypeAlias = Literal["drop", "duplicate", "delay", "kill", "drop_reply", "delay_reply"]

LOG_SIZE: Final = 10_000
"""Injected faults that `Faults.log` keeps; the oldest are forgotten first."""


class Which(TypedDict, total=False):
    """What all rules take beside `match`; see `Faults`."""

    to: Place
    sender: Place
    probability: float
    times: int | None
    household: bool


@attrs.frozen
class InjectedFault:
    """One fault that was injected. Names types, never payloads.

    Attributes:
        at: Seconds of trio's clock.
        fault: "drop", "duplicate", "delay", "kill", "drop_reply" or "delay_reply".
        message: The message's type; of a reply, the request's; "" where an actor was killed between messages.
        target: The path of the message's receiver, or of the actor that was killed.
        sender: The path of its sender; None where no actor sent it.
        seconds: How long it was delayed; else 0.
    """

    at: float
    fault: FaultKind
    message: str
    target: str
    sender: str | None = None
    seconds: float = 0.0


class FaultRule:
    """What `drop`, `duplicate`, `delay`, `kill`, `drop_reply` and `delay_reply` return: which messages have that fault.

    Attributes:
        fault: Which fault.
        hits: How often it was injected so far.
    """

    __slots__ = ("_faults", "_match", "_probability", "_times", "after", "fault", "hits", "household", "reorder", "seconds")

    def __init__(self, faults: Faults, fault: FaultKind, match: Match, which: Which) -> None:
        self._faults = faults
        self._match = match
        self._probability = _probability(which.get("probability", 1.0))
        self._times = _times(which.get("times"))
        self.fault: FaultKind = fault
        self.household = which.get("household", False)
        self.seconds = 0.0
        self.reorder = False
        self.after = False
        self.hits = 0

    def __repr__(self) -> str:
        left = "" if self._times is None else f" of {self._times}"
        return f"<FaultRule {self.fault}: {self.hits}{left}>"

    def remove(self) -> None:
        """Injects no more of it; messages that were to kill and have not been taken up are handled as usual. A second time is fine."""
        self._faults._forget(self)

    def strikes(self, delivery: Delivery, target: Cell, message: Any, dice: random.Random) -> bool:
        """Whether the fault happens to this message; counts it then."""
        if self._times is not None and self.hits >= self._times:
            return False
        if not self._match.fits(delivery, target, message=message):
            return False
        if self._probability < 1 and dice.random() >= self._probability:
            return False
        self.hits += 1
        return True


class Faults:
    """Injects faults into a running system: `with Faults(system, seed=7) as faults: faults.drop(Pay, probability=0.1)`.

    The rules are asked in the order in which they were made, and the first that strikes is the one that happens. All of them take:

    - `match`: a message class, a tuple of them, a function of the message, or None (the default): every message. For replies: of the request.
    - `to`, `sender`: an actor, as its ref, its class or its path (`"/user/workers/*"`); `sender="outside"` is whatever no actor sent. Default: any.
    - `probability`: from 0 to 1; default 1.0. `times`: how often at most; default None, without a limit.
    - `household`: also the system's own actors under `/system` (the desk of approvals, the store). Default False: they are never touched.

    What is touched are messages that actors, tasks and threads send (asks, tells, sends, requests for streams). Not touched are the runtime's own: starts, stops,
    `Terminated`, a timer's tick, the delivery of a topic; and what an actor takes out of its stash.

    Args:
        system: The system, entered.
        seed: Which of the messages are struck where `probability` is less than 1: the same seed and the same order of messages strike the same.

    Attributes:
        log: What was injected, oldest first; the last 10,000.

    At the end of the block what is held back arrives at once, in its order, and messages that were to kill and have not been taken up are handled as usual.
    Requests whose message or answer was lost still wait for their time-outs.
    """

    def __init__(self, system: ActorSystem, *, seed: int = 0) -> None:
        if not isinstance(system, ActorSystem):
            raise DefinitionError(
                f"Faults takes an rt.ActorSystem, not {system!r}; a twin's system runs in a thread of its own and cannot have any"
            )
        self._kernel: Kernel = system._kernel
        self._dice = random.Random(seed)  # noqa: S311 - an order, not a secret
        self._rules: list[FaultRule] = []
        self._limbo: Limbo | None = None
        self._plain = False
        self._kills: dict[Delivery, Exception] = {}
        self.log: deque[InjectedFault] = deque(maxlen=LOG_SIZE)

    # -- installing ------------------------------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        kernel = self._kernel
        if kernel.thread == 0 or kernel.user.state == DEAD:
            raise SystemClosed(f"the system {kernel.name!r} is not running: use Faults inside `async with ActorSystem(…) as system`")
        if kernel.thread != get_ident():
            raise WrongThread(f"the system {kernel.name!r} runs in another thread; inject faults there")
        if kernel.faults is not None:
            raise DefinitionError(f"the system {kernel.name!r} has faults already: add rules to those, or end their block first")
        self._limbo = Limbo.of(kernel)
        kernel.faults = self
        self._plain, kernel.plain = kernel.plain, False
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        kernel = self._kernel
        if self._limbo is not None:
            self._limbo.release()
            self._limbo.leave()
        kernel.faults = None
        kernel.plain = self._plain and not kernel.closing

    # -- rules -----------------------------------------------------------------------------------------------------------------------------------------

    def drop(self, match: Pattern = None, **which: Unpack[Which]) -> FaultRule:
        """Loses messages. Each is a dead letter with the reason "fault"; its sender is told nothing: a receipt says "accepted", an asker waits until its time-out."""
        return self._rule("drop", match, which)

    def duplicate(self, match: Pattern = None, **which: Unpack[Which]) -> FaultRule:
        """Delivers messages twice, one right after the other. The answer to the second delivery of a request is a late reply. Requests for streams come once."""
        return self._rule("duplicate", match, which)

    def delay(
        self,
        match: Pattern = None,
        seconds: float = 1.0,
        *,
        reorder: bool = False,
        **which: Unpack[Which],
    ) -> FaultRule:
        """Delivers messages late. What is under way counts as queued; a request that is under way cannot be withdrawn any more, and arrives after its time-out too.

        Args:
            match, which: See the class.
            seconds: How late, in trio's time. Default 1.
            reorder: Later messages of the same sender to the same receiver overtake it. Default False: they wait behind it, for their order is promised.
        """
        return self._rule("delay", match, which, seconds=_seconds(seconds), reorder=reorder)

    def drop_reply(self, match: Pattern = None, **which: Unpack[Which]) -> FaultRule:
        """Loses the answers (values and errors) to requests: each was handled, and its asker waits until its time-out, with the outcome unknown.

        `to` is the actor that was asked, `sender` the one that asked. Not touched: the items of streams, and what an asker hears of an actor that is stopping.
        """
        return self._rule("drop_reply", match, which)

    def delay_reply(self, match: Pattern = None, seconds: float = 1.0, **which: Unpack[Which]) -> FaultRule:
        """Gives the answers to requests `seconds` later (default 1). One that comes after its asker's time-out is a late reply. Else as `drop_reply`."""
        return self._rule("delay_reply", match, which, seconds=_seconds(seconds))

    @overload
    def kill(self, match: Ref[Any], *, hard: bool = False) -> bool: ...
    @overload
    def kill(
        self,
        match: Pattern = None,
        *,
        after: bool = False,
        **which: Unpack[Which],
    ) -> FaultRule: ...
    def kill(
        self,
        match: Ref[Any] | Pattern = None,
        *,
        hard: bool = False,
        after: bool = False,
        **which: Unpack[Which],
    ) -> Any:
        """Lets actors fail with `Killed`, as if a handler had raised it: their supervision restarts, resumes, stops or escalates.

        With a ref: that actor, now. One whose handler waits fails at that place; one that waits for its next message fails before that; a plain `def` handler
        or one in a thread, which nothing can cut off, is handled to its end first.

        With a match: whoever takes such a message up, in place of handling it.

        Args:
            match: A ref, or which messages.
            hard: With a ref: it ends for good, as if it had failed too often: its parent fails with it, too. A thread that does not come back is left behind.
            after: With a match: only when it has handled the message, right before it answers.
            which: See the class.

        Returns:
            With a ref: whether the actor was there to be killed (not one that has ended, or waits to be restarted). With a match: the rule.
        """
        if isinstance(match, Ref):
            return self._kill_now(cell_of(match, self._kernel), hard=hard)
        if hard:
            raise DefinitionError("hard=True goes with a ref: faults.kill(ref, hard=True)")
        return self._rule("kill", match, which, after=after)

    def clear(self) -> None:
        """Removes all rules. What is held back stays so until it is due."""
        self._rules.clear()

    @property
    def held(self) -> int:
        """Messages that are under way, delayed; `system.statistics().queued` counts them."""
        return self._limbo.held if self._limbo is not None else 0

    def _rule(
        self, fault: FaultKind, match: Pattern, which: Which, *, seconds: float = 0.0, reorder: bool = False, after: bool = False
    ) -> FaultRule:
        unknown = which.keys() - Which.__annotations__.keys()
        if unknown:
            raise DefinitionError(
                f"faults.{fault}({'=, '.join(sorted(unknown))}=…): it takes {', '.join(f'{key}=' for key in Which.__annotations__)}"
            )
        rule = FaultRule(self, fault, Match(match, which.get("to"), which.get("sender")), which)
        rule.seconds, rule.reorder, rule.after = seconds, reorder, after
        self._rules.append(rule)
        return rule

    def _forget(self, rule: FaultRule) -> None:
        if rule in self._rules:
            self._rules.remove(rule)

    def _spares(self, rule: FaultRule, note: InjectedFault) -> Callable[[], bool]:
        """Whether a message that was to kill shall not: its rule is gone, or the block is over. Then it was no fault."""

        def spared() -> bool:
            if self._kernel.faults is self and rule in self._rules:
                return False
            rule.hits -= 1
            with contextlib.suppress(ValueError):  # forgotten already
                self.log.remove(note)
            return True

        return spared

    def _struck(self, delivery: Delivery, cell: Cell, *, reply: bool) -> FaultRule | None:
        own: bool | None = None
        for rule in self._rules:
            if rule.fault.endswith("reply") is not reply:
                continue
            if not rule.household:
                if own is None:
                    own = self._kernel.household.owns(cell)
                if own:
                    continue
            if rule.fault == "duplicate" and delivery.handler.streams:
                continue
            if rule.strikes(delivery, cell, delivery.message, self._dice):
                self._note(rule.fault, delivery, cell, rule.seconds)
                return rule
        return None

    def _note(self, fault: FaultKind, delivery: Delivery | None, cell: Cell, seconds: float = 0.0) -> None:
        origin = delivery.origin if delivery is not None else None
        label = type(delivery.message).__qualname__ if delivery is not None else ""
        self.log.append(InjectedFault(trio.current_time(), fault, label, cell.path, origin.path if origin is not None else None, seconds))
        _log.debug("injected: %s %s at %s", fault, label, cell.path)

    # -- what the kernel calls -------------------------------------------------------------------------------------------------------------------------

    def take_in(self, cell: Cell, delivery: Delivery, *, patient: bool) -> Receipt:
        """A message was sent: delivers it, or does to it what a rule says (called by the kernel in place of `Cell.enqueue`)."""
        kernel, limbo = self._kernel, self._limbo
        assert limbo is not None
        rule = self._struck(delivery, cell, reply=False)
        if rule is None:
            return limbo.forward(cell, delivery, patient=patient)
        if rule.fault == "drop":
            kernel.record("fault", delivery)
            limbo.lose(delivery)
            return ACCEPTED
        if rule.fault == "delay":
            return limbo.hold(cell, delivery, rule.seconds, patient=patient, reorder=rule.reorder)
        if rule.fault == "kill":
            delivery.handler = deadly(kernel.door, delivery, self._spares(rule, self.log[-1]), after=rule.after)
            return limbo.forward(cell, delivery, patient=patient)
        again = copy_of(delivery, None)
        if delivery.slot is not None:
            again.slot = EchoSlot(kernel, again)
        receipt = limbo.forward(cell, delivery, patient=patient)
        if receipt is ACCEPTED:
            kernel.sent += 1
            second = limbo.forward_again(cell, again)
            if second is not ACCEPTED:
                kernel.record(second.reason, again)
        return receipt

    def intake(self, cell: Cell) -> Callable[[Delivery], Receipt]:
        """`Cell.enqueue` of a cell, for a request that an actor hands over."""
        return lambda delivery: self.take_in(cell, delivery, patient=False)

    def handed_over(self, delivery: Delivery) -> None:
        """The request was handed over, and its slot is that of the delivery now."""
        assert self._limbo is not None
        self._limbo.keep_again(delivery)

    def keeps(self, slot: AskSlot) -> bool:
        """An answer is about to be given: whether a rule keeps it from its asker, for now or for good (called by the slot)."""
        limbo = self._limbo
        delivery = slot.delivery
        assert limbo is not None
        if limbo.settling or delivery.handler is None or delivery.cell.closed or not hasattr(delivery, "security"):
            return False  # also where its turn never began, in a virtual actor whose instance ends: that is a refusal, and no answer
        if delivery.handler.streams or slot.__class__ is EchoSlot:
            return False
        rule = self._struck(delivery, delivery.cell, reply=True)
        if rule is None:
            return False
        if rule.fault == "drop_reply":
            limbo.lose_reply(slot)
        else:
            limbo.hold_reply(slot, rule.seconds)
        return True

    def killed(self, delivery: Delivery) -> Exception | None:
        """The error that a turn ends with which was cut off because its actor was killed (called where the turn's outcome is told)."""
        return self._kills.pop(delivery, None)

    # -- killing now -----------------------------------------------------------------------------------------------------------------------------------

    def _kill_now(self, cell: Cell, *, hard: bool) -> bool:
        kernel = self._kernel
        if kernel.faults is not self:
            raise DefinitionError("kill(ref) works inside the block: `with Faults(system) as faults: faults.kill(ref)`")
        if cell.state == DEAD or cell.closed or (cell.actor is None and not hard):
            return False
        turn = cell.turn
        busy = turn is not None and turn.handler is not None and not turn.thread and turn.suspension is not None
        error = killed_error(cell.path)
        self._note("kill", turn if busy else None, cell)
        if busy:
            assert turn is not None
            self._kills[turn] = error
        if hard:
            lifecycle.request_stop(cell, lifecycle.FAILED, error, 0.0)
            parent = cell.parent
            if parent is not None and parent.parent is not None:
                parent.signal(lifecycle.fail, error)
        if busy:
            assert turn is not None
            kernel.cancel_turn(turn, force=True)
        if not hard:
            cell.signal(self._die, turn if busy else None, error)
        return True

    def _die(self, cell: Cell, turn: Delivery | None, error: Exception) -> None:
        """Runs in the control lane, once the turn is over: fails, unless the turn has failed with it."""
        if turn is None or self._kills.pop(turn, None) is not None:
            lifecycle.fail(cell, error)


def _probability(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise DefinitionError(f"probability={value!r}: give a number from 0 to 1")
    return float(value)


def _times(value: object) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise DefinitionError(f"times={value!r}: give how often at most, 1 or more, or None for no limit")
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise DefinitionError(f"seconds={value!r}: give seconds, 0 or more")
    return float(value)
