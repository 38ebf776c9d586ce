"""Accounts: what a limit on calls, tokens or cost is charged to.

A context whose limits are smaller than its parent's has an account of its own below the parent's; what is spent is charged to the
account and to all above it, so siblings cannot jointly exceed what their parent had. This module has the plain data; adding and
subtracting is the ledger's business alone (`retinue.capabilities.budgets`).
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable
from typing import Final, NoReturn, final

import attrs

from retinue.security.errors import TokenError
from retinue.security.limits import NEVER, UNLIMITED, Limits

__all__ = ["NOTHING_SPENT", "Account", "AccountTable", "Amounts", "account_below", "all_accounts", "join_accounts"]

MAX_TOKEN_ACCOUNTS: Final = 65_536
"""Accounts that are kept for sealed tokens, so that one token that is unsealed twice has one account."""

MAX_ROOT_ACCOUNTS: Final = 1_024
"""The same for all tokens that were attenuated from one: whoever holds it can make as many as it likes, and must not take everybody's place."""


def _amount(value: object) -> str:
    return "unlimited" if value == UNLIMITED else repr(value)


@final
@attrs.frozen
class Amounts:
    """So many calls, tokens and millionths of a US dollar.

    Attributes:
        calls: Gated messages; default 0.
        tokens: Tokens of language models; default 0.
        cost_micro_usd: Millionths of a US dollar; default 0.
    """

    calls: int = attrs.field(default=0, repr=_amount)
    tokens: int = attrs.field(default=0, repr=_amount)
    cost_micro_usd: int = attrs.field(default=0, repr=_amount)


NOTHING_SPENT: Final = Amounts()


@final
class Account:
    """What one limit is charged to. Compared by identity; plain data that the ledger alone writes.

    Attributes:
        id: A short name for logs and audit records, unique.
        parents: The accounts that are charged along with this one; two and more where authorities of different origin met.
        caps: The most that may ever be spent; `UNLIMITED` (2**63 - 1) where a resource is not limited.
        spent: What was spent and settled.
        reserved: What is reserved and not settled.
        deadline_ms: When the limits that it stands for expire, in ms since 1970; nothing can be spent after.
    """

    __slots__ = ("__weakref__", "caps", "deadline_ms", "id", "parents", "reserved", "spent")

    def __init__(self, parents: tuple[Account, ...], caps: Amounts, deadline_ms: int = NEVER) -> None:
        self.id: Final = f"account-{secrets.token_hex(6)}"
        self.parents: Final = parents
        self.caps: Final = caps
        self.deadline_ms: Final = deadline_ms
        self.spent = NOTHING_SPENT
        self.reserved = NOTHING_SPENT

    def __repr__(self) -> str:
        caps = ", ".join(f"{name}={value}" for name, value in attrs.asdict(self.caps).items() if value != UNLIMITED)
        return f"<Account {self.id}: {caps or 'unlimited'}>"

    def __copy__(self) -> NoReturn:
        raise TypeError("an Account is not copied: a copy could be spent a second time.")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise TypeError("an Account is not copied: a copy could be spent a second time.")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("an Account is not pickled: a copy could be spent a second time.")


def all_accounts(accounts: Iterable[Account]) -> tuple[Account, ...]:
    """The accounts and all above them, each once, children before their parents' parents."""
    found: dict[Account, None] = {}
    waiting = list(accounts)
    while waiting:
        account = waiting.pop()
        if account not in found:
            found[account] = None
            waiting.extend(account.parents)
    return tuple(found)


def join_accounts(mine: tuple[Account, ...], others: tuple[Account, ...]) -> tuple[Account, ...]:
    """What is charged where both are: each once, and without those that another one of them charges anyway. `mine` itself where that is all."""
    if not others or others is mine:
        return mine
    if not mine:
        return others
    together = tuple(dict.fromkeys((*mine, *others)))
    if len(together) > 1:
        above = set(all_accounts(parent for account in together for parent in account.parents))
        together = tuple(account for account in together if account not in above)
    return mine if together == mine else together


def account_below(parents: tuple[Account, ...], limits: Limits) -> Account:
    """A new account with the caps of `limits`."""
    return Account(parents, Amounts(limits.calls, limits.tokens, limits.cost_micro_usd), limits.deadline_ms)


@final
class AccountTable:
    """Accounts by a stable key, for what may be presented more than once, as a sealed token is. Safe to use from any thread.

    Args:
        now_ms: The clock by which accounts that have expired make room.
        most: How many accounts are kept.
        most_of_root: How many of them for one root.
    """

    __slots__ = ("_accounts", "_lock", "_most", "_most_of_root", "_now_ms", "_of_root")

    def __init__(self, now_ms: Callable[[], int], most: int = MAX_TOKEN_ACCOUNTS, most_of_root: int = MAX_ROOT_ACCOUNTS) -> None:
        self._accounts: dict[str, Account] = {}
        self._of_root: dict[str, set[str]] = {}
        self._most_of_root = most_of_root
        self._lock = threading.Lock()
        self._now_ms = now_ms
        self._most = most

    def __len__(self) -> int:
        return len(self._accounts)

    def account(self, key: str, parents: tuple[Account, ...], limits: Limits, root: str = "") -> Account:
        """The account of this key, made at first; `root` names the token that all of a kind were attenuated from ("": it is counted with nobody's).

        Raises:
            TokenError: The table ("full"), or the root's part of it ("too_many"), is full of accounts that have not expired. Forgetting one
                would let its token be spent again.
        """
        with self._lock:
            found = self._accounts.get(key)
            if found is not None:
                return found
            if root and len(self._of_root.get(root, ())) >= self._most_of_root:
                self._forget_expired(self._of_root[root])
                if len(self._of_root.get(root, ())) >= self._most_of_root:
                    raise TokenError(
                        f"{self._most_of_root} limits on calls, tokens or cost, of tokens that were attenuated from this one's root, are in use and "
                        "none has expired, so no other can be accepted. Seal a token for each holder.",
                        reason="too_many",
                    )
            if len(self._accounts) >= self._most:
                self._forget_expired(self._accounts)
            if len(self._accounts) >= self._most:
                raise TokenError(
                    f"{self._most} tokens with limits on calls, tokens or cost are in use and none has expired, so no other can be accepted. "
                    "Seal tokens with shorter lives.",
                    reason="full",
                )
            made = self._accounts[key] = account_below(parents, limits)
            if root:
                self._of_root.setdefault(root, set()).add(key)
            return made

    def _forget_expired(self, keys: Iterable[str]) -> None:
        now = self._now_ms()
        old = {key for key in keys if self._accounts[key].deadline_ms <= now}
        if not old:
            return
        for key in old:
            del self._accounts[key]
        self._of_root = {root: left for root, keys in self._of_root.items() if (left := keys - old)}
