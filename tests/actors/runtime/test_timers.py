"""Timers, contract point 9: keyed messages with generations. After a cancel, a replacement, a restart or a stop an already queued tick is never seen."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons
from core_puppet import Call, Do, Puppet, nothing
from core_timers import Clocked, Tick, make, words


async def test_once_ticks_once_and_every_again_and_again(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    seen: list[Any] = []

    def begin(actor: Clocked) -> None:
        actor.ctx.timers.once("once", Tick("once"), 2.5)
        actor.ctx.timers.every("every", Tick("every"), 1.0)
        actor.ctx.timers.every("early", Tick("early"), 2.0, first=0.25)

    async with turn_system as system:
        ref = await system.spawn(Clocked, seen)
        await ref.ask(Call(begin))
        assert system.statistics().timers == 3
        await trio.sleep(3.5)
        assert seen == [("early", 0.25), ("every", 1), ("every", 2), ("early", 2.25), ("once", 2.5), ("every", 3)]
        assert system.statistics().timers == 2
        assert system.actors()[0].timers == 2
        assert conserved(system)
    assert system.statistics().timers == system.statistics().deadlines == 0


async def test_a_tick_is_a_message_from_the_actor_itself_to_which_nobody_waits_for_an_answer(autojump_clock: MockClock) -> None:
    def look(actor: Clocked) -> None:
        actor.log.append((actor.ctx.sender, actor.ctx.ref, actor.ctx.deadline))

    async with make() as system:
        ref = await system.spawn(Clocked)
        await ref.ask(Call(lambda actor: actor.ctx.timers.once(1, Call(look), 1)), timeout=5)
        await trio.sleep(2)
        assert await ref.ask(Call(lambda actor: actor.log)) == [(ref, ref, None)]
        assert conserved(system)


async def test_ticks_are_copies_where_messages_are(autojump_clock: MockClock) -> None:
    class Coded(rt.Actor):
        def on_start(self) -> None:
            self.ctx.timers.every("t", message, 1)

        @rt.handler
        def tick(self, given: Tick) -> None:
            seen.append((given.word, given is message))

    message, seen = Tick("t"), []
    async with make(loopback=True, events=10) as system:
        await system.spawn(Coded)
        await trio.sleep(2.5)
        assert seen == [("t", False)] * 2
        assert conserved(system)


async def test_the_key_is_free_when_its_tick_is_handled(autojump_clock: MockClock) -> None:
    def again(actor: Clocked) -> None:
        actor.log.append(("x" in actor.ctx.timers, trio.current_time()))
        if len(actor.log) < 3:
            actor.ctx.timers.once("x", Call(again), 1)

    async with make() as system:
        ref = await system.spawn(Clocked)
        await ref.ask(Call(lambda actor: actor.ctx.timers.once("x", Call(again), 0)))
        await trio.sleep(10)
        assert await ref.ask(Call(lambda actor: actor.log)) == [(False, 0), (False, 1), (False, 2)]


async def test_a_slow_handler_makes_a_timer_skip_and_neither_drift_nor_burst(autojump_clock: MockClock) -> None:
    starts: list[float] = []

    async def slow(actor: Clocked) -> None:
        starts.append(trio.current_time())
        await trio.sleep(2.25 if len(starts) == 2 else 0.5)

    async with make() as system:
        ref = await system.spawn(Clocked)
        await ref.ask(Call(lambda actor: actor.ctx.timers.every("slow", Do(slow), 1)))
        await trio.sleep(7.1)
        # The third came due at 3 and waited until 4.25; the one due at 4 was skipped; from 5 on all is as planned.
        assert starts == [1, 2, 4.25, 5, 6, 7]
        assert await ref.ask(Call(lambda actor: actor.ctx.timers.skipped("slow"))) == 1
        assert conserved(system)


async def test_a_clock_that_jumps_over_a_thousand_ticks_brings_one() -> None:
    clock = MockClock()

    async def settled() -> None:
        for _ in range(3):
            await trio.testing.wait_all_tasks_blocked()

    async def main() -> None:
        seen: list[Any] = []
        async with make() as system:
            ref = await system.spawn(Clocked, seen)
            await ref.ask(Call(lambda actor: actor.ctx.timers.every("t", Tick("t"), 1)))
            clock.jump(1000.5)
            await settled()
            assert seen == [("t", 1000.5)]
            assert await ref.ask(Call(lambda actor: actor.ctx.timers.skipped("t"))) == 999
            clock.jump(0.4)
            await settled()
            assert len(seen) == 1
            clock.jump(0.1)
            await settled()
            assert seen == [("t", 1000.5), ("t", 1001)]
            assert conserved(system)

    await trio.to_thread.run_sync(lambda: trio.run(main, clock=clock))


# -- generations -----------------------------------------------------------------------------------------------------------------------------------


def setup(actor: Clocked) -> None:
    actor.ctx.timers.once("x", Tick("old"), 1)
    actor.ctx.timers.once("y", Tick("neighbour"), 1)


async def let_it_queue(actor: Clocked) -> None:
    """Until the ticks of `setup` wait behind this turn."""
    await trio.sleep(2)
    assert actor.ctx.timers.keys()[:2] == ("x", "y")
    assert actor.ctx.system.statistics().queued == 3


@pytest.mark.parametrize("how", ["cancel", "replace", "replace by every", "cancel all"])
async def test_a_queued_tick_is_never_seen_after(how: str, turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    seen: list[Any] = []

    async def work(actor: Clocked) -> None:
        await let_it_queue(actor)
        timers = actor.ctx.timers
        if how == "cancel":
            assert timers.cancel("x")
            assert not timers.cancel("x")
            assert "x" not in timers
        elif how == "cancel all":
            assert timers.cancel_all() == 2
        elif how == "replace":
            timers.once("x", Tick("new"), 1)
        else:
            timers.every("x", Tick("new"), 1)

    async with turn_system as system:
        ref = await system.spawn(Clocked, seen)
        await ref.ask(Call(setup))
        await ref.ask(Do(work))
        await trio.sleep(1.5)
        expected = {"cancel": ["neighbour"], "cancel all": []}.get(how, ["neighbour", "new"])
        assert words(seen) == expected
        assert reasons(system) == {"cancelled": 2 if how == "cancel all" else 1}
        assert conserved(system)


@pytest.mark.parametrize("queued", [True, False])
async def test_no_tick_of_an_old_instance_is_seen_by_the_new_one(
    queued: bool, turn_system: rt.ActorSystem, autojump_clock: MockClock
) -> None:
    seen: list[Any] = []

    async def work(actor: Clocked) -> None:
        if queued:
            await let_it_queue(actor)
        raise ValueError("restart me")

    async with turn_system as system:
        ref = await system.spawn(Clocked, seen)
        await ref.ask(Call(setup))
        ref.tell(Do(work))
        await trio.sleep(10)
        assert await ref.ask(Call(lambda actor: (actor.seen, actor.ctx.timers.keys()))) == ([], ())
        assert system.statistics().timers == 0
        assert reasons(system) == {"poison": 1, **({"cancelled": 2} if queued else {})}
        assert conserved(system)


async def test_no_tick_comes_after_a_stop(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    seen: list[Any] = []

    async def work(actor: Clocked) -> None:
        await let_it_queue(actor)
        await actor.ctx.stop()
        await trio.sleep(3)

    async with turn_system as system:
        ref = await system.spawn(Clocked, seen)
        await ref.ask(Call(setup))
        await ref.ask(Call(lambda actor: actor.ctx.timers.every("z", Tick("z"), 2.5)))
        ref.tell(Do(work))
        await (await system.watch(ref)).wait()
        await trio.sleep(10)
        assert seen == []
        assert system.statistics().timers == 0
        assert reasons(system) == {"stopped": 2}
        assert conserved(system)


async def test_a_cancelled_tick_leaves_its_stashed_neighbours_alone(autojump_clock: MockClock) -> None:
    class Stasher(Clocked):
        @rt.handler
        def tick(self, message: Tick) -> None:
            if message.word.startswith("mail") and message.word not in words(self.seen):
                self.seen.append((message.word, 0))
                self.ctx.stash()
            else:
                self.seen.append(("again " + message.word, 0))

    seen: list[Any] = []

    async def work(actor: Clocked) -> None:
        await trio.sleep(2)
        actor.ctx.unstash_all()
        actor.ctx.timers.cancel("x")

    async with make() as system:
        ref = await system.spawn(Stasher, seen)
        ref.tell(Tick("mail 1"))
        ref.tell(Tick("mail 2"))
        await ref.ask(Call(setup))
        await ref.ask(Do(work))
        await system.wait_quiet()
        assert words(seen)[:3] == ["mail 1", "mail 2", "again mail 1"]
        assert sorted(words(seen)[3:]) == ["again mail 2", "again neighbour"]
        assert conserved(system)


async def test_a_tick_that_a_handler_stashed_is_ordinary_mail_from_then_on(autojump_clock: MockClock) -> None:
    def set_aside(actor: Clocked) -> None:
        actor.seen.append(("seen", 0))
        if len(actor.seen) == 1:
            actor.ctx.stash()

    def open_up(actor: Clocked) -> None:
        assert not actor.ctx.timers.cancel("x")
        actor.ctx.unstash_all()

    seen: list[Any] = []
    async with make() as system:
        ref = await system.spawn(Clocked, seen)
        await ref.ask(Call(lambda actor: actor.ctx.timers.once("x", Call(set_aside), 1)))
        await trio.sleep(2)
        await ref.ask(Call(open_up))
        await system.wait_quiet()
        assert len(seen) == 2
        assert conserved(system)


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("every"), st.sampled_from("ab"), st.sampled_from([0.1, 0.3, 1.0])),
            st.tuples(st.just("once"), st.sampled_from("ab"), st.sampled_from([0.0, 0.1, 0.5])),
            st.tuples(st.just("cancel"), st.sampled_from("ab"), st.just(0)),
            st.tuples(st.just("busy"), st.just(""), st.sampled_from([0.05, 0.35, 2.0])),
            st.tuples(st.just("idle"), st.just(""), st.sampled_from([0.05, 0.35, 2.0])),
            st.tuples(st.just("fail"), st.just(""), st.just(0)),
        ),
        max_size=12,
    ),
    seed=st.sampled_from([None, 1]),
)
@settings(max_examples=25)
def test_whatever_is_done_each_tick_seen_is_of_the_timer_that_the_key_has_now(steps: list[Any], seed: int | None) -> None:
    now: dict[str, int] = {}
    odd: list[str] = []

    @rt.message
    class Numbered(rt.Message):
        key: str
        number: int

    class Judge(Puppet):
        def on_stop(self, reason: rt.StopReason) -> None:
            now.clear()

        @rt.handler
        def judge(self, message: Numbered) -> None:
            if now.get(message.key) != message.number:
                odd.append(f"{message} though it should be {now}")

    def act(kind: str, key: str, number: int, seconds: float) -> Any:
        def change(actor: Judge) -> None:
            if kind == "cancel":
                actor.ctx.timers.cancel(key)
                now.pop(key, None)
            elif kind == "fail":
                raise ValueError("restart me")
            else:
                now[key] = number
                getattr(actor.ctx.timers, kind)(key, Numbered(key, number), seconds)

        async def busy(_: Any) -> None:
            await trio.sleep(seconds)

        return Do(busy) if kind == "busy" else Call(change)

    async def main() -> None:
        async with make(seed=seed) as system:
            ref = await system.spawn(Judge, supervision=rt.Supervision(intensity=(100, 1)))
            for number, (kind, key, seconds) in enumerate(steps):
                if kind == "idle":
                    await trio.sleep(seconds)
                else:
                    ref.tell(act(kind, key, number, seconds))
            await trio.sleep(5)
            assert conserved(system)
        assert system.statistics().timers == 0
        assert odd == []

    trio.run(main, clock=MockClock(autojump_threshold=0))


# -- the mailbox, the state, rings, and stops ----------------------------------------------------------------------------------------------------------


async def test_a_full_mailbox_keeps_no_tick_out_and_a_tick_takes_no_room(autojump_clock: MockClock) -> None:
    seen: list[Any] = []

    async def busy(_: Any) -> None:
        await trio.sleep(4.8)

    async with make() as system:
        ref = await system.spawn(Clocked, seen, mailbox=rt.Mailbox.bounded(1))
        await ref.ask(Call(lambda actor: actor.ctx.timers.every("t", Tick("t"), 1)))
        ref.tell(Do(busy))
        await trio.sleep(2)
        assert ref.tell(Tick("mail"))
        assert not ref.tell(Tick("no room"))
        await trio.sleep(2.9)
        assert words(seen) == ["t", "mail"]
        assert reasons(system) == {"mailbox_full": 1}
        assert conserved(system)


async def test_a_tick_sees_the_state_as_the_message_before_it_left_it(autojump_clock: MockClock) -> None:
    """Row 8 of the reference: a timer's callback saw a stale state elsewhere. Here it is a message on the one state."""

    async def update(actor: Clocked) -> None:
        actor.log.append("half")
        await trio.sleep(2)
        actor.log.append("whole")

    def look(actor: Clocked) -> None:
        actor.seen.append(list(actor.log))

    seen: list[Any] = []
    async with make() as system:
        ref = await system.spawn(Clocked, seen)
        await ref.ask(Call(lambda actor: actor.ctx.timers.once("look", Call(look), 1)))
        await ref.ask(Do(update))
        await system.wait_quiet()
        assert seen == [["half", "whole"]]


