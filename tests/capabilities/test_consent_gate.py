"""The gate and a person's consent: what is looked at before and after, when a consent is used up, and what never uses one up."""

from __future__ import annotations

import gc
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import retinue as rt
from fake_desk import FakeDesk
from gate_cases import Pay
from retinue.actors.store.errors import StoreUnavailable
from retinue.capabilities import settling
from retinue.capabilities.cases import NeedsConsent
from retinue.capabilities.consent import Consent
from retinue.capabilities.gate import Gate
from retinue.security.audit import AuditLog
from retinue.security.authority import Authority
from retinue.security.errors import AuditUnavailable

DEFINITION = "d" * 64


class World:
    """A gate with a desk, a context that may pay ten times, and the way through both."""

    def __init__(self, *more: Any, **options: Any) -> None:
        self.now = 1_000_000
        self.authority = Authority(clock=lambda: self.now)
        self.audit = AuditLog(now_ms=self.authority.now_ms)
        self.gate = Gate(self.authority, audit=self.audit, **options)
        self.gate.desk = self.desk = FakeDesk()
        self.ada = self.authority.mint("ada", ["payments.**", rt.limit(calls=10), *more])

    async def ask(self, message: Any = None, approvals: Any = (), context: Any = None, *, wanted: Any = lambda: True, **more: Any) -> Any:
        message = Pay() if message is None else message
        asked = {"path": "/user/bank", "message_type": type(message), "definition": DEFINITION, "approval": True, **more}
        try:
            self.gate.admit(context or self.ada, None, "payments.send", message, approvals=approvals, **asked)
        except NeedsConsent as needs:
            return await self.gate.settle(needs.case, wanted=wanted)
        raise AssertionError("nobody was asked")

    async def token(self, message: Any = None, **more: Any) -> str:
        with pytest.raises(rt.ApprovalRequired) as caught:
            await self.ask(message, **more)
        return self.desk.approve(caught.value.request)

    @property
    def calls(self) -> tuple[int, int]:
        """Calls that are spent and reserved."""
        (account,) = self.ada.accounts
        (balance,) = (self.gate.ledger.balance(account),)
        return balance.spent.calls, balance.reserved.calls

    def kinds(self) -> list[tuple[str, bool, str]]:
        return [(entry.kind, entry.allowed, entry.reason) for entry in self.audit.entries()]


# -- the order ---------------------------------------------------------------------------------------------------------------------------------------------


async def test_without_a_token_there_is_a_request_and_a_record_and_nothing_is_charged():
    world = World()
    with pytest.raises(rt.ApprovalRequired, match=r"get it approved \(apr_") as caught:
        await world.ask()
    error = caught.value
    assert (error.operation, error.path) == ("payments.send", "/user/bank")
    assert error.request is world.desk.requests[0]
    assert dict(error.request.arguments) == {"to": "ACME", "amount": 40}
    assert world.calls == (0, 0)
    assert world.kinds() == [("decision", False, "approval")]
    assert (world.gate.allowed, world.gate.refused) == (0, 1)
    assert world.desk.log == ["consider"]


async def test_the_intent_is_on_record_and_the_call_reserved_before_the_approval_is_spent():
    world = World()
    token = await world.token()
    seen: list[Any] = []
    world.desk.hooks["spend"] = lambda: seen.append((world.kinds()[-1], world.calls, world.gate.allowed))
    admission = await world.ask(approvals=[token])
    assert seen == [(("decision", True, "approval"), (0, 1), 0)]
    assert world.calls == (1, 0)
    assert admission.consent.jti == token
    assert admission.record == world.audit.entries()[-1].number
    assert not admission.static
    assert "approved by 'bob'" in world.audit.entries()[-1].detail and token in world.audit.entries()[-1].detail
    assert (world.gate.allowed, world.gate.refused) == (1, 1)


async def test_a_question_has_all_that_a_consent_is_bound_to():
    world = World()
    context = world.authority.mint("ada", ["**", rt.needs_approval("payments.*")], tenant="acme", session="s-1")
    with pytest.raises(rt.ApprovalRequired):
        await world.ask(context=context, risk="L2", four_eyes=True)
    question = world.desk.questions[0]
    binding = question.binding
    assert (binding.operation, binding.subject, binding.tenant, binding.session) == ("payments.send", "ada", "acme", "s-1")
    assert (binding.audience, binding.definition, binding.policy_version) == ("/user/bank", DEFINITION, "1")
    assert (question.risk, question.four_eyes, question.context_id) == ("L2", True, context.id)
    assert len(question.reasons) == 2 and "needs_approval" in question.reasons[0] and "its handler" in question.reasons[1]
    assert question.arguments == {"to": "ACME", "amount": 40}


