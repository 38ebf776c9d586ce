"""The ledger of budgets as an actor, for whoever cannot call it: blocking actors, other threads, other processes.

Inside the system's own thread the ledger is simply called: it never waits for anything. This actor is the same ledger behind a mailbox, so both see the same
accounts. It needs no permission: whoever asks can only spend, and settle, what the context of the message may spend.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, final

from retinue.actors.budgets.messages import Balances, Release, Reserve, Settle
from retinue.actors.runtime.actor import Actor, handler
from retinue.actors.runtime.ref import Ref
from retinue.capabilities.budgets import Balance, Ledger, Reservation
from retinue.security.accounts import NOTHING_SPENT, Amounts
from retinue.security.errors import AuthorityError, BudgetExceeded, ConstraintError
from retinue.security.limits import NEVER, check_count

__all__ = ["BudgetLedger", "Tab", "reserving"]

MAX_OPEN: Final = 65_536
"""Reservations that one actor keeps; those that have expired make room."""

MAX_KEY: Final = 255
"""Characters of a key."""


class BudgetLedger(Actor):
    """Reserves, settles and releases on the accounts of the context that each message is sent under.

    Args:
        ledger: The ledger. Default: the system's own, which the gate and `self.ctx.budget` use. (Two ledgers on the same accounts are exact in one thread only.)
    """

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = self.ctx.budget.ledger if ledger is None else ledger
        # By the oldest context of the lineage and the key: nobody settles what was reserved on behalf of somebody else.
        self._open: dict[tuple[str, str], Reservation] = {}

    @handler(raises=AuthorityError)
    def reserve(self, message: Reserve) -> None:
        """Reserve; see `Reserve`."""
        name = self._name(message.key)
        if name in self._open:
            raise ConstraintError("there is a reservation of this key already. Leave key= out: each Reserve then has one of its own.")
        self._make_room()
        deadline = min(self._ledger.now_ms() + check_count(message.seconds, "seconds") * 1_000, NEVER)
        self._open[name] = self._ledger.reserve(
            self.ctx.security.accounts,
            calls=message.calls,
            tokens=message.tokens,
            cost_micro_usd=message.cost_micro_usd,
            deadline_ms=deadline,
        )

    @handler(raises=AuthorityError)
    def settle(self, message: Settle) -> Amounts:
        """Settle; see `Settle`."""
        name = self._name(message.key)
        reservation = self._open.get(name)
        if reservation is None:
            raise ConstraintError("there is no reservation of this key: it was settled or released before, or made under another context.")
        overrun = self._ledger.settle(reservation, calls=message.calls, tokens=message.tokens, cost_micro_usd=message.cost_micro_usd)
        del self._open[name]
        return overrun

    @handler(raises=AuthorityError)
    def release(self, message: Release) -> bool:
        """Release; see `Release`."""
        reservation = self._open.pop(self._name(message.key), None)
        if reservation is None:
            return False
        self._ledger.release(reservation)
        return True

    @handler(raises=AuthorityError)
    def balances(self, _message: Balances) -> tuple[Balance, ...]:
        """How the accounts stand; see `Balances`."""
        return tuple(self._ledger.balance(account) for account in self.ctx.security.accounts)

    def _name(self, key: str) -> tuple[str, str]:
        if type(key) is not str or not 1 <= len(key) <= MAX_KEY:
            raise ConstraintError(f"the key of a reservation is a str of 1 to {MAX_KEY} characters.")
        return self.ctx.security.lineage[0], key

    def _make_room(self) -> None:
        if len(self._open) >= MAX_OPEN:
            self._ledger.sweep()
            self._open = {name: reservation for name, reservation in self._open.items() if reservation.state == "open"}
            if len(self._open) >= MAX_OPEN:
                raise BudgetExceeded(
                    f"{MAX_OPEN} reservations are open, and no other is taken until one is settled, is released or expires. Settle what is done.",
                    resource="calls",
                )


@final
class Tab:
    """What is used of a reservation; see `reserving`."""

    __slots__ = ("_used",)

    def __init__(self) -> None:
        self._used: Amounts | None = None

    def use(self, *, calls: int = 0, tokens: int = 0, cost_micro_usd: int = 0) -> None:
        """Add to what was used.

        Raises:
            ConstraintError: An amount is no `int` of 0 to 2**63 - 1.
        """
        used = NOTHING_SPENT if self._used is None else self._used
        self._used = Amounts(
            used.calls + check_count(calls, "calls"),
            used.tokens + check_count(tokens, "tokens"),
            used.cost_micro_usd + check_count(cost_micro_usd, "cost_micro_usd"),
        )

    @property
    def used(self) -> Amounts | None:
        """What was said to be used; None while nothing was said."""
        return self._used


@asynccontextmanager
async def reserving(
    ledger: Ref[BudgetLedger], *, calls: int = 0, tokens: int = 0, cost_micro_usd: int = 0, seconds: int = 600
) -> AsyncIterator[Tab]:
    """Reserves for the length of a block, and settles at its end, however it ends.

        async with reserving(ledger, tokens=4_000) as tab:
            reply = await model.ask(request)
            tab.use(tokens=reply.tokens)

    Where the block says nothing of what it used, the whole reservation counts as spent: nobody knows better. A block that is cancelled while it still waits for
    the reservation gives back what it may have got.

    Args:
        ledger: The actor.
        calls, tokens, cost_micro_usd, seconds: As for `Reserve`.

    Raises:
        BudgetExceeded, Expired, ConstraintError: As `Ledger.reserve`; the block is not entered.
    """
    request = Reserve(calls, tokens, cost_micro_usd, seconds)
    # Telling never waits, so it is done whatever was cancelled, and it comes after the Reserve in any case.
    try:
        await ledger.ask(request)
    except BaseException:
        ledger.tell(Release(request.key))
        raise
    tab = Tab()
    try:
        yield tab
    finally:
        used = Amounts(calls, tokens, cost_micro_usd) if tab.used is None else tab.used
        ledger.tell(Settle(request.key, used.calls, used.tokens, used.cost_micro_usd))
