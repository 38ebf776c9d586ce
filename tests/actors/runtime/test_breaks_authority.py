"""Ways that were found around authority, or around its record: an own authority that outlives its turn, a revoked grant that had taken nothing away, calls that
no record counts, guards that a second system took along.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import retinue as rt
from core_authority import Touch, Vault, error_of
from core_puppet import Call, Do, Puppet

# -- an actor's own authority ------------------------------------------------------------------------------------------------------------------------


class Owner(Puppet):
    internal_operations = ("vault.touch",)


async def test_a_task_that_a_handler_leaves_behind_in_another_nursery_has_its_own_authority_no_longer(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system, trio.open_nursery() as nursery:
        log: list[Any] = []
        vault, owner = await system.spawn(Vault, log), await system.spawn(Owner)
        over = trio.Event()
        found: list[Any] = []

        async def script(actor: Any) -> None:
            own = actor.ctx.own_authority("vault.touch")

            async def later() -> None:
                await over.wait()
                found.extend([await error_of(vault.ask(Touch("late"), context=one)) for one in (own, own.narrow(rt.limit(calls=1)))])

            nursery.start_soon(later)
            await vault.ask(Touch("in time"), context=own)

        await owner.ask(Do(script), context=system.authority.mint("ada", ["mail.send"]))
        over.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [type(one) for one in found] == [rt.Denied, rt.Denied]
        assert log == ["in time"]


# -- labels ------------------------------------------------------------------------------------------------------------------------------------------


class Reader(rt.Actor):
    """Does not start, and says why: with what it has read."""

    def __init__(self, source: rt.Ref[Any]) -> None:
        self.source = source

    async def on_start(self) -> None:
        raise ValueError(await self.source.ask(Touch()))


class BlockingReader(rt.Actor, blocking=True):
    """The same, in its constructor."""

    def __init__(self, source: rt.Ref[Any]) -> None:
        raise ValueError(self.ctx.ask(source, Touch()))


class Web(rt.Actor):
    """Gives what must be labelled."""

    @rt.handler
    def touch(self, _: Touch) -> str:
        self.ctx.taint("web")
        return "text"


@pytest.mark.parametrize("reader", [Reader, BlockingReader])
async def test_what_the_error_of_a_start_tells_its_spawner_has_the_labels_of_the_start(
    turn_system: rt.ActorSystem, reader: type[rt.Actor]
) -> None:
    async with turn_system as system:
        web, puppet = await system.spawn(Web), await system.spawn(Puppet)

        async def script(actor: Any) -> list[str]:
            with pytest.raises(ValueError, match="text"):
                await actor.ctx.spawn(reader, web)
            return sorted(actor.ctx.labels)

        assert await puppet.ask(Do(script), context=system.authority.mint("ada", ["**"])) == ["web"]


# -- threads of a handler ----------------------------------------------------------------------------------------------------------------------------


async def test_a_handler_has_no_wider_context_in_a_thread_that_it_starts_than_in_its_own(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        log: list[Any] = []
        vault, puppet = await system.spawn(Vault, log), await system.spawn(Puppet)
        wide, ada = system.authority.mint("wide", ["vault.touch"]), system.authority.mint("ada", ["vault.**"])

        async def script(actor: Any) -> list[Any]:
            security = actor.ctx.security

            def work() -> list[Any]:
                found: list[Any] = []
                for context in (wide, security, security.narrow("vault.touch"), None):
                    try:
                        found.append(bool(vault.tell(Touch("done"), context=context)))
                    except rt.AuthorityError as error:
                        found.append(type(error))
                return found

            return await trio.to_thread.run_sync(work)

        assert await puppet.ask(Do(script), context=ada) == [rt.Denied, True, True, rt.NoContext]
        await system.wait_quiet()
        assert log == ["done"] * 2


# -- grants that are revoked -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("permissions", [["vault.touch"], ["**"]], ids=["as much", "everything"])
@pytest.mark.parametrize("way", ["handler", "task"])
async def test_what_an_actor_still_does_when_its_grant_is_revoked_has_ended_although_the_grant_had_taken_nothing_away(
    turn_system: rt.ActorSystem, permissions: list[str], way: str
) -> None:
    async with turn_system as system:
        log: list[Any] = []
        vault, front = await system.spawn(Vault, log), await system.spawn(Puppet)
        giver, asker = system.authority.mint("giver", permissions), system.authority.mint("asker", ["vault.touch"])
        children: list[Any] = []

        async def spawn(actor: Any) -> None:
            children.append(await actor.ctx.spawn(Puppet))

        await front.ask(Do(spawn), context=giver)
        go = trio.Event()
        found: list[Any] = []

        async def work() -> None:
            await go.wait()
            found.append(await error_of(vault.ask(Touch("after"))))

        async def script(actor: Any) -> None:
            if way == "task":
                actor.ctx.start_soon(work)
            else:
                await work()

        children[0].tell(Do(script), context=asker)
        await trio.testing.wait_all_tasks_blocked()
        system.authority.revoke(giver)
        go.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [type(one) for one in found] == [rt.Revoked]
        assert log == []


async def test_messages_that_go_to_and_fro_between_grants_that_take_nothing_away_do_not_grow_a_lineage(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        giver, asker = system.authority.mint("giver", ["**"]), system.authority.mint("asker", ["vault.touch"])
        front = await system.spawn(Puppet)
        pair: list[Any] = []

        async def spawn(actor: Any) -> None:
            pair.extend([await actor.ctx.spawn(Puppet, grant=[pattern]) for pattern in ("**", "vault.*")])

        await front.ask(Do(spawn), context=giver)
        seen: list[int] = []

        def play(actor: Any) -> None:
            seen.append(len(actor.ctx.security.lineage))
            if len(seen) < 50:
                pair[len(seen) % 2].tell(Call(play))

        pair[0].tell(Call(play), context=asker)
        await system.wait_quiet()
        assert len(seen) == 50
        assert max(seen) <= 3


async def test_nothing_is_spawned_under_a_root_context_that_has_expired() -> None:
    async with rt.ActorSystem(permissions=["**", rt.expires(seconds=0)]) as system:
        with pytest.raises(rt.Expired):
            await system.spawn(Vault)


# -- calls that no record counts ---------------------------------------------------------------------------------------------------------------------


class Fragile(rt.Actor):
    """Fails on some messages, once it has done what they say."""

    @rt.handler(requires="vault.touch")
    async def touch(self, message: Touch) -> str:
        if message.what == "hang":
            await trio.sleep_forever()
        if message.what == "wait":
            await trio.sleep(0.25)
        if message.what == "fail":
            raise ValueError("too late")
        return message.what


async def counted(system: rt.ActorSystem) -> int:
    return sum(entry.count for entry in await system.audit.entries(kind="allowed_batch"))


LIMITED = {
    "a deadline": [rt.expires(seconds=60)],
    "a budget": [rt.limit(calls=100)],
    "a constraint": [rt.where("vault.touch", what=rt.one_of("ok", "fail"))],
}


@pytest.mark.parametrize("more", LIMITED.values(), ids=LIMITED)
async def test_what_passes_under_a_limited_context_is_counted_as_allowed(more: list[Any]) -> None:
    async with rt.ActorSystem() as system:
        refs = [await system.spawn(Fragile, supervision=rt.Supervision(backoff=(0, 0))) for _ in range(2)]
        ada = system.authority.mint("ada", ["vault.touch", *more])
        for ref in refs:
            for what in ("ok", "fail", "ok"):
                ref.tell(Touch(what), context=ada)
            assert await ref.ask(Touch("ok"), context=ada) == "ok"
        await system.wait_quiet()
        await refs[0].stop()
        entries = await system.audit.entries(kind="allowed_batch")
        assert [(entry.path, entry.subject, entry.count) for entry in entries] == [(ref.path, "ada", 4) for ref in refs]
        assert await system.audit.entries(kind="allowed_batch") == entries


async def test_what_policies_were_asked_about_is_counted_as_allowed() -> None:
    @rt.policy
    async def later(call: rt.PolicyCall) -> rt.Verdict:
        await trio.lowlevel.checkpoint()
        return rt.Verdict.allow()

    @rt.policy
    def at_once(call: rt.PolicyCall) -> rt.Verdict:
        return rt.Verdict.allow()

    for policies in ([at_once], [later]):
        async with rt.ActorSystem(policies=policies) as system:
            ref = await system.spawn(Fragile)
            for _ in range(3):
                await ref.ask(Touch("ok"))
            assert await counted(system) == 3


async def test_a_stop_of_another_actor_is_counted_as_allowed() -> None:
    async with rt.ActorSystem() as system:
        victim, puppet = await system.spawn(Vault), await system.spawn(Puppet)

        async def script(_: Any) -> None:
            await victim.stop()

        await puppet.ask(Do(script), context=system.authority.mint("ada", ["actor.stop"]))
        (entry,) = await system.audit.entries(kind="allowed_batch")
        assert (entry.operation, entry.path, entry.subject, entry.count) == ("actor.stop", victim.path, "ada", 1)


async def test_counts_of_many_contexts_are_written_down_before_they_take_much_room() -> None:
    async with rt.ActorSystem() as system:
        ref = await system.spawn(Fragile)
        for _ in range(1_200):
            await ref.ask(Touch("ok"), context=system.authority.mint("ada", ["vault.touch", rt.expires(seconds=60)]))
        gc.collect()
        assert system.authority.statistics().contexts < 700
        assert await counted(system) == 1_200


async def test_tells_whose_handler_fails_are_counted_as_allowed() -> None:
    async with rt.ActorSystem() as system:
        ref = await system.spawn(Fragile, supervision=rt.Supervision(backoff=(0, 0), intensity=(100, 1)))
        for what in ("fail", "ok", "fail", "fail", "ok"):
            ref.tell(Touch(what))
        await system.wait_quiet()
        assert await counted(system) == 5
        for what in ("fail", "ok"):
            ref.tell(Touch(what))
        await system.wait_quiet()
        assert await counted(system) == 7


@pytest.mark.parametrize("asked", [False, True], ids=["told", "asked"])
async def test_what_is_cut_off_by_a_stop_is_counted_as_allowed(asked: bool) -> None:
    async with rt.ActorSystem() as system:
        ref = await system.spawn(Fragile)
        async with trio.open_nursery() as nursery:
            if asked:
                nursery.start_soon(error_of, ref.ask(Touch("hang")))
            else:
                ref.tell(Touch("hang"))
            await trio.testing.wait_all_tasks_blocked()
            await ref.stop(grace=0)
        assert await counted(system) == 1


@pytest.mark.parametrize("asked", [False, True], ids=["told", "asked"])
async def test_what_is_handled_while_the_audit_is_read_is_counted_once(asked: bool) -> None:
    async with rt.ActorSystem() as system:
        ref = await system.spawn(Fragile)
        for before in (0, 1):
            async with trio.open_nursery() as nursery:
                if asked:
                    nursery.start_soon(ref.ask, Touch("wait"))
                else:
                    ref.tell(Touch("wait"))
                await trio.testing.wait_all_tasks_blocked(0.001)
                assert await counted(system) == await counted(system) == before
            await system.wait_quiet()
        assert await counted(system) == 2


# -- what two systems share --------------------------------------------------------------------------------------------------------------------------


async def test_a_registry_and_a_policy_file_stay_guarded_when_another_system_that_had_them_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("version = 1\n[[rule]]\noperations = ['**']\nverdict = 'allow'\n", encoding="utf-8")
    registry, rules = rt.CapabilityRegistry(), rt.policy_from_file(path)
    changes: list[Any] = [lambda _: registry.declare(rt.Capability("vault.touch")), lambda _: rules.reload()]
    async with rt.ActorSystem("first", capabilities=registry, policies=[rules]) as system:
        puppet = await system.spawn(Puppet)
        async with rt.ActorSystem("second", capabilities=registry, policies=[rules]):
            pass
        gc.collect()
        for change in changes:
            with pytest.raises(rt.Denied):
                await puppet.ask(Call(change))
