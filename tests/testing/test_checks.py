"""What a test may ask of a system: that its books balance, that it is quiet or idle, that nothing is left of it."""

from __future__ import annotations

import logging
import math
import time
from types import MappingProxyType

import attrs
import pytest
import trio

import retinue as rt
import retinue.sync
from core_actors import Boom, Break, Double, Hold, Holder, Note, Plain, ThreadHolder
from core_latch import Latch
from retinue.actors.testing.checks import leaks, waiting_asks
from retinue.testing import VirtualClock, assert_conserved, assert_no_dead_letters, assert_quiet, wait_idle


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


class Counts:
    """Stands for a system whose books are as a test wants them."""

    def __init__(self, system: rt.ActorSystem, **changes: object) -> None:
        self._counts = attrs.evolve(system.statistics(), **changes)

    def statistics(self) -> object:
        return self._counts


async def test_books_that_balance_are_returned(clock):
    async with rt.ActorSystem() as system:
        plain = await system.spawn(Plain)
        plain.tell(Note(1))
        await plain.ask(Double(1))
        assert assert_conserved(system).sent == 2


def test_the_books_of_a_twin_are_books_too():
    with retinue.sync.ActorSystem() as system:
        system.spawn(Plain).ask(Double(1))
        assert assert_conserved(system).handled == 1


async def test_books_that_do_not_balance_are_told_with_the_counts(clock):
    async with rt.ActorSystem("shop") as system:
        counts = Counts(
            system, sent=9, handled=4, dead_letters=2, queued=1, dead_letters_by_reason=MappingProxyType({"poison": 2, "denied": 0})
        )
        with pytest.raises(AssertionError) as raised:
            assert_conserved(counts)
        assert str(raised.value) == (
            "the books of the system 'shop' do not balance: 9 messages were sent, and 4 handled + 2 dead letters (poison: 2) + 1 queued are 7: 2 are nowhere"
        )
        with pytest.raises(AssertionError, match="1 are counted twice"):
            assert_conserved(Counts(system, sent=1, handled=2))


async def test_a_system_at_work_is_not_quiet_and_the_text_says_who(clock):
    async with rt.ActorSystem() as system:
        assert_quiet(system)
        latch = Latch()
        holder = await system.spawn(Holder, None, latch, name="holder")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(holder.ask, Hold(1))
            await latch.until(entered=1)
            holder.tell(Note(1))
            with pytest.raises(AssertionError, match=r"/user/holder is running with 2 messages, handling Hold"):
                assert_quiet(system)
            latch.open()
        await system.wait_quiet()
        assert_quiet(system)


async def test_dead_letters_are_told_with_their_reasons(clock):
    async with rt.ActorSystem() as system:
        plain = await system.spawn(Plain, name="plain")
        assert_no_dead_letters(system)
        await plain.stop()
        plain.tell(Note(1))
        plain.tell(Note(2))
        with pytest.raises(
            AssertionError, match=r"there are dead letters \(stopped: 2\): Note to /user/plain \(stopped\); Note to /user/plain \(stopped\)"
        ):
            assert_no_dead_letters(system)
        assert_no_dead_letters(system, allow=["stopped"])


async def test_waiting_for_idle_waits_for_restarts_and_tasks_that_quiet_does_not(clock, caplog):
    caplog.set_level(logging.CRITICAL, "retinue")
    done = []

    class Busy(Plain):
        def on_start(self) -> None:
            self.ctx.start_soon(self.work)

        async def work(self) -> None:
            await trio.sleep(30)
            done.append(trio.current_time())

        async def run(self) -> None:
            await trio.sleep_forever()

    async with rt.ActorSystem() as system:
        await system.spawn(Busy)
        await system.wait_quiet()
        assert not done
        await wait_idle(system, timeout=60)
        assert done == [30]
        plain = await system.spawn(Plain)
        for number in range(3):
            plain.tell(Break())
            plain.tell(Note(number))
        await wait_idle(system)
        assert system.actors()[-1].handled == 3
        assert assert_conserved(system).queued == 0


async def test_what_keeps_a_system_from_being_idle_is_in_the_text(clock):
    async with rt.ActorSystem() as system:
        latch = Latch()
        holder = await system.spawn(Holder, None, latch, name="holder")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(holder.ask, Hold(1))
            await latch.until(entered=1)
            with pytest.raises(
                AssertionError, match=r"'main' is not idle after 5 s: /user/holder is running with 1 messages, handling Hold"
            ):
                await wait_idle(system, timeout=5)
            latch.open()

        class Tasked(rt.Actor):
            def on_start(self) -> None:
                self.ctx.start_soon(trio.sleep_forever, name="dreaming")

        await system.spawn(Tasked, name="tasked")
        with pytest.raises(AssertionError, match="/user/tasked runs its task dreaming"):
            await wait_idle(system, timeout=5)


