"""Relays: a request that was handed on while its asker's own task handled it, to an actor that is idle, goes on in that task.

A front that forwards is idle again before the answer is there, and whom it forwards to has mostly nothing to do. Then the request is the last one in the ready queue and the
only one in its mailbox: its asker, who would now wait for a worker to take it up, takes it up himself. All that forwarding does stands (the slot, its deadline, the counts),
and the turn is settled as a worker settles it.

Where all is as usual the front does the forwarding in one step (`hand_over`), whose slot has a deadline only when somebody waits: as with `Ref.ask`, what never suspends never
reads the clock.
"""

from __future__ import annotations

import math
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import trio
from trio.lowlevel import checkpoint, current_task, enable_ki_protection

from retinue.actors.runtime import lifecycle, outcomes
from retinue.actors.runtime.asking import breathe_now_and_then, leave_scope, wait_for_answer
from retinue.actors.runtime.asks import DONE, QUEUED, UNARMED, AskSlot, TakenSlot
from retinue.actors.runtime.asks import RUNNING as ASK_RUNNING
from retinue.actors.runtime.cell import IDLE, READY, RUNNING
from retinue.actors.runtime.current import Delivery, Suspension, make_delivery
from retinue.actors.runtime.cycles import add_wait, drop_wait
from retinue.actors.runtime.depths import STEP_DEPTH, check_stack
from retinue.actors.runtime.due import timeout_of
from retinue.actors.runtime.handlers import DEF
from retinue.actors.runtime.stepping import close_left_open, enclose, enter, enter_async, not_awaited, resume, run_context

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.kernel import Kernel

__all__ = ["hand_over", "relayed"]


def hand_over(turn: Delivery, target: Cell, message: Any) -> bool:
    """Hands the request of a turn over to an idle actor, for the turn's asker to take up as soon as its handler has ended; False where that has to be done step by step.

    The caller has seen to it that the turn is in force, in its own thread.
    """
    kernel = target.kernel
    handler = target.handlers.get(message.__class__)
    if (
        handler is None
        or handler.streams
        or turn.slot is not None
        or turn.postmark is not None
        or not turn.depth
        or turn.handler.kind != DEF
    ):
        return False
    if target.state != IDLE or target.closed or target.queue is not None or target.extra is not None or target.relays:
        return False
    if not kernel.plain or kernel.lookers or not kernel.parked or kernel.faults is not None or turn.cell.kernel is not kernel:
        return False
    check_stack(STEP_DEPTH)  # for this, and for `relayed`, which runs nearer to the stack's bottom
    source = turn.source
    handed = make_delivery(target, handler, message, turn.security, None, source, timeout_of(turn))
    slot = handed.slot = AskSlot(kernel, handed)
    slot.timer = UNARMED
    turn.slot = TakenSlot(slot)
    kernel.sent += 1
    target.head = handed
    target.state = READY
    target.ready_at = perf_counter()
    kernel.ready.append(target)
    kernel.missed = True  # no worker was woken: should the asker not come to it, whoever comes next does that
    if source is not None:
        drop_wait(source, turn)
        add_wait(source, handed)
    return True


