"""`VirtualClock`: hours pass at once, and never while a thread works."""

from __future__ import annotations

import logging
import math
import threading
import time
from functools import partial

import pykka
import pytest
import trio
import trio.testing

import retinue as rt
from core_actors import Double, Hold, ThreadHolder
from core_latch import Latch
from retinue.actors.store.store import Store
from retinue.testing import VirtualClock
from store_works import NOTES, AddFull


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@rt.message
class Work(rt.Request[str]):
    """Work for so many real seconds."""

    seconds: float = 0.05


@rt.message
class AskOn(rt.Request[str]):
    """Ask the other actor from the thread, for so many seconds at most."""

    other: rt.Ref[Sleeper]  # type: ignore[name-defined]
    timeout: float


class Sleeper(rt.Actor):
    @rt.handler
    async def work(self, message: Work) -> str:
        await trio.sleep(message.seconds)
        return "slept"


class Worker(rt.Actor, blocking=True):
    @rt.handler
    def work(self, message: Work) -> str:
        time.sleep(message.seconds)
        return "worked"

    @rt.handler
    def ask_on(self, message: AskOn) -> str:
        return self.ctx.ask(message.other, Work(3600), timeout=message.timeout)


async def test_an_hour_passes_at_once(clock):
    began = time.monotonic()
    await trio.sleep(3600)
    assert trio.current_time() == 3600
    assert time.monotonic() - began < 60


async def test_a_deadline_of_an_hour_does_not_pass_while_a_blocking_actor_works(clock):
    async with rt.ActorSystem() as system:
        worker = await system.spawn(Worker)
        assert await worker.ask(Work(0.05), timeout=3600) == "worked"
        assert trio.current_time() == 0


async def test_it_waits_for_calls_in_trios_threads_whatever_limits_them(clock):
    with trio.fail_after(3600):
        await trio.to_thread.run_sync(time.sleep, 0.05)
        await trio.to_thread.run_sync(time.sleep, 0.05, limiter=trio.CapacityLimiter(1))
    assert trio.current_time() == 0


async def test_a_thread_that_waits_for_the_loop_holds_nothing(clock):
    async with rt.ActorSystem() as system:
        sleeper, worker = await system.spawn(Sleeper), await system.spawn(Worker)
        assert await worker.ask(AskOn(sleeper, 7200), timeout=math.inf) == "slept"
        assert trio.current_time() == 3600
        with pytest.raises(rt.AskTimeout):
            await worker.ask(AskOn(sleeper, 60), timeout=math.inf)
        assert trio.current_time() == 3660
    await trio.to_thread.run_sync(trio.from_thread.run, trio.sleep, 40)
    assert trio.current_time() == 3700


async def test_a_back_off_of_a_blocking_actor_passes_at_once(clock):
    class Failing(rt.Actor, blocking=True):
        def __init__(self, made: list[float]) -> None:
            made.append(self.ctx.system.statistics().sent)
            self.made = made

        @rt.handler
        def work(self, message: Work) -> str:
            if len(self.made) < 5:
                raise RuntimeError("again")
            return "at last"

    made: list[float] = []
    logging.getLogger("retinue.runtime").setLevel(logging.CRITICAL)
    try:
        async with rt.ActorSystem() as system:
            failing = await system.spawn(Failing, made)
            for _ in range(4):
                failing.tell(Work())
            assert await failing.ask(Work(), timeout=3600) == "at last"
            assert 0.5 < trio.current_time() < 2
    finally:
        logging.getLogger("retinue.runtime").setLevel(logging.NOTSET)


async def test_messages_from_threads_arrive_before_time_goes_on(clock):
    async with rt.ActorSystem() as system:
        sleeper = await system.spawn(Sleeper)
        context = system.authority.mint("thread", ["**"])

        def tell() -> None:
            for _ in range(100):
                sleeper.tell(Work(0), context=context)

        thread = threading.Thread(target=tell)
        with clock.held("a thread of the test's own"):
            thread.start()
            with trio.move_on_after(3600) as scope:
                while system.statistics().handled < 100:
                    await trio.testing.wait_all_tasks_blocked(0.001)
        thread.join()
        assert not scope.cancelled_caught
        assert trio.current_time() == 0


async def test_what_it_waits_for_can_be_read(clock):
    async with rt.ActorSystem() as system:
        latch = Latch()
        holder = await system.spawn(ThreadHolder, None, latch, name="holder")
        assert clock.waits_for == []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(holder.ask, Hold(1))
            await latch.until(entered=1)
            assert clock.waits_for == ["/user/holder handles Hold in its thread"]
            with clock.held("a process"):
                assert clock.waits_for[0] == "a process"
            latch.open()
        assert await holder.ask(Double(2)) == 4


