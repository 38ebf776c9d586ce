"""Asking beside the hot path of `Ref.ask`: preparing an envelope with every check, waiting for answers and for room, and what comes after a handler that ran in its
asker's task failed or suspended.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import trio
from trio.lowlevel import checkpoint, current_task, enable_ki_protection

from retinue.actors.runtime import lifecycle, outcomes
from retinue.actors.runtime.asks import DONE, ROOM, AskSlot, RoomSlot, TakenSlot
from retinue.actors.runtime.carrying import CarriedApprovals, carried
from retinue.actors.runtime.coercing import addressed
from retinue.actors.runtime.current import Delivery, Suspension, current, make_delivery
from retinue.actors.runtime.cycles import add_wait, check_cycle, check_restarting, drop_wait
from retinue.actors.runtime.depths import STEP_DEPTH, check_stack
from retinue.actors.runtime.derivation import answered, sending
from retinue.actors.runtime.due import deadline_of
from retinue.actors.runtime.errors import AskCycle
from retinue.actors.runtime.receipts import ACCEPTED, Receipt
from retinue.actors.runtime.stepping import close_left_open, enclose, not_awaited, resume
from retinue.actors.runtime.tracing import hinted, sent_in
from retinue.capabilities.consent import MAX_APPROVALS
from retinue.capabilities.places import shorten
from retinue.mailbox.envelope import Postmark
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.carrying import Approvals
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.kernel import Kernel
    from retinue.security.context import SecurityContext

__all__ = [
    "breathe_now_and_then",
    "check_timeout",
    "finish_inline",
    "inline_failed",
    "leave_scope",
    "note_received",
    "post_and_wait",
    "prepare",
    "time_left",
    "tokens_of",
    "wait_for_answer",
    "wait_for_room",
]

_NO_SCOPE: Any = None

RECEIVED = 256
"""Errors that a turn remembers to have received as answers; the oldest are forgotten first."""


def check_timeout(timeout: object) -> float:
    """A time-out in seconds, 0 or more (`math.inf`: none), else a DefinitionError."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise DefinitionError(f"timeout={timeout!r}: give seconds, 0 or more, or math.inf for no limit")
    try:
        seconds = float(timeout)
    except OverflowError:  # an int that not even a text may be able to show
        raise DefinitionError("timeout= is an int of too many digits: give seconds, 0 or more, or math.inf for no limit") from None
    if not seconds >= 0:  # NaN is not
        raise DefinitionError(f"timeout={timeout!r}: give seconds, 0 or more, or math.inf for no limit")
    return seconds


def tokens_of(approvals: object) -> tuple[str, ...]:
    """Approval tokens as they are sent: at most 16 texts, else a DefinitionError. Whether they are good for anything is the desk's to say."""
    if isinstance(approvals, CarriedApprovals):
        return carried(approvals, MAX_APPROVALS)
    tokens = tuple(approvals) if isinstance(approvals, Sequence) and not isinstance(approvals, str | bytes) else None
    if tokens is None or not all(isinstance(token, str) for token in tokens):
        raise DefinitionError(
            "approvals= takes a list of the tokens that system.approvals.approve(…) gave, approvals=[token], and each is a str; in a handler also "
            "self.ctx.approvals, those that came with its message"
        )
    if len(tokens) > MAX_APPROVALS:
        raise DefinitionError(
            f"approvals= has {len(tokens)} tokens, and at most {MAX_APPROVALS} go with a message: give those that it needs"
        )
    return tokens


def prepare(
    cell: Cell,
    message: Any,
    context: SecurityContext | None,
    approvals: Approvals,
    timeout: float | None,
    *,
    asked: bool,
    streamed: bool = False,
) -> Delivery:
    """A delivery for the slower paths, after every check that can be made at the send site. Raises what is wrong with the call; nothing was sent then.

    `streamed` says whether a stream is wanted; a handler of the other kind is found all the same, where there is no better one.
    """
    kernel = cell.kernel
    turn: Any = current()
    hints = None if kernel.tracer is None else hinted.get()
    if hints is not None:
        hinted.set(None)  # first: they are of this message, and of no later one, should this one not be sent
    handler, message = addressed(cell, message, streamed=streamed)
    security = sending(kernel, turn, context, cell)
    in_turn = turn.__class__ is Delivery and turn.cell.kernel is kernel
    delivery = make_delivery(cell, handler, message, security, turn.cell if in_turn else None, turn if in_turn and asked else None, timeout)
    if kernel.tracer is not None or (in_turn and turn.postmark is not None):
        trace = sent_in(kernel, turn if in_turn else None)
        if trace is not None:
            delivery.postmark = Postmark((), trace)
        if hints is not None:
            delivery.postmark = delivery.postmark or Postmark()
            delivery.postmark.hints = hints
    if approvals:
        delivery.postmark = delivery.postmark or Postmark()
        delivery.postmark.approvals = tokens_of(approvals)
    if kernel.loopback is not None and not kernel.household.owns(cell):
        delivery.message = kernel.loopback.message(message)
    return delivery


