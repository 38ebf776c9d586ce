"""The door: the runtime's side of the gate. It asks the gate for each message before its handler runs, and remembers what need not be asked again.

The gate (`retinue.capabilities.gate`) decides; here stands what the runtime makes of its answers. A verdict that needed nothing but the authority and the
operation is kept in the cell: the next message under the same context for the same handler costs two comparisons, in `Ref.ask` and in the scheduler. Whatever can
make such a verdict wrong (a revocation, a capability or a policy that changed) empties all cells, at once and from any thread.
"""

from __future__ import annotations

from contextlib import aclosing
from threading import get_ident
from typing import TYPE_CHECKING, Any

from retinue.actors.runtime import derivation
from retinue.actors.runtime.current import current
from retinue.actors.runtime.handlers import ASYNC, DEF, GENERATOR, HandlerInfo
from retinue.actors.runtime.stepping import call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.kernel import Kernel
    from retinue.capabilities.gate import Admission, Gate

__all__ = ["Door"]


class Door:
    """Admits messages to the cells of one kernel.

    Args:
        kernel: The system.
        gate: What decides.
        policies: Whether the gate asks policies, which then run as the turn that they decide about.
    """

    __slots__ = ("_gate", "_kernel", "_policies")

    def __init__(self, kernel: Kernel, gate: Gate, *, policies: bool) -> None:
        self._kernel = kernel
        self._gate = gate
        self._policies = policies
        gate.on_change = self.invalidate

    def admit(self, cell: Cell, delivery: Delivery) -> None:
        """Lets a message pass: its turn has the effective authority then, and the message that was looked at. Raises Denied or ApprovalRequired.

        Where a policy has to be waited for, only the authority is found; the handler's wrapper asks the gate (see `behind_policies`).
        """
        handler = delivery.handler
        context = delivery.context
        delivery.security = security = derivation.effective(context, cell.grant)
        cell.gate_context = None
        if cell.context is None:
            cell.context = self._kernel.template.copy()
        if handler.awaits:
            return
        gate = self._gate
        epoch = gate.epoch
        admission: Admission
        postmark = delivery.postmark
        arguments = (security, cell.grant, handler.requires, delivery.message)
        keywords: dict[str, Any] = {
            "path": cell.path,
            "message_type": handler.message,
            "risk": handler.risk,
            "approval": handler.approval,
            "approvals": postmark.approvals if postmark is not None else (),
        }
        if self._policies:
            admission = cell.context.run(call, delivery, gate.admit, arguments, keywords)
        else:
            admission = gate.admit(*arguments, **keywords)
        self._take(delivery, admission)
        if admission.static:
            cell.gate_handler, cell.gate_security = handler, security
            cell.gate_context = context
            if gate.epoch != epoch:  # another thread revoked something in between; it may have emptied this cell before it was filled
                cell.gate_context = None

    async def admit_waiting(self, delivery: Delivery) -> None:
        """As `admit`, for a turn whose operation an asynchronous policy is asked about. Runs in the turn, so whatever ends the turn ends the waiting."""
        handler, cell, postmark = delivery.handler, delivery.cell, delivery.postmark
        admission = await self._gate.admit_async(
            delivery.security,
            cell.grant,
            handler.requires,
            delivery.message,
            path=cell.path,
            message_type=handler.message,
            risk=handler.risk,
            approval=handler.approval,
            approvals=postmark.approvals if postmark is not None else (),
        )
        self._take(delivery, admission)

    def _take(self, delivery: Delivery, admission: Admission) -> None:
        """From here on the message is the one that was looked at: the gate's own copy, or what a policy made of it."""
        delivery.message = admission.message

    def behind_policies(self, handler: HandlerInfo) -> HandlerInfo:
        """The handler as it runs here: where an asynchronous policy is asked about its operation, it waits for the gate first, in the turn and by a worker."""
        if not self._gate.awaits(handler.requires):
            return handler
        made = handler.by_worker()
        made.awaits = True
        function = handler.function
        if handler.kind == GENERATOR:

            async def stream(actor: Any, _: Any) -> AsyncIterator[Any]:
                turn: Delivery = current()
                await self.admit_waiting(turn)
                async with aclosing(function(actor, turn.message)) as items:
                    async for item in items:
                        yield item

            made.function = stream
        elif handler.kind in (DEF, ASYNC):

            async def answer(actor: Any, _: Any) -> Any:
                turn: Delivery = current()
                await self.admit_waiting(turn)
                value = function(actor, turn.message)
                return await value if handler.kind == ASYNC else value

            made.function = answer
            made.kind = ASYNC
        return made  # one that runs in a thread of its own waits before the thread gets it: see outcomes.run_special

    def invalidate(self) -> None:
        """Forgets all verdicts; from any thread. The loop may be just about to keep one, hence once more in its own thread."""
        kernel = self._kernel
        for cell in kernel.cells():
            cell.gate_context = None  # this alone: the loop may have compared already, and be about to read the rest
        if get_ident() != kernel.thread:
            kernel.portal.post(self.invalidate)
