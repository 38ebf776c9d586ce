"""Contract point 10, the other half: asks raced inside one turn are alternatives, and there is no alarm while one of them can still answer."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved
from core_puppet import Call, Do, Puppet, nothing
from retinue.actors.runtime import stepping

WAYS = {"inline": {}, "by workers": {}, "seeded": {"seed": 3}}


@pytest.fixture(params=WAYS)
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> rt.ActorSystem:
    if request.param == "by workers":
        monkeypatch.setattr(stepping, "supported", lambda: False)
    return rt.ActorSystem("race", block_warning=math.inf, **WAYS[request.param])


async def first_of(*askings: Any) -> Any:
    """The first answer; the other asks are cancelled."""
    answers: list[Any] = []

    async def run(asking: Any) -> None:
        answer = await asking()
        answers.append(answer)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for asking in askings:
            nursery.start_soon(run, asking)
    return answers[0]


async def test_one_ask_of_a_race_may_run_into_a_ring_while_another_can_answer(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")
        c = await system.spawn(Puppet, name="c")

        async def back(_: Puppet) -> Any:
            await trio.sleep(1)
            return await a.ask(Call(nothing))

        async def slow(_: Puppet) -> str:
            await trio.sleep(5)
            return "c answered"

        async def race(_: Puppet) -> Any:
            return await first_of(lambda: b.ask(Do(back)), lambda: c.ask(Do(slow)))

        assert await a.ask(Do(race)) == "c answered"
        assert trio.current_time() == 5
        await system.wait_quiet()
        assert all(actor.failures == 0 for actor in system.actors())
        assert conserved(system)


async def test_a_race_whose_every_ask_runs_into_the_ring_is_found(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")
        c = await system.spawn(Puppet, name="c")
        found: list[str] = []

        def back(delay: float) -> Any:
            async def script(actor: Puppet) -> str:
                await trio.sleep(delay)
                try:
                    await a.ask(Call(nothing))
                except rt.AskCycle:
                    found.append(actor.ctx.path)
                    return "found"
                return "answered"

            return script

        async def race(_: Puppet) -> Any:
            return await first_of(lambda: b.ask(Do(back(1))), lambda: c.ask(Do(back(2))))

        assert await a.ask(Do(race)) == "found"
        assert trio.current_time() == 2
        assert found == ["/user/c"]  # the last one to wait closed the ring
        await system.wait_quiet()
        assert conserved(system)


async def test_no_alarm_while_another_task_of_the_turn_only_sleeps(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")

        async def back(_: Puppet) -> Any:
            await trio.sleep(1)
            return await a.ask(Call(nothing))

        async def sleep() -> str:
            await trio.sleep(3)
            return "awake"

        async def race(_: Puppet) -> Any:
            return await first_of(lambda: b.ask(Do(back)), sleep)

        assert await a.ask(Do(race)) == "awake"
        assert trio.current_time() == 3
        await system.wait_quiet()
        assert conserved(system)


async def test_no_alarm_while_the_turns_own_task_is_at_work_beside_its_asks(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")

        async def back(_: Puppet) -> Any:
            await trio.sleep(1)
            return await a.ask(Call(nothing))

        async def ask_beside(_: Puppet) -> str:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(b.ask, Do(back))
                await trio.sleep(2)
                nursery.cancel_scope.cancel()
            return "had enough"

        assert await a.ask(Do(ask_beside)) == "had enough"
        await system.wait_quiet()
        assert conserved(system)


async def test_an_ask_of_itself_beside_work_that_can_go_on_is_no_alarm(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")

        async def race(actor: Puppet) -> Any:
            async def sleep() -> str:
                await trio.sleep(1)
                return "slept"

            return await first_of(lambda: actor.ctx.ref.ask(Call(nothing)), sleep)

        assert await a.ask(Do(race)) == "slept"
        await system.wait_quiet()
        assert conserved(system)


async def test_a_fan_out_to_others_raises_no_alarm(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        leaves = [await system.spawn(Puppet, name=f"leaf{number}") for number in range(5)]

        async def slow(_: Puppet) -> int:
            await trio.sleep(1)
            return 1

        async def gather(_: Puppet) -> int:
            answers: list[int] = []

            async def one(leaf: rt.Ref[Puppet]) -> None:
                answers.append(await leaf.ask(Do(slow)))

            async with trio.open_nursery() as nursery:
                for leaf in leaves * 2:  # the second round waits in the mailboxes
                    nursery.start_soon(one, leaf)
            return sum(answers)

        assert await a.ask(Do(gather)) == 10
        assert trio.current_time() == 2
        assert conserved(system)


async def test_many_actors_that_share_a_busy_one_raise_no_alarm(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        shared = await system.spawn(Puppet, name="shared")
        askers = [await system.spawn(Puppet) for _ in range(10)]

        async def slow(_: Puppet) -> int:
            await trio.sleep(1)
            return 1

        async def ask_shared(_: Puppet) -> Any:
            return await shared.ask(Do(slow))

        async with trio.open_nursery() as nursery:
            for asker in askers:
                nursery.start_soon(asker.ask, Do(ask_shared))
        assert trio.current_time() == 10
        assert conserved(system)


async def test_a_background_task_may_ask_its_own_actor(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")

        async def start(actor: Puppet) -> None:
            async def ask_later() -> None:
                actor.log.append(await actor.ctx.ref.ask(Call(lambda _: "asked myself")))

            actor.ctx.start_soon(ask_later)
            await trio.sleep(1)  # the task waits for this very turn to end, and this turn for nobody

        await a.ask(Do(start))
        await trio.sleep(1)
        assert await a.ask(Call(lambda actor: actor.log)) == ["asked myself"]
        assert conserved(system)


async def test_a_ring_that_a_time_out_breaks_leaves_no_trace_in_the_next_ask(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")

        async def long(_: Puppet) -> None:
            await trio.sleep(100)

        async def give_up(_: Puppet) -> str:
            with pytest.raises(rt.AskTimeout):
                await b.ask(Do(long), timeout=1)
            return "gave up"

        async def ask_a(_: Puppet) -> Any:
            return await a.ask(Do(give_up))

        assert await a.ask(Do(give_up)) == "gave up"
        c = await system.spawn(Puppet, name="c")
        assert await c.ask(Do(ask_a)) == "gave up"  # nobody believes that a still waits for b
        await system.wait_quiet()
        assert conserved(system)


async def test_an_ask_of_the_turns_own_task_is_raced_with_those_of_its_children_too(
    system: rt.ActorSystem, autojump_clock: MockClock
) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")
        c = await system.spawn(Puppet, name="c")

        async def back(_: Puppet) -> Any:
            await trio.sleep(1)
            return await a.ask(Call(nothing))

        async def slow(_: Puppet) -> str:
            await trio.sleep(5)
            return "c answered"

        async def race(_: Puppet) -> Any:
            answers: list[Any] = []

            async def ask_c() -> None:
                answers.append(await c.ask(Do(slow)))
                nursery.cancel_scope.cancel()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask_c)
                await b.ask(Do(back))
            return answers

        assert await a.ask(Do(race)) == ["c answered"]
        await system.wait_quiet()
        assert conserved(system)


async def test_a_race_that_runs_into_the_ring_before_anything_suspended_is_found(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")
        c = await system.spawn(Puppet, name="c")

        async def back(_: Puppet) -> Any:
            return await a.ask(Call(nothing))

        async def race(_: Puppet) -> Any:
            await trio.sleep(1)
            return await first_of(lambda: b.ask(Do(back)), lambda: c.ask(Do(back)))

        with pytest.raises(BaseExceptionGroup) as caught:  # the user's own nursery, so the user's own group
            await a.ask(Do(race))
        assert caught.group_contains(rt.AskCycle)
        assert trio.current_time() == 1
        await system.wait_quiet()
        assert conserved(system)


async def test_two_raced_asks_of_the_actor_itself_are_a_ring(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")

        async def race(actor: Puppet) -> Any:
            return await first_of(lambda: actor.ctx.ref.ask(Call(nothing)), lambda: actor.ctx.ref.ask(Call(nothing)))

        with pytest.raises(BaseExceptionGroup) as caught:
            await a.ask(Do(race))
        assert caught.group_contains(rt.AskCycle)
        assert trio.current_time() == 0
        await system.wait_quiet()
        assert conserved(system)