async def test_a_definition_is_found_for_the_very_class_of_the_message():
    @rt.message
    class PayTwice(Pay):
        pass

    world = World()
    kinds: list[type] = []
    for message in (Pay(), PayTwice()):
        with pytest.raises(rt.ApprovalRequired):
            await world.ask(message, definition=lambda kind: (kinds.append(kind), DEFINITION)[1])
    assert kinds == [Pay, PayTwice]


async def test_another_version_of_the_policy_asks_again():
    world = World()
    token = await world.token()
    world.authority.policy_version = "2"
    with pytest.raises(rt.ApprovalRequired):
        await world.ask(approvals=[token])
    assert [question.binding.policy_version for question in world.desk.questions] == ["1", "1 under 2"]


# -- who is not even asked ---------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Odd:
    value: Any


@pytest.mark.parametrize("what", ["no permission", "no risk", "no call left", "expired", "odd arguments", "no definition", "no desk"])
async def test_what_no_consent_would_help_bothers_nobody(what: str):
    world = World(*([rt.max_risk("L1")] if what == "no risk" else []))
    message: Any = Pay(to=Odd(complex(1, 2))) if what == "odd arguments" else Pay()  # type: ignore[arg-type]
    context, more = world.ada, {}
    match what:
        case "no permission":
            context = context.narrow(rt.deny("payments.send"))
        case "no risk":
            more["risk"] = "L3"
        case "no call left":
            context = context.narrow(rt.limit(calls=0))
        case "expired":
            context = context.narrow(rt.expires(seconds=1))
            world.now += 2_000
        case "no definition":
            more["definition"] = ""
        case "no desk":
            world.gate.desk = None
    with pytest.raises((rt.Denied, rt.ApprovalRequired)) as caught:
        await world.ask(message, context=context, **more)
    if isinstance(caught.value, rt.ApprovalRequired):
        assert caught.value.requests == ()
    assert world.desk.log == []
    assert world.calls == (0, 0)
    assert len(world.audit.entries()) == 1


# -- what changes while the desk is waited for -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["revoked", "expired", "budget", "audit", "not wanted", "undeclared", "risk", "file"])
async def test_whatever_refuses_before_the_spending_leaves_the_approval_unspent(what: str, tmp_path: Any):
    registry = rt.CapabilityRegistry()
    registry.declare(rt.Capability("payments.send", "L1"))
    file = tmp_path / "policy.toml"
    file.write_text('version = 1\n[[rule]]\noperations = ["**"]\nverdict = "allow"\n', encoding="utf-8")
    policy = rt.policy_from_file(file)
    assert not policy.problem, policy.problem
    world = World(rt.max_risk("L2"), capabilities=registry, policies=[policy])
    context = world.ada.narrow(rt.expires(seconds=60), rt.limit(calls=1))
    token = await world.token(context=context)
    wanted = [True]

    def change() -> None:
        match what:
            case "revoked":
                world.authority.revoke(context)
            case "expired":
                world.now += 60_000
            case "budget":
                world.gate.ledger.charge(context.accounts, calls=1)
            case "audit":
                world.audit._sink = _Full()  # type: ignore[misc, assignment]
            case "not wanted":
                wanted[0] = False
            case "undeclared":
                registry.withdraw("payments.send")
            case "risk":
                registry.replace(["payments.send"], [rt.Capability("payments.send", "L3")])
            case "file":
                file.write_text("", encoding="utf-8")
                policy.reload()

    world.desk.hooks["consider"] = change
    spent = world.calls[0]
    with pytest.raises(rt.Denied) as caught:
        await world.ask(approvals=[token], context=context, wanted=lambda: wanted[0])
    expected = {"not wanted": "undecided", "undeclared": "unknown_operation", "file": "policy"}.get(what, what)
    assert caught.value.reason == expected
    assert world.desk.spent == [] and "spend" not in world.desk.log
    assert world.calls == (spent + (what == "budget"), 0)
    assert world.gate.allowed == 0


class _Full:
    """An audit's sink on a disk that is full."""

    def write(self, _: Any) -> None:
        raise AuditUnavailable("the disk is full")


