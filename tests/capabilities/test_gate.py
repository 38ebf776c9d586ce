import pytest
from hypothesis import given, settings

import retinue as rt
from gate_cases import Batch, Pay, admit
from permission_strategies import operations, permissions, permits_by_definition
from retinue.capabilities import Gate, GateStatistics
from retinue.capabilities.budgets import Ledger
from retinue.capabilities.policy import Verdict, policy
from retinue.security import Authority, AuthorityError, Denied, ForgedContext, PatternError, PermissionSet, SecurityContext, allow
from retinue.security.audit import AuditLog
from retinue.security.constraints import at_most, one_of, within
from retinue.security.decisions import ALLOWED, Decision
from retinue.security.errors import ApprovalRequired, AuditUnavailable, BudgetExceeded, Expired, Revoked
from retinue.security.restrictions import deny, expires, label, limit, max_risk, needs_approval, unlabelled, where

AUTHORITY = Authority()


def refuse(gate: Gate, context, operation="payments.send", message=None, kind=Denied, **more):
    before = gate.statistics()
    with pytest.raises(kind) as caught:
        admit(gate, context, operation, message, **more)
    assert gate.statistics() == GateStatistics(allowed=before.allowed, refused=before.refused + 1)
    assert "/user/bank" in str(caught.value)
    assert type(message or Pay()).__name__ in str(caught.value)
    assert "Nothing was done" in str(caught.value)
    assert caught.value.path == "/user/bank"
    return caught.value


def test_a_permitted_operation_is_admitted_and_counted(gate, authority):
    message = Pay()
    admission = admit(gate, authority.mint("alice", ["payments.*"]), message=message)
    assert (admission.static, admission.record) == (True, None)
    assert admission.message is message
    assert gate.statistics() == GateStatistics(allowed=1, refused=0)


def test_a_refusal_says_what_where_who_why_and_the_fix(gate, authority):
    denied = refuse(gate, authority.mint("alice", ["payments.list"]).narrow(allow("payments.**")))
    assert (denied.operation, denied.subject, denied.reason) == ("payments.send", "alice", "permission")
    for part in ("'payments.send'", "'alice'", "allow('payments.list') does not name it", "added by mint()", "Fix:"):
        assert part in str(denied)
    assert denied.__cause__ is None


@pytest.mark.parametrize("refusing", [deny("payments.send"), unlabelled("payments.send", labels=["web"]), allow("fs.read")])
def test_a_layer_that_permits_the_arguments_is_not_told_of_where_another_refuses_the_operation(authority, refusing):
    audit = AuditLog(b"k" * 32)
    gate = Gate(authority, audit=audit)
    context = authority.mint("alice", ["payments.*", where("payments.send", to=one_of("ACME"))]).narrow(label("web"), refusing)
    denied = refuse(gate, context)
    assert "where(" not in str(denied)
    assert "not given" not in str(denied)
    assert "where(" not in audit.entries(kind="decision")[-1].detail
    assert context.explain("payments.send", Pay()) in str(denied)
    other = refuse(gate, context, message=Pay("Eve"))
    assert "its argument 'to' is not one_of('ACME')" in str(other), "what refuses too is told of"
    assert context.explain("payments.send", Pay("Eve")) in str(other)


def test_only_layers_that_ask_are_told_of_where_consent_is_needed_in_any_case(gate, authority):
    context = authority.mint("alice", ["payments.*"]).narrow(
        needs_approval("payments.send"), needs_approval("payments.*", unless={"amount": at_most(100)})
    )
    text = str(refuse(gate, context, kind=ApprovalRequired))
    assert "needs_approval('payments.send')" in text
    assert "unless" not in text
    assert "not given" not in text


def test_what_the_gate_says_is_what_the_context_explains(gate, authority):
    context = authority.mint("alice", ["payments.*", where("payments.send", amount=at_most(10))]).narrow(max_risk("L1"))
    assert context.explain("payments.send", Pay(), risk="L2") in str(refuse(gate, context, risk="L2"))
    assert context.explain("payments.send", Pay()) in str(refuse(gate, context))


