"""`self.ctx.decision(request_id)`: what became of a request for consent that was made for whom the actor works for now.

An agent parks a run where a person must consent, and goes on when somebody has decided. Nobody brings it the tokens then: it looks here. It may for requests of the very
subject, tenant and session that its current message speaks for, and gets the tokens as something to pass on. Any other request is, to it, one that does not exist.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NoReturn

import attrs
import trio

from retinue.actors.runtime.carrying import CarriedApprovals, carry
from retinue.actors.runtime.errors import AskTimeout
from retinue.security.approvals import ASKER, MOST_EDITS, ApprovalRequest
from retinue.security.errors import ApprovalError, DefinitionError, Denied
from retinue.security.whole_texts import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retinue.actors.approvals.book import SystemApprovals
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.kernel import Kernel

__all__ = ["Decision", "check_question", "decision", "no_such_request", "take_back", "taken_back"]

AT_ONCE: Final = 500
"""Requests that are taken back in one go: the desk does nothing else meanwhile."""


@attrs.frozen
class Decision:
    """What became of a request, as of when it was read.

    Attributes:
        request: The request, or the one that has replaced it, as last edited; without its token. `request.status` says what became of it: "pending", "approved",
            "rejected", "expired" or "cancelled"; `request.note` what the reviewer said; `request.arguments` is what was consented to.
        approvals: The consent, to be passed on: `await ref.ask(message, approvals=decision.approvals)`. Empty until it is approved, and where it was used up or has
            expired since.
    """

    request: ApprovalRequest
    approvals: CarriedApprovals


def check_question(turn: Delivery, request_id: object, wait: object) -> float:
    """The seconds to wait. Raises DefinitionError for arguments of the wrong kind, and in the thread of a blocking actor."""
    if turn.thread:
        raise DefinitionError("ctx.decision waits in the loop, which a blocking actor is not in; let the actor that asks it look")
    if not isinstance(request_id, str):
        raise DefinitionError(f"ctx.decision takes the id of a request, a str, not an object of type {type(request_id).__name__}")
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not wait >= 0:
        raise DefinitionError(f"ctx.decision(…, wait={wait!r}): give seconds from 0 on, or math.inf for as long as the message has")
    return float(wait)


async def decision(kernel: Kernel, turn: Delivery, request_id: str, wait: float) -> Decision:
    """`ActorContext.decision`, for a turn."""
    book: SystemApprovals | None = getattr(kernel.gate.desk, "book", None)
    if book is None:
        _unknown(kernel, turn, request_id)
    until = trio.current_time() + wait
    found = await kernel.consult(_look, book, turn, request_id, until, holder=True)
    if found is None:
        _unknown(kernel, turn, request_id)
    request, token = found
    return Decision(request.without_token(), carry(turn.cell, () if token is None else (token,)))


async def _look(book: SystemApprovals, turn: Delivery, request_id: str, until: float) -> tuple[ApprovalRequest, str | None] | None:
    """Runs as the system: the last of the requests that replace one another, and its token; None where there is none, or it is somebody else's."""
    request: ApprovalRequest | None = None
    for _ in range(MOST_EDITS):
        request = await _get(book, turn, request_id)
        if request is not None and request.status == "pending" and trio.current_time() < until:
            try:
                await book.wait(request_id, timeout=until - trio.current_time() if until != math.inf else math.inf)
            except AskTimeout:
                pass
            request = await _get(book, turn, request_id)
        if request is None:
            return None
        if request.edited_to is None:
            break
        request_id = request.edited_to
    if request is None or request.status != "approved":
        return None if request is None else (request, None)
    try:
        return request, await book.token(request.id)
    except ApprovalError:  # used up, expired or void: who asks again asks a person again
        return request, None


async def _get(book: SystemApprovals, turn: Delivery, request_id: str) -> ApprovalRequest | None:
    if not 0 < len(request_id) <= 255:
        return None
    try:
        request = await book.get(request_id)
    except ApprovalError as error:
        if error.reason == "unknown":
            return None
        raise
    return request if belongs_to(request, turn) else None


async def take_back(
    kernel: Kernel, owner: tuple[str, str | None, str | None], request_ids: Sequence[str], runs: Sequence[str] = ()
) -> None:
    """Cancels requests that nobody waits for any more. Those that are decided, and those that were made for somebody else, stay as they are.

    Args:
        kernel: The system.
        owner: For whom they were made: subject, tenant, session.
        request_ids: Their ids.
        runs: Runs that are over: all that they have asked.
    """
    book: SystemApprovals | None = getattr(kernel.gate.desk, "book", None)
    if book is not None:
        await kernel.consult(_take_back, book, owner, tuple(dict.fromkeys(request_ids)), tuple(map(whole, runs)), holder=True)


async def _take_back(
    book: SystemApprovals, owner: tuple[str, str | None, str | None], request_ids: tuple[str, ...], runs: tuple[str, ...]
) -> None:
    from retinue.actors.approvals.messages import TakeBack

    for begin in range(0, max(len(request_ids), len(runs)), AT_ONCE):
        end = begin + AT_ONCE
        await book._tell(TakeBack(request_ids[begin:end], owner, runs[begin:end]))


def taken_back(request: ApprovalRequest) -> bool:
    """Whether nobody has decided about a request: another run that waited for it has given up, and this one may ask anew."""
    return request.status == "cancelled" and request.reviewer == ASKER


def belongs_to(request: ApprovalRequest, turn: Delivery) -> bool:
    """Whether the request was made for whom the turn acts for."""
    security = turn.security
    return (request.subject, request.tenant, request.session) == (security.subject, security.tenant, security.session)


def no_such_request(turn: Delivery, request_id: str) -> Denied:
    """The refusal: the same whether there is none, or it is somebody else's."""
    subject = turn.security.subject
    return Denied(
        f"{turn.cell.path} asks what became of the request {request_id[:80]!r}, and there is none of that id that was made for {subject!r} in this tenant and "
        "session. Send the message under the context that the request was made under",
        path=turn.cell.path,
        subject=subject,
        reason="approval",
    )


def _unknown(kernel: Kernel, turn: Delivery, request_id: str) -> NoReturn:
    raise kernel.book.refused(no_such_request(turn, request_id))
