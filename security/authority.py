"""The authority of a system: the only maker of contexts that are not narrowed from another."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, NoReturn, final

import attrs

from retinue.security.accounts import Account, AccountTable, account_below
from retinue.security.clock import Clock
from retinue.security.context import Principal, SecurityContext
from retinue.security.context_registry import ContextRegistry
from retinue.security.errors import AuthorityError, DefinitionError, ForgedContext, Revoked
from retinue.security.permissions import PermissionSet, PermissionTable
from retinue.security.restrictions import Permission, Restriction, joined, restriction_of
from retinue.security.sources import MAX_SOURCE_VALUES, Source, check_source_name, make_source
from retinue.security.unknown_names import UnknownNames

__all__ = ["Authority", "AuthorityStatistics", "Event"]

MAX_NAME_LENGTH: Final = 255
"""Characters in a subject, tenant, project, session or policy version."""

MAX_SOURCES: Final = 1024
"""Sources of one authority."""

Event = Literal["mint", "adopt", "revoke"]
"""What an authority tells of."""


@attrs.frozen
class AuthorityStatistics:
    """What an authority holds at one moment.

    Attributes:
        contexts: Contexts that are alive.
        permission_sets: Permission sets that are alive.
        sources: Sources of known values.
        token_accounts: Accounts that are kept for sealed tokens.
        revocations: How often something was revoked.
    """

    contexts: int
    permission_sets: int
    sources: int = 0
    token_accounts: int = 0
    revocations: int = 0


def _check_name(value: object, what: str, function: str = "mint()") -> str:
    if not isinstance(value, str):
        raise DefinitionError(f"{function}: the {what} is a str, not an object of type {type(value).__name__}.")
    plain = str.__str__(value)
    if not plain or len(plain) > MAX_NAME_LENGTH:
        raise AuthorityError(
            f"{function}: the {what} has 1 to {MAX_NAME_LENGTH} characters, and this one has {len(plain)}. Use a short, stable name."
        )
    if not plain.isascii() and any("\ud800" <= character <= "\udfff" for character in plain):
        raise AuthorityError(f"{function}: the {what} has half of a surrogate pair, which no encoding knows. Decode it properly first.")
    return plain


@final
class Authority:
    """Makes, knows and checks the security contexts of one system. Safe to use from any thread.

    Args:
        root_permissions: What the root context permits, as `mint` takes it; None is everything, an empty list nothing. Nothing that
            this authority mints ever permits more.
        subject: The subject of the root context.
        clock: For tests: milliseconds since 1970, UTC, in place of the system's clocks.

    Attributes:
        root: The context of the system itself.
        guard: Called first by whatever makes or takes authority, where set; the runtime sets one that raises `Denied` inside a handler, so
            that no actor can mint its way out of the authority that it was given.
        policy_version: What the contexts that are minted from now on carry as their `policy_version`. Default: "1".
        revocations: How often something was revoked.
        on_revoke: Called after each revocation, in the thread that revoked; None: nobody. The runtime forgets kept verdicts here.
        on_event: Called with "mint", "adopt" or "revoke" and the context; None: nobody. The audit log listens here. If it raises, nothing was
            minted or adopted; what was revoked stays revoked.

    Raises:
        DefinitionError: `root_permissions` is no list of patterns and restrictions, or `subject` no `str`.
        PatternError: A pattern is malformed.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "_registry",
        "_sources",
        "_table",
        "_token_accounts",
        "_untold",
        "guard",
        "on_event",
        "on_revoke",
        "policy_version",
        "revocations",
        "root",
        "sources",
    )

    def __init__(
        self,
        root_permissions: Iterable[Permission] | None = None,
        subject: str = "root",
        *,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._clock = Clock(clock)
        self._sources: dict[str, Source] = {}
        self.sources: Final[Mapping[str, Source]] = MappingProxyType(self._sources)
        self._table = PermissionTable(self.sources)
        self._registry = ContextRegistry(self._table, self._clock)
        self._token_accounts = AccountTable(self._clock.now_ms)
        # Revoked, and nobody could be told of it yet: the audit log failed. (A refusal to record keeps nobody's authority alive.)
        self._untold: weakref.WeakSet[SecurityContext] = weakref.WeakSet()
        self.guard: Callable[[], None] | None = None
        self.on_event: Callable[[Event, SecurityContext], None] | None = None
        self.on_revoke: Callable[[], None] | None = None
        self.policy_version = "1"
        self.revocations = 0
        everything = self._table.everything
        permissions = everything if root_permissions is None else self.permission_set(root_permissions)
        principal = Principal(_check_name(subject, "subject"))
        self.root: Final = self._registry.enrol(principal, permissions, None, "root", _accounts((), everything, permissions))

    @property
    def everything(self) -> PermissionSet:
        """The set that permits every operation."""
        return self._table.everything

    @property
    def nothing(self) -> PermissionSet:
        """The set that permits no operation."""
        return self._table.nothing

    @property
    def risk_of(self) -> Callable[[str], int | None] | None:
        """Says how risky an operation is, 0 to 3, or None where nobody declared it (which counts as 3); the capability registry sets it."""
        return self._registry.risk_of

    @risk_of.setter
    def risk_of(self, risk_of: Callable[[str], int | None] | None) -> None:
        self._registry.risk_of = risk_of
        names = self._registry.names = None if risk_of is None else UnknownNames(risk_of)
        self._table.on_layers = None if names is None else names.warn
        if names is not None:
            names.warn(self.root.permissions.layers)

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC, that never go back: what deadlines are measured by.

        Raises:
            AuthorityError: The clock that this authority was given failed.
        """
        return self._clock.now_ms()

    def permission_set(self, permissions: Iterable[Permission]) -> PermissionSet:
        """The interned set of a list of patterns and restrictions. It is *not* bounded by the root's: meet it with what it is granted from.

        The patterns make one layer, any of which may permit; each restriction must permit too. An empty list permits nothing, and so
        does one without a pattern and without an `allow`: write `["**", deny("fs.delete")]` for "everything but".

        Raises:
            DefinitionError: `permissions` is a bare `str`, no iterable, or holds something else.
            PatternError: A pattern is malformed.
        """
        return self._table.of(restriction_of(permissions), self._clock.now_ms)

    def mint(
        self,
        subject: str,
        permissions: Iterable[Permission],
        *,
        tenant: str | None = None,
        project: str | None = None,
        session: str | None = None,
    ) -> SecurityContext:
        """A new context with no parent, within the permissions and limits of the root, and charged to its accounts.

        Args:
            subject: Whom the context speaks for, 1 to 255 characters.
            permissions: As for `permission_set`; `[]` permits nothing, `["**"]` all that the root permits.
            tenant: The customer or organisation, where there are several.
            project: The project, where there is one.
            session: The session, where there is one.

        Raises:
            Denied: Called inside a handler.
            DefinitionError: `permissions` is a bare `str`, no iterable, or holds something else; a name is no `str`.
            AuthorityError: A name is empty or too long.
            PatternError: A pattern is malformed.
        """
        if self.guard is not None:
            self.guard()
        principal = self.principal(subject, tenant=tenant, project=project, session=session)
        within = self.permission_set(permissions).meet(self.root.permissions)
        accounts = _accounts(self.root.accounts, self.root.permissions, within)
        return self._told("mint", self._registry.enrol(principal, within, None, "mint", accounts))

    def principal(
        self,
        subject: str,
        *,
        tenant: str | None = None,
        project: str | None = None,
        session: str | None = None,
        policy_version: str | None = None,
    ) -> Principal:
        """Whom a context speaks for, checked as `mint` does. `policy_version` is this authority's where it is None.

        Raises:
            DefinitionError: A name is no `str`.
            AuthorityError: A name is empty or longer than 255 characters.
        """
        return Principal(
            _check_name(subject, "subject"),
            None if tenant is None else _check_name(tenant, "tenant"),
            None if project is None else _check_name(project, "project"),
            None if session is None else _check_name(session, "session"),
            _check_name(self.policy_version if policy_version is None else policy_version, "policy version"),
        )

    def adopt(
        self,
        principal: Principal,
        blocks: Iterable[tuple[str, Iterable[Restriction]]],
        *,
        origin: SecurityContext | None = None,
        root: str = "",
    ) -> SecurityContext:
        """A context for a sealed token whose bytes are verified: within the root, and narrowed by each of its blocks.

        Args:
            principal: Whom it speaks for.
            blocks: For each block of the token, in order, a name that stays the same whenever the same token is presented, and its
                restrictions. A block that limits calls, tokens or cost further is charged to the account of that name, so a token that is
                presented twice can be spent once.
            origin: The context that the token was sealed from, where this authority still has it: then the new context descends from it,
                is charged to its accounts and ends when it is revoked.
            root: A name of what the token was attenuated from, where the accounts of all such tokens are counted together. Default: they are not.

        Raises:
            Denied: Called inside a handler.
            ForgedContext: `origin` is not genuine.
            Revoked: `origin` was revoked.
            TokenError: The table of tokens' accounts, or the root's part of it, is full of tokens that have not expired ("full", "too_many").
        """
        if self.guard is not None:
            self.guard()
        if type(principal) is not Principal:
            raise DefinitionError(
                f"adopt(): a Principal is wanted, not an object of type {type(principal).__name__}. Use authority.principal(…)."
            )
        start = self.root if origin is None else origin
        self.check(start)
        permissions, accounts = start.permissions, start.accounts
        for name, restrictions in blocks:
            met = permissions.meet_restriction(joined(restrictions), self._clock.now_ms)
            if met.limits.spends_less_than(permissions.limits):
                accounts = (self._token_accounts.account(name, accounts, met.limits, root),)
            permissions = met
        if origin is None:
            return self._told("adopt", self._registry.enrol(principal, permissions, None, "token", accounts))
        return self._told("adopt", self._registry.derive(origin, permissions, "token", accounts))

    def source(self, name: str, *, limit: int = MAX_SOURCE_VALUES) -> Source:
        """The source of known values of this name, for `known_from(name)`; made at the first call, the same object at each later one.

        Args:
            name: Segments of `A-Z a-z 0-9 _ -` parted by dots, at most 64 characters.
            limit: The largest number of values, where the source is made by this call.

        Raises:
            Denied: Called inside a handler: give actors the source itself, when they are spawned.
            ConstraintError: The name or the limit is malformed.
            AuthorityError: There are 1,024 sources already.
        """
        if self.guard is not None:
            self.guard()
        found = self._sources.get(check_source_name(name))
        if found is not None:
            return found
        if len(self._sources) >= MAX_SOURCES:
            raise AuthorityError(f"there are {MAX_SOURCES} sources already; use one source for each kind of value, not for each value.")
        return self._sources.setdefault(name, make_source(name, limit=limit))

    def revoke(self, context: SecurityContext) -> None:
        """End the authority of a context, of all that descend from it, and of all that it was met with as a grant. It cannot be undone.

        It takes effect at the next decision, whichever thread calls; what a handler does already is not interrupted. Revoking again
        changes nothing; but where the record of it could not be written, it is tried once more.

        Raises:
            Denied: Called inside a handler.
            ForgedContext: The context was not made by this authority.
            AuthorityError: It is the root, which is the system's own.
            AuditUnavailable: It is revoked, and the record of that could not be written.
        """
        if self.guard is not None:
            self.guard()
        if not self._registry.is_genuine(context):
            self.check(context)
        if context is self.root:
            raise AuthorityError("the root context cannot be revoked: it is the system's own. Close the system, or revoke what was minted.")
        if self._registry.revoke(context):
            self._untold.add(context)
            self.revocations += 1
            if self.on_revoke is not None:
                self.on_revoke()
        if context in self._untold:
            self._told("revoke", context)
            self._untold.discard(context)

    def _household(self) -> SecurityContext:
        """A context for the runtime's own actors: it permits everything, whatever the root does, and is given to nobody."""
        return self._registry.enrol(Principal("system"), self._table.everything, None, "root", ())

    def is_revoked(self, context: SecurityContext) -> bool:
        """Whether the context, or one that it descends from or was met with, was revoked."""
        return self._registry.is_revoked(context)

    def expired(self, context: SecurityContext) -> bool:
        """Whether the context's deadline has passed; False where it has none.

        Raises:
            AuthorityError: The clock that this authority was given failed.
        """
        return self._registry.expired(context)

    def is_genuine(self, context: object) -> bool:
        """Whether this authority made the object, and its permissions, parent, principal and accounts are those it was made with. Never raises."""
        return self._registry.is_genuine(context)

    def check(self, context: object) -> None:
        """Return if the context is genuine and was not revoked. Its deadline is not looked at.

        Raises:
            ForgedContext: It is no context, one of another authority, or one that was forged or altered; the text says which.
            Revoked: It, or one that it descends from or was met with, was revoked.
        """
        if self._registry.is_genuine(context):
            if self._registry.revoked and self._registry.is_revoked(context):
                raise Revoked(
                    f"{self._registry.revoked_text(context)}; nothing is permitted under it any more. Ask for a new context.",
                    subject=context.subject,
                )
            return
        fix = "Use system.authority.mint(subject, permissions), or narrow() on a context of this system."
        if type(context) is not SecurityContext:
            raise ForgedContext(f"a security context is wanted, not an object of type {type(context).__name__}. {fix}")
        registry: ContextRegistry | None = getattr(context, "_registry", None)
        if type(registry) is ContextRegistry and registry is not self._registry and registry.is_genuine(context):
            raise ForgedContext(
                f"{context!r} was made by another system's authority and carries nothing here. {fix}", subject=context.subject
            )
        raise ForgedContext(f"this security context was not made by this system's authority, or was altered since. {fix}")

    def statistics(self) -> AuthorityStatistics:
        """How many contexts, permission sets, sources and accounts are alive, and how often something was revoked."""
        return AuthorityStatistics(
            contexts=len(self._registry),
            permission_sets=len(self._table),
            sources=len(self._sources),
            token_accounts=len(self._token_accounts),
            revocations=self.revocations,
        )

    def _told(self, event: Event, context: SecurityContext) -> SecurityContext:
        if self.on_event is not None:
            self.on_event(event, context)
        return context

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("an Authority is neither copied nor pickled: there is one for each system.")


def _accounts(parents: tuple[Account, ...], before: PermissionSet, after: PermissionSet) -> tuple[Account, ...]:
    """The accounts of a set that was met with `before`: one of its own where it may spend less."""
    return (account_below(parents, after.limits),) if after.limits.spends_less_than(before.limits) else parents
