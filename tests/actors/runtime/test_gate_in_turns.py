"""The door between the gate and a turn: what was looked at is what is handled, what is kept is exact, and what was revoked is over."""

from __future__ import annotations

import threading
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import retinue as rt
from core_authority import Send, Touch, Vault, error_of
from core_hosts import conserved, reasons
from core_puppet import Call, Do, Puppet, nothing, state_of


@rt.message
class Transfer(rt.Request[list[str]]):
    to: list[str]
    amount: int = 1


class Bank(rt.Actor):
    """Keeps what it was given, exactly as it was given."""

    def __init__(self, gate: trio.Event | None = None) -> None:
        self.gate = gate
        self.seen: list[list[str]] = []

    @rt.handler(requires="bank.transfer")
    async def transfer(self, message: Transfer) -> list[str]:
        if self.gate is not None:
            await self.gate.wait()
        self.seen.append(message.to)
        return [*message.to, str(message.amount)]

    @rt.handler
    def call(self, message: Call) -> Any:
        return message.script(self)


# -- the message that was looked at ------------------------------------------------------------------------------------------------------------------


async def test_a_sender_cannot_change_what_was_checked_while_the_handler_waits(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        gate = trio.Event()
        bank = await system.spawn(Bank, gate)
        ada = system.authority.mint("ada", ["bank.**"]).narrow(rt.where("bank.transfer", to=rt.each(rt.one_of("ACME"))))
        to = ["ACME"]
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await bank.ask(Transfer(to), context=ada))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            to[0] = "MALLORY"
            to.append("MALLORY")
            gate.set()
        assert answers == [["ACME", "1"]]
        assert await bank.ask(Call(lambda actor: actor.seen)) == [["ACME"]]
        assert (await bank.ask(Call(lambda actor: actor.seen)))[0] is not to


