"""Policies: only a real verdict is an answer; deny wins over ask, ask over allow; a rewrite is what everything after it sees."""

import copy
import functools
import pickle
import threading
import warnings

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from gate_policies import Named, Pay, PayMore, admit, asking, doubling, gate_of, refused, unwilling, willing
from retinue.capabilities import Gate, GateStatistics
from retinue.capabilities.engine import PolicyEngine
from retinue.capabilities.policy import Policy, PolicyCall, Verdict, checked, policy
from retinue.security import Authority, Denied
from retinue.security.constraints import at_most
from retinue.security.errors import ApprovalRequired, AuthorityError, DefinitionError, Revoked
from retinue.security.restrictions import where
from steady_ids import steady

# -- verdicts ----------------------------------------------------------------------------------------------------------------------------------------------


def test_a_verdict_is_made_by_its_makers_alone_and_never_changes():
    with pytest.raises(TypeError, match=r"Verdict\.allow"):
        Verdict()
    with pytest.raises(TypeError):
        type("Mine", (Verdict,), {})
    for verdict in (Verdict.allow(), Verdict.refuse("why")):
        with pytest.raises(AttributeError):
            verdict.kind = "allow"
        with pytest.raises(AttributeError):
            del verdict.kind
    assert Verdict.allow() is Verdict.allow()
    assert repr(Verdict.refuse("why")) == "Verdict.refuse('why')"
    assert repr(Verdict.rewrite(Pay(1))) == "Verdict.rewrite(…)"
    assert repr(object.__new__(Verdict)) == "<Verdict that nothing made>"


@pytest.mark.parametrize("make", [Verdict.refuse, Verdict.ask])
@pytest.mark.parametrize("reason", ["", "  ", None, 3, b"why"])
def test_a_refusal_and_a_question_say_why(make, reason):
    with pytest.raises(DefinitionError, match="reason"):
        make(reason)


@pytest.mark.parametrize(("reason", "told"), [("no", "no."), ("no.", "no."), ("no!", "no!"), ("why?", "why?"), ("and…", "and…")])
def test_a_reason_ends_as_a_sentence_wherever_it_is_told(reason, told):
    assert f"refuses it: {told} Nothing was done. Fix: do what the policy asks for." in str(
        refused(gate_of(policy(name="p")(lambda call: Verdict.refuse(reason))))
    )
    with pytest.raises(ApprovalRequired) as caught:
        admit(gate_of(policy(name="p")(lambda call: Verdict.ask(reason))))
    assert f"the policy 'p': {told} Nothing was done." in str(caught.value)


def test_a_refusal_can_say_what_to_do():
    assert str(refused(gate_of(policy(lambda call: Verdict.refuse("it is Sunday", fix="come on Monday"))))).endswith("Fix: come on Monday.")
    with pytest.raises(DefinitionError):
        Verdict.refuse("why", fix="")


def test_a_policy_that_fails_says_where_to_look():
    @policy
    def broken(call):
        raise KeyError("secret")

    denied = refused(gate_of(broken))
    assert "the policy 'broken' failed with KeyError." in str(denied)
    assert str(denied).endswith("Fix: mend the policy; see the exception that this one was raised from.")
    assert isinstance(denied.__cause__, KeyError)
    assert "secret" not in str(denied)


@pytest.mark.parametrize("odd", [lambda: Verdict.allow(), lambda call, other: Verdict.allow(), lambda call, *, other: Verdict.allow()])
def test_what_cannot_be_called_with_the_call_alone_is_refused_at_once(odd):
    with pytest.raises(DefinitionError, match="is called with the call and nothing else"):
        policy(odd)
    with pytest.raises(DefinitionError, match=r"the decide\(\) of the policy 'odd' is called with the call and nothing else"):
        checked(attrs.make_class("Odd", {"name": attrs.field(default="odd"), "decide": attrs.field(default=odd)})())
    for good in (lambda call: None, lambda *args: None, lambda call, other=1, *, third=2: None):
        assert policy(good) is good


