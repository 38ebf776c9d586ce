"""Groups: one ref before actors that live already."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_authority import error_of
from core_hosts import conserved, reasons
from core_puppet import Do, Puppet
from pool_actors import POOLS, Job, Ledger, PoolWorker, Quick

KINDS = [kind for kind in POOLS if kind != "work_pulling"]


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("groups", block_warning=math.inf, **options)


async def members_of(system: rt.ActorSystem, ledger: Ledger, count: int = 3, **options: Any) -> list[rt.Ref[PoolWorker]]:
    return [await system.spawn(PoolWorker, ledger, name=f"m{number}", **options) for number in range(count)]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_group_hands_messages_to_its_members(kind: str) -> None:
    async with make() as system:
        members = await members_of(system, Ledger())
        group = await system.spawn_group(members, pool=POOLS[kind](), name="group")
        answers = [await group.ask(Quick(number, key=number)) for number in range(30)]
        assert set(answers) == {"m0", "m1", "m2"}
        if kind != "consistent_hash":
            assert answers == ["m0", "m1", "m2"] * 10
        await group.stop()
        assert all(member.alive for member in members) and conserved(system)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_member_that_ends_leaves_and_the_group_ends_with_the_last(kind: str, autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        members = await members_of(system, ledger, 2)
        group = await system.spawn_group(members, pool=POOLS[kind]())
        watch = await system.watch(group)
        for _ in range(50):
            await (await system.spawn_group(members, pool=POOLS[kind]())).stop()
        assert len(members[0]._cell.extras().watchers) <= 17  # those of groups that have ended are forgotten
        group.tell(Job(1, seconds=5, key="x"))
        await trio.sleep(1)
        group.tell(Job(2, key="x"))
        await members[0].stop()
        assert await group.ask(Quick(key="x")) == "m1"
        await members[1].stop()
        assert (await watch.wait()).reason is rt.StopReason.STOPPED
        assert group.tell(Quick()).reason == "stopped" and conserved(system)


async def test_mail_at_a_member_that_ends_is_its_own(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        members = await members_of(system, ledger, 2)
        group = await system.spawn_group(members, pool=rt.Pool.round_robin())
        for number in range(4):
            group.tell(Job(number, seconds=5))
        await trio.sleep(1)
        await members[0].stop(grace=0)
        await trio.sleep(60)
        assert ledger.done == [("m1", 1), ("m1", 3)] and reasons(system) == {"stopped": 1, "cancelled": 1} and conserved(system)


async def test_members_that_are_full_let_asks_wait(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        members = await members_of(system, ledger, 2, mailbox=rt.Mailbox.bounded(1))
        group = await system.spawn_group(members, pool=rt.Pool.least_loaded())
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(group.ask, Job(number, seconds=5))
            await trio.testing.wait_all_tasks_blocked()
            assert group.tell(Job(9)).reason == "mailbox_full" and conserved(system)
        assert sorted(ledger.numbers()) == list(range(8)) and conserved(system)


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_goes_by_a_group_that_it_was_not_granted(kind: str) -> None:
    class Reader(rt.Actor):
        @rt.handler(requires="files.read")
        def quick(self, message: Quick) -> str:
            return self.ctx.security.subject

        @rt.handler
        def job(self, message: Job) -> str:
            return str(self.ctx.security.permissions.may_permit("files.read"))

    async def spawn(actor: Any) -> rt.Ref[Any]:
        return await actor.ctx.spawn_group(members, pool=POOLS[kind]())

    async with make() as system:
        members = [await system.spawn(Reader) for _ in range(2)]
        puppet = await system.spawn(Puppet)
        weak = system.authority.mint("weak", ["mail.send"])
        group = await puppet.ask(Do(spawn), context=weak)
        assert isinstance(await error_of(group.ask(Quick())), rt.Denied)
        assert await group.ask(Job()) == "False"
        assert await members[0].ask(Job()) == "True"
        assert conserved(system)


async def test_a_group_of_pools(autojump_clock: MockClock) -> None:
    async with make() as system:
        pools = [await system.spawn_pool(PoolWorker, pool=rt.Pool.work_pulling(2), name=name) for name in ("east", "west")]
        group = await system.spawn_group(pools, pool=rt.Pool.round_robin())
        answers: list[str] = []

        async def one(number: int) -> None:
            answers.append(await group.ask(Job(number, seconds=1)))

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(one, number)
        assert len(answers) == 8 and trio.current_time() == 2 and conserved(system)


async def test_what_is_no_group_is_refused() -> None:
    class Other(rt.Actor):
        @rt.handler
        def quick(self, message: Quick) -> str:
            return ""

    async with make() as system:
        members = await members_of(system, Ledger())
        other = await system.spawn(Other)
        for wrong, text in ((None, "refs of its members"), ("ab", "refs of its members"), ([], "at least one"), ([1], "a ref is wanted")):
            with pytest.raises(rt.DefinitionError, match=text):
                await system.spawn_group(wrong, pool=rt.Pool.round_robin())  # type: ignore[arg-type]
        for pool in (rt.Pool.broadcast(), rt.Pool.work_pulling(), None):
            with pytest.raises(rt.DefinitionError, match="a group takes"):
                await system.spawn_group(members, pool=pool)  # type: ignore[arg-type]
        with pytest.raises(rt.DefinitionError, match="the members of the group are of"):
            await system.spawn_group([*members, other], pool=rt.Pool.round_robin())
        await members[1].stop()
        with pytest.raises(rt.ActorStopped, match="cannot be in a group"):
            await system.spawn_group(members, pool=rt.Pool.round_robin())
        assert len(system.actors()) == 3


async def test_members_that_answer_differently_are_told_apart() -> None:
    class Wide(PoolWorker):
        pass

    class Narrow(Wide):
        @rt.handler
        def quick(self, message: Quick) -> str:
            return "narrow"

    async with make() as system:
        members: list[rt.Ref[Any]] = [await system.spawn(Wide, name="wide"), await system.spawn(Narrow, name="narrow")]
        group = await system.spawn_group(members, cls=Wide, pool=rt.Pool.round_robin())
        assert [await group.ask(Quick()) for _ in range(2)] == ["wide", "narrow"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_group_of_a_service_has_whoever_is_registered(kind: str, autojump_clock: MockClock) -> None:
    key = rt.ServiceKey("workers", PoolWorker)
    async with make() as system:
        ledger = Ledger()
        group = await system.spawn_group(key, pool=POOLS[kind](), name="group")
        for number in range(3):
            assert group.tell(Quick(number, key=number))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.ask, Quick(3))
            await trio.sleep(1)
            assert system.statistics().queued == 4 and conserved(system)
            members = await members_of(system, ledger)
            system.receptionist.register(key, members[0])
        await system.wait_quiet()
        assert ledger.done == [("m0", number) for number in range(4)]
        for member in members[1:]:
            system.receptionist.register(key, member)
        assert {await group.ask(Quick(key=number)) for number in range(30)} == {"m0", "m1", "m2"}
        system.receptionist.unregister(key, members[0])
        await members[1].stop()
        assert {await group.ask(Quick(key=number)) for number in range(30)} == {"m2"}
        await members[0].stop()
        await members[2].stop()
        assert group.tell(Quick(9)).accepted
        await group.stop()
        assert reasons(system) == {"stopped": 1} and conserved(system)
        system.receptionist.register(key, (await system.spawn(PoolWorker)))


async def test_a_group_of_a_service_leaves_out_whom_it_may_not_address() -> None:
    class Reader(rt.Actor):
        @rt.handler(requires="files.read")
        def quick(self, message: Quick) -> str:
            return self.ctx.path

    key = rt.ServiceKey("readers", Reader)
    async with make() as system:
        reader = await system.spawn(Reader)
        system.receptionist.register(key, reader)

        async def spawn(actor: Any) -> rt.Ref[Any]:
            return await actor.ctx.spawn_group(key, pool=rt.Pool.round_robin())

        puppet = await system.spawn(Puppet)
        group = await puppet.ask(Do(spawn), context=system.authority.mint("weak", ["mail.send"]))
        with pytest.raises(rt.AskTimeout):
            await group.ask(Quick(), timeout=0.01)
        strong = await puppet.ask(Do(spawn), context=system.authority.mint("strong", ["files.read"]))
        assert await strong.ask(Quick()) == reader.path
        assert conserved(system)


async def test_a_group_never_comes_to_be_its_own_member() -> None:
    key = rt.ServiceKey("workers", PoolWorker)
    async with make() as system:
        inner = await system.spawn_group(key, pool=rt.Pool.round_robin())
        outer = await system.spawn_group([inner], pool=rt.Pool.round_robin())
        for group in (inner, outer):
            system.receptionist.register(key, group)
        system.receptionist.register(key, await system.spawn(PoolWorker, name="worker"))
        assert await outer.ask(Quick()) == "worker" and conserved(system)
