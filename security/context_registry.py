"""The registry of one authority's contexts: which objects are genuine, which descend from which, and which were revoked."""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Callable
from typing import Final, TypeGuard, cast, final
from weakref import ReferenceType, ref

from retinue.security.accounts import Account, all_accounts
from retinue.security.clock import Clock
from retinue.security.context import NOT_GENUINE, ContextFields, Principal, SecurityContext, Step
from retinue.security.errors import AuthorityError, ForgedContext
from retinue.security.explaining import account_origin, added_by
from retinue.security.limits import NEVER, RISKS, Limits, Risk, moment, risk_level
from retinue.security.permissions import PermissionSet, PermissionTable
from retinue.security.unknown_names import UnknownNames

__all__ = ["ContextRegistry"]

_Ref = ReferenceType[SecurityContext]

_Record = tuple[PermissionSet, _Ref | None, Principal, tuple[Account, ...], tuple[_Ref, ...]]
"""What a context was made of: its permissions, its parent, its principal, its accounts and the other contexts that it was met with."""

_UNRATED: Final = 3


@final
class ContextRegistry:
    """The contexts that one authority made, held weakly, each with what it was made of. Safe to use from any thread.

    Args:
        table: Where the authority's permission sets are interned.
        clock: What deadlines are measured by.

    Attributes:
        table: As given.
        prefix: The first part of the contexts' ids, random for each registry.
        now_ms: The clock.
        revoked: The contexts that were revoked, and all that hang on one, as far as they are alive. Empty nearly always.
        risk_of: Says how risky an operation is, 0 to 3, or None where nobody declared it; the capability registry sets it.
        names: Tells of names that nobody declared; None where there is no `risk_of`.
    """

    __slots__ = ("_forget", "_live", "_lock", "_numbers", "_release", "names", "now_ms", "prefix", "revoked", "risk_of", "table")

    def __init__(self, table: PermissionTable, clock: Clock) -> None:
        self.table = table
        self.prefix = secrets.token_hex(3)
        self.now_ms = clock.now_ms
        self.risk_of: Callable[[str], int | None] | None = None
        self.names: UnknownNames | None = None
        self._numbers = itertools.count(1)
        # A dict with weak keys by hand: `WeakKeyDictionary` costs three times as much, and this is asked on every hop. An entry's
        # callback is `dict.pop` itself, so it runs in C, in one step, in whichever thread drops the context.
        # Other contexts stand in a record weakly; the context itself holds them. It remembers children (`_meet`), and a strong way back
        # from here would keep each parent and child alive for ever.
        self._live: dict[_Ref, _Record] = {}
        self._forget = self._live.pop
        self.revoked: dict[_Ref, None] = {}
        self._release = self.revoked.pop
        self._lock = threading.RLock()  # re-entrant, because a finaliser that runs inside may narrow or revoke

    def __len__(self) -> int:
        return len(self._live)

    def enrol(
        self,
        principal: Principal,
        permissions: PermissionSet,
        parent: SecurityContext | None,
        step: Step,
        accounts: tuple[Account, ...] = (),
        others: tuple[SecurityContext, ...] = (),
    ) -> SecurityContext:
        """A new context, known to this registry from now on. Only the authority and `derive` call this."""
        fields = ContextFields()
        fields.permissions = permissions
        fields.parent = parent
        fields._principal = principal
        fields._registry = self
        fields._number = next(self._numbers)
        fields._step = step
        fields._accounts = accounts
        fields._others = others
        fields._children = None
        fields.__class__ = SecurityContext
        context = cast("SecurityContext", fields)
        self._live[ref(context, self._forget)] = (
            permissions,
            None if parent is None else ref(parent),
            principal,
            accounts,
            tuple(map(ref, others)) if others else (),
        )
        return context

    def derive(
        self,
        parent: SecurityContext,
        permissions: PermissionSet,
        step: Step,
        accounts: tuple[Account, ...],
        others: tuple[SecurityContext, ...] = (),
    ) -> SecurityContext:
        """A child of a genuine context, for the same principal.

        Args:
            parent: The context.
            permissions: A meet with the parent's.
            step: How it comes to be.
            accounts: What it is charged to: the parent's, or accounts below or beside them.
            others: What else it was met with; genuine too.

        Raises:
            ForgedContext: A context is not genuine. Without this check a forged object could have a genuine child.
        """
        if not self.is_genuine(parent) or (others and not all(map(self.is_genuine, others))):
            raise ForgedContext(NOT_GENUINE)
        child = self.enrol(parent._principal, permissions, parent, step, accounts, others)
        # After it is enrolled: a revocation in another thread either finds it there, or has marked its parent by now.
        if self.revoked and any(map(self.is_revoked, (parent, *others))):
            self._mark(child)
        return child

    def is_genuine(self, context: object) -> TypeGuard[SecurityContext]:
        """Whether this registry made the object, and its authority is what it was made with. Never raises."""
        # The exact type comes first: another class may answer for `==` and `hash` as it likes.
        if type(context) is not SecurityContext:
            return False
        record = self._live.get(ref(context))
        if record is None:
            return False
        try:
            permissions, parent_ref, principal, accounts, others = record
            parent = context.parent
            if (
                permissions is not context.permissions
                or principal is not context._principal
                or accounts is not context._accounts
                or (parent is not None if parent_ref is None else parent is None or parent_ref() is not parent)
            ):
                return False
            theirs = context._others
            if not others:
                return not theirs
            if len(others) == 1:  # a grant; more is rare
                return len(theirs) == 1 and others[0]() is theirs[0]
            return len(theirs) == len(others) and all(one() is other for one, other in zip(others, theirs, strict=True))
        except Exception:  # a slot was emptied, or filled with something else, behind our back
            return False

    def descends(self, context: object, ancestor: SecurityContext) -> bool:
        """Whether `context` is genuine and is `ancestor`, or was narrowed from it."""
        step: object = context
        while self.is_genuine(step):
            if step is ancestor:
                return True
            step = step.parent
        return False

    def includes(self, context: SecurityContext, other: SecurityContext) -> bool:
        """Whether `other` has gone into `context`: it is the same, or an ancestor, or was joined on the way.

        Raises:
            ForgedContext: One of them is not genuine.
        """
        if not self.is_genuine(context) or not self.is_genuine(other):
            raise ForgedContext(NOT_GENUINE)
        seen: set[SecurityContext] = set()
        waiting = [context]
        while waiting:
            one = waiting.pop()
            if one is other:
                return True
            if one not in seen:
                seen.add(one)
                waiting.extend(one._others)
                if one.parent is not None:
                    waiting.append(one.parent)
        return False

    # -- revoking ------------------------------------------------------------------------------------------------------------------------------

    def _mark(self, context: SecurityContext) -> None:
        self.revoked[ref(context, self._release)] = None

    def _is_marked(self, one: _Ref) -> bool:
        try:
            return one in self.revoked
        except TypeError:  # it is dead, so somebody took it away from the context that hangs on it
            return True

    def is_revoked(self, context: SecurityContext) -> bool:
        """Whether the context, or one that it hangs on, was revoked. A forged one is not known here."""
        return bool(self.revoked) and type(context) is SecurityContext and ref(context) in self.revoked

    def revoke(self, context: SecurityContext) -> bool:
        """Mark a genuine context, and all that descend from it or were met with it. Whether it was not revoked before."""
        with self._lock:
            if self.is_revoked(context):
                return False
            self._mark(context)
            # In the order of their making, so that each comes after what it hangs on. What is made meanwhile looks by itself (`derive`).
            # The references are copied in one step in C; what they point to is held while it is looked at.
            for one in list(self._live):
                record = self._live.get(one)
                alive = one()
                if record is None or alive is None:
                    continue
                _, parent, _, _, others = record
                if (parent is not None and self._is_marked(parent)) or any(map(self._is_marked, others)):
                    self._mark(alive)
            return True

    # -- what stands in the way of an operation besides the layers --------------------------------------------------------------------------------

    def expired(self, context: SecurityContext) -> bool:
        """Whether the deadline has passed. The clock is asked only where there is one."""
        deadline = context.permissions.limits.deadline_ms
        return deadline != NEVER and self.now_ms() >= deadline

    def obstacles(self, context: SecurityContext, operation: str, risk: Risk | None) -> list[str]:
        """What refuses an operation whatever the layers say, each as part of a sentence.

        Raises:
            ConstraintError: `risk` is none of the four levels.
        """
        found = []
        level = None if risk is None else risk_level(risk)
        limits = context.permissions.limits
        if self.is_revoked(context):
            found.append(self.revoked_text(context))
        if limits.deadline_ms != NEVER:
            found += self._deadline_obstacles(context, limits)
        if limits.risk != _UNRATED:
            level = self._risk_of(operation) if level is None else level
            if level > limits.risk:
                origin = added_by(context, lambda one: one.permissions.limits.risk <= limits.risk)
                found.append(f"its risk is {RISKS[level]}, and max_risk('{RISKS[limits.risk]}') permits less (added by {origin})")
        for account in all_accounts(context._accounts):
            if account.spent.calls + account.reserved.calls >= account.caps.calls:
                found.append(
                    f"none of the {account.caps.calls} calls of {account.id} is left (added by {account_origin(account, context)})"
                )
        return found

    def _deadline_obstacles(self, context: SecurityContext, limits: Limits) -> list[str]:
        try:
            if not self.expired(context):
                return []
        except AuthorityError as error:
            return [str(error)]
        origin = added_by(context, lambda one: one.permissions.limits.deadline_ms <= limits.deadline_ms)
        return [f"the context expired at {moment(limits.deadline_ms)} (added by {origin})"]

    def _risk_of(self, operation: str) -> int:
        if self.risk_of is None:
            return _UNRATED
        try:
            level = self.risk_of(operation)
        except Exception:  # what cannot be decided counts as the worst
            return _UNRATED
        return level if type(level) is int and 0 <= level <= _UNRATED else _UNRATED

    def revoked_text(self, context: SecurityContext) -> str:
        """Which context was revoked, as part of a sentence."""
        first = next((one for one in context._ancestry() if self.is_revoked(one)), context)
        if first is not context:
            return f"the context {first.id} of {first.subject!r}, which it descends from, was revoked"
        other = next((other for other in context._others if self.is_revoked(other)), None)
        return (
            "the context was revoked"
            if other is None
            else f"the context {other.id} of {other.subject!r}, which it was met with, was revoked"
        )
