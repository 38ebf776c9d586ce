import pytest
from hypothesis import given, settings

from permission_strategies import operations, permissions, permits_by_definition
from retinue.capabilities import Gate, GateStatistics
from retinue.security import Authority, AuthorityError, Denied, ForgedContext, PatternError, PermissionSet, SecurityContext, allow

AUTHORITY = Authority()


class Pay:
    pass


@pytest.fixture
def authority():
    return Authority()


@pytest.fixture
def gate(authority):
    return Gate(authority)


def refuse(gate: Gate, context, operation="payments.send") -> Denied:
    before = gate.statistics()
    with pytest.raises(Denied) as caught:
        gate.admit(context, None, operation, None, path="/user/bank", message_type=Pay)
    assert gate.statistics() == GateStatistics(allowed=before.allowed, refused=before.refused + 1)
    assert "not permitted" in str(caught.value)
    assert "/user/bank" in str(caught.value)
    assert "Pay" in str(caught.value)
    assert caught.value.path == "/user/bank"
    return caught.value


def test_a_permitted_operation_is_admitted_and_counted(gate, authority):
    context = authority.mint("alice", ["payments.*"])
    assert gate.admit(context, None, "payments.send", None, path="/user/bank", message_type=Pay).static
    assert gate.statistics() == GateStatistics(allowed=1, refused=0)


def test_a_refusal_says_what_where_who_why_and_the_fix(gate, authority):
    denied = refuse(gate, authority.mint("alice", ["payments.list"]).narrow(allow("payments.**")))
    assert (denied.operation, denied.subject) == ("payments.send", "alice")
    for part in ("'payments.send'", "'alice'", "allow('payments.list') does not name it", "added by mint()", "Fix:"):
        assert part in str(denied)
    assert denied.__cause__ is None


def test_the_message_type_may_be_given_by_name(gate, authority):
    with pytest.raises(Denied, match=r"^shop/Pay@1 to /user/bank"):
        gate.admit(authority.mint("eve", []), None, "payments.send", None, path="/user/bank", message_type="shop/Pay@1")


@given(permissions, operations)
def test_the_gate_admits_exactly_what_the_definition_permits(given_list, operation):
    gate = Gate(AUTHORITY)
    context = AUTHORITY.mint("alice", given_list)
    expected = permits_by_definition(given_list, operation)
    try:
        gate.admit(context, None, operation, None, path="/user/a", message_type=Pay)
    except Denied:
        admitted = False
    else:
        admitted = True
    assert admitted is expected
    assert gate.verdict(context.permissions, operation) is expected
    assert (gate.allowed, gate.refused) == (int(expected), int(not expected))


def test_the_gate_is_asked_about_permitted_operations_often_enough():
    verdicts = []

    @settings(max_examples=300, derandomize=True, database=None)
    @given(permissions, operations)
    def collect(given_list, operation):
        verdicts.append(Gate(AUTHORITY).verdict(AUTHORITY.permission_set(given_list), operation))

    collect()
    assert 0.15 < sum(verdicts) / len(verdicts) < 0.85


@pytest.mark.parametrize("answer", [1, "yes", None, {}, [True], object()])
def test_only_the_literal_true_admits(gate, authority, monkeypatch, answer):
    monkeypatch.setattr(PermissionSet, "permits", lambda self, operation: answer)
    refuse(gate, authority.root)
    assert gate.verdict(authority.everything, "payments.send") is False


def test_an_exception_on_the_way_refuses_and_is_chained(gate, authority, monkeypatch):
    def fail(self, operation):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(PermissionSet, "permits", fail)
    denied = refuse(gate, authority.root)
    assert isinstance(denied.__cause__, ZeroDivisionError)
    assert denied.subject == "root"
    assert gate.verdict(authority.everything, "payments.send") is False


def test_a_cancellation_on_the_way_is_not_swallowed_and_admits_nothing(gate, authority, monkeypatch):
    def interrupt(self, operation):
        raise KeyboardInterrupt

    monkeypatch.setattr(PermissionSet, "permits", interrupt)
    with pytest.raises(KeyboardInterrupt):
        gate.admit(authority.root, None, "payments.send", None, path="/user/bank", message_type=Pay)
    with pytest.raises(KeyboardInterrupt):
        gate.verdict(authority.everything, "payments.send")
    assert gate.allowed == 0


@pytest.mark.parametrize("operation", ["", "payments..send", "payments.*", "**", 3, ["payments.send"]])
def test_a_malformed_operation_is_refused_even_for_the_root(gate, authority, operation):
    denied = refuse(gate, authority.root, operation)
    assert isinstance(denied.__cause__, PatternError)
    assert gate.verdict(authority.everything, operation) is False


@pytest.mark.parametrize("context", [None, object(), "root", object.__new__(SecurityContext), Authority().root])
def test_what_is_no_genuine_context_of_this_system_is_refused(gate, context):
    denied = refuse(gate, context)
    assert isinstance(denied, ForgedContext)
    assert "system.authority.mint" in str(denied)


def test_an_altered_context_is_refused(gate, authority):
    eve = authority.mint("eve", [])
    object.__setattr__(eve, "permissions", authority.everything)
    assert isinstance(refuse(gate, eve), ForgedContext)


@pytest.mark.parametrize("permission_set", [None, object(), True, {"payments.send": True}])
def test_a_verdict_on_what_is_no_permission_set_is_false(gate, permission_set):
    assert gate.verdict(permission_set, "payments.send") is False


def test_a_verdict_counts_nothing(gate, authority):
    assert gate.verdict(authority.everything, "payments.send") is True
    assert gate.verdict(authority.nothing, "payments.send") is False
    assert gate.statistics() == GateStatistics(allowed=0, refused=0)


def test_the_self_test_passes_and_leaves_the_counts(gate, authority):
    contexts = authority.statistics().contexts
    assert gate.self_test() is None
    assert gate.statistics() == GateStatistics(allowed=0, refused=0)
    assert authority.statistics().contexts == contexts
    Gate(Authority([])).self_test()


def test_the_self_test_finds_a_gate_that_permits_everything(gate, monkeypatch):
    monkeypatch.setattr(PermissionSet, "permits", lambda self, operation: True)
    with pytest.raises(
        AuthorityError, match=r"self-test failed: it let 'retinue.gate.canary' through under <SecurityContext \S+ of 'root'"
    ):
        gate.self_test()
    assert gate.statistics() == GateStatistics(allowed=0, refused=0)


def test_the_self_test_finds_a_gate_that_admits_what_no_authority_made():
    class Careless:
        """Takes every context for genuine, and an empty one for permitted."""

        def __init__(self, authority):
            self.root = authority.root

        def check(self, context):
            if not hasattr(context, "permissions"):
                object.__setattr__(context, "permissions", self.root.permissions)

    careless = Gate(Careless(Authority()))
    with pytest.raises(AuthorityError, match="self-test failed"):
        careless.self_test()


def test_the_self_test_finds_an_empty_set_that_permits(gate, monkeypatch):
    monkeypatch.setattr(Gate, "verdict", lambda self, permissions, operation: True)
    with pytest.raises(AuthorityError, match="permitted by the empty set"):
        gate.self_test()
