"""Budgets as actors and the system's holder see them: `self.ctx.budget` and `system.budgets`. The ledger behind both is the gate's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retinue.actors.runtime import derivation
from retinue.actors.runtime.current import current
from retinue.capabilities.budgets import Balance, Ledger, Reservation
from retinue.security.errors import BudgetExceeded, Denied
from retinue.security.explaining import of_context

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel
    from retinue.security.accounts import Amounts
    from retinue.security.context import SecurityContext

__all__ = ["Budget", "SystemBudgets"]


class Budget:
    """What one authority may spend: `self.ctx.budget` is that of the current message. Reserve the worst case, do the work, settle with what it took.

    Nothing here waits, and all of it may be called in a blocking actor's thread too. What nothing limits can be reserved without end.
    """

    __slots__ = ("_kernel", "_security")

    def __init__(self, kernel: Kernel, security: SecurityContext) -> None:
        self._kernel = kernel
        self._security = security

    @property
    def ledger(self) -> Ledger:
        """The system's ledger."""
        return self._kernel.gate.ledger

    def reserve(self, *, calls: int = 0, tokens: int = 0, cost_micro_usd: int = 0) -> Reservation:
        """Reserves on every account that the authority is charged to, all or nothing. It expires with the authority.

        Args:
            calls: Calls of operations. (The gate charges one for each message that it admits.)
            tokens: Tokens of language models.
            cost_micro_usd: Millionths of a US dollar.

        Raises:
            BudgetExceeded: An account has not enough left; nothing was reserved.
            Revoked, Expired: The authority has ended.
            AuditUnavailable: It is refused, and the record of that could not be written.
            ConstraintError: An amount is no `int` of 0 to 2**63 - 1.
        """
        security = self._security
        try:
            self._kernel.authority.check(security)
            try:
                return self.ledger.reserve(
                    security.accounts, calls=calls, tokens=tokens, cost_micro_usd=cost_micro_usd, deadline_ms=security.limits.deadline_ms
                )
            except BudgetExceeded as error:
                raise of_context(error, security) from None
            except Denied as error:
                error.subject = security.subject  # a ledger knows accounts alone
                raise
        except Denied as error:
            refusal = self._kernel.book.refused(error)
            if refusal is error:
                raise
        raise refusal

    def settle(
        self, reservation: Reservation, *, calls: int | None = None, tokens: int | None = None, cost_micro_usd: int | None = None
    ) -> Amounts:
        """Replaces a reservation by what was really spent. Returns what was used beyond a cap: nothing, unless more was used than was reserved.

        An amount that is left out is what was reserved of it.

        Raises:
            ConstraintError: An amount is no `int` of 0 to 2**63 - 1, or the reservation was settled or released before.
        """
        return self.ledger.settle(reservation, calls=calls, tokens=tokens, cost_micro_usd=cost_micro_usd)

    def release(self, reservation: Reservation) -> None:
        """Gives a reservation back: nothing was spent. Raises ConstraintError where it was settled or released before."""
        self.ledger.release(reservation)

    def balance(self) -> tuple[Balance, ...]:
        """How the accounts stand that the authority is charged to; empty where nothing limits it."""
        return tuple(self.ledger.balance(account) for account in self._security.accounts)


class SystemBudgets:
    """What the contexts of a system may spend, and have spent: `system.budgets`. Nothing here waits."""

    __slots__ = ("_kernel", "_outside")

    def __init__(self, kernel: Kernel, *, outside: bool = False) -> None:
        self._kernel = kernel
        self._outside = outside

    def of(self, context: SecurityContext | None = None) -> Budget:
        """The budget of a context; None: the one in force, which is the root's for the system's holder.

        Raises:
            Denied: Called in a handler, for a context that does not descend from the current one.
        """
        derive = derivation.from_outside if self._outside else derivation.sending
        return Budget(self._kernel, derive(self._kernel, current(), context, None))

    async def reserve(
        self, context: SecurityContext | None = None, *, calls: int = 0, tokens: int = 0, cost_micro_usd: int = 0
    ) -> Reservation:
        """As `Budget.reserve`, for a context."""
        return self.of(context).reserve(calls=calls, tokens=tokens, cost_micro_usd=cost_micro_usd)

    async def settle(
        self, reservation: Reservation, *, calls: int | None = None, tokens: int | None = None, cost_micro_usd: int | None = None
    ) -> Amounts:
        """As `Budget.settle`."""
        return self._kernel.gate.ledger.settle(reservation, calls=calls, tokens=tokens, cost_micro_usd=cost_micro_usd)

    async def release(self, reservation: Reservation) -> None:
        """As `Budget.release`."""
        self._kernel.gate.ledger.release(reservation)

    async def balance(self, context: SecurityContext | None = None) -> tuple[Balance, ...]:
        """As `Budget.balance`, for a context."""
        return self.of(context).balance()
