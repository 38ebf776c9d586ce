"""Relays: a request that was handed on while its asker's own task handled it, to an actor that is idle, goes on in that task.

A front that forwards is idle again before the answer is there, and whom it forwards to has mostly nothing to do. Then the request is the last one in the ready queue and the
only one in its mailbox: its asker, who would now wait for a worker to take it up, takes it up himself. All that forwarding does stands (the slot, its deadline, the counts),
and the turn is settled as a worker settles it.
"""

from __future__ import annotations

import math
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import trio
from trio.lowlevel import current_task, enable_ki_protection

from retinue.actors.runtime import lifecycle, outcomes
from retinue.actors.runtime.asking import breathe_now_and_then, leave_scope, wait_for_answer
from retinue.actors.runtime.asks import QUEUED, AskSlot
from retinue.actors.runtime.asks import RUNNING as ASK_RUNNING
from retinue.actors.runtime.cell import READY, RUNNING
from retinue.actors.runtime.current import Delivery, Suspension
from retinue.actors.runtime.depths import STEP_DEPTH, check_stack
from retinue.actors.runtime.handlers import DEF
from retinue.actors.runtime.stepping import close_left_open, enclose, enter, enter_async, not_awaited, resume, run_context

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel

__all__ = ["relayed"]


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
    coroutine = trap = value = base = None
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