async def post_and_wait(cell: Cell, kernel: Kernel, delivery: Delivery, slot: AskSlot) -> Any:
    """Enqueues a request (or waits for room) and suspends until it is answered."""
    asker = delivery.asker
    check_stack(STEP_DEPTH)
    label = type(delivery.message).__qualname__
    if asker is not None:
        check_cycle(asker, cell, current_task(), f"the ask of {cell.path} for {label}")
        check_restarting(asker.cell, cell, delivery.message)
    receipt = kernel.take_in(cell, delivery)
    if receipt is not ACCEPTED:
        if receipt.reason not in ("mailbox_full", "dropped_newest"):
            slot.stage = DONE
            kernel.record(receipt.reason, delivery)
            raise kernel.gone(delivery)
        slot.stage = ROOM
        delivery.cell.extras().waiters[delivery] = None  # a pool may have handed it to a worker
    slot.arm()
    if asker is not None and delivery.cell is not cell:  # a pool has chosen whose answer it will be
        try:
            check_cycle(asker, delivery.cell, current_task(), f"the ask of {cell.path} for {label}")
        except AskCycle as ring:
            slot.turn_away(ring)
    return await wait_for_answer(delivery, slot)


async def wait_for_answer(delivery: Delivery, slot: AskSlot) -> Any:
    """Suspends until the answer is there; an asking turn is noted as waiting meanwhile."""
    if slot.kernel.missed:
        slot.kernel.catch_up()
    asker = delivery.asker
    if asker is None:
        return await slot.wait()
    add_wait(asker, slot.delivery)
    try:
        return await slot.wait()
    except BaseException as error:
        note_received(asker, error)
        raise
    finally:
        drop_wait(asker, slot.delivery)
        drop_wait(asker, delivery)


async def wait_for_room(delivery: Delivery, limit: float) -> Receipt:
    """Suspends a sender until its message was let in, for at most `limit` seconds."""
    cell = delivery.cell
    turn: Any = current()
    in_turn = turn.__class__ is Delivery
    if in_turn:
        try:
            check_cycle(turn, cell, current_task(), f"the send of {type(delivery.message).__qualname__} to the full mailbox of {cell.path}")
            check_restarting(turn.cell, cell, delivery.message)
        except BaseException:
            cell.kernel.sent -= 1  # what raises at the send site was never sent
            raise
    slot = RoomSlot(cell.kernel, delivery, turn if in_turn else None)
    cell.extras().waiters[delivery] = slot
    if in_turn:
        delivery.suspension = Suspension(current_task(), _NO_SCOPE)
        add_wait(turn, delivery)
    return await slot.wait(limit)


def time_left(turn: Any) -> float:
    """Seconds that are left of the deadline of the request that the turn works on."""
    if turn.__class__ is not Delivery or not turn.asked:
        return math.inf
    return max(0.0, deadline_of(turn) - trio.current_time())


def note_received(turn: Delivery, error: BaseException) -> None:
    """Remembers that the turn got this error as an answer: letting it through is no failure of the turn's actor."""
    received = turn.received
    if received is None:
        received = turn.received = deque(maxlen=RECEIVED)  # bounded: a resident loop may receive errors for ever
    received.append(error)


async def breathe_now_and_then(kernel: Kernel) -> None:
    """One time in 64 lets trio look at timers, sockets and cancellations, if it could not for 1 ms."""
    kernel.breaths += 1
    if not kernel.breaths & 63:
        await kernel.breathe(checkpoint)