async def test_what_the_sender_changes_before_the_check_is_checked(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        gate = trio.Event()
        bank = await system.spawn(Bank, gate)
        ada = system.authority.mint("ada", ["bank.**"]).narrow(rt.where("bank.transfer", to=rt.each(rt.one_of("ACME"))))
        found: list[Any] = []

        async def ask(message: Transfer) -> None:
            found.append(await error_of(bank.ask(message, context=ada)))

        to = ["ACME"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, Transfer(["ACME"]))
            await wait_all_tasks_blocked()
            nursery.start_soon(ask, Transfer(to))
            await wait_all_tasks_blocked()
            to[0] = "MALLORY"  # it waits in the mailbox, and nobody has looked at it yet
            gate.set()
        (answer,) = [one for one in found if isinstance(one, list)]
        (error,) = [one for one in found if not isinstance(one, list)]
        assert answer == ["ACME", "1"]
        assert isinstance(error, rt.Denied)
        assert error.reason == "arguments"
        assert conserved(system)


async def test_where_nobody_looks_at_the_arguments_nothing_is_copied(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        bank = await system.spawn(Bank)
        to = ["ACME"]
        await bank.ask(Transfer(to))
        assert (await bank.ask(Call(lambda actor: actor.seen)))[0] is to


async def test_a_message_that_cannot_be_copied_is_refused_where_its_arguments_matter(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        bank = await system.spawn(Bank)
        ada = system.authority.mint("ada", ["bank.**"]).narrow(rt.where("bank.transfer", amount=rt.at_most(5)))
        odd: Any = [threading.Lock()]
        error = await error_of(bank.ask(Transfer(odd), context=ada))
        assert isinstance(error, rt.Denied)
        assert error.reason == "undecided"
        assert await bank.ask(Call(lambda actor: actor.seen)) == []


# -- policies ----------------------------------------------------------------------------------------------------------------------------------------


async def test_what_a_policy_rewrites_is_what_the_layers_see_and_the_handler_gets() -> None:
    @rt.policy(operations=["bank.**"])
    def capped(call: rt.PolicyCall) -> rt.Verdict:
        if call.arguments["amount"] > 10:
            return rt.Verdict.rewrite(attrs.evolve(call.message, amount=10))
        return rt.Verdict.allow()

    async with rt.ActorSystem(policies=[capped]) as system:
        bank = await system.spawn(Bank)
        ada = system.authority.mint("ada", ["bank.**"]).narrow(rt.where("bank.transfer", amount=rt.at_most(10)))
        assert await bank.ask(Transfer(["x"], 500), context=ada) == ["x", "10"]
        assert await bank.ask(Transfer(["x"], 5), context=ada) == ["x", "5"]
        bank.tell(Transfer(["told"], 500), context=ada)
        assert await bank.ask(Call(lambda actor: actor.seen)) == [["x"], ["x"], ["told"]]


async def test_rewriting_under_concurrency_never_mixes_messages_up() -> None:
    @rt.policy
    def doubled(call: rt.PolicyCall) -> rt.Verdict:
        return rt.Verdict.rewrite(attrs.evolve(call.message, amount=call.arguments["amount"] * 2))

    async with rt.ActorSystem(policies=[doubled], seed=11) as system:
        banks = [await system.spawn(Bank) for _ in range(3)]
        found: dict[int, Any] = {}

        async def ask(number: int) -> None:
            found[number] = await banks[number % 3].ask(Transfer([str(number)], number))

        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(ask, number)
        assert found == {number: [str(number), str(2 * number)] for number in range(60)}


async def test_a_policy_runs_as_the_turn_that_it_decides_about(turn_system: rt.ActorSystem) -> None:
    """Whichever way the message has come: what a policy sends goes out under the message's authority, never under the asker's or the holder's."""
    seen: list[Any] = []

    @rt.policy(operations=["vault.touch"])
    def telling(call: rt.PolicyCall) -> rt.Verdict:
        puppet = holder["puppet"]
        puppet.tell(Call(lambda actor: seen.append((actor.ctx.security.subject, actor.ctx.sender.path))))
        with pytest.raises(rt.Denied, match="mint"):
            holder["system"].authority.mint("evil", ["**"])
        return rt.Verdict.allow()

    holder: dict[str, Any] = {}
    options = {"seed": 4} if turn_system._kernel.dice is not None else {}
    async with rt.ActorSystem(policies=[telling], **options) as system:
        holder["system"] = system
        holder["puppet"] = await system.spawn(Puppet)
        vault = await system.spawn(Vault, name="vault")
        ada = system.authority.mint("ada", ["vault.**"])
        assert await vault.ask(Touch(), context=ada) == "ada"
        assert await vault.ask(Touch(), context=ada, detached=True) == "ada"
        await system.wait_quiet()
    assert seen == [("ada", "/user/vault")] * 2


async def test_a_stashed_message_is_asked_about_anew_as_it_was_sent() -> None:
    asked: list[int] = []

    @rt.policy
    def doubled(call: rt.PolicyCall) -> rt.Verdict:
        asked.append(call.arguments["amount"])
        return rt.Verdict.rewrite(attrs.evolve(call.message, amount=call.arguments["amount"] * 2))

    class Patient(rt.Actor):
        def __init__(self) -> None:
            self.times = 0

        @rt.handler(requires="bank.transfer")
        def transfer(self, message: Transfer) -> list[str]:
            self.times += 1
            if self.times == 1:
                self.ctx.stash()
            return [str(message.amount)]

        @rt.handler
        def call(self, message: Call) -> Any:
            return message.script(self)

    async with rt.ActorSystem(policies=[doubled]) as system:
        patient = await system.spawn(Patient)
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await patient.ask(Transfer([], 3)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            await patient.ask(Call(lambda actor: actor.ctx.unstash_all()))
        assert asked == [3, 3]
        assert answers == [["6"]]


# -- revoked -----------------------------------------------------------------------------------------------------------------------------------------


async def test_what_was_revoked_is_refused_at_once_though_its_verdict_was_kept(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        vault, puppet = await system.spawn(Vault), await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**"])
        child = ada.narrow(rt.allow("vault.touch"))
        for context in (ada, child):
            assert await vault.ask(Touch(), context=context) == "ada"
            assert await vault.ask(Touch(), context=context) == "ada"
        assert await puppet.ask(Call(nothing), context=ada) is None
        system.authority.revoke(ada)
        for context in (ada, child):
            error = await error_of(vault.ask(Touch(), context=context))
            assert isinstance(error, rt.Revoked)
        assert isinstance(await error_of(puppet.ask(Call(nothing), context=ada)), rt.Revoked), "an open handler too"
        assert await vault.ask(Touch()) == "root"
        assert conserved(system)


async def test_a_message_that_waits_while_its_context_is_revoked_is_not_handled(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**"])
        gate = trio.Event()
        found: list[Any] = []

        async def hold(_: Any) -> None:
            await gate.wait()

        async def ask() -> None:
            found.append(await error_of(puppet.ask(Call(lambda actor: actor.log.append("asked")), context=ada)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(error_of, puppet.ask(Do(hold), context=ada))
            await wait_all_tasks_blocked()
            nursery.start_soon(ask)
            puppet.tell(Call(lambda actor: actor.log.append("told")), context=ada)
            await wait_all_tasks_blocked()
            system.authority.revoke(ada)
            gate.set()
        (error,) = found
        assert isinstance(error, rt.Revoked)
        assert await state_of(puppet) == []
        assert reasons(system) == {"denied": 1}
        assert conserved(system)


async def test_a_handler_whose_authority_is_revoked_meanwhile_gets_nothing_more_done(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        puppet, vault = await system.spawn(Puppet), await system.spawn(Vault)
        ada = system.authority.mint("ada", ["**"])
        found: list[Any] = []

        async def script(actor: Any) -> str:
            mine = actor.ctx.security
            await vault.ask(Touch("before"))
            ready.set()
            await revoked.wait()
            found.append(await error_of(vault.ask(Touch("asked"))))
            vault.tell(Touch("told"))
            found.append(await error_of(actor.ctx.spawn(Puppet)))
            found.append(await error_of(vault.ask(Touch("narrowed"), context=mine.narrow(rt.allow("vault.touch")))))
            assert mine.allows("vault.touch") is False
            return "done"

        ready, revoked = trio.Event(), trio.Event()
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await puppet.ask(Do(script), context=ada))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await ready.wait()
            system.authority.revoke(ada)
            revoked.set()
        assert answers == ["done"]
        assert [type(error) for error in found] == [rt.Revoked] * 3
        assert await vault.ask(Touch("after")) == "root"
        assert reasons(system) == {"denied": 1}
        assert conserved(system)


async def test_an_actor_whose_grant_is_revoked_handles_nothing_more(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        front, vault = await system.spawn(Puppet), await system.spawn(Vault)
        ada = system.authority.mint("ada", ["**"])
        held: list[Any] = []

        async def script(actor: Any) -> None:
            held.append(await actor.ctx.spawn(Vault))

        await front.ask(Do(script), context=ada)
        (child,) = held
        assert await child.ask(Touch()) == "root"
        system.authority.revoke(ada)
        error = await error_of(child.ask(Touch()))
        assert isinstance(error, rt.Revoked)
        assert await vault.ask(Touch()) == "root"
        assert await front.ask(Call(nothing)) is None


async def test_a_revocation_from_another_thread_holds_when_it_returns() -> None:
    async with rt.ActorSystem("turns") as system:
        vault = await system.spawn(Vault)

        async def once() -> None:
            ada = system.authority.mint("ada", ["**"])
            stop = False
            after = trio.Event()

            async def keep_asking() -> tuple[int, int]:
                good = bad = 0
                while not stop:
                    answer = await error_of(vault.ask(Touch(), context=ada))
                    if isinstance(answer, str):
                        assert not after.is_set(), "it was let through after revoke() had returned"
                        good += 1
                    else:
                        assert isinstance(answer, rt.Revoked)
                        bad += 1
                    await trio.lowlevel.checkpoint()
                return good, bad

            counts: list[tuple[int, int]] = []

            async def run() -> None:
                counts.append(await keep_asking())

            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                await trio.sleep(0.002)
                await trio.to_thread.run_sync(system.authority.revoke, ada)
                after.set()
                await trio.sleep(0.002)
                stop = True
            ((good, bad),) = counts
            assert good > 0
            assert bad > 0

        for _ in range(10):
            await once()


# -- limits, consent, risk, the registry -------------------------------------------------------------------------------------------------------------


async def test_calls_are_counted_exactly_on_every_way(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        vault = await system.spawn(Vault)
        ada = system.authority.mint("ada", ["vault.**"]).narrow(rt.limit(calls=10))
        found: list[Any] = []

        async def ask(number: int) -> None:
            found.append(await error_of(vault.ask(Touch(), context=ada, detached=bool(number % 2))))

        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(ask, number)
        assert [one for one in found if isinstance(one, str)] == ["ada"] * 10
        assert {type(one) for one in found if not isinstance(one, str)} == {rt.BudgetExceeded}
        assert not ada.allows("vault.touch")
        assert await vault.ask(Touch(), context=system.authority.mint("ada", ["vault.**"])) == "ada"


async def test_the_budget_of_a_grant_is_charged_along_with_the_messages(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        vault = await system.spawn(Vault, grant=["vault.**", rt.limit(calls=3)])
        rich = system.authority.mint("ada", ["vault.**"])
        poor = rich.narrow(rt.limit(calls=1))
        assert await vault.ask(Touch(), context=poor) == "ada"
        assert isinstance(await error_of(vault.ask(Touch(), context=poor)), rt.BudgetExceeded)
        assert await vault.ask(Touch(), context=rich) == "ada"
        assert await vault.ask(Touch()) == "root"
        for context in (rich, poor, None):
            assert isinstance(await error_of(vault.ask(Touch(), context=context)), rt.BudgetExceeded)


async def test_consent_that_a_context_demands_is_asked_for_and_no_verdict_is_kept(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        vault = await system.spawn(Vault)
        ada = system.authority.mint("ada", ["vault.**"]).narrow(rt.needs_approval("vault.send", unless={"amount": rt.at_most(5)}))
        for amount, allowed in ((5, True), (6, False), (4, True), (7, False)):
            answer = await error_of(vault.ask(Send("x", amount), context=ada))
            assert answer == "ada" if allowed else isinstance(answer, rt.ApprovalRequired)
        assert await vault.ask(Touch(), context=ada) == "ada"


async def test_the_risk_of_a_handler_is_bounded_by_the_context(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        vault = await system.spawn(Vault)
        for most, denied in (("L2", False), ("L1", True)):
            ada = system.authority.mint("ada", ["vault.**", rt.max_risk(most)])
            answer = await error_of(vault.ask(Send("x", 1), context=ada))
            assert isinstance(answer, rt.Denied) is denied
            if denied:
                assert answer.reason == "risk"
        unrated = await error_of(vault.ask(Touch(), context=system.authority.mint("ada", ["vault.**", rt.max_risk("L2")])))
        assert isinstance(unrated, rt.Denied), "what nobody rated counts as L3"


@pytest.mark.parametrize("options", [{"risk": "L4"}, {"risk": 2}, {"risk": "L1", "requires": None}])
def test_a_risk_is_one_of_four_and_of_an_operation(options: dict[str, Any]) -> None:
    with pytest.raises(rt.DefinitionError, match="risk"):
        rt.handler(**options)


async def test_with_a_registry_what_it_does_not_know_is_refused_and_its_changes_count_at_once() -> None:
    registry = rt.CapabilityRegistry([rt.Capability("vault.touch", risk="L0")])
    async with rt.ActorSystem(capabilities=registry) as system:
        vault = await system.spawn(Vault)
        for _ in range(3):
            assert await vault.ask(Touch()) == "root"
        error = await error_of(vault.ask(Send("x", 1)))
        assert isinstance(error, rt.Denied)
        assert error.reason == "unknown_operation"
        registry.withdraw("vault.touch")
        assert isinstance(await error_of(vault.ask(Touch())), rt.Denied), "a kept verdict does not outlive the declaration"
        registry.declare(rt.Capability("vault.touch", risk="L3", approval=True))
        assert isinstance(await error_of(vault.ask(Touch())), rt.ApprovalRequired)


async def test_in_a_turn_nothing_is_declared_sealed_or_revoked(turn_system: rt.ActorSystem, tmp_path: Any) -> None:
    registry = rt.CapabilityRegistry([rt.Capability("vault.touch", risk="L0")])
    async with rt.ActorSystem(capabilities=registry, data_dir=tmp_path) as system:
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**"])
        sealer = system.sealer()
        token = sealer.seal(ada)
        deeds = [
            lambda: system.authority.mint("x", []),
            lambda: system.authority.source("payees"),
            lambda: system.authority.revoke(ada),
            lambda: sealer.seal(ada),
            lambda: sealer.unseal(token),
            lambda: sealer.revoke_token(token),
            lambda: system.sealer(),
            lambda: registry.declare(rt.Capability("vault.more")),
            lambda: registry.withdraw("vault.touch"),
        ]
        for deed in deeds:

            def script(_: Any, deed: Any = deed) -> None:
                with pytest.raises(rt.Denied) as caught:
                    deed()
                assert caught.value.reason == "lineage"

            await puppet.ask(Call(script))
            await puppet.ask(Call(script), detached=True)
        assert not system.authority.is_revoked(ada)
        assert sealer.unseal(token).subject == "ada"
        assert registry.resolve("vault.more") is None
