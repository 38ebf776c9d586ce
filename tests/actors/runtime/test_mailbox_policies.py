"""Contract point 5: mailboxes are bounded, and what happens when there is no room is the spawn's choice."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing
from trio.testing import MockClock

import retinue as rt
from core_actors import Break, Double, Hold, Note, Notes
from core_hosts import Host, conserved, reasons
from core_latch import Latch


async def held(system: rt.ActorSystem, host: Host, latch: Latch, mailbox: rt.Mailbox) -> rt.Ref[rt.Actor]:
    """An actor that is held at the latch, with an empty mailbox."""
    ref = await system.spawn(host.holder, None, latch, mailbox=mailbox)
    ref.tell(Hold(0))
    await latch.until(entered=1)
    return ref


async def what_is_handled(ref: rt.Ref[rt.Actor], latch: Latch) -> list[int]:
    latch.open()
    return (await ref.ask(Notes()))[1:]


@pytest.mark.parametrize("overflow", ["reject", "wait"])
async def test_a_full_mailbox_refuses_the_new_message(host: Host, overflow: Any) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.bounded(2, overflow=overflow))
        assert [ref.tell(Note(number)).reason for number in range(1, 5)] == [None, None, "mailbox_full", "mailbox_full"]
        assert await what_is_handled(ref, latch) == [1, 2]
        assert reasons(system) == {"mailbox_full": 2}
        assert conserved(system)


@pytest.mark.parametrize("capacity", [1, 2, 3])
async def test_drop_oldest_keeps_the_latest_messages(host: Host, capacity: int) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.bounded(capacity, overflow="drop_oldest"))
        assert all(ref.tell(Note(number)) for number in range(1, 7))
        assert reasons(system) == {"dropped_oldest": 6 - capacity}
        assert [letter.message for letter in system.dead_letters.recent] == [Note(number) for number in range(1, 7 - capacity)]
        assert await what_is_handled(ref, latch) == list(range(7 - capacity, 7))
        assert conserved(system)


@pytest.mark.parametrize("capacity", [1, 2, 3])
async def test_drop_newest_makes_room_by_the_message_that_came_last(host: Host, capacity: int) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.bounded(capacity, overflow="drop_newest"))
        assert all(ref.tell(Note(number)) for number in range(1, 7))
        assert reasons(system) == {"dropped_newest": 6 - capacity}
        assert await what_is_handled(ref, latch) == [*range(1, capacity), 6]
        assert conserved(system)


@pytest.mark.parametrize("overflow", ["drop_oldest", "drop_newest"])
async def test_requests_are_never_dropped_for_somebody_waits_for_each(host: Host, overflow: Any) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.bounded(2, overflow=overflow))
        answers: list[int] = []

        async def ask(number: int) -> None:
            answers.append(await ref.ask(Double(number)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, 1)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(ask, 2)
            await trio.testing.wait_all_tasks_blocked()
            assert not ref.tell(Note(3))  # nothing in there may be dropped
            latch.open()
        assert sorted(answers) == [2, 4]
        assert conserved(system)


@pytest.mark.parametrize("overflow", ["drop_oldest", "drop_newest"])
async def test_a_told_message_between_requests_is_the_one_that_is_dropped(host: Host, overflow: Any) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.bounded(3, overflow=overflow))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.ask, Double(1))
            await trio.testing.wait_all_tasks_blocked()
            ref.tell(Note(2))
            nursery.start_soon(ref.ask, Double(3))
            await trio.testing.wait_all_tasks_blocked()
            assert ref.tell(Note(4))
            assert [letter.message for letter in system.dead_letters.recent] == [Note(2)]
            latch.open()
        assert (await ref.ask(Notes()))[1:] == [4]
        assert conserved(system)


@pytest.mark.parametrize("overflow", ["reject", "wait", "drop_oldest", "drop_newest"])
async def test_send_and_ask_wait_for_room_whatever_the_policy(host: Host, overflow: Any) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.bounded(2, overflow=overflow))
        ref.tell(Note(1))
        ref.tell(Note(2))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.send, Note(3))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(ref.ask, Note(4))
            await trio.testing.wait_all_tasks_blocked()
            assert reasons(system) == {}
            latch.open()
        assert (await ref.ask(Notes()))[1:] == [1, 2, 3, 4]
        assert conserved(system)


@pytest.mark.parametrize("overflow", ["drop_oldest", "drop_newest"])
async def test_nobody_is_dropped_for_a_tell_that_would_overtake_those_who_wait_for_room(host: Host, overflow: Any) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.bounded(2, overflow=overflow))
        ref.tell(Note(1))
        ref.tell(Note(2))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.send, Note(3))
            await trio.testing.wait_all_tasks_blocked()
            assert not ref.tell(Note(4))
            latch.open()
        assert (await ref.ask(Notes()))[1:] == [1, 2, 3]
        assert conserved(system)


async def test_a_withdrawn_request_takes_no_room_in_a_mailbox_for_one(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.bounded(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.ask, Note(1))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert ref.tell(Note(2))
        assert not ref.tell(Note(3))
        assert await what_is_handled(ref, latch) == [2]
        assert conserved(system)


async def test_the_smallest_key_is_taken_first_and_equal_keys_in_the_order_they_came(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.priority(lambda message: getattr(message, "number", 100) // 10))
        for number in (35, 11, 30, 5, 12, 1, 31):
            ref.tell(Note(number))
        assert await what_is_handled(ref, latch) == [5, 1, 11, 12, 35, 30, 31]
        assert conserved(system)


async def test_one_urgent_message_overtakes_a_thousand_that_came_before(host: Host) -> None:
    """The choice is made when a message is taken, not when it is fetched ahead."""
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.priority(lambda message: getattr(message, "number", 5000), 2000))
        for number in range(1000, 2000):
            ref.tell(Note(number))
        ref.tell(Note(1))
        assert (await what_is_handled(ref, latch))[:3] == [1, 1000, 1001]


async def test_a_priority_mailbox_is_bounded_and_lets_waiting_senders_in(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.priority(lambda message: getattr(message, "number", 100), 2))
        assert [bool(ref.tell(Note(number))) for number in (9, 8, 7)] == [True, True, False]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.send, Note(1))
            await trio.testing.wait_all_tasks_blocked()
            assert system.statistics().queued == 4
            latch.open()
        assert (await ref.ask(Notes()))[1:] == [8, 1, 9]
        assert conserved(system)


@pytest.mark.parametrize("make", [rt.Mailbox.priority, rt.Mailbox.conflate], ids=["priority", "conflate"])
async def test_withdrawn_requests_take_no_room_in_a_special_mailbox(host: Host, make: Any) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, make(lambda message: getattr(message, "number", 1000), 50))
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(ref.ask, Double(number))
            await trio.testing.wait_all_tasks_blocked()
            assert not ref.tell(Note(1))
            nursery.cancel_scope.cancel()
        assert all(ref.tell(Note(number)) for number in range(1, 51))
        assert await what_is_handled(ref, latch) == list(range(1, 51))
        assert conserved(system)


async def test_only_the_latest_message_of_a_key_waits_and_it_keeps_the_place_of_the_first(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(
            system, host, latch, rt.Mailbox.conflate(lambda message: message.number % 10 if isinstance(message, Note) else None)
        )
        for number in (11, 12, 21, 13, 31, 22):
            assert ref.tell(Note(number))
        assert reasons(system) == {"conflated": 3}
        assert [letter.message for letter in system.dead_letters.recent] == [Note(11), Note(21), Note(12)]
        assert await what_is_handled(ref, latch) == [31, 22, 13]
        assert conserved(system)


async def test_a_key_of_none_never_conflates(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.conflate(lambda _: None))
        for number in (1, 1, 1):
            ref.tell(Note(number))
        assert await what_is_handled(ref, latch) == [1, 1, 1]


async def test_requests_never_conflate(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.conflate(lambda _: "same"))
        answers: list[int] = []

        async def ask(number: int) -> None:
            answers.append(await ref.ask(Double(number)))

        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(ask, number)
                await trio.testing.wait_all_tasks_blocked()
            ref.tell(Note(1))
            ref.tell(Note(2))
            latch.open()
        assert sorted(answers) == [0, 2, 4]
        assert reasons(system) == {"conflated": 1}
        assert conserved(system)


async def test_a_full_conflating_mailbox_still_takes_the_latest_of_a_key_that_waits(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.conflate(lambda message: getattr(message, "number", 0) % 10, 2))
        assert [bool(ref.tell(Note(number))) for number in (1, 2, 3, 11, 12)] == [True, True, False, True, True]
        assert await what_is_handled(ref, latch) == [11, 12]
        assert reasons(system) == {"conflated": 2, "mailbox_full": 1}
        assert conserved(system)


def broken_key(message: Any) -> int:
    if isinstance(message, Note) and message.number == 13:
        raise ValueError("no key for 13")
    return getattr(message, "number", 100)


def uncomparable_key(message: Any) -> Any:
    return "thirteen" if isinstance(message, Note) and message.number == 13 else getattr(message, "number", 100)


@pytest.mark.parametrize("key", [broken_key, uncomparable_key])
async def test_a_message_that_the_mailbox_has_no_key_for_is_refused_at_the_send_site(host: Host, key: Any) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.priority(key))
        ref.tell(Note(20))
        with pytest.raises(rt.DefinitionError, match="cannot place Note"):
            ref.tell(Note(13))
        with pytest.raises(rt.DefinitionError, match="cannot place Note"):
            await ref.send(Note(13))
        with pytest.raises(rt.DefinitionError, match="cannot place Note"):
            await ref.ask(Note(13))
        ref.tell(Note(10))
        assert system.statistics().sent == 3
        assert await what_is_handled(ref, latch) == [10, 20]
        assert conserved(system)


async def test_a_key_that_fails_once_there_is_room_is_told_to_those_who_waited(host: Host) -> None:
    fails = [False]

    def moody(message: Any) -> int:
        if fails[0] and isinstance(message, Note) and message.number == 13:
            raise ValueError("no key any more")
        return getattr(message, "number", 100)

    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.priority(moody, 1))
        ref.tell(Note(1))
        receipts: list[rt.Receipt] = []

        async def send() -> None:
            receipts.append(await ref.send(Note(13)))

        async def ask() -> None:
            with pytest.raises(rt.DefinitionError, match="cannot place Note"):
                await ref.ask(Note(13))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            fails[0] = True
            latch.open()
        assert [(receipt.accepted, receipt.reason) for receipt in receipts] == [(False, "poison")]
        assert (await ref.ask(Notes()))[1:] == [1]
        assert conserved(system)


async def test_what_waits_in_a_special_mailbox_becomes_dead_letters_when_the_actor_stops(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.priority(lambda message: getattr(message, "number", 100)))
        for number in (3, 1, 2):
            ref.tell(Note(number))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.stop)
            await trio.testing.wait_all_tasks_blocked()
            latch.open()
        assert [letter.message for letter in system.dead_letters.recent] == [Note(1), Note(2), Note(3)]
        assert conserved(system)


@pytest.mark.parametrize("make", [rt.Mailbox.priority, rt.Mailbox.conflate], ids=["priority", "conflate"])
async def test_a_special_mailbox_survives_a_restart_with_its_mail(host: Host, make: Any) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, make(lambda message: -1 if isinstance(message, Break) else getattr(message, "number", 1000)))
        ref.tell(Break())
        for number in (1, 2, 3):
            ref.tell(Note(number))
        latch.open()
        assert await ref.ask(Notes()) == [1, 2, 3]
        assert conserved(system)


@pytest.mark.parametrize(
    "make",
    [
        lambda: rt.Mailbox.bounded(0),
        lambda: rt.Mailbox.bounded(-1),
        lambda: rt.Mailbox.bounded(2.5),  # type: ignore[arg-type]
        lambda: rt.Mailbox.bounded(True),
        lambda: rt.Mailbox.bounded("many"),  # type: ignore[arg-type]
        lambda: rt.Mailbox.bounded(5, overflow="explode"),  # type: ignore[arg-type]
        lambda: rt.Mailbox.priority(None),  # type: ignore[arg-type]
        lambda: rt.Mailbox.conflate("key"),  # type: ignore[arg-type]
    ],
)
def test_a_mailbox_that_cannot_be_is_refused_when_it_is_described(make: Any) -> None:
    with pytest.raises(rt.DefinitionError):
        make()


async def test_a_spawn_with_something_else_as_its_mailbox_is_refused(loop_host: Host) -> None:
    async with loop_host.system() as system:
        for wrong in (5, 0, "", [], "bounded", object(), rt.Mailbox):
            with pytest.raises(rt.DefinitionError, match=r"mailbox=.*rt\.Mailbox\.bounded"):
                await system.spawn(loop_host.plain, mailbox=wrong)  # type: ignore[arg-type]
        assert system.actors() == []


async def test_fifty_producers_cannot_put_more_into_a_mailbox_than_it_holds(host: Host) -> None:
    """The limit is counted at the receiver, not for each sender."""
    async with host.system() as system:
        latch = Latch()
        ref = await held(system, host, latch, rt.Mailbox.bounded(20))
        accepted: list[bool] = []

        async def producer(number: int) -> None:
            for _ in range(10):
                accepted.append(ref.tell(Note(number)).accepted)
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(producer, number)
        assert (accepted.count(True), accepted.count(False)) == (20, 480)
        latch.open()
        await system.wait_quiet()
        assert conserved(system)


async def test_a_send_waits_while_the_actor_waits_to_be_restarted(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(
            loop_host.plain, mailbox=rt.Mailbox.bounded(2), supervision=rt.Supervision(backoff=(5, 5), intensity=(100, 1))
        )
        ref.tell(Break())
        ref.tell(Break())
        await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()
        assert ref.tell(Note(1)) and ref.tell(Note(2))
        assert ref.tell(Note(3)).reason == "mailbox_full"
        began = trio.current_time()
        assert await ref.send(Note(4))
        assert 3.9 < trio.current_time() - began < 6.1
        assert await ref.ask(Notes()) == [1, 2, 4]
        assert conserved(system)
