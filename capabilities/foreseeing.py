"""Foreseeing: what the gate is certain to refuse, told before the message is sent. For borders, where whoever sends cannot look into the dead letters.

Nothing is charged, and no consent is spent: what is foreseen to pass may still be refused, when it is handled. Policies are not asked beforehand, for they may
count or wait, and may rewrite the arguments; where one is concerned, only what no arguments could change is certain. A refusal that is foreseen counts and is
recorded as any other of the gate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from retinue.capabilities.cases import explained
from retinue.capabilities.settling import consent_to
from retinue.security.decisions import DENY

if TYPE_CHECKING:
    from retinue.capabilities.cases import Case
    from retinue.capabilities.consent import Consent
    from retinue.capabilities.gate import Gate

__all__ = ["foresee", "never_permitted"]


async def foresee(gate: Gate, case: Case, run: Callable[[Callable[[], bool]], bool]) -> Consent | None:
    """Raises what the gate would.

    Args:
        gate: The gate.
        case: The call, of which nothing has been decided.
        run: Runs what may call code that is not the gate's (a handler's predicate), as the turn that it decides about.

    Returns:
        A consent that is valid and unspent, where one is needed; else None.

    Raises:
        Denied: It is refused, whatever comes; also what derives from it.
        ApprovalRequired: A person must consent first; the request is made.
        AuditUnavailable: The refusal could not be recorded.
    """
    if gate.is_static(case.security.permissions, case.operation, case.risk, case.approval) and gate._authority.is_genuine(case.security):
        return None
    try:
        if not run(lambda: _must_consent(gate, case)):
            return None
        desk = gate.desk
        if desk is None or not case.definition:
            raise case.approval_required()
        return (await consent_to(gate, desk, case))[1]
    except Exception as error:
        gate._refuse(case, error)


def never_permitted(gate: Gate, case: Case) -> NoReturn:
    """Refuses, on record, what the context permits with no arguments at all."""
    assert case.operation is not None
    case.subject = case.security.subject
    fix = f"send it under a context whose layers all permit {case.operation!r}."
    gate._refuse(case, case.denied(explained(case, case.operation), fix, "permission"))


def _must_consent(gate: Gate, case: Case) -> bool:
    """Whether a person must, for certain. Raises what refuses the call."""
    gate._check(case)
    policies = gate._begin(case)
    permissions = case.security.permissions
    if policies:
        assert case.operation is not None
        if permissions.decision(case.operation).verdict is DENY:
            gate._pass_layers(case, permissions)
        gate._pass_limits(case, permissions.limits)
        return False
    gate._pass_layers(case, permissions)
    gate._pass_limits(case, permissions.limits)
    gate._hear_asks(case)
    reservation = gate._reserve(case)
    if reservation is not None:
        gate.ledger.release(reservation)
    if case.asks:
        gate._check_plain(case)
    return bool(case.asks)
