"""Lending: an elastic pool that has an idle worker and nothing waiting lends him to its asker, who runs the handler in his own task, as `Ref.ask` does with an actor
that is idle. So asking such a pool one thing at a time costs hardly more than asking an actor, and no pass of the scheduler.

What is lent is out of the pool's hands until the handler has ended, however it ends: `Cell.settle` gives the worker back, who looks for mail then.
"""

from __future__ import annotations

from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from trio.lowlevel import checkpoint, enable_ki_protection

from retinue.actors.runtime.asking import finish_inline, inline_failed, wait_for_answer
from retinue.actors.runtime.cell import IDLE, RUNNING
from retinue.actors.runtime.current import Delivery
from retinue.actors.runtime.cycles import add_wait, drop_wait
from retinue.actors.runtime.derivation import answered
from retinue.actors.runtime.elastic import Elastic
from retinue.actors.runtime.handlers import DEF
from retinue.actors.runtime.stepping import enter, enter_async, not_awaited, run_context
from retinue.mailbox.envelope import Postmark

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.handlers import HandlerInfo
    from retinue.actors.runtime.pulling import Puller
    from retinue.security.context import SecurityContext

__all__ = ["ask_lent", "lent"]

_new = Delivery.__new__


def lent(front: Cell, handler: HandlerInfo) -> Puller | None:
    """A worker for the asker's own use, who is his until the message is settled; None where it has to go by the mailbox."""
    if not isinstance(front, Elastic) or front.has_mail or front.closed or handler.awaits or not handler.origin.inline:
        return None
    if not front.kernel.inline_async or (front.extra is not None and front.extra.waiters):
        return None
    idle = front.idle
    while idle:
        worker, _ = idle.popitem()  # the last to have been busy: what he needs is warm
        if worker.state == IDLE:
            return worker  # type: ignore[return-value]  # workers of such a pool are pullers
    return None


@enable_ki_protection
async def ask_lent(
    front: Cell,
    worker: Puller,
    handler: HandlerInfo,
    message: Any,
    sending: SecurityContext,
    asker: Delivery | None,
    timeout: float | None,
) -> Any:
    """Runs the handler of a lent worker in the asker's task: what `Ref.ask` spells out for an actor, with the pool as the address."""
    kernel = front.kernel
    delivery = _new(Delivery)
    delivery.message = message
    delivery.context = sending
    delivery.cell, delivery.handler = worker, handler
    delivery.source = asker
    delivery.timeout = timeout
    delivery.slot = delivery.waits = delivery.suspension = delivery.received = None
    postmark = delivery.postmark = Postmark()
    postmark.addressed = front
    postmark.attempts = 1
    delivery.depth = 1 if asker is None else asker.depth + 1
    worker.state, worker.turn = RUNNING, delivery
    kernel.running = worker
    kernel.asks = asks = kernel.asks + 1
    began = 0.0 if asks & 63 else perf_counter()
    value = coroutine = trap = base = None
    try:
        if sending is worker.gate_context and handler is worker.gate_handler:
            delivery.security = worker.gate_security
        else:
            kernel.door.admit(worker, delivery)
            handler, message = delivery.handler, delivery.message
        if handler.kind == DEF:
            value = worker.context.run(enter, delivery, handler.function, worker.actor, message)
        else:
            if asker is not None:
                add_wait(asker, delivery)
            base = run_context.task._cancel_status
            try:
                coroutine, trap = worker.context.run(enter_async, delivery, handler.function, worker.actor, message)
            except StopIteration as stop:
                value = stop.value
            if asker is not None and coroutine is None:
                drop_wait(asker, delivery)
        if value.__class__ is CoroutineType:
            raise not_awaited(delivery, value)
    except BaseException as error:
        kernel.unsettled = (delivery, error, kernel.unsettled)
        kernel.missed = True
        return await inline_failed(delivery, error)
    if coroutine is not None:
        return await finish_inline(delivery, coroutine, trap, base)
    worker.handled += 1
    front.give_back(worker)  # type: ignore[attr-defined]  # it is an elastic pool's (`lent`)
    if delivery.security is not sending and kernel.labelled:
        answered(delivery)
    if delivery.slot is not None:
        return await wait_for_answer(delivery, delivery.slot.real)
    delivery.message = delivery.source = None
    if not asks & 63:
        worker.worked += 64 * (perf_counter() - began)
        await kernel.breathe(checkpoint)
    return value
