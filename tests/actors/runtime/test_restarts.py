"""Contract points 6 and 7: what a restart keeps, what it ends, and which hooks run."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import retinue as rt
from core_actors import Boom, Break, Double, Hold, Note, Notes, Plain
from core_hosts import Host, conserved, reasons
from core_latch import Latch


async def test_a_restart_keeps_the_ref_the_path_and_the_mail(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await system.spawn(host.holder, None, latch, name="phoenix")
        ref.tell(Hold(0))
        await latch.until(entered=1)
        ref.tell(Break())
        for number in range(1, 4):
            ref.tell(Note(number))
        answers: list[list[int]] = []

        async def ask() -> None:
            answers.append(await ref.ask(Notes()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            latch.open()
        assert answers == [[1, 2, 3]]
        assert system.registry.get("/user/phoenix") == ref
        assert ref.path == "/user/phoenix"
        assert reasons(system) == {"poison": 1}
        assert conserved(system)


async def test_a_restart_makes_a_new_instance_with_the_same_arguments(host: Host) -> None:
    made: list[Any] = []

    class Made(rt.Actor, blocking=host.blocking):
        def __init__(self, first: int, *, second: str) -> None:
            made.append((first, second, id(self)))
            self.kept = self  # so that the ids differ

        @rt.handler
        def fail(self, message: Break) -> int:
            made.append(self)
            raise Boom

        @rt.handler
        def double(self, message: Double) -> int:
            return 2 * message.number

    async with host.system() as system:
        ref = await system.spawn(Made, 1, second="two")
        ref.tell(Break())
        assert await ref.ask(Double(1)) == 2
        assert [entry[:2] for entry in (made[0], made[2])] == [(1, "two"), (1, "two")]
        assert made[0][2] != made[2][2]


async def test_the_hooks_run_in_order_around_a_restart(host: Host) -> None:
    async with host.system() as system:
        log: list[Any] = []
        ref = await system.spawn(host.hooked, log)
        ref.tell(Note(1))
        ref.tell(Break())
        ref.tell(Note(2))
        await ref.ask(Notes())
        await ref.stop()
        assert log == ["start", 1, "stop: restart", "start", 2, "stop: stopped"]


async def test_async_hooks_run_in_order_around_a_restart_too(loop_host: Host, autojump_clock: MockClock) -> None:
    class Slow(Plain):
        async def on_start(self) -> None:
            self.log.append("starting")
            await trio.sleep(1)
            self.log.append("started")

        async def on_stop(self, reason: str) -> None:
            self.log.append(f"stopping: {reason}")
            await trio.sleep(1)
            self.log.append("stopped")

    async with loop_host.system() as system:
        log: list[Any] = []
        ref = await system.spawn(Slow, log)
        assert log == ["starting", "started"]
        ref.tell(Break())
        ref.tell(Note(1))
        assert await ref.ask(Notes()) == [1]
        assert log[2:] == ["stopping: restart", "stopped", "starting", "started", 1]


async def test_no_message_is_handled_while_the_actor_restarts(loop_host: Host) -> None:
    class Slow(Plain):
        async def on_start(self) -> None:
            self.log.append("starting")
            if self.log.count("starting") > 1:
                assert self.latch is not None
                await self.latch.wait()
            self.log.append("started")

    async with loop_host.system() as system:
        log: list[Any] = []
        latch = Latch()
        ref = await system.spawn(Slow, log, latch)
        ref.tell(Break())
        ref.tell(Note(1))
        await latch.until(entered=1)
        ref.tell(Note(2))
        await trio.testing.wait_all_tasks_blocked()
        assert log == ["starting", "started", "starting"]
        latch.open()
        await ref.ask(Notes())
        assert log[3:] == ["started", 1, 2]


async def test_a_restart_is_no_termination(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        watch = await system.watch(ref)
        ref.tell(Break())
        await ref.ask(Notes())
        assert watch.terminated is None
        await ref.stop()
        assert (await watch.wait()).reason == "stopped"


async def test_a_restart_ends_the_children_last_born_first_and_before_on_stop(loop_host: Host) -> None:
    log: list[str] = []

    class Child(rt.Actor):
        def __init__(self, word: str) -> None:
            self.word = word

        def on_stop(self, reason: str) -> None:
            log.append(f"{self.word}: {reason}")

    class Parent(Plain):
        async def on_start(self) -> None:
            for word in ("first", "second", "third"):
                await self.ctx.spawn(Child, word, name=word)

        def on_stop(self, reason: str) -> None:
            assert self.ctx.children == ()
            log.append(f"parent: {reason}")

    async with loop_host.system() as system:
        parent = await system.spawn(Parent, name="parent")
        old = system.registry.get("/user/parent/first")
        parent.tell(Break())
        await parent.ask(Notes())
        assert log == ["third: stopped", "second: stopped", "first: stopped", "parent: restart"]
        new = system.registry.get("/user/parent/first")
        assert old is not None and not old.alive
        assert new is not None and new.alive and new != old
        assert system.statistics().actors == 4


async def test_a_restart_ends_the_tasks_that_the_actor_owns(loop_host: Host) -> None:
    class Starter(Plain):
        def on_start(self) -> None:
            self.ctx.start_soon(self.work)

        async def work(self) -> None:
            self.log.append("task starts")
            try:
                await trio.sleep_forever()
            finally:
                self.log.append("task ends")

    async with loop_host.system() as system:
        log: list[Any] = []
        ref = await system.spawn(Starter, log)
        await trio.testing.wait_all_tasks_blocked()
        ref.tell(Break())
        await ref.ask(Notes())
        await trio.testing.wait_all_tasks_blocked()
        assert log == ["task starts", "task ends", "task starts"]
        assert system.actors()[0].failures == 1


async def test_an_error_in_on_stop_is_logged_and_does_not_stop_the_restart(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(host.plain):  # type: ignore[misc,name-defined]
        def on_stop(self, reason: str) -> None:
            raise Boom("in on_stop")

    async with host.system() as system:
        ref = await system.spawn(Failing, name="messy")
        ref.tell(Break())
        assert await ref.ask(Notes()) == []
        assert "/user/messy: on_stop(restart) failed" in caplog.text
        assert "in on_stop" in caplog.text
        assert system.actors()[0].restarts == 1


async def test_a_constructor_that_fails_at_a_restart_counts_as_the_next_failure(host: Host) -> None:
    made: list[int] = []

    class Moody(host.plain):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            made.append(1)
            if 1 < len(made) < 4:
                raise Boom("not again")

    async with host.system() as system:
        ref = await system.spawn(Moody, supervision=rt.Supervision(backoff=(0, 0)))
        ref.tell(Break())
        ref.tell(Note(1))
        assert await ref.ask(Notes()) == [1]
        assert len(made) == 4
        assert (system.actors()[0].failures, system.actors()[0].restarts) == (3, 1)
        assert conserved(system)


async def test_a_message_that_fails_every_time_is_handled_once(host: Host) -> None:
    """A restart consumes it: it is not delivered again for ever."""
    attempts: list[int] = []

    class Poisoned(host.plain):  # type: ignore[misc,name-defined]
        @rt.handler
        def double(self, message: Double) -> int:
            attempts.append(message.number)
            raise Boom

    async with host.system() as system:
        ref = await system.spawn(Poisoned)
        ref.tell(Double(1))
        assert await ref.ask(Notes()) == []
        assert attempts == [1]
        assert reasons(system) == {"poison": 1}


async def test_a_reply_of_the_old_incarnation_does_not_reach_the_new_one(loop_host: Host) -> None:
    """What the old instance had asked for belongs to it: its tasks end with it."""

    class Asker(Plain):
        def __init__(self, log: list[Any], target: rt.Ref[Any]) -> None:
            super().__init__(log)
            self.target = target

        @rt.handler
        def hold(self, message: Hold) -> int:
            self.ctx.pipe_to_self(self.target.ask(Hold(5)), then=Note)
            return 0

    async with loop_host.system() as system:
        latch = Latch()
        target = await system.spawn(loop_host.holder, None, latch)
        log: list[Any] = []
        asker = await system.spawn(Asker, log, target)
        await asker.ask(Hold())
        await latch.until(entered=1)
        asker.tell(Break())
        await asker.ask(Notes())
        latch.open()
        await system.wait_quiet()
        assert log == []
        assert conserved(system)


async def test_asking_during_a_restart_waits_for_the_new_incarnation(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        outcomes: list[Any] = []

        async def ask() -> None:
            outcomes.append(await ref.ask(Double(2)))

        async with trio.open_nursery() as nursery:
            ref.tell(Break())
            for _ in range(10):
                nursery.start_soon(ask)
        assert outcomes == [4] * 10
        assert conserved(system)


async def test_a_stop_that_comes_during_a_restart_wins(loop_host: Host) -> None:
    class Slow(Plain):
        async def on_start(self) -> None:
            self.log.append("start")
            if self.log.count("start") > 1:
                assert self.latch is not None
                await self.latch.wait()

    async with loop_host.system() as system:
        log: list[Any] = []
        latch = Latch()
        ref = await system.spawn(Slow, log, latch)
        ref.tell(Break())
        await latch.until(entered=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.stop)
            await trio.testing.wait_all_tasks_blocked()
            latch.open()
        assert not ref.alive
        assert conserved(system)


async def test_a_stop_during_a_restart_that_hangs_is_bounded_by_its_grace(loop_host: Host, autojump_clock: MockClock) -> None:
    class Hanging(Plain):
        async def on_start(self) -> None:
            self.log.append("start")
            if self.log.count("start") > 1:
                await trio.sleep_forever()

    async with loop_host.system() as system:
        log: list[Any] = []
        ref = await system.spawn(Hanging, log)
        ref.tell(Break())
        ref.tell(Note(1))
        await trio.sleep(1)
        assert log == ["start", "start"]
        with trio.fail_after(60):
            await ref.stop(grace=3)
        assert not ref.alive
        assert conserved(system)


async def test_a_system_stops_although_a_restart_hangs(loop_host: Host, autojump_clock: MockClock) -> None:
    class Hanging(Plain):
        async def on_start(self) -> None:
            self.log.append("start")
            if self.log.count("start") > 1:
                await trio.sleep_forever()

    log: list[Any] = []
    with trio.fail_after(60):
        async with loop_host.system() as system:
            ref = await system.spawn(Hanging, log)
            ref.tell(Break())
            ref.tell(Note(1))
            await trio.sleep(1)
    assert not ref.alive
    assert conserved(system)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_a_child_that_asks_its_restarting_parent_is_told_at_once(loop_host: Host, autojump_clock: MockClock, when: str) -> None:
    """The parent waits for its children to end: an answer could only come after the asker's end."""
    log: list[str] = []

    class Child(Plain):
        @rt.handler
        async def hold(self, message: Hold) -> int:
            if when == "meanwhile":
                await trio.sleep(1)
            try:
                await self.ctx.parent.ask(Double(1))  # type: ignore[union-attr]
            except rt.ActorStopped as error:
                log.append(str(error))
            return 0

    class Parent(Plain):
        async def on_start(self) -> None:
            await self.ctx.spawn(Child, name="child")

        @rt.handler
        async def hold(self, message: Hold) -> int:
            assert self.latch is not None
            await self.latch.wait()
            raise Boom

    async with loop_host.system() as system:
        latch = Latch()
        parent = await system.spawn(Parent, None, latch, name="parent")
        child = system.registry.get("/user/parent/child")
        assert child is not None
        parent.tell(Hold())
        await latch.until(entered=1)
        child.tell(Hold())
        if when == "before":
            await trio.testing.wait_all_tasks_blocked()
        else:
            await trio.sleep(0.5)
        began = trio.current_time()
        latch.open()
        assert await parent.ask(Double(2)) == 4
        assert trio.current_time() - began <= 0.5
        assert len(log) == 1
        assert "/user/parent is being restarted, and waits for its child /user/parent/child to end" in log[0]
        assert conserved(system)
