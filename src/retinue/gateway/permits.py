"""Permits: the gate is asked before the gateway itself does something, as it is before an actor's handler runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retinue.mailbox.messages import Message, message, message_info
from retinue.security.decisions import DENY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retinue.actors.runtime.kernel import Kernel
    from retinue.gateway.guard import Caller
    from retinue.security.limits import Risk

__all__ = ["INSPECT", "PATH", "Inspect", "Permits"]

PATH = "/system/gateway"
"""What policies and records call the gateway."""

INSPECT = "system.inspect"
"""The operation of looking into the system."""


@message(name="retinue-gateway/Inspect@1")
class Inspect(Message):
    """What the gate sees where somebody wants to look into the system: the operation `system.inspect`."""


class Permits:
    """Asks the gate of a system.

    Args:
        kernel: The system.
    """

    __slots__ = ("_kernel",)

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def ask(self, caller: Caller, operation: str, asked: Message, *, risk: Risk) -> None:
        """Returns where the caller's context permits the operation with the message's fields as its arguments.

        Raises:
            Denied: It does not; the refusal is on record.
            ApprovalRequired: A person would have to consent, which nobody can for what the gateway does itself.
        """
        kernel = self._kernel
        await kernel.gate.admit_async(caller.context, kernel.root, operation, asked, path=PATH, message_type=type(asked), risk=risk)

    def layers_permit(self, caller: Caller, operation: str, asked: Message) -> bool:
        """Whether the layers of the caller's context do not refuse that. A look alone: nothing is recorded, and no policy asked."""
        return self.layers_permit_call(caller, operation, {name: getattr(asked, name) for name in message_info(type(asked)).field_types})

    def layers_permit_call(self, caller: Caller, operation: str, arguments: Mapping[str, object]) -> bool:
        """The same for a call with these arguments."""
        return caller.context.permissions.decision(operation).evaluate(arguments, self._kernel.authority.sources) is not DENY
