"""What it takes to find somebody with room, counted: each actor is asked once for a message, however many ways lead to it, and who is seen to be full is not asked."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved
from core_puppet import Call, Puppet
from retinue.actors.runtime import routing
from retinue.actors.runtime.cell import Cell


@rt.message
class Work(rt.Message):
    seconds: float = 1000


@rt.message
class Ask(rt.Request[str]):
    pass


class Worker(rt.Actor):
    @rt.handler
    async def work(self, message: Work) -> None:
        await trio.sleep(message.seconds)

    @rt.handler
    def ask(self, _: Ask) -> str:
        return self.ctx.path


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("routes", block_warning=math.inf, **options)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each cell was asked to take something in."""
    counts: Counter[str] = Counter()
    enqueue, route = Cell.enqueue, routing.Router._route

    def counted(self: Cell, delivery: Any, *, patient: bool = False) -> Any:
        counts[self.path] += 1
        return enqueue(self, delivery, patient=patient)

    def counted_route(self: Any, *arguments: Any) -> Any:
        counts[self.path] += 1
        return route(self, *arguments)

    monkeypatch.setattr(Cell, "enqueue", counted)
    monkeypatch.setattr(routing.Router, "_route", counted_route)
    return counts


async def full_workers(system: rt.ActorSystem, count: int, **options: Any) -> list[rt.Ref[Worker]]:
    refs = [await system.spawn(Worker, mailbox=rt.Mailbox(1, **options), name=f"w{number}") for number in range(count)]
    for _ in range(2):
        for ref in refs:
            assert ref.tell(Work()).accepted
        await trio.sleep(0.001)
    return refs


@pytest.mark.parametrize("kind", ["round_robin", "least_loaded"])
async def test_a_diamond_of_groups_asks_each_once(kind: str, asked: Counter[str], autojump_clock: MockClock) -> None:
    pool = getattr(rt.Pool, kind)()
    async with make() as system:
        workers = await full_workers(system, 3)
        level: list[rt.Ref[Any]] = list(workers)
        for depth in range(8):
            level = [await system.spawn_group(level, pool=pool, name=f"g{depth}-{number}") for number in range(3)]
        asked.clear()
        assert level[0].tell(Work()).reason == "mailbox_full"
        assert max(asked.values()) == 1 and sum(asked.values()) <= 3 + 7 * 3 + 1
        with pytest.raises(rt.DefinitionError, match="9 groups and pools in a row"):
            await system.spawn_group(level, pool=pool)
        assert conserved(system)
        for ref in workers:
            await ref.stop(grace=0)


@pytest.mark.parametrize("kind", ["round_robin", "least_loaded", "consistent_hash"])
async def test_a_diamond_finds_the_only_one_who_has_room(kind: str, autojump_clock: MockClock) -> None:
    pool = rt.Pool.consistent_hash(key=lambda _: "k") if kind == "consistent_hash" else getattr(rt.Pool, kind)()
    async with make() as system:
        workers = await full_workers(system, 2)
        free = await system.spawn(Worker, mailbox=rt.Mailbox(100), name="free")
        left = await system.spawn_group([workers[0], free], pool=rt.Pool.round_robin(), name="left")
        right = await system.spawn_group([workers[1], free], pool=rt.Pool.round_robin(), name="right")
        top = await system.spawn_group([left, right], pool=pool, name="top")
        for _ in range(20):
            assert await top.ask(Ask()) == "/user/free"
        assert conserved(system)
        for ref in workers:
            await ref.stop(grace=0)


@pytest.mark.parametrize("kind", ["round_robin", "least_loaded"])
@pytest.mark.parametrize("mailbox", [rt.Mailbox(1), rt.Mailbox(3), rt.Mailbox.priority(lambda _: 1, 2)], ids=["one", "three", "priority"])
async def test_a_full_pool_refuses_without_asking_all(
    kind: str, mailbox: rt.Mailbox, asked: Counter[str], autojump_clock: MockClock
) -> None:
    async with make() as system:
        pool = await system.spawn_pool(Worker, pool=getattr(rt.Pool, kind)(40), mailbox=mailbox, name="pool")
        for number in range(1 + mailbox.capacity):
            for place in range(40):
                assert pool.tell(Work(5 if not number and place == 7 else 1000)).accepted
            await trio.sleep(0.001)
        asked.clear()
        for _ in range(10):
            assert pool.tell(Work()).reason == "mailbox_full"
        assert sum(asked.values()) == 20, "the pool, and the worker that was chosen"
        await trio.sleep(6)  # the eighth is done with its first
        assert pool.tell(Work()).accepted
        assert pool.tell(Work()).reason == "mailbox_full"
        assert conserved(system)
        await pool.stop(grace=0)


async def test_the_least_loaded_is_found_at_once_where_somebody_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    load_of = routing.load_of

    def counted(cell: Any) -> float:
        nonlocal looks
        looks += 1
        return load_of(cell)

    monkeypatch.setattr(routing, "load_of", counted)
    async with make() as system:
        pool = await system.spawn_pool(Worker, pool=rt.Pool.least_loaded(64), name="pool")
        assert [await pool.ask(Ask()) for _ in range(64)] == [f"/user/pool/{number}" for number in range(64)]
        assert looks == 64


async def test_an_ask_at_full_pools_in_a_group_waits_where_there_will_be_room(autojump_clock: MockClock) -> None:
    async with make() as system:
        pools = [
            await system.spawn_pool(Worker, pool=rt.Pool.round_robin(1), mailbox=rt.Mailbox(1), name=f"p{number}") for number in range(2)
        ]
        inner = await system.spawn_group(pools, pool=rt.Pool.round_robin(), name="inner")
        outer = await system.spawn_group([inner], pool=rt.Pool.round_robin(), name="outer")
        for _ in range(2):
            for pool in pools:
                assert pool.tell(Work(5)).accepted
            await trio.sleep(0.001)
        assert outer.tell(Work()).reason == "mailbox_full"
        async with trio.open_nursery() as nursery:
            answers: list[str] = []

            async def ask(target: rt.Ref[Worker]) -> None:
                answers.append(await target.ask(Ask(), timeout=60))

            for target in (outer, inner, outer):
                nursery.start_soon(ask, target)
            await trio.sleep(1)
            assert answers == [] and conserved(system)
        assert len(answers) == 3 and trio.current_time() < 30
        assert conserved(system)


async def test_a_group_that_had_no_room_takes_nothing_from_what_goes_elsewhere(autojump_clock: MockClock) -> None:
    async with make() as system:
        narrow = await system.spawn(Puppet, name="narrow", mailbox=rt.Mailbox(1))
        wide = await system.spawn(Puppet, name="wide")
        poor = await system.spawn_group([narrow], pool=rt.Pool.round_robin(), grant=["a.*"], name="poor")
        rich = await system.spawn_group([wide], pool=rt.Pool.round_robin(), name="rich")
        top = await system.spawn_group([poor, rich], pool=rt.Pool.round_robin(), name="top")
        for _ in range(5):
            narrow.tell(Call(lambda _: None))
        seen = [await top.ask(Call(lambda actor: (actor.ctx.path, actor.ctx.security.allows("b.c")))) for _ in range(1)]
        assert seen == [("/user/wide", True)]
        await system.wait_quiet()
        assert await poor.ask(Call(lambda actor: actor.ctx.security.allows("b.c"))) is False
        assert conserved(system)
