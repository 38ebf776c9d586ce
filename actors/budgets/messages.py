"""What is said to a `BudgetLedger`. Whose budget it is about is never said: it is that of the context that the message is sent under."""

from __future__ import annotations

import secrets

import attrs

from retinue.capabilities.budgets import Balance
from retinue.mailbox.messages import Request, message
from retinue.security.accounts import Amounts

__all__ = ["Balances", "Release", "Reserve", "Settle"]


def _new_key() -> str:
    return secrets.token_hex(16)


@message(name="retinue/Reserve@1")
class Reserve(Request[None]):
    """Reserves the worst case of something that is to be done. Raises BudgetExceeded where it does not fit; then nothing is reserved.

    Attributes:
        calls: Gated calls.
        tokens: Tokens of language models.
        cost_micro_usd: Millionths of a US dollar.
        seconds: After so many seconds the whole of it counts as spent, unless it was settled or released; default 600. A context that expires sooner ends it
            sooner.
        key: Names the reservation, for `Settle` and `Release`; default a random one. It is known before the answer comes, so that an asker that gives up can
            release what it may have got.
    """

    calls: int = 0
    tokens: int = 0
    cost_micro_usd: int = 0
    seconds: int = 600
    key: str = attrs.field(factory=_new_key)


@message(name="retinue/Settle@1")
class Settle(Request[Amounts]):
    """Replaces a reservation by what was really spent. Answers with what was used beyond a cap: nothing, unless more was used than was reserved.

    An amount that is left out, None, is what was reserved of it.

    Attributes:
        key: The reservation's key.
        calls: Gated calls.
        tokens: Tokens of language models.
        cost_micro_usd: Millionths of a US dollar.
    """

    key: str
    calls: int | None = None
    tokens: int | None = None
    cost_micro_usd: int | None = None


@message(name="retinue/Release@1")
class Release(Request[bool]):
    """Gives a reservation back: nothing was spent. Answers whether there was one; releasing what was never reserved changes nothing.

    Attributes:
        key: The reservation's key.
    """

    key: str


@message(name="retinue/Balances@1")
class Balances(Request[tuple[Balance, ...]]):
    """Asks how the accounts of the context stand that it is sent under; none where nothing limits it."""
