"""The authority of virtual actors: their grant is their region's, whoever wakes them, and who may not use one does not wake it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_authority import Touch, Vault, tie_clock
from core_hosts import conserved, reasons
from core_latch import Latch
from virtual_players import Book, Run, RunAsync, Session, seconds


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("authority", **{"block_warning": math.inf, **options})


class Safe(Vault):
    """A vault that a key stands for. `made` has the key and the permissions of its start."""

    def __init__(self, made: list[Any], log: list[Any] | None = None) -> None:
        super().__init__(log)
        self.made = made

    async def on_start(self) -> None:
        self.made.append((self.ctx.key, self.ctx.security.subject, self.ctx.security.permissions.may_permit("vault.touch")))

    @rt.handler
    def grant(self, message: Run) -> Any:
        return message.what(self)

    @rt.handler(requires="vault.send")
    async def do_async(self, message: RunAsync) -> Any:
        return await message.what(self)


def grant_of(self: Any) -> Any:
    return self._cell.grant


async def test_the_first_sender_neither_narrows_nor_widens_the_grant() -> None:
    async with make() as system:
        made: list[Any] = []
        safes = await system.spawn_virtual(Safe, made, name="safes", grant=["vault.**"])
        narrow = system.authority.mint("ada", ["vault.touch"])
        wide = system.authority.mint("bob", ["vault.**", "bank.**"])
        assert await safes["a"].ask(Touch(), context=narrow) == "ada"
        assert await safes["b"].ask(Touch(), context=wide) == "bob"
        grants = [await safes[key].ask(Run(grant_of)) for key in "ab"]
        assert grants[0] is grants[1]
        assert grants[0].permissions.may_permit("vault.send")
        assert not grants[0].permissions.may_permit("bank.pay")
        assert [subject for _, subject, _ in made] == [system.authority.root.subject] * 2  # on_start acts under the grant
        with pytest.raises(rt.Denied):
            await safes["a"].ask(RunAsync(lambda _: seconds(0)), context=narrow)


async def test_the_grant_is_within_the_spawners_and_that_of_each_spawn_below_it() -> None:
    class Keeper(rt.Actor):
        @rt.handler(requires="keep.it")
        async def do_async(self, message: RunAsync) -> Any:
            return await message.what(self)

    async with make() as system:
        made: list[Any] = []
        keeper = await system.spawn(Keeper, name="keeper", grant=["keep.it", "vault.touch"])

        async def spawn(self: Keeper) -> Any:
            return await self.ctx.spawn_virtual(Safe, made, grant=["vault.**"])

        ada = system.authority.mint("ada", ["keep.it", "vault.**"])
        safes = await keeper.ask(RunAsync(spawn), context=ada)
        assert await safes["a"].ask(Touch()) == "root"
        grant = await safes["a"].ask(Run(grant_of))
        assert grant.permissions.may_permit("vault.touch")
        assert not grant.permissions.may_permit("vault.send")
        with pytest.raises(rt.Denied):
            await safes["a"].ask(RunAsync(lambda _: seconds(0)))


async def test_a_restart_and_a_new_instance_have_the_same_grant() -> None:
    async with make() as system:
        safes = await system.spawn_virtual(Safe, [], name="safes", grant=["vault.touch"])
        grant = await safes["a"].ask(Run(grant_of))
        with pytest.raises(ZeroDivisionError):
            await safes["a"].ask(Run(lambda _: 1 / 0))
        assert await safes["a"].ask(Run(grant_of)) is grant
        await safes.passivate("a")
        assert await safes["a"].ask(Run(grant_of)) is grant


@pytest.mark.parametrize("options", [{}, {"seed": 3}, {"loopback": True}], ids=["plain", "seeded", "loopback"])
async def test_who_may_not_use_it_does_not_wake_it_and_the_refusal_is_on_record_once(options: dict[str, Any]) -> None:
    async with make(**options) as system:
        made: list[Any] = []
        safes = await system.spawn_virtual(Safe, made, name="safes", grant=["vault.**"])
        eve = system.authority.mint("eve", ["bank.**"])
        with pytest.raises(rt.Denied) as denied:
            await safes["a"].ask(Touch(), context=eve)
        assert (denied.value.path, denied.value.operation, denied.value.subject) == ("/user/safes/a", "vault.touch", "eve")
        with pytest.raises(rt.Denied):
            await safes["a"].send(Touch(), context=eve)
        receipt = safes["a"].tell(Touch(), context=eve)
        assert (receipt.accepted, receipt.reason) == (False, "denied")
        assert made == []
        assert safes.active() == ()
        assert [(entry.operation, entry.subject, entry.path) for entry in await system.audit.entries(allowed=False)] == [
            ("vault.touch", "eve", "/user/safes/a")
        ] * 3
        assert reasons(system) == {"denied": 1}
        assert conserved(system)
        await safes["a"].ask(Touch())
        with pytest.raises(rt.Denied):  # as any actor, once it is there
            await safes["a"].ask(Touch(), context=eve)
        assert len(await system.audit.entries(allowed=False)) == 4


async def test_what_the_grant_forbids_wakes_none_whoever_sends() -> None:
    async with make() as system:
        made: list[Any] = []
        safes = await system.spawn_virtual(Safe, made, name="safes", grant=["bank.**"])
        with pytest.raises(rt.Denied):
            await safes["a"].ask(Touch())
        assert made == []


async def test_an_expired_or_revoked_sender_wakes_none(autojump_clock: MockClock) -> None:
    async with make() as system:
        tie_clock(system)
        made: list[Any] = []
        safes = await system.spawn_virtual(Safe, made, name="safes")
        short = system.authority.mint("ada", ["vault.**"]).narrow(rt.expires(seconds=5))
        gone = system.authority.mint("bob", ["vault.**"])
        system.authority.revoke(gone)
        await trio.sleep(6)
        with pytest.raises(rt.Expired):
            await safes["a"].ask(Touch(), context=short)
        assert safes["a"].tell(Touch(), context=short).reason == "expired"
        assert reasons(system) == {"expired": 1}, "as at a plain actor"
        with pytest.raises(rt.Revoked):
            await safes["a"].ask(Touch(), context=gone)
        assert made == []
        assert conserved(system)


async def test_an_authority_that_expires_while_the_instance_starts_is_refused_then(autojump_clock: MockClock) -> None:
    async with make() as system:
        tie_clock(system)
        latch = Latch()

        class Slow(Safe):
            async def on_start(self) -> None:
                await trio.sleep(10)

        slow = await system.spawn_virtual(Slow, [], name="slow")
        short = system.authority.mint("ada", ["vault.**"]).narrow(rt.expires(seconds=5))
        slow["a"].tell(Touch(), context=short)
        with pytest.raises(rt.Expired):
            await slow["a"].ask(Touch(), context=short)
        await system.wait_quiet()
        assert reasons(system) == {"expired": 2}
        assert conserved(system)
        latch.open()


async def test_a_sender_in_a_turn_cannot_use_another_authority() -> None:
    async with make() as system:
        safes = await system.spawn_virtual(Safe, [], name="safes")
        other = system.authority.mint("other", ["**"])
        ada = system.authority.mint("ada", ["vault.send"])

        async def touch(_: Any) -> Any:
            with pytest.raises(rt.Denied):
                safes["b"].tell(Touch(), context=other)
            with pytest.raises(rt.Denied):
                await safes["b"].ask(Touch())  # under the current authority
            return safes.active()

        assert await safes["a"].ask(RunAsync(touch), context=ada) == ("a",)


async def test_only_who_spawned_the_region_the_holder_or_who_may_stop_actors_ends_instances() -> None:
    class Caller(rt.Actor):
        @rt.handler
        async def do_async(self, message: RunAsync) -> Any:
            return await message.what(self)

    async with make() as system:
        caller = await system.spawn(Caller)
        book = Book()
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        await sessions["a"].ask(Run(lambda _: None))
        nobody = system.authority.mint("eve", ["vault.**"])
        somebody = system.authority.mint("ops", ["actor.stop"])

        async def own(self: Caller) -> Any:
            mine = await self.ctx.spawn_virtual(Session, Book())
            await mine["x"].ask(Run(lambda _: None))
            return await mine.passivate("x")

        for end in (lambda: sessions.passivate("a"), lambda: sessions["a"].stop(), lambda: sessions.stop()):
            with pytest.raises(rt.Denied):
                await caller.ask(RunAsync(lambda _, end=end: end()), context=nobody)
        assert sessions.active() == ("a",)
        assert await caller.ask(RunAsync(own), context=nobody) is True
        assert await caller.ask(RunAsync(lambda _: sessions.passivate("a")), context=somebody) is True
        await caller.ask(RunAsync(lambda _: sessions.stop()), context=somebody)
        assert not sessions.alive


async def test_a_depth_that_is_used_up_spawns_no_region_and_an_instance_is_one_level_below_it() -> None:
    class Spawner(rt.Actor):
        @rt.handler
        async def do_async(self, message: RunAsync) -> Any:
            return await message.what(self)

    async with make() as system:
        spawner = await system.spawn(Spawner)
        flat = system.authority.mint("ada", ["**"]).narrow(rt.limit(depth=0))
        one = system.authority.mint("ada", ["**"]).narrow(rt.limit(depth=1))

        async def spawn(self: Any) -> Any:
            return await self.ctx.spawn_virtual(Session, Book())

        with pytest.raises(rt.Denied, match="depth"):
            await spawner.ask(RunAsync(spawn), context=flat)
        below = await spawner.ask(RunAsync(spawn), context=one)
        with pytest.raises(rt.Denied, match="depth"):
            await below["a"].ask(RunAsync(spawn))


@pytest.mark.parametrize("region", [True, False], ids=["from a region on", "from an actor on"])
async def test_actors_that_spawn_regions_in_each_other_stop_at_the_deepest_level(region: bool) -> None:
    class Deep(rt.Actor):
        @rt.handler
        async def do_async(self, message: RunAsync) -> Any:
            return await message.what(self)

    async with make() as system:

        async def deeper(self: Any) -> Any:
            below = await self.ctx.spawn_virtual(Deep)
            return await below["x"].ask(RunAsync(deeper), timeout=20)

        deep: Any = (await system.spawn_virtual(Deep))["x"] if region else await system.spawn(Deep)
        with pytest.raises(rt.Denied, match="levels below"):
            await deep.ask(RunAsync(deeper), timeout=20)
        # A region without room for an instance below it is none.
        assert max(actor.path.count("/") - 1 for actor in system.actors()) == (32 if region else 31)


async def test_a_strict_system_takes_no_virtual_actor_with_an_open_handler() -> None:
    async with make(strict=True) as system:
        await system.spawn_virtual(Vault, name="vaults")
        with pytest.raises(rt.DefinitionError, match="strict"):
            await system.spawn_virtual(Session, Book())


async def test_a_persons_consent_is_for_the_key_and_outlives_an_instance() -> None:
    class Bank(rt.Actor):
        @rt.handler(requires="vault.touch", approval=True)
        def touch(self, message: Touch) -> str:
            return f"{self.ctx.key}: {message.what}"

    async with make() as system:
        banks = await system.spawn_virtual(Bank, name="banks")
        with pytest.raises(rt.ApprovalRequired) as asked:
            await banks["ada"].ask(Touch("gold"))
        token = await system.approvals.approve(asked.value.requests[0].id, reviewer="boss")
        assert await banks.passivate("ada")
        with pytest.raises(rt.ApprovalRequired):
            await banks["bob"].ask(Touch("gold"), approvals=[token])
        assert await banks["ada"].ask(Touch("gold"), approvals=[token]) == "ada: gold"
