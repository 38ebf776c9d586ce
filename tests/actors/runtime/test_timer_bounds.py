"""Timers: where they may be set, with what keys, seconds and messages, and how many."""

from __future__ import annotations

import gc
import math
import threading
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved
from core_puppet import Call, Do
from core_timers import Clocked, Tick, fail, make, words
from retinue.actors.runtime.timers import MAX_TIMERS, TimerTable


async def test_timers_are_set_in_hooks_tasks_and_resident_loops(autojump_clock: MockClock) -> None:
    seen: list[Any] = []
    stopped: list[Any] = []

    class Everywhere(Clocked):
        def __init__(self) -> None:
            super().__init__(seen)
            self.ctx.timers.once("built", Tick("built"), 1)

        async def on_start(self) -> None:
            self.ctx.timers.once("started", Tick("started"), 2)
            self.ctx.start_soon(self.task)

        async def task(self) -> None:
            await trio.sleep(1)
            self.ctx.timers.once("task", Tick("task"), 2)

        async def run(self) -> None:
            self.ctx.timers.once("run", Tick("run"), 4)
            await trio.sleep_forever()

        def on_stop(self, reason: rt.StopReason) -> None:
            stopped.append((str(reason), self.ctx.timers.keys()))
            if reason is rt.StopReason.RESTART:
                self.ctx.timers.every("left", Tick("left"), 0.1)
            else:
                try:
                    self.ctx.timers.once("late", Tick("late"), 0)
                except rt.NoContext as error:
                    stopped.append(str(error))

    async with make() as system:
        ref = await system.spawn(Everywhere, name="e")
        await trio.sleep(5)
        assert seen == [("built", 1), ("started", 2), ("task", 3), ("run", 4)]
        ref.tell(Call(fail))
        await trio.sleep(0.5)
        assert words(seen) == ["built", "started", "task", "run"]
        await ref.stop()
        assert stopped[:2] == [("restart", ()), ("stopped", ())]
        assert "/user/e is stopping" in stopped[2]
        assert system.statistics().timers == 0
        assert conserved(system)


async def test_a_blocking_actor_sets_its_timers_from_its_own_thread() -> None:
    class Blocking(rt.Actor, blocking=True):
        def on_start(self) -> None:
            self.log: list[Any] = []
            self.done = threading.Event()
            self.ctx.timers.every("a", Tick("a"), 0.005)
            self.ctx.timers.once("b", Tick("b"), 1000)

        @rt.handler
        def tick(self, message: Tick) -> None:
            self.log.append((message.word, threading.get_ident() != main, self.ctx.sender == self.ctx.ref))
            if len(self.log) == 3:
                assert self.ctx.timers.keys() == ("a", "b")
                assert self.ctx.timers.cancel("a")
                assert "a" not in self.ctx.timers
                assert self.ctx.timers.skipped("a") == 0
                done.set()

        @rt.handler
        def call(self, message: Call) -> Any:
            return message.script(self)

    main, done = threading.get_ident(), threading.Event()
    async with make() as system:
        ref = await system.spawn(Blocking)
        await trio.to_thread.run_sync(done.wait, 10)
        assert await ref.ask(Call(lambda actor: actor.log)) == [("a", True, True)] * 3
        assert system.statistics().timers == 1
        assert await ref.ask(Call(lambda actor: actor.ctx.timers.cancel_all())) == 1
        with pytest.raises(rt.DefinitionError):
            await ref.ask(Call(lambda actor: actor.ctx.timers.once([], Tick("x"), 1)))
        assert conserved(system)
    assert system.statistics().timers == 0


async def test_nobody_else_touches_an_actors_timers() -> None:
    errors: list[type[Exception]] = []

    def tried(deed: Any) -> None:
        try:
            deed()
        except Exception as error:
            errors.append(type(error))

    async def from_a_thread(actor: Clocked) -> None:
        deeds = [
            lambda: actor.ctx.timers.once("x", Tick("x"), 1),
            lambda: actor.ctx.timers.cancel("x"),
            actor.ctx.timers.cancel_all,
            actor.ctx.timers.keys,
            lambda: "x" in actor.ctx.timers,
            lambda: actor.ctx.timers.skipped("x"),
        ]
        await trio.to_thread.run_sync(lambda: [tried(deed) for deed in deeds])

    async with make() as system:
        ref = await system.spawn(Clocked)
        other = await system.spawn(Clocked)
        actor = await ref.ask(Call(lambda actor: actor))
        tried(lambda: actor.ctx.timers.once("x", Tick("x"), 1))  # the system's holder
        await other.ask(Call(lambda _: tried(actor.ctx.timers.cancel_all)))  # another actor
        await ref.ask(Do(from_a_thread))
        assert errors == [rt.NoContext] * 8
        assert system.statistics().timers == 0


@pytest.mark.parametrize("seconds", [-1, -0.001, math.nan, math.inf, -math.inf, True, "1", None, 10**400, 1j])
async def test_seconds_that_are_none_are_refused(seconds: Any) -> None:
    errors: list[Exception] = []

    def try_all(actor: Clocked) -> None:
        timers = actor.ctx.timers
        for deed in (
            lambda: timers.once("x", Tick("x"), seconds),
            lambda: timers.every("x", Tick("x"), seconds),
            lambda: timers.every("x", Tick("x"), 1, first=seconds if seconds is not None else "none"),  # type: ignore[arg-type]
        ):
            try:
                deed()
            except rt.DefinitionError as error:
                errors.append(error)

    async with make() as system:
        ref = await system.spawn(Clocked)
        await ref.ask(Call(try_all))
        assert len(errors) == 3
        assert all("seconds" in str(error) for error in errors)
        assert system.statistics().timers == 0


