"""What it takes to publish and to subscribe where a topic names an operation for it: the gate is asked, as for a message, and the audit has it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from retinue.actors.runtime import derivation
from retinue.capabilities.cases import NeedsConsent
from retinue.mailbox.messages import Message, message
from retinue.security.errors import AuditUnavailable, AuthorityError, Denied

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.kernel import Kernel
    from retinue.security.context import SecurityContext

_log = logging.getLogger("retinue.runtime")

__all__ = ["Subscribe", "admit", "admit_async", "has_ended"]


@message(name="retinue/Subscribe@1")
class Subscribe(Message):
    """What the gate, its policies and the layers see where somebody subscribes to a topic, or registers for a service.

    Attributes:
        topic: The name of the topic, or of the service.
    """

    topic: str


def admit(kernel: Kernel, security: SecurityContext, cell: Cell, operation: str, subject: Message, path: str) -> Any:
    """Asks the gate at once, for what cannot wait. Returns the message that was looked at.

    Args:
        kernel: The system.
        security: Whose authority it is done under.
        cell: The actor that does it, or the guardian for the system's holder.
        operation: What must be permitted.
        subject: The message whose fields are the operation's arguments.
        path: What it is done to, for texts and records.

    Raises:
        Denied: It is refused, or a policy or a person would have to be waited for.
    """
    if kernel.gate.awaits(operation):
        raise kernel.book.refused(_cannot_wait(security, operation, path, "a policy that may take its time"))
    security = derivation.effective(security, cell.grant)
    try:
        admission = kernel.gate.admit(security, cell.grant, operation, subject, path=path, message_type=type(subject), risk="L1")
    except NeedsConsent:
        raise kernel.book.refused(_cannot_wait(security, operation, path, "a person's consent")) from None
    return _counted(kernel, admission, security, cell, operation)


async def admit_async(kernel: Kernel, security: SecurityContext, cell: Cell, operation: str, subject: Message, path: str) -> Any:
    """As `admit`, waiting for policies. Raises ApprovalRequired, without a request, where a person would have to consent: no token goes with it."""
    security = derivation.effective(security, cell.grant)
    admission = await kernel.gate.admit_async(security, cell.grant, operation, subject, path=path, message_type=type(subject), risk="L1")
    return _counted(kernel, admission, security, cell, operation)


def _counted(kernel: Kernel, admission: Any, security: SecurityContext, cell: Cell, operation: str) -> Any:
    if admission.record is None:
        kernel.door.tally.add(cell, security, operation)
    return admission.message


def _cannot_wait(security: SecurityContext, operation: str, path: str, what: str) -> Denied:
    return Denied(
        f"{operation!r} for {path} is decided by {what}, and this call cannot wait. Publish with `await …publish_and_report(…)`, or let an operation be "
        "required that is decided at once",
        operation=operation,
        path=path,
        subject=security.subject,
        reason="policy",
    )


def has_ended(kernel: Kernel, security: SecurityContext, cell: Cell) -> bool:
    """Whether the authority that something goes on under has ended. If so, a refusal is on record: once, for what goes on ends with it.

    Never raises: whoever publishes, registers or ends can do nothing about it. What cannot be recorded or told has ended, too.
    """
    try:
        derivation.check_alive(kernel, security, cell)
    except AuthorityError as error:
        try:
            recorded = kernel.book.refused(error) if isinstance(error, Denied) else error
        except AuditUnavailable as unavailable:
            recorded = unavailable
        if isinstance(recorded, AuditUnavailable):
            _log.error("%s: the authority that it had subscribed under has ended, and that could not be recorded: %s", cell.path, recorded)
        return True
    return False
