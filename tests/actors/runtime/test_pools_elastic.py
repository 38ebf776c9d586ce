"""Elastic pools: one worker at first, one more when a message waits and nobody is free."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

import retinue as rt
from core_hosts import conserved
from pool_actors import Count, Job, Ledger, PoolWorker, Quick, workers_of


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("elastic", block_warning=math.inf, **options)


async def test_one_thing_at_a_time_has_one_worker() -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=rt.Pool.elastic(), name="pool")
        assert {await pool.ask(Quick(number)) for number in range(100)} == {"0"}
        assert [await pool.ask(Job(number)) for number in range(20)] == ["0"] * 20
        assert len(workers_of(system, pool)) == 1 and conserved(system)


async def test_as_many_are_hired_as_have_something_to_do_and_no_more_than_may(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.elastic(5), name="pool")
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(pool.ask, Job(number, seconds=1))
        assert (ledger.most_running, len(workers_of(system, pool)), trio.current_time()) == (3, 3, 1)
        for number in range(3, 15):
            pool.tell(Job(number, seconds=1))
        await trio.sleep(3)
        await system.wait_quiet()
        assert (ledger.most_running, len(workers_of(system, pool)), trio.current_time()) == (5, 5, 4)
        assert sorted(ledger.numbers()) == list(range(15))
        assert [number for _, number in ledger.begun[3:]] == list(range(3, 15))  # in the order that they came
        assert conserved(system)


async def test_a_burst_that_a_small_mailbox_holds_back_has_its_workers_all_the_same(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.elastic(20), name="pool", mailbox=rt.Mailbox.bounded(2))
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(pool.ask, Job(number, seconds=1))
        assert (ledger.most_running, trio.current_time()) == (20, 1)


@given(
    size=st.integers(1, 6),
    steps=st.lists(
        st.tuples(st.sampled_from(["tell", "ask", "sleep", "direct", "leave", "fail"]), st.integers(0, 4)), min_size=1, max_size=25
    ),
    seed=st.one_of(st.none(), st.integers(0, 99)),
)
@settings(max_examples=40)
def test_nothing_waits_while_a_worker_is_idle_or_may_be_hired(size: int, steps: list[tuple[str, int]], seed: int | None) -> None:
    async def ask(pool: rt.Ref[Any], job: Job) -> None:
        try:
            await pool.ask(job)
        except Exception:  # it was to fail
            pass

    async def main() -> None:
        async with make(seed=seed) as system, trio.open_nursery() as nursery:
            pool = await system.spawn_pool(PoolWorker, pool=rt.Pool.elastic(size), name="pool")
            for what, number in steps:
                if what == "tell":
                    for _ in range(number):
                        pool.tell(Job(seconds=number))
                elif what in ("ask", "leave", "fail"):
                    nursery.start_soon(ask, pool, Job(seconds=number, work=what))
                elif what == "direct":
                    workers = workers_of(system, pool)
                    workers[number % len(workers)].tell(Job(seconds=number))
                else:
                    await trio.sleep(number)
                await wait_all_tasks_blocked()
                states = {one.path: one for one in system.actors()}
                free = [one for one in states.values() if one.state == "idle"]
                places = len(states) - 1
                assert not (states["/user/pool"].queued and (free or places < size)), states
                assert places <= size
            nursery.cancel_scope.cancel()
        assert conserved(system)

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def test_streams_and_texts_go_to_whoever_is_free(autojump_clock: MockClock) -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=rt.Pool.elastic(3), name="pool")
        async with pool.stream(Count(3), window=1) as first:
            assert await anext(first) == "0: 0"
            async with pool.stream(Count(3)) as second:
                assert [item async for item in second] == ["1: 0", "1: 1", "1: 2"]
            assert [item async for item in first] == ["0: 1", "0: 2"]


async def test_a_worker_that_ends_is_replaced_and_others_are_hired_meanwhile(autojump_clock: MockClock) -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=rt.Pool.elastic(2), name="pool")
        assert await pool.ask(Job(work="leave")) == "0"
        assert await pool.ask(Job()) == "1"
        await trio.sleep(5)
        assert len(workers_of(system, pool)) == 2 and conserved(system)


async def test_while_starts_fail_nobody_more_is_hired(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    broken: list[bool] = []

    class Fragile(PoolWorker):
        def __init__(self) -> None:
            if broken:
                raise OSError("no more of these")
            super().__init__()

    async with make() as system:
        pool = await system.spawn_pool(Fragile, pool=rt.Pool.elastic(50), name="pool")
        broken.append(True)
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(pool.ask, Job(number, seconds=1))
            await trio.sleep(0.01)
            assert len(system.actors()) <= 11
            broken.clear()
        assert trio.current_time() < 11
        assert conserved(system)


async def test_the_first_start_fails_at_once() -> None:
    class Broken(rt.Actor):
        def __init__(self) -> None:
            raise OSError("never")

    async with make() as system:
        with pytest.raises(OSError, match="never"):
            await system.spawn_pool(Broken, pool=rt.Pool.elastic(), name="pool")
        assert system.actors() == []


async def test_a_pool_that_is_stopped_or_closed_hires_nobody(autojump_clock: MockClock) -> None:
    async with make(grace=1) as system:
        pool = await system.spawn_pool(PoolWorker, pool=rt.Pool.elastic(8), name="pool")
        pool.tell(Job(seconds=0.5))
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.stop)
            await wait_all_tasks_blocked()
            assert not pool.tell(Job())
        assert system.actors() == []
        assert conserved(system)


def test_the_sizes_and_what_a_group_takes() -> None:
    assert rt.Pool.elastic().size == 64
    for size in (0, 1_025, True, 2.5):
        with pytest.raises(rt.DefinitionError, match="size"):
            rt.Pool.elastic(size)  # type: ignore[arg-type]


async def test_a_group_is_not_elastic() -> None:
    async with make() as system:
        ref = await system.spawn(PoolWorker)
        with pytest.raises(rt.DefinitionError, match="a group takes"):
            await system.spawn_group([ref], pool=rt.Pool.elastic())


# -- workers that are lent to their askers --------------------------------------------------------------------------------------------------------------


async def test_an_idle_worker_runs_in_its_askers_task() -> None:
    class Where(rt.Actor):
        @rt.handler
        async def quick(self, _: Quick) -> str:
            return trio.lowlevel.current_task().name

        @rt.handler(shield=True)
        async def job(self, _: Job) -> str:
            return trio.lowlevel.current_task().name

    async with make() as system:
        pool = await system.spawn_pool(Where, pool=rt.Pool.elastic(), name="pool")
        asks = system.statistics().sent
        assert await pool.ask(Quick()) == trio.lowlevel.current_task().name
        assert await pool.ask(Job()) != trio.lowlevel.current_task().name  # shielded: by the mailbox
        assert system.statistics().sent == asks + 2 and conserved(system)


async def test_a_lent_worker_that_suspends_times_out_fails_and_is_cancelled(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.elastic(3), name="pool")
        with pytest.raises(rt.AskTimeout):
            await pool.ask(Job(1, seconds=10), timeout=1)
        with trio.move_on_after(1):
            await pool.ask(Job(2, seconds=10))
        for work in ("fail", "declare"):
            with pytest.raises(Exception, match=r"failed on 3|^$"):
                await pool.ask(Job(3, work=work))
        assert trio.current_time() == 2 and ledger.running == 0
        assert await pool.ask(Job(4, seconds=1)) in "01"
        assert await pool.ask(Quick()) in "01"
        await system.wait_quiet()
        assert conserved(system)


async def test_a_lent_worker_takes_what_came_meanwhile(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.elastic(1), name="pool")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.ask, Job(1, seconds=1))
            await wait_all_tasks_blocked()
            for number in (2, 3):
                pool.tell(Job(number, seconds=1))
        await trio.sleep(3)
        assert ledger.numbers() == [1, 2, 3] and trio.current_time() == 4
        assert conserved(system)


async def test_asks_of_lent_workers_within_each_other_and_rings_of_them() -> None:
    class Deep(PoolWorker):
        pool: rt.Ref[Any]

        @rt.handler
        async def job(self, message: Job) -> str:
            if message.number == 0:
                return self.name
            return self.name + await type(self).pool.ask(Job(message.number - 1))

    async with make() as system:
        Deep.pool = pool = await system.spawn_pool(Deep, pool=rt.Pool.elastic(30), name="pool")
        assert len(await pool.ask(Job(20))) >= 21
        single = Deep.pool = await system.spawn_pool(Deep, pool=rt.Pool.elastic(1), name="single")
        with pytest.raises((rt.AskCycle, rt.AskTimeout)):
            await single.ask(Job(1), timeout=0.2)
        await system.wait_quiet()
        assert conserved(system)


async def test_the_gate_names_the_pool_and_not_the_worker() -> None:
    class Strict(rt.Actor):
        @rt.handler(requires="job.do")
        def job(self, _: Job) -> str:
            return self.ctx.security.subject

    async with make() as system:
        pool = await system.spawn_pool(Strict, pool=rt.Pool.elastic(), name="pool")
        ada, eve = system.authority.mint("ada", ["job.do"]), system.authority.mint("eve", ["walk"])
        caller = await system.spawn(Caller, pool, name="caller")
        assert await caller.ask(Quick(), context=ada) == "ada"
        with pytest.raises(rt.Denied) as caught:
            await caller.ask(Quick(), context=eve)
        assert caught.value.path == "/user/pool"
        assert await caller.ask(Quick(), context=ada) == "ada"
        assert conserved(system)


class Caller(rt.Actor):
    def __init__(self, to: rt.Ref[Any]) -> None:
        self.to = to

    @rt.handler
    async def quick(self, _: Quick) -> Any:
        return await self.to.ask(Job())
