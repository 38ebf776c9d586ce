"""Fault injection: actors that are killed, by a message or now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.testing

import retinue as rt
import retinue.testing as rtt
from fault_actors import Add, Blocking, Flow, Nap, Sum, since


@pytest.mark.parametrize("cls", [Sum, Blocking])
async def test_a_message_that_kills_is_supervised_as_any_failure(cls: Any, actor_system: rt.ActorSystem) -> None:
    ref = await actor_system.spawn(cls)
    with rtt.Faults(actor_system) as faults:
        faults.kill(Add, times=1)
        with pytest.raises(rtt.Killed):
            await ref.ask(Add(1))
        assert await ref.ask(Add(2)) == [2]
    [counts] = actor_system.actors()
    assert (counts.failures, counts.restarts) == (1, 1)


async def test_killed_after_its_work_it_has_done_it() -> None:
    done: list[int] = []

    class Worker(rt.Actor):
        @rt.handler(requires="work.do", risk="L2")
        async def add(self, message: Add) -> list[int]:
            done.append(message.number)
            return done

        @rt.handler
        async def flow(self, message: Flow) -> AsyncIterator[int]:
            for number in range(message.count):
                yield number

    async with rt.ActorSystem("killing") as system:
        ref = await system.spawn(Worker)
        with rtt.Faults(system) as faults:
            faults.kill(after=True)
            with pytest.raises(rtt.Killed):
                await ref.ask(Add(1))
            got: list[int] = []
            with pytest.raises(rtt.Killed):
                async with ref.stream(Flow(2)) as items:
                    async for item in items:
                        got.append(item)
        outcomes = await system.audit.entries(kind="outcome")
    assert (done, got) == ([1], [0, 1])
    assert outcomes[0].detail.endswith(": Killed")


async def test_who_may_not_send_it_kills_nobody(actor_system: rt.ActorSystem) -> None:
    class Guarded(rt.Actor):
        @rt.handler(requires="work.do")
        def add(self, message: Add) -> list[int]:
            return [message.number]

    ref = await actor_system.spawn(Guarded)
    nobody = actor_system.authority.mint("nobody", ["nothing"])
    with rtt.Faults(actor_system) as faults:
        faults.kill(Add)
        with pytest.raises(rt.Denied):
            await ref.ask(Add(1), context=nobody)
    assert actor_system.actors()[0].failures == 0


async def test_an_actor_that_waits_in_a_handler_is_killed_there(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(Sum)
    start = trio.current_time()
    with rtt.Faults(actor_system) as faults:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def ask() -> None:
                with pytest.raises(rtt.Killed, match="was killed"):
                    await ref.ask(Nap(60), timeout=100)

            await trio.sleep(1)
            assert faults.kill(ref)
    assert since(start) == 1
    assert await ref.ask(Add(1)) == [1]
    assert actor_system.actors()[0].restarts == 1


async def test_one_whose_ask_began_before_the_faults_is_killed_there_too(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(Sum)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def ask() -> None:
            with pytest.raises(rtt.Killed):
                await ref.ask(Nap(60), timeout=100)

        await trio.testing.wait_all_tasks_blocked()
        with rtt.Faults(actor_system) as faults:
            assert faults.kill(ref)
            await trio.testing.wait_all_tasks_blocked()


async def test_one_that_swallows_its_cancellation_dies_after_its_message(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    class Stubborn(rt.Actor):
        @rt.handler
        async def nap(self, message: Nap) -> str:
            with trio.CancelScope(shield=True):
                await trio.sleep(message.seconds)
            return "all the same"

    ref = await actor_system.spawn(Stubborn)
    with rtt.Faults(actor_system) as faults:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def ask() -> None:
                assert await ref.ask(Nap(5)) == "all the same"

            await trio.sleep(1)
            faults.kill(ref)
        await actor_system.wait_quiet()
    assert actor_system.actors()[0].restarts == 1


@pytest.mark.parametrize("cls", [Sum, Blocking])
async def test_an_idle_actor_is_killed_before_its_next_message(cls: Any, actor_system: rt.ActorSystem) -> None:
    ref = await actor_system.spawn(cls)
    await ref.ask(Add(1))
    with rtt.Faults(actor_system) as faults:
        assert faults.kill(ref) is True
        assert await ref.ask(Add(2)) == [2]
        assert [entry.fault for entry in faults.log] == ["kill"]


@pytest.mark.parametrize("cls", [Sum, Blocking])
async def test_killed_hard_it_ends_and_its_parent_fails(cls: Any, actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    class Parent(rt.Actor):
        async def on_start(self) -> None:
            await self.ctx.spawn(cls, name="child")

        @rt.handler
        def add(self, message: Add) -> list[int]:
            return [self.ctx.children[0]._cell.handled]

    parent = await actor_system.spawn(Parent, name="parent")
    child: Any = actor_system.registry.get("/user/parent/child")
    await child.ask(Add(1))
    watch = await actor_system.watch(child)
    with rtt.Faults(actor_system) as faults:
        assert faults.kill(child, hard=True)
        ended = await watch.wait()
        assert (ended.reason, type(ended.error)) == (rt.StopReason.FAILED, rtt.Killed)
        assert faults.kill(child, hard=True) is False
        assert await parent.ask(Add(0)) == [0]  # it was restarted, and has spawned a new child
        assert faults.kill(parent, hard=True)
    await (await actor_system.watch(parent)).wait()
    assert actor_system.actors() == []


async def test_an_actor_that_waits_to_be_restarted_is_not_there_to_be_killed(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(Sum, supervision=rt.Supervision(backoff=(10, 10)))
    with rtt.Faults(actor_system) as faults:
        for _ in range(2):  # the first restart is at once
            faults.kill(ref)
            await trio.sleep(0.1)
        assert faults.kill(ref) is False


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("over", ["the block", "the rule"])
async def test_who_has_not_been_killed_when_it_is_over_lives_on(
    after: bool, over: str, actor_system: rt.ActorSystem, virtual_clock: Any
) -> None:
    ref = await actor_system.spawn(Sum)
    answers: list[Any] = []

    async def ask(number: int) -> None:
        answers.append(await ref.ask(Add(number)))

    async with trio.open_nursery() as nursery:
        with rtt.Faults(actor_system) as faults:
            rule = faults.kill(Add, after=after)
            with pytest.raises(rtt.Killed):
                await ref.ask(Add(0))
            nursery.start_soon(ref.ask, Nap(0.05))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(ask, 1)
            await trio.testing.wait_all_tasks_blocked()
            assert (rule.hits, len(faults.log)) == (2, 2)
            if over == "the rule":
                rule.remove()
                assert await ref.ask(Add(2)) in ([1, 2], [2])
        await ref.ask(Add(3))
    assert (rule.hits, len(faults.log)) == (1, 1)
    assert 1 in answers[0]
    [counts] = actor_system.actors()
    assert counts.failures == 1


async def test_a_stream_that_was_to_be_killed_lives_on_too(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(Sum)
    for after in (False, True):
        async with trio.open_nursery() as nursery:
            with rtt.Faults(actor_system) as faults:
                faults.kill(Flow, after=after)
                nursery.start_soon(ref.ask, Nap(1))
                await trio.testing.wait_all_tasks_blocked()
                stream = ref.stream(Flow(3))
                items = await stream.__aenter__()
            assert [item async for item in items] == [0, 1, 2]
            await stream.__aexit__(None, None, None)
    assert actor_system.actors()[0].failures == 0


async def test_blocks_of_faults_leave_nothing_behind_in_a_system(virtual_clock: Any) -> None:
    async with rt.ActorSystem() as system:
        ref = await system.spawn(Sum)
        before = len(system._kernel.user.extras().watchers)
        for _ in range(20):
            with rtt.Faults(system) as faults:
                faults.drop(Nap)
        assert len(system._kernel.user.extras().watchers) == before
        async with trio.open_nursery() as nursery:
            told: list[BaseException] = []

            async def ask() -> None:
                try:
                    await ref.ask(Add(1), timeout=float("inf"))
                except rt.ActorStopped as stopped:
                    told.append(stopped)

            for _ in range(3):  # what is lost is remembered until the end, in one place
                with rtt.Faults(system) as faults:
                    faults.drop(Add)
                    nursery.start_soon(ask)
                    await trio.testing.wait_all_tasks_blocked()
            assert len(system._kernel.user.extras().watchers) == before + 1
            await system.stop()
        assert len(told) == 3
