"""The security context: whose authority a message carries, and how much of it.

A context is made by an authority (`mint`) or by narrowing one that was; every step keeps or shrinks what is permitted. Constructing,
subclassing, copying, pickling or assigning to one gives no authority, and the registry of the authority knows each context that it
made, with what it was made of: `is_genuine` finds both a forged object and a genuine one that was written to behind its back.

That detects mistakes and mischief; it is no wall. Code in the same process can reach any memory of the process, so code that is not
trusted belongs in another one.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple, NoReturn, Self, TypeGuard, cast, final
from weakref import ReferenceType, ref

from retinue.security.errors import DefinitionError, ForgedContext
from retinue.security.operations import check_operation
from retinue.security.permissions import Layer, PermissionSet, PermissionTable, Restriction, allow, layers_of, refusal_of

__all__ = ["ContextRegistry", "Principal", "SecurityContext", "Step"]

MAX_CHILDREN: Final = 256
"""Meets with a grant that one context remembers; the memo is emptied when it is full."""

Step = Literal["root", "mint", "narrow", "grant"]
"""How a context came to be: the system's root, minted, narrowed by code, or met with a receiver's grant by the runtime."""

_ADDED_BY: Final[dict[Step, str]] = {
    "root": "the permissions of the system",
    "mint": "mint()",
    "narrow": "narrow()",
    "grant": "the grant of an actor that the message went through",
}


_NOT_GENUINE: Final = (
    "a context that no authority made, or that was altered since, cannot be narrowed. Use system.authority.mint(subject, permissions)."
)


class Principal(NamedTuple):
    """Who a context speaks for; shared by all that is narrowed from it.

    Attributes:
        subject: The name of the person, service or agent.
        tenant: The customer or organisation, where there are several.
        project: The project, where there is one.
        session: The session, where there is one.
    """

    subject: str
    tenant: str | None = None
    project: str | None = None
    session: str | None = None


class _Fields:
    """The slots of a context before it is sealed.

    Writing to slots around the `__setattr__` of `SecurityContext` would cost four times as much, and a message may cost a context: so
    a context is filled in as one of these and then given its class, which has the same layout and refuses writes.
    """

    __slots__ = ("__weakref__", "_children", "_number", "_principal", "_registry", "_step", "parent", "permissions")

    permissions: PermissionSet
    parent: SecurityContext | None
    _principal: Principal
    _registry: ContextRegistry
    _number: int
    _step: Step
    _children: dict[PermissionSet, SecurityContext] | None


@final
class SecurityContext(_Fields):
    """Authority that travels with a message: immutable, final, and only ever narrowed.

    Get one from `system.authority.mint(...)`, from `narrow` on another, or, in a handler, as `self.ctx.security`. Contexts are compared
    by identity.

    Attributes:
        permissions: What is permitted.
        parent: The context that this one was narrowed from; None for the root and for minted ones.
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
    def id(self) -> str:
        """A short name, unique to this context, for logs and audit records. It is no secret and gives nothing."""
        return f"{self._registry.prefix}-{self._number:x}"

    @property
    def lineage(self) -> tuple[str, ...]:
        """The ids from the oldest ancestor to this context itself."""
        return tuple(context.id for context in self._ancestry())

    def allows(self, operation: str) -> bool:
        """Whether the operation is permitted; does nothing and counts nothing.

        Raises:
            PatternError: `operation` is malformed, or is a pattern.
        """
        return self.permissions.permits(operation)

    def explain(self, operation: str) -> str:
        """Whether the operation is permitted, and if not, which layers refuse it and where on the way each was added.

        Raises:
            PatternError: `operation` is malformed, or is a pattern.
        """
        refusing = self.permissions.refusing(operation)
        if not refusing:
            return self.permissions.explain(operation)
        ancestry = self._ancestry()
        reasons = [f"{refusal_of(layer)} (added by {self._origin_of(layer, ancestry)})" for layer in refusing[:3]]
        if len(refusing) > len(reasons):
            reasons.append(f"and {len(refusing) - len(reasons)} more layers refuse it")
        return f"'{check_operation(operation)}' is not permitted: {'; '.join(reasons)}."

    def narrow(self, *restrictions: Restriction | str | Iterable[str | Restriction]) -> SecurityContext:
        """A context that permits what this one does and what each restriction does, and nothing else.

        It never widens and never fails for asking too much: the result is the intersection. The context itself is returned where
        nothing shrinks.

        Args:
            restrictions: `allow(...)`, `deny(...)`; a list of permissions as `mint` takes it, `[]` permitting nothing; or one pattern.

        Raises:
            PatternError: A pattern is malformed.
            DefinitionError: Something else was given, or several bare patterns: it would be unclear whether any or all must permit.
            ForgedContext: This object is no genuine context.
        """
        if getattr(self, "_registry", None) is None:
            raise ForgedContext(_NOT_GENUINE)
        permissions = self.permissions
        bare = 0
        for restriction in restrictions:
            if type(restriction) is Restriction:
                permissions = permissions.meet_layers(restriction.layers)
            elif isinstance(restriction, str):
                bare += 1
                permissions = permissions.meet_layers(allow(restriction).layers)
            else:
                permissions = permissions.meet_layers(layers_of(restriction))
        if bare > 1:
            raise DefinitionError(
                "narrow() was given several bare patterns, which could mean any of them or all of them. "
                "Write narrow(['fs.read', 'web.get']) to permit each of them; chain narrow() to demand all."
            )
        return self if permissions is self.permissions else self._registry.derive(self, permissions, "narrow")

    def descends_from(self, other: SecurityContext) -> bool:
        """Whether this context is `other` or was narrowed from it, in however many steps.

        The registry's record is followed, not the attributes; an object that is not genuine descends from nothing.
        """
        return self._registry.descends(self, other)

    def _meet(self, permissions: PermissionSet) -> SecurityContext:
        """For the runtime: the effective context of a message with a receiver's grant. `self` where the grant takes nothing away."""
        mine = self.permissions
        if permissions is mine or permissions.is_everything:
            return self
        children = self._children
        if children is not None:
            child = children.get(permissions)
            if child is not None:
                return child
        met = mine.meet(permissions)
        if met is mine:
            return self
        child = self._registry.derive(self, met, "grant")
        if children is None:
            children = {}
            _set_children(self, children)
        elif len(children) >= MAX_CHILDREN:
            children.clear()
        children[permissions] = child
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

    @staticmethod
    def _origin_of(layer: Layer, ancestry: list[SecurityContext]) -> str:
        # Layers are never taken away on the way down, so the first context that has one is where it was added.
        for context in ancestry:
            if layer in context.permissions.layers:
                return f"{_ADDED_BY[context._step]}, context {context.id} of {context.subject!r}"
        return "an unknown hand"

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


