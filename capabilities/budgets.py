"""The ledger of budgets: what was spent and what is reserved, exact over a tree of accounts.

Reserve the worst case, do the work, settle with what it took. A reservation is made on the accounts and on all above them at once, or on none: so siblings
cannot jointly exceed what their parent had, however their steps interleave, and an account that is reached on two ways is charged once. At any time and for
every account, reserved + spent ≤ cap.

A *lease* is a reservation of something short, such as one exchange with a model, that is certain to end by itself. What only leases of others stand in the way of can
wait for them, in order (`Ledger.lease`); what was spent, or is reserved otherwise, is not waited for.

Money is in millionths of a US dollar, and everything is a whole number: nothing is rounded, and nothing is "about enough".
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple, NoReturn, ParamSpec, TypeVar, final

import attrs

from retinue.security.accounts import NOTHING_SPENT, Account, Amounts, all_accounts
from retinue.security.clock import Clock
from retinue.security.errors import BudgetExceeded, ConstraintError, Expired
from retinue.security.limits import NEVER, UNLIMITED, check_count

__all__ = ["MOST_WAITING", "Balance", "Ledger", "Queued", "Reservation"]

P = ParamSpec("P")
T = TypeVar("T")

_RESOURCES: Final = (("calls", "calls"), ("tokens", "tokens"), ("cost", "cost_micro_usd"))
MOST_WAITING: Final = 65_536
"""Leases that are waited for at once in one ledger; who comes then is refused."""

_UNITS: Final = {"calls": "calls", "tokens": "tokens", "cost": "millionths of a US dollar"}


@final
@attrs.frozen
class Balance:
    """An account at one moment.

    Attributes:
        account: The account's id.
        caps: The most that may ever be spent on it itself; 2**63 - 1 where a resource is not limited.
        spent: What was spent on it.
        reserved: What is reserved on it.
        remaining: What can still be reserved, the accounts above it considered; 2**63 - 1 where no account on the way limits a resource.
        deadline_ms: When it expires, in milliseconds since 1970; 2**63 - 1: never.
    """

    account: str
    caps: Amounts
    spent: Amounts
    reserved: Amounts
    remaining: Amounts
    deadline_ms: int = attrs.field(repr=lambda value: "never" if value == NEVER else repr(value))


@final
class Reservation:
    """Something reserved, to be settled or released once. Made by `Ledger.reserve`; compared by identity.

    Attributes:
        amounts: What was reserved.
        deadline_ms: When it expires, in milliseconds since 1970: from then on the whole of it counts as spent, until it is settled after all.
        state: "open", "expired", "settled" or "released".
    """

    __slots__ = ("_accounts", "_leased", "_ledger", "amounts", "deadline_ms", "state")

    def __init__(self, ledger: Ledger, accounts: tuple[Account, ...], amounts: Amounts, deadline_ms: int, *, leased: bool = False) -> None:
        self._ledger = ledger
        self._accounts = accounts
        self._leased = leased
        self.amounts: Final = amounts
        self.deadline_ms: Final = deadline_ms
        self.state: Literal["open", "expired", "settled", "released"] = "open"

    def __repr__(self) -> str:
        return f"<Reservation of {_shown(self.amounts)}: {self.state}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Reservation is neither copied nor pickled: a copy could be settled a second time.")


@final
class Queued:
    """A lease that waits for those of others. Made by `Ledger.lease`; compared by identity.

    Attributes:
        reservation: The lease, once it is there.
        error: Why there will be none, once that is known: `BudgetExceeded` or `Expired`.
    """

    __slots__ = ("_accounts", "_behind", "_deadline_ms", "_want", "error", "reservation", "wake")

    def __init__(
        self,
        accounts: tuple[Account, ...],
        want: Callable[[Amounts, Amounts], Amounts],
        deadline_ms: int,
        wake: Callable[[], object],
        behind: Account,
    ) -> None:
        self._accounts = accounts
        self._want = want
        self._deadline_ms = deadline_ms
        self._behind = behind  # the account on which others are in the way
        self.wake: Final = wake
        self.reservation: Reservation | None = None
        self.error: BudgetExceeded | Expired | None = None


class _InTheWay(NamedTuple):
    """Where others are in a lease's way, and of what they have too much."""

    account: Account
    resource: str