async def inline_failed(delivery: Delivery, error: BaseException) -> Any:
    """A handler that ran in its asker's task raised; settles it and raises what the asker gets.

    A handler that had deferred its answer and given it before it raised has answered: then that is what the asker gets. Where the stack is too full for this, the
    asker gets a RecursionError, and a worker settles it (`outcomes.settle_late`).
    """
    cell = delivery.cell
    asker = delivery.asker
    kernel = cell.kernel
    if kernel.unsettled is None or kernel.unsettled[0] is not delivery:
        kernel.unsettled = (delivery, error, kernel.unsettled)
        kernel.missed = True
    check_stack(STEP_DEPTH)  # else a worker does it
    kernel.unsettled = kernel.unsettled[2]
    kernel.missed = bool(kernel.unsettled or (kernel.ready and not kernel.lookers))
    answered = _answered(delivery)
    answer = outcomes.conclude_error(kernel, cell, delivery, error)
    cell.settle()
    if kernel.missed:
        kernel.catch_up()
    if asker is not None:
        drop_wait(asker, delivery)
    if answered is not None:
        return await wait_for_answer(delivery, answered)
    if asker is not None:
        note_received(asker, answer)
    if not kernel.asks & 63:
        await kernel.breathe(checkpoint)
    shorten(answer)
    try:
        raise answer
    finally:
        del answer, error


def _answered(delivery: Delivery) -> AskSlot | None:
    """The slot that the handler took away, where it has been answered already."""
    slot = delivery.slot
    if slot.__class__ is TakenSlot and slot.real is not None and slot.real.stage == DONE:
        real: AskSlot = slot.real
        return real
    return None


@enable_ki_protection
async def finish_inline(delivery: Delivery, coroutine: Any, trap: Any, base: Any) -> Any:
    """A handler that runs in its asker's task has suspended: it gets a cancel scope of its own, and goes on here."""
    cell = delivery.cell
    kernel = cell.kernel
    began = perf_counter()
    try:
        check_stack(STEP_DEPTH)
    except RecursionError as full:
        coroutine.close()
        return await inline_failed(delivery, full)
    scope = trio.CancelScope()
    try:
        enclose(scope, base)
    except RuntimeError as misnested:  # it left a scope of its asker
        coroutine.close()
        return await inline_failed(delivery, misnested)
    suspension = delivery.suspension = Suspension(current_task(), scope)
    if cell.closed:
        lifecycle.hurry_suspended(cell)
    timer = None
    deadline = deadline_of(delivery)
    if deadline != math.inf:

        def expire() -> None:
            suspension.expired = True
            scope.cancel()

        timer = kernel.deadlines.add(deadline, expire)
    kernel.inline_suspended += 1
    value: Any = None
    error: BaseException | None = None
    try:
        value = await resume(cell.context.run, coroutine, trap, kernel, delivery)
        if value.__class__ is CoroutineType:
            raise not_awaited(delivery, value)
    except BaseException as raised:
        error = raised
    if close_left_open(scope) and error is None:
        error = outcomes.scope_left_open(delivery)
    left = leave_scope(scope, error)
    kernel.inline_suspended -= 1
    if timer is not None:
        kernel.deadlines.cancel(timer)
    cell.worked += perf_counter() - began
    try:
        if suspension.interrupt is not None:
            if error is None:
                cell.handled += 1
            else:
                outcomes.conclude_error(kernel, cell, delivery, left or error)
            cell.settle()
            raise suspension.interrupt
        if left is not None and outcomes.without_cancelled(left) is None and trio.current_effective_deadline() == -math.inf:
            # The asker itself is being cancelled, and the handler with it: no failure, and trio's Cancelled goes its way.
            outcomes.conclude_error(kernel, cell, delivery, left)
            cell.settle()
            raise left
        if error is not None:
            return await inline_failed(delivery, left or error)
        if delivery.expired and _answered(delivery) is None:
            late = outcomes.late_value(delivery, value)
            cell.settle()
            if delivery.asker is not None:
                note_received(delivery.asker, late)
            raise late
    finally:
        if delivery.asker is not None:
            drop_wait(delivery.asker, delivery)
        kernel.notice_quiet()
        del error, left
    cell.handled += 1
    cell.settle()
    if kernel.labelled:
        answered(delivery)
    if delivery.slot is not None:
        return await wait_for_answer(delivery, delivery.slot.real)
    delivery.message = delivery.source = None
    return value


def leave_scope(scope: trio.CancelScope, error: BaseException | None) -> BaseException | None:
    """Leaves the handler's scope; returns what is left of the error once the scope has taken out its own cancellation."""
    if error is None:
        scope.__exit__(None, None, None)
        return None
    try:
        return None if scope.__exit__(type(error), error, error.__traceback__) else error
    except BaseException as changed:
        return changed
