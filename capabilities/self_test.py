"""The gate's self-test: canaries that must be refused, each by another part of it. A system whose gate lets one pass does not start."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

from retinue.capabilities.gate import Gate
from retinue.capabilities.policy import PolicyCall, policy
from retinue.capabilities.registry import CapabilityRegistry
from retinue.mailbox.messages import Message, message
from retinue.security.authority import Authority
from retinue.security.constraints import absent, at_most
from retinue.security.context import SecurityContext
from retinue.security.errors import ApprovalRequired, AuthorityError, Denied
from retinue.security.restrictions import allow, deny, expires, limit, max_risk, needs_approval, where

__all__ = ["prove_that_it_refuses"]

CANARY = "retinue.gate.canary"


@message
class Canary(Message):
    """The message that must never pass; its number is above every bound that the test sets."""

    number: int


@policy(name="retinue.gate.truthy")
def _truthy(_call: PolicyCall) -> Any:
    return True


@policy(name="retinue.gate.raising")
def _raising(_call: PolicyCall) -> Any:
    raise ZeroDivisionError


def prove_that_it_refuses(authority: Authority) -> None:
    """Send canaries to gates, each of which something else must refuse.

    Nothing is minted, revoked, counted or recorded in the system itself: all but the first two canaries live under an authority of their own, which permits
    everything, so that a narrow root hides no fault.

    Args:
        authority: The authority of the system that is to start.

    Raises:
        AuthorityError: One was let through.
    """
    stranger: SecurityContext = object.__new__(SecurityContext)
    gate = Gate(authority)
    _refuses(gate, authority.root.narrow([]), "the empty set")
    _refuses(gate, stranger, "a context that no authority made")
    apart = Authority(clock=lambda: 60_000)
    _refuses(gate, apart.root, "the root of another authority")
    for what, gate, security, approval in _canaries(apart):
        _refuses(gate, security, what, approval=approval)


def _refuses(gate: Gate, security: SecurityContext, what: str, *, approval: bool = False) -> None:
    try:
        gate.admit(
            security, None, CANARY, Canary(1), path="/system/gate", message_type="the gate's self-test", risk="L3", approval=approval
        )
    except (Denied, ApprovalRequired):
        return
    except Exception as error:
        raise AuthorityError(
            f"the gate's self-test failed with {type(error).__name__} under {what}: it must refuse. Do not run this system; reinstall it."
        ) from error
    raise AuthorityError(f"the gate's self-test failed: it let {CANARY!r} through under {what}. Do not run this system; reinstall it.")


def _canaries(authority: Authority) -> Iterator[tuple[str, Gate, SecurityContext, bool]]:
    gate, root = Gate(authority), authority.root
    narrowed = {
        "a denial": root.narrow(deny("retinue.**")),
        "a permission for another operation": root.narrow(allow("retinue.gate.other")),
        "a constraint that does not hold": root.narrow(where(CANARY, number=at_most(0))),
        "a closed rule for another argument": root.narrow(allow(CANARY, arguments={"other": absent()})),
        "a lower risk": root.narrow(max_risk("L1")),
        "a need for approval": root.narrow(needs_approval(CANARY)),
        "a budget without a call": root.narrow(limit(calls=0)),
        "a deadline that has passed": root.narrow(expires(at=datetime.datetime.fromtimestamp(1, tz=datetime.UTC))),
    }
    for what, security in narrowed.items():
        yield what, gate, security, False
    yield "a handler's need for approval", gate, root, True
    for odd in (_truthy, _raising):
        yield "a policy that gives no verdict", Gate(authority, policies=[odd]), root, False
    yield "an empty registry", Gate(authority, capabilities=CapabilityRegistry()), root, False
    gone = authority.mint("canary", ["**"])
    authority.revoke(gone)
    yield "a revoked context", gate, gone, False
