"""Contract point 6: how long restarts wait, and how many are too many."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_actors import Boom, Break, Double, Note, Notes, Plain
from core_hosts import Host, conserved

FOREVER = (10**6, 60.0)


class Recorder(Plain):
    """Writes down when it starts, and perhaps fails right then."""

    def __init__(self, starts: list[float], fails: bool = False) -> None:
        super().__init__()
        self.starts = starts
        self.fails = fails

    async def on_start(self) -> None:
        self.starts.append(trio.current_time())
        if self.fails and len(self.starts) > 1:
            raise Boom("again")


async def seconds_to_restart(ref: rt.Ref[Any]) -> float:
    """Lets the actor fail once and returns how long it took to come back."""
    began = trio.current_time()
    ref.tell(Break())
    await ref.ask(Notes(), timeout=math.inf)
    return trio.current_time() - began


def delays(starts: list[float]) -> list[float]:
    return [later - earlier for earlier, later in itertools.pairwise(starts)]


async def test_the_first_restart_is_at_once_and_the_next_ones_wait_twice_as_long_each_time(
    loop_host: Host, autojump_clock: MockClock
) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain, supervision=rt.Supervision(intensity=FOREVER))
        waits = [await seconds_to_restart(ref) for _ in range(8)]
        assert waits[0] == 0
        for wait, middle in zip(waits[1:], (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4), strict=True):
            assert 0.8 * middle <= wait <= 1.2 * middle


async def test_a_delay_never_exceeds_the_longest_one_by_more_than_its_share_of_chance(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain, supervision=rt.Supervision(backoff=(1, 4), intensity=FOREVER))
        waits = [await seconds_to_restart(ref) for _ in range(12)]
        assert all(3.2 <= wait <= 4.8 for wait in waits[3:])
        assert len(set(waits[3:])) > 1  # by chance


async def test_actors_that_fail_together_do_not_come_back_together(autojump_clock: MockClock) -> None:
    async with rt.ActorSystem() as system:
        starts: list[list[float]] = [[] for _ in range(20)]
        refs = [await system.spawn(Recorder, each, supervision=rt.Supervision(backoff=(10, 10))) for each in starts]
        for _ in range(2):
            for ref in refs:
                ref.tell(Break())
        await trio.sleep(20)
        assert len({each[-1] for each in starts}) > 10


async def test_a_minute_without_failure_starts_again_from_none(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain, supervision=rt.Supervision(backoff=(1, 30), intensity=FOREVER))
        for _ in range(5):
            await seconds_to_restart(ref)
        await trio.sleep(59)
        assert await seconds_to_restart(ref) > 10
        await trio.sleep(90)
        assert await seconds_to_restart(ref) == 0
        assert await seconds_to_restart(ref) == pytest.approx(1, rel=0.2)


async def test_it_does_so_also_where_restarts_are_counted_over_a_longer_time(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain, supervision=rt.Supervision(backoff=(1, 30), intensity=(100, 3600)))
        for _ in range(3):
            await seconds_to_restart(ref)
        await trio.sleep(90)
        assert await seconds_to_restart(ref) == 0


async def test_failures_a_few_seconds_apart_double_the_delay_also_where_restarts_are_counted_over_less(
    loop_host: Host, autojump_clock: MockClock
) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain, supervision=rt.Supervision(backoff=(1, 30), intensity=(5, 0.5)))
        for middle in (0, 1, 2, 4):
            assert 0.8 * middle <= await seconds_to_restart(ref) <= 1.2 * middle
            await trio.sleep(5)


async def test_the_wait_for_a_restart_is_no_time_without_failure(loop_host: Host, autojump_clock: MockClock) -> None:
    """Else delays longer than a minute would never double."""
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain, supervision=rt.Supervision(backoff=(100, 1000), intensity=FOREVER))
        waits = [await seconds_to_restart(ref) for _ in range(4)]
        for wait, middle in zip(waits, (0, 100, 200, 400), strict=True):
            assert 0.8 * middle <= wait <= 1.2 * middle


async def test_ten_restarts_in_a_minute_are_allowed_and_the_next_failure_escalates(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        starts: list[float] = []
        watch = await system.watch(await system.spawn(Recorder, starts, True, name="hopeless"))
        ref = system.registry.get("/user/hopeless")
        assert ref is not None
        ref.tell(Break())
        terminated = await watch.wait()
        assert terminated.reason == "failed"
        assert isinstance(terminated.error, Boom)
        assert len(starts) == 1 + 10
        assert starts[-1] - starts[0] < 60 * 1.2


async def test_restarts_that_are_spread_over_more_time_are_not_too_many(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain, supervision=rt.Supervision(intensity=(2, 10), backoff=(0, 0)))
        for _ in range(20):
            assert await seconds_to_restart(ref) == 0
            await trio.sleep(6)
        assert ref.alive
        assert system.actors()[0].restarts == 20


async def test_one_restart_more_than_the_intensity_stops_the_actor(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain, supervision=rt.Supervision(intensity=(2, 10), backoff=(0, 0)))
        assert await seconds_to_restart(ref) == 0
        assert await seconds_to_restart(ref) == 0
        ref.tell(Break("one too many"))
        with pytest.raises(rt.ActorStopped, match="Boom: one too many"):
            await ref.ask(Double(1))
        assert conserved(system)


async def test_an_intensity_of_none_escalates_at_once(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain, supervision=rt.Supervision(intensity=(0, 60)))
        with pytest.raises(Boom):
            await ref.ask(Break())
        await system.wait_quiet()
        assert not ref.alive


async def test_too_many_restarts_of_a_child_are_a_failure_of_its_parent(loop_host: Host, autojump_clock: MockClock) -> None:
    parent_starts: list[float] = []
    child_starts: list[float] = []

    class Parent(Plain):
        async def on_start(self) -> None:
            parent_starts.append(trio.current_time())
            await self.ctx.spawn(Recorder, child_starts, name="child", supervision=rt.Supervision(intensity=(3, 60), backoff=(0, 0)))

    async with loop_host.system() as system:
        parent = await system.spawn(Parent)
        for _ in range(4):
            child = system.registry.get(f"{parent.path}/child")
            assert child is not None
            child.tell(Break())
            await trio.sleep(1)
        await trio.sleep(1)
        assert len(parent_starts) == 2
        assert len(child_starts) == 4 + 1
        assert parent.alive and not child.alive
        assert conserved(system)


# -- the wait itself -------------------------------------------------------------------------------------------------------------------------------


async def test_mail_waits_while_the_actor_waits_to_be_restarted(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain, supervision=rt.Supervision(backoff=(10, 10)))
        await seconds_to_restart(ref)
        ref.tell(Break())
        for number in range(5):
            assert ref.tell(Note(number))
        await trio.sleep(1)
        assert system.actors()[0].state == "waiting to restart"
        assert system.statistics().queued == 5
        await trio.sleep(12)
        assert await ref.ask(Notes()) == list(range(5))
        assert conserved(system)


async def test_asks_keep_their_own_deadlines_while_the_actor_waits_to_be_restarted(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain, supervision=rt.Supervision(backoff=(10, 10)))
        await seconds_to_restart(ref)
        ref.tell(Break())
        began = trio.current_time()
        with pytest.raises(rt.AskTimeout):
            await ref.ask(Double(1), timeout=3)
        assert trio.current_time() - began == pytest.approx(3)
        assert await ref.ask(Double(1), timeout=20) == 2
        assert conserved(system)


async def test_an_actor_can_be_stopped_while_it_waits_to_be_restarted(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain, supervision=rt.Supervision(backoff=(1000, 1000)))
        await seconds_to_restart(ref)
        ref.tell(Break())
        ref.tell(Note(1))
        await trio.sleep(1)
        began = trio.current_time()
        await ref.stop()
        assert trio.current_time() - began < 1
        assert not ref.alive
        await trio.sleep(2000)
        assert system.statistics().actors == 0
        assert conserved(system)


async def test_a_system_stops_while_actors_wait_to_be_restarted(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain, supervision=rt.Supervision(backoff=(1000, 1000)))
        await seconds_to_restart(ref)
        ref.tell(Break())
        ref.tell(Note(1))
        await trio.sleep(1)
        began = trio.current_time()
    assert trio.current_time() - began <= 6
    assert not ref.alive
    assert conserved(system)


async def test_a_start_that_fails_at_a_restart_counts_as_the_next_failure(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        starts: list[float] = []
        ref = await system.spawn(Recorder, starts, True, supervision=rt.Supervision(backoff=(1, 1), intensity=(4, 60)))
        ref.tell(Break())
        ref.tell(Note(1))
        await trio.sleep(30)
        assert len(starts) == 5
        assert [0.8 <= wait <= 1.2 for wait in delays(starts)[1:]] == [True] * 3
        assert not ref.alive
        assert system.dead_letters.counts["stopped"] == 1
        assert conserved(system)


async def test_an_actor_that_comes_back_after_failed_starts_takes_its_mail(loop_host: Host, autojump_clock: MockClock) -> None:
    class Shaky(Recorder):
        async def on_start(self) -> None:
            self.starts.append(trio.current_time())
            if 1 < len(self.starts) < 4:
                raise Boom

    async with loop_host.system() as system:
        starts: list[float] = []
        ref = await system.spawn(Shaky, starts)
        ref.tell(Break())
        for number in range(3):
            ref.tell(Note(number))
        assert await ref.ask(Notes()) == [0, 1, 2]
        assert len(starts) == 4
        assert system.actors()[0].restarts == 1
        assert conserved(system)
