"""The security context: whose authority a message carries, and how much of it.

A context is made by an authority (`mint`) or by narrowing one that was; every step keeps or shrinks what is permitted. Constructing,
subclassing, copying, pickling or assigning to one gives no authority, and the registry of the authority knows each context that it
made, with what it was made of: `is_genuine` finds both a forged object and a genuine one that was written to behind its back.

That detects mistakes and mischief; it is no wall. Code in the same process can reach any memory of the process, so code that is not
trusted belongs in another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, NoReturn, Self, final

from retinue.security.accounts import Account, account_below, join_accounts
from retinue.security.decisions import named_arguments
from retinue.security.errors import DefinitionError, ForgedContext
from retinue.security.explaining import explanation
from retinue.security.limits import NO_LIMITS, Limits, Risk
from retinue.security.permissions import PermissionSet
from retinue.security.restrictions import Permission, Restriction, allow, restriction_of

if TYPE_CHECKING:
    from retinue.security.context_registry import ContextRegistry

__all__ = ["ContextFields", "Principal", "SecurityContext", "Step"]

MAX_CHILDREN: Final = 256
"""Meets with a grant, and grants to children, that one context remembers; the memo is emptied when it is full."""

Step = Literal["root", "mint", "token", "narrow", "grant"]
"""How a context came to be: the system's root, minted, unsealed from a token, narrowed by code, or met with a grant by the runtime."""

NOT_GENUINE: Final = (
    "a context that no authority made, or that was altered since, cannot be narrowed. Use system.authority.mint(subject, permissions)."
)


class Principal(NamedTuple):
    """Who a context speaks for; shared by all that is narrowed from it.

    Attributes:
        subject: The name of the person, service or agent.
        tenant: The customer or organisation, where there are several.
        project: The project, where there is one.
        session: The session, where there is one.
        policy_version: The version of the authority's policy when the first context of the lineage was made.
    """

    subject: str
    tenant: str | None = None
    project: str | None = None
    session: str | None = None
    policy_version: str = "1"


class ContextFields:
    """The slots of a context before it is sealed.

    Writing to slots around the `__setattr__` of `SecurityContext` would cost four times as much, and a message may cost a context: so
    a context is filled in as one of these and then given its class, which has the same layout and refuses writes.
    """

    __slots__ = ("__weakref__", "_accounts", "_children", "_number", "_others", "_principal", "_registry", "_step", "parent", "permissions")

    permissions: PermissionSet
    parent: SecurityContext | None
    _principal: Principal
    _registry: ContextRegistry
    _number: int
    _step: Step
    _accounts: tuple[Account, ...]
    # The contexts beside the parent that it was met with: a receiver's grant, or what was joined. If one is revoked, so is this.
    _others: tuple[SecurityContext, ...]
    _children: dict[object, SecurityContext] | None


