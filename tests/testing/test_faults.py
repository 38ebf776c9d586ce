"""Fault injection: what is lost, doubled and delayed, and what everybody learns of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
import trio.testing

import retinue as rt
import retinue.testing as rtt
from fault_actors import Add, Blocking, Flow, Nap, Other, Pass, Sum, since

# -- lost --------------------------------------------------------------------------------------------------------------------------------------------------


async def test_a_tell_that_is_lost_is_a_dead_letter_and_its_sender_does_not_know(actor_system: rt.ActorSystem) -> None:
    ref = await actor_system.spawn(Sum, name="sum")
    with rtt.Faults(actor_system) as faults:
        faults.drop(Add, times=1)
        assert ref.tell(Add(1)).accepted
        assert await ref.ask(Add(2)) == [2]
        assert faults.log[0].fault == "drop"
        assert (faults.log[0].message, faults.log[0].target, faults.log[0].sender) == ("Add", "/user/sum", None)
    [letter] = actor_system.dead_letters.recent
    assert (letter.reason, letter.message) == ("fault", Add(1))
    rtt.assert_conserved(actor_system)


async def test_an_ask_that_is_lost_ends_with_its_time_out_and_an_unknown_outcome(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(Sum)
    start = trio.current_time()
    with rtt.Faults(actor_system) as faults:
        faults.drop(Add)
        with pytest.raises(rt.AskTimeout, match="was lost on its way") as caught:
            await ref.ask(Add(1), timeout=5)
    assert (since(start), caught.value.begun) == (5, True)
    assert await ref.ask(Add(2)) == [2]
    rtt.assert_conserved(actor_system)


async def test_a_send_and_a_stream_may_be_lost_too(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(Sum)
    with rtt.Faults(actor_system) as faults:
        faults.drop()
        assert (await ref.send(Add(1))).accepted
        with pytest.raises(rt.AskTimeout):
            async with ref.stream(Flow(3), timeout=2) as items:
                await anext(items)
    assert actor_system.dead_letters.counts["fault"] == 2
    rtt.assert_conserved(actor_system)


@pytest.mark.parametrize("cls", [Sum, Blocking])
async def test_an_answer_that_is_lost_was_given_all_the_same(cls: Any, actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(cls)
    with rtt.Faults(actor_system) as faults:
        rule = faults.drop_reply(Add, times=1)
        with pytest.raises(rt.AskTimeout) as caught:
            await ref.ask(Add(1), timeout=5)
        assert (caught.value.begun, rule.hits) == (True, 1)
        assert await ref.ask(Add(2)) == ([1, 2] if cls is Sum else [2])
    counts = actor_system.statistics()
    assert (counts.handled, counts.dead_letters) == (2, 0)


async def test_who_waits_for_ever_for_what_is_lost_hears_of_the_end_of_the_system() -> None:
    heard: list[rt.ActorStopped] = []
    async with trio.open_nursery() as nursery:
        async with rt.ActorSystem("lossy") as system:
            ref = await system.spawn(Sum)

            async def ask() -> None:
                try:
                    await ref.ask(Add(1), timeout=math.inf)
                except rt.ActorStopped as error:
                    heard.append(error)

            with rtt.Faults(system) as faults:
                faults.drop(Add, times=1)
                faults.drop_reply(Add)
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
    assert [error.begun for error in heard] == [True, True]
    assert "ended before" in str(heard[0])


@pytest.mark.parametrize("how", ["drop", "delay", "duplicate", "kill", "drop_reply"])
async def test_what_is_handed_over_is_on_a_link_too(how: str, actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    class Desk(rt.Actor):
        def __init__(self, hand: rt.Ref[Sum]) -> None:
            self.hand = hand

        @rt.handler
        def add(self, message: Other) -> list[int]:
            self.ctx.forward(self.hand, Add(message.number))
            return []

    hand = await actor_system.spawn(Sum, name="hand")
    desk = await actor_system.spawn(Desk, hand)
    with rtt.Faults(actor_system) as faults:
        getattr(faults, how)(Add, to=hand, **({"seconds": 3} if how == "delay" else {}))
        start = trio.current_time()
        if how in ("drop", "drop_reply"):
            with pytest.raises(rt.AskTimeout, match="lost on its way"):
                await desk.ask(Other(1), timeout=5)
            assert since(start) == 5
        elif how == "kill":
            with pytest.raises(rtt.Killed):
                await desk.ask(Other(1))
        else:
            assert await desk.ask(Other(1), timeout=5) == [1]
            assert since(start) == (3 if how == "delay" else 0)
        await actor_system.wait_quiet()
        rtt.assert_conserved(actor_system)
    numbers = {"drop": [7], "drop_reply": [1, 7], "kill": [7], "delay": [1, 7], "duplicate": [1, 1, 7]}
    assert await hand.ask(Add(7)) == numbers[how]


# -- twice -------------------------------------------------------------------------------------------------------------------------------------------------


async def test_what_comes_twice_is_handled_twice_and_the_second_answer_is_late(actor_system: rt.ActorSystem) -> None:
    ref = await actor_system.spawn(Sum)
    with rtt.Faults(actor_system) as faults:
        faults.duplicate(Add, times=2)
        assert await ref.ask(Add(1)) == [1]
        ref.tell(Add(2))
        assert await ref.ask(Add(3)) == [1, 1, 2, 2, 3]
    counts = actor_system.statistics()
    assert (counts.sent, counts.handled, counts.dead_letters, counts.dead_letters_by_reason["late_reply"]) == (5, 5, 0, 1)


async def test_a_duplicate_takes_the_place_that_there_is(actor_system: rt.ActorSystem) -> None:
    ref = await actor_system.spawn(Sum, mailbox=rt.Mailbox.bounded(1))
    with rtt.Faults(actor_system) as faults:
        faults.duplicate()
        ref.tell(Add(1))
        await actor_system.wait_quiet()
    assert actor_system.dead_letters.counts["mailbox_full"] == 1
    rtt.assert_conserved(actor_system)


async def test_a_request_for_a_stream_comes_once(actor_system: rt.ActorSystem) -> None:
    ref = await actor_system.spawn(Sum)
    with rtt.Faults(actor_system) as faults:
        faults.duplicate()
        async with ref.stream(Flow(3)) as items:
            assert [item async for item in items] == [0, 1, 2]
    assert actor_system.statistics().handled == 1


# -- late --------------------------------------------------------------------------------------------------------------------------------------------------


async def test_what_is_delayed_is_queued_and_what_comes_after_it_keeps_its_place(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(Sum)
    other = await actor_system.spawn(Sum)
    start = trio.current_time()
    with rtt.Faults(actor_system) as faults:
        faults.delay(Add, 2, times=1)
        ref.tell(Add(1))
        ref.tell(Add(2))
        assert await other.ask(Add(7)) == [7]  # another link
        assert await other.ask(Pass(ref, Add(3))) == [3]  # and another sender
        assert faults.held == actor_system.statistics().queued == 2
        rtt.assert_conserved(actor_system)
        assert await ref.ask(Add(4)) == [3, 1, 2, 4]
    assert since(start) == 2


async def test_with_reorder_it_is_overtaken(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(Sum)
    with rtt.Faults(actor_system) as faults:
        faults.delay(Add, 2, reorder=True, times=1)
        ref.tell(Add(1))
        assert await ref.ask(Add(2)) == [2]
        await trio.sleep(2.1)
        assert await ref.ask(Add(3)) == [2, 1, 3]


async def test_a_request_that_is_under_way_arrives_after_its_time_out_too(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(Sum)
    with rtt.Faults(actor_system) as faults:
        faults.delay(Add, 10, times=1)
        with pytest.raises(rt.AskTimeout, match="still on its way") as caught:
            await ref.ask(Add(1), timeout=5)
        assert caught.value.begun
        await trio.sleep(6)
        assert await ref.ask(Add(2)) == [1, 2]
    assert actor_system.dead_letters.counts["late_reply"] == 1
    rtt.assert_conserved(actor_system)


async def test_what_arrives_where_nobody_is_any_more_is_a_dead_letter_and_its_asker_is_told(
    actor_system: rt.ActorSystem, virtual_clock: Any
) -> None:
    ref = await actor_system.spawn(Sum)
    with rtt.Faults(actor_system) as faults:
        faults.delay(Add, 10)
        ref.tell(Add(1))
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def ask() -> None:
                with pytest.raises(rt.ActorStopped):
                    await ref.ask(Add(2))

            await trio.sleep(1)
            await ref.stop()
    assert actor_system.dead_letters.counts["stopped"] == 2
    rtt.assert_conserved(actor_system)


async def test_a_delayed_ask_waits_for_room(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(Sum, mailbox=rt.Mailbox.bounded(1))
    with rtt.Faults(actor_system) as faults:
        faults.delay(Add, 2, times=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.ask, Nap(5))
            await trio.testing.wait_all_tasks_blocked()
            ref.tell(Nap(1))
            assert await ref.ask(Add(1)) == [1]
    rtt.assert_conserved(actor_system)


async def test_an_answer_that_is_delayed(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(Sum)
    start = trio.current_time()
    with rtt.Faults(actor_system) as faults:
        faults.delay_reply(Add, 3)
        assert await ref.ask(Add(1)) == [1]
        assert since(start) == 3
        with pytest.raises(rt.AskTimeout):
            await ref.ask(Add(2), timeout=1)
        await trio.sleep(3)
    assert actor_system.dead_letters.counts["late_reply"] == 1


async def test_at_the_end_of_the_block_all_that_is_held_back_arrives_in_its_order(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(Sum)
    start = trio.current_time()
    with rtt.Faults(actor_system) as faults:
        faults.delay(lambda message: message.number == 1, 60)
        faults.delay(lambda message: message.number == 2, 30, reorder=True)
        for number in (1, 2, 3):
            ref.tell(Add(number))
    assert await ref.ask(Add(4)) == [2, 1, 3, 4]
    assert since(start) == 0


async def test_what_is_held_back_when_the_system_ends_is_refused(virtual_clock: Any) -> None:
    async with trio.open_nursery() as nursery:
        async with rt.ActorSystem("late") as system:
            ref = await system.spawn(Sum)
            faults = rtt.Faults(system).__enter__()
            faults.delay(Add, 100)
            ref.tell(Add(1))

            @nursery.start_soon
            async def ask() -> None:
                with pytest.raises(rt.ActorStopped):
                    await ref.ask(Add(2), timeout=math.inf)

            await trio.testing.wait_all_tasks_blocked()
    assert system.dead_letters.counts["system_closed"] == 2
    rtt.assert_conserved(system)
    faults.__exit__(None, None, None)
