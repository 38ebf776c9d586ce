"""Contract point 2: when an asker goes away, a queued request is removed and a running one is cancelled, and that is no failure of the actor."""

from __future__ import annotations

import math

import pytest
import trio
import trio.lowlevel
import trio.testing
from trio.testing import MockClock

import retinue as rt
from core_actors import Boom, Double, Hold, HoldShielded, Note, Notes, Plain
from core_hosts import Host, conserved, reasons
from core_latch import Latch


async def ask_until_cancelled(ref: rt.Ref[rt.Actor], message: rt.Request[int], scope: trio.CancelScope, **options: object) -> None:
    with scope:
        await ref.ask(message, **options)  # type: ignore[call-overload]


async def test_a_queued_request_of_a_cancelled_asker_is_withdrawn_and_never_carried_out(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await system.spawn(host.holder, None, latch)
        ref.tell(Hold(0))
        await latch.until(entered=1)
        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_until_cancelled, ref, Hold(1), scope)
            await trio.testing.wait_all_tasks_blocked()
            assert system.statistics().queued == 2
            scope.cancel()
        assert scope.cancelled_caught
        assert system.statistics().queued == 1
        assert reasons(system) == {"withdrawn": 1}
        latch.open()
        assert await ref.ask(Notes()) == [0]
        assert conserved(system)


async def test_a_running_handler_of_a_cancelled_asker_is_cancelled_and_the_actor_keeps_its_state(loop_host: Host) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        ref = await system.spawn(loop_host.holder, None, latch)
        ref.tell(Note(7))
        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_until_cancelled, ref, Hold(1), scope)
            await latch.until(entered=1)
            scope.cancel()
        await latch.until(cancelled=1)
        assert await ref.ask(Notes()) == [7]
        actor = system.actors()[0]
        assert (actor.failures, actor.restarts, actor.state) == (0, 0, "idle")
        assert reasons(system) == {}  # it was taken up, so it is handled
        assert conserved(system)


async def test_the_message_after_a_cancelled_one_is_not_cancelled_too(loop_host: Host) -> None:
    async with loop_host.system() as system:
        latch, scope = Latch(), trio.CancelScope()
        ref = await system.spawn(loop_host.holder, None, latch)
        ref.tell(Note(0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_until_cancelled, ref, Hold(1), scope)
            await latch.until(entered=1)
            for number in range(2, 5):
                ref.tell(Hold(number))
            scope.cancel()
            await latch.until(cancelled=1)
            latch.open()
        assert await ref.ask(Notes()) == [0, 2, 3, 4]


async def test_a_handler_that_has_no_point_to_be_cancelled_at_ends_normally_and_the_next_message_lives(loop_host: Host) -> None:
    """The scope that was cancelled must not hit the next message, also when the handler returned without noticing."""

    class Brave(Plain):
        @rt.handler
        async def hold(self, message: Hold) -> int:
            with trio.CancelScope(shield=True):
                assert self.latch is not None
                await self.latch.wait()
            self.numbers.append(message.number)
            return message.number

        @rt.handler
        async def double(self, message: Double) -> int:
            await trio.lowlevel.checkpoint()
            return 2 * message.number

    async with loop_host.system() as system:
        latch, scope = Latch(), trio.CancelScope()
        ref = await system.spawn(Brave, None, latch)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_until_cancelled, ref, Hold(1), scope)
            await latch.until(entered=1)
            doubles: list[int] = []

            async def ask_next() -> None:
                doubles.append(await ref.ask(Double(4)))

            nursery.start_soon(ask_next)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            latch.open()
        assert doubles == [8]
        assert await ref.ask(Notes()) == [1]
        assert system.actors()[0].failures == 0
        assert conserved(system)


async def test_a_blocking_handler_cannot_be_cancelled_and_its_answer_is_late(host: Host) -> None:
    if not host.blocking:
        pytest.skip("only threads cannot be cancelled")
    async with host.system() as system:
        latch, scope = Latch(), trio.CancelScope()
        ref = await system.spawn(host.holder, None, latch)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_until_cancelled, ref, Hold(1), scope)
            await latch.until(entered=1)
            scope.cancel()
        latch.open()
        assert await ref.ask(Notes()) == [1]
        assert reasons(system) == {"late_reply": 1}
        assert conserved(system)


async def test_a_shielded_handler_is_not_stopped_half_way(host: Host) -> None:
    async with host.system() as system:
        latch, scope = Latch(), trio.CancelScope()
        ref = await system.spawn(host.holder, None, latch)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_until_cancelled, ref, HoldShielded(1), scope)
            await latch.until(entered=1)
            scope.cancel()
        assert scope.cancelled_caught  # the asker goes at once
        latch.open()
        assert await ref.ask(Notes()) == [1]
        assert latch.cancelled == 0
        assert reasons(system) == {"late_reply": 1}
        assert conserved(system)


