"""Work pulling: nothing waits while somebody is idle, nothing is prefetched, and a message that its worker failed on may be tried again."""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons
from core_puppet import Do, Puppet
from pool_actors import Count, Declared, Fault, Job, Ledger, PoolWorker, Quick, ThreadWorker, workers_of


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("pulling", block_warning=math.inf, **options)


async def test_messages_are_taken_in_the_order_that_they_came(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.work_pulling(3))
        for number in range(20):
            pool.tell(Job(number, seconds=(number * 7) % 5))
        await trio.sleep(1_000)
        assert [number for _, number in ledger.begun] == list(range(20))
        assert ledger.most_running == 3 and conserved(system)


@given(
    size=st.integers(1, 5),
    steps=st.lists(st.tuples(st.sampled_from(["tell", "ask", "sleep", "direct"]), st.integers(0, 4)), min_size=1, max_size=25),
    seed=st.one_of(st.none(), st.integers(0, 99)),
)
@settings(max_examples=40)
def test_nothing_waits_while_a_worker_is_idle(size: int, steps: list[tuple[str, int]], seed: int | None) -> None:
    async def main() -> None:
        async with make(seed=seed) as system, trio.open_nursery() as nursery:
            pool = await system.spawn_pool(PoolWorker, pool=rt.Pool.work_pulling(size), name="pool")
            workers = workers_of(system, pool)
            for what, number in steps:
                if what == "tell":
                    for _ in range(number):
                        pool.tell(Job(seconds=number))
                elif what == "ask":
                    nursery.start_soon(pool.ask, Job(seconds=number))
                elif what == "direct":
                    workers[number % size].tell(Job(seconds=number))
                else:
                    await trio.sleep(number)
                await trio.testing.wait_all_tasks_blocked()
                states = {one.path: one for one in system.actors()}
                idle = [one for one in states.values() if one.state == "idle"]
                assert not (idle and states["/user/pool"].queued), states

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def test_a_worker_that_was_woken_and_is_to_end_first_leaves_the_message_to_another(autojump_clock: MockClock) -> None:
    class Slow(PoolWorker):
        async def on_stop(self, reason: rt.StopReason) -> None:
            await trio.sleep(5)

    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(Slow, ledger, pool=rt.Pool.work_pulling(2))
        puppet = await system.spawn(Puppet)
        await system.wait_quiet()
        first, _ = workers_of(system, pool)

        async def script(_: Any) -> None:
            pool.tell(Quick(1))
            await first.stop()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(puppet.ask, Do(script))
            await trio.sleep(1)
            assert ledger.done == [("1", 1)]


async def test_a_worker_that_was_woken_and_has_mail_of_its_own_leaves_the_message_to_another(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.work_pulling(2))
        await system.wait_quiet()
        pool.tell(Quick(1))
        workers_of(system, pool)[0].tell(Job(2, seconds=5))
        await trio.sleep(1)
        assert ledger.done == [("1", 1)] and ledger.begun == [("0", 2)]


async def test_an_urgent_one_after_a_thousand_is_the_next(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        mailbox = rt.Mailbox.priority(lambda message: message.urgency, 2_000)
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.work_pulling(4), mailbox=mailbox)
        for number in range(1_000):
            pool.tell(Job(number, seconds=1))
        await trio.sleep(10.5)
        taken = len(ledger.begun)
        pool.tell(Job(-1, seconds=1, urgency=0))
        await trio.sleep(1)
        assert taken == 44 and [number for _, number in ledger.begun].index(-1) == taken
        await system.stop(grace=0)


