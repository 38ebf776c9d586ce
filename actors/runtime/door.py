"""The door: the runtime's side of the gate. It asks the gate for each message before its handler runs, and remembers what need not be asked again.

The gate (`retinue.capabilities.gate`) decides; here stands what the runtime makes of its answers. A verdict that needed nothing but the authority and the
operation is kept in the cell: the next message under the same context for the same handler costs two comparisons, in `Ref.ask` and in the scheduler. Whatever can
make such a verdict wrong (a revocation, a capability or a policy that changed) empties all cells, at once and from any thread.
"""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from threading import get_ident
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import trio

from retinue.actors.runtime import derivation
from retinue.actors.runtime.asks import ABANDONED, TakenSlot
from retinue.actors.runtime.cell import DEAD
from retinue.actors.runtime.current import current
from retinue.actors.runtime.handlers import ASYNC, DEF, GENERATOR, THREAD, HandlerInfo
from retinue.actors.runtime.stepping import call, not_awaited
from retinue.actors.runtime.tally import Tally
from retinue.capabilities.cases import NeedsConsent
from retinue.capabilities.consent import FAILED, SUCCEEDED, Approval
from retinue.mailbox.envelope import Postmark
from retinue.mailbox.messages import Message, message
from retinue.security.errors import Denied
from retinue.security.whole_texts import whole

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.kernel import Kernel
    from retinue.capabilities.gate import Admission, Gate
    from retinue.security.context import SecurityContext

__all__ = ["Door", "run_that_asks"]

_RECORDED = frozenset({"L2", "L3"})

MOST_VERDICTS = 512
"""Verdicts that are remembered beside those in the cells, for actors that work for several contexts or have several handlers by turns."""


@message(name="retinue/Stop@1")
class Stop(Message):
    """What the gate, its policies and the layers see where an actor stops another one: the operation `actor.stop` with this argument.

    Attributes:
        path: The path of the actor that is to stop.
    """

    path: str


