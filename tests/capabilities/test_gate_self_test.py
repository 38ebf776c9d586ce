"""The gate proves that it refuses before a system starts; and what it refuses it does not keep alive."""

import gc
import weakref

import attrs
import pytest
import trio

from gate_cases import Batch, Pay, admit
from retinue.capabilities import Gate, GateStatistics
from retinue.capabilities.budgets import Ledger
from retinue.capabilities.self_test import prove_that_it_refuses
from retinue.security import Authority, AuthorityError, Denied, PermissionSet
from retinue.security.context_registry import ContextRegistry
from retinue.security.decisions import ALLOWED, Decision

# -- the self-test -----------------------------------------------------------------------------------------------------------------------------------------


def test_the_self_test_passes_and_leaves_the_counts(gate, authority):
    contexts = authority.statistics().contexts
    revocations = authority.revocations
    assert gate.self_test() is None
    assert gate.statistics() == GateStatistics(allowed=0, refused=0)
    assert authority.statistics().contexts == contexts
    assert authority.revocations == revocations
    Gate(Authority([])).self_test()


FAULTS = {
    "a set that permits everything": (PermissionSet, "decision", lambda self, operation: ALLOWED),
    "constraints that always hold": (Decision, "evaluate", lambda self, arguments, sources: __import__("retinue").security.decisions.ALLOW),
    "contexts that are never looked at": (ContextRegistry, "is_genuine", lambda self, context: True),
    "revocations that are forgotten": (ContextRegistry, "is_revoked", lambda self, context: False),
    "limits that are not looked at": (Gate, "_pass_limits", lambda self, case, limits: None),
    "a clock that stands still": (Authority, "now_ms", lambda self: 0),
    "a budget that charges nothing": (Ledger, "charge", lambda self, accounts, **amounts: None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_self_test_finds_a_gate_with_a_fault(authority, monkeypatch, fault):
    gate = Gate(authority)
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises(AuthorityError, match="the gate's self-test failed"):
        gate.self_test()
    assert gate.statistics() == GateStatistics(allowed=0, refused=0)


def test_the_self_test_finds_a_careless_engine_of_policies(authority, monkeypatch):
    from retinue.capabilities.engine import PolicyEngine

    monkeypatch.setattr(PolicyEngine, "run", lambda self, case, policies: None)
    with pytest.raises(AuthorityError, match="a policy that gives no verdict"):
        prove_that_it_refuses(authority)


# -- memory ------------------------------------------------------------------------------------------------------------------------------------------------


def test_a_refusal_keeps_neither_the_message_nor_the_context_alive(gate, authority):
    @attrs.define(weakref_slot=True, slots=True, eq=False)
    class Payload:
        text: str

    payload = Payload("x")
    seen = weakref.ref(payload)
    context = authority.mint("eve", [])
    gone = weakref.ref(context)
    message = Batch([payload])
    gc.collect()
    gc.disable()
    try:
        try:
            admit(gate, context, "mail.send", message)
        except Denied:
            pass
        del context, message, payload
        assert seen() is None
        assert gone() is None
    finally:
        gc.enable()


async def test_a_refusal_of_the_asynchronous_door_keeps_nothing_alive(gate, authority):
    context = authority.mint("eve", [])
    gone = weakref.ref(context)
    gc.collect()
    gc.disable()
    try:
        try:
            await gate.admit_async(context, None, "mail.send", Pay(), path="/a", message_type=Pay)
        except Denied:
            pass
        await trio.lowlevel.checkpoint()
        del context
        assert gone() is None
    finally:
        gc.enable()
