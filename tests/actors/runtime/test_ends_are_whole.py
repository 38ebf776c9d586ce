"""An actor's end is done altogether, whatever goes wrong on the way; and what could not be done on a full stack is done by whoever has room."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import trio
import trio.testing

import retinue as rt
from core_errands import PATIENCE, Do, Item, Ping
from retinue.actors.runtime import lifecycle
from retinue.actors.runtime.deadlines import Deadlines


class Busy(rt.Actor):
    @rt.handler
    async def item(self, message: Item) -> None:
        await trio.sleep_forever()

    @rt.handler
    async def ping(self, message: Ping) -> int:
        await trio.sleep_forever()
        return 0


class Quick(rt.Actor):
    @rt.handler
    def item(self, message: Item) -> None:
        """Takes it."""

    @rt.handler
    def ping(self, message: Ping) -> int:
        return 1


class Host(rt.Actor):
    @rt.handler
    async def do(self, message: Do) -> Any:
        return await message.what(self)


class OwnExit(BaseException):
    """Neither an Exception nor one that is to end the program."""


@pytest.fixture
def a_low_ceiling() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    yield
    sys.setrecursionlimit(before)


class Key:
    """A pool's key function that may begin to raise."""

    def __init__(self) -> None:
        self.raises: BaseException | None = None

    def __call__(self, message: Any) -> int:
        if self.raises is not None:
            raise self.raises
        return int(message.number)


def _balanced(system: rt.ActorSystem, *, in_progress: int = 0) -> bool:
    counts = system.statistics()
    return counts.sent == counts.handled + counts.dead_letters + counts.queued + in_progress


async def test_a_pools_key_that_raises_while_a_worker_ends_costs_its_own_message_only() -> None:
    key = Key()
    async with rt.ActorSystem("odd") as system:
        pool = await system.spawn_pool(Busy, pool=rt.Pool.consistent_hash(2, key=key), name="pool")
        errors: list[BaseException] = []

        async def ask(number: int) -> None:
            try:
                await pool.ask(Ping(number))
            except rt.ActorStopped as error:
                errors.append(error)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(ask, number)
            await trio.testing.wait_all_tasks_blocked()
            key.raises = OwnExit()
            with trio.fail_after(PATIENCE):
                for place in "01":
                    worker = system.registry.get(f"/user/pool/{place}")
                    assert worker is not None
                    await worker.stop(grace=0)
        assert len(errors) == 10
        assert {type(error.__cause__) for error in errors} == {OwnExit, type(None)}
        assert _balanced(system)
        with trio.fail_after(PATIENCE):
            await pool.stop(grace=0)


async def test_a_pools_key_that_ends_the_program_ends_the_system_in_order() -> None:
    key = Key()
    with pytest.raises(SystemExit), trio.fail_after(PATIENCE):
        async with rt.ActorSystem("odd", grace=0) as system:
            pool = await system.spawn_pool(Busy, pool=rt.Pool.consistent_hash(2, key=key), name="pool")
            for number in range(10):
                pool.tell(Item(number))
            await trio.testing.wait_all_tasks_blocked()
            key.raises = SystemExit(4)
            worker = system.registry.get("/user/pool/0")
            assert worker is not None
            await worker.stop(grace=0)
            await trio.sleep_forever()
    assert _balanced(system)


async def test_a_broadcast_that_fails_at_one_worker_is_counted_once_for_each() -> None:
    turns = [0]

    def key(message: Any) -> int:
        turns[0] += 1
        if turns[0] == 2:
            raise OwnExit
        return 0

    async with rt.ActorSystem("odd") as system:
        pool = await system.spawn_pool(Quick, pool=rt.Pool.broadcast(3), mailbox=rt.Mailbox.priority(key))
        assert pool.tell(Item())
        await system.wait_quiet()
        counts = system.statistics()
        assert (counts.sent, counts.handled, counts.dead_letters) == (3, 2, 1)
        turns[0] = 1
        with pytest.raises(OwnExit):
            pool.tell(Item())
        await system.wait_quiet()
        assert system.statistics().sent == 3


