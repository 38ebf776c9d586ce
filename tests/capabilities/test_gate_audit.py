"""The gate and the audit: the record comes before the answer, and where it cannot be written nothing passes."""

import pytest
import trio

import retinue as rt
from retinue.capabilities import Gate, GateStatistics
from retinue.capabilities.policy import Verdict, policy
from retinue.security import Authority, Denied, SecurityContext
from retinue.security.audit import AuditLog
from retinue.security.constraints import at_most
from retinue.security.errors import ApprovalRequired, AuditUnavailable
from retinue.security.restrictions import limit, needs_approval, where


class Sink:
    """A sink that fails while it is told to."""

    recovered = ""

    def __init__(self):
        self.written = []
        self.broken = False

    def last(self):
        return None

    def write(self, entry):
        if self.broken:
            raise OSError("disk full")
        self.written.append(entry)

    def close(self):
        pass


@rt.message
class Pay(rt.Message):
    amount: int = 40
    to: object = "ACME"


@pytest.fixture
def authority():
    return Authority()


@pytest.fixture
def sink():
    return Sink()


@pytest.fixture
def log(sink):
    return AuditLog(b"k" * 32, sink=sink)


@pytest.fixture
def gate(authority, log):
    return Gate(authority, audit=log)


def admit(gate, context, operation="payments.send", message=None, **more):
    return gate.admit(context, None, operation, message or Pay(), path="/user/bank", message_type=Pay, **more)


def test_an_allow_of_risk_l2_or_more_is_recorded_before_it_is_answered(gate, authority, sink):
    ada = authority.mint("ada", ["payments.*"], tenant="acme").narrow(rt.allow("payments.send"))
    for number, risk in enumerate(("L2", "L3"), 1):
        admission = admit(gate, ada, risk=risk)
        assert (admission.record, admission.static) == (number, False)
    entry = sink.written[0]
    assert (entry.kind, entry.allowed, entry.operation, entry.reason) == ("decision", True, "payments.send", "")
    assert (entry.subject, entry.tenant, entry.context, entry.root) == ("ada", "acme", ada.id, ada.parent.id)
    assert (entry.path, entry.message_type, entry.count) == ("/user/bank", "Pay", 1)
    assert entry.arguments_digest == sink.written[1].arguments_digest
    admit(gate, ada, message=Pay(41), risk="L2")
    assert sink.written[2].arguments_digest != entry.arguments_digest


@pytest.mark.parametrize("risk", [None, "L0", "L1"])
def test_an_allow_of_less_is_static_and_not_recorded_by_itself(gate, authority, sink, risk):
    assert admit(gate, authority.root, risk=risk).static is True
    assert sink.written == []
    assert gate.is_static(authority.everything, "payments.send", risk) is True
    assert gate.is_static(authority.everything, "payments.send", "L2") is False
    assert Gate(authority).is_static(authority.everything, "payments.send", "L3") is True, "nothing to record in"


def test_every_refusal_and_every_question_is_recorded_with_its_reason(authority, log, sink):
    @policy(operations=["fs.read"])
    def closed(call):
        return Verdict.refuse("closed")

    gate = Gate(authority, audit=log, policies=[closed])
    gone = authority.mint("gone", ["**"])
    authority.revoke(gone)
    ada = authority.mint("ada", ["payments.*"])
    spent = ada.narrow(limit(calls=0))
    asked = ada.narrow(needs_approval("payments.*"))
    small = ada.narrow(where("payments.send", amount=at_most(1)))
    cases = [
        (ada, "web.get", None, "permission"),
        (small, "payments.send", None, "arguments"),
        (ada.narrow(rt.max_risk("L0")), "payments.send", "L1", "risk"),
        (authority.mint("bob", ["**"]), "fs.read", None, "policy"),
        (gone, "payments.send", None, "revoked"),
        (spent, "payments.send", None, "budget"),
        (object.__new__(SecurityContext), "payments.send", None, "forged"),
        (ada, "payments..send", None, "undecided"),
        (asked, "payments.send", None, "approval"),
    ]
    for context, operation, risk, reason in cases:
        with pytest.raises((Denied, ApprovalRequired)) as caught:
            admit(gate, context, operation, risk=risk)
        entry = sink.written[-1]
        assert (entry.kind, entry.allowed, entry.operation, entry.reason) == ("decision", False, operation, reason)
        assert entry.detail == str(caught.value)[:1023] + ("…" if len(str(caught.value)) > 1024 else str(caught.value)[1023:])
        assert entry.path == "/user/bank"
        assert (entry.subject is None) is (reason == "forged"), "nothing of a forged context is believed"
    assert len(sink.written) == len(cases)
    assert log.verify() == len(cases)


def test_records_never_hold_values(gate, authority, sink):
    context = authority.mint("ada", ["payments.*"]).narrow(where("payments.send", to=at_most(1)))
    with pytest.raises(Denied):
        admit(gate, context, message=Pay(1, "SECRET-VALUE"))
    with pytest.raises(Denied):
        admit(gate, authority.mint("eve", []), message=Pay(1, "SECRET-VALUE"))
    assert len(sink.written) == 2
    for entry in sink.written:
        assert "SECRET" not in entry.line
        assert entry.arguments_digest