def test_a_policy_that_a_decorator_gives_more_arguments_is_called_as_the_decorator_takes_them():
    def decide(limit, call):
        return Verdict.allow() if call.arguments["amount"] < limit else Verdict.refuse("too much")

    @policy(name="limited")
    @functools.wraps(decide)
    def limited(call):
        return decide(50, call)

    assert admit(gate_of(limited)).message == Pay(40)


def test_an_operation_given_without_its_name_says_how_it_is_written():
    with pytest.raises(DefinitionError, match=r"write @rt\.policy\(operations=\['mail\.send'\]\)"):
        policy("mail.send")


def test_a_long_reason_is_cut():
    assert len(Verdict.refuse("x" * 10_000).reason) == 500


def test_allow_lets_pass_what_the_layers_permit_and_nothing_else():
    gate = gate_of(willing)
    assert admit(gate).static is False
    assert admit(gate, context=gate._authority.mint("ada", ["payments.*"])).message == Pay(40)
    with pytest.raises(Denied, match="does not name it"):
        admit(gate, context=gate._authority.mint("eve", ["fs.read"]))


def test_a_refusal_names_the_policy_and_its_reason():
    denied = refused(gate_of(willing, unwilling))
    assert (denied.reason, denied.operation, denied.path, denied.subject) == ("policy", "payments.send", "/user/bank", "root")
    assert "the policy 'unwilling' refuses it: it is Sunday" in str(denied)


def test_a_question_is_for_a_person():
    with pytest.raises(ApprovalRequired, match="the policy 'asking': who is this for"):
        admit(gate_of(asking, willing))


answers = {"allow": willing, "ask": asking, "refuse": unwilling, "rewrite": doubling}


@settings(max_examples=40)
@given(st.lists(st.sampled_from(sorted(answers)), unique=True, min_size=1))
def test_deny_wins_over_ask_and_ask_over_allow_in_any_order(names):
    gate = gate_of(*(answers[name] for name in names))
    if "refuse" in names:
        assert refused(gate).reason == "policy"
    elif "ask" in names:
        with pytest.raises(ApprovalRequired):
            admit(gate)
    else:
        assert admit(gate).message == Pay(80 if "rewrite" in names else 40)


class Odd:
    """Equal to everything, true, and called like a verdict."""

    kind = "allow"
    reason = ""

    def __eq__(self, other):
        return True

    __hash__ = object.__hash__


def forged(kind):
    made = object.__new__(Verdict)
    if kind is not None:
        object.__setattr__(made, "kind", kind)
    return made


@pytest.mark.parametrize(
    "answer",
    [None, True, False, 1, 0, "", "allow", "ALLOW", {}, [], {"allowed": True}, object(), Odd(), Verdict, Verdict.allow, rt.SecurityContext]
    + [forged(kind) for kind in (None, "allow", "ALLOW", True, "other")],
    ids=steady,
)
def test_what_is_no_verdict_refuses(answer):
    @policy
    def odd(call):
        return answer

    denied = refused(gate_of(odd))
    assert denied.reason == "policy"
    assert "'odd' answered with an object of type" in str(denied)


def test_a_coroutine_from_a_plain_policy_refuses_and_is_not_left_behind():
    async def later(call):
        return Verdict.allow()

    @policy
    def careless(call):
        return later(call)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "an object of type coroutine" in str(refused(gate_of(careless)))


def test_an_exception_refuses_is_chained_and_its_text_is_not_told():
    @policy
    def failing(call):
        raise ZeroDivisionError(f"secret {call.message.amount}")

    denied = refused(gate_of(failing))
    assert denied.reason == "policy"
    assert isinstance(denied.__cause__, ZeroDivisionError)
    assert "ZeroDivisionError" in str(denied)
    assert "secret" not in str(denied)


@pytest.mark.parametrize("error", [Denied("x", path="/a"), ApprovalRequired("y", path="/b"), AuthorityError("z")])
def test_an_authority_error_that_a_policy_raises_is_a_failure_like_any_other(error):
    @policy
    def failing(call):
        raise error

    denied = refused(gate_of(failing))
    assert denied.path == "/user/bank"
    assert denied.__cause__ is error


def test_an_interrupt_in_a_policy_is_not_swallowed():
    @policy
    def interrupting(call):
        raise KeyboardInterrupt

    gate = gate_of(interrupting)
    with pytest.raises(KeyboardInterrupt):
        admit(gate)
    assert gate.statistics() == GateStatistics(allowed=0, refused=0)