@pytest.mark.parametrize("step", ["unlimit", "clear_timers", "refuse_mail", "_fail_deferred"])
async def test_an_end_that_fails_in_one_step_is_done_in_all_others(
    step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(cell: Any) -> None:
        raise OwnExit

    async with rt.ActorSystem("odd") as system:
        parent = await system.spawn(Host)
        child = await parent.ask(Do(lambda me: me.ctx.spawn(Busy, name="child")))
        child.tell(Item())
        await trio.testing.wait_all_tasks_blocked()
        with caplog.at_level(logging.CRITICAL, "retinue.runtime"), trio.fail_after(PATIENCE):
            with monkeypatch.context() as broken:
                broken.setattr(lifecycle, step, fails)
                await child.stop(grace=0)
            assert not child.alive
            assert await parent.ask(Do(_children)) == ()
            again = await parent.ask(Do(lambda me: me.ctx.spawn(Busy, name="child")))
            assert again.alive
            await parent.stop(grace=0)


async def _children(me: Host) -> tuple[rt.Ref[Any], ...]:
    return tuple(me.ctx.children)


async def test_a_child_that_has_ended_does_not_keep_its_parent_from_ending() -> None:
    async with rt.ActorSystem("odd") as system:
        parent = await system.spawn(Host)
        child = await parent.ask(Do(lambda me: me.ctx.spawn(Quick)))
        await child.stop()
        parent._cell.children[child._cell.name] = child._cell  # as if its end had been cut off
        with trio.fail_after(PATIENCE):
            await parent.stop()


def _fill(step: Any, *, tries: int = 60) -> list[Any]:
    """Calls `step` with a little more room on the stack each time."""
    done: list[Any] = []
    tried = [0]

    def climb() -> None:
        try:
            climb()
        except RecursionError:
            pass
        if tried[0] < tries:
            tried[0] += 1
            try:
                done.append(step())
            except RecursionError:
                pass

    climb()
    return done


@pytest.mark.usefixtures("a_low_ceiling")
async def test_an_answer_that_is_given_on_a_full_stack_is_given_or_not() -> None:
    class Later(rt.Actor):
        def __init__(self) -> None:
            self.kept: rt.Deferred | None = None

        @rt.handler
        def ping(self, message: Ping) -> int:
            self.kept = self.ctx.defer()
            return 0

        @rt.handler
        def item(self, message: Item) -> None:
            kept = self.kept
            assert kept is not None
            _fill(lambda: kept.reply(7))

    async with rt.ActorSystem("full") as system:
        later = await system.spawn(Later)
        answers: list[int] = []

        async def ask() -> None:
            answers.append(await later.ask(Ping()))

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                later.tell(Item())
        assert answers == [7]


@pytest.mark.usefixtures("a_low_ceiling")
async def test_what_is_stashed_comes_back_from_a_full_stack_altogether_or_not_at_all() -> None:
    seen: list[int] = []

    class Stasher(rt.Actor):
        def __init__(self) -> None:
            self.open = False

        @rt.handler
        def item(self, message: Item) -> None:
            if not self.open:
                self.ctx.stash()
            else:
                seen.append(message.number)

        @rt.handler
        def ping(self, message: Ping) -> int:
            self.open = True
            return sum(_fill(self.ctx.unstash_all))

    async with rt.ActorSystem("full") as system:
        ref = await system.spawn(Stasher)
        for number in range(5):
            ref.tell(Item(number))
        with trio.fail_after(PATIENCE):
            assert await ref.ask(Ping()) == 5
            await system.wait_quiet()
        assert seen == [0, 1, 2, 3, 4]
        assert _balanced(system)


@pytest.mark.usefixtures("a_low_ceiling")
@pytest.mark.parametrize("suspends", [False, True])
async def test_an_actor_whose_askers_stack_was_full_goes_on_though_nobody_comes_by(suspends: bool) -> None:
    class Deep(rt.Actor):
        @rt.handler
        async def ping(self, message: Ping) -> int:
            if suspends:
                await trio.lowlevel.checkpoint()
            return 1

    async with rt.ActorSystem("full") as system:
        left = 0
        for asks in range(1, 16):
            deep = await system.spawn(Deep)
            asked = 0

            async def climb(deep: rt.Ref[Deep] = deep, asks: int = asks) -> None:
                nonlocal asked
                try:
                    await climb(deep, asks)
                except RecursionError:
                    if asked < asks:
                        asked += 1
                        await deep.ask(Ping())
                    raise

            with pytest.raises(RecursionError):
                await climb()
            left += system._kernel.unsettled is not None
            with trio.fail_after(PATIENCE):
                while system._kernel.unsettled is not None:
                    await trio.sleep(0.01)  # the watchdog sees to it
                assert await deep.ask(Ping()) == 1
        assert left


@pytest.mark.usefixtures("a_low_ceiling")
async def test_a_deadline_that_is_set_on_a_full_stack_hides_no_other() -> None:
    deadlines = Deadlines()
    fired: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        await trio.testing.wait_all_tasks_blocked()
        dues = iter(range(100, 0, -1))
        now = trio.current_time()

        def add() -> int:
            number = next(dues)
            deadlines.add(now + number / 1000, lambda: fired.append(number))
            return number

        set_ = _fill(add)
        assert 0 < len(set_) < 60
        assert len(deadlines) == len(set_)
        with trio.fail_after(PATIENCE):
            while len(fired) < len(set_):
                await trio.sleep(0.01)
        assert fired == sorted(set_)
        nursery.cancel_scope.cancel()
