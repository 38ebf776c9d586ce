"""How a request is decided, in a system or at the command line: what is checked, signed and written is the same."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal

from retinue.actors.approvals.works_asking import Decide
from retinue.security.approval_tokens import sign_token
from retinue.security.approvals import new_id
from retinue.security.errors import ApprovalError, DefinitionError
from retinue.security.people import same_person
from retinue.security.visible import is_seen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retinue.security.approval_keys import SigningKey
    from retinue.security.approvals import ApprovalRequest

__all__ = [
    "DEFAULT_SECONDS",
    "MAX_NOTE",
    "OUTCOMES",
    "VOID",
    "YEAR_SECONDS",
    "approval_of",
    "check_meant",
    "check_note",
    "check_reviewer",
    "check_seconds",
    "refusal_of",
]

DEFAULT_SECONDS: Final = 3_600
"""Seconds that an approval is good for, unless it is said: an hour, which is the most."""

YEAR_SECONDS: Final = 366 * 86_400
"""The longest that a standing consent is in force, in seconds."""

OUTCOMES: Final = ("succeeded", "failed", "not run")
"""What a person may have found out of what was interrupted."""

VOID: Final = "the approvals' file was damaged and mended, or is an older one, or its clock was set back"
"""Why what was approved before counts no more."""

MAX_NOTE: Final = 4_000
"""Characters of what a reviewer says."""

MAX_REVIEWER: Final = 255


def check_reviewer(reviewer: object) -> str:
    """A reviewer's name, as it will be signed. Raises DefinitionError."""
    if not isinstance(reviewer, str) or not 1 <= len(reviewer) <= MAX_REVIEWER or not reviewer.strip() or _has_surrogates(reviewer):
        raise DefinitionError(f"reviewer= says who decides: a str of 1 to {MAX_REVIEWER} characters")
    if not all(map(is_seen, reviewer)):
        raise DefinitionError(
            "reviewer= says who decides, to people who read it: it has a control character, or another one that is not seen"
        )
    return str.__str__(reviewer)


def check_note(note: object, what: str = "note") -> str:
    """A reviewer's words. Raises DefinitionError."""
    if not isinstance(note, str) or len(note) > MAX_NOTE or _has_surrogates(note):
        raise DefinitionError(f"{what}= is a str of at most {MAX_NOTE:,} characters")
    return str.__str__(note)


def check_seconds(seconds: object, most: float, what: str = "expires_seconds") -> int:
    """A length of time in milliseconds. Raises DefinitionError."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds) or not 0.001 <= seconds <= most:
        raise DefinitionError(f"{what}={seconds!r}: give seconds, more than 0 and at most {most:,.0f}")
    return round(seconds * 1_000)


def check_meant(constraints: Mapping[str, Any] | None, open_arguments: object) -> None:
    """That a standing consent says what it is for. Raises DefinitionError."""
    if not constraints and open_arguments is not True:
        raise DefinitionError(
            "without constraints it would cover only calls that have no arguments: give constraints={…} for the arguments, or open=True for any"
        )


def approval_of(
    request: ApprovalRequest, key: SigningKey, *, reviewer: str, asserted: bool, note: str, seconds: float, now_ms: int, **how: Any
) -> Decide:
    """The work that approves the request; the token in it is good only once that is committed.

    Args:
        request: As it is in the file.
        key: The private key.
        reviewer: Who approves.
        asserted: Whether code said who that is.
        note: What they say.
        seconds: How long the token is good for.
        now_ms: The time.
        how: `via` and `batch` of the work.

    Raises:
        ApprovalError: The policy asks for another person (reason "four_eyes").
    """
    if request.four_eyes and same_person(reviewer, request.subject):
        raise ApprovalError(
            f"the request {request.id} asks for another person than {request.subject!r}, whom it speaks for. Let somebody else decide.",
            reason="four_eyes",
        )
    lifetime = check_seconds(seconds, DEFAULT_SECONDS)
    jti = new_id("apt")
    token = sign_token(
        key,
        request.binding,
        request_id=request.id,
        approver=reviewer,
        now_ms=now_ms,
        lifetime_ms=lifetime,
        edit_of=request.edit_of,
        jti=jti,
    )
    return Decide(
        id=request.id,
        status="approved",
        reviewer=reviewer,
        asserted=asserted,
        note=note,
        now_ms=now_ms,
        token=token,
        jti=jti,
        token_expires_ms=now_ms + lifetime,
        **how,
    )


def refusal_of(
    request_id: str,
    *,
    kind: Literal["rejected", "responded", "cancelled"],
    reviewer: str,
    asserted: bool,
    note: str,
    now_ms: int,
    **how: Any,
) -> Decide:
    """The work that rejects or cancels a request: `respond` is a rejection with an answer."""
    status = "cancelled" if kind == "cancelled" else "rejected"
    return Decide(id=request_id, status=status, reviewer=reviewer, asserted=asserted, note=note, now_ms=now_ms, kind=kind, **how)


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