async def test_a_question_that_becomes_another_one_is_asked_anew():
    registry = rt.CapabilityRegistry()
    registry.declare(rt.Capability("payments.send", "L1"))
    world = World(capabilities=registry)
    token = await world.token()
    stricter = rt.Capability("payments.send", "L1", approval=True, four_eyes=True)
    world.desk.hooks["consider"] = lambda: registry.replace(["payments.send"], [stricter])
    await world.ask(approvals=[token])
    assert [question.four_eyes for question in world.desk.questions] == [False, False, True]
    assert world.desk.questions[-1].reasons == ("its handler says approval=True", "its capability says approval=True")


async def test_a_question_that_never_stays_the_same_is_refused():
    world = World()
    token = await world.token()
    versions = iter(range(2, 100))

    def change() -> None:
        world.authority.policy_version = str(next(versions))
        world.desk.tokens[token] = world.desk.questions[-1].binding

    world.desk.hooks["consider"] = change
    with pytest.raises(rt.Denied, match="changes faster"):
        await world.ask(approvals=[token])
    assert world.desk.spent == []


# -- between the spending and the effect -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["revoked", "expired", "not wanted", "arguments"])
async def test_what_ends_in_the_moment_of_spending_is_not_run_and_that_is_its_outcome(what: str):
    world = World()
    context = world.ada.narrow(rt.expires(seconds=60))
    token = await world.token(context=context)
    wanted = [True]
    message = Pay()

    def change() -> None:
        match what:
            case "revoked":
                world.authority.revoke(context)
            case "expired":
                world.now += 60_000
            case "not wanted":
                wanted[0] = False
            case "arguments":
                for one in gc.get_objects():  # the gate's own copy, which nobody else has
                    if type(one) is Pay and one is not message:
                        object.__setattr__(one, "amount", 4_000_000)

    world.desk.hooks["spent"] = change
    with pytest.raises(rt.Denied) as caught:
        await world.ask(message, approvals=[token], context=context, wanted=lambda: wanted[0])
    assert caught.value.reason == {"revoked": "revoked", "expired": "expired"}.get(what, "undecided")
    assert world.desk.spent == [token]
    assert world.desk.outcomes == {token: "not run"}
    assert world.calls == (0, 0)
    assert world.kinds()[1:] == [("decision", True, "approval"), ("outcome", True, "failed"), ("decision", False, caught.value.reason)]
    assert "not run" in world.audit.entries()[2].detail
    with pytest.raises(rt.Denied):
        await world.ask(approvals=[token], context=context)
    assert world.gate.allowed == 0


async def test_what_the_sender_changes_in_the_moment_of_spending_changes_nothing():
    world = World()
    token = await world.token()
    message = Pay()
    world.desk.hooks["spent"] = lambda: object.__setattr__(message, "amount", 4_000_000)
    admission = await world.ask(message, approvals=[token])
    assert admission.message == Pay()
    assert admission.message is not message


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (rt.Denied("it was spent before", reason="spent"), "spent"),
        (rt.ApprovalError("it has expired", reason="expired"), "approval"),
        (StoreUnavailable("the disk is full", reason="full_disk"), "store"),
        (ZeroDivisionError("secret"), "store"),
    ],
)
@pytest.mark.parametrize("step", ["consider", "spend"])
async def test_a_desk_that_fails_refuses(step: str, error: Exception, reason: str):
    world = World()
    token = await world.token()
    world.desk.fails[step] = error
    with pytest.raises(rt.Denied) as caught:
        await world.ask(approvals=[token])
    denied = caught.value
    assert (denied.reason, denied.operation, denied.path, denied.subject) == (reason, "payments.send", "/user/bank", "ada")
    assert denied.__cause__ is error
    assert "secret" not in str(denied)
    assert world.calls == (0, 0)
    unknown = step == "spend" and reason == "store"  # it may have been spent: a person is to look, and no true outcome is taken away
    assert world.desk.outcomes == ({token: "indeterminate"} if unknown else {}) and world.gate.allowed == 0
    assert world.kinds()[-1] == ("decision", False, reason)


