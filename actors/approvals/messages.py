"""What is said to the desk. It is said by the system's holder alone: no handler gets the desk's ref, and `system.approvals` is refused in handlers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from retinue.actors.approvals.ledger import TIMEOUT
from retinue.mailbox.messages import Message, Request, message
from retinue.security.approvals import ApprovalRequest
from retinue.security.standing import StandingConsent

__all__ = [
    "ApprovalEvent",
    "ApprovalStatistics",
    "Approve",
    "Changes",
    "EditRequest",
    "Interrupted",
    "KeepAlways",
    "Poke",
    "Reject",
    "SettleInterrupted",
    "TakeBack",
    "Withdraw",
]


@attrs.frozen
class ApprovalEvent:
    """Something that happened at the desk, in whatever process.

    Attributes:
        number: Events of one file are numbered from 1.
        at_ms: When, in epoch milliseconds.
        kind: "requested", "approved", "rejected", "responded", "edited", "cancelled", "expired", "spent", "outcome", "indeterminate", "resolved", "feedback",
            "always", "withdrawn", "recovered" or "clock reset".
        request_id: The request that it is about, or None.
        jti: The approval that it is about, or None.
        standing_id: The standing consent that it is about, or None.
        who: Who did it, or None.
        detail: A few words: the note, the outcome.
    """

    number: int
    at_ms: int
    kind: str
    request_id: str | None
    jti: str | None
    standing_id: str | None
    who: str | None
    detail: str


@attrs.frozen
class ApprovalStatistics:
    """How many there are at one moment.

    Attributes:
        pending, approved, rejected, expired, cancelled: Requests of that status, spent ones among the approved.
        spent: Approvals that were spent and are still remembered.
        indeterminate: Those of them whose outcome is not known, and that no person has resolved.
        standing: Standing consents in force.
    """

    pending: int
    approved: int
    rejected: int
    expired: int
    cancelled: int
    spent: int
    indeterminate: int
    standing: int


@attrs.frozen
class Interrupted:
    """An approval that was spent, and whose process ended before it noted how it went: the effect may have happened, or not.

    Attributes:
        jti: Its id, which the effect had as its idempotency key.
        request_id: The request, or None for a standing consent.
        standing_id: The standing consent, or None.
        operation, subject, audience: Of the call.
        approver: Who consented.
        spent_ms: When it was spent, in epoch milliseconds.
    """

    jti: str
    request_id: str | None
    standing_id: str | None
    operation: str | None
    subject: str
    audience: str
    approver: str
    spent_ms: int


@message(name="retinue-approvals/Approve@1", timeout=TIMEOUT)
class Approve(Request[str]):
    """Approves a request. Answers with the token.

    Attributes:
        id: The request.
        reviewer: Who approves.
        asserted: Whether code said who that is.
        note: What they say.
        expires_seconds: How long the token is good for: at most 3,600 seconds.
        batch: The id of the decision that it is decided in together with others.
        key: The private key, as the office adds it.
    """

    id: str
    reviewer: str
    asserted: bool
    note: str
    expires_seconds: float
    batch: str | None = None
    key: Any = attrs.field(default=None, repr=False)


@message(name="retinue-approvals/Reject@1", timeout=TIMEOUT)
class Reject(Request[ApprovalRequest]):
    """Rejects or cancels a request.

    Attributes:
        id: The request.
        reviewer: Who does.
        asserted: Whether code said who that is.
        note: What they say.
        kind: "rejected", "responded" or "cancelled".
        batch: The id of the decision that it is decided in together with others.
    """

    id: str
    reviewer: str
    asserted: bool
    note: str
    kind: str = "rejected"
    batch: str | None = None


@message(name="retinue-approvals/EditRequest@1", timeout=TIMEOUT)
class EditRequest(Request[ApprovalRequest]):
    """Puts a request with other arguments in a request's place. Answers with the new one.

    Attributes:
        id: The old request.
        arguments: All arguments of the new one.
        reviewer: Who edits.
        asserted: Whether code said who that is.
        note: What they say.
    """

    id: str
    arguments: Mapping[str, Any]
    reviewer: str
    asserted: bool
    note: str


@message(name="retinue-approvals/KeepAlways@1", timeout=TIMEOUT)
class KeepAlways(Request[StandingConsent]):
    """Signs and keeps a standing consent.

    Attributes:
        pattern: Of the operations.
        approver: Who consents.
        asserted: Whether code said who that is.
        subject, tenant, audience, definition: Of the calls; None for any.
        constraints: On the arguments, by name.
        open: Whether arguments without a constraint may be anything.
        lifetime_ms: How long it is in force, in milliseconds.
        key: The private key, as the office adds it.
    """

    pattern: str
    approver: str
    asserted: bool
    subject: str | None
    tenant: str | None
    audience: str | None
    definition: str | None
    constraints: Mapping[str, Any]
    open: bool
    lifetime_ms: int
    key: Any = attrs.field(default=None, repr=False)


@message(name="retinue-approvals/Withdraw@1", timeout=TIMEOUT)
class Withdraw(Request[None]):
    """Withdraws a standing consent.

    Attributes:
        id: The standing consent.
        reviewer: Who withdraws it.
    """

    id: str
    reviewer: str


@message(name="retinue-approvals/SettleInterrupted@1", timeout=TIMEOUT)
class SettleInterrupted(Request[None]):
    """A person says how something ended that was interrupted.

    Attributes:
        jti: What was spent.
        outcome: "succeeded", "failed" or "not run".
        reviewer: Who says so.
        asserted: Whether code said who that is.
        note: How they know.
    """

    jti: str
    outcome: str
    reviewer: str
    asserted: bool
    note: str


@message(name="retinue-approvals/Changes@1", timeout=86_400.0)
class Changes(Request[tuple[int, tuple[ApprovalEvent, ...]]]):
    """Waits for events after one. Answers with the number of the last event, and with them.

    Attributes:
        after: The number of an event; -1: answers at once with the number of the last one.
    """

    after: int


@message(name="retinue-approvals/TakeBack@1", timeout=TIMEOUT)
class TakeBack(Request[None]):
    """Cancel what was asked for a run that nobody goes on with, or what has replaced it. What is decided, and what was asked for somebody else, stays as it is.

    Attributes:
        ids: The requests.
        owner: For whom the run went: subject, tenant, session.
        runs: Runs of which all that waits is cancelled.
    """

    ids: tuple[str, ...]
    owner: tuple[str, str | None, str | None]
    runs: tuple[str, ...] = ()


@message(name="retinue-approvals/Poke@1", timeout=TIMEOUT)
class Poke(Message):
    """Something happened in the file."""