async def test_a_conflating_mailbox_is_one_for_all_workers(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(
            PoolWorker, ledger, pool=rt.Pool.work_pulling(2), mailbox=rt.Mailbox.conflate(lambda message: message.key)
        )
        for number in range(2):
            pool.tell(Job(number, seconds=5))
        await trio.sleep(1)
        for number in range(10, 20):
            pool.tell(Job(number, key="price"))
        await trio.sleep(60)
        assert sorted(ledger.numbers()) == [0, 1, 19] and reasons(system) == {"conflated": 9} and conserved(system)


@pytest.mark.parametrize(("overflow", "kept"), [("reject", [0, 1, 2, 3]), ("drop_oldest", [0, 1, 8, 9]), ("drop_newest", [0, 1, 2, 9])])
async def test_the_mailbox_bounds_the_pool_and_not_each_worker(overflow: Any, kept: list[int], autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        mailbox = rt.Mailbox.bounded(2, overflow=overflow)
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.work_pulling(2), mailbox=mailbox)
        for number in range(2):
            pool.tell(Job(number, seconds=5))
        await trio.sleep(1)
        for number in range(2, 10):
            pool.tell(Job(number))
        assert conserved(system)
        await trio.sleep(60)
        assert sorted(ledger.numbers()) == kept and conserved(system)


async def test_asks_and_sends_wait_for_room_in_their_order(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.work_pulling(1), mailbox=rt.Mailbox.bounded(1))
        pool.tell(Job(0, seconds=5))
        await trio.sleep(1)
        pool.tell(Job(1, seconds=5))
        async with trio.open_nursery() as nursery:
            for number in range(2, 6):
                nursery.start_soon(pool.ask if number % 2 else pool.send, Job(number))
                await trio.testing.wait_all_tasks_blocked()
            assert pool.tell(Job(9)).reason == "mailbox_full"
            assert system.statistics().queued == 6 and conserved(system)
        await system.wait_quiet()
        assert ledger.numbers() == [0, 1, 2, 3, 4, 5] and conserved(system)


async def test_a_message_that_is_withdrawn_while_it_waits_is_nobodys(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.work_pulling(1))
        pool.tell(Job(0, seconds=10))
        await trio.sleep(1)
        with pytest.raises(rt.AskTimeout) as caught:
            await pool.ask(Job(1), timeout=1)
        assert caught.value.begun is False
        with trio.move_on_after(1):
            await pool.ask(Job(2))
        await trio.sleep(60)
        assert ledger.numbers() == [0] and reasons(system) == {"expired": 1, "withdrawn": 1} and conserved(system)


@pytest.mark.parametrize(("retries", "tried"), [(0, 1), (1, 2), (3, 4)])
async def test_a_failing_message_is_tried_by_so_many_more(
    retries: int, tried: int, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.work_pulling(3, retries=retries))
        with pytest.raises(Fault, match="failed on 1"):
            await pool.ask(Job(1, work="fail"))
        assert [number for _, number in ledger.begun] == [1] * tried
        pool.tell(Job(2, work="fail"))
        await trio.sleep(60)
        assert [number for _, number in ledger.begun].count(2) == tried
        assert reasons(system) == {"poison": 1} and conserved(system)
        assert sum(one.failures for one in system.actors()) == 2 * tried
        assert await pool.ask(Job(3)) in ("0", "1", "2")
        errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert len(errors) == 1  # the tell, once it was given up


async def test_a_message_that_kills_every_worker_is_given_up_and_the_pool_lives(autojump_clock: MockClock) -> None:
    class Mortal(PoolWorker):
        @rt.handler
        async def job(self, message: Job) -> str:
            if message.work == "kill":
                self.ledger.begun.append((self.name, message.number))
                raise Fault("dies of it")
            return await super().job(message)

    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(
            Mortal, ledger, pool=rt.Pool.work_pulling(3, retries=2), supervision=rt.Supervision(restart="temporary")
        )
        with pytest.raises(Fault, match="dies of it"):
            await pool.ask(Job(1, work="kill"))
        assert [worker for worker, _ in ledger.begun] == ["0", "1", "2"]
        assert await pool.ask(Job(2)) in ("0", "1", "2")
        await trio.sleep(1)
        assert len(ledger.lives) == 6 and conserved(system)


async def test_a_message_whose_worker_was_stopped_goes_to_another(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.work_pulling(2, retries=1))
        first, _ = workers_of(system, pool)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.ask, Job(1, seconds=100))
            await trio.sleep(1)
            await first.stop(grace=2)
            await trio.lowlevel.checkpoint()
            assert ledger.begun == [("0", 1), ("1", 1)]
        assert trio.current_time() == pytest.approx(103) and ledger.done == [("1", 1)] and conserved(system)


