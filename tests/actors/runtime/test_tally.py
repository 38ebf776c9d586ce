"""The tally: passes are counted exactly, whoever works for whom by turns, and cost the audit few records."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from typing import Any

import pytest
import trio

import retinue as rt
from core_authority import Touch, Vault, error_of
from core_puppet import Call, Puppet, nothing
from retinue.actors.runtime import tally


@rt.message
class Peek(rt.Request[str]):
    pass


class Both(rt.Actor):
    """Two gated handlers and an open one."""

    @rt.handler(requires="vault.touch")
    def touch(self, _: Touch) -> str:
        return "touched"

    @rt.handler(requires="vault.peek")
    async def peek(self, _: Peek) -> str:
        return "peeked"

    @rt.handler
    def call(self, message: Call) -> Any:
        return message.script(self)


async def passes(system: rt.ActorSystem) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for entry in await system.audit.entries(kind="allowed_batch"):
        found[entry.path, entry.subject, entry.operation] += entry.count
    return found


async def test_an_actor_that_has_several_handlers_and_works_for_several_by_turns_makes_few_records(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        both = await system.spawn(Both, name="both")
        contexts = [system.authority.mint(name, ["vault.**"]) for name in ("ada", "bob")]
        records = system.audit.log.statistics().records
        for _ in range(50):
            for context in contexts:
                await both.ask(Touch(), context=context)
                await both.ask(Call(nothing), context=context)
                await both.ask(Peek(), context=context)
        assert system.audit.log.statistics().records == records, "nothing is written while it works"
        assert await passes(system) == {
            ("/user/both", name, operation): 50 for name in ("ada", "bob") for operation in ("vault.touch", "vault.peek")
        }
        assert system._kernel.gate.statistics().allowed >= 200


async def test_the_gate_is_asked_once_for_each_context_and_handler(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        refs = [await system.spawn(Both) for _ in range(3)]
        contexts = [system.authority.mint(name, ["vault.**"]) for name in ("ada", "bob")]
        gate = system._kernel.gate
        asked: list[Any] = []
        decide = type(gate).admit

        def counted(self: Any, *arguments: Any, **keywords: Any) -> Any:
            asked.append(keywords["message_type"])
            return decide(self, *arguments, **keywords)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(type(gate), "admit", counted)
            for _ in range(5):
                for ref in refs:
                    for context in contexts:
                        await ref.ask(Touch(), context=context)
                        await ref.ask(Peek(), context=context)
        assert Counter(asked) == {Touch: 2, Peek: 2}


async def test_a_remembered_verdict_is_that_of_the_grant(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        wide, narrow = await system.spawn(Both), await system.spawn(Both, grant=["vault.peek"])
        ada = system.authority.mint("ada", ["vault.**"])
        for _ in range(3):
            assert await wide.ask(Touch(), context=ada) == "touched"
            assert isinstance(await error_of(narrow.ask(Touch(), context=ada)), rt.Denied)
            assert await narrow.ask(Peek(), context=ada) == "peeked"


async def test_a_revocation_empties_what_is_remembered_beside_the_cells(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        first, second = await system.spawn(Both), await system.spawn(Both)
        ada, bob = system.authority.mint("ada", ["vault.**"]), system.authority.mint("bob", ["vault.**"])
        for ref in (first, second):
            for context in (ada, bob):
                await ref.ask(Touch(), context=context)
        await trio.to_thread.run_sync(system.authority.revoke, ada)
        for ref in (first, second):
            assert isinstance(await error_of(ref.ask(Touch(), context=ada)), rt.Revoked)
            assert await ref.ask(Touch(), context=bob) == "touched"


@pytest.mark.parametrize("actors", [1, 40])
async def test_a_long_batch_is_summed_up_and_loses_nothing(actors: int) -> None:
    async with rt.ActorSystem() as system:
        refs = [await system.spawn(Both) for _ in range(actors)]
        for number in range(100):
            context = system.authority.mint(f"user-{number}", ["vault.**"])
            for ref in refs[:2] if number else refs:
                await ref.ask(Touch(), context=context)
        found = await system.audit.entries(kind="allowed_batch")
        assert sum(entry.count for entry in found) == (100 if actors == 1 else 40 + 2 * 99)
        assert len(found) <= tally.MOST_RECORDS
        assert any("contexts" in entry.detail for entry in found)


async def test_a_batch_of_many_actors_under_one_context_keeps_the_context() -> None:
    async with rt.ActorSystem() as system:
        ada = system.authority.mint("ada", ["vault.**"])
        for _ in range(100):
            await (await system.spawn(Both)).ask(Touch(), context=ada)
        (entry,) = await system.audit.entries(kind="allowed_batch")
        assert (entry.subject, entry.path, entry.count, entry.detail) == ("ada", None, 100, "by 100 actors")


async def test_an_actor_that_has_ended_is_counted_and_not_held() -> None:
    async with rt.ActorSystem() as system:
        vault = await system.spawn(Vault, name="vault")
        await vault.ask(Touch())
        cell = weakref.ref(vault._cell)
        await vault.stop()
        del vault
        gc.collect()
        assert cell() is None
        assert await passes(system) == {("/user/vault", "root", "vault.touch"): 1}


async def test_without_an_audit_nothing_is_held_and_the_gate_counts_all_the_same() -> None:
    async with rt.ActorSystem(audit=False) as system:
        puppet, both = await system.spawn(Puppet), await system.spawn(Both)
        for number in range(20):
            context = system.authority.mint(f"user-{number}", ["vault.**", rt.expires(seconds=60)])
            await both.ask(Touch(), context=context)
            await both.ask(Touch())
        await puppet.ask(Call(nothing))
        assert system._kernel.door.tally._passed == {}
        system._kernel.door.flush()
        assert system._kernel.gate.statistics().allowed >= 40


async def test_actors_that_have_ended_are_counted_exactly_however_many_they_are(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        ada = system.authority.mint("ada", ["vault.**"])
        for number in range(3 * tally.MOST_RECORDS):
            both = await system.spawn(Both)
            await both.ask(Touch(), context=ada)
            if number % 3 == 0:
                await both.ask(Peek(), context=ada)
                await both.ask(Touch(), context=ada)
            await both.stop()
        found = await passes(system)
        assert sum(count for (_, _, operation), count in found.items() if operation == "vault.touch") == 4 * tally.MOST_RECORDS
        assert sum(count for (_, _, operation), count in found.items() if operation == "vault.peek") == tally.MOST_RECORDS


class Twofold(rt.Actor):
    """Two gated handlers for one operation."""

    @rt.handler(requires="vault.touch")
    def touch(self, _: Touch) -> str:
        return "touched"

    @rt.handler(requires="vault.touch")
    def peek(self, _: Peek) -> str:
        return "peeked"


@pytest.mark.parametrize("detached", [False, True])
async def test_handlers_for_one_operation_that_take_turns_are_counted_together_and_refused_together(
    turn_system: rt.ActorSystem, detached: bool
) -> None:
    async with turn_system as system:
        twofold = await system.spawn(Twofold, name="twofold")
        ada = system.authority.mint("ada", ["vault.**"])
        for _ in range(50):
            assert await twofold.ask(Touch(), context=ada, detached=detached) == "touched"
            assert await twofold.ask(Peek(), context=ada, detached=detached) == "peeked"
        assert await passes(system) == {("/user/twofold", "ada", "vault.touch"): 100}
        bob = system.authority.mint("bob", ["vault.touch"])
        assert await twofold.ask(Touch(), context=bob, detached=detached) == "touched"
        assert await twofold.ask(Peek(), context=bob, detached=detached) == "peeked"
        system.authority.revoke(ada)
        for message in (Touch(), Peek()):
            with pytest.raises(rt.Denied):
                await twofold.ask(message, context=ada, detached=detached)
        assert await twofold.ask(Peek(), context=bob, detached=detached) == "peeked"
        assert (await passes(system))["/user/twofold", "bob", "vault.touch"] == 3
