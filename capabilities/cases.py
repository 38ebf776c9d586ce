"""One call in front of the gate, and the errors that refuse it. Internal to the gate."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, final

from retinue.capabilities.snapshots import CannotCopy, own_copy_and_arguments
from retinue.security.context import SecurityContext
from retinue.security.errors import (
    ApprovalRequired,
    AuditUnavailable,
    AuthorityError,
    BudgetExceeded,
    DefinitionError,
    Denied,
    Expired,
    ForgedContext,
    Revoked,
)
from retinue.security.explaining import layer_origin, of_context

if TYPE_CHECKING:
    from retinue.capabilities.consent import Consent
    from retinue.capabilities.registry import Capability
    from retinue.security.approvals import ApprovalRequest

__all__ = [
    "Addressed",
    "Admission",
    "ApprovalRule",
    "Case",
    "Definition",
    "NeedsConsent",
    "Undecidable",
    "asking",
    "explained",
    "is_for_the_process",
    "reason_of",
    "sentence",
]

ApprovalRule: TypeAlias = bool | Callable[[Any], object]
"""What a handler says about consent: whether each of its messages needs it, or a predicate on the message, of which only a literal False means no."""

Definition: TypeAlias = str | Callable[[type], str]
"""A digest of what the handler is, or what finds it for the class of a message."""


class Addressed(Protocol):
    """Something that has a path. Most calls pass, and nobody asks where they went: so the path is made only for a text or a record."""

    @property
    def path(self) -> str:
        """The path, for texts and records."""
        ...


@final
class Admission:
    """The answer of a gate that lets a message pass.

    Attributes:
        message: The message to handle: the given one, or the gate's own copy of it, or what a policy rewrote it to.
        static: Whether the next message under the same context to the same handler would be admitted without looking at anything; such a verdict may be kept
            until the gate's `epoch` changes.
        record: The number of the audit record of this admission, or None where there is none. `Gate.note_outcome` takes it.
        consent: The consent that was spent for it, or None.
    """

    __slots__ = ("consent", "message", "record", "static")

    def __init__(self, message: Any, static: bool, record: int | None = None, consent: Consent | None = None) -> None:
        self.message = message
        self.static = static
        self.record = record
        self.consent = consent


class Undecidable(Exception):
    """Something that the gate needs is missing or broken; carries the sentence for the text. Never leaves the gate."""


class NeedsConsent(Exception):
    """All else permits the call, and a person must consent; nothing was charged or recorded yet. Goes from the gate to whoever can wait, and never farther.

    Attributes:
        case: The call, for `Gate.settle`.
    """

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.case = case


class Case:
    """What is known of one call while the gate decides.

    Attributes:
        security: The effective context.
        grant: The receiver's grant, or None.
        operation: What the handler requires, or None.
        message: The message; from `own` on, the gate's own copy.
        where: The actor that is addressed, or its path.
        message_type: The message's type, or its name.
        risk: The rating, or None.
        approval: Whether the handler needs a person's consent, or its predicate.
        four_eyes: Whether somebody who asks for consent wants it of another person than the subject.
        approvals: The tokens that came with the message.
        definition: The digest of what the handler is, or what finds it for the message's class.
        counted: Whether it costs a call, where calls are limited.
        arguments: The message's fields by name, from `own` on.
        asks: Why a person must consent; empty where none must.
        heard: How many of them the policies gave: the first so many.
        subject: Whom the context speaks for, once it was found genuine; None before: nothing of a forged one is told.
        capability: What the registry says, or None.
        run: The run of an agent that asks, or None; known once a person is to be asked.
    """

    __slots__ = (
        "approval",
        "approvals",
        "arguments",
        "asks",
        "capability",
        "counted",
        "definition",
        "four_eyes",
        "grant",
        "heard",
        "message",
        "message_type",
        "operation",
        "risk",
        "run",
        "security",
        "subject",
        "where",
    )

    def __init__(
        self,
        security: SecurityContext,
        grant: SecurityContext | None,
        operation: str | None,
        message: Any,
        where: str | Addressed,
        message_type: type[object] | str,
        risk: str | None,
        approval: ApprovalRule,
        approvals: Sequence[str] = (),
        definition: Definition = "",
        *,
        four_eyes: bool = False,
        counted: bool = True,
    ) -> None:
        self.counted = counted
        self.security = security
        self.grant = grant
        self.operation = operation
        self.message = message
        self.where = where
        self.message_type = message_type
        self.risk = risk
        self.approval = approval
        self.approvals = approvals
        self.definition = definition
        self.four_eyes = four_eyes
        self.arguments: dict[str, Any] | None = None
        self.asks: list[str] = []
        self.heard = 0
        self.subject: str | None = None
        self.capability: Capability | None = None
        self.run: str | None = None

    @property
    def path(self) -> str:
        """The path of the actor that is addressed."""
        where = self.where
        return where if isinstance(where, str) else where.path

    @property
    def label(self) -> str:
        """The name of the message's type."""
        kind = self.message_type
        return kind if isinstance(kind, str) else kind.__qualname__

    def own(self) -> dict[str, Any]:
        """The arguments of a copy that nobody else holds; the copy is made at the first call, and is the message from then on.

        Raises:
            Undecidable: A value can be changed by others and cannot be copied.
        """
        if self.arguments is None:
            try:
                self.message, self.arguments = own_copy_and_arguments(self.message)
            except BaseException as error:  # a value's own methods are anybody's code, and may raise anything
                if is_for_the_process(error):
                    raise
                # The text of an error that is not ours may hold the value.
                why = f": {error}" if type(error) is CannotCopy or type(error) is DefinitionError else ""
                raise Undecidable(
                    f"its arguments must be looked at and cannot be copied, so they could change after the check ({type(error).__name__}{why})"
                ) from error
        return self.arguments

    def rewrite(self, message: Any) -> None:
        """From now on it is a copy of another message, since whoever made that one may still hold it. Raises as `own`."""
        self.message = message
        self.arguments = None
        self.own()

    def denied(self, why: str, fix: str, reason: str) -> Denied:
        """A refusal: what, where, who, why, the fix."""
        return Denied(self._sentence(why, fix), operation=self.name, path=self.path, subject=self.subject, reason=reason)

    def needs_consent(self) -> bool:
        """Whether the handler itself asks for a person's consent. Its predicate sees a copy of its own, and only a literal False of it means no."""
        rule = self.approval
        if isinstance(rule, bool):
            return rule
        self.own()
        try:
            answer = rule(own_copy_and_arguments(self.message)[0])
        except BaseException as error:
            if is_for_the_process(error):
                raise
            return True
        if inspect.iscoroutine(answer):
            answer.close()  # else Python warns, much later, that nobody awaited it
        return answer is not False

    def approval_required(self, requests: Iterable[ApprovalRequest] = (), *, note: str = "") -> ApprovalRequired:
        """The refusal that a person's consent would lift."""
        shown = "it" if self.operation is None else repr(self.operation)
        why = f"{shown} needs a person's consent, and no valid approval came with it: {sentence('; '.join(self.asks))}{note}"
        requests = tuple(requests)
        return ApprovalRequired(
            self._sentence(why, _way_on(requests)),
            operation=self.name,
            path=self.path,
            requests=requests,
        )

    def refusal(self, error: Exception) -> AuthorityError:
        """The refusal for whatever went wrong while deciding; `error` itself where it is one that a case made."""
        if isinstance(error, AuditUnavailable) or (isinstance(error, Denied | ApprovalRequired) and error.path is not None):
            return error
        shown = (
            "it"
            if self.operation is None
            else repr(self.name or f"an object of type {type(self.operation).__name__}, required as an operation,")
        )
        if isinstance(error, BudgetExceeded):
            error = of_context(error, self.security)
        told = f"{self.label} to {self.path}: {shown} is not permitted: {error} Nothing was done."
        given: dict[str, Any] = {"operation": self.name, "path": self.path, "subject": getattr(error, "subject", None) or self.subject}
        for kind in (ForgedContext, Revoked, Expired):
            if isinstance(error, kind):
                return kind(told, **given)
        if isinstance(error, BudgetExceeded):
            return BudgetExceeded(told, resource=error.resource, account=error.account, **given)
        why = f"{error}; " if isinstance(error, Undecidable) else ""
        return Denied(
            f"{self.label} to {self.path}: {shown} is not permitted: {why}what cannot be decided is refused. Nothing was done. "
            "Fix the error that is chained to this one.",
            reason="undecided",
            **given,
        )

    def _sentence(self, why: str, fix: str) -> str:
        who = "" if self.subject is None else f" as {self.subject!r}"
        return f"{self.label} to {self.path}{who}: {why} Nothing was done. Fix: {fix}"

    @property
    def name(self) -> str | None:
        """The operation, where it is a `str`."""
        return self.operation if isinstance(self.operation, str) else None


