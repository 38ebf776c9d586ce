"""Contract point 15: counts of the system and of each actor."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_puppet import Call, Do, Pour, Puppet, nothing


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("counts", block_warning=math.inf, **options)


async def sleep_one(_: Any) -> None:
    await trio.sleep(1)


def fail(_: Any) -> None:
    raise ValueError("on purpose")


async def test_a_fresh_system_has_nothing_to_count() -> None:
    async with make() as system:
        counts = system.statistics()
        assert counts.name == "counts"
        assert (counts.sent, counts.handled, counts.dead_letters, counts.queued, counts.actors, counts.spawned, counts.stopped) == (0,) * 7
        assert (counts.suspended, counts.ready, counts.deadlines) == (0, 0, 0)
        assert system.actors() == []


async def test_a_snapshot_cannot_be_changed_and_does_not_change() -> None:
    async with make() as system:
        before = system.statistics()
        (await system.spawn(Puppet)).tell(Call(nothing))
        assert before.sent == 0
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            before.sent = 5  # type: ignore[misc]
        with pytest.raises((TypeError, AttributeError)):
            before.dead_letters_by_reason["stopped"] = 5  # type: ignore[index]


async def test_actors_are_counted_alive_spawned_and_stopped() -> None:
    async with make() as system:
        refs = [await system.spawn(Puppet) for _ in range(3)]
        await refs[0].stop()
        counts = system.statistics()
        assert (counts.actors, counts.spawned, counts.stopped) == (2, 3, 1)


async def test_what_a_stopped_actor_has_handled_is_not_forgotten() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        for _ in range(5):
            await ref.ask(Call(nothing))
        await ref.stop()
        assert system.statistics().handled == 5
    assert system.statistics().handled == 5  # nor is that of a system that has ended


async def test_dead_letters_are_counted_by_reason(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet, mailbox=rt.Mailbox.bounded(1))
        ref.tell(Do(sleep_one))
        await trio.testing.wait_all_tasks_blocked()
        ref.tell(Call(fail))
        ref.tell(Call(nothing))
        await trio.sleep(2)
        await ref.stop()
        ref.tell(Call(nothing))
        by_reason = system.statistics().dead_letters_by_reason
        assert {reason: count for reason, count in by_reason.items() if count} == {"mailbox_full": 1, "poison": 1, "stopped": 1}
        assert system.statistics().dead_letters == 3


async def test_each_actor_is_listed_parents_first(autojump_clock: MockClock) -> None:
    class Family(rt.Actor):
        async def on_start(self) -> None:
            await self.ctx.spawn(Puppet, name="child")

    async with make() as system:
        await system.spawn(Family, name="family")
        await system.spawn(Puppet, name="single")
        assert [(actor.path, actor.type.rpartition(".")[2]) for actor in system.actors()] == [
            ("/user/family", "Family"),
            ("/user/single", "Puppet"),
            ("/user/family/child", "Puppet"),
        ]


async def test_an_actors_state_and_queue_are_told(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet, supervision=rt.Supervision(backoff=(5, 5)))

        def now() -> tuple[str, int, int, int, int]:
            (actor,) = system.actors()
            return (actor.state, actor.queued, actor.handled, actor.failures, actor.restarts)

        assert now() == ("idle", 0, 0, 0, 0)
        ref.tell(Do(sleep_one))
        assert now() == ("ready", 1, 0, 0, 0)
        await trio.sleep(0.5)
        ref.tell(Call(nothing))
        assert now() == ("running", 2, 0, 0, 0)
        await trio.sleep(1)
        assert now() == ("idle", 0, 2, 0, 0)
        ref.tell(Call(fail))
        await trio.sleep(0.1)
        assert now() == ("idle", 0, 2, 1, 1)
        ref.tell(Call(fail))
        await trio.sleep(0.1)
        ref.tell(Call(nothing))
        assert now() == ("waiting to restart", 1, 2, 2, 1)
        await trio.sleep(10)
        assert now() == ("idle", 0, 3, 2, 2)


async def test_seconds_of_waiting_and_working_are_measured() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        ref.tell(Do(lambda_sleep(0.05)))
        ref.tell(Do(lambda_sleep(0.05)))
        await system.wait_quiet()
        (actor,) = system.actors()
        assert actor.working_seconds >= 0.1
        assert actor.waiting_seconds > 0
        working = actor.working_seconds
        await ref.ask(Do(lambda_sleep(0.05)))  # in the asker's own task
        (actor,) = system.actors()
        assert actor.working_seconds >= working + 0.025  # an estimate: of this turn the time since it first waited is measured


def lambda_sleep(seconds: float) -> Any:
    async def script(_: Any) -> None:
        await trio.sleep(seconds)

    return script


async def test_suspended_handlers_workers_and_deadlines_are_told(autojump_clock: MockClock) -> None:
    async with make() as system, trio.open_nursery() as nursery:
        refs = [await system.spawn(Puppet) for _ in range(4)]
        for ref in refs[:3]:
            nursery.start_soon(ref.ask, Do(sleep_one))  # in their askers' tasks
        refs[3].tell(Do(sleep_one))  # in a worker
        await trio.testing.wait_all_tasks_blocked()
        counts = system.statistics()
        assert counts.suspended == 3
        assert counts.workers >= 1
        assert counts.deadlines == 3
        await trio.sleep(2)
        counts = system.statistics()
        assert (counts.suspended, counts.deadlines) == (0, 0)


async def test_the_actors_own_view_has_the_same_counts() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        seen = await ref.ask(Call(lambda actor: actor.ctx.system.statistics()))
        assert (seen.sent, seen.handled, seen.queued) == (1, 0, 1)  # the message in progress


async def test_wait_quiet_waits_for_what_runs_is_suspended_or_streams(autojump_clock: MockClock) -> None:
    async def slowly(_: Any) -> Any:
        yield 1
        await trio.sleep(1)

    async with make() as system, trio.open_nursery() as nursery:
        ref, other = await system.spawn(Puppet), await system.spawn(Puppet)
        await system.wait_quiet()
        assert trio.current_time() == 0
        ref.tell(Do(sleep_one))
        await system.wait_quiet()
        assert trio.current_time() == 1
        nursery.start_soon(ref.ask, Do(sleep_one))
        await trio.testing.wait_all_tasks_blocked()
        await system.wait_quiet()
        assert trio.current_time() == 2

        async def read() -> None:
            async with other.stream(Pour(slowly)) as items:
                assert [item async for item in items] == [1]

        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        await system.wait_quiet()
        assert trio.current_time() == 3


async def test_wait_quiet_gives_up_after_its_time_out(autojump_clock: MockClock) -> None:
    async with make(grace=0) as system:
        ref = await system.spawn(Puppet)
        ref.tell(Do(lambda_sleep(100)))
        with pytest.raises(trio.TooSlowError):
            await system.wait_quiet(timeout=2)
        assert trio.current_time() == 2
        async with trio.open_nursery() as nursery:
            nursery.start_soon(system.wait_quiet)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
