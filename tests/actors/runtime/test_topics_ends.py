"""Whatever ends a subscriber with the message still waiting or in progress, its outcome is told at once: who waits for a report without a limit gets it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_actors import Boom
from core_hosts import conserved
from topic_actors import plain_system


@rt.message
class Busy(rt.Message):
    fails: bool = False


@rt.message
class News(rt.Message):
    number: int = 0


@rt.message
class Leave(rt.Message):
    pass


NEWS = rt.Topic("news", News)


class Reader(rt.Actor):
    capacity = 8

    def on_start(self) -> None:
        self.ctx.topics.subscribe(NEWS, self.capacity)

    @rt.handler
    async def busy(self, message: Busy) -> None:
        await trio.sleep(5)
        if message.fails:
            raise Boom

    @rt.handler
    def leave(self, _: Leave) -> None:
        self.ctx.topics.unsubscribe(NEWS)

    @rt.handler
    def news(self, _: News) -> None: ...


class Small(Reader):
    capacity = 1


class NeverUp(Reader):
    async def on_start(self) -> None:
        super().on_start()
        await trio.sleep(5)
        raise Boom


async def virtual(system: rt.ActorSystem, cls: type[rt.Actor] = Reader, **options: Any) -> tuple[Any, Any]:
    region = await system.spawn_virtual(cls, name="v", **options)
    return region, region["a"]


async def stopped(system: rt.ActorSystem) -> Any:
    _, ref = await virtual(system)
    ref.tell(Busy())
    await trio.sleep(0.1)
    return ref.stop


async def passivated(system: rt.ActorSystem) -> Any:
    region, ref = await virtual(system)
    ref.tell(Busy())
    await trio.sleep(0.1)
    return lambda: region.passivate("a")


async def region_stopped(system: rt.ActorSystem) -> Any:
    region, ref = await virtual(system)
    ref.tell(Busy())
    await trio.sleep(0.1)
    return region.stop


async def failed_for_good(system: rt.ActorSystem) -> Any:
    _, ref = await virtual(system, supervision=rt.Supervision(restart="temporary"))
    ref.tell(Busy(fails=True))
    await trio.sleep(0.1)
    return trio.lowlevel.checkpoint


async def never_up(system: rt.ActorSystem) -> Any:
    _, ref = await virtual(system, NeverUp)
    ref.tell(Leave())
    await trio.sleep(0.1)
    return trio.lowlevel.checkpoint


async def plain_failed(system: rt.ActorSystem) -> Any:
    ref = await system.spawn(Reader, supervision=rt.Supervision(restart="temporary"))
    ref.tell(Busy(fails=True))
    await trio.sleep(0.1)
    return trio.lowlevel.checkpoint


async def worker_stopped(system: rt.ActorSystem) -> Any:
    pool = await system.spawn_pool(Reader, pool=rt.Pool.work_pulling(1), name="p")
    pool.tell(Busy())
    await trio.sleep(0.1)
    worker = next(iter(pool._cell.children.values())).ref
    return lambda: worker.stop(grace=0)


async def pool_stopped(system: rt.ActorSystem) -> Any:
    pool = await system.spawn_pool(Reader, pool=rt.Pool.round_robin(1), name="p")
    pool.tell(Busy())
    await trio.sleep(0.1)
    return lambda: pool.stop(grace=0)


async def unsubscribed(system: rt.ActorSystem) -> Any:
    _, ref = await virtual(system)
    ref.tell(Busy())
    await trio.sleep(0.1)
    ref.tell(Leave())
    return lambda: _call(lambda: system.topics.unsubscribe(NEWS, ref))


async def lagged(system: rt.ActorSystem) -> Any:
    _, ref = await virtual(system, Small)
    ref.tell(Busy())
    await trio.sleep(0.1)
    return lambda: _call(lambda: system.topics.publish(NEWS, News(2)))


async def _call(function: Any) -> None:
    function()


ENDS = [
    stopped, passivated, region_stopped, failed_for_good, never_up, plain_failed, worker_stopped, pool_stopped, unsubscribed, lagged,
]  # fmt: skip


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
async def test_the_report_is_complete_whatever_ends_a_subscriber(end: Any, autojump_clock: MockClock) -> None:
    reports: list[Any] = []
    async with plain_system() as system:
        act = await end(system)

        async def report() -> None:
            reports.append(await system.topics.publish_and_report(NEWS, News(1), timeout=math.inf))

        with trio.fail_after(600):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(report)
                await trio.sleep(0.1)
                assert reports == []
                await act()
        (outcome,) = reports[0].outcomes.values()
        assert outcome in {"stopped", "dropped", "failed"}, outcome
        assert not reports[0]
        assert conserved(system)


async def test_the_end_of_the_system_completes_that_of_a_virtual_actor(autojump_clock: MockClock) -> None:
    outcomes: list[Any] = []

    class Publisher(rt.Actor):
        @rt.handler
        async def leave(self, _: Leave) -> None:
            outcomes.append(await self.ctx.topics.publish_and_report(NEWS, News(1), timeout=math.inf))

    with trio.fail_after(600):
        async with plain_system() as system:
            _, ref = await virtual(system)
            ref.tell(Busy())
            await trio.sleep(0.1)
            publisher = await system.spawn(Publisher)
            publisher.tell(Leave())
            await trio.sleep(0.1)
            await system.stop(grace=0)
    assert system.statistics().queued == 0