class Door:
    """Admits messages to the cells of one kernel.

    Args:
        kernel: The system.
        gate: What decides.
        policies: Whether the gate asks policies, which then run as the turn that they decide about.
        registry: Whether a capability registry rates operations, so that any may come to be recorded one by one.

    Attributes:
        tally: What passed without a record of its own.
    """

    __slots__ = ("_gate", "_kernel", "_policies", "_recorded", "_registry", "_verdicts", "_waiting", "tally")

    def __init__(self, kernel: Kernel, gate: Gate, *, policies: bool, registry: bool) -> None:
        self._kernel = kernel
        self._gate = gate
        self._policies = policies
        self._registry = registry
        self._verdicts: dict[
            tuple[SecurityContext, HandlerInfo, SecurityContext], SecurityContext
        ] = {}  # context, handler, grant: effective
        self._waiting: dict[HandlerInfo, HandlerInfo] = {}  # handlers as they run where a person's consent is waited for first
        self._recorded: dict[Delivery, Admission] = {}  # turns in progress whose outcome is to be recorded
        self.tally = Tally(gate, audited=kernel.book.log is not None)
        gate.on_change = self.invalidate

    # -- asking the gate -----------------------------------------------------------------------------------------------------------------------------

    def admit(self, cell: Cell, delivery: Delivery) -> None:
        """Lets a message pass: its turn has the effective authority then, and the message that was looked at. Raises Denied or ApprovalRequired.

        Where a policy has to be waited for, only the authority is found; the handler's wrapper asks the gate (see `prepared`). Where all is decided but for a
        person's consent, the delivery gets such a wrapper for its handler, which goes on from there.
        """
        handler = delivery.handler
        context = delivery.context
        last = cell.gate_handler if cell.gate_context is context else None
        if last is not None and last.requires == handler.requires:  # another handler for the same operation: the count goes on
            key = (context, handler, cell.grant)
            security = self._verdicts.get(key)
            if security is not None and security is cell.gate_security:
                delivery.security = security
                cell.gate_handler = handler
                return
        self.forget(cell)
        if cell.context is None:
            cell.context = self._kernel.template.copy()
        if handler.requires is None and self._kernel.household.owns(cell):
            self._check_own(cell, context)
            delivery.security = context
            self._keep(cell, context, handler, context)
            return
        key = (context, handler, cell.grant)
        known = self._verdicts.get(key)
        if known is not None:
            delivery.security = known
            self._keep(cell, context, handler, known)
            if key not in self._verdicts:  # emptied in between, by another thread, which may have come by this cell before it was filled
                cell.gate_context = None
            return
        delivery.security = security = derivation.effective(context, cell.grant)
        if security.labels:
            self._kernel.labelled = True
        if handler.awaits:
            return
        gate = self._gate
        epoch = gate.epoch
        arguments, keywords = _asked(delivery)
        try:
            if self._policies or handler.approval is not False:  # code that is not the gate's runs: as the turn that it decides about
                admission: Admission = cell.context.run(call, delivery, gate.admit, arguments, keywords)
            else:
                admission = gate.admit(*arguments, **keywords)
        except NeedsConsent as needs:
            if delivery.postmark is None:
                delivery.postmark = Postmark()
            delivery.postmark.case = needs.case
            delivery.handler = self._that_waits(handler)
            return
        self._take(delivery, admission)
        if not admission.static:
            return
        if len(self._verdicts) >= MOST_VERDICTS:
            self._verdicts.clear()
        self._verdicts[key] = security
        self._keep(cell, context, handler, security)
        if handler.requires is not None:
            gate.allowed -= 1  # it is counted once more, with those that pass by the kept verdict
        if gate.epoch != epoch:  # another thread revoked something in between
            self._verdicts.pop(key, None)
            cell.gate_context = None

    async def admit_waiting(self, delivery: Delivery) -> None:
        """As `admit`, for a turn whose operation an asynchronous policy is asked about, or that goes on from a question for a person's consent. Runs in the turn,
        so whatever ends the turn ends the waiting.
        """
        wanted, run = partial(_is_wanted, delivery), partial(run_that_asks, delivery)
        case = delivery.postmark.case if delivery.postmark is not None else None
        if case is not None:
            assert delivery.postmark is not None
            delivery.postmark.case = None
            admission = await self._gate.settle(case, wanted=wanted, run=run)
        else:
            arguments, keywords = _asked(delivery)
            admission = await self._gate.admit_async(*arguments, **keywords, wanted=wanted, run=run)
        self._take(delivery, admission)

    def approval_of(self, turn: Delivery) -> Approval | None:
        """The consent that a turn in progress runs by. From any thread."""
        admission = self._recorded.get(turn)
        consent = admission.consent if admission is not None else None
        return Approval(consent.jti, consent.approver, consent.request_id) if consent is not None else None

    def _check_own(self, cell: Cell, context: SecurityContext) -> None:
        """A message to the household is the system's own, or is refused."""
        if context is not self._kernel.household.context:
            raise self._kernel.book.refused(  # on record, as all that the gate never hears of
                Denied(
                    f"{cell.path} is an actor of the system's own, which nobody else sends messages to. Use system.approvals.",
                    path=cell.path,
                    subject=context.subject,
                )
            )

    async def admit_stop(self, turn: Delivery, target: Cell) -> None:
        """Asks the gate whether an actor that is not the target's parent may stop it. Raises Denied, or ApprovalRequired without a request: no token goes with a
        stop.
        """
        admission = await self._gate.admit_async(
            turn.security,
            turn.cell.grant,
            "actor.stop",
            Stop(target.path),
            path=target.path,
            message_type=Stop,
            risk="L1",
        )
        if admission.record is None:
            self.tally.add(target, turn.security, "actor.stop")

    def _take(self, delivery: Delivery, admission: Admission) -> None:
        """From here on the message is the one that was looked at: the gate's own copy, or what a policy made of it."""
        if self._policies and admission.message is not delivery.message:
            if delivery.postmark is None:
                delivery.postmark = Postmark()
            delivery.postmark.original = delivery.message
        delivery.message = admission.message
        if admission.record is not None or admission.consent is not None:
            self._recorded[delivery] = admission
        elif not admission.static:
            self.tally.add(delivery.cell, delivery.security, delivery.handler.requires)

    # -- handlers that need more than a look at the kept verdict ---------------------------------------------------------------------------------------

    def prepared(self, handler: HandlerInfo) -> HandlerInfo:
        """The handler as it runs here: waiting for the gate first where an asynchronous policy is asked about its operation, in the turn and by a worker;
        telling its outcome where its admissions are recorded.
        """
        awaits = self._gate.awaits(handler.requires)
        records = handler.requires is not None and self._kernel.book.log is not None and (self._registry or handler.risk in _RECORDED)
        if not awaits and not records:
            return handler
        return self._wrapped(handler, handler.by_worker() if awaits else handler.copy(), awaits=awaits, records=records)

    def _that_waits(self, handler: HandlerInfo) -> HandlerInfo:
        """The handler as it runs where a person's consent is waited for first: by whoever has begun to run it, an asker in its own task too."""
        made = self._waiting.get(handler)
        if made is None:
            if len(self._waiting) >= MOST_VERDICTS:
                self._waiting.clear()
            made = self._waiting[handler] = self._wrapped(handler.origin, handler.copy(), awaits=True, records=True)
        return made

    def _wrapped(self, handler: HandlerInfo, made: HandlerInfo, *, awaits: bool, records: bool) -> HandlerInfo:
        made.awaits = awaits
        made.records = records
        if handler.kind == GENERATOR:
            made.function = self._stream(handler, awaits=awaits)
        elif handler.kind == ASYNC or (handler.kind == DEF and awaits):
            made.function = self._async(handler, awaits=awaits)
            made.kind = ASYNC
        elif handler.kind == DEF:
            made.function = self._plain(handler)
        else:
            assert handler.kind == THREAD  # outcomes.run_special does it, for the gate is not asked from an actor's own thread
        return made

    def _stream(self, handler: HandlerInfo, *, awaits: bool) -> Any:
        async def stream(actor: Any, _: Any) -> AsyncIterator[Any]:
            turn: Delivery = current()
            try:
                if awaits:
                    await self.admit_waiting(turn)
                async with aclosing(handler.function(actor, turn.message)) as items:
                    async for item in items:
                        yield item
            except BaseException as error:
                self.ended(turn, error)
                raise
            self.ended(turn, None)

        return stream

    def _async(self, handler: HandlerInfo, *, awaits: bool) -> Any:
        async def answer(actor: Any, message: Any) -> Any:
            turn: Delivery = current()
            try:
                if awaits:
                    await self.admit_waiting(turn)
                    message = turn.message
                value = handler.function(actor, message)
                if handler.kind == ASYNC:
                    value = await value
                if value.__class__ is CoroutineType:
                    raise not_awaited(turn, value)
            except BaseException as error:
                self.ended(turn, error)
                raise
            self.ended(turn, None)
            return value

        return answer

    def _plain(self, handler: HandlerInfo) -> Any:
        def answer(actor: Any, message: Any) -> Any:
            turn: Delivery = current()
            try:
                value = handler.function(actor, message)
                if value.__class__ is CoroutineType:
                    raise not_awaited(turn, value)
            except BaseException as error:
                self.ended(turn, error)
                raise
            self.ended(turn, None)
            return value

        return answer

    def ended(self, delivery: Delivery, error: BaseException | None) -> None:
        """The turn has ended: records how, where its admission was recorded."""
        admission = self._recorded.pop(delivery, None)
        if admission is None:
            return
        outcome = type(error).__qualname__ if error is not None else "handed over" if isinstance(delivery.slot, TakenSlot) else "answered"
        cell = delivery.cell
        self._gate.note_outcome(admission, delivery.security, delivery.handler.requires, cell.path, outcome, succeeded=error is None)
        desk = self._gate.desk
        if admission.consent is not None and desk is not None:
            self._kernel.household.note(desk.note_outcome, admission.consent, _told(error))

    # -- kept verdicts -----------------------------------------------------------------------------------------------------------------------------------

    def _keep(self, cell: Cell, context: SecurityContext, handler: HandlerInfo, security: SecurityContext) -> None:
        cell.gate_handler, cell.gate_security = handler, security
        cell.gate_context = context
        if handler.requires is not None:
            self.tally.keep(cell, security, handler.requires)

    def forget(self, cell: Cell) -> None:
        """Forgets the verdict of one cell, and counts what passed by it."""
        cell.gate_context = None
        self.tally.let_go(cell)

    def flush(self) -> None:
        """Writes down what has passed so far. Verdicts that nothing passed by since the last time are forgotten."""
        self._verdicts.clear()  # which would keep contexts alive that nobody uses any more
        for cell in self.tally.flush():
            self.forget(cell)

    def invalidate(self) -> None:
        """Forgets all verdicts; from any thread. The loop may be just about to keep one, hence once more in its own thread."""
        kernel = self._kernel
        self._verdicts.clear()
        for cell in kernel.cells():
            cell.gate_context = None  # this alone: the loop may have compared already, and be about to read the rest
        if get_ident() != kernel.thread:
            kernel.portal.post(self.invalidate)