# -- rewriting ---------------------------------------------------------------------------------------------------------------------------------------------


def test_a_rewritten_message_is_what_later_policies_layers_and_the_handler_get():
    seen = []

    @policy(name="first")
    def first(call):
        seen.append(call.message.amount)
        return Verdict.allow()

    @policy(name="last")
    def last(call):
        seen.append(call.arguments["amount"])
        return Verdict.allow()

    gate = gate_of(first, doubling, last)
    context = gate._authority.mint("ada", ["**"]).narrow(where("payments.send", amount=at_most(100)))
    assert admit(gate, Pay(50), context).message == Pay(100)
    assert seen == [50, 100]
    assert "its argument 'amount' is not at_most(100)" in str(refused(gate_of(doubling, authority=gate._authority), Pay(51), context))


def test_a_rewrite_may_make_a_call_permitted():
    @policy
    def capping(call):
        return Verdict.rewrite(attrs.evolve(call.message, amount=min(call.message.amount, 100)))

    gate = gate_of(capping)
    context = gate._authority.mint("ada", ["**"]).narrow(where("payments.send", amount=at_most(100)))
    assert admit(gate, Pay(5_000), context).message == Pay(100)


@pytest.mark.parametrize("other", [PayMore(1), None, "text", {"amount": 1}, Pay, object()], ids=steady)
def test_a_rewrite_to_another_class_refuses(other):
    @policy
    def changing(call):
        return Verdict.rewrite(other)

    denied = refused(gate_of(changing))
    assert denied.reason == "policy"
    assert "rewrote it to an object of type" in str(denied)


def test_a_rewrite_that_cannot_be_copied_refuses():
    import threading

    @policy
    def locking(call):
        return Verdict.rewrite(Pay(1, threading.Lock()))

    denied = refused(gate_of(locking))
    assert denied.reason == "undecided"
    assert "cannot be copied" in str(denied)


def test_what_a_policy_keeps_or_changes_is_not_what_is_handled():
    kept = []

    @policy(name="keeper")
    def keeper(call):
        kept.append(call.message)
        call.message.notes.append("from the policy")
        with pytest.raises(TypeError):
            call.arguments["amount"] = 1
        return Verdict.allow()

    @policy(name="rewriter")
    def rewriter(call):
        assert call.message.notes == ["sent"], "the other policy's copy is its own"
        made = Pay(41, ["rewritten"])
        kept.append(made)
        return Verdict.rewrite(made)

    sent = Pay(40, ["sent"])
    admission = admit(gate_of(keeper, rewriter), sent)
    for one in [*kept, sent]:
        one.notes.append("later")
    assert admission.message == Pay(41, ["rewritten"])
    admission = admit(gate_of(keeper), Pay(40, ["sent"]))
    kept[-1].notes.append("later")
    assert admission.message == Pay(40, ["sent"])


def test_what_another_thread_revokes_while_a_policy_thinks_is_refused():
    authority = Authority()
    context = authority.mint("ada", ["**"])

    @policy
    def thinking(call):
        thread = threading.Thread(target=authority.revoke, args=(context,))
        thread.start()
        thread.join(10)
        return Verdict.allow()

    with pytest.raises(Revoked):
        admit(gate_of(thinking, authority=authority), context=context)


def test_what_is_withdrawn_while_a_policy_thinks_is_unknown():
    registry = rt.CapabilityRegistry([rt.Capability("payments.send", risk="L0")])

    @policy
    def thinking(call):
        registry.withdraw("payments.send")
        return Verdict.allow()

    assert refused(gate_of(thinking, capabilities=registry)).reason == "unknown_operation"


# -- which calls it is asked about -------------------------------------------------------------------------------------------------------------------------


def test_a_policy_sees_the_call():
    seen = []

    @policy(operations=["payments.*"])
    def looking(call):
        seen.append(call)
        return Verdict.allow()

    gate = gate_of(looking)
    context = gate._authority.mint("ada", ["**"], tenant="acme")
    admit(gate, Pay(7), context, risk="L2")
    (call,) = seen
    assert type(call) is PolicyCall
    assert (call.operation, call.path, call.message_type, call.risk) == ("payments.send", "/user/bank", "Pay", "L2")
    assert (call.message, dict(call.arguments)) == (Pay(7), {"amount": 7, "notes": []})
    assert call.security is context
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        call.risk = "L0"


