"""Nothing stays behind: no actor, message, error, task, deadline or thread outlives its use."""

from __future__ import annotations

import gc
import logging
import math
import threading
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved
from core_puppet import Call, Do, Pour, Puppet, nothing
from retinue.actors.runtime import stepping


class Thing:
    """What a message carries, so that one can see whether the message is still held."""


class Held(Exception):
    """Weakly referenced, unlike the built-in ones."""


@rt.message
class Carry(rt.Request[Any]):
    thing: Any


@rt.message
class CarryAsync(rt.Request[Any]):
    thing: Any
    seconds: float = 0


@rt.message
class CarryAndFail(rt.Request[Any]):
    thing: Any


class Carrier(rt.Actor):
    @rt.handler
    def carry(self, message: Carry) -> Thing:
        return Thing()

    @rt.handler
    async def carry_async(self, message: CarryAsync) -> Thing:
        await trio.sleep(message.seconds)
        return Thing()

    @rt.handler
    def carry_and_fail(self, message: CarryAndFail) -> None:
        raise rt.Reject("no")


class Tree(rt.Actor):
    """Spawns children and owns tasks, and has something of everything that might be held."""

    def __init__(self, depth: int, seen: list[weakref.ref[Any]]) -> None:
        self.depth = depth
        self.seen = seen
        seen.append(weakref.ref(self))

    async def on_start(self) -> None:
        self.ctx.start_soon(trio.sleep_forever)
        if self.depth:
            for _ in range(2):
                child = await self.ctx.spawn(Tree, self.depth - 1, self.seen)
                self.ctx.watch(child)

    async def run(self) -> None:
        await trio.sleep_forever()

    @rt.handler
    def carry(self, message: Carry) -> None:
        self.last = message

    @rt.handler
    def ended(self, _: rt.Terminated) -> None:
        pass