def test_arguments_without_canonical_bytes_are_recorded_as_such(gate, authority, sink):
    admission = admit(gate, authority.root, message=Pay(1, complex(1, 2)), risk="L3")
    assert admission.record == 1
    assert sink.written[0].arguments_digest is None
    assert "no canonical bytes" in sink.written[0].detail


def test_what_is_recorded_is_what_is_handled(gate, authority, sink, log):
    message = Pay(1, ["ACME"])
    admission = admit(gate, authority.root, message=message, risk="L2")
    message.to.append("MALLORY")
    assert admission.message == Pay(1, ["ACME"])
    assert sink.written[0].arguments_digest == log.digest({"amount": 1, "to": ["ACME"]})


# -- a sink that fails -------------------------------------------------------------------------------------------------------------------------------------


def test_where_the_record_cannot_be_written_nothing_is_allowed_and_nothing_charged(gate, authority, sink):
    context = authority.mint("ada", ["payments.*", limit(calls=1)])
    sink.broken = True
    with pytest.raises(AuditUnavailable, match="disk full") as caught:
        admit(gate, context, risk="L2")
    assert caught.value.reason == "audit"
    assert gate.statistics() == GateStatistics(allowed=0, refused=1)
    assert gate.ledger.balance(context.accounts[0]).spent.calls == 0
    assert gate.ledger.balance(context.accounts[0]).reserved.calls == 0
    sink.broken = False
    assert admit(gate, context, risk="L2").record == 1


def test_a_refusal_that_cannot_be_recorded_is_one_all_the_same(gate, authority, sink):
    sink.broken = True
    with pytest.raises(AuditUnavailable) as caught:
        admit(gate, authority.mint("eve", []))
    assert isinstance(caught.value.__cause__, Denied)
    with pytest.raises(AuditUnavailable):
        admit(gate, authority.root, approval=True)
    assert gate.allowed == 0


def test_what_needs_no_record_passes_while_the_sink_fails(gate, authority, sink):
    sink.broken = True
    assert admit(gate, authority.root).static is True


async def test_the_asynchronous_door_fails_closed_too(authority, log, sink):
    @policy
    async def patient(call):
        await trio.lowlevel.checkpoint()
        return Verdict.allow()

    gate = Gate(authority, audit=log, policies=[patient])
    sink.broken = True
    with pytest.raises(AuditUnavailable):
        await gate.admit_async(authority.root, None, "payments.send", Pay(), path="/a", message_type=Pay, risk="L2")
    assert gate.allowed == 0


# -- batches and outcomes ----------------------------------------------------------------------------------------------------------------------------------


def test_static_allows_are_one_record_of_many(gate, authority, sink):
    ada = authority.mint("ada", ["payments.*"])
    gate.note_static(ada, "payments.send", "/user/bank", 1_000)
    gate.note_static(ada, None, "/user/bank", 5)
    (entry,) = sink.written
    assert (entry.kind, entry.allowed, entry.operation, entry.count) == ("allowed_batch", True, "payments.send", 1_000)
    assert (entry.subject, entry.path) == ("ada", "/user/bank")
    assert gate.allowed == 1_005


def test_an_outcome_follows_its_intent(gate, authority, sink):
    admission = admit(gate, authority.root, risk="L3")
    gate.note_outcome(admission, authority.root, "payments.send", "/user/bank", "answered", succeeded=True)
    gate.note_outcome(admission, authority.root, "payments.send", "/user/bank", "ValueError", succeeded=False)
    gate.note_outcome(admit(gate, authority.root), authority.root, "payments.send", "/user/bank", "answered", succeeded=True)
    assert [(entry.kind, entry.reason, entry.detail) for entry in sink.written[1:]] == [
        ("outcome", "succeeded", "of record 1: answered"),
        ("outcome", "failed", "of record 1: ValueError"),
    ]


def test_a_record_that_is_owed_is_paid_before_anything_passes(gate, authority, sink):
    told = []
    gate.on_change = lambda: told.append(gate.epoch)
    sink.broken = True
    gate.note_static(authority.root, "payments.send", "/user/bank", 7)
    assert told, "kept verdicts are forgotten, so that the gate is asked"
    assert gate.is_static(authority.everything, "payments.send") is False
    for operation in ("payments.send", None):
        with pytest.raises(AuditUnavailable):
            admit(gate, authority.root, operation)
    gate.note_static(authority.root, "payments.list", "/user/bank", 1)
    sink.broken = False
    assert admit(gate, authority.root).static is True
    assert [(entry.operation, entry.count) for entry in sink.written] == [("payments.send", 7), ("payments.list", 1)]
    assert gate.is_static(authority.everything, "payments.send") is True


def test_the_self_test_records_nothing(gate, sink, authority):
    events = []
    authority.on_event = lambda event, context: events.append(event)
    gate.self_test()
    assert sink.written == []
    assert events == []