def test_the_text_of_a_call_shows_no_values_since_errors_of_policies_may_hold_it():
    @policy
    def failing(call):
        raise KeyError(call)

    with pytest.raises(Denied) as caught:
        admit(gate_of(failing), Pay(7, ["s3cr3t"]))
    assert type(caught.value.__cause__.__cause__ or caught.value.__cause__) is KeyError
    error = caught.value
    while error is not None:
        assert "s3cr3t" not in str(error)
        error = error.__cause__


def test_a_policy_is_asked_about_its_operations_and_open_handlers_are_none():
    @policy(operations=["payments.*"])
    def closed(call):
        return Verdict.refuse("no payments")

    gate = gate_of(closed)
    assert admit(gate, operation="fs.read").static is True
    assert admit(gate, operation=None).static is True
    assert admit(gate, operation="payments.a.b").static is True
    with pytest.raises(Denied):
        admit(gate)
    assert gate.is_static(gate._authority.everything, "fs.read") is True
    assert gate.is_static(gate._authority.everything, "payments.send") is False


def test_an_object_with_a_name_and_decide_is_a_policy():
    class Office:
        name = "office"
        operations = ("payments.**",)

        def decide(self, call):
            return Verdict.refuse("closed")

    assert isinstance(Office(), Policy)
    assert "the policy 'office' refuses it: closed" in str(refused(gate_of(Office())))


def test_a_policy_is_read_once():
    class Office:
        name = "office"
        operations = ["payments.**"]  # noqa: RUF012

        def decide(self, call):
            return Verdict.refuse("closed")

    office = Office()
    gate = gate_of(office)
    office.operations = ["nothing"]
    Office.operations.clear()
    office.decide = lambda call: Verdict.allow()
    assert "closed" in str(refused(gate))


class Nameless:
    def decide(self, call):
        return Verdict.allow()


class Undecided:
    name = "undecided"
    decide = "yes"


class Raising:
    @property
    def name(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "odd",
    [
        None,
        "allow",
        lambda call: Verdict.allow(),
        Nameless(),
        Nameless,
        Named,
        Undecided(),
        Raising(),
        Named(""),
        Named(3),
        Named("x" * 256),
        Named(operations="payments.*"),
        Named(operations=[]),
        Named(operations=["payments..send"]),
        Named(operations=["**.x"]),
        Named(operations=[3]),
        Named(operations=None),
    ],
)
def test_what_is_no_policy_is_refused_when_the_gate_is_made(odd):
    with pytest.raises(DefinitionError):
        checked(odd)
    with pytest.raises(DefinitionError):
        gate_of(odd)


@pytest.mark.parametrize("policies", ["policy", b"policy", 3, None, willing])
def test_policies_are_a_list(policies):
    with pytest.raises(DefinitionError):
        Gate(Authority(), policies=policies)


def test_two_policies_of_one_name_are_refused():
    with pytest.raises(DefinitionError, match="two policies are named 'named'"):
        gate_of(Named(), Named())


@pytest.mark.parametrize("timeout", [0, -1, True, "5", None, float("nan"), float("inf")])
def test_a_time_out_is_a_number_of_seconds_above_zero(timeout):
    with pytest.raises(DefinitionError, match="policy_timeout"):
        PolicyEngine([], timeout)


@pytest.mark.parametrize("options", [{"operations": "payments"}, {"operations": []}, {"operations": ["a..b"]}, {"name": ""}, {"name": 3}])
def test_the_decorator_checks_its_options(options):
    with pytest.raises(DefinitionError):
        policy(**options)(lambda call: Verdict.allow())
    with pytest.raises(DefinitionError, match="marks a function"):
        policy(object())


def test_a_decorated_function_stays_one():
    assert willing(None) is Verdict.allow()
    assert copy.copy(willing) is willing
    assert pickle.loads(pickle.dumps(willing)) is willing