def test_a_refused_argument_is_told_by_its_constraint_and_never_by_its_value(gate, authority):
    context = authority.mint("alice", ["payments.*"]).narrow(where("payments.send", to=one_of("ACME")))
    denied = refuse(gate, context, message=Pay("MALLORY-SECRET"))
    assert (denied.reason, denied.operation) == ("arguments", "payments.send")
    for part in ("its argument 'to' is not one_of('ACME')", "added by narrow()", "'alice'", "with such arguments"):
        assert part in str(denied)
    assert "SECRET" not in str(denied)
    assert admit(gate, context, message=Pay("ACME")).static is False


def test_the_message_type_may_be_given_by_name(gate, authority):
    with pytest.raises(Denied, match=r"^shop/Pay@1 to /user/bank"):
        gate.admit(authority.mint("eve", []), None, "payments.send", Pay(), path="/user/bank", message_type="shop/Pay@1")


@settings(max_examples=40)
@given(permissions, operations)
def test_the_gate_admits_exactly_what_the_definition_permits(given_list, operation):
    gate = Gate(AUTHORITY)
    context = AUTHORITY.mint("alice", given_list)
    expected = permits_by_definition(given_list, operation)
    try:
        admit(gate, context, operation)
    except (Denied, ApprovalRequired):
        admitted = False
    else:
        admitted = True
    assert admitted is expected
    assert (gate.allowed, gate.refused) == (int(expected), int(not expected))


@pytest.mark.slow
def test_the_gate_is_asked_about_permitted_operations_often_enough():
    verdicts = []

    @settings(max_examples=300, derandomize=True, database=None)
    @given(permissions, operations)
    def collect(given_list, operation):
        verdicts.append(permits_by_definition(given_list, operation))

    collect()
    assert 0.15 < sum(verdicts) / len(verdicts) < 0.85


@pytest.mark.parametrize("answer", [1, "yes", None, {}, [True], True, object()])
def test_only_a_real_decision_admits(gate, authority, monkeypatch, answer):
    monkeypatch.setattr(PermissionSet, "decision", lambda self, operation: answer)
    refuse(gate, authority.root)
    assert gate.is_static(authority.everything, "payments.send") is False


@pytest.mark.parametrize("answer", [1, "allow", None, True, "ALLOW", object()])
def test_only_the_literal_allow_of_a_decision_admits(gate, authority, monkeypatch, answer):
    monkeypatch.setattr(Decision, "evaluate", lambda self, arguments, sources: answer)
    refuse(gate, authority.root.narrow(where("payments.send", amount=at_most(100))))


def test_an_exception_on_the_way_refuses_and_is_chained(gate, authority, monkeypatch):
    def fail(self, operation):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(PermissionSet, "decision", fail)
    denied = refuse(gate, authority.root)
    assert isinstance(denied.__cause__, ZeroDivisionError)
    assert (denied.subject, denied.reason) == ("root", "undecided")
    assert gate.is_static(authority.everything, "payments.send") is False


def test_a_cancellation_on_the_way_is_not_swallowed_and_admits_nothing(gate, authority, monkeypatch):
    def interrupt(self, operation):
        raise KeyboardInterrupt

    monkeypatch.setattr(PermissionSet, "decision", interrupt)
    with pytest.raises(KeyboardInterrupt):
        admit(gate, authority.root)
    with pytest.raises(KeyboardInterrupt):
        gate.is_static(authority.everything, "payments.send")
    assert gate.statistics() == GateStatistics(allowed=0, refused=0)


@pytest.mark.parametrize("operation", ["", "payments..send", "payments.*", "**", 3, True, ["payments.send"]])
def test_a_malformed_operation_is_refused_even_for_the_root(gate, authority, operation):
    denied = refuse(gate, authority.root, operation)
    assert isinstance(denied.__cause__, (PatternError, TypeError))
    assert gate.is_static(authority.everything, operation) is False
    assert gate.awaits(operation) is False


