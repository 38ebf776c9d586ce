"""Consent: what the gate asks the desk of approvals, and what it takes for an answer.

The gate finds that a person must consent, and that everything else permits the call; it does not know where approvals are kept. A desk does
(`ConsentDesk`; the real one is `retinue.actors.approvals`). The gate uses it in this order, and nothing else stands between the steps:

1. `consider`: tokens and standing consents are verified; nothing is spent. Without a valid one the desk makes a durable request and raises `ApprovalRequired`.
   This may take long (a reviewer is asked), so the gate looks at everything else once more afterwards.
2. The call is reserved and the intent recorded, both of which may still refuse: the approval is unspent then.
3. `spend`: the commit point. Once it returns, the approval is used up, whatever comes.
4. The effect, at once. `note_outcome` says how it ended; where that is missing, because the process died in between, the outcome is INDETERMINATE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import attrs

if TYPE_CHECKING:
    from retinue.security.approvals import Binding

__all__ = ["FAILED", "INDETERMINATE", "MAX_APPROVALS", "NOT_RUN", "SUCCEEDED", "Approval", "Consent", "ConsentDesk", "Question"]

MAX_APPROVALS: Final = 16
"""Approval tokens that may come with one message."""

SUCCEEDED: Final = "succeeded"
"""The outcome of a handler that returned."""

FAILED: Final = "failed"
"""The outcome of a handler that raised; `"failed: "` and the name of the error's class. A cancelled one is "cancelled"."""

NOT_RUN: Final = "not run"
"""The outcome where the approval was spent and the handler was never begun, since the turn had ended, or its authority had, in that moment."""


INDETERMINATE: Final = "indeterminate"
"""What is noted where it is not known whether the consent was spent: a person is to look. A true outcome that comes later takes its place."""


@attrs.frozen
class Question:
    """What the desk is asked about one call.

    Attributes:
        binding: What a consent must be bound to: operation, digest of the arguments, subject, tenant, session, audience (the path of the actor), definition of
            the handler, policy version.
        arguments: The arguments, those of the gate's own copy: they are what was hashed, is shown, and will be executed. Not to be changed, nor kept beyond
            the call without a copy.
        message_type: The wire name of the message's class, else its qualified name.
        reasons: Why a person must consent, one text for each that asks.
        risk: "L0" to "L3", or None where nobody rated it.
        four_eyes: Whether the person who consents must be another than the subject.
        context_id: The id of the effective context; recorded, and not bound.
    """

    binding: Binding
    arguments: Mapping[str, Any]
    message_type: str
    reasons: tuple[str, ...]
    risk: str | None = None
    four_eyes: bool = False
    context_id: str = ""


@attrs.frozen
class Consent:
    """A consent that was found valid for a question.

    Attributes:
        jti: What is spent: the token's own id; of a standing consent, an id that the desk makes for this one use. Outcomes are noted by it.
        approver: Who consented.
        kind: "token" or "standing".
        request_id: The request that was approved; None for a standing consent.
        standing_id: The standing consent; None for a token.
        expires_ms: When it ends, in epoch milliseconds.
        kid: The key that it is signed with, for the desk: it must be trusted still when the consent is spent.
    """

    jti: str
    approver: str
    kind: Literal["token", "standing"] = "token"
    request_id: str | None = None
    standing_id: str | None = None
    expires_ms: int = 0
    kid: str = ""


@attrs.frozen
class Approval:
    """What a handler is told of the consent that it runs by: `self.ctx.approval`.

    Attributes:
        jti: The id of this one use, never used again: pass it on as the idempotency key of what cannot be undone.
        approver: Who consented.
        request_id: The id of the request that was approved; None where a standing consent covered the call.
    """

    jti: str
    approver: str
    request_id: str | None = None


class ConsentDesk(Protocol):
    """Where approvals are kept, as the gate sees it. All of it runs as the system, never under the authority of the message in question."""

    async def consider(self, question: Question, approvals: Sequence[str]) -> Consent:
        """Find a valid consent among the tokens that came with the message, or a standing one; nothing is spent. May be cancelled at any point.

        Args:
            question: What is asked.
            approvals: At most 16 texts, of anybody's making.

        Raises:
            ApprovalRequired: There is none. A durable request exists by then, and is in `requests`.
            Denied: A token is this call's own and was spent before (reason "spent"), and no other consent is valid.
            ApprovalError: No request can be made ("full"), or the desk cannot decide; nothing is permitted then.
            StoreUnavailable: The desk's file cannot be used; nothing is permitted then.
        """
        ...

    async def spend(self, question: Question, consent: Consent) -> None:
        """Use the consent up: durable when this returns. Called once for a consent, behind a shield; it must come to an end by itself.

        Raises:
            Denied: It was spent before, by whomever (reason "spent"), or its request was withdrawn.
            ApprovalError: It is no longer valid (reason "expired", "clock", …); it is not spent by this call.
            StoreUnavailable: It is unknown whether it is spent; it was not used.
        """
        ...

    async def note_outcome(self, consent: Consent, outcome: str) -> None:
        """Note how a spent consent's effect ended: "succeeded", "failed: TypeName", "cancelled" or "not run". Should it raise, the outcome stays unknown."""
        ...