@pytest.mark.parametrize("retries", [0, 1])
async def test_without_retries_the_asker_hears_that_its_worker_was_stopped(retries: int, autojump_clock: MockClock) -> None:
    async with make() as system:
        pool = await system.spawn_pool(PoolWorker, pool=rt.Pool.work_pulling(1, retries=retries))
        (worker,) = workers_of(system, pool)
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                if retries:
                    assert await pool.ask(Job(1, seconds=10)) == "0"
                    return
                with pytest.raises(rt.ActorStopped) as caught:
                    await pool.ask(Job(1, seconds=10))
                assert caught.value.begun

            nursery.start_soon(ask)
            await trio.sleep(1)
            await worker.stop(grace=0)
        assert conserved(system)


async def test_what_is_an_answer_is_not_tried_again(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.work_pulling(3, retries=5))
        with pytest.raises(Declared):
            await pool.ask(Job(1, work="declare"))
        with pytest.raises(rt.AskTimeout):
            await pool.ask(Job(2, seconds=10), timeout=1)
        with trio.move_on_after(1):
            await pool.ask(Job(3, seconds=10))
        await trio.sleep(60)
        assert [number for _, number in ledger.begun] == [1, 2, 3] and conserved(system)


async def test_what_came_with_tokens_is_not_tried_again_whether_or_not_it_needed_them() -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.work_pulling(2, retries=5))
        with pytest.raises(Fault):
            await pool.ask(Job(1, work="fail"), approvals=["a token"])
        assert len(ledger.begun) == 1 and conserved(system)


async def test_what_its_asker_has_given_up_is_not_tried_again(autojump_clock: MockClock) -> None:
    class Shielded(PoolWorker):
        @rt.handler(shield=True)
        async def job(self, message: Job) -> str:
            self.ledger.begun.append((self.name, message.number))
            await trio.sleep(2)
            raise Fault("too late to matter")

    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(Shielded, ledger, pool=rt.Pool.work_pulling(2, retries=5))
        with pytest.raises(rt.AskTimeout):
            await pool.ask(Job(1), timeout=1)
        await trio.sleep(60)
        assert len(ledger.begun) == 1 and conserved(system)


async def test_the_deadline_is_one_for_all_attempts(autojump_clock: MockClock) -> None:
    class Late(PoolWorker):
        @rt.handler
        async def job(self, message: Job) -> str:
            await trio.sleep(2)
            raise Fault("late")

    async with make() as system:
        pool = await system.spawn_pool(Late, pool=rt.Pool.work_pulling(1, retries=100))
        with pytest.raises(rt.AskTimeout):
            await pool.ask(Job(1), timeout=5)
        assert trio.current_time() == 5
        await trio.sleep(600)
        assert conserved(system)


async def test_a_retried_message_is_the_first_in_line(autojump_clock: MockClock) -> None:
    failed: list[int] = []

    class Once(PoolWorker):
        @rt.handler
        async def job(self, message: Job) -> str:
            self.ledger.begun.append((self.name, message.number))
            await trio.sleep(1)
            if message.number == 1 and not failed:
                failed.append(1)
                raise Fault("once")
            return self.name

    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(Once, ledger, pool=rt.Pool.work_pulling(1, retries=1))
        for number in range(1, 5):
            pool.tell(Job(number))
        await trio.sleep(60)
        assert [number for _, number in ledger.begun] == [1, 1, 2, 3, 4] and conserved(system)


async def test_a_stream_is_not_begun_twice() -> None:
    begun: list[str] = []

    class Broken(PoolWorker):
        @rt.handler
        async def count(self, message: Count) -> Any:
            begun.append(self.name)
            yield "one"
            raise Fault("in the middle")

    async with make() as system:
        pool = await system.spawn_pool(Broken, pool=rt.Pool.work_pulling(2, retries=3))
        with pytest.raises(Fault):
            async with pool.stream(Count()) as items:
                async for _ in items:
                    pass
        await system.wait_quiet()
        assert begun == ["0"] and conserved(system)


async def test_what_a_worker_had_stashed_goes_to_another_when_it_ends(autojump_clock: MockClock) -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.work_pulling(2))
        first, second = workers_of(system, pool)
        second.tell(Job(0, seconds=10))
        await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            for number in (1, 2, 3):
                nursery.start_soon(pool.ask, Job(number, work="stash"))
                await trio.testing.wait_all_tasks_blocked()
            assert ledger.done == [("0", 1), ("0", 2), ("0", 3)] and conserved(system)
            await first.stop()
        await system.wait_quiet()
        assert ledger.numbers() == [1, 2, 3, 1, 2, 3, 0] and conserved(system)