@pytest.mark.parametrize("context", [None, object(), "root", object.__new__(SecurityContext), Authority().root])
@pytest.mark.parametrize("operation", ["payments.send", None])
def test_what_is_no_genuine_context_of_this_system_is_refused(gate, context, operation):
    denied = refuse(gate, context, operation)
    assert isinstance(denied, ForgedContext)
    assert "system.authority.mint" in str(denied)


@pytest.mark.parametrize("grant", [object(), "root", object.__new__(SecurityContext), Authority().root])
def test_a_grant_that_is_no_genuine_context_refuses(gate, authority, grant):
    assert refuse(gate, authority.root, grant=grant).reason == "forged"


def test_an_altered_context_is_refused(gate, authority):
    eve = authority.mint("eve", [])
    object.__setattr__(eve, "permissions", authority.everything)
    assert isinstance(refuse(gate, eve), ForgedContext)


@pytest.mark.parametrize("permission_set", [None, object(), True, {"payments.send": True}])
def test_what_is_no_permission_set_is_not_static(gate, permission_set):
    assert gate.is_static(permission_set, "payments.send") is False


# -- revocation, deadline, calls, risk, labels, consent ----------------------------------------------------------------------------------------------------


def test_a_revoked_context_is_refused_also_at_an_open_handler_and_the_epoch_changes(gate, authority):
    alice = authority.mint("alice", ["payments.*"])
    below = alice.narrow(allow("payments.send"))
    assert admit(gate, below).static
    epoch = gate.epoch
    authority.revoke(alice)
    assert gate.epoch > epoch
    for operation in ("payments.send", None):
        denied = refuse(gate, below, operation)
        assert isinstance(denied, Revoked)
        assert (denied.reason, denied.subject) == ("revoked", "alice")


def test_a_revoked_grant_refuses_whoever_sends(gate, authority):
    grant = authority.mint("shop", ["**"])
    assert admit(gate, authority.root, grant=grant)
    authority.revoke(grant)
    assert isinstance(refuse(gate, authority.root, grant=grant), Revoked)


def test_an_expired_context_is_refused_and_one_with_a_deadline_is_never_static():
    now = [1_000]
    authority = Authority(clock=lambda: now[0])
    gate = Gate(authority)
    context = authority.mint("alice", ["payments.*", expires(seconds=1)])
    assert admit(gate, context).static is False
    now[0] = 1_999
    assert admit(gate, context).static is False
    now[0] = 2_000
    for operation in ("payments.send", None):
        denied = refuse(gate, context, operation)
        assert isinstance(denied, Expired)
        assert denied.reason == "expired"
        assert "1970-01-01T00:00:02.000+00:00" in str(denied)
    now[0] = 500  # set back: what has expired stays so
    assert isinstance(refuse(gate, context), Expired)


@pytest.mark.parametrize("answer", [None, "soon", 1.5, True, -1])
def test_a_broken_clock_refuses_what_has_a_deadline(answer):
    answers = [1_000, 1_000]
    authority = Authority(clock=lambda: answers.pop() if answers else answer)
    context = authority.mint("alice", ["payments.*", expires(seconds=1)])
    answers.clear()
    gate = Gate(authority)
    assert refuse(gate, context).reason == "undecided"
    assert admit(gate, authority.root).static, "what has no deadline asks no clock"


def test_a_clock_that_raises_refuses_what_has_a_deadline():
    def clock():
        if broken:
            raise OSError("no clock")
        return 1_000

    broken = False
    authority = Authority(clock=clock)
    context = authority.mint("alice", ["payments.*", expires(seconds=1)])
    broken = True
    denied = refuse(Gate(authority), context)
    assert denied.reason == "undecided"
    assert isinstance(denied.__cause__, AuthorityError)