def _asked(delivery: Delivery) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the gate is asked."""
    handler, cell, postmark = delivery.handler, delivery.cell, delivery.postmark
    return (delivery.security, cell.grant, handler.requires, delivery.message), {
        "path": cell if postmark is None or postmark.addressed is None else postmark.addressed,
        "message_type": handler.message,
        "risk": handler.risk,
        "approval": handler.approval,
        "approvals": postmark.approvals if postmark is not None else (),
        "four_eyes": handler.four_eyes,
        "definition": handler.definition,
        "counted": handler.counted,
    }


def run_that_asks(delivery: Delivery) -> str | None:
    """The id of the run for which an actor waits for this message's answer, where it says so (`_asks_for`): an agent's session, and who only hands on what one sends.

    None where no run can be set aside at this message and go on with it: its sender sends it once more, with the token.
    """
    asker = delivery.asker
    asks_for = getattr(asker.cell.actor, "_asks_for", None) if asker is not None else None
    run = asks_for(asker, delivery.cell.path) if asks_for is not None else None
    return None if run is None else whole(run)  # it begins with a session's name, and what a person decides is written down


def _is_wanted(delivery: Delivery) -> bool:
    """Whether anybody still wants the effect, and it can be had: asked right before an approval is spent, and right before the handler begins."""
    slot, cell = delivery.slot, delivery.cell
    if cell.state == DEAD or (slot is not None and slot.stage == ABANDONED and not slot.detached):
        return False
    extra = cell.extra
    return delivery.handler.kind != THREAD or (extra is not None and extra.host is not None and extra.host.free)


def _told(error: BaseException | None) -> str:
    """The outcome of an approved effect, as the desk keeps it. What was cut off had begun: what it did by then is nobody's to say."""
    if error is None:
        return SUCCEEDED
    return "cancelled" if isinstance(error, trio.Cancelled | GeneratorExit) else f"{FAILED}: {type(error).__qualname__}"
