"""What a run may use together with all that it sets going: its members, their models, their tools, whoever they ask.

A `RunLimits` counts one agent's own run. A `TreeLimits` narrows the authority that the run goes under, so the ledger of the system counts, for whoever is asked
under it and however deep: spent and reserved together are never more, however many are at it at once.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import attrs

from retinue.actors.agents.errors import RunLimitReached
from retinue.actors.runtime.errors import AskTimeout
from retinue.security.errors import BudgetExceeded, ConstraintError, Expired
from retinue.security.limits import NEVER, UNLIMITED, cost_in_micro_usd, decimal_text
from retinue.security.restrictions import MAX_SECONDS, Restriction, expires, limit
from retinue.security.spelling import names_the_nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from retinue.actors.runtime.context import ActorContext

__all__ = ["Tree", "TreeLimits"]

_RESOURCES: Final = {"calls": "calls", "tokens": "tokens", "cost": "cost_usd"}


def _cost(value: Any) -> str | None:
    if value is None:
        return None
    try:
        return decimal_text(cost_in_micro_usd(value), 6)
    except ConstraintError as error:
        raise ValueError(f"TreeLimits(cost_usd=…): {error}") from None


@names_the_nearest
@attrs.frozen(kw_only=True)
class TreeLimits:
    """How much a run may use together with all that it sets going. Over a limit it ends with `RunLimitReached`; where a team's `forward` goes on all the same, its answer
    is `partial`. None (the default): no limit of its own.

    Attributes:
        calls: Calls of operations, those of models (`model.complete`) and of tools that require one.
        tokens: Tokens of all requests to models and of their answers.
        cost_usd: US dollars, a str, a Decimal or an int ("0.50"); kept as a str. Models whose price is not known are refused under this limit.
        seconds: Seconds from the run's beginning, above 0.

    Raises ValueError for what is none of these.
    """

    __immutable__ = True

    calls: int | None = None
    tokens: int | None = None
    cost_usd: str | Decimal | int | None = attrs.field(default=None, converter=_cost)
    seconds: float | None = None

    def __attrs_post_init__(self) -> None:
        for name in ("calls", "tokens"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not 0 <= value < UNLIMITED):
                raise ValueError(f"TreeLimits({name}={value!r}): give a whole number, 0 or more, or None for no limit")
        seconds = self.seconds
        if seconds is not None and (
            isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0.001 <= seconds <= MAX_SECONDS
        ):
            raise ValueError(f"TreeLimits(seconds={seconds!r}): give a number of seconds above 0, or None for no limit")

    def restrictions(self) -> tuple[Restriction, ...]:
        """The same as what `context.narrow` takes; empty where nothing is limited."""
        spent: dict[str, Any] = {name: value for name in ("calls", "tokens", "cost_usd") if (value := getattr(self, name)) is not None}
        found = [limit(**spent)] if spent else []
        if self.seconds is not None:
            found.append(expires(seconds=self.seconds))
        return tuple(found)


class Tree:
    """The limits of one run in force: from here on, all that the current turn sends counts.

    Args:
        ctx: That of the actor in whose turn the run is.
        limits: The limits.
        path: The path of the agent or the team, for texts.
    """

    __slots__ = ("_accounts", "_ctx", "_deadline_ms", "limits", "path")

    def __init__(self, ctx: ActorContext, limits: TreeLimits, path: str) -> None:
        self.limits = limits
        self.path = path
        self._ctx = ctx
        before = ctx.security
        ctx.restrict(*limits.restrictions())
        after = ctx.security
        self._accounts = tuple(account for account in after.accounts if account not in before.accounts)
        ends = after.permissions.limits.deadline_ms
        self._deadline_ms = NEVER if ends == before.permissions.limits.deadline_ms else ends

    def named(self, error: Exception, usage: Any = None) -> Exception:
        """The error of a run, as whoever asked for it gets it: `RunLimitReached` where it was one of these limits that ended it, else itself."""
        limit_name = self._reached(error)
        if limit_name is None:
            return error
        value = getattr(self.limits, limit_name)
        shown = f"{value:,}" if isinstance(value, int | float) else repr(value)
        reached = RunLimitReached(
            f"{self.path}: the run and all that it has set going have reached the limit {limit_name}={shown} of its TreeLimits{self._taken()}; it stopped, and what "
            f"members had answered by then is in their memories. Give more with TreeLimits({limit_name}=…)",
            limit=f"tree.{limit_name}",
            usage=usage,
        )
        reached.__cause__ = error
        return reached

    def ends(self, error: Exception) -> bool:
        """Whether it was one of these limits."""
        return self._reached(error) is not None

    def _taken(self) -> str:
        if not self._accounts:
            return ""
        spent = self._ctx.budget.ledger.balance(self._accounts[0]).spent
        found = [f"{spent.tokens:,} tokens"]
        if self.limits.calls is not None:  # else not all of them are counted
            found.insert(0, f"{spent.calls:,} calls")
        if spent.cost_micro_usd:
            found.append(f"{decimal_text(spent.cost_micro_usd, 6)} US dollars")
        return f", after {', '.join(found)}"

    def _reached(self, error: Exception) -> str | None:
        if isinstance(error, BudgetExceeded):
            return _RESOURCES.get(error.resource) if error.account in {account.id for account in self._accounts} else None
        if isinstance(error, Expired | AskTimeout) and self._deadline_ms != NEVER and self._ctx.budget.ledger.now_ms() >= self._deadline_ms:
            return "seconds"
        return None

    def left(self) -> TreeLimits:
        """What is left of the limits: for a run that is parked, and goes on later. Its seconds begin anew then: those of the person who decides are not the run's."""
        given = self.limits
        if not self._accounts:
            return given
        ledger = self._ctx.budget.ledger
        rest = [ledger.balance(account).remaining for account in self._accounts]
        cost = _least(given.cost_usd is not None, (each.cost_micro_usd for each in rest))
        return TreeLimits(
            calls=_least(given.calls is not None, (each.calls for each in rest)),
            tokens=_least(given.tokens is not None, (each.tokens for each in rest)),
            cost_usd=None if cost is None else decimal_text(cost, 6),
            seconds=given.seconds,
        )


def _least(wanted: bool, values: Iterable[int]) -> int | None:
    found = min(values, default=UNLIMITED)
    return found if wanted and found != UNLIMITED else None
