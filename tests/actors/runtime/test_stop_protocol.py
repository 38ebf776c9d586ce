"""Contract points 7 and 11: what becomes of the message in progress and the mail behind it when an actor stops, and within which time."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import retinue as rt
from core_actors import Boom, Break, Double, Hold, HoldShielded, Leave, Note, Notes, Plain
from core_hosts import Host, conserved, reasons, seconds
from core_latch import Latch

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
            await trio.sleep(1.2)  # its mailbox, of 1,024, is full
            assert await seconds(ref.stop()) <= 0.11
            ended = trio.current_time()
            await trio.sleep(0.5)
            nursery.cancel_scope.cancel()
        assert log[-1] <= ended  # nothing after the stop is handled
        assert reasons(system)["mailbox_full"] > 0
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
            with trio.fail_after(60):
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