@pytest.fixture(autouse=True)
def _no_log_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that pytest keeps holds the error, and its traceback everything."""
    monkeypatch.setattr(logging.getLogger("retinue.runtime"), "disabled", True)


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("leaks", block_warning=math.inf, **options)


async def sleep_ten(_: Any) -> None:
    await trio.sleep(10)


def gone(*references: weakref.ref[Any]) -> bool:
    for _ in range(3):
        gc.collect()
    return all(reference() is None for reference in references)


def tasks() -> int:
    """All tasks of this trio run."""
    root: Any = trio.lowlevel.current_root_task()
    found = [root]
    for task in found:
        for nursery in task.child_nurseries:
            found.extend(nursery.child_tasks)
    return len(found)


@pytest.fixture(params=["inline", "by workers", "seeded"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> rt.ActorSystem:
    if request.param == "by workers":
        monkeypatch.setattr(stepping, "supported", lambda: False)
    return make(seed=3) if request.param == "seeded" else make()


@pytest.mark.parametrize("seconds", [0, 1])
async def test_a_handled_message_and_its_answer_are_not_held(system: rt.ActorSystem, seconds: float, autojump_clock: MockClock) -> None:
    async with system:
        ref = await system.spawn(Carrier)
        seen: list[weakref.ref[Any]] = []

        async def use(message: Any, *, ask: bool) -> None:
            seen.append(weakref.ref(message.thing))
            if ask:
                answer = await ref.ask(message)
                seen.append(weakref.ref(answer))
            else:
                ref.tell(message)

        for ask in (True, False):
            await use(Carry(Thing()), ask=ask)
            await use(CarryAsync(Thing(), seconds), ask=ask)
        await system.wait_quiet()
        assert gone(*seen)


async def test_a_failed_message_is_not_held_by_anything_but_its_error(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        ref = await system.spawn(Carrier)

        async def use() -> weakref.ref[Any]:
            thing = Thing()
            with pytest.raises(rt.Reject):
                await ref.ask(CarryAndFail(thing))
            return weakref.ref(thing)

        assert gone(await use())


async def test_an_error_that_reached_its_asker_is_not_held(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        ref = await system.spawn(Puppet)
        seen: list[weakref.ref[Any]] = []

        def fail(_: Any) -> None:
            error = Held("held?")
            seen.append(weakref.ref(error))
            raise error

        async def fail_later(actor: Any) -> None:
            await trio.sleep(1)
            fail(actor)

        for message in (Call(fail), Do(fail_later)):
            try:
                await ref.ask(message)
            except Held:
                pass
        del message
        assert gone(*seen)


async def test_a_stopped_actor_is_not_held(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        seen: list[weakref.ref[Any]] = []
        ref = await system.spawn(Tree, 2, seen)
        await ref.ask(Carry(Thing()))
        assert len(seen) == 7
        await ref.stop()
        assert gone(*seen)
        assert system.statistics().actors == 0
        cell = weakref.ref(ref)
        del ref
        await trio.sleep(100)
        assert gone(cell)


async def test_the_old_instance_of_a_restarted_actor_is_not_held(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        ref = await system.spawn(Puppet)
        seen: list[weakref.ref[Any]] = [await ref.ask(Call(weakref.ref))]

        def fail(_: Any) -> None:
            raise ValueError

        ref.tell(Call(fail))
        await trio.sleep(1)
        await ref.ask(Call(nothing))
        system.dead_letters.clear()  # the letter of the failed tell holds the error, and its traceback the instance
        assert gone(*seen)
        assert ref.alive


async def test_nothing_is_left_of_an_actor_whose_start_failed(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    seen: list[weakref.ref[Any]] = []

    class Bad(rt.Actor):
        def __init__(self) -> None:
            seen.append(weakref.ref(self))

        async def on_start(self) -> None:
            self.ctx.start_soon(trio.sleep_forever)
            await self.ctx.spawn(Puppet)
            await trio.sleep(1)
            raise ValueError("bad start")

    async with system:
        before = tasks()
        with pytest.raises(ValueError, match="bad start"):
            await system.spawn(Bad, name="bad")
        assert system.statistics().actors == 0
        assert system.registry.get("/user/bad") is None
        await trio.sleep(100)
        assert tasks() <= before + 1
        assert gone(*seen)


async def test_ten_thousand_cancelled_asks_leave_nothing(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Carrier, mailbox=rt.Mailbox.bounded(20_000))
        things: list[weakref.ref[Any]] = []

        async def ask() -> None:
            thing = Thing()
            things.append(weakref.ref(thing))
            await ref.ask(CarryAsync(thing, 3600), timeout=7200)

        before = tasks()
        with trio.move_on_after(1):
            async with trio.open_nursery() as nursery:
                for _ in range(10_000):
                    nursery.start_soon(ask)
        system.dead_letters.clear()
        await system.wait_quiet()
        counts = system.statistics()
        assert (counts.queued, counts.deadlines, counts.suspended) == (0, 0, 0)
        assert counts.handled + counts.dead_letters == counts.sent == 10_000
        assert tasks() <= before + 8
        assert gone(*things)
        assert len(system._kernel.deadlines._heap) < 1000  # the stale ones were thrown out
        cell = ref._cell
        assert not cell.box and cell.head is None


async def test_ten_thousand_asks_that_time_out_leave_nothing(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Carrier, mailbox=rt.Mailbox.bounded(20_000))

        async def ask() -> None:
            with pytest.raises(rt.AskTimeout):
                await ref.ask(CarryAsync(None, 3600), timeout=1)

        async with trio.open_nursery() as nursery:
            for _ in range(10_000):
                nursery.start_soon(ask)
        await system.wait_quiet()
        counts = system.statistics()
        assert (counts.queued, counts.deadlines, counts.suspended) == (0, 0, 0)
        assert conserved(system)


async def test_streams_leave_nothing_however_they_end(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        ref = await system.spawn(Puppet)
        things: list[weakref.ref[Any]] = []

        async def pour(_: Any) -> AsyncIterator[Thing]:
            for _number in range(5):
                thing = Thing()
                things.append(weakref.ref(thing))
                yield thing
                del thing

        async def read(limit: int) -> None:
            async with ref.stream(Pour(pour), window=2) as items:
                async for _ in items:
                    limit -= 1
                    if not limit:
                        break

        for limit in (1, 3, 100):
            await read(limit)
        with trio.move_on_after(1):
            async with ref.stream(Pour(pour), window=1):
                await trio.sleep_forever()
        await system.wait_quiet()
        counts = system.statistics()
        assert (counts.queued, counts.deadlines) == (0, 0)
        assert gone(*things)


async def test_many_suspended_handlers_leave_few_workers(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        before = tasks()
        refs = [await system.spawn(Carrier) for _ in range(500)]
        for ref in refs:
            ref.tell(CarryAsync(None, 1))
        await trio.sleep(0.5)
        assert system.statistics().workers >= 500
        await trio.sleep(1)
        assert system.statistics().workers <= 9
        assert tasks() <= before + 9


async def test_no_task_deadline_or_thread_is_left_after_the_system(autojump_clock: MockClock) -> None:
    threads, before = threading.active_count(), tasks()
    async with rt.ActorSystem("leaks") as system:  # with its watchdog
        seen: list[weakref.ref[Any]] = []
        ref = await system.spawn(Tree, 2, seen)
        ref.tell(Carry(Thing()))
        with trio.move_on_after(1):
            await (await system.spawn(Puppet)).ask(Do(sleep_ten))
    assert tasks() == before
    assert threading.active_count() == threads
    del ref
    assert gone(*seen)


async def test_a_system_itself_is_not_held_after_its_end() -> None:
    async def use() -> weakref.ref[Any]:
        async with rt.ActorSystem("leaks") as system:
            ref = await system.spawn(Puppet)
            await ref.ask(Call(nothing))
            with pytest.raises(rt.Reject):
                await (await system.spawn(Carrier)).ask(CarryAndFail(1))
        return weakref.ref(system)

    assert gone(await use())


async def test_idle_actors_have_no_task_no_queue_and_no_context() -> None:
    async with make() as system:
        before = tasks()
        refs = [await system.spawn(Carrier) for _ in range(1000)]
        assert tasks() <= before + 1
        for ref in refs[:10]:
            cell = ref._cell
            assert cell.box is None and cell.queue is None and cell.context is None and cell.extra is None