async def test_waiting_for_idle_comes_before_a_jump(clock):
    order = []

    async def jumps() -> None:
        await trio.sleep(5)
        order.append("jumped")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(jumps)
        await trio.testing.wait_all_tasks_blocked(0.02)
        order.append("idle")
        assert trio.current_time() == 0
    assert order == ["idle", "jumped"]


async def test_sockets_of_the_same_process_are_served_before_time_goes_on(clock):
    here, there = trio.socket.socketpair()

    async def echo() -> None:
        for _ in range(50):
            await there.send(await there.recv(10))

    with here, there:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(echo)
            with trio.fail_after(3600):
                for _ in range(50):
                    await here.send(b"x")
                    assert await here.recv(10) == b"x"
    assert trio.current_time() == 0


def test_a_thread_that_never_comes_back_is_named_and_time_goes_on(caplog):
    clock = VirtualClock(hang_after=0.1)

    async def main() -> None:
        async with rt.ActorSystem(block_warning=math.inf, grace=1) as system:
            latch = Latch()
            holder = await system.spawn(ThreadHolder, None, latch, name="holder")
            with pytest.raises(rt.AskTimeout):
                await holder.ask(Hold(1), timeout=3600)
            assert trio.current_time() == 3600
            latch.open()

    with caplog.at_level(logging.ERROR, "retinue.testing"):
        trio.run(main, clock=clock)
    [record] = [record for record in caplog.records if record.name == "retinue.testing"]
    assert "/user/holder handles Hold in its thread" in record.message
    assert "wait_in_thread" in record.message


def test_a_call_in_trios_thread_that_never_comes_back_is_given_up_too(caplog):
    go = threading.Event()

    async def main() -> None:
        with trio.move_on_after(60):
            await trio.to_thread.run_sync(go.wait, 30, abandon_on_cancel=True)
        assert trio.current_time() == 60
        go.set()

    with caplog.at_level(logging.ERROR, "retinue.testing"):
        trio.run(main, clock=VirtualClock(hang_after=0.1))
    assert "trio.to_thread.run_sync" in caplog.text


def test_after_one_call_was_given_up_the_next_one_is_waited_for(caplog):
    go = threading.Event()

    async def main() -> None:
        await trio.to_thread.run_sync(time.sleep, 0.7)  # longer than the clock's patience, and nothing else has a deadline
        with trio.move_on_after(3600) as scope:
            await trio.to_thread.run_sync(time.sleep, 0.05, abandon_on_cancel=True)
        assert not scope.cancelled_caught
        with trio.move_on_after(60):
            await trio.to_thread.run_sync(go.wait, 30, abandon_on_cancel=True)
        began = trio.current_time()
        with trio.fail_after(3600):  # beside one that is still in its thread
            await trio.to_thread.run_sync(time.sleep, 0.05)
        assert trio.current_time() == began
        go.set()

    with caplog.at_level(logging.ERROR, "retinue.testing"):
        trio.run(main, clock=VirtualClock(hang_after=0.4))
    assert len(caplog.records) == 2


def test_a_blocking_actor_that_was_given_up_once_is_waited_for_the_next_time(caplog):
    async def main() -> None:
        async with rt.ActorSystem(block_warning=math.inf) as system:
            worker = await system.spawn(Worker)
            await worker.ask(Work(0.7), timeout=math.inf)
            assert await worker.ask(Work(0.05), timeout=3600) == "worked"
            assert trio.current_time() == 0

    with caplog.at_level(logging.ERROR, "retinue.testing"):
        trio.run(main, clock=VirtualClock(hang_after=0.4))
    assert len(caplog.records) == 1


def test_calls_of_another_run_hold_nothing():
    go, inside = threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        go.wait(30)

    other = threading.Thread(target=lambda: trio.run(partial(trio.to_thread.run_sync, hold)))
    other.start()
    assert inside.wait(30)
    try:

        async def main() -> None:
            clock = trio.lowlevel.current_clock()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(trio.to_thread.run_sync, time.sleep, 0.1))
                await trio.testing.wait_all_tasks_blocked(0.01)
                assert clock.waits_for == ["a call of trio.to_thread.run_sync runs sleep in its thread"]
            await trio.sleep(3600)

        began = time.monotonic()
        trio.run(main, clock=VirtualClock())
        assert time.monotonic() - began < 25
    finally:
        go.set()
        other.join()


