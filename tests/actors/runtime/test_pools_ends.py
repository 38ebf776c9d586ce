"""Workers that end, however they end: their place is filled again, what waited at them goes to others, and who waits for what they had begun is told."""

from __future__ import annotations

import itertools
import logging
import math
import threading
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons
from pool_actors import POOLS, Fault, Job, Ledger, PoolWorker, Quick, ThreadWorker, workers_of

ENDS = ("ref.stop", "ctx.stop", "temporary", "intensity", "escalated", "told to stop")


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("ends", block_warning=math.inf, **options)


def supervision_of(end: str) -> rt.Supervision:
    return {
        "temporary": rt.Supervision(restart="temporary"),
        "intensity": rt.Supervision(intensity=(0, 60)),
        "escalated": rt.Supervision(on={Fault: "escalate"}),
        "told to stop": rt.Supervision(on={Fault: "stop"}),
    }.get(end, rt.Supervision())


async def outcome(pool: rt.Ref[Any], message: Job, found: dict[int, object]) -> None:
    try:
        found[message.number] = await pool.ask(message)
    except Exception as error:
        found[message.number] = error


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", POOLS)
async def test_a_worker_ends_with_a_message_in_progress_and_others_behind_it(kind: str, end: str, autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=POOLS[kind](2), name="pool", supervision=supervision_of(end))
        found: dict[int, object] = {}
        work = {"ref.stop": "done", "ctx.stop": "leave"}.get(end, "fail")
        async with trio.open_nursery() as nursery:
            for number in range(6):  # each worker has one in progress and two behind it, or they wait at the front
                message = Job(number, seconds=10, key="same", work=work if number == 0 else "done")
                nursery.start_soon(outcome, pool, message, found)
                await trio.testing.wait_all_tasks_blocked()
            victim, _ = ledger.begun[0]
            if end == "ref.stop":
                await trio.sleep(1)
                await workers_of(system, pool)[int(victim)].stop(grace=0)
        assert len(found) == 6
        if end == "ref.stop":
            assert isinstance(found[0], rt.ActorStopped) and found[0].begun
        elif end == "ctx.stop":
            assert found[0] == victim
        else:
            assert isinstance(found[0], Fault)
        assert all(isinstance(found[number], str) for number in range(1, 6)), found
        if kind == "consistent_hash":
            assert {found[number] for number in range(1, 6)} == {victim}
        assert conserved(system) and system.statistics().dead_letters == 0
        await trio.sleep(60)
        assert sorted(one.path for one in system.actors()) == ["/user/pool", "/user/pool/0", "/user/pool/1"]
        assert ledger.lives == ["0", "1", victim]


@pytest.mark.parametrize("kind", POOLS)
async def test_tells_that_wait_at_a_worker_that_ends_go_to_others_in_their_order(kind: str, autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=POOLS[kind](1), name="pool")
        (worker,) = workers_of(system, pool)
        for number in range(5):
            pool.tell(Job(number, seconds=5, key="same"))
        await trio.sleep(1)
        worker.tell(Quick(100))
        await worker.stop(grace=0)
        assert conserved(system)
        await trio.sleep(100)
        assert ledger.numbers() == [1, 2, 3, 4]
        assert reasons(system) == {"cancelled": 1, "stopped": 1}  # what was begun, and what was sent to the worker itself
        assert conserved(system)


@pytest.mark.parametrize("kind", [kind for kind in POOLS if kind != "work_pulling"])
async def test_those_who_wait_for_room_at_a_worker_that_ends_find_it_elsewhere(kind: str, autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=POOLS[kind](1), name="pool", mailbox=rt.Mailbox.bounded(1))
        (worker,) = workers_of(system, pool)
        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(
                    pool.send if number % 2 else pool.ask, Job(number, seconds=5, key="same", work="leave" if not number else "done")
                )
                await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(rt.MailboxFull):
                await pool.ask(Quick(key="same"), timeout=1)
            assert system.statistics().queued == 6 and conserved(system)
        await system.wait_quiet()
        assert ledger.numbers() == [0, 1, 2, 3, 4, 5]
        assert not worker.alive and conserved(system)


async def test_mail_that_comes_while_the_only_worker_is_ending_waits_for_the_next_one(autojump_clock: MockClock) -> None:
    class Slow(PoolWorker):
        async def on_stop(self, reason: rt.StopReason) -> None:
            await trio.sleep(3)

    for kind in POOLS:
        async with make() as system:
            ledger = Ledger()
            pool = await system.spawn_pool(Slow, ledger, pool=POOLS[kind](1), mailbox=rt.Mailbox.bounded(3))
            (worker,) = workers_of(system, pool)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(worker.stop)
                await trio.sleep(1)
                receipts = [pool.tell(Quick(number)).accepted for number in range(5)]
                assert receipts == [True, True, True, False, False]
                nursery.start_soon(pool.ask, Quick(7))
                nursery.start_soon(pool.send, Quick(8))
                with pytest.raises(rt.MailboxFull):
                    await pool.ask(Quick(9), timeout=0.5)
                assert conserved(system)
            await system.wait_quiet()
            assert ledger.numbers()[:3] == [0, 1, 2] and sorted(ledger.numbers()[3:]) == [7, 8], kind
            assert reasons(system) == {"mailbox_full": 3} and conserved(system)