async def test_workers_with_threads_really_work_side_by_side() -> None:
    meeting = threading.Barrier(3)
    async with make() as system:
        pool = await system.spawn_pool(ThreadWorker, meeting, pool=rt.Pool.work_pulling(3))
        answers: list[str] = []

        async def one() -> None:
            answers.append(await pool.ask(Job(work="meet")))

        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(one)
        assert sorted(answers) == ["0", "1", "2"] and conserved(system)


async def test_a_worker_that_is_sent_to_directly_serves_its_own_mail_and_the_pools() -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.work_pulling(2))
        _, second = workers_of(system, pool)
        for number in range(200):
            second.tell(Quick(number))
            pool.tell(Quick(1_000 + number))
        await system.wait_quiet()
        assert len(ledger.done) == 400 and await second.ask(Quick()) == "1"
        assert [number for _, number in ledger.done if number >= 1_000] == list(range(1_000, 1_200)) and conserved(system)


async def test_fifty_producers_are_held_to_one_bound() -> None:
    async with make() as system:
        ledger = Ledger()
        pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.work_pulling(4), mailbox=rt.Mailbox.bounded(20))
        most = 0

        async def produce(producer: int) -> None:
            nonlocal most
            for number in range(20):
                await pool.send(Quick(producer * 100 + number), timeout=30)
                most = max(most, sum(one.queued for one in system.actors()))

        async with trio.open_nursery() as nursery:
            for producer in range(50):
                nursery.start_soon(produce, producer)
        await system.wait_quiet()
        assert len(ledger.done) == 1_000 and most <= 20 + 50 + 4
        for producer in range(50):
            assert [n for n in ledger.numbers() if n // 100 == producer] == [producer * 100 + number for number in range(20)]
        assert conserved(system)


async def test_the_turns_of_a_pool_leave_others_theirs() -> None:
    """A worker that always finds more gives others their turn after 64 messages, as any actor does."""
    order: list[str] = []

    class Busy(rt.Actor):
        @rt.handler
        def quick(self, message: Quick) -> str:
            order.append("pool")
            return ""

    class Other(rt.Actor):
        @rt.handler
        def quick(self, message: Quick) -> str:
            order.append("other")
            return ""

    async with make() as system:
        pool = await system.spawn_pool(Busy, pool=rt.Pool.work_pulling(1))
        other = await system.spawn(Other)
        await system.wait_quiet()
        for _ in range(200):
            pool.tell(Quick())
        other.tell(Quick())
        await system.wait_quiet()
        assert 1 <= order.index("other") <= 64 and len(order) == 201


async def test_a_turn_of_heavy_messages_leaves_others_theirs_sooner() -> None:
    order: list[str] = []

    class Heavy(rt.Actor):
        @rt.handler
        def quick(self, message: Quick) -> str:
            began = time.perf_counter()
            while message.number and time.perf_counter() - began < 0.002:
                pass
            order.append("pool" if message.number else "other")
            return ""

    async with make() as system:
        pool = await system.spawn_pool(Heavy, pool=rt.Pool.work_pulling(1))
        other = await system.spawn(Heavy)
        await system.wait_quiet()
        for _ in range(20):
            pool.tell(Quick(1))
        other.tell(Quick(0))
        await system.wait_quiet()
        assert order.index("other") <= 2 and len(order) == 21 and conserved(system)


def test_a_seed_makes_the_order_of_workers_its_own() -> None:
    def run(seed: int) -> tuple[str, ...]:
        ledger = Ledger()

        async def main() -> None:
            async with make(seed=seed) as system:
                pool = await system.spawn_pool(PoolWorker, ledger, pool=rt.Pool.work_pulling(4))
                for number in range(6):
                    for _ in range(4):
                        pool.tell(Quick(number))
                    await system.wait_quiet()

        trio.run(main)
        return tuple(ledger.workers())

    assert run(1) == run(1)
    assert len({run(seed) for seed in range(8)}) > 1