async def test_a_shielded_request_that_still_waits_is_withdrawn_like_any_other(host: Host) -> None:
    async with host.system() as system:
        latch, scope = Latch(), trio.CancelScope()
        ref = await system.spawn(host.holder, None, latch)
        ref.tell(Hold(0))
        await latch.until(entered=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_until_cancelled, ref, HoldShielded(1), scope)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
        latch.open()
        assert await ref.ask(Notes()) == [0]
        assert reasons(system) == {"withdrawn": 1}


async def test_a_detached_request_is_carried_out_without_its_asker(host: Host) -> None:
    async with host.system() as system:
        latch, scope = Latch(), trio.CancelScope()
        ref = await system.spawn(host.holder, None, latch)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: ask_until_cancelled(ref, Hold(1), scope, detached=True))
            await latch.until(entered=1)
            scope.cancel()
        assert scope.cancelled_caught
        latch.open()
        assert await ref.ask(Notes()) == [1]
        assert latch.cancelled == 0
        assert conserved(system)


async def test_a_detached_request_that_still_waits_is_carried_out_too(host: Host) -> None:
    async with host.system() as system:
        latch, scope = Latch(), trio.CancelScope()
        ref = await system.spawn(host.holder, None, latch)
        ref.tell(Hold(0))
        await latch.until(entered=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: ask_until_cancelled(ref, Hold(1), scope, detached=True))
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
        latch.open()
        assert await ref.ask(Notes()) == [0, 1]
        assert conserved(system)