def test_calls_are_counted_exactly_and_only_where_they_are_limited(gate, authority):
    context = authority.mint("alice", ["payments.*", limit(calls=3)])
    for _ in range(3):
        assert admit(gate, context).static is False
    denied = refuse(gate, context, kind=BudgetExceeded)
    assert (denied.reason, denied.resource, denied.operation, denied.subject) == ("budget", "calls", "payments.send", "alice")
    assert "0 left of 3, and nothing was reserved." in str(denied)
    assert f"That limit was added by mint(), context {context.id} of 'alice'." in str(denied)
    assert denied.account == context.accounts[0].id
    below = authority.mint("bob", ["payments.*"]).narrow(label("x")).narrow(limit(calls=0)).narrow(label("y"))
    assert f"That limit was added by narrow(), context {below.lineage[2]} of 'bob'." in str(refuse(gate, below, kind=BudgetExceeded))
    assert gate.ledger.balance(context.accounts[0]).spent.calls == 3
    assert admit(gate, context, None), "an open handler is no operation"
    assert admit(gate, authority.mint("bob", ["payments.*", limit(tokens=1)])).static


@pytest.mark.parametrize("error", [RuntimeError("broken"), AuthorityError("broken"), ZeroDivisionError()])
@pytest.mark.parametrize(("method", "risk"), [("charge", None), ("reserve", "L3")])
def test_a_ledger_that_fails_refuses(authority, monkeypatch, error, method, risk):
    def fail(self, accounts, **amounts):
        raise error

    gate = Gate(authority, audit=AuditLog())
    monkeypatch.setattr(Ledger, method, fail)
    denied = refuse(gate, authority.mint("alice", ["payments.*", limit(calls=3)]), risk=risk)
    assert denied.reason == "undecided"
    assert denied.__cause__ is error


def test_calls_are_charged_to_the_grants_account_too(gate, authority):
    grant = authority.mint("shop", ["**", limit(calls=2)])
    ada, bob = authority.mint("ada", ["**", limit(calls=9)]), authority.mint("bob", ["**"])
    admit(gate, ada._meet(grant), grant=grant)
    admit(gate, bob._meet(grant), grant=grant)
    refuse(gate, ada._meet(grant), grant=grant, kind=BudgetExceeded)
    assert gate.ledger.balance(ada.accounts[0]).spent.calls == 1
    assert admit(gate, ada), "what went to others is not Ada's"


def test_what_is_refused_or_asked_takes_no_call(gate, authority):
    context = authority.mint("alice", ["payments.*", limit(calls=1)])
    refuse(gate, context.narrow(where("payments.send", amount=at_most(1))))
    refuse(gate, context.narrow(needs_approval("payments.*")), kind=ApprovalRequired)
    refuse(gate, context, kind=ApprovalRequired, approval=True)
    assert admit(gate, context)
    refuse(gate, context, kind=BudgetExceeded, approval=True)


def test_a_limit_without_an_account_refuses(gate, authority):
    context = authority.mint("alice", ["payments.*", limit(calls=5)])
    object.__setattr__(context, "_accounts", ())
    assert refuse(gate, context).reason == "forged"
    stripped = authority._registry.enrol(context._principal, context.permissions, None, "mint")
    denied = refuse(gate, stripped)
    assert denied.reason == "undecided"
    assert "no account" in str(denied)


@pytest.mark.parametrize(
    ("bound", "rating", "admitted"),
    [
        ("L3", None, True),
        ("L2", None, False),  # what nobody rated counts as the worst
        ("L0", "L0", True),
        ("L0", "L1", False),
        ("L1", "L1", True),
        ("L2", "L3", False),
        ("L2", "L2", True),
    ],
)
def test_max_risk_bounds_the_rating(gate, authority, bound, rating, admitted):
    context = authority.mint("alice", ["payments.*", max_risk(bound)])
    if admitted:
        assert admit(gate, context, risk=rating).static
    else:
        denied = refuse(gate, context, risk=rating)
        assert denied.reason == "risk"
        assert f"max_risk('{bound}')" in str(denied)
        assert "added by mint()" in str(denied)


def test_an_open_handler_that_nobody_rated_is_of_no_risk(gate, authority):
    context = authority.mint("alice", [max_risk("L0")])
    assert admit(gate, context, None).static
    assert refuse(gate, context, None, risk="L1").reason == "risk"


