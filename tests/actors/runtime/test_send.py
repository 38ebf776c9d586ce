"""Contract point 1: send is the awaitable twin of tell; it waits for room."""

from __future__ import annotations

import math

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import retinue as rt
from core_actors import Hold, Leave, Note, Notes, Unknown
from core_hosts import Host, conserved, reasons
from core_latch import Latch


async def busy(system: rt.ActorSystem, host: Host, latch: Latch, mailbox: rt.Mailbox) -> rt.Ref[rt.Actor]:
    """An actor that is held at the latch, with an empty mailbox."""
    ref = await system.spawn(host.holder, None, latch, mailbox=mailbox)
    ref.tell(Hold(0))
    await latch.until(entered=1)
    return ref


async def test_a_send_to_an_actor_with_room_returns_at_once(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        receipt = await ref.send(Note(1))
        assert receipt.accepted and receipt.reason is None
        assert await ref.ask(Notes()) == [1]


async def test_a_send_waits_for_room(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await busy(system, host, latch, rt.Mailbox.bounded(2))
        sent: list[int] = []

        async def sender() -> None:
            for number in range(1, 6):
                assert await ref.send(Note(number))
                sent.append(number)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sender)
            await trio.testing.wait_all_tasks_blocked()
            assert sent == [1, 2]
            assert system.statistics().queued == 4
            latch.open()
        assert sent == [1, 2, 3, 4, 5]
        assert await ref.ask(Notes()) == [0, 1, 2, 3, 4, 5]
        assert conserved(system)


async def test_senders_are_let_in_in_the_order_they_came(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await busy(system, host, latch, rt.Mailbox.bounded(1))
        ref.tell(Note(1))
        async with trio.open_nursery() as nursery:
            for number in range(2, 20):
                nursery.start_soon(ref.send, Note(number))
                await trio.testing.wait_all_tasks_blocked()
            latch.open()
        assert await ref.ask(Notes()) == list(range(20))
        assert conserved(system)


async def test_a_later_tell_does_not_overtake_those_who_wait_for_room(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await busy(system, host, latch, rt.Mailbox.bounded(1))
        ref.tell(Note(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.send, Note(2))
            await trio.testing.wait_all_tasks_blocked()
            assert ref.tell(Note(3)).reason == "mailbox_full"
            latch.open()
        assert await ref.ask(Notes()) == [0, 1, 2]


async def test_a_later_tell_does_not_take_the_room_of_withdrawn_requests_from_those_who_wait(loop_host: Host) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        ref = await busy(system, loop_host, latch, rt.Mailbox.bounded(50))
        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as askers:
                for _ in range(50):
                    askers.start_soon(ref.ask, Hold(1))
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(ref.send, Note(1))
                await trio.testing.wait_all_tasks_blocked()
                askers.cancel_scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            accepted = ref.tell(Note(2)).accepted
            latch.open()
        assert await ref.ask(Notes()) == ([0, 1, 2] if accepted else [0, 1])
        assert conserved(system)


async def test_a_send_that_finds_no_room_in_time_raises_mailbox_full_and_is_not_delivered(host: Host, host_clock: object) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await busy(system, host, latch, rt.Mailbox.bounded(1))
        ref.tell(Note(1))
        with pytest.raises(rt.MailboxFull, match=r"no room for Note .*not delivered"):
            await ref.send(Note(2), timeout=host.moment)
        latch.open()
        await system.wait_quiet()
        assert await ref.ask(Notes()) == [0, 1]
        assert reasons(system) == {"mailbox_full": 1}
        assert conserved(system)


async def test_an_ask_waits_for_room_within_its_deadline_and_then_says_mailbox_full(host: Host, host_clock: object) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await busy(system, host, latch, rt.Mailbox.bounded(1))
        ref.tell(Note(1))
        with pytest.raises(rt.MailboxFull, match=r"no room for Hold .*not delivered"):
            await ref.ask(Hold(2), timeout=host.moment)
        latch.open()
        await system.wait_quiet()
        assert await ref.ask(Notes()) == [0, 1]
        assert reasons(system) == {"mailbox_full": 1}
        assert conserved(system)


async def test_an_ask_that_waited_for_room_is_answered(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await busy(system, host, latch, rt.Mailbox.bounded(1))
        ref.tell(Note(1))
        answers: list[list[int]] = []

        async def ask() -> None:
            answers.append(await ref.ask(Notes()))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            latch.open()
        assert answers == [[0, 1]] * 3
        assert conserved(system)


async def test_a_send_waits_30_seconds_for_room_when_nothing_says_otherwise(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        ref = await busy(system, loop_host, latch, rt.Mailbox.bounded(1))
        ref.tell(Note(1))
        began = trio.current_time()
        with pytest.raises(rt.MailboxFull):
            await ref.send(Note(2))
        assert trio.current_time() - began == pytest.approx(30)
        latch.open()


async def test_a_send_may_wait_without_limit_if_told_so(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        ref = await busy(system, loop_host, latch, rt.Mailbox.bounded(1))
        ref.tell(Note(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: ref.send(Note(2), timeout=math.inf))
            await trio.sleep(1e6)
            latch.open()
        assert await ref.ask(Notes()) == [0, 1, 2]


async def test_a_cancelled_send_is_one_dead_letter_also_after_its_time_is_up(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        ref = await busy(system, loop_host, latch, rt.Mailbox.bounded(1))
        ref.tell(Note(1))
        with trio.move_on_after(1):
            await ref.send(Note(2), timeout=5)
        await trio.sleep(20)
        assert reasons(system) == {"withdrawn": 1}
        assert system.statistics().deadlines == 0
        assert conserved(system)
        latch.open()


async def test_a_send_to_a_stopped_actor_is_a_dead_letter_and_the_receipt_says_so(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        await ref.stop()
        receipt = await ref.send(Note(1))
        assert (receipt.accepted, receipt.reason) == (False, "stopped")
        assert reasons(system) == {"stopped": 1}
        assert conserved(system)


async def test_a_send_that_waits_when_the_actor_stops_is_told_so(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await busy(system, host, latch, rt.Mailbox.bounded(1))
        ref.tell(Leave())
        receipts: list[rt.Receipt] = []

        async def send() -> None:
            receipts.append(await ref.send(Note(2), timeout=math.inf))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await trio.testing.wait_all_tasks_blocked()
            latch.open()
        assert [(receipt.accepted, receipt.reason) for receipt in receipts] in ([(False, "stopped")], [(True, None)])
        await system.wait_quiet()
        assert reasons(system) == {"stopped": 1}
        assert conserved(system)


async def test_a_wrong_type_raises_from_send(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        with pytest.raises(rt.Unhandled):
            await ref.send(Unknown())
        assert system.statistics().sent == 0


async def test_a_send_inside_a_handler_waits_no_longer_than_its_own_request(loop_host: Host, autojump_clock: MockClock) -> None:
    class Sender(rt.Actor):
        def __init__(self, target: rt.Ref[rt.Actor]) -> None:
            self.target = target

        @rt.handler(raises=rt.MailboxFull)
        async def hold(self, message: Hold) -> int:
            await self.target.send(Note(2), timeout=100)
            return 0

    async with loop_host.system() as system:
        latch = Latch()
        ref = await busy(system, loop_host, latch, rt.Mailbox.bounded(1))
        ref.tell(Note(1))
        sender = await system.spawn(Sender, ref)
        began = trio.current_time()
        with pytest.raises((rt.MailboxFull, rt.AskTimeout)):
            await sender.ask(Hold(), timeout=3)
        assert trio.current_time() - began == pytest.approx(3)
        latch.open()
        await system.wait_quiet()
        assert await ref.ask(Notes()) == [0, 1]
        assert conserved(system)


async def test_two_full_actors_that_flood_each_other_lose_messages_and_do_not_block(loop_host: Host) -> None:
    """Bounded queues full in both directions are no deadlock: tell never waits."""

    class Flooder(rt.Actor):
        other: rt.Ref[rt.Actor]

        @rt.handler
        def note(self, message: Note) -> None:
            if message.number:
                for _ in range(3):
                    self.other.tell(Note(message.number - 1))

    class Paired(Flooder):
        def __init__(self, pair: list[rt.Ref[rt.Actor]]) -> None:
            self.pair = pair

        @rt.handler
        def note(self, message: Note) -> None:
            self.other = next(ref for ref in self.pair if ref != self.ctx.ref)
            super().note(message)

    async with loop_host.system() as system:
        pair: list[rt.Ref[rt.Actor]] = []
        for _ in range(2):
            pair.append(await system.spawn(Paired, pair, mailbox=rt.Mailbox.bounded(4)))
        for _ in range(4):
            for ref in pair:
                ref.tell(Note(6))
        await system.wait_quiet()
        assert reasons(system)["mailbox_full"] > 0
        assert conserved(system)


async def test_a_sender_that_would_wait_for_an_actor_that_waits_for_it_is_told_at_once(loop_host: Host) -> None:
    class Caller(rt.Actor):
        def __init__(self, target: rt.Ref[rt.Actor]) -> None:
            self.target = target

        @rt.handler
        async def hold(self, message: Hold) -> int:
            return await self.target.ask(message)

    class Sender(rt.Actor):
        def __init__(self, latch: Latch, callers: list[rt.Ref[Caller]]) -> None:
            self.latch = latch
            self.callers = callers

        @rt.handler(raises=rt.AskCycle)
        async def hold(self, message: Hold) -> int:
            await self.latch.wait()
            await self.callers[0].send(Note(3))
            return 0

    class Full(Caller):
        @rt.handler
        def note(self, _: Note) -> None:
            pass

    async with loop_host.system() as system:
        latch, callers = Latch(), []
        sender = await system.spawn(Sender, latch, callers)
        caller = await system.spawn(Full, sender, mailbox=rt.Mailbox.bounded(1))
        callers.append(caller)
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(rt.AskCycle, match="would wait for ever"):
                    await caller.ask(Hold())

            nursery.start_soon(ask)
            await latch.until(entered=1)
            caller.tell(Note(1))
            latch.open()
        await system.wait_quiet()
        assert conserved(system)
