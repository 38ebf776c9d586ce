"""What an actor sees of its system: `self.ctx.system`."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any, NoReturn

from retinue.actors.runtime.current import Delivery, Roots, current
from retinue.actors.runtime.statistics import SystemStatistics, statistics_of
from retinue.security.errors import Denied

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.ref import Ref
    from retinue.security.context import SecurityContext

__all__ = ["SystemView", "may_address", "may_send_to"]


class SystemView:
    """The system's name, its counts, and look-ups. Nothing here can mint, approve, spawn or stop."""

    __slots__ = ("_kernel",)

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @property
    def name(self) -> str:
        """The system's name."""
        return self._kernel.name

    @property
    def authority(self) -> NoReturn:
        """Always refused: an actor mints nothing. It narrows what it has, `self.ctx.security.narrow(…)`.

        Raises:
            Denied: Always, with what to do.
        """
        raise Denied(
            "an actor cannot mint, revoke or seal: the system's authority is its holder's alone. Fix: narrow the context of the message, "
            "self.ctx.security.narrow(…), or have the system's holder mint one and send it."
        )

    @property
    def approvals(self) -> NoReturn:
        """Always refused: an approval never comes from an agent. It lets `ApprovalRequired` through, to whoever asked.

        Raises:
            Denied: Always, with what to do.
        """
        raise Denied(
            "an actor cannot approve: a person decides, with the system's approvals, which are its holder's alone. Fix: let ApprovalRequired through to "
            "whoever asked, who sends the message again with the token."
        )

    def statistics(self) -> SystemStatistics:
        """The system's counts at this moment."""
        kernel = self._kernel
        return statistics_of(kernel) if get_ident() == kernel.thread else kernel.portal.call(statistics_of, kernel)

    def find(self, name: str) -> Ref[Any] | None:
        """The living actor with that path or registered name (a virtual actor: also one without an instance), or None; only what the current message's authority may address.

        That is an actor with a handler that is open to all or whose operation the effective context permits, the actor itself, and its children.
        """
        ref = self._kernel.names.address(name)
        turn = current()
        if ref is None or turn.__class__ is not Delivery or turn.cell.kernel is not self._kernel:
            return ref if turn.__class__ is Roots else None
        return ref if may_address(turn.security, turn.cell, ref._cell) else None


def may_address(security: SecurityContext, cell: Cell, target: Cell) -> bool:
    """Whether the actor `cell` may know of the target, under this authority: it is itself or its child, or has a handler that it may send to."""
    return target is cell or target.parent is cell or may_send_to(security, target)


def may_send_to(security: SecurityContext, target: Cell) -> bool:
    """Whether the target has a handler that whoever acts under this authority may send to."""
    return any(_may_send(security, handler.requires) for handler in target.handlers.values())


def _may_send(security: SecurityContext, operation: str | None) -> bool:
    return operation is None or security.permissions.may_permit(operation) is True
