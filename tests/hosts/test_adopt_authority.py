"""The gate before an adopted pykka actor is the gate before any actor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pykka
import pytest
import trio

import retinue as rt
from core_authority import error_of
from core_hosts import conserved, reasons
from pykka_program import MESSAGES, Balance, Clerk, Deposit, Do, Till
from quiet_threads import PATIENCE, until


@pytest.fixture(autouse=True)
def _the_program_ends() -> Iterator[None]:
    yield
    pykka.ActorRegistry.stop_all(timeout=PATIENCE)


GATED = {Deposit: "till.deposit", Balance: "till.read"}


async def test_each_message_needs_what_its_class_was_adopted_with() -> None:
    actor = Till.start()
    async with rt.ActorSystem() as system:
        till = await system.adopt(actor, messages=MESSAGES, requires=GATED)
        reader = system.authority.mint("reader", ["till.read"])
        assert await till.ask(Balance(), context=reader) == 0
        denied = await error_of(till.ask(Deposit(1), context=reader))
        assert isinstance(denied, rt.Denied)
        assert (denied.operation, denied.subject, denied.path) == ("till.deposit", "reader", till.path)
        assert till.tell(Deposit(1), context=reader)
        await system.wait_quiet()
        assert reasons(system) == {"denied": 1}
        assert [type(message) for message in actor.ask(Do(lambda till: till.received))] == [Balance, Do]  # nothing refused has reached it
        found = [(entry.operation, entry.subject, entry.path) for entry in await system.audit.entries(allowed=False)]
        assert found == [("till.deposit", "reader", till.path)] * 2
        assert conserved(system)


async def test_one_operation_may_stand_for_all_messages() -> None:
    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=[Deposit, Balance], requires="till.use")
        nobody = system.authority.mint("nobody", ["other"])
        for message in (Deposit(1), Balance()):
            assert isinstance(await error_of(till.ask(message, context=nobody)), rt.Denied)


async def test_a_narrowed_context_is_held_to_its_arguments() -> None:
    async with rt.ActorSystem() as system:
        till = await system.adopt(Clerk.start(), messages={Deposit: "deposit"}, requires="till.deposit")
        ada = system.authority.mint("ada", ["till.**"]).narrow(rt.where("till.deposit", cents=rt.at_most(10)))
        assert await till.ask(Deposit(10), context=ada) == 10
        denied = await error_of(till.ask(Deposit(11), context=ada))
        assert isinstance(denied, rt.Denied) and denied.reason == "arguments"


async def test_an_agent_that_asks_on_does_so_under_what_it_was_asked_with() -> None:
    @rt.message
    class Try(rt.Request[Any]):
        message: Any

    class Agent(rt.Actor):
        def __init__(self, till: rt.Ref[Any]) -> None:
            self.till = till

        @rt.handler
        async def attempt(self, message: Try) -> Any:
            return await self.till.ask(message.message)

    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=MESSAGES, requires=GATED)
        agent = await system.spawn(Agent, till)
        reader = system.authority.mint("reader", ["till.read"])
        assert await agent.ask(Try(Balance()), context=reader) == 0
        assert isinstance(await error_of(agent.ask(Try(Deposit(1)), context=reader)), rt.Denied)


async def test_its_grant_holds_whoever_asks() -> None:
    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=MESSAGES, requires=GATED, grant=["till.read"])
        assert await till.ask(Balance()) == 0
        assert isinstance(await error_of(till.ask(Deposit(1))), rt.Denied)


async def test_revoked_and_expired_contexts_are_refused() -> None:
    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=MESSAGES, requires=GATED)
        ada = system.authority.mint("ada", ["till.**"])
        system.authority.revoke(ada)
        assert isinstance(await error_of(till.ask(Balance(), context=ada)), rt.Revoked)
        bob = system.authority.mint("bob", ["till.**", rt.expires(seconds=0.01)])
        await trio.sleep(0.02)
        assert isinstance(await error_of(till.ask(Balance(), context=bob)), rt.Expired)


async def test_a_strict_system_adopts_nothing_that_is_open_to_all() -> None:
    async with rt.ActorSystem(strict=True) as system:
        with pytest.raises(rt.DefinitionError, match="strict"):
            await system.adopt(Till.start(), messages=[Deposit, Balance], requires={Deposit: "till.deposit"})
        till = await system.adopt(Till.start(), messages=[Deposit, Balance], requires=GATED)
        assert await till.ask(Balance()) == 0


@pytest.mark.parametrize("approval", [True, {Deposit: lambda message: message.cents > 5}], ids=["always", "by a rule"])
async def test_a_person_may_have_to_consent(approval: Any) -> None:
    async with rt.ActorSystem() as system:
        till = await system.adopt(Clerk.start(), messages={Deposit: "deposit"}, requires="till.deposit", approval=approval)
        required = await error_of(till.ask(Deposit(6)))
        assert isinstance(required, rt.ApprovalRequired)
        token = await system.approvals.approve(required.request.id, reviewer="bob")
        assert isinstance(await error_of(till.ask(Deposit(7), approvals=[token])), rt.ApprovalRequired | rt.Denied)
        assert await till.ask(Deposit(6), approvals=[token]) == 6
        again = await error_of(till.ask(Deposit(6), approvals=[token]))
        assert isinstance(again, rt.Denied) and again.reason == "spent"
        if isinstance(approval, dict):
            assert await till.ask(Deposit(5)) == 11
        await until(lambda: not system._kernel.adopted.working)


async def test_a_consent_is_for_what_the_pykka_class_does_and_not_for_its_name() -> None:
    def clerk(factor: int) -> type[pykka.ThreadingActor]:
        class Teller(pykka.ThreadingActor):
            use_daemon_thread = True

            def deposit(self, cents: int) -> int:
                return cents * factor

        class Changed(pykka.ThreadingActor):
            use_daemon_thread = True

            def deposit(self, cents: int) -> int:
                return -cents

        Changed.__qualname__, Changed.__name__ = Teller.__qualname__, "Teller"
        return Teller if factor else Changed

    async with rt.ActorSystem() as system:

        async def adopted(cls: type[pykka.ThreadingActor]) -> rt.Ref[Any]:
            return await system.adopt(cls.start(), messages={Deposit: "deposit"}, requires="till.deposit", approval=True, name="till")

        till = await adopted(clerk(1))
        required = await error_of(till.ask(Deposit(6)))
        assert isinstance(required, rt.ApprovalRequired)
        token = await system.approvals.approve(required.request.id, reviewer="bob")
        await till.stop()
        till = await adopted(clerk(0))
        assert isinstance(await error_of(till.ask(Deposit(6), approvals=[token])), rt.Denied | rt.ApprovalRequired)
        await till.stop()
        till = await adopted(clerk(1))
        assert await till.ask(Deposit(6), approvals=[token]) == 6


async def test_a_gated_payload_is_what_the_gate_has_seen() -> None:
    payload = {"pay": 5}

    @rt.policy(operations=["till.raw"])
    def small(call: rt.PolicyCall) -> rt.Verdict:
        return rt.Verdict.allow() if call.arguments["payload"]["pay"] < 10 else rt.Verdict.refuse("too much")

    async with rt.ActorSystem(policies=[small]) as system:
        actor = Till.start()
        till = await system.adopt(actor, messages=[rt.PykkaMessage], requires="till.raw")
        assert await till.ask(rt.PykkaMessage(payload)) is None
        (received,) = actor.proxy().received.get()
        assert received == payload
        assert isinstance(await error_of(till.ask(rt.PykkaMessage({"pay": 10}))), rt.Denied)
        assert received is not payload  # a copy: its sender cannot change it after the gate has looked


async def test_the_pykka_ref_itself_is_not_gated() -> None:
    actor = Till.start()
    async with rt.ActorSystem() as system:
        till = await system.adopt(actor, messages=MESSAGES, requires=GATED)
        nobody = system.authority.mint("nobody", [])
        assert isinstance(await error_of(till.ask(Deposit(1), context=nobody)), rt.Denied)
        assert actor.ask(Deposit(1)) == 1  # said on the page: who holds it needs nobody's leave
