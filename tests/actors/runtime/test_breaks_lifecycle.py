"""Starts, restarts and ends that go wrong in odd ways never take anything down but the actor itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons

AT_ONCE = rt.Supervision(backoff=(0, 0))


@rt.message
class Go(rt.Request[int]):
    what: Any = None


@rt.message
class Item(rt.Message):
    key: Any = None


class Innocent(rt.Actor):
    @rt.handler
    def go(self, message: Go) -> int:
        return 1


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked()


class Untold(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


async def test_an_error_without_a_text_ends_its_actor_and_all_are_told() -> None:
    class Odd(rt.Actor):
        @rt.handler
        async def go(self, message: Go) -> int:
            await trio.lowlevel.checkpoint()
            raise Untold

    outcomes: list[str] = []

    async def ask(ref: rt.Ref[Any]) -> None:
        try:
            await ref.ask(Go())
        except Exception as error:
            outcomes.append(type(error).__name__)

    async with rt.ActorSystem("untold") as system:
        ref = await system.spawn(Odd, supervision=rt.Supervision(restart="temporary"))
        watch = await system.watch(ref)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask, ref)
        with trio.fail_after(60):
            assert (await watch.wait()).reason == "failed"
        with pytest.raises(rt.ActorStopped, match="Untold: .no text"):
            await ref.ask(Go())
        assert sorted(outcomes) == ["ActorStopped", "ActorStopped", "Untold"]
        assert conserved(system)


async def test_priority_keys_that_compare_only_in_part_lose_their_order_and_nothing_else() -> None:
    seen: list[Any] = []

    class Sorter(rt.Actor):
        @rt.handler
        async def item(self, message: Item) -> None:
            seen.append(message.key)
            await trio.lowlevel.checkpoint()

    async with rt.ActorSystem("partly") as system:
        innocent = await system.spawn(Innocent)
        ref = await system.spawn(Sorter, mailbox=rt.Mailbox.priority(lambda message: message.key))
        keys = [(0,), (0,), (1, "a"), (1, 2), (2,)]
        assert all(ref.tell(Item(key)) for key in keys)  # each compares with the one above it in the heap
        await system.wait_quiet()
        assert sorted(map(str, seen)) == sorted(map(str, keys))
        assert await innocent.ask(Go()) == 1
        assert conserved(system)


async def test_mail_under_keys_that_compare_only_in_part_is_refused_at_a_stop() -> None:
    class Stopper(rt.Actor):
        @rt.handler
        async def item(self, message: Item) -> None:
            self.ctx.stop()

    async with rt.ActorSystem("partly") as system:
        ref = await system.spawn(Stopper, mailbox=rt.Mailbox.priority(lambda message: message.key))
        for key in [(0,), (0,), (1, "a"), (1, 2), (2,)]:
            ref.tell(Item(key))
        await (await system.watch(ref)).wait()
        assert reasons(system) == {"stopped": 4}
        assert conserved(system)


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("kind", [asyncio.CancelledError, GeneratorExit])
@pytest.mark.parametrize("where", ["constructor", "on_start", "on_stop"])
async def test_no_exception_of_a_restart_ends_more_than_the_actor(where: str, kind: type[BaseException], blocking: bool) -> None:
    made: list[str] = []

    class Odd(rt.Actor, blocking=blocking):
        def __init__(self) -> None:
            made.append("one")
            if len(made) == 2 and where == "constructor":
                raise kind("odd")

        def on_start(self) -> None:
            if len(made) == 2 and where == "on_start":
                raise kind("odd")

        def on_stop(self, reason: rt.StopReason) -> None:
            if where == "on_stop":
                raise kind("odd")

        @rt.handler
        def go(self, message: Go) -> int:
            if len(made) == 1:
                raise ValueError
            return len(made)

    async with rt.ActorSystem("odd") as system:
        innocent = await system.spawn(Innocent)
        ref = await system.spawn(Odd, supervision=AT_ONCE)
        with pytest.raises(ValueError):
            await ref.ask(Go())
        assert await ref.ask(Go()) == (2 if where == "on_stop" else 3)
        assert await innocent.ask(Go()) == 1


@pytest.mark.parametrize("where", ["constructor", "on_stop"])
async def test_an_exit_at_a_restart_ends_the_system_in_good_order(where: str) -> None:
    made: list[str] = []

    class Leaver(rt.Actor):
        def __init__(self) -> None:
            made.append("one")
            if len(made) == 2 and where == "constructor":
                raise SystemExit(3)

        def on_stop(self, reason: rt.StopReason) -> None:
            if where == "on_stop" and reason == "restart":
                raise SystemExit(3)

        @rt.handler
        def go(self, message: Go) -> int:
            raise ValueError

    with pytest.raises(SystemExit) as left:
        async with rt.ActorSystem("leaver") as system:
            ref = await system.spawn(Leaver, supervision=AT_ONCE)
            with pytest.raises(ValueError):
                await ref.ask(Go())
            await trio.sleep_forever()
    assert left.value.code == 3


@pytest.mark.parametrize("restart", ["transient", "permanent"])
async def test_an_actor_that_stops_in_its_constructor_is_run_by_one_worker(restart: Any, autojump_clock: MockClock) -> None:
    log: list[str] = []

    class Brief(rt.Actor):
        def __init__(self) -> None:
            if "made" not in log:
                self.ctx.stop()
            log.append("made")

        async def on_stop(self, reason: rt.StopReason) -> None:
            log.append("ends")
            await trio.sleep(1)
            log.append("ended")

        @rt.handler
        def item(self, message: Item) -> None:
            log.append("item")

    async with rt.ActorSystem("brief") as system:
        ref = await system.spawn(Brief, supervision=rt.Supervision(restart=restart, backoff=(0, 0)))
        ref.tell(Item())
        await trio.sleep(0.5)
        ref.tell(Item())
        await trio.sleep(2)
        assert log == (["made", "ends", "ended"] if restart == "transient" else ["made", "ends", "ended", "made", "item", "item"])
        assert conserved(system)


async def test_a_tell_on_a_full_stack_leaves_its_target_able_to_run() -> None:
    class Log(rt.Actor):
        @rt.handler
        def item(self, message: Item) -> None:
            pass

        @rt.handler
        def go(self, message: Go) -> int:
            return 1

    class Crawl(rt.Actor):
        @rt.handler
        def go(self, message: Go) -> int:
            def walk(number: int) -> None:
                try:
                    walk(number + 1)
                except RecursionError:
                    message.what.tell(Item(number))
                    raise

            walk(0)
            return 0

    async with rt.ActorSystem("deep") as system:
        innocent, log, crawl = await system.spawn(Log), await system.spawn(Log), await system.spawn(Crawl)
        with pytest.raises(RecursionError):
            await crawl.ask(Go(log))
        assert await log.ask(Go(), timeout=5) == 1
        innocent.tell(Item())
        assert await innocent.ask(Go(), timeout=5) == 1
        await system.wait_quiet(timeout=5)


async def test_what_the_hook_of_a_restart_starts_does_not_reach_the_new_instance(autojump_clock: MockClock) -> None:
    log: list[str] = []
    children: list[rt.Ref[Any]] = []

    class Parent(rt.Actor):
        @rt.handler
        async def go(self, message: Go) -> int:
            if message.what == "fail":
                self.ctx.start_soon(self.renew, "from a task")
                await trio.lowlevel.checkpoint()
                raise ValueError
            return len(list(self.ctx.children))

        async def renew(self, name: str) -> None:
            try:
                await trio.sleep_forever()
            finally:
                self.ctx.start_soon(self.last, name)

        async def last(self, name: str) -> None:
            try:
                await trio.sleep_forever()
            finally:
                log.append(name)

        async def on_stop(self, reason: rt.StopReason) -> None:
            if reason == "restart":
                self.ctx.start_soon(self.renew, "from on_stop")
                children.append(await self.ctx.spawn(Innocent))
                await trio.sleep(1)

    async with rt.ActorSystem("late") as system:
        ref = await system.spawn(Parent, supervision=AT_ONCE)
        with pytest.raises(ValueError):
            await ref.ask(Go("fail"))
        assert await ref.ask(Go()) == 0
        assert log == ["from a task", "from on_stop"]
        assert [child.alive for child in children] == [False]


async def test_an_actor_that_never_starts_again_leaves_time_to_others() -> None:
    made: list[int] = []
    seen: list[int] = []

    class Never(rt.Actor):
        def __init__(self) -> None:
            made.append(1)
            if len(made) > 1:
                raise ValueError

        @rt.handler
        def item(self, message: Item) -> None:
            raise ValueError

    class Counter(rt.Actor):
        @rt.handler
        def item(self, message: Item) -> None:
            seen.append(len(made))

    async with rt.ActorSystem("never") as system:
        ref = await system.spawn(Never, supervision=rt.Supervision(backoff=(0, 0), intensity=(300, 60.0)))
        other = await system.spawn(Counter)
        watch = await system.watch(ref)
        ref.tell(Item())
        other.tell(Item())
        await watch.wait()
        assert len(made) == 301
        assert seen[0] < 200  # it had a turn long before the other one gave up


async def test_no_timer_of_a_delayed_restart_outlives_its_actor(autojump_clock: MockClock) -> None:
    class Breaks(rt.Actor):
        @rt.handler
        def item(self, message: Item) -> None:
            raise ValueError

    async with rt.ActorSystem("timer") as system:
        ref = await system.spawn(Breaks, supervision=rt.Supervision(backoff=(1000, 1000)))
        for _ in range(2):  # the first restart comes at once
            ref.tell(Item())
            await settled()
        deadlines = system._kernel.deadlines
        assert len(deadlines) == 1
        await ref.stop()
        assert len(deadlines) == 0


async def test_a_stop_asked_for_on_a_full_stack_can_be_asked_for_again() -> None:
    class Crawl(rt.Actor):
        @rt.handler
        async def go(self, message: Go) -> int:
            child = await self.ctx.spawn(Innocent)

            def walk(number: int) -> None:
                try:
                    walk(number + 1)
                except RecursionError:
                    stopping = child.stop()
                    try:
                        stopping.send(None)  # type: ignore[attr-defined]
                    finally:
                        stopping.close()
                    raise

            with pytest.raises(RecursionError):
                walk(0)
            with trio.fail_after(60):
                await child.stop()
            return int(child.alive)

    async with rt.ActorSystem("deep") as system:
        assert await (await system.spawn(Crawl)).ask(Go()) == 0