def _way_on(requests: tuple[ApprovalRequest, ...]) -> str:
    """What whoever asked is to do: what is approved already needs no person, but its token."""
    send = "send it again with the token: approvals=[token]."
    approved = next((one.id for one in requests if one.status == "approved"), None)
    if approved is not None:
        return (
            f"{approved} is approved; take its token (`retinue approvals show {approved} --token`, `system.approvals.token(id)`, or "
            f"`retinue ask --wait-approval SECONDS`), then {send}"
        )
    named = f" ({', '.join(one.id for one in requests)})" if requests else ""
    return f"get it approved{named}, then {send}"


def sentence(text: str) -> str:
    """`text` with a full stop, where it has no end of its own."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def is_for_the_process(error: BaseException) -> bool:
    """Whether an error is meant for the whole process (SystemExit, KeyboardInterrupt), or has such a one in it: no code that is asked answers with it."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_for_the_process(one) for one in error.exceptions)
    return isinstance(error, SystemExit | KeyboardInterrupt)


def reason_of(error: AuthorityError) -> str:
    """The stable word for a refusal, as the audit keeps it."""
    return error.reason if isinstance(error, Denied) else "approval" if isinstance(error, ApprovalRequired) else "undecided"


def asking(case: Case, operation: str) -> list[str]:
    """Which layers ask for a person's consent, and who added them."""
    refusals = case.security.permissions.refusals(operation, _told_arguments(case))
    return [f"{reason} (added by {layer_origin(layer, case.security)})" for layer, reason in refusals] or ["a layer asks for it"]


def explained(case: Case, operation: str) -> str:
    """What `context.explain` says, so that a refusal and a question asked beforehand read the same."""
    try:
        return case.security.explain(operation, _told_arguments(case), risk=case.risk)  # type: ignore[arg-type]  # one of the four, see Gate._begin
    except Exception as error:
        return f"{operation!r} is not permitted (why could not be told: {type(error).__name__})."


def _told_arguments(case: Case) -> dict[str, Any] | None:
    """The arguments for a text, also where the answer did not depend on them: else a layer that permits them would be told of as one that refuses."""
    try:
        if any(rule.constraints for layer in case.security.permissions.layers for rule in layer.rules):
            return case.own()
    except Exception:  # nothing can be told of them
        return None
    return {}
