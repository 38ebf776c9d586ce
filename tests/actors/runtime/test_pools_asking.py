"""Asks through a pool: deadlines, cancellation, room, hand-overs, rings; as for a single actor."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons
from core_puppet import Do, Puppet
from pool_actors import POOLS, Count, Job, Ledger, PoolWorker, Quick, workers_of


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("asking", block_warning=math.inf, **options)


@pytest.mark.parametrize("kind", POOLS)
async def test_a_queued_ask_is_withdrawn_and_a_running_one_cancelled(kind: str, autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=POOLS[kind](1))
        for timeout, begun in ((5, True), (1, False)):
            async with trio.open_nursery() as nursery:

                async def ask(timeout: float = timeout, begun: bool = begun) -> None:
                    with pytest.raises(rt.AskTimeout) as caught:
                        await pool.ask(Job(2, seconds=10), timeout=timeout)
                    assert caught.value.begun is begun

                if not begun:
                    pool.tell(Job(1, seconds=3))
                    await trio.sleep(0.5)
                nursery.start_soon(ask)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pool.ask, Job(3, seconds=10))
                await trio.sleep(5)
                assert ledger.running == 1
                scope.cancel()
        assert ledger.running == 0 and ledger.lives == ["0"]
        await system.wait_quiet()
        assert ledger.numbers() == [1] and reasons(system) == {"expired": 1} and conserved(system)


@pytest.mark.parametrize("kind", POOLS)
async def test_an_ask_has_the_deadline_of_the_turn_that_asks(kind: str, autojump_clock: MockClock) -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=POOLS[kind](2))
        puppet = await system.spawn(Puppet)
        with pytest.raises(rt.AskTimeout):
            await puppet.ask(Do(lambda actor: pool.ask(Job(seconds=100))), timeout=2)
        assert trio.current_time() == 2
        await system.wait_quiet()
        assert conserved(system)


@pytest.mark.parametrize("kind", POOLS)
async def test_an_ask_without_time_is_accepted_where_there_is_room(kind: str, autojump_clock: MockClock) -> None:
    """Row 34: the deadline begins once the message was accepted."""
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=POOLS[kind](1))
        assert await pool.ask(Quick(1), timeout=0.001) == "0"
        with pytest.raises(rt.AskTimeout):
            await pool.ask(Job(2, seconds=1), timeout=0)
        await system.wait_quiet()
        assert conserved(system)


@pytest.mark.parametrize("kind", POOLS)
async def test_sends_and_asks_wait_for_room_and_tells_do_not(kind: str, autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=POOLS[kind](1), mailbox=rt.Mailbox.bounded(1))
        pool.tell(Job(0, seconds=10))
        await trio.sleep(1)
        assert pool.tell(Job(1, seconds=10))
        assert pool.tell(Job(2)).reason == "mailbox_full"
        with pytest.raises(rt.MailboxFull):
            await pool.send(Job(3), timeout=1)
        with pytest.raises(rt.MailboxFull):
            await pool.ask(Job(4), timeout=1)
        with trio.move_on_after(1):
            await pool.send(Job(5))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.send, Job(6))
            nursery.start_soon(pool.ask, Job(7))
            await trio.testing.wait_all_tasks_blocked()
            assert system.statistics().queued == 4 and conserved(system)
        await system.wait_quiet()
        assert ledger.numbers()[:2] == [0, 1] and sorted(ledger.numbers()) == [0, 1, 6, 7]
        assert reasons(system) == {"mailbox_full": 3, "withdrawn": 1} and conserved(system)


@pytest.mark.parametrize("kind", ["round_robin", "least_loaded"])
async def test_a_full_worker_is_passed_over(kind: str, autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=POOLS[kind](3), mailbox=rt.Mailbox.bounded(1))
        first = workers_of(system, pool)[0]
        first.tell(Job(0, seconds=10))
        await trio.sleep(1)
        first.tell(Job(0))
        assert [await pool.ask(Quick(number)) for number in range(1, 5)] == ["1", "2", "1", "2"]
        assert conserved(system)


@pytest.mark.parametrize("overflow", ["drop_oldest", "drop_newest"])
async def test_where_old_mail_makes_room_the_next_in_turn_gets_the_message(overflow: Any, autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.round_robin(2), mailbox=rt.Mailbox.bounded(1, overflow=overflow))
        for number in range(2):
            pool.tell(Job(number, seconds=5))
        await trio.sleep(1)
        for number in range(2, 8):
            assert pool.tell(Job(number)).accepted
        await trio.sleep(60)
        assert sorted(ledger.numbers()) == [0, 1, 6, 7]
        assert reasons(system) == {overflow.replace("drop", "dropped"): 4} and conserved(system)


@pytest.mark.parametrize("kind", POOLS)
async def test_a_request_is_handed_over_to_a_pool(kind: str, autojump_clock: MockClock) -> None:
    class Desk(rt.Actor):
        @rt.handler
        def job(self, message: Job) -> str:
            self.ctx.forward(pool, message)
            return "nobody hears this"

    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=POOLS[kind](2), mailbox=rt.Mailbox.bounded(1))
        desk = await system.spawn(Desk)
        found: list[object] = []

        async def ask(number: int) -> None:
            try:
                found.append(await desk.ask(Job(number, seconds=5, key=number), timeout=12))
            except rt.RetinueError as error:
                found.append(type(error))

        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(ask, number)
        assert len(found) == 6 and sum(isinstance(one, str) for one in found) >= 2
        await system.wait_quiet()
        assert conserved(system)


@pytest.mark.parametrize("kind", POOLS)
async def test_a_worker_that_asks_back_whom_it_works_for_closes_a_ring(kind: str, autojump_clock: MockClock) -> None:
    class Asker(rt.Actor):
        @rt.handler
        async def job(self, message: Job) -> str:
            return await pool.ask(Quick(key="same"))

    class Back(rt.Actor):
        @rt.handler
        async def quick(self, message: Quick) -> str:
            return await asker.ask(Job())

    async with make() as system:
        pool = await system.spawn_pool(Back, pool=POOLS[kind](2))
        asker = await system.spawn(Asker, name="asker")
        with pytest.raises(rt.AskCycle, match="/user/asker"):
            await asker.ask(Job())
        assert trio.current_time() == 0
        await system.wait_quiet()
        assert conserved(system)


@pytest.mark.parametrize("kind", [kind for kind in POOLS if kind != "work_pulling"])
async def test_a_ring_by_way_of_a_worker_that_was_chosen_is_found(kind: str, autojump_clock: MockClock) -> None:
    """The worker waits for the asker already, and the asker's message would wait for the worker."""

    class Asker(rt.Actor):
        @rt.handler
        async def job(self, message: Job) -> str:
            await trio.sleep(2)
            with pytest.raises(rt.AskCycle, match="/user/asker"):
                await pool.ask(Quick(key="same"))
            return "found"

        @rt.handler
        def quick(self, message: Quick) -> str:
            return "asked back"

    class Back(rt.Actor):
        @rt.handler
        async def job(self, message: Job) -> str:
            await trio.sleep(1)
            return await asker.ask(Quick())

        @rt.handler
        async def quick(self, message: Quick) -> str:
            return await self.ctx.parent.ask(Quick(key="same"))  # type: ignore[union-attr]

    async with make() as system:
        pool = await system.spawn_pool(Back, pool=POOLS[kind](1))
        asker = await system.spawn(Asker, name="asker")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.ask, Job(key="same"))
            assert await asker.ask(Job()) == "found"
        assert trio.current_time() == 2
        with pytest.raises(rt.AskCycle):
            await pool.ask(Quick(key="same"))  # a worker that asks its own pool, and is chosen itself
        assert trio.current_time() == 2
        await system.wait_quiet()
        assert conserved(system)


