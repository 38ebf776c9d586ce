"""Budgets as actors and the system's holder see them: `self.ctx.budget` and `system.budgets`. The ledger behind both is the gate's."""

from __future__ import annotations

import contextlib
from threading import get_ident
from typing import TYPE_CHECKING, NoReturn, TypeVar

import trio

from retinue.actors.runtime import derivation
from retinue.actors.runtime.current import current
from retinue.capabilities.budgets import Balance, Ledger, Reservation
from retinue.security.accounts import Amounts
from retinue.security.errors import BudgetExceeded, Denied
from retinue.security.explaining import of_context
from retinue.security.limits import check_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from retinue.actors.runtime.kernel import Kernel
    from retinue.security.context import SecurityContext

__all__ = ["Budget", "SystemBudgets"]

T = TypeVar("T")


def _always(amounts: Amounts) -> Callable[[Amounts, Amounts], Amounts]:
    return lambda _left, _free: amounts


class Budget:
    """What one authority may spend: `self.ctx.budget` is that of the current message. Reserve the worst case, do the work, settle with what it took.

    Nothing here waits but `lease`, and all the rest may be called in a blocking actor's thread too. What nothing limits can be reserved without end.
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
        return self._on_record(
            lambda: self.ledger.reserve(
                security.accounts, calls=calls, tokens=tokens, cost_micro_usd=cost_micro_usd, deadline_ms=security.limits.deadline_ms
            )
        )

    async def lease(
        self,
        want: Callable[[Amounts, Amounts], Amounts] | None = None,
        *,
        calls: int = 0,
        tokens: int = 0,
        cost_micro_usd: int = 0,
    ) -> Reservation:
        """Reserves for something short that is certain to end by itself, such as one exchange with a model; waits where only such leases of others are in the way.

        It waits as long as the current message has; what it waits for holds nothing and waits for nothing. Not from a blocking actor's thread.

        Args:
            want: For deployments, in the place of amounts: how much is wanted, of what there would be without the leases of others, and what there is: plain
                arithmetic on `Amounts` (2**63 - 1 where nothing limits a resource). What is more than there is, is waited for.
            calls, tokens, cost_micro_usd: As for `reserve`.

        Raises:
            BudgetExceeded: That would not be left either; nothing was reserved.
            Revoked, Expired, AuditUnavailable, ConstraintError: As `reserve`.
        """
        if want is None:
            amounts = Amounts(check_count(calls, "calls"), check_count(tokens, "tokens"), check_count(cost_micro_usd, "cost_micro_usd"))
            want = _always(amounts)
        event = trio.Event()
        wake = _waker(event)
        security = self._security
        found = self._on_record(lambda: self.ledger.lease(security.accounts, want, deadline_ms=security.limits.deadline_ms, wake=wake))
        if isinstance(found, Reservation):
            return found
        try:
            await event.wait()
        except BaseException:
            self.ledger.withdraw(found)
            raise
        error, made = found.error, found.reservation
        if error is not None:
            self._on_record(lambda: _raise(error))
        assert made is not None
        try:
            self._kernel.authority.check(security)
        except Denied as denied:  # revoked while it waited
            self.ledger.release(made)
            raise self._kernel.book.refused(denied) from None
        return made

    def refuse(self, error: BudgetExceeded) -> NoReturn:
        """Refuses what is to be done under this authority, on record: raises `error`, or the `AuditUnavailable` that it becomes where it cannot be recorded."""
        self._on_record(lambda: _raise(error))
        raise AssertionError("a refusal is raised")

    def _on_record(self, step: Callable[[], T]) -> T:
        """One step of the ledger, whose refusal says who and where, and is recorded before it is answered."""
        security = self._security
        try:
            self._kernel.authority.check(security)
            try:
                return step()
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


def _raise(error: Exception) -> NoReturn:
    raise error


def _waker(event: trio.Event) -> Callable[[], None]:
    """What sets an event, from any thread."""
    thread, token = get_ident(), trio.lowlevel.current_trio_token()

    def wake() -> None:
        if get_ident() == thread:
            event.set()
        else:
            with contextlib.suppress(trio.RunFinishedError):  # then nobody waits any more
                token.run_sync_soon(event.set)

    return wake


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
