"""Settling: how the gate comes by a person's consent, and when it is used up. Internal to the gate.

The order, and what becomes of the consent and of the call that is reserved, whatever happens:

1. The desk is asked for a valid consent. It may take its time; a cancellation goes through, and nothing has happened but that a person may be asked.
2. All else is looked at once more, since time has passed: what is genuine, revoked, declared, permitted, limited. Where the question is another one by then
   (a capability wants four eyes now), the desk is asked again.
3. The call is reserved, and the intent is recorded, whatever its risk. Whatever refuses up to here leaves the consent unspent.
4. The consent is spent, behind a shield: from its beginning on nobody's cancellation reaches it, since whoever cancels could not know whether it was spent.
5. Then the effect begins at once, without a checkpoint. Three things can still be in its way: the turn was cancelled, or nobody wants the effect any more; the
   authority was revoked or has expired; the arguments are not those that were hashed. The effect is *not run* then: that is its outcome, on record and at the
   desk; the call is given back, and the consent stays spent, for it was used.

Where `spend` itself fails, the effect is not run either. Whether the consent is spent is the desk's to know: where that is uncertain (the store failed, or took too
long), the desk is told so ("indeterminate"), and not that the effect was not run: another one with the same token may have been quicker, and be at it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from retinue.capabilities.cases import Admission, Undecidable, sentence
from retinue.capabilities.consent import INDETERMINATE, NOT_RUN, Consent, ConsentDesk, Question
from retinue.capabilities.snapshots import arguments_of
from retinue.mailbox.messages import message_info
from retinue.security.approvals import Binding, arguments_digest
from retinue.security.errors import ApprovalError, ApprovalRequired, AuthorityError, Denied, Expired, RetinueError

if TYPE_CHECKING:
    from retinue.capabilities.cases import Case
    from retinue.capabilities.gate import Gate
    from retinue.security.context import SecurityContext

__all__ = ["SPEND_TIMEOUT", "consent_to", "settle"]

_log = logging.getLogger("retinue.approvals")

MOST_QUESTIONS: Final = 3
"""How often the desk is asked about one call whose question changes meanwhile."""

SPEND_TIMEOUT: Final = 30.0
"""Seconds that spending may take, behind its shield; whether it was spent is unknown then, and the effect is not run."""

OUTCOME_TIMEOUT: Final = 5.0
"""Seconds that the desk may take to be told that an effect was not run, behind a shield."""


async def settle(gate: Gate, case: Case, wanted: Callable[[], bool]) -> Admission:
    """`Gate.settle`; what it raises is still to be counted and recorded as the gate does with any refusal."""
    desk = gate.desk
    if desk is None:
        raise case.approval_required()
    question, consent = await consent_to(gate, desk, case)
    if not wanted():
        raise Undecidable("whoever asked for it waits no longer")
    reservation = gate._reserve(case)
    record: int | None = None
    spent: bool | None = False
    try:
        record = _record(gate, case, consent)
        spent = None  # until that is known
        await _spend(desk, case, question, consent)
        spent = True
        await _last_look(gate, case, question, wanted)
        if reservation is not None:
            gate.ledger.settle(reservation, calls=1)
    except BaseException as error:
        if spent is None and isinstance(error, Exception) and not (isinstance(error, Denied) and error.reason == "store"):
            spent = False  # the desk has refused (what is no Exception cut it off, and says nothing of what it did)
        try:
            if reservation is not None:
                gate.ledger.release(reservation)
            _record_not_run(gate, case, record)
        finally:
            if spent is not False:
                await _tell(desk, consent, NOT_RUN if spent else INDETERMINATE)
        raise
    gate.allowed += 1
    return Admission(case.message, False, record, consent)


async def consent_to(gate: Gate, desk: ConsentDesk, case: Case) -> tuple[Question, Consent]:
    """A valid consent, and the question that it answers."""
    question = question_of(gate, case)
    for _ in range(MOST_QUESTIONS):
        try:
            consent = await desk.consider(question, case.approvals)
        except ApprovalRequired as required:
            cause = required.__cause__  # why what came with the message is no approval of it
            raise case.approval_required(required.requests, note=_note(cause)) from required
        except Exception as error:
            raise _refusal(case, error) from error
        if type(consent) is not Consent:
            raise Undecidable(f"the desk of approvals answered with an object of type {type(consent).__name__}")
        gate._look_once_more(case)
        again = question_of(gate, case)
        if _same(question, again):
            return again, consent
        question = again
    raise Undecidable("what a person must consent to changes faster than it can be asked")


def _note(cause: BaseException | None) -> str:
    """Why what came with the message is no approval of it, as a sentence of its own."""
    text = str(cause) if isinstance(cause, ApprovalError) else ""
    return f" {text[:1].upper()}{text[1:]}" if text else ""


def question_of(gate: Gate, case: Case) -> Question:
    """What the desk is asked about a call, as it stands."""
    security = case.security
    arguments = case.own()
    kind = type(case.message)
    definition = case.definition if isinstance(case.definition, str) else case.definition(kind)
    binding = Binding(
        operation=case.operation,
        arguments_digest=arguments_digest(arguments),
        subject=security.subject,
        tenant=security.tenant,
        session=security.session,
        audience=case.path,
        definition=definition,
        policy_version=_policy_version(gate, security),
        run=case.run,
    )
    return Question(
        binding=binding,
        arguments=arguments,
        message_type=message_info(kind).name or kind.__qualname__,
        reasons=tuple(case.asks),
        risk=case.risk,
        four_eyes=case.four_eyes,
        context_id=security.id,
    )


def _policy_version(gate: Gate, security: SecurityContext) -> str:
    """What a consent is bound to: the version of the context, and the one in force where that is another by now."""
    theirs, ours = security.policy_version, gate._authority.policy_version
    return theirs if theirs == ours else f"{theirs[:120]} under {ours[:120]}"


def _record(gate: Gate, case: Case, consent: Consent) -> int | None:
    """The intent of a call that somebody has consented to: a full record, whatever its risk."""
    if gate._audit is None:
        return None
    by = "standing consent" if consent.kind == "standing" else "request"
    detail = f"approved by {consent.approver!r}: {by} {consent.standing_id or consent.request_id}, approval {consent.jti}"
    return gate._record(case, allowed=True, reason="approval", detail=detail)


def _record_not_run(gate: Gate, case: Case, record: int | None) -> None:
    """The outcome of an intent that was recorded, and was not carried out."""
    if gate._audit is not None and record is not None:
        detail = f"of record {record}: {NOT_RUN}"
        gate._note("outcome", allowed=True, operation=case.name, security=case.security, path=case.path, reason="failed", detail=detail)


def _same(one: Question, other: Question) -> bool:
    return one.binding == other.binding and one.four_eyes == other.four_eyes and one.risk == other.risk


async def _spend(desk: ConsentDesk, case: Case, question: Question, consent: Consent) -> None:
    import trio  # here, so that the gate can be imported where there is no event loop

    with trio.move_on_after(SPEND_TIMEOUT, shield=True) as scope:
        try:
            await desk.spend(question, consent)
        except Exception as error:
            raise _refusal(case, error) from error
    if scope.cancelled_caught:
        raise case.denied(
            f"the desk of approvals did not say within {SPEND_TIMEOUT:g} s whether the approval is spent, so it counts as spent.",
            "see why the desk's store does not answer; then ask for a new approval.",
            "store",
        )


async def _last_look(gate: Gate, case: Case, question: Question, wanted: Callable[[], bool]) -> None:
    """Between the spending and the effect. There is no checkpoint in it, except where the turn was cancelled."""
    import trio

    await trio.lowlevel.checkpoint_if_cancelled()
    if not wanted():
        raise Undecidable("whoever asked for it waits no longer, and the approval is spent")
    gate._check(case)
    if gate._authority.expired(case.security):
        raise Expired("the context has expired in the moment in which the approval was spent. Ask for a new context, and a new approval.")
    if arguments_digest(arguments_of(case.message)) != question.binding.arguments_digest:
        raise Undecidable("its arguments are not those that were approved: something has changed them")


async def _tell(desk: ConsentDesk, consent: Consent, outcome: str) -> None:
    """The desk hears that the effect was not run, or that nobody knows whether the consent was spent. What goes wrong there leaves the outcome unknown, which is
    what the desk takes it for anyway.
    """
    import trio

    with trio.move_on_after(OUTCOME_TIMEOUT, shield=True) as scope:
        try:
            await desk.note_outcome(consent, outcome)
        except Exception as error:
            _log.warning("the desk could not be told of %s (%s): %s: %s", consent.jti, outcome, type(error).__name__, error)
    if scope.cancelled_caught:
        _log.warning("the desk was not told within %g s of %s (%s)", OUTCOME_TIMEOUT, consent.jti, outcome)


def _refusal(case: Case, error: Exception) -> Exception:
    """What the asker gets for an error of the desk."""
    if isinstance(error, Denied):
        if error.path is not None:
            return error
        return case.denied(sentence(str(error)), "get it approved once more, and send it with the new token.", error.reason)
    if isinstance(error, ApprovalError):
        return case.denied(
            f"it needs a person's consent, and the desk of approvals refuses: {sentence(str(error))}", "see there.", "approval"
        )
    if isinstance(error, AuthorityError):
        return error
    text = f": {sentence(str(error))}" if isinstance(error, RetinueError) else "."  # the text of an error that is not ours may hold values
    return case.denied(
        f"it needs a person's consent, and the desk of approvals failed with {type(error).__name__}{text}",
        "mend what is chained to this error, then send it again.",
        "store",
    )
