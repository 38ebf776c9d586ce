"""Asynchronous policies: waited for within their time, cancelled with whoever waits, and nothing is decided before the last one has answered."""

import functools
import time

import pytest
import trio

from gate_policies import Named, Pay, admit_async, doubling, gate_of, refused, willing
from retinue.capabilities import GateStatistics
from retinue.capabilities.policy import Verdict, policy
from retinue.security import Authority, Denied
from retinue.security.errors import Revoked
from retinue.security.restrictions import limit

# -- asynchronous ones -------------------------------------------------------------------------------------------------------------------------------------


@policy
async def patient(call):
    await trio.lowlevel.checkpoint()
    return Verdict.allow()


@policy
async def hanging(call):
    await trio.sleep_forever()


async def test_an_asynchronous_policy_is_waited_for():
    gate = gate_of(willing, patient, doubling)
    assert gate.awaits("payments.send") is True
    assert (await admit_async(gate)).message == Pay(80)
    assert gate.statistics() == GateStatistics(allowed=1, refused=0)


def test_the_synchronous_door_refuses_what_an_asynchronous_policy_is_asked_about():
    denied = refused(gate_of(patient))
    assert denied.reason == "undecided"
    assert "admit_async" in str(denied)


def test_only_operations_that_an_asynchronous_policy_is_asked_about_are_awaited():
    class Remote:
        name = "remote"
        operations = ("payments.**",)

        async def decide(self, call):
            return Verdict.allow()

    gate = gate_of(willing, Remote())
    assert gate.awaits("payments.send") is True
    assert gate.awaits("fs.read") is False
    assert gate.awaits(None) is False
    assert gate_of(willing).awaits("payments.send") is False


@pytest.mark.parametrize("wrap", [functools.partial, lambda function: function], ids=["partial", "plain"])
async def test_every_spelling_of_an_asynchronous_decision_is_awaited(wrap):
    async def decide(call):
        await trio.lowlevel.checkpoint()
        return Verdict.allow()

    class Callable:
        async def __call__(self, call):
            await trio.lowlevel.checkpoint()
            return Verdict.refuse("called")

    one = Named("one")
    one.decide = wrap(decide)
    gate = gate_of(one)
    assert gate.awaits("payments.send")
    assert await admit_async(gate)
    two = Named("two")
    two.decide = Callable()
    with pytest.raises(Denied, match="called"):
        await admit_async(gate_of(two))


async def test_a_policy_that_hangs_refuses_after_its_time(autojump_clock):
    began = trio.current_time()
    gate = gate_of(hanging, policy_timeout=3)
    with pytest.raises(Denied, match="'hanging' did not answer within 3 s") as caught:
        await admit_async(gate)
    assert caught.value.reason == "policy"
    assert trio.current_time() - began == 3


async def test_each_policy_has_its_own_time(autojump_clock):
    def slow(name):
        async def decide(call):
            await trio.sleep(2)
            return Verdict.allow()

        made = Named(name)
        made.decide = decide
        return made

    assert await admit_async(gate_of(slow("a"), slow("b"), policy_timeout=3))


async def test_a_policy_that_swallows_its_time_out_and_allows_is_late(autojump_clock):
    @policy
    async def stubborn(call):
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            pass
        return Verdict.allow()

    gate = gate_of(stubborn, policy_timeout=1)
    with pytest.raises(Denied, match="did not answer"):
        await admit_async(gate)
    assert gate.allowed == 0


async def test_a_policy_that_keeps_the_thread_busy_is_late():
    @policy
    async def busy(call):
        time.sleep(0.05)  # noqa: ASYNC251 - that is the fault
        return Verdict.allow()

    with pytest.raises(Denied, match="did not answer"):
        await admit_async(gate_of(busy, policy_timeout=0.01))


async def test_a_policy_that_swallows_the_asker_s_cancellation_admits_nothing():
    @policy
    async def stubborn(call):
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            pass
        return Verdict.allow()

    gate = gate_of(stubborn)
    passed = False
    with trio.move_on_after(0.01) as scope:
        await admit_async(gate)
        passed = True
    assert scope.cancelled_caught
    assert not passed
    assert gate.statistics() == GateStatistics(allowed=0, refused=0)


async def test_a_cancellation_goes_through_and_nothing_is_charged_or_counted():
    gate = gate_of(hanging)
    context = gate._authority.mint("ada", ["**", limit(calls=1)])
    with trio.move_on_after(0.01) as scope:
        await admit_async(gate, context=context)
    assert scope.cancelled_caught
    assert gate.statistics() == GateStatistics(allowed=0, refused=0)
    assert gate.ledger.balance(context.accounts[0]).spent.calls == 0


@pytest.mark.parametrize("answer", [None, True, {}, "allow", object(), Verdict])
async def test_what_is_no_verdict_refuses_when_awaited_too(answer):
    @policy
    async def odd(call):
        await trio.lowlevel.checkpoint()
        return answer

    with pytest.raises(Denied, match="answered with an object of type"):
        await admit_async(gate_of(odd))


async def test_an_exception_of_an_asynchronous_policy_refuses():
    @policy
    async def failing(call):
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError

    with pytest.raises(Denied, match="failed with ZeroDivisionError") as caught:
        await admit_async(gate_of(failing))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


async def test_a_context_that_is_revoked_while_a_policy_thinks_is_refused():
    authority = Authority()
    context = authority.mint("ada", ["**"])

    @policy
    async def thinking(call):
        await trio.lowlevel.checkpoint()
        authority.revoke(context)
        return Verdict.allow()

    with pytest.raises(Revoked):
        await admit_async(gate_of(thinking, authority=authority), context=context)


async def test_a_message_that_its_sender_changes_while_a_policy_thinks_is_handled_as_it_was():
    sent = Pay(1, ["sent"])

    @policy
    async def thinking(call):
        await trio.lowlevel.checkpoint()
        sent.notes.append("changed")
        return Verdict.allow()

    assert (await admit_async(gate_of(thinking), sent)).message == Pay(1, ["sent"])