async def test_a_detached_asker_gets_the_answer_if_it_stays(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        assert await ref.ask(Double(3), detached=True) == 6
        assert reasons(system) == {}


async def test_a_detached_request_goes_on_when_its_asker_times_out(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        ref = await system.spawn(loop_host.holder, None, latch)
        with pytest.raises(rt.AskTimeout):
            await ref.ask(Hold(1), timeout=1, detached=True)
        latch.open()
        assert await ref.ask(Notes()) == [1]
        assert latch.cancelled == 0
        assert conserved(system)


async def test_a_detached_request_that_found_no_room_in_time_is_never_delivered(loop_host: Host, autojump_clock: MockClock) -> None:
    """MailboxFull says that it may be sent again, so it must not be carried out later after all."""
    async with loop_host.system() as system:
        latch = Latch()
        ref = await system.spawn(loop_host.holder, None, latch, mailbox=rt.Mailbox.bounded(1))
        ref.tell(Hold(0))
        await latch.until(entered=1)
        ref.tell(Hold(1))
        with pytest.raises(rt.MailboxFull):
            await ref.ask(Hold(2), timeout=1, detached=True)
        latch.open()
        await system.wait_quiet()
        assert await ref.ask(Notes()) == [0, 1]
        assert reasons(system) == {"mailbox_full": 1}
        assert conserved(system)


async def test_an_actor_with_a_detached_request_that_waits_for_room_can_be_stopped(loop_host: Host) -> None:
    async with loop_host.system() as system:
        latch, scope = Latch(), trio.CancelScope()
        ref = await system.spawn(loop_host.holder, None, latch, mailbox=rt.Mailbox.bounded(1))
        ref.tell(Hold(0))
        await latch.until(entered=1)
        ref.tell(Hold(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: ask_until_cancelled(ref, Hold(2), scope, detached=True))
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
        latch.open()
        with trio.fail_after(60):
            await ref.stop()
        assert conserved(system)


async def test_a_cancelled_asker_that_waits_for_room_is_withdrawn(host: Host) -> None:
    async with host.system() as system:
        latch, scope = Latch(), trio.CancelScope()
        ref = await system.spawn(host.holder, None, latch, mailbox=rt.Mailbox.bounded(1))
        ref.tell(Hold(0))
        await latch.until(entered=1)
        ref.tell(Hold(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_until_cancelled, ref, Hold(2), scope)
            await trio.testing.wait_all_tasks_blocked()
            assert system.statistics().queued == 3
            scope.cancel()
        latch.open()
        assert await ref.ask(Notes()) == [0, 1]
        assert reasons(system) == {"withdrawn": 1}
        assert conserved(system)


async def test_an_asker_that_is_cancelled_already_sends_nothing_that_is_carried_out(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await system.spawn(host.holder, None, latch)
        ref.tell(Hold(0))
        await latch.until(entered=1)
        with trio.CancelScope() as scope:
            scope.cancel()
            await ref.ask(Hold(1))
        assert scope.cancelled_caught
        latch.open()
        assert await ref.ask(Notes()) == [0]
        assert conserved(system)


async def test_a_cancelled_chain_cancels_every_handler_in_it(loop_host: Host) -> None:
    class Middle(rt.Actor):
        def __init__(self, target: rt.Ref[rt.Actor]) -> None:
            self.target = target

        @rt.handler
        async def hold(self, message: Hold) -> int:
            return await self.target.ask(message)

    async with loop_host.system() as system:
        latch, scope = Latch(), trio.CancelScope()
        ref = await system.spawn(loop_host.holder, None, latch)
        for _ in range(3):
            ref = await system.spawn(Middle, ref)  # type: ignore[assignment]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_until_cancelled, ref, Hold(1), scope)
            await latch.until(entered=1)
            scope.cancel()
        await latch.until(cancelled=1)
        await system.wait_quiet()
        assert [(actor.failures, actor.state) for actor in system.actors()] == [(0, "idle")] * 4
        assert conserved(system)


async def test_a_handler_may_clean_up_when_it_is_cancelled(loop_host: Host) -> None:
    class Tidy(Plain):
        @rt.handler
        async def hold(self, message: Hold) -> int:
            assert self.latch is not None
            try:
                await self.latch.wait()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.lowlevel.checkpoint()
                self.numbers.append(-1)
            return 0

    async with loop_host.system() as system:
        latch, scope = Latch(), trio.CancelScope()
        ref = await system.spawn(Tidy, None, latch)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_until_cancelled, ref, Hold(), scope)
            await latch.until(entered=1)
            scope.cancel()
        assert await ref.ask(Notes()) == [-1]


async def test_an_error_in_the_cleanup_of_a_cancelled_handler_is_a_failure_of_the_actor(loop_host: Host) -> None:
    class Clumsy(Plain):
        @rt.handler
        async def hold(self, message: Hold) -> int:
            assert self.latch is not None
            try:
                await self.latch.wait()
            finally:
                raise Boom("while tidying up")

    async with loop_host.system() as system:
        latch = Latch()
        ref = await system.spawn(Clumsy, None, latch)
        ref.tell(Note(1))
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def ask() -> None:
                with scope:
                    try:
                        await ref.ask(Hold())
                    except Boom:
                        pass  # where the asker's own task ran the handler

            nursery.start_soon(ask)
            await latch.until(entered=1)
            scope.cancel()
        assert await ref.ask(Notes(), timeout=math.inf) == []  # restarted
        assert system.actors()[0].failures == 1
        assert conserved(system)


async def test_a_handler_that_cancels_itself_tells_its_asker(loop_host: Host) -> None:
    class Quitter(Plain):
        @rt.handler
        async def hold(self, message: Hold) -> int:
            with trio.CancelScope() as scope:
                scope.cancel()
                await trio.lowlevel.checkpoint()
            return 5

    async with loop_host.system() as system:
        ref = await system.spawn(Quitter)
        assert await ref.ask(Hold()) == 5  # its own scope is its own business


async def test_trios_cancellation_never_crosses_a_reply_slot(loop_host: Host) -> None:
    """A Cancelled that reached the asker would silently cancel the asker's nursery."""

    class Leaky(Plain):
        @rt.handler
        async def hold(self, message: Hold) -> int:
            caught: list[BaseException] = []
            with trio.CancelScope() as scope:
                scope.cancel()
                try:
                    await trio.lowlevel.checkpoint()
                except trio.Cancelled as cancelled:
                    caught.append(cancelled)
            raise caught[0]

    async with loop_host.system() as system:
        ref = await system.spawn(Leaky)
        ref.tell(Note(3))
        with pytest.raises(rt.AskCancelled, match="Hold"):
            await ref.ask(Hold())
        assert await ref.ask(Notes()) == [3]
        assert conserved(system)


async def test_a_cancellation_mixed_with_an_error_in_a_group_is_the_error_alone(loop_host: Host) -> None:
    class Mixed(Plain):
        @rt.handler
        async def hold(self, message: Hold) -> int:
            caught: list[BaseException] = []
            with trio.CancelScope() as scope:
                scope.cancel()
                try:
                    await trio.lowlevel.checkpoint()
                except trio.Cancelled as cancelled:
                    caught.append(cancelled)
            raise BaseExceptionGroup("both", [caught[0], Boom("the error")])

    async with loop_host.system() as system:
        ref = await system.spawn(Mixed)
        with pytest.raises(ExceptionGroup) as caught:
            await ref.ask(Hold())
        assert [repr(leaf) for leaf in caught.value.exceptions] == ["Boom('the error')"]
        assert system.actors()[0].failures == 1


async def test_many_cancelled_asks_leave_nothing_in_a_busy_mailbox(loop_host: Host) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        ref = await system.spawn(loop_host.holder, None, latch, mailbox=rt.Mailbox.bounded(100))
        ref.tell(Hold(0))
        await latch.until(entered=1)
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                for number in range(100):
                    nursery.start_soon(ref.ask, Hold(number))
                await trio.testing.wait_all_tasks_blocked()
                assert system.statistics().queued == 101
                nursery.cancel_scope.cancel()
            assert system.statistics().queued == 1
        assert all(ref.tell(Note(number)) for number in range(100))  # the withdrawn ones take no room
        assert not ref.tell(Note(100))
        latch.open()
        assert await ref.ask(Notes()) == [0, *range(100)]
        assert system.statistics().deadlines == 0
        assert conserved(system)
