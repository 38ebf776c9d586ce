"""Authority through a pool: nothing is carried that the sender, the pool or the worker does not have, and the gate is asked once for each message."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio

import retinue as rt
from consent_actors import Many, Plain, Worker
from core_authority import error_of
from core_hosts import conserved, reasons
from core_puppet import Do, Puppet
from fake_desk import FakeDesk, with_desk
from pool_actors import POOLS, Job, PoolWorker, Quick, workers_of


@rt.message
class Read(rt.Request[str]):
    path: str = "a"
    key: Any = "same"


@rt.message
class Who(rt.Request[tuple[str, bool, bool]]):
    key: Any = "same"


class Reader(rt.Actor):
    @rt.handler(requires="files.read")
    def read(self, message: Read) -> str:
        return f"{self.ctx.path} for {self.ctx.security.subject}"

    @rt.handler
    def who(self, message: Who) -> tuple[str, bool, bool]:
        permissions = self.ctx.security.permissions
        return self.ctx.security.subject, bool(permissions.may_permit("files.read")), bool(permissions.may_permit("files.write"))


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("rights", block_warning=math.inf, **options)


@pytest.mark.parametrize("kind", POOLS)
async def test_a_message_is_handled_under_what_sender_and_pool_both_permit(kind: str) -> None:
    async with make() as system:
        pool = await system.spawn_pool(Reader, pool=POOLS[kind](2), grant=["files.read"], name="pool")
        ada = system.authority.mint("ada", ["files.**"])
        eve = system.authority.mint("eve", ["files.write"])
        assert await pool.ask(Who(), context=ada) == ("ada", True, False)
        assert await pool.ask(Who(), context=eve) == ("eve", False, False)
        assert (await pool.ask(Read(), context=ada)).endswith("for ada")
        denied = await error_of(pool.ask(Read(), context=eve))
        assert isinstance(denied, rt.Denied) and denied.path == "/user/pool"
        assert pool.tell(Read(), context=eve).accepted
        await system.wait_quiet()
        assert reasons(system) == {"denied": 1} and conserved(system)


@pytest.mark.parametrize("kind", POOLS)
async def test_the_gate_is_asked_once_and_the_record_says_whom_the_sender_addressed(kind: str) -> None:
    async with make() as system:
        pool = await system.spawn_pool(Reader, pool=POOLS[kind](2), name="pool")
        bob = system.authority.mint("bob", ["files.read"]).narrow(rt.where("files.read", path=rt.one_of("a")))
        assert "for bob" in await pool.ask(Read("a"), context=bob)
        denied = await error_of(pool.ask(Read("b"), context=bob))
        assert isinstance(denied, rt.Denied) and denied.path == "/user/pool"
        assert (system._kernel.gate.allowed, system._kernel.gate.refused) == (1, 1)
        refusals = await system.audit.entries(operation="files.read", allowed=False)
        assert [(entry.subject, entry.path) for entry in refusals] == [("bob", "/user/pool")]


@pytest.mark.parametrize("kind", POOLS)
async def test_workers_never_have_more_than_their_pool_and_the_pool_than_its_spawner(kind: str) -> None:
    async with make() as system:

        async def spawn(actor: Any) -> rt.Ref[Any]:
            return await actor.ctx.spawn_pool(Reader, pool=POOLS[kind](2), name="pool", grant=["files.read", "mail.send"])

        puppet = await system.spawn(Puppet, name="puppet")
        ada = system.authority.mint("ada", ["files.**"])
        pool = await puppet.ask(Do(spawn), context=ada)
        for cell in (pool._cell, *(worker._cell for worker in workers_of(system, pool))):
            assert cell.grant.permissions.may_permit("files.read") is True
            assert not cell.grant.permissions.may_permit("files.write")
            assert not cell.grant.permissions.may_permit("mail.send")
            assert cell.grant.descends_from(ada)


async def test_a_worker_that_takes_anothers_place_has_the_same_grant(autojump_clock: Any) -> None:
    async with make() as system:
        pool = await system.spawn_pool(Reader, pool=rt.Pool.round_robin(1), grant=["files.read"])
        (worker,) = workers_of(system, pool)
        await worker.stop()
        await trio.sleep(1)
        (another,) = workers_of(system, pool)
        assert another != worker and another._cell.grant is worker._cell.grant is pool._cell.grant


@pytest.mark.parametrize("kind", POOLS)
async def test_what_has_expired_or_was_revoked_while_it_waited_is_refused(kind: str, autojump_clock: Any) -> None:
    async with make() as system:
        ada = system.authority.mint("ada", ["files.read"])
        pool = await system.spawn_pool(Both, pool=POOLS[kind](1))
        pool.tell(Job(seconds=5))
        await trio.sleep(1)
        pool.tell(Read(), context=ada)
        system.authority.revoke(ada)
        await trio.sleep(10)
        assert reasons(system) == {"denied": 1} and conserved(system)


class Both(Reader):
    @rt.handler
    async def job(self, message: Job) -> None:
        await trio.sleep(message.seconds)


@pytest.mark.parametrize("kind", ["round_robin", "least_loaded", "consistent_hash", "work_pulling"])
async def test_a_consent_is_bound_to_the_pool_and_redeemed_by_its_worker(kind: str) -> None:
    log: list[Any] = []
    async with make() as system:
        desk = with_desk(system, FakeDesk())
        how = rt.Pool.consistent_hash(2, key=lambda message: message.text) if kind == "consistent_hash" else POOLS[kind](2)
        pool = await system.spawn_pool(Worker, log, pool=how, name="pool")
        for _ in range(2):
            required = await error_of(pool.ask(Plain()))
            assert isinstance(required, rt.ApprovalRequired)
            assert required.request.binding.audience == "/user/pool"
            token = desk.approve(required.request)
            direct = await error_of(workers_of(system, pool)[0].ask(Plain(), approvals=[token]))
            assert isinstance(direct, rt.ApprovalRequired)  # it is for whoever is addressed, which is the pool
            assert await pool.ask(Plain(), approvals=[token]) == f"plain by {token}"
            assert (await error_of(pool.ask(Plain(), approvals=[token]))).reason == "spent"
        required = await error_of(read_all(pool, ()))
        assert isinstance(required, rt.ApprovalRequired)
        assert len(await read_all(pool, [desk.approve(required.request)])) == 3
        assert len(log) == 3 and conserved(system)


async def read_all(pool: rt.Ref[Any], approvals: Any) -> list[str]:
    async with pool.stream(Many(), approvals=approvals) as items:
        return [item async for item in items]


async def test_what_was_approved_is_never_tried_again() -> None:
    class Failing(rt.Actor):
        @rt.handler(requires="work.plain", approval=True)
        def plain(self, message: Plain) -> str:
            tried.append(self.ctx.path)
            raise ValueError("after the effect, perhaps")

    tried: list[str] = []
    async with make() as system:
        desk = with_desk(system, FakeDesk())
        pool = await system.spawn_pool(Failing, pool=rt.Pool.work_pulling(3, retries=5))
        required = await error_of(pool.ask(Plain()))
        with pytest.raises(ValueError, match="after the effect"):
            await pool.ask(Plain(), approvals=[desk.approve(required.request)])
        assert len(tried) == 1 and conserved(system)


async def test_each_attempt_passes_the_gate(autojump_clock: Any) -> None:
    class Flaky(rt.Actor):
        @rt.handler(requires="files.read")
        async def read(self, message: Read) -> str:
            await trio.sleep(1)
            if not failed:
                failed.append(1)
                raise ValueError("once")
            return "read"

    failed: list[int] = []
    async with make() as system:
        pool = await system.spawn_pool(Flaky, pool=rt.Pool.work_pulling(1, retries=1))
        ada = system.authority.mint("ada", ["files.read"])
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                found = await error_of(pool.ask(Read(), context=ada))
                assert isinstance(found, rt.Revoked), found

            nursery.start_soon(ask)
            await trio.sleep(0.5)
            system.authority.revoke(ada)
        assert len(failed) == 1 and conserved(system)


async def test_labels_of_a_worker_reach_its_asker() -> None:
    class Secret(rt.Actor):
        @rt.handler
        def quick(self, message: Quick) -> str:
            self.ctx.taint("secret")
            return "told"

    async def ask(actor: Any) -> list[str]:
        await pool.ask(Quick(key=1))
        return sorted(actor.ctx.security.labels)

    for kind in POOLS:
        async with make() as system:
            pool = await system.spawn_pool(Secret, pool=POOLS[kind](2))
            puppet = await system.spawn(Puppet)
            assert await puppet.ask(Do(ask)) == ["secret"]


async def test_a_strict_system_wants_pools_strict() -> None:
    async with make(strict=True) as system:
        with pytest.raises(rt.DefinitionError, match="strict"):
            await system.spawn_pool(PoolWorker, pool=rt.Pool.round_robin(2))


async def test_inside_a_turn_a_pool_is_its_actors_child_and_ends_with_it() -> None:
    async def spawn(actor: Any) -> rt.Ref[Any]:
        return await actor.ctx.spawn_pool(PoolWorker, pool=rt.Pool.work_pulling(2), name="pool")

    async with make() as system:
        puppet = await system.spawn(Puppet, name="puppet")
        pool = await puppet.ask(Do(spawn))
        assert pool.path == "/user/puppet/pool" and await pool.ask(Quick()) == "0"
        await puppet.stop()
        assert not pool.alive and system.actors() == []


async def test_an_actor_in_a_thread_spawns_no_pool() -> None:
    class Caller(rt.Actor, blocking=True):
        @rt.handler
        def job(self, message: Job) -> str:
            making = self.ctx.spawn_pool(PoolWorker, pool=rt.Pool.round_robin(2))
            try:
                making.send(None)
            except rt.DefinitionError as error:
                return str(error)
            return "spawned"

    async with make() as system:
        caller = await system.spawn(Caller)
        assert "cannot spawn from its thread" in await caller.ask(Job())