@final
class SecurityContext(ContextFields):
    """Authority that travels with a message: immutable, final, and only ever narrowed.

    Get one from `system.authority.mint(...)`, from `narrow` on another, or, in a handler, as `self.ctx.security`. Contexts are compared
    by identity.

    Attributes:
        permissions: What is permitted.
        parent: The context that this one was narrowed from; None for the root, for minted ones and for unsealed ones.
    """

    __slots__ = ()

    def __new__(cls, *_args: object, **_kwargs: object) -> Self:
        """Refused: see the class."""
        raise TypeError(
            "a SecurityContext made by hand would carry no authority. "
            "Use system.authority.mint(subject, permissions), or narrow() on a context that you hold."
        )

    def __init_subclass__(cls) -> None:
        raise TypeError("SecurityContext is final: a subclass could answer for itself. Keep what you want to add beside the context.")

    @property
    def subject(self) -> str:
        """Whom the context speaks for."""
        return self._principal.subject

    @property
    def tenant(self) -> str | None:
        """The customer or organisation, or None."""
        return self._principal.tenant

    @property
    def project(self) -> str | None:
        """The project, or None."""
        return self._principal.project

    @property
    def session(self) -> str | None:
        """The session, or None."""
        return self._principal.session

    @property
    def policy_version(self) -> str:
        """The version of the authority's policy when the first context of the lineage was made."""
        return self._principal.policy_version

    @property
    def limits(self) -> Limits:
        """When it ends, and how much, how deep and how risky it may be; what is left of calls, tokens and cost is in `accounts`."""
        return self.permissions.limits

    @property
    def labels(self) -> frozenset[str]:
        """What it has touched: labels are added on the way, and never taken away."""
        return self.permissions.labels

    @property
    def accounts(self) -> tuple[Account, ...]:
        """What its calls, tokens and cost are charged to, together with the accounts above them; empty where nothing limits them."""
        return self._accounts

    @property
    def id(self) -> str:
        """A short name, unique to this context, for logs and audit records. It is no secret and gives nothing."""
        return f"{self._registry.prefix}-{self._number:x}"

    @property
    def lineage(self) -> tuple[str, ...]:
        """The ids from the oldest ancestor to this context itself."""
        return tuple(context.id for context in self._ancestry())

    def allows(self, operation: str, arguments: object = None, *, risk: Risk | None = None) -> bool:
        """Whether the operation is permitted now, without a person's consent; does nothing and counts nothing.

        False also where the context has expired or was revoked, has no call left, or is limited to a lower risk.

        Args:
            operation: The operation's name.
            arguments: Its arguments: a mapping by name, or the message whose fields they are. None where they are not known: then what depends on them is
                not permitted.
            risk: The operation's risk level. None: what the system's registry says, and L3 where nobody declared it.

        Raises:
            PatternError: `operation` is malformed, or is a pattern.
            ConstraintError: `risk` is none of the four levels.
            DefinitionError: `arguments` is neither a mapping nor a message.
        """
        permissions = self.permissions
        if not permissions.permits(operation, None if arguments is None else named_arguments(arguments, "allows()")):
            return False
        registry = self._registry
        if registry.revoked or permissions.limits is not NO_LIMITS or self._accounts:
            return not registry.obstacles(self, operation, risk)
        return True

    def explain(self, operation: str, arguments: object = None, *, risk: Risk | None = None) -> str:
        """Whether the operation is permitted now, and if not, why: which layers and which arguments' constraints refuse it or ask for a person's
        consent, and where on the way each was added; that the context was revoked or has expired; its limits. Values are never shown.

        Args:
            operation: The operation's name.
            arguments: Its arguments, as for `allows`.
            risk: Its risk level, as for `allows`.

        Raises:
            PatternError: `operation` is malformed, or is a pattern.
            ConstraintError: `risk` is none of the four levels.
            DefinitionError: `arguments` is neither a mapping nor a message.
        """
        named = named_arguments(arguments, "explain()")
        return explanation(self, operation, named, self._registry.obstacles(self, operation, risk))

    def narrow(self, *restrictions: Restriction | SecurityContext | str | Iterable[Permission]) -> SecurityContext:
        """A context that permits what this one does and what each restriction does, and nothing else.

        It never widens and never fails for asking too much: the result is the intersection. The context itself is returned where
        nothing shrinks. Limits on calls, tokens or cost that are smaller than what the context has open an account of their own below its
        accounts.

        Args:
            restrictions: What `allow(...)`, `where(...)`, `deny(...)`, `limit(...)`, `expires(...)`, `max_risk(...)`, `needs_approval(...)`,
                `label(...)` and `unlabelled(...)` return; another context, which adds all its layers, limits, labels and accounts, and whose
                revocation counts; a list of permissions as `mint` takes it, `[]` permitting nothing; or one pattern.

        Raises:
            PatternError: A pattern is malformed.
            DefinitionError: Something else was given, or several bare patterns: it would be unclear whether any or all must permit.
            ForgedContext: This object, or a context that was given, is not genuine.
        """
        registry: ContextRegistry | None = getattr(self, "_registry", None)
        if registry is None:
            raise ForgedContext(NOT_GENUINE)
        permissions = self.permissions
        accounts = mine = self._accounts
        others: tuple[SecurityContext, ...] = ()
        bare = 0
        for given in restrictions:
            if type(given) is Restriction:
                restriction = given
            elif isinstance(given, str):
                bare += 1
                restriction = allow(given)
            elif type(given) is SecurityContext:
                if not registry.includes(self, given):
                    permissions = permissions.meet(given.permissions)
                    accounts = join_accounts(accounts, given._accounts)
                    others += (given,)
                continue
            else:
                restriction = restriction_of(given)  # what it is, is checked there
            if restriction.only_layers:
                permissions = permissions.meet_layers(restriction.layers)
                continue
            met = permissions.meet_restriction(restriction, registry.now_ms)
            if met is not permissions:
                if met.limits.spends_less_than(permissions.limits):
                    accounts = (account_below(accounts, met.limits),)
                permissions = met
        if bare > 1:
            raise DefinitionError(
                "narrow() was given several bare patterns, which could mean any of them or all of them. "
                "Write narrow(['fs.read', 'web.get']) to permit each of them; chain narrow() to demand all."
            )
        if permissions is self.permissions and not others and accounts is mine:
            return self
        return registry.derive(self, permissions, "narrow", accounts, others)

    def descends_from(self, other: SecurityContext) -> bool:
        """Whether this context is `other` or was narrowed from it, in however many steps.

        The registry's record is followed, not the attributes; an object that is not genuine descends from nothing.
        """
        return self._registry.descends(self, other)

    def _meet(self, grant: SecurityContext) -> SecurityContext:
        """For the runtime: the effective context of a message with a receiver's grant.

        `self` where the grant takes nothing away and has gone into it already, or is the root's, which cannot be revoked. Else a child, though it
        may permit the same: it ends when the grant is revoked.
        """
        theirs = grant.permissions
        their_accounts = grant._accounts
        is_root = grant._step == "root"
        if grant is self or (is_root and theirs.is_everything and not their_accounts):
            return self
        children = self._children
        if children is not None:
            child = children.get(grant)
            if child is not None:
                return child
        met = self.permissions.meet(theirs)
        accounts = join_accounts(self._accounts, their_accounts)
        if met is self.permissions and accounts is self._accounts and (is_root or self._registry.includes(self, grant)):
            return self
        child = self._registry.derive(self, met, "grant", accounts, (grant,))
        return child if self._registry.is_revoked(grant) else self._keep(grant, child)

    def _grant(self, permissions: Iterable[Permission]) -> SecurityContext:
        """For the runtime: the grant of a child of whoever acts under this context. `self` where nothing is taken away.

        Children that are spawned with the same permissions share one context, unless it has an account or a deadline of its own.

        Raises:
            DefinitionError, PatternError: As for `mint`.
        """
        restriction = restriction_of(permissions, what="grant")
        met = self.permissions.meet_restriction(restriction, self._registry.now_ms)
        if met is self.permissions:
            return self
        accounts = self._accounts
        if met.limits.spends_less_than(self.permissions.limits):
            return self._registry.derive(self, met, "grant", (account_below(accounts, met.limits),))
        child = self._children.get(met) if self._children is not None else None
        if child is not None:
            return child
        child = self._registry.derive(self, met, "grant", accounts)
        return child if restriction.lifetime_ms is not None else self._keep(met, child)

    def _keep(self, key: object, child: SecurityContext) -> SecurityContext:
        children = self._children
        if children is None:
            children = {}
            _set_children(self, children)
        elif len(children) >= MAX_CHILDREN:
            children.clear()
        children[key] = child
        return child

    def _ancestry(self) -> list[SecurityContext]:
        """The contexts from the oldest ancestor to this one."""
        found: list[SecurityContext] = []
        context: SecurityContext | None = self
        while context is not None:
            found.append(context)
            context = context.parent
        found.reverse()
        return found

    def __repr__(self) -> str:
        try:
            return f"<SecurityContext {self.id} of {self.subject!r}: {self.permissions.text}>"
        except AttributeError:  # made around the constructor: nothing is set
            return "<SecurityContext that no authority made>"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a SecurityContext is immutable: {name!r} cannot be set. Use narrow() for a smaller one.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a SecurityContext is immutable: {name!r} cannot be deleted.")

    def __copy__(self) -> NoReturn:
        raise TypeError("a SecurityContext is not copied: a copy would carry no authority. Pass the context itself; it is immutable.")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise TypeError("a SecurityContext is not copied: a copy would carry no authority. Keep contexts out of what you deep-copy.")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a SecurityContext is not pickled: bytes carry no authority. Send the message; the runtime carries its context.")


_set_children: Final[Callable[[SecurityContext, dict[object, SecurityContext]], None]] = ContextFields.__dict__["_children"].__set__
