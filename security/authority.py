"""The authority of a system: the only maker of contexts that are not narrowed from another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NoReturn, final

import attrs

from retinue.security.context import ContextRegistry, Principal, SecurityContext
from retinue.security.errors import AuthorityError, DefinitionError, ForgedContext
from retinue.security.permissions import PermissionSet, PermissionTable, Restriction, layers_of

__all__ = ["Authority", "AuthorityStatistics"]

MAX_NAME_LENGTH: Final = 255
"""Characters in a subject, tenant, project or session."""


@attrs.frozen
class AuthorityStatistics:
    """What an authority holds at one moment.

    Attributes:
        contexts: Contexts that are alive.
        permission_sets: Permission sets that are alive.
    """

    contexts: int
    permission_sets: int


def _check_name(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise DefinitionError(f"mint(): the {what} is a str, not an object of type {type(value).__name__}.")
    plain = str.__str__(value)
    if not plain or len(plain) > MAX_NAME_LENGTH:
        raise AuthorityError(
            f"mint(): the {what} has 1 to {MAX_NAME_LENGTH} characters, and this one has {len(plain)}. Use a short, stable name."
        )
    return plain


@final
class Authority:
    """Makes, knows and checks the security contexts of one system. Safe to use from any thread.

    Args:
        root_permissions: What the root context permits, as `mint` takes it; None is everything, an empty list nothing. Nothing that
            this authority mints ever permits more.
        subject: The subject of the root context.

    Attributes:
        root: The context of the system itself.
        guard: Called first by `mint`, where set; the runtime sets one that raises `Denied` inside a handler, so that no actor can
            mint its way out of the authority that it was given.

    Raises:
        DefinitionError: `root_permissions` is no list of patterns and restrictions, or `subject` no `str`.
        PatternError: A pattern is malformed.
    """

    __slots__ = ("__weakref__", "_registry", "_table", "guard", "root")

    def __init__(self, root_permissions: Iterable[str | Restriction] | None = None, subject: str = "root") -> None:
        self._table = PermissionTable()
        self._registry = ContextRegistry(self._table)
        self.guard: Callable[[], None] | None = None
        permissions = self._table.everything if root_permissions is None else self._table.intern(layers_of(root_permissions))
        self.root: Final = self._registry.enrol(Principal(_check_name(subject, "subject")), permissions, None, "root")

    @property
    def everything(self) -> PermissionSet:
        """The set that permits every operation."""
        return self._table.everything

    @property
    def nothing(self) -> PermissionSet:
        """The set that permits no operation."""
        return self._table.nothing

    def permission_set(self, permissions: Iterable[str | Restriction]) -> PermissionSet:
        """The interned set of a list of patterns and restrictions. It is *not* bounded by the root's: meet it with what it is granted from.

        The patterns make one layer, any of which may permit; each restriction must permit too. An empty list permits nothing, and so
        does one of denials alone: write `["**", deny("fs.delete")]` for "everything but".

        Raises:
            DefinitionError: `permissions` is a bare `str`, no iterable, or holds something else.
            PatternError: A pattern is malformed.
        """
        return self._table.intern(layers_of(permissions))

    def mint(
        self,
        subject: str,
        permissions: Iterable[str | Restriction],
        *,
        tenant: str | None = None,
        project: str | None = None,
        session: str | None = None,
    ) -> SecurityContext:
        """A new context with no parent, within the permissions of the root.

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
        principal = Principal(
            _check_name(subject, "subject"),
            None if tenant is None else _check_name(tenant, "tenant"),
            None if project is None else _check_name(project, "project"),
            None if session is None else _check_name(session, "session"),
        )
        within = self._table.intern(layers_of(permissions)).meet(self.root.permissions)
        return self._registry.enrol(principal, within, None, "mint")

    def is_genuine(self, context: object) -> bool:
        """Whether this authority made the object, and its permissions, parent and principal are those it was made with. Never raises."""
        return self._registry.is_genuine(context)

    def check(self, context: object) -> None:
        """Return if the context is genuine.

        Raises:
            ForgedContext: It is no context, one of another authority, or one that was forged or altered; the text says which.
        """
        if self._registry.is_genuine(context):
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
        """How many contexts and permission sets are alive."""
        return AuthorityStatistics(contexts=len(self._registry), permission_sets=len(self._table))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("an Authority is neither copied nor pickled: there is one for each system.")