async def test_replacements_are_delayed_more_each_time(autojump_clock: MockClock) -> None:
    births: list[float] = []

    class Mortal(PoolWorker):
        def __init__(self, ledger: Ledger) -> None:
            super().__init__(ledger)
            births.append(trio.current_time())
            if len(births) > 1 and trio.current_time() < 200:
                raise Fault("not yet")

    async with make() as system:
        pool = await system.spawn_pool(Mortal, Ledger(), pool=rt.Pool.work_pulling(1))
        await workers_of(system, pool)[0].stop()
        await trio.sleep(400)
        delays = [later - earlier for earlier, later in itertools.pairwise(births)]
        for number, delay in enumerate(delays):
            wanted = min(0.1 * 2**number, 30)
            assert wanted * 0.8 - 1e-6 <= delay <= wanted * 1.2 + 1e-6, (number, delay)
        assert max(delays) > 20 and await pool.ask(Quick()) == "0"
        # It has lived for more than a minute by now: the delays begin again.
        died = trio.current_time()
        await workers_of(system, pool)[0].stop()
        await trio.sleep(1)
        assert 0.07 <= births[-1] - died <= 0.13


async def test_a_replacement_takes_mail_before_it_starts(autojump_clock: MockClock) -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=rt.Pool.round_robin(1), name="pool")
        (worker,) = workers_of(system, pool)
        await worker.stop()
        assert not worker.alive
        found = system.registry.get("/user/pool/0")
        assert found is not None and found.alive and found != worker
        assert await pool.ask(Quick()) == "0"
        assert 0.08 <= trio.current_time() <= 0.12


@pytest.mark.parametrize("kind", ["round_robin", "least_loaded"])
async def test_while_one_is_missing_the_others_get_its_messages(kind: str, autojump_clock: MockClock) -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=POOLS[kind](3))
        await workers_of(system, pool)[1].stop()
        assert {await pool.ask(Quick()) for _ in range(9)} == {"0", "2"}
        assert trio.current_time() == 0
        await trio.sleep(1)
        assert {await pool.ask(Quick()) for _ in range(9)} == {"0", "1", "2"}


async def test_a_key_comes_back_to_its_place_after_the_worker_was_replaced(autojump_clock: MockClock) -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=POOLS["consistent_hash"](4))
        before = [await pool.ask(Quick(key=key)) for key in range(50)]
        for worker in workers_of(system, pool):
            await worker.stop()
        assert [await pool.ask(Quick(key=key)) for key in range(50)] == before