_set_children: Final[Callable[[SecurityContext, dict[PermissionSet, SecurityContext]], None]] = _Fields.__dict__["_children"].__set__


_Record = tuple[PermissionSet, "ReferenceType[SecurityContext] | None", Principal]
"""What a context was made of: its permissions, its parent, its principal."""


@final
class ContextRegistry:
    """The contexts that one authority made, held weakly, each with what it was made of. Safe to use from any thread.

    Attributes:
        table: Where the authority's permission sets are interned.
        prefix: The first part of the contexts' ids, random for each registry.
    """

    __slots__ = ("_forget", "_live", "_numbers", "prefix", "table")

    def __init__(self, table: PermissionTable) -> None:
        self.table = table
        self.prefix = secrets.token_hex(3)
        self._numbers = itertools.count(1)
        # A dict with weak keys by hand: `WeakKeyDictionary` costs three times as much, and this is asked on every hop. An entry's
        # callback is `dict.pop` itself, so it runs in C, in one step, in whichever thread drops the context.
        # The parent stands in its record weakly: a context remembers children (`_meet`), and a strong way back from here would keep
        # each parent and child alive for ever.
        self._live: dict[ReferenceType[SecurityContext], _Record] = {}
        self._forget = self._live.pop

    def __len__(self) -> int:
        return len(self._live)

    def enrol(self, principal: Principal, permissions: PermissionSet, parent: SecurityContext | None, step: Step) -> SecurityContext:
        """A new context, known to this registry from now on. Only the authority and `derive` call this."""
        fields = _Fields()
        fields.permissions = permissions
        fields.parent = parent
        fields._principal = principal
        fields._registry = self
        fields._number = next(self._numbers)
        fields._step = step
        fields._children = None
        fields.__class__ = SecurityContext
        context = cast("SecurityContext", fields)
        self._live[ref(context, self._forget)] = (permissions, None if parent is None else ref(parent), principal)
        return context

    def derive(self, parent: SecurityContext, permissions: PermissionSet, step: Step) -> SecurityContext:
        """A child of a genuine context, for the same principal; `permissions` must be a meet with the parent's.

        Raises:
            ForgedContext: The parent is not genuine. Without this check a forged object could have a genuine child.
        """
        if not self.is_genuine(parent):
            raise ForgedContext(_NOT_GENUINE)
        return self.enrol(parent._principal, permissions, parent, step)

    def is_genuine(self, context: object) -> TypeGuard[SecurityContext]:
        """Whether this registry made the object, and its authority is what it was made with. Never raises."""
        # The exact type comes first: another class may answer for `==` and `hash` as it likes.
        if type(context) is not SecurityContext:
            return False
        record = self._live.get(ref(context))
        if record is None:
            return False
        try:
            permissions, parent_ref, principal = record
            parent = context.parent
            same_parent = parent is None if parent_ref is None else parent is not None and parent_ref() is parent
            return same_parent and permissions is context.permissions and principal is context._principal
        except AttributeError:  # a slot was emptied behind our back
            return False

    def descends(self, context: object, ancestor: SecurityContext) -> bool:
        """Whether `context` is genuine and is `ancestor`, or was narrowed from it."""
        step: object = context
        while self.is_genuine(step):
            if step is ancestor:
                return True
            step = step.parent
        return False
