"""Contract point 1: tell is synchronous, never raises for what happens at run time, and says in its receipt what became of the message."""

import pytest
import trio

import retinue as rt
from core_actors import Break, Double, Hold, Leave, Note, Notes, Unknown
from core_hosts import Host, conserved, reasons
from core_latch import Latch


async def test_a_tell_is_accepted_and_handled(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        receipt = ref.tell(Note(1))
        assert receipt.accepted and receipt.reason is None and receipt
        assert await ref.ask(Notes()) == [1]
        assert conserved(system)


async def test_a_tell_returns_before_the_message_is_handled(host: Host) -> None:
    async with host.system() as system:
        log: list[int] = []
        ref = await system.spawn(host.plain, log)
        ref.tell(Note(1))
        if not host.blocking:  # a tell never runs anything
            assert log == []
        await ref.ask(Notes())
        assert log == [1]


async def test_a_tell_to_a_stopped_actor_is_a_dead_letter_and_the_receipt_says_so(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain, name="gone")
        await ref.stop()
        receipt = ref.tell(Note(1))
        assert not receipt.accepted and receipt.reason == "stopped" and not receipt
        letter = system.dead_letters.recent[-1]
        assert (letter.reason, letter.message, letter.target, letter.sender) == ("stopped", Note(1), "/user/gone", None)
        assert conserved(system)


async def test_a_tell_to_a_stopping_actor_is_refused_at_once(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await system.spawn(host.holder, None, latch)
        ref.tell(Hold(1))
        await latch.until(entered=1)
        watch = await system.watch(ref)
        ref.tell(Leave())  # waits behind the message in progress
        ref.tell(Note(2))
        latch.open()
        await watch.wait()
        assert reasons(system) == {"stopped": 1}
        assert conserved(system)


async def test_a_tell_to_a_full_mailbox_is_a_dead_letter_and_the_receipt_says_so(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await system.spawn(host.holder, None, latch, mailbox=rt.Mailbox.bounded(2))
        ref.tell(Hold(0))
        await latch.until(entered=1)
        receipts = [ref.tell(Note(number)) for number in range(4)]
        assert [receipt.reason for receipt in receipts] == [None, None, "mailbox_full", "mailbox_full"]
        assert reasons(system) == {"mailbox_full": 2}
        latch.open()
        assert await ref.ask(Notes()) == [0, 0, 1]
        assert conserved(system)


async def test_a_mailbox_holds_1024_messages_unless_the_spawn_says_otherwise(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await system.spawn(host.holder, None, latch)
        ref.tell(Hold(0))
        await latch.until(entered=1)
        receipts = [ref.tell(Note(number)).accepted for number in range(1025)]
        assert receipts == [True] * 1024 + [False]
        latch.open()
        await system.wait_quiet()
        assert await ref.ask(Notes()) == [0, *range(1024)]


async def test_an_unbounded_mailbox_takes_everything(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await system.spawn(host.holder, None, latch, mailbox=rt.Mailbox.unbounded())
        ref.tell(Hold(0))
        await latch.until(entered=1)
        assert all(ref.tell(Note(number)) for number in range(3000))
        latch.open()
        assert await ref.ask(Notes()) == [0, *range(3000)]


async def test_the_answer_to_a_told_request_goes_nowhere(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        ref.tell(Double(4))
        assert await ref.ask(Double(1)) == 2
        assert reasons(system) == {}
        assert conserved(system)


async def test_a_failed_tell_is_a_dead_letter_with_its_error(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain, name="fragile")
        ref.tell(Break("no good"))
        assert await ref.ask(Double(1)) == 2
        letter = system.dead_letters.recent[-1]
        assert (letter.reason, letter.message, letter.target) == ("poison", Break("no good"), "/user/fragile")
        assert str(letter.error) == "no good"
        assert conserved(system)


async def test_a_wrong_type_raises_from_tell_and_was_never_sent(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain, name="picky")
        for wrong in (Unknown(), Note, 5, None, "text", object()):
            with pytest.raises(rt.Unhandled, match="/user/picky") as caught:
                ref.tell(wrong)  # type: ignore[arg-type]
            assert isinstance(caught.value, TypeError)
        assert system.statistics().sent == 0
        assert reasons(system) == {}


async def test_the_error_for_a_wrong_type_says_what_the_actor_takes(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        with pytest.raises(rt.Unhandled, match=r"has no handler for Unknown; it takes .*Double.*Note"):
            ref.tell(Unknown())
        with pytest.raises(rt.Unhandled, match=r"the class Note itself; send an instance: Note\(…\)"):
            ref.tell(Note)  # type: ignore[arg-type]
        with pytest.raises(rt.Unhandled, match=r"int \(5\), which is no message; derive its class from rt\.Message"):
            ref.tell(5)  # type: ignore[arg-type]


async def test_a_wrong_type_to_a_stopped_actor_is_still_the_senders_mistake(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        await ref.stop()
        with pytest.raises(rt.Unhandled):
            ref.tell(Unknown())


async def test_a_stopped_actors_waiting_mail_becomes_dead_letters_in_order(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await system.spawn(host.holder, None, latch)
        ref.tell(Hold(0))
        await latch.until(entered=1)
        for number in range(3):
            ref.tell(Note(number))
        watch = await system.watch(ref)
        latch.open()
        await ref.stop()
        await watch.wait()
        assert [(letter.reason, letter.message) for letter in system.dead_letters.recent] == [
            ("stopped", Note(number)) for number in range(3)
        ]
        assert conserved(system)


async def test_a_receipt_cannot_be_changed(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        receipt = ref.tell(Note(1))
        with pytest.raises(AttributeError):
            receipt.accepted = False
        assert "accepted=True" in repr(receipt)


async def test_telling_never_gives_the_loop_away(loop_host: Host) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain)
        ran: list[int] = []

        async def other() -> None:
            ran.append(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            for number in range(500):
                ref.tell(Note(number))
            assert ran == []
