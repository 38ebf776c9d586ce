"""One call in front of the gate, and the errors that refuse it. Internal to the gate."""

from __future__ import annotations

from typing import Any, Final

from retinue.capabilities.snapshots import arguments_of, own_copy
from retinue.security.context import SecurityContext
from retinue.security.errors import ApprovalRequired, AuthorityError, BudgetExceeded, Denied, Expired, ForgedContext, Revoked

__all__ = ["RISKS", "UNRATED", "Case", "Undecidable", "reason_of"]

RISKS: Final = {None: 1, "L0": 0, "L1": 1, "L2": 2, "L3": 3}
"""The level of each rating; an operation that nobody rated is audited like one of L1, and bounded by `max_risk` like one of L3."""

UNRATED: Final = 3

_NOT_DONE: Final = "Nothing was done."


class Undecidable(Exception):
    """Something that the gate needs is missing or broken; carries the sentence for the text. Never leaves the gate."""


class Case:
    """What is known of one call while the gate decides.

    Attributes:
        security: The effective context.
        grant: The receiver's grant, or None.
        operation: What the handler requires, or None.
        message: The message; from `own` on, the gate's own copy.
        path: The path of the actor that is addressed.
        label: The name of the message's type.
        risk: The rating, or None.
        asks: Why a person must consent; empty where none must.
        believed: Whether the context was found genuine: nothing of a forged one is told.
    """

    __slots__ = (
        "approval",
        "approvals",
        "arguments",
        "asks",
        "believed",
        "grant",
        "label",
        "message",
        "operation",
        "path",
        "reservation",
        "risk",
        "security",
        "timeout",
    )

    def __init__(
        self,
        security: SecurityContext,
        grant: SecurityContext | None,
        operation: str | None,
        message: Any,
        path: str,
        message_type: type[object] | str,
        risk: str | None,
        approval: bool,
        approvals: tuple[object, ...],
    ) -> None:
        self.security = security
        self.grant = grant
        self.operation = operation
        self.message = message
        self.path = path
        self.label = message_type if isinstance(message_type, str) else message_type.__qualname__
        self.risk = risk
        self.approval = approval
        self.approvals = approvals
        self.arguments: dict[str, Any] | None = None
        self.asks: list[str] = []
        self.believed = False
        self.reservation: Any = None
        self.timeout: float | None = None

    def own(self) -> dict[str, Any]:
        """Takes a copy of the message that nobody else holds, and gives its arguments."""
        try:
            self.message = own_copy(self.message)
            self.arguments = arguments_of(self.message)
        except Exception as error:
            raise Undecidable(
                f"its arguments must be looked at and cannot be copied, so they could change after the check ({type(error).__name__}: {error})"
            ) from error
        return self.arguments

    def sentence(self, why: str, fix: str) -> str:
        """The text of a refusal: what, where, who, why, the fix."""
        who = f" as {self.security.subject!r}" if self.believed else ""
        return f"{self.label} to {self.path}{who}: {why} {_NOT_DONE} Fix: {fix}"

    def denied(self, why: str, fix: str, reason: str) -> Denied:
        """A plain refusal."""
        return Denied(self.sentence(why, fix), operation=self.name, path=self.path, subject=self.subject, reason=reason)

    def approval_required(self, why: str) -> ApprovalRequired:
        """The refusal that a person's consent would lift."""
        shown = "it" if self.operation is None else repr(self.operation)
        return ApprovalRequired(
            self.sentence(
                f"{shown} needs a person's consent ({why}), and no approval came with it.", "get it approved, then send it again."
            ),
            operation=self.name,
            path=self.path,
        )

    def undecided(self, error: Exception) -> Denied:
        """The refusal for whatever went wrong while deciding; the error is to be chained."""
        shown = (
            "it"
            if self.operation is None
            else repr(self.name or f"an object of type {type(self.operation).__name__}, required as an operation,")
        )
        if isinstance(error, ForgedContext):
            return ForgedContext(self._told(shown, str(error)), operation=self.name, path=self.path, subject=error.subject)
        if isinstance(error, Revoked):
            return Revoked(self._told(shown, str(error)), operation=self.name, path=self.path, subject=error.subject or self.subject)
        if isinstance(error, Expired):
            return Expired(self._told(shown, str(error)), operation=self.name, path=self.path, subject=error.subject or self.subject)
        if isinstance(error, BudgetExceeded):
            return BudgetExceeded(
                self._told(shown, str(error)),
                resource=error.resource,
                operation=self.name,
                path=self.path,
                subject=error.subject or self.subject,
            )
        why = f"{error}; " if isinstance(error, Undecidable) else ""
        text = self._told(shown, f"{why}what cannot be decided is refused. Fix the error that is chained to this one.")
        return Denied(text, operation=self.name, path=self.path, subject=self.subject, reason="undecided")

    def _told(self, shown: str, why: str) -> str:
        return f"{self.label} to {self.path}: {shown} is not permitted: {why}"

    @property
    def name(self) -> str | None:
        """The operation, where it is a `str`."""
        return self.operation if isinstance(self.operation, str) else None

    @property
    def subject(self) -> str | None:
        """Whom the context speaks for, if it is genuine."""
        return self.security.subject if self.believed else None


def reason_of(error: AuthorityError) -> str:
    """The stable word for a refusal, as the audit keeps it."""
    return error.reason if isinstance(error, Denied) else "approval" if isinstance(error, ApprovalRequired) else "undecided"