@pytest.mark.parametrize("risk", ["L4", "l1", 1, True, "", object()])
def test_a_rating_that_is_none_refuses(gate, authority, risk):
    assert refuse(gate, authority.root, risk=risk).reason == "undecided"


def test_a_label_that_a_layer_refuses_is_refused(gate, authority):
    context = authority.mint("alice", ["**", unlabelled("payments.**", labels=["web"])])
    assert admit(gate, context).static
    assert "web" in str(refuse(gate, context.narrow(label("web"))))


def test_consent_is_asked_for_by_a_layer_unless_the_arguments_need_none(gate, authority):
    context = authority.mint("alice", ["payments.*"]).narrow(needs_approval("payments.**", unless={"amount": at_most(100)}))
    assert admit(gate, context, message=Pay(amount=100)).static is False
    required = refuse(gate, context, message=Pay(amount=101), kind=ApprovalRequired)
    assert required.operation == "payments.send"
    assert "needs a person's consent" in str(required)
    assert "needs_approval('payments.**'" in str(required)
    assert "added by narrow()" in str(required)


def test_consent_is_asked_for_by_a_handler_also_by_an_open_one(gate, authority):
    assert "approval=True" in str(refuse(gate, authority.root, kind=ApprovalRequired, approval=True))
    required = refuse(gate, authority.root, None, kind=ApprovalRequired, approval=True)
    assert required.operation is None


def test_no_token_is_taken_for_consent_while_there_is_no_desk(gate, authority):
    refuse(gate, authority.root, kind=ApprovalRequired, approval=True, approvals=("a token", object()))


def test_a_refusal_comes_before_a_question(gate, authority):
    context = authority.mint("alice", ["payments.*", needs_approval("payments.*")]).narrow(deny("payments.send"))
    assert refuse(gate, context, approval=True).reason == "permission"
    assert refuse(gate, authority.mint("a", ["**", max_risk("L0")]), approval=True).reason == "risk"


def test_a_refusal_of_the_layers_comes_before_the_question_of_a_policy(authority):
    @policy
    def asking(call):
        return Verdict.ask("who is this for?")

    gate = Gate(authority, policies=[asking])
    assert refuse(gate, authority.mint("alice", ["fs.read"])).reason == "permission"
    small = authority.mint("alice", ["**", where("payments.send", amount=at_most(1))])
    assert refuse(gate, small).reason == "arguments"
    assert "who is this for?" in str(refuse(gate, authority.root, kind=ApprovalRequired))


def test_a_record_that_cannot_be_written_refuses_what_would_have_been_allowed_and_what_would_not(authority):
    log = AuditLog()
    gate = Gate(authority, audit=log)
    log.close()
    for context, risk in ((authority.root, "L3"), (authority.mint("eve", []), None)):
        with pytest.raises(AuditUnavailable):
            admit(gate, context, risk=risk)
    assert gate.statistics() == GateStatistics(allowed=0, refused=2)


def test_what_could_not_be_bound_to_a_consent_is_refused_instead_of_asked_about(gate, authority):
    @rt.message
    class Odd(rt.Message):
        what: object

    denied = refuse(gate, authority.root, message=Odd({"a": complex(1, 2)}), approval=True)
    assert denied.reason == "undecided"
    assert "no consent could be bound" in str(denied)


# -- what is checked is what is handled --------------------------------------------------------------------------------------------------------------------


def test_a_message_with_a_list_is_copied_where_its_arguments_are_looked_at(gate, authority):
    everybody = authority.mint("alice", ["mail.send"])
    few = everybody.narrow(allow("mail.send", to=rt_each()))
    message = Batch(["ada"])
    admission = admit(gate, few, "mail.send", message)
    assert admission.message == message
    assert admission.message is not message
    message.to.append("mallory")
    assert admission.message.to == ["ada"]
    assert admit(gate, everybody, "mail.send", message).message is message, "nobody looked"
    refuse(gate, few, "mail.send", message)


def rt_each():
    from retinue.security.constraints import each

    return each(one_of("ada", "bob"))


