"""Consent for what a team's run asks itself: a member's own message, a request to a model. What people have decided, and what is sent then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from retinue.actors.agents.edits import plain_stored, same_as_stored
from retinue.actors.agents.teams.journal import Waits
from retinue.actors.runtime.deciding import taken_back
from retinue.actors.runtime.ref import Ref
from retinue.security.errors import ApprovalRequired, AuthorityError, Denied
from retinue.security.records import Record

if TYPE_CHECKING:
    from retinue.actors.agents.teams.journal import ParkedAsk
    from retinue.security.approvals import ApprovalRequest

__all__ = ["sent_with_consent"]


async def sent_with_consent(
    entry: ParkedAsk,
    request: Any,
    send: Callable[[Any, Any], Awaitable[Any]],
    decision: Callable[[str], Awaitable[Any]],
    given: Any,
    path: str,
) -> Any:
    """Sends what waited for a person once more, with what came of the decisions.

    Args:
        entry: The step.
        request: What was sent then.
        send: Sends a message with approvals.
        decision: What became of a request for consent.
        given: The approvals that whoever resumes the run has given.
        path: The team's path.

    Raises:
        Denied: A person said no, or has changed it into what cannot be sent.
        Waits: It waits still.
    """
    approvals: Any = ()
    pending: list[ApprovalRequest] = []
    target = entry.whom.path if isinstance(entry.whom, Ref) else entry.whom.member.ref.path
    arguments: Mapping[str, Any] | None = None
    edited: ApprovalRequest | None = None
    for asked in entry.requests:
        try:
            decided = await decision(asked.id)
        except AuthorityError:  # nobody knows of it any more: it is asked anew
            continue
        now = decided.request
        if taken_back(now):  # by another run that waited for the same
            continue
        if now.status in ("rejected", "cancelled"):
            words = f": {now.note}" if now.note else ""
            raise _denied(f"{path}: a person has not approved {now.binding.operation}{words}. It was not carried out", now, target)
        if now.status == "pending":
            pending.append(now)
        if now.edit_of is not None:
            arguments = now.arguments
            edited = now
        if decided.approvals:
            approvals = decided.approvals + approvals if approvals else decided.approvals
    if pending:
        first = pending[0].binding.operation
        waits = f"{path}: {first} waits for a person still"
        raise Waits(entry.whom, ApprovalRequired(waits, operation=first, path=target, requests=tuple(pending)))
    if arguments is not None and edited is not None:
        request = _edited(request, arguments, edited, path, target)
    approvals = approvals or given
    try:
        return await send(request, approvals)
    except AuthorityError as refused:
        if not approvals or getattr(refused, "reason", None) != "spent" or getattr(refused, "path", None) not in (None, target):
            raise
        return await send(request, ())  # it was for another step that is as this one, or for this one's last try: it is asked for anew


def _edited(request: Any, arguments: Mapping[str, Any], asked: ApprovalRequest, path: str, target: str) -> Any:
    """The message as a person has changed it."""
    before = {name: getattr(request, name, None) for name in arguments}
    message: Any = None
    try:
        changes = {name: _rebuilt(before[name], value) for name, value in arguments.items() if not same_as_stored(before[name], value)}
        message = attrs.evolve(request, **changes)
        fits = same_as_stored({name: getattr(message, name) for name in arguments}, dict(arguments))
    except Exception:
        fits = False
    if not fits:
        raise _denied(
            f"{path}: a person has changed {asked.binding.operation} into what cannot be sent as {type(request).__name__}. It was not carried out",
            asked,
            target,
        )
    return message


def _rebuilt(old: Any, stored: Any) -> Any:
    """A stored value as what it stands for; `old` is what stood in its place, and knows its classes."""
    if same_as_stored(old, stored):
        return old
    if isinstance(stored, Record) and attrs.has(type(old)):
        return attrs.evolve(old, **{name: _rebuilt(getattr(old, name), value) for name, value in stored.fields})
    if isinstance(stored, list | tuple) and isinstance(old, list | tuple) and len(stored) == len(old):
        return type(old)(_rebuilt(one, value) for one, value in zip(old, stored, strict=True))
    return plain_stored(stored, old)


def _denied(text: str, asked: ApprovalRequest, target: str) -> Denied:
    return Denied(text, operation=asked.binding.operation, path=target, reason="rejected")