@enable_ki_protection
async def relayed(delivery: Delivery, slot: AskSlot) -> Any:
    """The answer to a request whose slot its handler gave away; that handler ran in this task, and has ended."""
    handed = slot.delivery
    if not _is_next(delivery.cell.kernel, handed, slot):
        return await wait_for_answer(delivery, slot)
    cell = handed.cell
    kernel = cell.kernel
    kernel.ready.pop()
    if kernel.missed:
        kernel.missed = kernel.unsettled is not None
        if kernel.ready:
            kernel.catch_up()
    cell.head = None
    cell.state, cell.turn = RUNNING, handed
    slot.stage = ASK_RUNNING
    handed.depth = delivery.depth
    kernel.running = cell
    began = perf_counter()
    handler = handed.handler
    coroutine: Any = None
    trap = value = base = None
    error: BaseException | None = None
    left: BaseException | None = None
    try:
        if handed.context is cell.gate_context and handler is cell.gate_handler:
            handed.security = cell.gate_security
        else:
            kernel.door.admit(cell, handed)
            handler = handed.handler
        if handler.kind == DEF:
            value = cell.context.run(enter, handed, handler.function, cell.actor, handed.message)
        else:
            base = run_context.task._cancel_status
            try:
                coroutine, trap = cell.context.run(enter_async, handed, handler.function, cell.actor, handed.message)
            except StopIteration as stop:
                value = stop.value
    except BaseException as raised:
        error = left = raised
    if coroutine is not None:
        value, error, left = await _go_on(kernel, handed, coroutine, trap, base)
    if error is None and value.__class__ is CoroutineType:
        error = left = not_awaited(handed, value)
    cell.worked += perf_counter() - began
    if error is None and coroutine is None and handed.slot is slot and slot.stage == ASK_RUNNING and kernel.plain and not kernel.labelled:
        # It has not suspended, and nobody else had a chance to look: what `outcomes.conclude` would do.
        if slot.timer is not UNARMED:
            slot.disarm()
        slot.stage = DONE
        cell.handled += 1
        asker = delivery.asker
        if asker is not None:
            drop_wait(asker, handed)
        handed.message = handed.source = None
        cell.settle()
        if kernel.quiet_waiters:
            kernel.notice_quiet()
        kernel.breaths = breaths = kernel.breaths + 1
        if not breaths & 63:
            await kernel.breathe(checkpoint)
        return value
    try:
        if error is None:
            outcomes.conclude(kernel, cell, handed, value)
        else:
            outcomes.conclude_error(kernel, cell, handed, left or error)
        cell.settle()
        kernel.notice_quiet()
        if handed.suspension is not None and handed.suspension.interrupt is not None:
            raise handed.suspension.interrupt
        if left is not None and outcomes.without_cancelled(left) is None and trio.current_effective_deadline() == -math.inf:
            raise left  # the asker itself is being cancelled, and the handler with it: trio's Cancelled goes its way
        await breathe_now_and_then(kernel)
        return await (relayed if slot.stage == QUEUED else wait_for_answer)(delivery, slot)  # it may have been handed on once more
    finally:
        del error, left


def _is_next(kernel: Kernel, handed: Delivery, slot: AskSlot) -> bool:
    """Whether this task may take the request up itself: nobody else has begun, nothing comes before it, and there is room on the stack."""
    cell, ready = handed.cell, kernel.ready
    if slot.stage != QUEUED or not kernel.plain or not ready or ready[-1] is not cell or cell.state != READY or cell.head is not handed:
        return False
    if cell.box or cell.queue is not None or cell.control is not None or cell.extra is not None or cell.actor is None or cell.closed:
        return False
    if kernel.faults is not None or not handed.handler.inline:
        return False
    if slot.timer is UNARMED:  # `hand_over` has seen to it that there is room
        return True
    try:
        check_stack(STEP_DEPTH)
    except RecursionError:
        return False
    return True


async def _go_on(
    kernel: Kernel, handed: Delivery, coroutine: Any, trap: Any, base: Any
) -> tuple[Any, BaseException | None, BaseException | None]:
    """The handler has suspended: it gets a cancel scope of its own, and goes on in this task. Its deadline is the slot's.

    Returns its value, the error that it raised, and what is left of that once the scope has taken out its own cancellation.
    """
    cell = handed.cell
    scope = trio.CancelScope()
    try:
        enclose(scope, base)
    except RuntimeError as misnested:  # it left a scope of its asker
        coroutine.close()
        return None, misnested, misnested
    handed.suspension = Suspension(current_task(), scope)
    if cell.closed:
        lifecycle.hurry_suspended(cell)
    if handed.slot is not None and handed.slot.timer is UNARMED:
        handed.slot.arm()
    kernel.inline_suspended += 1
    value: Any = None
    error: BaseException | None = None
    try:
        value = await resume(cell.context.run, coroutine, trap, kernel, handed)
    except BaseException as raised:
        error = raised
    if close_left_open(scope) and error is None:
        error = outcomes.scope_left_open(handed)
    kernel.inline_suspended -= 1
    try:
        return value, error, leave_scope(scope, error)
    finally:
        del error
