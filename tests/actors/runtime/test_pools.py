"""Pools: who gets which message."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons
from pool_actors import POOLS, Count, Fault, Job, Ledger, PoolWorker, Quick, workers_of
from retinue.actors.runtime.fronts import digest_of
from steady_ids import steady


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("pools", block_warning=math.inf, **options)


async def test_round_robin_is_exact() -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=rt.Pool.round_robin(3), name="pool")
        assert [await pool.ask(Quick(number)) for number in range(7)] == ["0", "1", "2", "0", "1", "2", "0"]


@given(size=st.integers(1, 6), messages=st.integers(0, 40))
@settings(max_examples=20)
def test_round_robin_gives_everyone_the_same_share(size: int, messages: int) -> None:
    async def main() -> None:
        async with make() as system:
            ledger = Ledger()
            pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.round_robin(size))
            for number in range(messages):
                assert pool.tell(Quick(number))
            await system.wait_quiet()
            counts = Counter(ledger.workers())
            assert sum(counts.values()) == messages
            assert all(counts[str(place)] == messages // size + (place < messages % size) for place in range(size))

    trio.run(main)


@given(loads=st.lists(st.integers(0, 6), min_size=1, max_size=6), messages=st.integers(1, 12))
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_least_loaded_never_picks_a_busier_one(loads: list[int], messages: int) -> None:
    async def main() -> None:
        async with make() as system:
            pool = await system.spawn_pool(PoolWorker, pool=rt.Pool.least_loaded(len(loads)), name="pool")
            workers = workers_of(system, pool)
            for worker, load in zip(workers, loads, strict=True):
                for _ in range(load):
                    worker.tell(Job(seconds=60))
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(messages):
                before = [queued(system, worker) for worker in workers]
                pool.tell(Job(seconds=60))
                after = [queued(system, worker) for worker in workers]
                (chosen,) = [place for place in range(len(loads)) if after[place] > before[place]]
                assert before[chosen] == min(before)
            await system.stop(grace=0)

    trio.run(main, clock=MockClock(autojump_threshold=math.inf))


def queued(system: rt.ActorSystem, worker: rt.Ref[Any]) -> int:
    return next(one.queued for one in system.actors() if one.path == worker.path)


async def test_of_workers_that_are_as_idle_the_next_in_turn_is_the_least_loaded() -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=rt.Pool.least_loaded(3))
        assert [await pool.ask(Quick(number)) for number in range(4)] == ["0", "1", "2", "0"]


async def test_a_key_has_its_place() -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=POOLS["consistent_hash"](5))
        for key in ("ada", b"ada", 7, -1, None, ("ada", 7), 2**80):
            assert len({await pool.ask(Quick(key=key)) for _ in range(3)}) == 1
        assert await pool.ask(Quick(key=True)) == await pool.ask(Quick(key=1))  # they are equal


def test_a_key_has_the_same_place_in_every_process() -> None:
    script = "from retinue.actors.runtime.fronts import digest_of; print(digest_of(('ada', 7, None, b'x', -2**70)))"
    seen = {
        int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}).stdout)
        for seed in ("1", "2")
    }
    assert seen == {digest_of(("ada", 7, None, b"x", -(2**70)))} == {15589374661713519836}


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), min_size=2, max_size=2, unique=True))
def test_keys_of_several_parts_are_told_apart(keys: list[tuple[str, str]]) -> None:
    assert digest_of(keys[0]) != digest_of(keys[1])


async def test_keys_spread_over_the_places_and_one_place_more_moves_only_its_share() -> None:
    async with make() as system:
        places: dict[int, list[str]] = {}
        for size in (8, 9):
            pool = await system.spawn_pool(PoolWorker, pool=POOLS["consistent_hash"](size))
            places[size] = [await pool.ask(Quick(key=f"key {number}")) for number in range(2_000)]
        counts = Counter(places[8])
        assert all(170 <= counts[str(place)] <= 330 for place in range(8)), counts
        moved = [new for old, new in zip(places[8], places[9], strict=True) if old != new]
        assert set(moved) == {"8"}
        assert 130 <= len(moved) <= 320


@pytest.mark.parametrize("key", [1.5, [1], object(), ("ada", 1.5)], ids=steady)
async def test_a_key_of_an_odd_kind_is_refused_at_the_send_site(key: object) -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=POOLS["consistent_hash"](2))
        with pytest.raises(rt.DefinitionError, match="cannot place Quick"):
            pool.tell(Quick(key=key))
        with pytest.raises(rt.DefinitionError, match="cannot place Quick"):
            await pool.ask(Quick(key=key))
        assert system.statistics().sent == 0


async def test_a_broadcast_reaches_each_worker_once() -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.broadcast(4))
        assert pool.tell(Quick(1)).accepted
        assert (await pool.send(Quick(2))).accepted
        await system.wait_quiet()
        assert sorted(ledger.done) == [(str(place), number) for place in range(4) for number in (1, 2)]
        assert system.statistics().sent == 8 and conserved(system)


async def test_a_broadcast_cannot_be_asked() -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=rt.Pool.broadcast(2), name="all")
        with pytest.raises(rt.Unhandled, match="Tell it"):
            await pool.ask(Quick())
        with pytest.raises(rt.Unhandled, match="Tell it"):
            async with pool.stream(Count()):
                pass
        assert system.statistics().sent == 0


async def test_a_broadcast_that_some_refuse_says_so_and_reaches_the_others(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.broadcast(3), mailbox=rt.Mailbox.bounded(1))
        first, second, _ = workers_of(system, pool)
        for busy in (first, second):
            busy.tell(Job(0, seconds=10))
            await trio.sleep(0.1)
            busy.tell(Job(0, seconds=0))
        receipt = pool.tell(Quick(1))
        assert (receipt.accepted, receipt.reason) == (False, "mailbox_full")
        await trio.sleep(60)
        assert [one for one in ledger.done if one[1] == 1] == [("2", 1)]
        assert reasons(system) == {"mailbox_full": 2} and conserved(system)


async def test_a_send_to_all_waits_until_all_have_room_and_nobody_overtakes_it(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.broadcast(2), mailbox=rt.Mailbox.bounded(1))
        slow, _ = workers_of(system, pool)
        slow.tell(Job(0, seconds=10))
        await trio.sleep(0.1)
        slow.tell(Job(0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.send, Quick(1))
            await trio.sleep(1)
            assert [one for one in ledger.done if one[1] == 1] == []
            assert pool.tell(Quick(2)).reason == "mailbox_full"
            assert conserved(system)
        await system.wait_quiet()
        assert sorted(one for one in ledger.done if one[1] == 1) == [("0", 1), ("1", 1)]
        assert trio.current_time() >= 10 and conserved(system)
        slow.tell(Job(0, seconds=10))
        await trio.sleep(0.1)
        slow.tell(Job(0))
        with pytest.raises(rt.MailboxFull):
            await pool.send(Quick(3), timeout=1)
        await trio.sleep(60)
        assert [one for one in ledger.done if one[1] == 3] == []
        assert conserved(system)


@pytest.mark.parametrize("kind", POOLS)
async def test_streams_go_to_one_worker(kind: str) -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=POOLS[kind](1) if kind != "consistent_hash" else rt.Pool.round_robin(1))
        async with pool.stream(Count(3)) as items:
            assert [item async for item in items] == ["0: 0", "0: 1", "0: 2"]
        await system.wait_quiet()
        assert conserved(system)


@pytest.mark.parametrize("options", [{"loopback": True}, {"seed": 5}, {"events": 50}], ids=str)
@pytest.mark.parametrize("kind", POOLS)
async def test_each_pool_works_on_every_way_of_the_runtime(kind: str, options: dict[str, Any]) -> None:
    async with make(**options) as system:
        pool = await system.spawn_pool(PoolWorker, pool=POOLS[kind](3))
        answers: list[str] = []

        async def one(number: int) -> None:
            answers.append(await pool.ask(Quick(number, key=number)))

        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(one, number)
        assert len(answers) == 30 and set(answers) <= {"0", "1", "2"}
        await system.wait_quiet()
        assert conserved(system)


async def test_a_start_that_fails_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Third(PoolWorker):
        async def on_start(self) -> None:
            await trio.sleep(0.01)
            if self.name == "2":
                raise Fault("no third one")

    async with make() as system:
        with pytest.raises(Fault, match="no third one"):
            await system.spawn_pool(Third, pool=rt.Pool.round_robin(4), name="pool")
        assert system.actors() == [] and system.registry.get("/user/pool") is None
        with trio.move_on_after(0):
            await system.spawn_pool(Third, pool=rt.Pool.round_robin(4), name="pool")
        assert system.actors() == []
        pool = await system.spawn_pool(Third, pool=rt.Pool.round_robin(2), name="pool")
        assert await pool.ask(Quick()) == "0"


async def test_workers_start_side_by_side(autojump_clock: MockClock) -> None:
    class Slow(PoolWorker):
        async def on_start(self) -> None:
            await trio.sleep(10)

    async with make() as system:
        await system.spawn_pool(Slow, pool=rt.Pool.round_robin(4))
        assert trio.current_time() == 10


@pytest.mark.parametrize(
    ("making", "text"),
    [
        (lambda: rt.Pool.round_robin(0), "1 to 1,024"),
        (lambda: rt.Pool.round_robin(1025), "1 to 1,024"),
        (lambda: rt.Pool.round_robin(True), "whole number"),
        (lambda: rt.Pool.work_pulling(2, retries=-1), "0 to 1,000"),
        (lambda: rt.Pool.consistent_hash(2, key=None), "needs a function"),  # type: ignore[arg-type]
        (lambda: rt.Pool("round_robin", 2, key=str), "no other pool has one"),
        (lambda: rt.Pool("round_robin", 2, retries=1), "only a work-pulling pool"),
        (lambda: rt.Pool("random", 2), "choose one of"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_pool_is_refused(making: Any, text: str) -> None:
    with pytest.raises(rt.DefinitionError, match=text):
        making()


async def test_spawn_pool_refuses_what_spawn_refuses() -> None:
    async with make() as system:
        with pytest.raises(rt.DefinitionError, match="give rt.Pool"):
            await system.spawn_pool(PoolWorker, pool="round_robin")  # type: ignore[arg-type]
        with pytest.raises(rt.DefinitionError):
            await system.spawn_pool(object, pool=rt.Pool.round_robin(2))  # type: ignore[type-var]
        await system.spawn_pool(PoolWorker, pool=rt.Pool.round_robin(2), name="pool")
        with pytest.raises(rt.NameTaken):
            await system.spawn_pool(PoolWorker, pool=rt.Pool.round_robin(2), name="pool")
        assert len(system.actors()) == 3


async def test_the_pool_and_its_workers_are_in_the_books() -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=rt.Pool.work_pulling(2), name="pool")
        await pool.ask(Quick())
        assert [(one.path, one.type, one.state) for one in system.actors()] == [
            ("/user/pool", "PoolWorker", "routing"),
            ("/user/pool/0", "PoolWorker", "idle"),
            ("/user/pool/1", "PoolWorker", "idle"),
        ]
        assert sum(one.handled for one in system.actors()) == 1
        await pool.stop()
        assert system.actors() == [] and repr(pool).endswith("(PoolWorker, stopped)>")