async def test_nothing_is_left_of_a_system_that_was_used_in_every_way(clock, caplog):
    caplog.set_level(logging.CRITICAL, "retinue")
    async with rt.ActorSystem() as system:
        latch = Latch()
        holder, thread = await system.spawn(Holder, None, latch), await system.spawn(ThreadHolder)
        thread.tell(Note(1))
        assert leaks(system)[0].startswith("the actor /user/Holder-1 is alive")
        with pytest.raises(rt.AskTimeout):
            await holder.ask(Hold(1), timeout=1)
        with pytest.raises(Boom):
            await thread.ask(Break())
        holder.tell(Hold(2))
    assert leaks(system) == []


def test_a_thread_that_was_left_behind_is_a_leak(caplog):
    caplog.set_level(logging.CRITICAL, "retinue")
    clock = VirtualClock(hang_after=0.05)

    async def main() -> None:
        async with rt.ActorSystem(grace=0.1, block_warning=math.inf) as system:
            latch = Latch()
            holder = await system.spawn(ThreadHolder, None, latch, name="stuck")
            holder.tell(Hold(1))
            await latch.until(entered=1)
        [text] = leaks(system)
        assert text.startswith("1 threads of blocking actors did not come back")
        assert "retinue /user/stuck" in text
        latch.open()

    trio.run(main, clock=clock)


async def test_an_ask_that_a_task_outside_waits_for_is_found_whoever_runs_it(clock):
    async with rt.ActorSystem() as system:
        latch = Latch()
        idle, busy = await system.spawn(Holder, None, latch, name="idle"), await system.spawn(Holder, None, latch, name="busy")
        busy.tell(Hold(0))
        await latch.until(entered=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(idle.ask, Hold(1), name="one")  # its asker's own task runs it
            nursery.start_soon(busy.ask, Hold(2), name="two")  # it waits in the mailbox
            await latch.until(entered=2)
            await trio.testing.wait_all_tasks_blocked()
            found = sorted(waiting_asks(system))
            assert [text.partition(" waits")[0] for text in found] == [
                "Hold to /user/busy is unanswered: the task two",
                "Hold to /user/idle is unanswered: the task one",
            ]
            latch.open()
        assert waiting_asks(system) == []


async def test_the_asks_of_actors_are_not_the_tests(clock):
    class Asking(rt.Actor):
        def __init__(self, other: rt.Ref[Holder]) -> None:
            self.other = other

        @rt.handler
        async def note(self, message: Note) -> None:
            await self.other.ask(Hold(1))

    async with rt.ActorSystem() as system:
        latch = Latch()
        asking = await system.spawn(Asking, await system.spawn(Holder, None, latch))
        asking.tell(Note(1))
        await latch.until(entered=1)
        assert waiting_asks(system) == []
        latch.open()
        await wait_idle(system)


def test_a_real_clock_will_do_as_well():
    async def main() -> None:
        async with rt.ActorSystem() as system:
            thread = await system.spawn(ThreadHolder)
            thread.tell(Note(1))
            began = time.monotonic()
            await wait_idle(system)
            assert time.monotonic() - began < 60
            assert_conserved(system)

    trio.run(main)


class Ticker(rt.Actor):
    def __init__(self, ticks: list[float]) -> None:
        self.ticks = ticks

    def on_start(self) -> None:
        self.ctx.timers.once("once", Note(1), after=60)

    @rt.handler
    def note(self, message: Note) -> None:
        self.ticks.append(trio.current_time())


async def test_waiting_for_idle_waits_for_timers_where_it_is_asked_to(clock):
    async with rt.ActorSystem() as system:
        ticks: list[float] = []
        await system.spawn(Ticker, ticks)
        await wait_idle(system)
        assert not ticks
        with pytest.raises(AssertionError, match="is not idle after 30 s: 1 timers are armed"):
            await wait_idle(system, timers=True)
        await wait_idle(system, timers=True, timeout=60)
        assert ticks == [60]


async def test_a_timer_that_outlives_its_actor_would_be_a_leak(clock):
    async with rt.ActorSystem() as system:
        await system.spawn(Ticker, [])
    assert leaks(system) == []
    system._kernel.timers += 1
    assert leaks(system) == ["1 timers are armed, and their actors have ended"]


async def test_a_deadline_that_is_left_is_a_leak(clock):
    async with rt.ActorSystem() as system:
        pass
    system._kernel.deadlines.add(7, lambda: None)
    assert leaks(system) == ["1 deadlines are armed, so somebody still waits for an answer"]


async def test_a_system_that_runs_or_holds_mail_after_its_end_is_a_leak(clock, monkeypatch):
    async with rt.ActorSystem() as system:
        assert leaks(system) == ["the system was not stopped"]
    counts = attrs.evolve(system.statistics(), sent=2, handled=1, queued=1)
    monkeypatch.setattr(system, "statistics", lambda: counts)
    assert leaks(system) == ["1 messages are still queued"]


@pytest.mark.actor_system(seed=5, loopback=True)
async def test_the_fixture_serves_this_suite_too(actor_system, virtual_clock):
    plain, thread = await actor_system.spawn(Plain), await actor_system.spawn(ThreadHolder)
    thread.tell(Note(1))
    assert await plain.ask(Double(2)) == 4
    await wait_idle(actor_system)
    assert_no_dead_letters(actor_system)
    assert virtual_clock.current_time() == 0
