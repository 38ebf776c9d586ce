"""Contract points 7, 8 and 11: how an actor stops, in which order, within which time, and who may stop it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import retinue as rt
from core_actors import Boom, Break, Double, Hold, HoldShielded, Leave, Note, Notes, Plain
from core_hosts import Host, conserved, reasons
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


async def seconds(stopping: Any) -> float:
    began = trio.current_time()
    await stopping
    return trio.current_time() - began


# -- the message in progress, and the mail behind it ---------------------------------------------------------------------------------------------------


async def test_a_stop_waits_for_the_message_in_progress_and_no_other(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        log: list[Any] = []
        ref = await system.spawn(host.hooked, log, latch)
        ref.tell(Hold(1))
        await latch.until(entered=1)
        ref.tell(Note(2))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.stop)
            await trio.testing.wait_all_tasks_blocked()
            assert not ref.alive  # takes nothing any more
            assert log == ["start"]
            latch.open()
        assert log == ["start", 1, "stop: stopped"]
        assert reasons(system) == {"stopped": 1}
        assert conserved(system)


async def test_an_idle_actor_stops_at_once(host: Host) -> None:
    async with host.system() as system:
        log: list[Any] = []
        ref = await system.spawn(host.hooked, log)
        await ref.stop()
        assert log == ["start", "stop: stopped"]
        assert not ref.alive
        assert system.actors() == []
        assert "stopped" in repr(ref)
        assert system.registry.get(ref.path) is None


async def test_a_stop_is_not_last_in_line(host: Host) -> None:
    """A flooded actor is stopped before its mail, not after it."""
    async with host.system() as system:
        latch = Latch()
        log: list[Any] = []
        ref = await system.spawn(host.holder, log, latch)
        ref.tell(Hold(-1))
        await latch.until(entered=1)
        for number in range(500):
            ref.tell(Note(number))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.stop)
            await trio.testing.wait_all_tasks_blocked()
            latch.open()
        assert log == [-1]
        assert reasons(system) == {"stopped": 500}
        assert conserved(system)


async def test_a_ticker_that_floods_a_slow_actor_does_not_keep_it_from_stopping(loop_host: Host, autojump_clock: MockClock) -> None:
    class Sluggish(Plain):
        @rt.handler
        async def note(self, message: Note) -> None:
            await trio.sleep(0.1)
            self.log.append(trio.current_time())

    async with loop_host.system() as system:
        log: list[Any] = []
        ref = await system.spawn(Sluggish, log)

        async def tick() -> None:
            while True:
                ref.tell(Note(0))
                await trio.sleep(0.001)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            await trio.sleep(3)
            assert await seconds(ref.stop()) <= 0.11
            ended = trio.current_time()
            await trio.sleep(3)
            nursery.cancel_scope.cancel()
        assert log[-1] <= ended  # nothing after the stop is handled
        assert conserved(system)


async def test_a_message_in_progress_is_cancelled_after_the_grace(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        for grace, expected in ((None, 5), (2, 2), (0, 0), (20, 20)):
            latch = Latch()
            ref = await system.spawn(loop_host.holder, None, latch)
            ref.tell(Hold(1))
            await latch.until(entered=1)
            assert await seconds(ref.stop(grace=grace)) == pytest.approx(expected)
            assert (latch.cancelled, latch.passed) == (1, 0)
        assert reasons(system) == {"cancelled": 4}
        assert conserved(system)


async def test_the_system_may_say_otherwise(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system(grace=1) as system:
        latch = Latch()
        ref = await system.spawn(loop_host.holder, None, latch)
        ref.tell(Hold(1))
        await latch.until(entered=1)
        assert await seconds(ref.stop()) == pytest.approx(1)


async def test_whoever_asked_the_cancelled_message_is_told(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        ref = await system.spawn(loop_host.holder, None, latch)
        errors: list[Exception] = []

        async def ask() -> None:
            with pytest.raises(rt.ActorStopped, match="stopped while it handled Hold") as caught:
                await ref.ask(Hold(1))
            errors.append(caught.value)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await latch.until(entered=1)
            nursery.start_soon(ref.stop)
        assert len(errors) == 1
        assert conserved(system)


async def test_a_shield_holds_to_the_end_of_the_grace_and_no_longer(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        ref = await system.spawn(loop_host.holder, None, latch)
        ref.tell(HoldShielded(1))
        await latch.until(entered=1)
        assert await seconds(ref.stop(grace=3)) == pytest.approx(3)
        assert latch.cancelled == 1


async def test_a_message_that_ends_within_the_grace_is_not_cancelled(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        ref = await system.spawn(loop_host.holder, None, latch)
        answers: list[int] = []

        async def ask() -> None:
            answers.append(await ref.ask(Hold(7)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await latch.until(entered=1)
            nursery.start_soon(ref.stop)
            await trio.sleep(4)
            latch.open()
        assert answers == [7]
        assert latch.cancelled == 0
        assert system.statistics().deadlines == 0


async def test_asked_for_again_the_shorter_grace_counts(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        ref = await system.spawn(loop_host.holder, None, latch)
        ref.tell(Hold(1))
        await latch.until(entered=1)
        took: list[float] = []

        async def stop(grace: float) -> None:
            took.append(await seconds(ref.stop(grace=grace)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop, 100)
            await trio.sleep(1)
            nursery.start_soon(stop, 1)
        assert sorted(took) == [pytest.approx(1), pytest.approx(2)]


async def test_many_may_stop_the_same_actor_and_one_that_is_gone_is_stopped_at_once(host: Host) -> None:
    async with host.system() as system:
        log: list[Any] = []
        ref = await system.spawn(host.hooked, log)
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(ref.stop)
        await ref.stop()
        assert log == ["start", "stop: stopped"]
        assert system.statistics().stopped == 1


async def test_a_stop_goes_on_when_its_caller_is_cancelled(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await system.spawn(host.holder, None, latch)
        ref.tell(Hold(1))
        await latch.until(entered=1)
        watch = await system.watch(ref)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.stop)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        latch.open()
        assert (await watch.wait()).reason == "stopped"


# -- an actor that stops itself ----------------------------------------------------------------------------------------------------------------------


async def test_an_actor_that_stops_itself_finishes_its_message_first(host: Host) -> None:
    class Leaving(host.hooked):  # type: ignore[misc,name-defined]
        @rt.handler
        def double(self, message: Double) -> int:
            self.ctx.stop()
            self.log.append("still here")
            return 2 * message.number

    async with host.system() as system:
        log: list[Any] = []
        ref = await system.spawn(Leaving, log)
        watch = await system.watch(ref)
        assert await ref.ask(Double(4)) == 8
        assert (await watch.wait()).reason == "stopped"
        assert log == ["start", "still here", "stop: stopped"]


@pytest.mark.parametrize("way", ["ctx", "ref"])
async def test_stopping_itself_may_be_awaited_and_returns_at_once(loop_host: Host, way: str) -> None:
    class Leaving(Plain):
        @rt.handler
        async def leave(self, _: Leave) -> None:
            with trio.fail_after(1):
                if way == "ctx":
                    await self.ctx.stop()
                else:
                    await self.ctx.ref.stop()
            self.log.append("still here")
            await trio.lowlevel.checkpoint()
            self.log.append("and here")

    async with loop_host.system() as system:
        log: list[Any] = []
        ref = await system.spawn(Leaving, log)
        watch = await system.watch(ref)
        ref.tell(Leave())
        await watch.wait()
        assert log == ["still here", "and here"]


async def test_an_actor_may_stop_itself_in_its_own_task(loop_host: Host) -> None:
    class Resident(Plain):
        async def run(self) -> None:
            await trio.lowlevel.checkpoint()
            await self.ctx.stop()
            self.log.append("run is over")

    async with loop_host.system() as system:
        log: list[Any] = []
        ref = await system.spawn(Resident, log)
        assert (await (await system.watch(ref)).wait()).reason == "stopped"
        assert log == ["run is over"]


# -- hooks -------------------------------------------------------------------------------------------------------------------------------------------


async def test_on_stop_may_await_and_send_last_messages(loop_host: Host) -> None:
    class Polite(Plain):
        def __init__(self, other: rt.Ref[Any]) -> None:
            super().__init__()
            self.other = other

        async def on_stop(self, reason: str) -> None:
            await trio.lowlevel.checkpoint()
            self.other.tell(Note(1))
            assert await self.other.ask(Double(2)) == 4
            await self.other.send(Note(3))

    async with loop_host.system() as system:
        other = await system.spawn(loop_host.plain)
        ref = await system.spawn(Polite, other)
        await ref.stop()
        assert await other.ask(Notes()) == [1, 3]
        assert conserved(system)


async def test_an_error_in_on_stop_is_logged_and_the_actor_ends_all_the_same(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(host.plain):  # type: ignore[misc,name-defined]
        def on_stop(self, reason: str) -> None:
            raise Boom("at the end")

    async with host.system() as system:
        ref = await system.spawn(Failing, name="messy")
        await ref.stop()
        assert not ref.alive
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "/user/messy: on_stop(stopped) failed" in errors[0].getMessage()


async def test_an_on_stop_that_hangs_is_cut_off(loop_host: Host, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    class Hanging(Plain):
        async def on_stop(self, reason: str) -> None:
            await trio.sleep_forever()

    async with loop_host.system() as system:
        ref = await system.spawn(Hanging, name="hanging")
        assert await seconds(ref.stop()) <= 5.1
        assert not ref.alive
        assert "/user/hanging: on_stop(stopped) took longer" in caplog.text


async def test_an_on_stop_has_its_time_also_when_the_stop_is_asked_for_again(loop_host: Host, autojump_clock: MockClock) -> None:
    class Saving(Plain):
        async def on_stop(self, reason: str) -> None:
            await trio.sleep(3)
            self.log.append("saved")

    async with loop_host.system() as system:
        log: list[Any] = []
        ref = await system.spawn(Saving, log)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: ref.stop(grace=0))
            await trio.sleep(1)
            nursery.start_soon(lambda: ref.stop(grace=0))
        assert log == ["saved"]


async def test_the_reason_says_why(host: Host) -> None:
    async with host.system() as system:
        log: list[Any] = []
        ref = await system.spawn(host.hooked, log, supervision=rt.Supervision(restart="temporary"))
        watch = await system.watch(ref)
        ref.tell(Break())
        await watch.wait()
        await system.spawn(host.hooked, log)
    assert log == ["start", "stop: failed", "start", "stop: system_closed"]


async def test_the_tasks_of_the_actor_end_before_on_stop(loop_host: Host) -> None:
    class Busy(Plain):
        def on_start(self) -> None:
            self.ctx.start_soon(self.work)

        async def work(self) -> None:
            try:
                await trio.sleep_forever()
            finally:
                self.log.append("task ends")

        def on_stop(self, reason: str) -> None:
            self.log.append("on_stop")

    async with loop_host.system() as system:
        log: list[Any] = []
        ref = await system.spawn(Busy, log)
        await trio.testing.wait_all_tasks_blocked()
        await ref.stop()
        assert log == ["task ends", "on_stop"]


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