@final
class Ledger:
    """Adds and subtracts, and nobody else does. Each call is one step; safe to use from any thread.

    Args:
        now_ms: The clock, in milliseconds since 1970; give the authority's. Default: a clock of its own that never goes back.

    Attributes:
        now_ms: The clock.
    """

    __slots__ = ("_ended", "_expiring", "_leased", "_lock", "_numbers", "_served", "_stepping", "_waiting", "now_ms")

    def __init__(self, now_ms: Callable[[], int] | None = None) -> None:
        self.now_ms: Final = Clock().now_ms if now_ms is None else now_ms
        # Re-entrant only so that a step within a step can be refused: a collection may run anybody's finaliser, and that may settle something.
        self._lock = threading.RLock()
        self._stepping = False
        self._expiring: list[tuple[int, int, Reservation]] = []
        self._ended = 0  # how many of those were settled or released, and need not be waited for
        self._numbers = itertools.count()
        self._leased: dict[Account, Amounts] = {}  # what of `reserved` is leased
        self._waiting: dict[Queued, None] = {}  # in order
        self._served: list[Queued] = []  # by the step in progress; to be woken after it

    def reserve(
        self, accounts: Iterable[Account], *, calls: int = 0, tokens: int = 0, cost_micro_usd: int = 0, deadline_ms: int = NEVER
    ) -> Reservation:
        """Reserve on the accounts and all above them, each once; on all of them or on none.

        Args:
            accounts: Those of a context: `context.accounts`. None at all: nothing is limited.
            calls: Gated calls.
            tokens: Tokens of language models.
            cost_micro_usd: Millionths of a US dollar.
            deadline_ms: When the reservation expires, where that is sooner than every account.

        Raises:
            BudgetExceeded: An account has not enough left; nothing was reserved.
            Expired: An account has expired, or the deadline has passed; nothing was reserved.
            ConstraintError: An amount is no `int` of 0 to 2**63 - 1, or something given is no account.
        """
        amounts = _checked_amounts(calls, tokens, cost_micro_usd)
        union = _checked_accounts(accounts)
        deadline = min([check_count(deadline_ms, "deadline_ms"), *[account.deadline_ms for account in union]])
        return self._step(self._reserve, union, amounts, deadline)

    def lease(
        self,
        accounts: Iterable[Account],
        want: Callable[[Amounts, Amounts], Amounts],
        *,
        deadline_ms: int = NEVER,
        wake: Callable[[], object] = lambda: None,
    ) -> Reservation | Queued:
        """Reserve for something short that is certain to end; wait where only such leases of others are in the way. To be settled or released as any reservation.

        Who waits holds nothing, and who holds a lease does not wait: so nobody waits for ever. First come, first served: who comes later does not overtake one who
        waits for the same account.

        Args:
            accounts: Those of a context: `context.accounts`.
            want: How much is to be reserved, of what there would be without the leases of others, and what there is (2**63 - 1 where nothing limits a resource):
                what is more than there is, is waited for. Plain arithmetic: it is called in the middle of a step, and again whenever the lease may be had.
            deadline_ms: When the lease expires, where that is sooner than every account.
            wake: Called once, from any thread and outside of any step, when one that had to wait has its `reservation` or its `error`.

        Returns:
            The reservation; or, where it has to wait, what becomes of it. Who does not want it any longer must call `withdraw`.

        Raises:
            BudgetExceeded: An account would not have enough left without the leases of others either, or too many wait; nothing was reserved.
            Expired, ConstraintError: As `reserve`.
        """
        union = _checked_accounts(accounts)
        deadline = min([check_count(deadline_ms, "deadline_ms"), *[account.deadline_ms for account in union]])
        return self._step(self._lease, union, want, deadline, wake)

    def withdraw(self, queued: Queued) -> None:
        """Give up waiting. A lease that has come meanwhile is released, unless it was ended already."""
        self._step(self._withdraw, queued)

    def settle(
        self, reservation: Reservation, *, calls: int | None = None, tokens: int | None = None, cost_micro_usd: int | None = None
    ) -> Amounts:
        """Replace a reservation by what was really spent. One that has expired can still be settled, and then no longer counts as spent whole.

        Args:
            reservation: What `reserve` gave.
            calls, tokens, cost_micro_usd: What was spent. One that is left out is what was reserved of it: nobody said that it took less.

        Returns:
            What was used beyond a cap, which no account could take: nothing, unless more was used than was reserved. The accounts concerned are then used
            up exactly.

        Raises:
            ConstraintError: An amount is no `int` of 0 to 2**63 - 1; the reservation is none of this ledger's, or was settled or released before.
        """
        reserved = self._own(reservation).amounts
        actual = _checked_amounts(
            reserved.calls if calls is None else calls,
            reserved.tokens if tokens is None else tokens,
            reserved.cost_micro_usd if cost_micro_usd is None else cost_micro_usd,
        )
        return self._step(self._end, reservation, actual, "settled")

    def release(self, reservation: Reservation) -> None:
        """Give a reservation back: nothing was spent.

        Raises:
            ConstraintError: It is none of this ledger's, or was settled or released before.
        """
        self._step(self._end, self._own(reservation), NOTHING_SPENT, "released")

    def charge(self, accounts: Iterable[Account], *, calls: int = 0, tokens: int = 0, cost_micro_usd: int = 0) -> None:
        """Spend at once: reserve and settle in one step.

        Raises:
            BudgetExceeded, Expired, ConstraintError: As `reserve`; nothing was spent.
        """
        amounts = _checked_amounts(calls, tokens, cost_micro_usd)
        union = _checked_accounts(accounts)
        self._step(self._charge, union, amounts)

    def balance(self, account: Account) -> Balance:
        """How an account stands.

        Raises:
            ConstraintError: It is no account.
        """
        return self._step(self._balance, account, _checked_accounts((account,)))

    def sweep(self) -> None:
        """Count as spent what has expired unsettled. Every other call does so too, where anything can expire."""
        self._step(self._sweep)

    def _own(self, reservation: object) -> Reservation:
        if type(reservation) is not Reservation or reservation._ledger is not self:
            raise ConstraintError("this is no reservation of this ledger. Settle what reserve() gave, with the ledger that gave it.")
        return reservation

    def _step(self, function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        """One step, which no other thread and no finaliser comes between."""
        served: list[Queued] | None = None
        try:
            with self._lock:
                if self._stepping:
                    raise ConstraintError(
                        "the ledger is in the middle of a step, and a finaliser (`__del__`) wants another. Settle where the work ends, not there."
                    )
                try:
                    self._stepping = True
                    return function(*arguments, **keywords)
                finally:
                    self._stepping = False
                    if self._served:
                        served, self._served = self._served, []
        finally:
            if served is not None:
                for one in served:
                    one.wake()

    # -- inside the lock -------------------------------------------------------------------------------------------------------------------------------

    def _reserve(self, union: tuple[Account, ...], amounts: Amounts, deadline: int) -> Reservation:
        if (deadline != NEVER or self._expiring) and deadline <= self._sweep():
            raise Expired("the budget has expired, and nothing was reserved. Ask whoever gave it for another context.")
        _check_fits(union, amounts)
        return self._made(union, amounts, deadline)

    def _made(self, union: tuple[Account, ...], amounts: Amounts, deadline: int, *, leased: bool = False) -> Reservation:
        for account in union:
            account.reserved = _plus(account.reserved, amounts)
        made = Reservation(self, union, amounts, deadline, leased=leased)
        if deadline != NEVER:
            heapq.heappush(self._expiring, (deadline, next(self._numbers), made))
        return made

    def _lease(
        self, union: tuple[Account, ...], want: Callable[[Amounts, Amounts], Amounts], deadline: int, wake: Callable[[], object]
    ) -> Reservation | Queued:
        found = self._find_lease(union, want, deadline, self._waiting)
        if isinstance(found, Reservation):
            return found
        if len(self._waiting) >= MOST_WAITING:
            raise BudgetExceeded(
                f"{MOST_WAITING} others wait for what is reserved, and nothing was reserved. Ask again later.",
                resource=found.resource,
                account=found.account.id,
            )
        queued = Queued(union, want, deadline, wake, found.account)
        self._waiting[queued] = None
        return queued

    def _find_lease(
        self, union: tuple[Account, ...], want: Callable[[Amounts, Amounts], Amounts], deadline: int, before: Iterable[Queued]
    ) -> Reservation | _InTheWay:
        """The lease, or the account on which others are in its way, and what of it. Raises where it cannot be had."""
        if (deadline != NEVER or self._expiring) and deadline <= self._sweep():
            raise Expired("the budget has expired, and nothing was reserved. Ask whoever gave it for another context.")
        leased = self._leased
        frees = [_left(account) for account in union]
        lefts = [_with_leased(account, left, leased.get(account)) for account, left in zip(union, frees, strict=True)] if leased else frees
        wanted = want(_smallest(lefts), _smallest(frees))
        amounts = _checked_amounts(wanted.calls, wanted.tokens, wanted.cost_micro_usd)
        for account, left in zip(union, lefts, strict=True):
            _check_left(account, amounts, left)
        for account, free in zip(union, frees, strict=True):
            if not _is_within(amounts, free):
                return _InTheWay(account, _first_of(amounts, free))
        for other in before:
            if other._behind in union:
                return _InTheWay(other._behind, _first_of(amounts, NOTHING_SPENT))
        if amounts != NOTHING_SPENT:
            for account in union:
                leased[account] = _plus(leased.get(account, NOTHING_SPENT), amounts)
        return self._made(union, amounts, deadline, leased=True)

    def _end_lease(self, reservation: Reservation) -> None:
        reservation._leased = False
        if reservation.amounts != NOTHING_SPENT:
            for account in reservation._accounts:
                rest = _minus(self._leased[account], reservation.amounts)
                if rest == NOTHING_SPENT:
                    del self._leased[account]
                else:
                    self._leased[account] = rest

    def _serve(self) -> None:
        """Gives those that wait, in order, what they can have now, or says why they cannot have it. Who comes after another on the same account is not looked at before
        that one has it: a step takes no longer for it.
        """
        blocked: set[Account] = set()
        for queued in tuple(self._waiting):
            if queued._behind in blocked:
                continue
            if not blocked.isdisjoint(queued._accounts):
                queued._behind = next(account for account in queued._accounts if account in blocked)
                continue
            try:
                found = self._find_lease(queued._accounts, queued._want, queued._deadline_ms, ())
            except (BudgetExceeded, Expired) as error:
                queued.error = error
            else:
                if isinstance(found, _InTheWay):
                    queued._behind = found.account
                    blocked.add(found.account)
                    continue
                queued.reservation = found
            del self._waiting[queued]
            self._served.append(queued)

    def _withdraw(self, queued: Queued) -> None:
        if queued in self._waiting:
            first = next(other for other in self._waiting if other._behind is queued._behind)
            del self._waiting[queued]
            if first is queued:
                self._serve()  # who came after it may have waited for it alone
        elif queued.reservation is not None and queued.reservation.state in ("open", "expired"):
            self._end(queued.reservation, NOTHING_SPENT, "released")

    def _charge(self, union: tuple[Account, ...], amounts: Amounts) -> None:
        if self._expiring or min([NEVER, *[account.deadline_ms for account in union]]) != NEVER:
            now = self._sweep()
            if any(account.deadline_ms <= now for account in union):
                raise Expired("the budget has expired, and nothing was spent. Ask whoever gave it for another context.")
        _check_fits(union, amounts)
        for account in union:
            account.spent = _plus(account.spent, amounts)

    def _balance(self, account: Account, above: tuple[Account, ...]) -> Balance:
        if self._expiring:
            self._sweep()
        lefts = [_left(one) for one in above]
        remaining = Amounts(
            min(left.calls for left in lefts), min(left.tokens for left in lefts), min(left.cost_micro_usd for left in lefts)
        )
        return Balance(account.id, account.caps, account.spent, account.reserved, remaining, account.deadline_ms)

    def _sweep(self) -> int:
        """Counts as spent what has expired unsettled: nobody knows what was used, so all of it was. Gives the time."""
        now = self.now_ms()
        expiring = self._expiring
        while expiring and expiring[0][0] <= now:
            reservation = heapq.heappop(expiring)[2]
            if reservation.state != "open":
                self._ended -= 1
            else:
                for account in reservation._accounts:
                    account.reserved = _minus(account.reserved, reservation.amounts)
                    account.spent = _plus(account.spent, reservation.amounts)
                reservation.state = "expired"
                if reservation._leased:
                    self._end_lease(reservation)
        return now

    def _end(self, reservation: Reservation, actual: Amounts, state: Literal["settled", "released"]) -> Amounts:
        if self._expiring:
            self._sweep()
        if reservation.state not in ("open", "expired"):
            raise ConstraintError(f"this reservation was {reservation.state} before; that can be done once.")
        overrun = NOTHING_SPENT
        for account in reservation._accounts:
            if reservation.state == "open":
                account.reserved = _minus(account.reserved, reservation.amounts)
            else:
                account.spent = _minus(account.spent, reservation.amounts)
            fits = _least(actual, _left(account))
            account.spent = _plus(account.spent, fits)
            overrun = _most(overrun, _minus(actual, fits))
        waits = reservation.state == "open" and reservation.deadline_ms != NEVER
        reservation.state = state
        if waits:
            self._tidy()
        if reservation._leased:
            self._end_lease(reservation)
        if self._waiting:
            self._serve()
        return overrun

    def _tidy(self) -> None:
        """One more of those that could expire has ended. Once they are the most, they are let go: the deadline may be years away."""
        self._ended += 1
        if self._ended > 64 and self._ended * 2 > len(self._expiring):
            self._expiring = [entry for entry in self._expiring if entry[2].state == "open"]
            heapq.heapify(self._expiring)
            self._ended = 0


def _checked_amounts(calls: int, tokens: int, cost_micro_usd: int) -> Amounts:
    return Amounts(check_count(calls, "calls"), check_count(tokens, "tokens"), check_count(cost_micro_usd, "cost_micro_usd"))


def _checked_accounts(accounts: Iterable[Account]) -> tuple[Account, ...]:
    union = all_accounts(accounts)
    for account in union:
        if type(account) is not Account:
            raise ConstraintError(
                f"an account of a context is wanted, not an object of type {type(account).__name__}: take context.accounts."
            )
    return union


def _check_fits(union: tuple[Account, ...], amounts: Amounts) -> None:
    """Raises BudgetExceeded where an account has not enough left."""
    calls, tokens, cost = amounts.calls, amounts.tokens, amounts.cost_micro_usd
    for account in union:
        caps, spent, reserved = account.caps, account.spent, account.reserved
        # What is not limited has no sum that could reach its cap, however long it runs.
        if calls and calls > caps.calls - spent.calls - reserved.calls and caps.calls != UNLIMITED:
            raise _exceeded(account, "calls", calls, caps.calls - spent.calls - reserved.calls, caps.calls)
        if tokens and tokens > caps.tokens - spent.tokens - reserved.tokens and caps.tokens != UNLIMITED:
            raise _exceeded(account, "tokens", tokens, caps.tokens - spent.tokens - reserved.tokens, caps.tokens)
        left = caps.cost_micro_usd - spent.cost_micro_usd - reserved.cost_micro_usd
        if cost and cost > left and caps.cost_micro_usd != UNLIMITED:
            raise _exceeded(account, "cost", cost, left, caps.cost_micro_usd)


def _check_left(account: Account, amounts: Amounts, left: Amounts) -> None:
    """Raises BudgetExceeded where that is not left of an account."""
    for resource, field in _RESOURCES:
        wanted, rest, cap = getattr(amounts, field), getattr(left, field), getattr(account.caps, field)
        if wanted > rest and cap != UNLIMITED:
            raise _exceeded(account, resource, wanted, rest, cap)


def _is_within(amounts: Amounts, left: Amounts) -> bool:
    return amounts.calls <= left.calls and amounts.tokens <= left.tokens and amounts.cost_micro_usd <= left.cost_micro_usd


def _first_of(amounts: Amounts, left: Amounts) -> str:
    """The first resource of which more is wanted than there is."""
    return next((resource for resource, field in _RESOURCES if getattr(amounts, field) > getattr(left, field)), "tokens")


def _smallest(lefts: list[Amounts]) -> Amounts:
    return Amounts(
        min([UNLIMITED, *[left.calls for left in lefts]]),
        min([UNLIMITED, *[left.tokens for left in lefts]]),
        min([UNLIMITED, *[left.cost_micro_usd for left in lefts]]),
    )


def _with_leased(account: Account, left: Amounts, leased: Amounts | None) -> Amounts:
    """What the account itself has left, and what is leased of it besides."""
    if leased is None:
        return left
    caps = account.caps
    return Amounts(
        left.calls if caps.calls == UNLIMITED else left.calls + leased.calls,
        left.tokens if caps.tokens == UNLIMITED else left.tokens + leased.tokens,
        left.cost_micro_usd if caps.cost_micro_usd == UNLIMITED else left.cost_micro_usd + leased.cost_micro_usd,
    )


def _exceeded(account: Account, resource: str, wanted: int, left: int, cap: int) -> BudgetExceeded:
    return BudgetExceeded(
        f"the {_UNITS[resource]} of {account.id} do not suffice: {wanted} wanted, {left} left of {cap}, and nothing was reserved. "
        "Use less, or ask whoever gave the context for a larger one.",
        resource=resource,
        account=account.id,
    )


def _left(account: Account) -> Amounts:
    """What the account itself has left. One that is not limited always has all that there is, so that its sums stay true however large they grow."""
    caps, spent, reserved = account.caps, account.spent, account.reserved
    return Amounts(
        UNLIMITED if caps.calls == UNLIMITED else caps.calls - spent.calls - reserved.calls,
        UNLIMITED if caps.tokens == UNLIMITED else caps.tokens - spent.tokens - reserved.tokens,
        UNLIMITED if caps.cost_micro_usd == UNLIMITED else caps.cost_micro_usd - spent.cost_micro_usd - reserved.cost_micro_usd,
    )


def _plus(one: Amounts, other: Amounts) -> Amounts:
    return Amounts(one.calls + other.calls, one.tokens + other.tokens, one.cost_micro_usd + other.cost_micro_usd)


def _minus(one: Amounts, other: Amounts) -> Amounts:
    return Amounts(one.calls - other.calls, one.tokens - other.tokens, one.cost_micro_usd - other.cost_micro_usd)


def _least(one: Amounts, other: Amounts) -> Amounts:
    return Amounts(min(one.calls, other.calls), min(one.tokens, other.tokens), min(one.cost_micro_usd, other.cost_micro_usd))


def _most(one: Amounts, other: Amounts) -> Amounts:
    return Amounts(max(one.calls, other.calls), max(one.tokens, other.tokens), max(one.cost_micro_usd, other.cost_micro_usd))


def _shown(amounts: Amounts) -> str:
    parts = [f"{getattr(amounts, field)} {_UNITS[resource]}" for resource, field in _RESOURCES if getattr(amounts, field)]
    return ", ".join(parts) or "nothing"
