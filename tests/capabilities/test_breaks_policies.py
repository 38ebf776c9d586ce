"""Policies, and values in messages, that raise what is no Exception; registries that change while a policy is waited for. All of it refuses, and no actor fails of it."""

import asyncio

import pytest
import trio

import retinue as rt
from gate_policies import Pay, admit, admit_async, gate_of
from retinue.capabilities.policy import Verdict, policy
from retinue.capabilities.registry import Capability, CapabilityRegistry
from retinue.security import ApprovalRequired, Authority, Denied
from retinue.security.restrictions import max_risk


class Odd(BaseException):
    pass


RAISED = [Odd, asyncio.CancelledError, lambda: BaseExceptionGroup("odd", [Odd()])]


def raising(make, *, patient=False):
    @policy(name="odd")
    def decide(call):
        raise make()

    @policy(name="odd")
    async def decide_later(call):
        await trio.lowlevel.checkpoint()
        raise make()

    return decide_later if patient else decide


@pytest.mark.parametrize("make", [*RAISED, GeneratorExit], ids=["own", "cancelled", "group", "exit"])
def test_what_a_plain_policy_raises_refuses_although_it_is_no_exception(make):
    with pytest.raises(Denied, match="the policy 'odd' failed") as caught:
        admit(gate_of(raising(make)))
    assert caught.value.reason == "policy"


@pytest.mark.parametrize("make", RAISED, ids=["own", "cancelled", "group"])
async def test_what_an_asynchronous_policy_raises_refuses_although_it_is_no_exception(make):
    with pytest.raises(Denied, match="the policy 'odd' failed") as caught:
        await admit_async(gate_of(raising(make, patient=True)))
    assert caught.value.reason == "policy"


@pytest.mark.parametrize("patient", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
async def test_what_ends_the_process_goes_through_a_policy(kind, patient):
    gate = gate_of(raising(kind, patient=patient))
    with pytest.raises(kind):
        await admit_async(gate)
    assert gate.allowed == 0


async def test_a_cancellation_goes_through_a_policy_that_fails_beside_it():
    @policy
    async def mixed(call):
        async def fail_at_the_end():
            try:
                await trio.sleep_forever()
            finally:
                raise Odd

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_at_the_end)

    gate = gate_of(mixed)
    with trio.move_on_after(0.01) as scope:
        await admit_async(gate)
    assert scope.cancelled_caught
    assert gate.allowed == 0


class Count(rt.Actor):
    def __init__(self):
        self.paid = 0

    @rt.handler(requires="payments.send")
    def pay(self, message: Pay) -> None:
        self.paid += 1

    @rt.handler
    def count(self, message: "Paid") -> int:
        return self.paid


@rt.message
class Paid(rt.Request[int]):
    pass


@pytest.mark.parametrize("patient", [False, True], ids=["plain", "async"])
async def test_an_actor_keeps_its_state_and_its_place_when_a_policy_raises_what_is_no_exception(patient):
    odd = raising(Odd, patient=patient)

    @policy(name="sometimes")
    def passing(call):
        return Verdict.allow()

    async with rt.ActorSystem(policies=[passing, odd]) as system:
        till = await system.spawn(Count, name="till")
        for _ in range(3):
            with pytest.raises(Denied):
                await till.ask(Pay(1))
        till.tell(Pay(1))
        await system.wait_quiet()
        assert await till.ask(Paid()) == 0
        (statistics,) = system.actors()
        assert statistics.failures == statistics.restarts == 0
        assert [letter.reason for letter in system.dead_letters.recent] == ["denied"]
        assert len(await system.audit.entries(kind="decision", allowed=False)) == 4


class Trap:
    """Cannot be copied, in a way that nobody expects."""

    def __deepcopy__(self, memo):
        raise Odd("s3cr3t")


async def test_a_value_whose_copying_raises_what_is_no_exception_refuses_and_its_receiver_does_not_fail():
    async with rt.ActorSystem() as system:
        till = await system.spawn(Count, name="till")
        ada = system.authority.mint("ada", ["payments.send", rt.where("payments.send", amount=rt.at_most(100))])
        with pytest.raises(Denied) as caught:
            await till.ask(Pay(1, notes=Trap()), context=ada)
        assert caught.value.reason == "undecided"
        assert "s3cr3t" not in str(caught.value)
        (statistics,) = system.actors()
        assert statistics.failures == 0


@pytest.mark.parametrize(
    ("then", "error", "reason"),
    [
        (None, Denied, "unknown_operation"),
        (Capability("payments.send", risk="L3"), Denied, "risk"),
        (Capability("payments.send", risk="L0", approval=True), ApprovalRequired, None),
    ],
    ids=["withdrawn", "rated higher", "asks"],
)
async def test_what_the_registry_says_when_the_last_policy_has_answered_is_what_counts(then, error, reason):
    registry = CapabilityRegistry([Capability("payments.send", risk="L0")])

    @policy
    async def slow(call):
        registry.replace(["payments.send"], [] if then is None else [then])
        return Verdict.allow()

    authority = Authority()
    gate = gate_of(slow, authority=authority, capabilities=registry)
    with pytest.raises(error) as caught:
        await admit_async(gate, context=authority.mint("ada", ["**", max_risk("L1")]))
    assert getattr(caught.value, "reason", None) == reason
    assert gate.allowed == 0
