"""The gate: the one door between a message and a handler that requires an operation.

Only a literal True opens it. An exception, a truthy something, an object that is no genuine context, a malformed name: all refuse.
"""

from __future__ import annotations

from typing import Final, NoReturn, final

import attrs

from retinue.security.authority import Authority
from retinue.security.context import SecurityContext
from retinue.security.errors import AuthorityError, Denied, ForgedContext
from retinue.security.permissions import PermissionSet

__all__ = ["Gate", "GateStatistics"]

_CANARY: Final = "retinue.gate.canary"


@attrs.frozen
class GateStatistics:
    """What a gate decided so far.

    Attributes:
        allowed: Messages that were let through.
        refused: Messages that were refused.
    """

    allowed: int
    refused: int


@final
class Gate:
    """Admits or refuses messages by the effective context that they carry.

    Args:
        authority: The authority of the system; contexts that it did not make are refused.

    Attributes:
        allowed: Messages that `admit` let through. Whoever answers from a remembered `verdict` adds its own.
        refused: Messages that `admit` refused.
    """

    __slots__ = ("_authority", "allowed", "refused")

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self.allowed = 0
        self.refused = 0

    def verdict(self, permissions: PermissionSet, operation: str) -> bool:
        """Whether the set permits the operation, for a cache keyed by both; counts nothing and never raises.

        True only where the answer is the literal True. A caller that gets False goes to `admit`, which refuses with the reasons.
        """
        try:
            return permissions.permits(operation) is True
        except Exception:
            return False

    def admit(self, context: SecurityContext, operation: str, *, path: str, message_type: type[object] | str) -> None:
        """Return if the message may be handled.

        Args:
            context: The effective context: the message's, met with the receiver's grant.
            operation: The operation that the handler requires.
            path: The path of the actor that is addressed, for the text.
            message_type: The message's class or its name, for the text.

        Raises:
            Denied: The context does not permit the operation, or that could not be decided; then the reason is chained.
            ForgedContext: The context was not made by this system's authority, or was altered since (a `Denied` too).
        """
        try:
            self._authority.check(context)
            admitted = context.permissions.permits(operation) is True
        except Exception as error:
            self._refuse_undecided(context, operation, path, message_type, error)
        if not admitted:
            self._refuse(context, operation, path, message_type)
        self.allowed += 1

    def self_test(self) -> None:
        """Prove that the gate refuses: a canary operation under the empty set, and a context that no authority made.

        The counts are left as they were.

        Raises:
            AuthorityError: Something was let through. The system must not start.
        """
        before = (self.allowed, self.refused)
        try:
            nothing = self._authority.root.narrow([])
            stranger: SecurityContext = object.__new__(SecurityContext)
            for context in (nothing, stranger):
                try:
                    self.admit(context, _CANARY, path="/system/gate", message_type="the gate's self-test")
                except Denied:
                    continue
                raise AuthorityError(
                    f"the gate's self-test failed: it let {_CANARY!r} through under {context!r}. Do not run this system; reinstall it."
                )
            if self.verdict(nothing.permissions, _CANARY) is not False:
                raise AuthorityError(
                    f"the gate's self-test failed: {_CANARY!r} is permitted by the empty set. Do not run this system; reinstall it."
                )
        finally:
            self.allowed, self.refused = before

    def statistics(self) -> GateStatistics:
        """The counts."""
        return GateStatistics(allowed=self.allowed, refused=self.refused)

    def _refuse(self, context: SecurityContext, operation: str, path: str, message_type: type[object] | str) -> NoReturn:
        self.refused += 1
        subject = context.subject
        try:
            refused = bool(context.permissions.refusing(operation))
            reason = context.explain(operation) if refused else f"{operation!r} is not permitted: the answer was not the literal True."
        except Exception as error:
            reason = f"{operation!r} is not permitted (why could not be told: {type(error).__name__})."
        raise Denied(
            f"{_label(message_type)} to {path} as {subject!r}: {reason} Nothing was done. "
            f"Fix: send it under a context whose layers and whose receiver's grant all permit {operation!r}.",
            operation=operation,
            path=path,
            subject=subject,
        )

    def _refuse_undecided(
        self, context: object, operation: object, path: str, message_type: type[object] | str, error: Exception
    ) -> NoReturn:
        self.refused += 1
        name = operation if isinstance(operation, str) else None
        shown = f"an object of type {type(operation).__name__}, required as an operation," if name is None else repr(name)
        kind = Denied
        fix = "what cannot be decided is refused. Fix the error that is chained to this one."
        if isinstance(error, ForgedContext):
            kind, fix = ForgedContext, str(error)
        raise kind(
            f"{_label(message_type)} to {path}: {shown} is not permitted: {fix}",
            operation=name,
            path=path,
            subject=error.subject if isinstance(error, Denied) else _subject(context),
        ) from error


def _label(message_type: type[object] | str) -> str:
    return message_type if isinstance(message_type, str) else message_type.__qualname__


def _subject(context: object) -> str | None:
    """The subject of a genuine-looking context; nothing of a forged one is believed."""
    if type(context) is not SecurityContext:
        return None
    try:
        return context.subject
    except AttributeError:
        return None