def test_a_message_is_handed_on_as_it_is_only_where_nothing_of_it_was_looked_at(gate, authority):
    context = authority.mint("alice", ["payments.*"])
    message = Pay()
    assert admit(gate, context, message=message).message is message
    handed_on = admit(gate, context.narrow(where("payments.send", amount=at_most(100))), message=message).message
    assert handed_on == message
    assert handed_on is not message


def test_what_cannot_be_copied_is_refused_where_its_arguments_are_looked_at(gate, authority):
    import threading

    lock = threading.Lock()
    context = authority.mint("alice", ["mail.send"])
    assert admit(gate, context, "mail.send", Batch(lock))
    denied = refuse(gate, context.narrow(where("mail.send", to=one_of("ada"))), "mail.send", Batch(lock))
    assert denied.reason == "undecided"
    assert "cannot be copied" in str(denied)


@pytest.mark.parametrize("message", [object(), "text", 3, {"amount": 1}])
def test_what_is_no_message_has_no_arguments_and_is_refused_where_they_count(gate, authority, message):
    context = authority.mint("alice", ["payments.*"]).narrow(where("payments.send", amount=at_most(100)))
    with pytest.raises(Denied) as caught:
        gate.admit(context, None, "payments.send", message, path="/user/bank", message_type="odd")
    assert caught.value.reason == "undecided"


# -- static verdicts ---------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "restriction",
    [
        where("payments.send", amount=at_most(100)),
        allow("payments.send", open=True, amount=at_most(100)),
        allow("payments.*", amount=at_most(100), to=one_of("ACME")),
        needs_approval("payments.*", unless={"amount": at_most(100)}),
        expires(seconds=60),
        limit(calls=10),
    ],
    ids=repr,
)
def test_whatever_may_change_with_time_or_arguments_is_not_static(gate, authority, restriction):
    context = authority.mint("alice", ["payments.*"]).narrow(restriction)
    assert gate.is_static(context.permissions, "payments.send") is False
    assert admit(gate, context).static is False
    assert admit(gate, context).static is False


@pytest.mark.parametrize(
    "restriction",
    [
        allow("payments.send"),
        deny("fs.**"),
        where("fs.read", path=within("a/")),
        needs_approval("fs.**"),
        label("web"),
        unlabelled("payments.**", labels=["mail"]),
        limit(tokens=1, cost_usd="1", depth=2),
        max_risk("L3"),
    ],
    ids=repr,
)
def test_what_depends_on_the_operation_alone_is_static(gate, authority, restriction):
    context = authority.mint("alice", ["payments.*"]).narrow(restriction)
    assert gate.is_static(context.permissions, "payments.send") is True
    assert admit(gate, context).static is True


def test_a_static_verdict_is_the_slow_ones(gate, authority):
    for restriction in (allow("payments.send"), deny("payments.send"), allow()):
        context = authority.mint("alice", ["**"]).narrow(restriction)
        decided = context.permissions.decision("payments.send") is ALLOWED
        assert gate.is_static(context.permissions, "payments.send") is decided


def test_static_allows_are_counted_when_told(gate, authority):
    gate.note_static(authority.root, "payments.send", "/user/bank", 12)
    gate.note_static(authority.root, "payments.send", "/user/bank", 0)
    assert gate.statistics() == GateStatistics(allowed=12, refused=0)


def test_a_change_grows_the_epoch_and_is_told(gate):
    calls = []
    gate.on_change = lambda: calls.append(gate.epoch)
    before = gate.epoch
    gate.changed()
    assert calls == [before + 1]


# -- the asynchronous door ---------------------------------------------------------------------------------------------------------------------------------


async def test_the_asynchronous_door_gives_the_same_answers(gate, authority):
    keywords = {"path": "/user/bank", "message_type": Pay}
    message = Pay()
    admission = await gate.admit_async(authority.root, None, "payments.send", message, **keywords)
    assert (admission.message, admission.static) == (message, True)
    for context in (authority.mint("eve", []), None):
        with pytest.raises(Denied):
            await gate.admit_async(context, None, "payments.send", message, **keywords)
    assert gate.statistics() == GateStatistics(allowed=1, refused=2)