async def test_a_ring_by_way_of_a_message_that_still_waits_at_the_front_ends_with_the_deadline(autojump_clock: MockClock) -> None:
    """Another worker might take it: nobody can tell that it is a ring."""

    class Asker(rt.Actor):
        @rt.handler
        async def job(self, message: Job) -> str:
            await trio.sleep(1)
            return await pool.ask(Quick())

        @rt.handler
        def quick(self, message: Quick) -> str:
            return "asked back"

    class Back(rt.Actor):
        @rt.handler
        async def job(self, message: Job) -> str:
            await trio.sleep(2)
            return await asker.ask(Quick())

        @rt.handler
        def quick(self, message: Quick) -> str:
            return "taken up"

    async with make() as system:
        pool = await system.spawn_pool(Back, pool=rt.Pool.work_pulling(1))
        asker = await system.spawn(Asker, name="asker")
        async with trio.open_nursery() as nursery:

            async def give() -> None:
                with pytest.raises(rt.AskTimeout):
                    await pool.ask(Job(), timeout=30)

            nursery.start_soon(give)
            assert await asker.ask(Job(), timeout=60) == "taken up"
        assert trio.current_time() == 30
        await system.wait_quiet()
        assert conserved(system)


@pytest.mark.parametrize("kind", POOLS)
async def test_a_stream_that_is_left_early_frees_its_worker(kind: str) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.round_robin(1) if kind == "consistent_hash" else POOLS[kind](1))
        async with pool.stream(Count(1_000), window=2) as items:
            async for _ in items:
                break
        assert await pool.ask(Quick(1)) == "0"
        await system.wait_quiet()
        assert conserved(system)


@pytest.mark.parametrize("kind", [*POOLS, "broadcast"])
async def test_a_message_that_a_pool_cannot_handle_is_refused_at_the_send_site(kind: str) -> None:
    @rt.message
    class Odd(rt.Request[int]):
        pass

    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=rt.Pool.broadcast(2) if kind == "broadcast" else POOLS[kind](2), name="pool")
        with pytest.raises(rt.Unhandled, match=r"/user/pool \(PoolWorker\) has no handler for"):
            pool.tell(Odd())
        with pytest.raises(rt.Unhandled):
            await pool.ask(Odd())
        assert system.statistics().sent == 0


@pytest.mark.parametrize("kind", POOLS)
async def test_detached_asks_go_on_without_their_asker(kind: str, autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=POOLS[kind](1))
        for number in range(2):
            with trio.move_on_after(1):
                await pool.ask(Job(number, seconds=5), detached=True)
        await trio.sleep(60)
        assert ledger.numbers() == [0, 1] and conserved(system)


@pytest.mark.parametrize("kind", POOLS)
async def test_other_threads_tell_a_pool(kind: str) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=POOLS[kind](2))
        root = system.authority.root

        def tell() -> None:
            for number in range(20):
                assert pool.tell(Quick(number, key=number), context=root).accepted

        await trio.to_thread.run_sync(tell)
        await system.wait_quiet()
        assert sorted(ledger.numbers()) == list(range(20)) and conserved(system)


@pytest.mark.parametrize("kind", POOLS)
async def test_actors_in_threads_ask_a_pool(kind: str) -> None:
    class Caller(rt.Actor, blocking=True):
        @rt.handler
        def job(self, message: Job) -> str:
            return str(self.ctx.ask(pool, Quick(key="same"), timeout=5))

    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=POOLS[kind](1))
        caller = await system.spawn(Caller)
        assert await caller.ask(Job()) == "0"
        await system.wait_quiet()
        assert conserved(system)