async def test_what_cuts_the_spending_off_says_nothing_of_whether_it_is_spent():
    world = World()
    token = await world.token()
    world.desk.fails["spend"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        await world.ask(approvals=[token])
    assert world.desk.outcomes == {token: "indeterminate"}
    assert world.calls == (0, 0) and world.gate.allowed == 0


async def test_only_a_consent_of_the_real_kind_is_one():
    world = World()

    class Lax(FakeDesk):
        async def consider(self, question: Any, approvals: Any) -> Any:
            return True

    world.gate.desk = lax = Lax()
    with pytest.raises(rt.Denied, match="an object of type bool") as caught:
        await world.ask()
    assert caught.value.reason == "undecided" and lax.spent == []


async def test_a_spending_that_does_not_end_is_refused_after_its_time(autojump_clock: Any):
    world = World()
    token = await world.token()
    world.desk.holds["spend"] = trio.Event()
    began = trio.current_time()
    with pytest.raises(rt.Denied, match="did not say within") as caught:
        await world.ask(approvals=[token])
    assert trio.current_time() - began == pytest.approx(settling.SPEND_TIMEOUT)
    assert caught.value.reason == "store" and world.calls == (0, 0)


# -- cancelled ---------------------------------------------------------------------------------------------------------------------------------------------


async def test_a_cancellation_while_the_desk_considers_leaves_everything_as_it_was():
    world = World()
    token = await world.token()
    world.desk.holds["consider"] = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.ask, None, [token])
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert world.desk.spent == [] and world.desk.outcomes == {} and world.calls == (0, 0)
    assert world.kinds() == [("decision", False, "approval")]
    world.desk.holds.clear()
    assert (await world.ask(approvals=[token])).consent.jti == token


@pytest.mark.parametrize("step", ["spend", "spent"])
async def test_a_cancellation_while_it_is_spent_waits_for_that_and_then_nothing_is_run(step: str):
    world = World()
    token = await world.token()
    hold = world.desk.holds[step] = trio.Event()
    ended: list[str] = []

    async def ask() -> None:
        try:
            await world.ask(approvals=[token])
        except trio.Cancelled:
            ended.append("cancelled")
            raise

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await wait_all_tasks_blocked()
            assert ended == [] and world.calls == (0, 1)
            hold.set()
            await wait_all_tasks_blocked()
    assert ended == ["cancelled"]
    assert world.desk.spent == [token] and world.desk.outcomes == {token: "not run"}
    assert world.calls == (0, 0)
    assert world.kinds()[1:] == [("decision", True, "approval"), ("outcome", True, "failed")]
    assert world.gate.allowed == 0


async def test_thirty_two_racers_with_one_token_come_to_one_effect():
    world = World()
    token = await world.token()
    world.desk.holds["spend"] = hold = trio.Event()
    effects: list[Any] = []
    errors: list[rt.Denied] = []

    async def race() -> None:
        try:
            effects.append(await world.ask(approvals=[token], context=world.ada))
        except rt.Denied as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        for _ in range(32):
            nursery.start_soon(race)
        await wait_all_tasks_blocked()
        hold.set()
    assert len(effects) == 1
    assert {error.reason for error in errors} == {"spent", "budget"}
    assert world.calls == (1, 0)


# -- predicates --------------------------------------------------------------------------------------------------------------------------------------------


class _Claims:
    def __eq__(self, _: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def _raises(_: Any) -> Any:
    raise ZeroDivisionError


class _Aside(BaseException):
    pass


def _raises_aside(_: Any) -> Any:
    raise _Aside


async def _later(_: Any) -> bool:
    return False


@pytest.mark.parametrize(
    "predicate", [lambda _: True, lambda _: None, lambda _: 0, lambda _: "", lambda _: _Claims(), _raises, _raises_aside, _later]
)
async def test_whatever_a_predicate_does_but_say_false_asks_for_consent(predicate: Any):
    world = World()
    with pytest.raises(rt.ApprovalRequired, match="approval= asks for it"):
        await world.ask(approval=predicate)


def test_a_predicate_that_says_false_lets_pass_this_message_and_not_the_next():
    world = World()
    asked = {"path": "/user/bank", "message_type": Pay, "definition": DEFINITION, "approval": lambda message: message.amount > 50}
    admission = world.gate.admit(world.authority.root, None, "payments.send", Pay(amount=50), **asked)
    assert not admission.static and admission.consent is None
    with pytest.raises(NeedsConsent):
        world.gate.admit(world.authority.root, None, "payments.send", Pay(amount=51), **asked)


def test_a_predicate_sees_a_copy_that_is_nobody_elses():
    @rt.message
    class Many(rt.Message):
        to: list[str]

    world = World()
    kept: list[Any] = []
    sent = Many(["ACME"])
    admission = world.gate.admit(
        world.authority.root,
        None,
        "payments.send",
        sent,
        path="/user/bank",
        message_type=Many,
        approval=lambda message: (kept.append(message), message.to.append("Eve"), False)[2],
    )
    assert admission.message.to == ["ACME"] and sent.to == ["ACME"] and kept[0].to == ["ACME", "Eve"]


def test_a_consent_has_an_id_an_approver_and_a_kind():
    consent = Consent("jti", "bob")
    assert (consent.kind, consent.request_id, consent.standing_id) == ("token", None, None)