@pytest.mark.parametrize("interval", [0, 0.0, 1e-300, 0.0009])
async def test_an_interval_shorter_than_a_millisecond_is_refused(interval: float) -> None:
    async with make() as system:
        ref = await system.spawn(Clocked)
        with pytest.raises(rt.DefinitionError, match=r"0\.001 or more"):
            await ref.ask(Call(lambda actor: actor.ctx.timers.every("x", Tick("x"), interval)))


async def test_a_timer_that_is_far_away_is_fine_and_one_whose_interval_the_clock_cannot_tell_does_not_spin(
    autojump_clock: MockClock,
) -> None:
    seen: list[Any] = []

    def begin(actor: Clocked) -> None:
        actor.ctx.timers.once("far", Tick("far"), 1e300)
        actor.ctx.timers.every("wide", Tick("wide"), 1e308, first=0)
        actor.ctx.timers.every("fine", Tick("fine"), 0.001, first=1e17)  # there, a clock's second is 16 seconds wide

    async with make() as system:
        ref = await system.spawn(Clocked, seen)
        await ref.ask(Call(begin))
        await trio.sleep(1)
        assert words(seen) == ["wide"]
        autojump_clock.jump(1e17)
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        assert "fine" in words(seen)
        await ref.ask(Call(lambda actor: actor.ctx.timers.cancel_all()))
        assert conserved(system)


async def test_a_message_that_the_actor_cannot_take_is_refused_where_the_timer_is_set() -> None:
    @rt.message
    class Unknown(rt.Message):
        pass

    @rt.message
    class Items(rt.Stream[int]):
        pass

    class Streaming(Clocked):
        @rt.handler
        async def items(self, _: Items) -> Any:
            yield 1

    errors: list[str] = []

    def try_all(actor: Clocked) -> None:
        for message in (Unknown(), Tick, "text", None, Items(), rt.Terminated(actor.ctx.ref, rt.StopReason.STOPPED)):
            try:
                actor.ctx.timers.once("x", message, 1)
            except rt.Unhandled as error:
                errors.append(str(error))

    async with make() as system:
        ref = await system.spawn(Streaming)
        await ref.ask(Call(try_all))
        assert len(errors) == 6
        assert system.statistics().timers == 0


async def test_keys_are_any_hashable_values_and_at_most_1024() -> None:
    def fill(actor: Clocked) -> None:
        timers = actor.ctx.timers
        for key in (None, "text", 1, ("a", 2), frozenset({1}), Tick):
            timers.once(key, Tick("x"), 100)
            assert key in timers
        assert len(timers) == 6
        for bad in ([], {}, set()):
            for deed in (lambda bad=bad: timers.once(bad, Tick("x"), 1), lambda bad=bad: timers.cancel(bad), lambda bad=bad: bad in timers):
                with pytest.raises(rt.DefinitionError, match="hashable"):
                    deed()
        for number in range(2, MAX_TIMERS - 4):
            timers.once(number, Tick("x"), 100)
        assert len(timers) == MAX_TIMERS
        with pytest.raises(rt.DefinitionError, match="1024 timers"):
            timers.once("one more", Tick("x"), 1)
        timers.once(5, Tick("x"), 100)  # a replacement is not one more

    async with make() as system:
        ref = await system.spawn(Clocked)
        await ref.ask(Call(fill))
        assert system.statistics().timers == MAX_TIMERS
    assert system.statistics().timers == 0


async def test_a_key_that_turns_bad_later_does_no_harm_beyond_its_timer(autojump_clock: MockClock) -> None:
    class Odd:
        good = True

        def __hash__(self) -> int:
            if not self.good:
                raise RuntimeError("no hash any more")
            return 1

    seen: list[Any] = []
    key = Odd()

    def begin(actor: Clocked) -> None:
        actor.ctx.timers.once(key, Tick("odd"), 1)
        actor.ctx.timers.every("fine", Tick("fine"), 1)

    async with make() as system:
        ref = await system.spawn(Clocked, seen)
        await ref.ask(Call(begin))
        key.good = False
        await trio.sleep(2.5)
        assert words(seen) == ["odd", "fine", "fine"]
        assert await ref.ask(Call(lambda actor: actor.ctx.timers.cancel_all())) == 1
        assert conserved(system)


async def test_an_idle_actor_holds_nothing_for_timers_that_are_over(autojump_clock: MockClock) -> None:
    def begin(actor: Clocked) -> None:
        actor.ctx.timers.every("t", Tick("t"), 3600)

    def tables() -> int:
        gc.collect()
        return sum(type(thing) is TimerTable for thing in gc.get_objects())

    async with make() as system:
        refs = [await system.spawn(Clocked) for _ in range(1000)]
        for ref in refs:
            await ref.ask(Call(begin))
        assert system.statistics().timers == system.statistics().deadlines == tables() == 1000
        for ref in refs[:500]:
            await ref.ask(Call(lambda actor: actor.ctx.timers.cancel("t")))
        for ref in refs[500:]:
            await ref.stop()
        assert (system.statistics().timers, tables()) == (0, 0)


@pytest.mark.slow
async def test_10000_idle_actors_have_a_timer_each_and_all_tick(autojump_clock: MockClock) -> None:
    ticks: list[int] = [0]

    def count(_: Any) -> None:
        ticks[0] += 1

    async with make() as system:
        for number in range(10_000):
            ref = await system.spawn(Clocked)
            await ref.ask(Call(lambda actor, number=number: actor.ctx.timers.every("t", Call(count), 1, first=number / 10_000)))
        await trio.sleep(3)
        assert ticks[0] == 30_000
        assert system.statistics().timers == 10_000
        assert conserved(system)
    assert system.statistics().timers == 0