async def test_a_ring_of_asks_that_began_with_a_timer_is_refused_at_once(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    """Row 7 of the reference, with a timer as its root: A asks B, and B asks A."""
    errors: list[str] = []

    async with turn_system as system:
        a = await system.spawn(Clocked, name="a")
        b = await system.spawn(Clocked, name="b")

        async def ask_a(_: Any) -> Any:
            return await a.ask(Call(nothing))

        async def ask_b(_: Any) -> Any:
            try:
                return await b.ask(Do(ask_a))
            except rt.AskCycle as error:
                errors.append(str(error))

        await a.ask(Call(lambda actor: actor.ctx.timers.once("ring", Do(ask_b), 1)))
        await trio.sleep(1.5)
        assert len(errors) == 1
        assert "/user/a" in errors[0]
        assert "/user/b" in errors[0]
        assert trio.current_time() < 2
        assert conserved(system)


async def test_a_ticker_of_1_ms_against_a_slow_handler_never_fills_the_mailbox_and_a_stop_is_reached_at_once(
    autojump_clock: MockClock,
) -> None:
    """Row 20 of the reference: wake-ups filled the mailbox, and the exit request was never reached."""

    async def slow(actor: Any) -> None:
        actor.log.append(actor.ctx.system.statistics().queued)
        await trio.sleep(0.05)

    async with make() as system:
        log: list[Any] = []
        ref = await system.spawn(Clocked, mailbox=rt.Mailbox.bounded(4))
        await ref.ask(Call(lambda actor: (setattr(actor, "log", log), actor.ctx.timers.every("t", Do(slow), 0.001))))
        most = 0
        for _ in range(100):
            await trio.sleep(0.0101)
            most = max(most, system.statistics().queued)
        assert most == 2  # the one in progress, and one that waits
        assert len(log) > 15
        before = trio.current_time()
        await ref.stop(grace=0.1)
        assert trio.current_time() - before <= 0.05 + 1e-9  # no longer than the message in progress
        handled = len(log)
        await trio.sleep(1)
        assert len(log) == handled
        assert reasons(system) == {"stopped": 1}
        assert conserved(system)


async def test_a_ticker_that_is_always_busy_does_not_hold_up_the_end_of_its_system(autojump_clock: MockClock) -> None:
    async def slow(_: Any) -> None:
        await trio.sleep(0.05)

    async with make(grace=5) as system:
        ref = await system.spawn(Clocked)
        await ref.ask(Call(lambda actor: actor.ctx.timers.every("t", Do(slow), 0.001)))
        await trio.sleep(0.5)
    assert trio.current_time() <= 0.5 + 2 * 0.05 + 1e-9, "the tick in progress and the one that waits are done, and no other comes"
    assert system.statistics().timers == 0
    assert conserved(system)


@pytest.mark.slow
async def test_a_tenth_of_a_second_is_the_same_tenth_after_10000_ticks(autojump_clock: MockClock) -> None:
    times: list[float] = []

    def note(_: Any) -> None:
        times.append(trio.current_time())

    async with make() as system:
        ref = await system.spawn(Clocked)
        await ref.ask(Call(lambda actor: actor.ctx.timers.every("t", Call(note), 0.1)))
        await trio.sleep(1_000.05)
        times.clear()
        await trio.sleep(100)
        assert len(times) == 1000
        assert max(abs(time * 10 - round(time * 10)) for time in times) < 1e-6
        assert conserved(system)
