"""Foresight: whoever tells gets no answer, so what is certain to be refused is refused at the border, before anything is sent.

A `tell` inside a system that the gate refuses becomes a dead letter. Nobody outside sees those; hence the gate is asked beforehand, for what can be known then:
it neither charges nor spends anything, and decides once more when the message is handled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from retinue.actors.runtime import derivation
from retinue.actors.runtime.asking import prepare
from retinue.actors.runtime.stepping import call
from retinue.capabilities.cases import Case
from retinue.capabilities.consent import MAX_APPROVALS
from retinue.capabilities.foreseeing import foresee, never_permitted
from retinue.mailbox.messages import Message, message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.handlers import HandlerInfo
    from retinue.actors.runtime.system import ActorSystem
    from retinue.capabilities.consent import Consent
    from retinue.gateway.guard import Caller

__all__ = ["Foresight"]

PATIENCE: Final = 10.0
"""Seconds that a person at a reviewer hook is waited for. After that the message is sent, and its request waits like any other."""


@message(name="retinue-gateway/Describe@1")
class Describe(Message):
    """What a record holds where somebody wants a message described that their token can never send.

    Attributes:
        message: The message's wire name.
        path: The actor.
    """

    message: str
    path: str


class Foresight:
    """Asks the gate of a system beforehand.

    Args:
        system: The system.
    """

    __slots__ = ("_kernel", "_system")

    def __init__(self, system: ActorSystem) -> None:
        self._system = system
        self._kernel = system._kernel

    async def of_tell(self, cell: Cell, message: Any, caller: Caller, approvals: Sequence[str]) -> Sequence[str]:
        """Refuses a message that is certain to be refused. Returns the approvals to send it with: those that came, and one that a reviewer has just given.

        Raises:
            Denied, ApprovalRequired: As the gate.
        """
        kernel = self._kernel
        delivery = prepare(cell, message, caller.context, approvals, None, asked=False)
        handler: HandlerInfo = delivery.handler
        delivery.security = derivation.effective(delivery.context, cell.grant)

        def run(function: Callable[[], bool]) -> bool:
            found: bool = kernel.template.copy().run(call, delivery, function, (), {})
            return found

        case = Case(
            delivery.security,
            cell.grant,
            handler.requires,
            delivery.message,
            cell,
            handler.message,
            handler.risk,
            handler.approval,
            approvals,
            handler.definition,
            four_eyes=handler.four_eyes,
            counted=handler.counted,
        )
        consent: Consent | None = None
        with trio.move_on_after(PATIENCE):
            consent = await foresee(kernel.gate, case, run)
        if consent is None or consent.request_id is None or len(approvals) >= MAX_APPROVALS:
            return approvals
        token = await self._system.approvals.token(consent.request_id)
        return approvals if token in approvals else (*approvals, token)

    def refuse_to_describe(self, cell: Cell, name: str, operation: str, caller: Caller, risk: str | None) -> None:
        """Refuses, on record, whoever may never send a message. Raises Denied."""
        described = Describe(name, cell.path)
        never_permitted(self._kernel.gate, Case(caller.context, None, operation, described, cell, name, risk, False))
