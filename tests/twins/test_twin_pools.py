"""Pools and groups from plain scripts and from asyncio."""

from __future__ import annotations

import pytest

import retinue as rt
from pool_actors import POOLS, Ledger, PoolWorker, Quick
from retinue import aio
from retinue.sync import ActorSystem
from twin_asyncio import under_asyncio


@pytest.mark.parametrize("kind", POOLS)
def test_a_script_works_with_pools_and_groups(kind: str) -> None:
    with ActorSystem("script") as system:
        ledger = Ledger()
        pool = system.spawn_pool(PoolWorker, ledger, pool=POOLS[kind](2), name="pool", mailbox=rt.Mailbox.bounded(8))
        assert pool.path == "/user/pool" and pool.ask(Quick(1, key=1)) in ("0", "1")
        assert pool.tell(Quick(2, key=1)).accepted
        futures = [pool.ask(Quick(number, key=number), block=False) for number in range(10)]
        assert {future.get(timeout=60) for future in futures} <= {"0", "1"}
        if kind != "work_pulling":
            members = [system.spawn(PoolWorker, name=name) for name in ("a", "b")]
            group = system.spawn_group(members, pool=POOLS[kind](), name="group")
            assert group.ask(Quick(key=1)) in ("a", "b")
        with pytest.raises(rt.DefinitionError):
            system.spawn_group([pool], pool=rt.Pool.broadcast())
        pool.stop()
        assert not pool.alive


@under_asyncio
async def test_an_asyncio_program_works_with_pools_and_groups() -> None:
    async with aio.ActorSystem("loop") as system:
        pool = await system.spawn_pool(PoolWorker, pool=rt.Pool.work_pulling(2), name="pool")
        assert await pool.ask(Quick()) in ("0", "1")
        members = [await system.spawn(PoolWorker, name=name) for name in ("a", "b")]
        group = await system.spawn_group(members, pool=rt.Pool.round_robin())
        assert [await group.ask(Quick()) for _ in range(2)] == ["a", "b"]
        service = await system.spawn_group(rt.ServiceKey("workers", PoolWorker), pool=rt.Pool.round_robin())
        with pytest.raises(rt.AskTimeout):
            await service.ask(Quick(), timeout=0.01)


def test_a_blocking_tell_waits_for_room_at_a_pool() -> None:
    with ActorSystem("script") as system:
        ledger = Ledger()
        pool = system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.work_pulling(2), mailbox=rt.Mailbox.bounded(2, overflow="wait"))
        for number in range(100):
            assert pool.tell(Quick(number)).accepted
        system.wait_quiet()
        assert sorted(ledger.numbers()) == list(range(100))
