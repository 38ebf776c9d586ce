"""Contract points 8 and 11: children stop before their parents and within one grace; and who may stop whom."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import retinue as rt
from core_actors import Double, Hold, Plain
from core_hosts import Host, conserved, seconds
from core_latch import Latch


@rt.message
class StopIt(rt.Request[str]):
    """Stop that actor, and say how it went."""

    ref: rt.Ref  # type: ignore[type-arg]
    grace: float | None = None


class Stopper(Plain):
    @rt.handler
    async def stop_it(self, message: StopIt) -> str:
        try:
            await message.ref.stop(grace=message.grace)
        except rt.Denied as error:
            return "denied" if error.operation == "actor.stop" else str(error)
        return "stopped"


@rt.message
class Children(rt.Request[list[rt.Ref]]):  # type: ignore[type-arg]
    pass


class Hung(Plain):
    """A handler that never ends, unless it is cancelled; and hooks that tell."""

    def __init__(self, log: list[Any], word: str = "") -> None:
        super().__init__(log)
        self.word = word

    @rt.handler
    async def hold(self, message: Hold) -> int:
        self.log.append(f"{self.word} hangs")
        await trio.sleep_forever()
        return 0

    def on_stop(self, reason: str) -> None:
        self.log.append(f"{self.word} stops: {reason}")


class Family(Stopper):
    """Has children a, b and c."""

    def __init__(self, log: list[Any]) -> None:
        super().__init__(log)

    async def on_start(self) -> None:
        for word in "abc":
            await self.ctx.spawn(Hung, self.log, word, name=word)

    def on_stop(self, reason: str) -> None:
        self.log.append(f"parent stops: {reason}")

    @rt.handler
    def children(self, _: Children) -> list[rt.Ref]:  # type: ignore[type-arg]
        return list(self.ctx.children)


# -- families ----------------------------------------------------------------------------------------------------------------------------------------


async def test_children_stop_before_their_parent_last_born_first(loop_host: Host) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        parent = await system.spawn(Family, log)
        await parent.stop()
        assert log == ["c stops: stopped", "b stops: stopped", "a stops: stopped", "parent stops: stopped"]
        assert system.statistics().actors == 0


async def test_a_family_of_children_that_hang_stops_within_one_grace(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        parent = await system.spawn(Family, log)
        for child in await parent.ask(Children()):
            child.tell(Hold())
        await trio.sleep(1)
        assert sorted(log) == ["a hangs", "b hangs", "c hangs"]
        assert await seconds(parent.stop(grace=2)) == pytest.approx(2)
        assert log[3:] == ["c stops: stopped", "b stops: stopped", "a stops: stopped", "parent stops: stopped"]
        assert conserved(system)


async def test_a_shorter_grace_that_is_asked_for_later_holds_for_the_whole_family(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        parent = await system.spawn(Family, log)
        for child in await parent.ask(Children()):
            child.tell(Hold())
        await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: parent.stop(grace=1000))
            await trio.sleep(1)
            assert await seconds(parent.stop(grace=2)) == pytest.approx(2)
        assert conserved(system)


async def test_a_stopping_parent_takes_no_new_children(loop_host: Host) -> None:
    class Late(Plain):
        async def on_stop(self, reason: str) -> None:
            with pytest.raises(rt.SystemClosed, match="stopping and takes no new actors"):
                await self.ctx.spawn(Plain)
            self.log.append("refused")

    async with loop_host.system() as system:
        log: list[Any] = []
        await (await system.spawn(Late, log)).stop()
        assert log == ["refused"]


async def test_a_child_that_asks_its_stopping_parent_is_told_so(loop_host: Host, autojump_clock: MockClock) -> None:
    """Not left waiting for a parent that waits for it."""
    outcomes: list[str] = []

    class Child(Plain):
        @rt.handler
        async def hold(self, message: Hold) -> int:
            assert self.latch is not None
            await self.latch.wait()
            try:
                await self.ctx.parent.ask(Double(1))  # type: ignore[union-attr]
            except rt.RetinueError as error:
                outcomes.append(type(error).__name__)
            return 0

    class Parent(Plain):
        async def on_start(self) -> None:
            await self.ctx.spawn(Child, None, self.latch, name="child")

    async with loop_host.system() as system:
        latch = Latch()
        parent = await system.spawn(Parent, None, latch, name="parent")
        child = system.registry.get("/user/parent/child")
        assert child is not None
        child.tell(Hold())
        await latch.until(entered=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(parent.stop)
            await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
            latch.open()
        assert trio.current_time() - began < 1
        assert outcomes == ["ActorStopped"]


async def test_a_question_that_a_child_had_asked_before_its_parent_stopped_is_answered_too(
    loop_host: Host, autojump_clock: MockClock
) -> None:
    outcomes: list[str] = []

    class Child(Plain):
        @rt.handler
        async def hold(self, message: Hold) -> int:
            try:
                await self.ctx.parent.ask(Double(1))  # type: ignore[union-attr]
            except rt.RetinueError as error:
                outcomes.append(type(error).__name__)
            return 0

    class Parent(Plain):
        async def on_start(self) -> None:
            await self.ctx.spawn(Child, name="child")

        @rt.handler
        async def hold(self, message: Hold) -> int:
            assert self.latch is not None
            await self.latch.wait()
            return 0

    async with loop_host.system() as system:
        latch = Latch()
        parent = await system.spawn(Parent, None, latch, name="parent")
        child = system.registry.get("/user/parent/child")
        assert child is not None
        parent.tell(Hold())
        await latch.until(entered=1)
        child.tell(Hold())
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(parent.stop)
            await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
            latch.open()
        assert trio.current_time() - began < 1
        assert outcomes == ["ActorStopped"]
        assert conserved(system)


# -- who may stop whom -------------------------------------------------------------------------------------------------------------------------------


async def test_a_parent_may_stop_its_child(loop_host: Host) -> None:
    async with loop_host.system(permissions=[]) as system:
        parent = await system.spawn(Family, [])
        child = (await parent.ask(Children()))[0]
        assert await parent.ask(StopIt(child)) == "stopped"
        assert not child.alive


async def test_an_actor_without_the_right_may_not_stop_another(loop_host: Host) -> None:
    async with loop_host.system(permissions=["core.other"]) as system:
        target = await system.spawn(loop_host.plain)
        stopper = await system.spawn(Stopper)
        assert await stopper.ask(StopIt(target)) == "denied"
        assert await target.ask(Double(1)) == 2


async def test_a_child_may_not_stop_its_parent_or_sibling(loop_host: Host) -> None:
    class Pair(Plain):
        async def on_start(self) -> None:
            await self.ctx.spawn(Stopper, name="a")
            await self.ctx.spawn(Stopper, name="b")

    async with loop_host.system(permissions=[]) as system:
        parent = await system.spawn(Pair, name="parent")
        first, second = system.registry.get("/user/parent/a"), system.registry.get("/user/parent/b")
        assert first is not None and second is not None
        assert await first.ask(StopIt(second)) == "denied"
        assert await first.ask(StopIt(parent)) == "denied"
        assert parent.alive and second.alive


async def test_the_operation_actor_stop_gives_the_right(loop_host: Host) -> None:
    async with loop_host.system(permissions=["actor.stop"]) as system:
        target = await system.spawn(loop_host.plain)
        stopper = await system.spawn(Stopper)
        assert await stopper.ask(StopIt(target)) == "stopped"
        assert not target.alive


async def test_the_right_is_that_of_the_message_in_hand(loop_host: Host) -> None:
    async with loop_host.system() as system:
        target = await system.spawn(loop_host.plain)
        stopper = await system.spawn(Stopper)
        weak = system.authority.mint("guest", ["core.other"])
        assert await stopper.ask(StopIt(target), context=weak) == "denied"
        assert await stopper.ask(StopIt(target), context=system.authority.mint("admin", ["actor.stop"])) == "stopped"


async def test_the_right_ends_at_the_stoppers_grant(loop_host: Host) -> None:
    async with loop_host.system() as system:
        target = await system.spawn(loop_host.plain)
        stopper = await system.spawn(Stopper, grant=["core.other"])
        assert await stopper.ask(StopIt(target)) == "denied"


async def test_whoever_holds_the_system_may_stop_any_actor(loop_host: Host) -> None:
    async with loop_host.system(permissions=[]) as system:
        parent = await system.spawn(Family, [])
        child = (await parent.ask(Children()))[0]
        await child.stop()
        assert not child.alive and parent.alive


async def test_a_stranger_may_not_stop_anything(loop_host: Host) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain)
        errors: list[Exception] = []
        done = trio.Event()

        async def stranger() -> None:
            try:
                await ref.stop()
            except rt.NoContext as error:
                errors.append(error)
            done.set()

        trio.lowlevel.spawn_system_task(stranger)
        await done.wait()
        assert len(errors) == 1
        assert ref.alive


async def test_a_stop_from_another_thread_is_refused_with_what_to_use_instead(loop_host: Host) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain)

        def in_thread() -> None:
            with pytest.raises(rt.WrongThread, match=r"retinue\.sync"):
                ref.stop().send(None)

        await trio.to_thread.run_sync(in_thread)
        assert ref.alive


async def test_a_child_may_stop_its_parent_where_it_has_the_right_and_both_end_within_the_grace(
    loop_host: Host, autojump_clock: MockClock
) -> None:
    class Rebel(Stopper):
        @rt.handler
        async def stop_it(self, message: StopIt) -> str:
            assert self.ctx.parent is not None
            await self.ctx.parent.stop(grace=2)
            return "stopped"

    class Parent(Plain):
        async def on_start(self) -> None:
            await self.ctx.spawn(Rebel, name="rebel")

    async with loop_host.system() as system:
        parent = await system.spawn(Parent, name="parent")
        rebel = system.registry.get("/user/parent/rebel")
        assert rebel is not None
        watch = await system.watch(parent)
        began = trio.current_time()
        rebel.tell(StopIt(parent))
        await watch.wait()
        assert trio.current_time() - began <= 5.1
        assert system.statistics().actors == 0
        assert conserved(system)