def test_without_autojump_only_jumps_move_it():
    clock = VirtualClock(autojump=False)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 5)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert clock.current_time() == 0
            clock.jump(5)

    trio.run(main, clock=clock)
    assert clock.current_time() == 5


def test_with_a_rate_it_runs_by_itself_and_still_jumps():
    clock = VirtualClock(rate=1000)

    async def main() -> None:
        await trio.to_thread.run_sync(time.sleep, 0.02)
        assert trio.current_time() >= 20
        await trio.sleep(1e6)

    began = time.monotonic()
    trio.run(main, clock=clock)
    assert clock.current_time() >= 1e6
    assert time.monotonic() - began < 60
    clock.rate = 0
    assert clock.current_time() == clock.current_time()


def test_one_clock_serves_several_runs_and_goes_on_where_it_was():
    clock = VirtualClock()
    trio.run(trio.sleep, 5, clock=clock)
    trio.run(trio.sleep, 5, clock=clock)
    assert clock.current_time() == 10


def test_a_threshold_gives_the_outside_world_time():
    done = threading.Event()

    async def main() -> None:
        token = trio.lowlevel.current_trio_token()
        event = trio.Event()

        def outside() -> None:
            time.sleep(0.03)
            token.run_sync_soon(event.set)
            done.set()

        threading.Thread(target=outside).start()
        with trio.fail_after(3600):
            await event.wait()

    trio.run(main, clock=VirtualClock(threshold=2.0))
    assert done.is_set()


@pytest.mark.parametrize("keywords", [{"rate": -1}, {"threshold": math.nan}, {"hang_after": True}, {"rate": "1"}])
def test_wrong_numbers_are_refused(keywords):
    with pytest.raises(rt.DefinitionError, match="0 or more"):
        VirtualClock(**keywords)


def test_time_does_not_go_back():
    with pytest.raises(rt.DefinitionError, match="jump"):
        VirtualClock().jump(-1)


def test_it_naps_while_a_thread_works_and_burns_no_processor():
    async def main() -> None:
        with trio.fail_after(3600):
            await trio.to_thread.run_sync(time.sleep, 1.0)

    began = time.process_time()
    trio.run(main, clock=VirtualClock())
    assert time.process_time() - began < 0.5


async def test_it_waits_for_adopted_pykka_actors_and_for_their_end(clock):
    class Slow(pykka.ThreadingActor):
        use_daemon_thread = True

        def on_receive(self, message):
            time.sleep(message.seconds)
            return "pykka's"

        def on_stop(self):
            time.sleep(0.05)

    async with rt.ActorSystem() as system:
        slow = await system.adopt(Slow.start(), messages=(Work,), stop=True, name="slow")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slow.ask, Work(0.05))
            await trio.testing.wait_all_tasks_blocked()
            assert clock.waits_for == ["the pykka actor behind /user/slow handles Work"]
        assert await slow.ask(Work(0.05), timeout=3600) == "pykka's"
        await slow.stop()
        assert trio.current_time() == 0

        actor = Slow.start()
        watch = await system.watch(await system.adopt(actor, messages=(Work,)))
        actor.stop()  # not by us: the look at it will find out
        with trio.fail_after(3600):
            await watch.wait()
        assert trio.current_time() == 0


async def test_it_waits_for_a_store(clock, tmp_path):
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, tmp_path / "notes.db", NOTES)
        for number in range(20):
            assert await store.ask(AddFull(f"text {number}"), timeout=3600) == number + 1
    assert trio.current_time() == 0


async def test_a_thread_that_was_just_answered_works_and_one_that_waits_hides_no_other(clock):
    def there_and_back() -> None:
        for _ in range(20):
            trio.from_thread.run_sync(int)
            time.sleep(0.002)

    async with rt.ActorSystem() as system:
        sleeper, worker = await system.spawn(Sleeper), await system.spawn(Worker)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(worker.ask, AskOn(sleeper, 7200), timeout=math.inf))  # its thread waits for an hour of the loop's
            with trio.fail_after(60):
                await trio.to_thread.run_sync(there_and_back)
            assert trio.current_time() == 0
    assert trio.current_time() == 3600


async def test_a_blocking_actor_that_waits_for_a_report_of_the_loops_does_not_work(clock):
    class Stasher(rt.Actor, blocking=True):
        @rt.handler
        def work(self, message: Work) -> str:
            statistics = [self.ctx.system.statistics() for _ in range(20)]
            time.sleep(message.seconds)
            return str(statistics[-1].sent)

    async with rt.ActorSystem() as system:
        assert await (await system.spawn(Stasher)).ask(Work(), timeout=3600) == "1"
        assert trio.current_time() == 0
