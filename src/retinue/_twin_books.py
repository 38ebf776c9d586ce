"""The audit and the budgets of a system, for the blocking twin."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from retinue.actors.runtime.spending import Budget
from retinue.actors.runtime.spending import SystemBudgets as CoreBudgets

if TYPE_CHECKING:
    from retinue._twin import Twin
    from retinue.capabilities.budgets import Balance, Reservation
    from retinue.security.accounts import Amounts
    from retinue.security.audit import AuditEntry, AuditHead, AuditStatistics
    from retinue.security.audit_chain import Kind
    from retinue.security.context import SecurityContext

__all__ = ["SystemAudit", "SystemBudgets"]


class SystemAudit:
    """What the gate and the authority of a system decided; `retinue.ActorSystem.audit` describes it. It can be read after the system's end, too."""

    def __init__(self, twin: Twin, call: Callable[[str, Callable[[], Any]], Any]) -> None:
        self._core = twin.core.audit
        self._call = call

    def entries(
        self, *, kind: Kind | None = None, operation: str | None = None, allowed: bool | None = None, limit: int | None = None
    ) -> tuple[AuditEntry, ...]:
        """The latest records, oldest first. Arguments and errors as for the core's."""
        read = partial(self._core._entries, kind=kind, operation=operation, allowed=allowed, limit=limit)
        found: tuple[AuditEntry, ...] = self._call("audit.entries", read)
        return found

    def head(self) -> AuditHead | None:
        """The number and MAC of the last record; None where nothing is recorded."""
        found: AuditHead | None = self._call("audit.head", self._core._head)
        return found

    def verify(self) -> int:
        """Checks the chain of all records and returns how many it holds. Raises AuditBroken."""
        return self._core._book.verify()

    def statistics(self) -> AuditStatistics | None:
        """The log's counts; None where nothing is recorded."""
        found: AuditStatistics | None = self._call("audit.statistics", self._core._statistics)
        return found


class SystemBudgets:
    """What the contexts of a system may spend, and have spent; `retinue.ActorSystem.budgets` describes it. Nothing here blocks."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin
        self._core = CoreBudgets(twin.kernel, outside=True)

    def of(self, context: SecurityContext | None = None) -> Budget:
        """The budget of a context; None: the root's."""
        self._twin.check_place("system.budgets", "use self.ctx.budget")
        return self._core.of(context)

    def reserve(self, context: SecurityContext | None = None, *, calls: int = 0, tokens: int = 0, cost_micro_usd: int = 0) -> Reservation:
        """As `Budget.reserve`, for a context."""
        return self.of(context).reserve(calls=calls, tokens=tokens, cost_micro_usd=cost_micro_usd)

    def settle(
        self, reservation: Reservation, *, calls: int | None = None, tokens: int | None = None, cost_micro_usd: int | None = None
    ) -> Amounts:
        """As `Budget.settle`."""
        return self.of().settle(reservation, calls=calls, tokens=tokens, cost_micro_usd=cost_micro_usd)

    def release(self, reservation: Reservation) -> None:
        """As `Budget.release`."""
        self.of().release(reservation)

    def balance(self, context: SecurityContext | None = None) -> tuple[Balance, ...]:
        """As `Budget.balance`, for a context."""
        return self.of(context).balance()
