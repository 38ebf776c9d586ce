"""`self.ctx.forward`: the reply slot of a request, or of a stream, goes on to whoever gets the message."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from retinue.actors.runtime.asking import prepare
from retinue.actors.runtime.asks import DONE, QUEUED, ROOM, AskSlot, TakenSlot
from retinue.actors.runtime.cycles import add_wait, check_forward, drop_wait, waits_for
from retinue.actors.runtime.depths import STEP_DEPTH, check_stack
from retinue.actors.runtime.due import deadline_of, handed_on
from retinue.actors.runtime.handlers import DEF
from retinue.actors.runtime.names import cell_of
from retinue.actors.runtime.ref import Ref
from retinue.mailbox.errors import Unhandled
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.current import Delivery
    from retinue.mailbox.messages import Message
    from retinue.security.context import SecurityContext

__all__ = ["forward"]


def forward(
    cell: Cell, turn: Delivery, find_slot: Callable[..., AskSlot], ref: Ref[Any], message: Message, context: SecurityContext | None
) -> None:
    """`ActorContext.forward`, for a turn of the cell. `find_slot` finds the slot of the turn's message, or says why there is none to give away."""
    kernel = cell.kernel
    check_stack(STEP_DEPTH)
    if turn.thread:
        raise DefinitionError("a blocking actor cannot forward; ask or tell the target")
    if isinstance(ref, Ref) and ref._cell.kernel is not kernel:
        raise DefinitionError(
            f"{ref!r} belongs to another system ({ref._cell.kernel.name!r}, and this is {kernel.name!r}): ask it and answer, or tell it"
        )
    target = cell_of(ref, kernel)
    if turn.postmark is not None and turn.postmark.span is not None:
        turn.postmark.span.step_aside()
    if not turn.asked:
        ref.tell(message, context=context, approvals=turn.postmark.approvals if turn.postmark is not None else ())
        return
    handler = turn.handler
    streams = handler is not None and handler.streams
    if handler is not None and streams and not handler.forwards:
        find_slot(turn)  # raises
    delivery = prepare(target, message, context, (), turn.timeout, asked=True, streamed=streams)
    if delivery.handler.streams is not streams:
        raise Unhandled(
            f"{ref.path} answers {type(message).__qualname__} by {'one value' if streams else 'a stream'}, and whoever sent {type(turn.message).__qualname__} "
            f"waits for {'a stream' if streams else 'one value'}: forward a message that is answered alike"
        )
    # The asker of one value waits for it; the reader of a stream may be busy elsewhere, and looks for rings when it reads on.
    asker = turn.asker
    if asker is not None and streams and not waits_for(asker, turn):
        asker = None
    if not isinstance(turn.slot, TakenSlot) and asker is not None:
        check_forward(turn, target, f"the forward of {type(message).__qualname__} to {ref.path}")
    slot = find_slot(turn, forward=True)
    if streams and slot.stage >= DONE:  # its reader has left
        turn.slot = TakenSlot(slot)
        return
    deadline_of(turn)  # it goes on, so it must be known
    delivery.source = turn.source
    assert turn.postmark is not None
    delivery.postmark = handed_on(delivery, turn.postmark)
    delivery.slot = slot
    kernel.sent += 1
    place = target.enqueue if kernel.faults is None else kernel.faults.intake(target)
    # A plain handler in its asker's own task ends at once, and the asker takes up what was handed on (see `relaying`): no worker is woken for it.
    looks = turn.depth > 0 and not kernel.lookers and bool(kernel.parked) and handler is not None and handler.kind == DEF
    kernel.lookers += looks
    try:
        receipt = place(delivery)
    except BaseException:  # the mailbox's key, say; nothing is taken until then
        kernel.sent -= 1
        raise
    finally:
        kernel.lookers -= looks
        if looks and kernel.ready and not kernel.lookers:
            kernel.missed = True
    kernel.event(target, "sent", type(message).__qualname__)
    turn.slot = TakenSlot(slot)
    if asker is not None:
        drop_wait(asker, turn)
        add_wait(asker, delivery)
    slot.disarm()
    slot.delivery = delivery
    slot.stage = QUEUED
    slot.arm()
    if kernel.faults is not None:
        kernel.faults.handed_over(delivery)
    if not receipt:
        if receipt.reason in ("mailbox_full", "dropped_newest"):
            slot.stage = ROOM
            delivery.cell.extras().waiters[delivery] = None
        else:
            kernel.record(receipt.reason, delivery)
            slot.fail(kernel.gone(delivery))
