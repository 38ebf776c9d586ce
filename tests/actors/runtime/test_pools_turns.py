"""A worker that pulls takes the pool's messages and its own in turns: no topic, timer or message to itself keeps the pool waiting, nor the other way round."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved
from topic_actors import plain_system


@rt.message
class Own(rt.Message):
    number: int = 0


@rt.message
class Job(rt.Request[int]):
    number: int


@rt.message
class Note(rt.Message):
    number: int


OWN = rt.Topic("own", Own)


class Worker(rt.Actor):
    """Has something of its own to do, always; each takes 2 ms."""

    busy_by = "nothing"
    log: list[str]

    def on_start(self) -> None:
        if self.busy_by == "topic":
            self.ctx.topics.subscribe(OWN, capacity=64)
        elif self.busy_by == "timer":
            self.ctx.timers.every("own", Own(), 0.001)
        elif self.busy_by == "timers":
            for number in range(5):
                self.ctx.timers.every(number, Own(), 0.001)
        elif self.busy_by == "itself":
            self.ctx.ref.tell(Own())

    @rt.handler
    async def own(self, message: Own) -> None:
        self.log.append("own")
        await trio.sleep(0.002)
        if self.busy_by == "topic":
            for _ in range(2):
                self.ctx.topics.publish(OWN, message)
        elif self.busy_by == "itself":
            self.ctx.ref.tell(message)

    @rt.handler
    def job(self, message: Job) -> int:
        self.log.append("job")
        return message.number

    @rt.handler
    async def note(self, _: Note) -> None:
        self.log.append("job")
        await trio.sleep(0.002)


def worker(busy_by: str) -> type[Worker]:
    return type("Busy", (Worker,), {"busy_by": busy_by, "log": []})


@pytest.mark.parametrize("busy_by", ["topic", "timer", "timers", "itself"])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("mailbox", [rt.Mailbox(64), rt.Mailbox.priority(lambda message: message.number)], ids=["plain", "priority"])
async def test_the_pools_messages_and_its_own_come_in_turns(busy_by: str, size: int, mailbox: Any, autojump_clock: MockClock) -> None:
    cls = worker(busy_by)
    async with plain_system() as system:
        pool = await system.spawn_pool(cls, pool=rt.Pool.work_pulling(size), mailbox=mailbox)
        system.topics.publish(OWN, Own())
        await trio.sleep(0.05)
        assert cls.log.count("own") >= 10, "it has enough to do"
        start = trio.current_time()
        assert await pool.ask(Job(7), timeout=1) == 7
        assert trio.current_time() - start <= 0.005
        cls.log.clear()
        for number in range(20):
            pool.tell(Note(number))
        await trio.sleep(0.2)
        busiest = cls.log[: cls.log.index("job") + 38]
        assert busiest.count("job") >= 15, "half of what they do is the pool's"
        if size == 1:
            assert all(busiest[at : at + 2].count("job") == 1 for at in range(len(busiest) - 1)), busiest
        assert cls.log.count("job") == 20 and cls.log.count("own") >= 15
        await pool.stop(grace=0)
        assert conserved(system)


async def test_a_flood_at_the_pool_keeps_its_workers_timers_and_topics_from_nothing(autojump_clock: MockClock) -> None:
    cls = worker("timer")
    async with plain_system() as system:
        pool = await system.spawn_pool(cls, pool=rt.Pool.work_pulling(1), mailbox=rt.Mailbox(1000))
        for number in range(500):
            pool.tell(Note(number))
        await trio.sleep(0.5)
        assert 100 <= cls.log.count("own") <= 140
        assert 100 <= cls.log.count("job") <= 140
        await pool.stop(grace=0)
        assert conserved(system)