async def test_a_broadcast_reaches_those_that_are_there(autojump_clock: MockClock) -> None:
    class Slow(PoolWorker):
        async def on_stop(self, reason: rt.StopReason) -> None:
            await trio.sleep(1)

    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(Slow, ledger, pool=rt.Pool.broadcast(2))
        first, second = workers_of(system, pool)
        first.tell(Job(0, seconds=4))
        await trio.sleep(1)
        pool.tell(Quick(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.stop)
            await trio.sleep(1)
            pool.tell(Quick(2))  # the first one is ending, and gets nothing more
            await trio.sleep(0.1)
            await second.stop()
            assert pool.tell(Quick(3)).accepted  # …and the second one was replaced
        await trio.sleep(60)
        assert sorted(ledger.done) == [("0", 0), ("1", 1), ("1", 2), ("1", 3)]
        assert reasons(system) == {"stopped": 1} and conserved(system)


async def test_nobody_gets_what_is_sent_to_all_while_all_are_ending(autojump_clock: MockClock) -> None:
    class Slow(PoolWorker):
        async def on_stop(self, reason: rt.StopReason) -> None:
            await trio.sleep(1)

    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(Slow, ledger, pool=rt.Pool.broadcast(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(workers_of(system, pool)[0].stop)
            await trio.sleep(0.5)
            assert pool.tell(Quick(1)).reason == "stopped"
            assert (await pool.send(Quick(2))).accepted  # it waits for the next one
        await trio.sleep(1)
        assert ledger.numbers() == [2] and reasons(system) == {"stopped": 1} and conserved(system)


@pytest.mark.parametrize("retries", [0, 1])
async def test_a_thread_that_is_left_behind_costs_the_pool_no_worker(retries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.actors.hosts.thread.JOIN_TIMEOUT", 0.2)
    stuck = threading.Event()
    try:
        async with make(grace=0.1) as system:
            pool = await system.spawn_pool(ThreadWorker, None, stuck, pool=rt.Pool.work_pulling(1, retries=retries))
            async with trio.open_nursery() as nursery:
                ended: list[object] = []

                async def ask() -> None:
                    try:
                        ended.append(await pool.ask(Job(work="hang"), timeout=20))
                    except rt.ActorStopped as error:
                        ended.append(error)

                nursery.start_soon(ask)
                await trio.sleep(0.05)
                await workers_of(system, pool)[0].stop(grace=0)
                stuck.set()
            assert system.statistics().leaked_threads == 1
            assert ended == ["0"] if retries else isinstance(ended[0], rt.ActorStopped)
            with trio.fail_after(60):
                assert await pool.ask(Job()) == "0"
            assert conserved(system)
    finally:
        stuck.set()


async def test_a_worker_that_gives_up_is_no_failure_of_its_pool(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    class Owner(rt.Actor):
        async def on_start(self) -> None:
            self.pool = await self.ctx.spawn_pool(
                PoolWorker, pool=rt.Pool.round_robin(2), supervision=rt.Supervision(on={Fault: "escalate"})
            )

        @rt.handler
        async def job(self, message: Job) -> str:
            return await self.pool.ask(message)

    async with make() as system:
        owner = await system.spawn(Owner, name="owner")
        with pytest.raises(Fault):
            await owner.ask(Job(1, work="fail"))
        assert await owner.ask(Job(2)) == "1"
        owner_now = next(one for one in system.actors() if one.path == "/user/owner")
        assert (owner_now.failures, owner_now.restarts) == (0, 0)
        assert any(
            "another worker takes its place" in record.getMessage() for record in caplog.records if record.levelno == logging.WARNING
        )


async def test_a_pool_is_restarted_with_its_siblings_by_restarting_its_workers(autojump_clock: MockClock) -> None:
    together = rt.Supervision(strategy="one_for_all")

    class Owner(rt.Actor):
        def __init__(self, ledger: Ledger) -> None:
            self.ledger = ledger

        async def on_start(self) -> None:
            await self.ctx.spawn_pool(PoolWorker, self.ledger, pool=rt.Pool.round_robin(2), name="pool")
            await self.ctx.spawn(PoolWorker, self.ledger, name="single", supervision=together)

    async with make() as system:
        ledger = Ledger()
        await system.spawn(Owner, ledger, name="owner")
        pool = system.registry.get("/user/owner/pool")
        single = system.registry.get("/user/owner/single")
        assert pool is not None and single is not None
        with pytest.raises(Fault):
            await single.ask(Job(work="fail"))
        await trio.sleep(1)
        assert sorted(ledger.lives) == ["0", "0", "1", "1", "single", "single"]
        assert pool.alive and await pool.ask(Quick()) in ("0", "1")


async def test_a_failing_worker_is_restarted_in_its_place_and_keeps_its_mail(autojump_clock: MockClock) -> None:
    for kind in POOLS:
        async with make() as system:
            ledger = Ledger()
            pool = await system.spawn_pool(PoolWorker, ledger, pool=POOLS[kind](1))
            pool.tell(Job(0, work="fail"))
            pool.tell(Job(1))
            await system.wait_quiet()
            assert ledger.numbers() == [1] and ledger.lives == ["0", "0"] and conserved(system)


@pytest.mark.parametrize("kind", POOLS)
async def test_the_end_of_the_pool_is_the_end_of_its_workers_and_of_what_waits(
    kind: str, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=POOLS[kind](2))
        found: dict[int, object] = {}
        watch = await system.watch(pool)
        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(outcome, pool, Job(number, seconds=10), found)
            for number in range(4):
                pool.tell(Job(number, seconds=10))
            await trio.testing.wait_all_tasks_blocked()
            await pool.stop(grace=1)
        assert all(isinstance(error, rt.ActorStopped) for error in found.values()) and len(found) == 6
        assert (await watch.wait()).reason is rt.StopReason.STOPPED
        assert pool.tell(Job()).reason == "stopped"
        with pytest.raises(rt.ActorStopped):
            await pool.ask(Job())
        await trio.sleep(60)
        assert system.actors() == [] and system.statistics().deadlines == 0 and conserved(system)
        assert not any("fault of the runtime" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("kind", POOLS)
async def test_the_end_of_the_system_drains_a_pool(kind: str, autojump_clock: MockClock) -> None:
    ledger = Ledger()
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, ledger, pool=POOLS[kind](2))
        for number in range(8):
            pool.tell(Job(number, seconds=0.5, key=number))
    assert sorted(ledger.numbers()) == list(range(8)) and conserved(system) and system.statistics().queued == 0


async def test_a_replacement_that_waits_to_start_does_not_outlive_its_pool(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.round_robin(3))
        for worker in workers_of(system, pool):
            await worker.stop()
        pool.tell(Quick(1))
        await pool.stop()
        await trio.sleep(60)
        assert ledger.lives == ["0", "1", "2"] and system.statistics().deadlines == 0
        assert reasons(system) == {"stopped": 1} and conserved(system)


async def test_what_ends_the_whole_system_in_a_worker_ends_it() -> None:
    class Fatal(rt.Actor):
        @rt.handler
        def quick(self, message: Quick) -> str:
            raise SystemExit(3)

    with pytest.raises(SystemExit):
        async with make() as system:
            pool = await system.spawn_pool(Fatal, pool=rt.Pool.work_pulling(2, retries=5))
            with pytest.raises(rt.ActorStopped):
                await pool.ask(Quick())
            await trio.sleep(5)
    assert conserved(system)
