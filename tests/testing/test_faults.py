"""Fault injection: what is lost, doubled, delayed and killed, and what everybody learns of it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.testing

import retinue as rt
import retinue.testing as rtt


@rt.message
class Add(rt.Request[list[int]]):
    number: int


@rt.message
class Other(Add):
    """An Add of another kind."""


@rt.message
class Nap(rt.Request[str]):
    seconds: float


@rt.message
class Flow(rt.Stream[int]):
    count: int


@rt.message
class Pass(rt.Request[Any]):
    to: rt.Ref[Any]
    message: Any


class Sum(rt.Actor):
    """Keeps the numbers that it was given."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    @rt.handler
    def add(self, message: Add) -> list[int]:
        self.numbers.append(message.number)
        return list(self.numbers)

    @rt.handler
    async def nap(self, message: Nap) -> str:
        await trio.sleep(message.seconds)
        return "slept"

    @rt.handler
    async def flow(self, message: Flow) -> AsyncIterator[int]:
        for number in range(message.count):
            yield number

    @rt.handler
    async def hand_on(self, message: Pass) -> Any:
        return await message.to.ask(message.message, timeout=1)


class Blocking(rt.Actor, blocking=True):
    @rt.handler
    def add(self, message: Add) -> list[int]:
        return [message.number]


def since(start: float) -> float:
    return round(trio.current_time() - start, 3)


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


# -- twice ---------------------------------------------------------------------------------------------------------------------------------------------------


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


# -- late ------------------------------------------------------------------------------------------------------------------------------------------------------


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


# -- killed ------------------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [Sum, Blocking])
async def test_a_message_that_kills_is_supervised_as_any_failure(cls: Any, actor_system: rt.ActorSystem) -> None:
    ref = await actor_system.spawn(cls)
    with rtt.Faults(actor_system) as faults:
        faults.kill(Add, times=1)
        with pytest.raises(rtt.Killed):
            await ref.ask(Add(1))
        assert await ref.ask(Add(2)) == [2]
    [counts] = actor_system.actors()
    assert (counts.failures, counts.restarts) == (1, 1)


async def test_killed_after_its_work_it_has_done_it() -> None:
    done: list[int] = []

    class Worker(rt.Actor):
        @rt.handler(requires="work.do", risk="L2")
        async def add(self, message: Add) -> list[int]:
            done.append(message.number)
            return done

        @rt.handler
        async def flow(self, message: Flow) -> AsyncIterator[int]:
            for number in range(message.count):
                yield number

    async with rt.ActorSystem("killing") as system:
        ref = await system.spawn(Worker)
        with rtt.Faults(system) as faults:
            faults.kill(after=True)
            with pytest.raises(rtt.Killed):
                await ref.ask(Add(1))
            got: list[int] = []
            with pytest.raises(rtt.Killed):
                async with ref.stream(Flow(2)) as items:
                    async for item in items:
                        got.append(item)
        outcomes = await system.audit.entries(kind="outcome")
    assert (done, got) == ([1], [0, 1])
    assert outcomes[0].detail.endswith(": Killed")


async def test_who_may_not_send_it_kills_nobody(actor_system: rt.ActorSystem) -> None:
    class Guarded(rt.Actor):
        @rt.handler(requires="work.do")
        def add(self, message: Add) -> list[int]:
            return [message.number]

    ref = await actor_system.spawn(Guarded)
    nobody = actor_system.authority.mint("nobody", ["nothing"])
    with rtt.Faults(actor_system) as faults:
        faults.kill(Add)
        with pytest.raises(rt.Denied):
            await ref.ask(Add(1), context=nobody)
    assert actor_system.actors()[0].failures == 0


async def test_an_actor_that_waits_in_a_handler_is_killed_there(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(Sum)
    start = trio.current_time()
    with rtt.Faults(actor_system) as faults:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def ask() -> None:
                with pytest.raises(rtt.Killed, match="was killed"):
                    await ref.ask(Nap(60), timeout=100)

            await trio.sleep(1)
            assert faults.kill(ref)
    assert since(start) == 1
    assert await ref.ask(Add(1)) == [1]
    assert actor_system.actors()[0].restarts == 1


async def test_one_whose_ask_began_before_the_faults_is_killed_there_too(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(Sum)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def ask() -> None:
            with pytest.raises(rtt.Killed):
                await ref.ask(Nap(60), timeout=100)

        await trio.testing.wait_all_tasks_blocked()
        with rtt.Faults(actor_system) as faults:
            assert faults.kill(ref)
            await trio.testing.wait_all_tasks_blocked()


async def test_one_that_swallows_its_cancellation_dies_after_its_message(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    class Stubborn(rt.Actor):
        @rt.handler
        async def nap(self, message: Nap) -> str:
            with trio.CancelScope(shield=True):
                await trio.sleep(message.seconds)
            return "all the same"

    ref = await actor_system.spawn(Stubborn)
    with rtt.Faults(actor_system) as faults:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def ask() -> None:
                assert await ref.ask(Nap(5)) == "all the same"

            await trio.sleep(1)
            faults.kill(ref)
        await actor_system.wait_quiet()
    assert actor_system.actors()[0].restarts == 1


@pytest.mark.parametrize("cls", [Sum, Blocking])
async def test_an_idle_actor_is_killed_before_its_next_message(cls: Any, actor_system: rt.ActorSystem) -> None:
    ref = await actor_system.spawn(cls)
    await ref.ask(Add(1))
    with rtt.Faults(actor_system) as faults:
        assert faults.kill(ref) is True
        assert await ref.ask(Add(2)) == [2]
        assert [entry.fault for entry in faults.log] == ["kill"]


@pytest.mark.parametrize("cls", [Sum, Blocking])
async def test_killed_hard_it_ends_and_its_parent_fails(cls: Any, actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    class Parent(rt.Actor):
        async def on_start(self) -> None:
            await self.ctx.spawn(cls, name="child")

        @rt.handler
        def add(self, message: Add) -> list[int]:
            return [self.ctx.children[0]._cell.handled]

    parent = await actor_system.spawn(Parent, name="parent")
    child: Any = actor_system.registry.get("/user/parent/child")
    await child.ask(Add(1))
    watch = await actor_system.watch(child)
    with rtt.Faults(actor_system) as faults:
        assert faults.kill(child, hard=True)
        ended = await watch.wait()
        assert (ended.reason, type(ended.error)) == (rt.StopReason.FAILED, rtt.Killed)
        assert faults.kill(child, hard=True) is False
        assert await parent.ask(Add(0)) == [0]  # it was restarted, and has spawned a new child
        assert faults.kill(parent, hard=True)
    await (await actor_system.watch(parent)).wait()
    assert actor_system.actors() == []


async def test_an_actor_that_waits_to_be_restarted_is_not_there_to_be_killed(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    ref = await actor_system.spawn(Sum, supervision=rt.Supervision(backoff=(10, 10)))
    with rtt.Faults(actor_system) as faults:
        for _ in range(2):  # the first restart is at once
            faults.kill(ref)
            await trio.sleep(0.1)
        assert faults.kill(ref) is False


# -- which messages ------------------------------------------------------------------------------------------------------------------------------------------------


async def test_rules_are_for_types_predicates_receivers_and_senders(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    a, b = await actor_system.spawn(Sum, name="a"), await actor_system.spawn(Sum, name="b")
    with rtt.Faults(actor_system) as faults:
        for which, lost in (
            ({"match": Add}, "ab"),
            ({"match": Other}, ""),
            ({"match": (Other, Add)}, "ab"),
            ({"match": lambda message: message.number == 2}, ""),
            ({"to": a}, "a"),
            ({"to": "/user/b"}, "b"),
            ({"to": "/user/*"}, "ab"),
            ({"to": Blocking}, ""),
            ({"to": Sum, "sender": "outside"}, "ab"),
            ({"sender": a}, ""),
            ({"sender": Sum}, ""),
        ):
            before = actor_system.dead_letters.count
            rule = faults.drop(**which)  # type: ignore[arg-type]
            a.tell(Add(1))
            b.tell(Add(1))
            assert "".join(letter.target[-1] for letter in actor_system.dead_letters.recent[before:]) == lost, which
            assert rule.hits == len(lost)
            rule.remove()
            rule.remove()
        faults.drop(Other, sender=a, to=b)
        with pytest.raises(rt.AskTimeout):
            await a.ask(Pass(b, Other(1)))
        assert faults.log[-1].sender == "/user/a"
        faults.clear()
        assert (await a.ask(Pass(b, Other(9))))[-1] == 9


async def test_the_first_rule_that_strikes_is_the_one(actor_system: rt.ActorSystem) -> None:
    ref = await actor_system.spawn(Sum)
    with rtt.Faults(actor_system) as faults:
        faults.duplicate(Other)
        faults.drop(Add)
        ref.tell(Other(1))
        ref.tell(Add(2))
        await actor_system.wait_quiet()
        assert [entry.fault for entry in faults.log] == ["duplicate", "drop"]
        assert repr(faults._rules[0]) == "<FaultRule duplicate: 1>"


async def test_a_seed_repeats_what_is_struck(actor_system: rt.ActorSystem) -> None:
    async def struck(seed: int) -> list[int]:
        ref = await actor_system.spawn(Sum)
        with rtt.Faults(actor_system, seed=seed) as faults:
            faults.drop(Add, probability=0.5)
            for number in range(40):
                ref.tell(Add(number))
            await actor_system.wait_quiet()
        return await ref.ask(Add(-1))

    assert await struck(1) == await struck(1) != await struck(2)


async def test_a_predicate_that_fails_is_raised_at_the_send_site_and_nothing_was_sent(actor_system: rt.ActorSystem) -> None:
    ref = await actor_system.spawn(Sum)
    with rtt.Faults(actor_system) as faults:
        faults.drop(lambda message: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ref.tell(Add(1))
        with pytest.raises(ZeroDivisionError):
            await ref.ask(Add(1))
    assert actor_system.statistics().sent == 0
    rtt.assert_conserved(actor_system)


async def test_the_household_is_not_touched_unless_asked(virtual_clock: Any) -> None:
    class Careful(rt.Actor):
        @rt.handler(requires="work.do", approval=True)
        def add(self, message: Add) -> list[int]:
            return [message.number]

    async with rt.ActorSystem("consent") as system:
        ref = await system.spawn(Careful)
        with rtt.Faults(system) as faults:
            faults.drop(to="/system/*")
            faults.drop_reply(to="/system/*")
            with pytest.raises(rt.ApprovalRequired):
                await ref.ask(Add(1))
            assert not faults.log
            faults.delay(None, 5, to="/system/*", household=True)
            start = trio.current_time()
            with pytest.raises(rt.ApprovalRequired):
                await ref.ask(Add(2))
            assert since(start) >= 5


async def test_other_threads_and_loopbacks_are_on_links_too(virtual_clock: Any) -> None:
    async with rt.ActorSystem("far", loopback=True) as system:
        ref = await system.spawn(Sum)
        with rtt.Faults(system) as faults:
            faults.duplicate(Add)
            context = system.authority.root
            assert await ref.ask(Add(1)) == [1]
            await trio.to_thread.run_sync(lambda: ref.tell(Add(2), context=context))
            await system.wait_quiet()
            faults.clear()
            assert await ref.ask(Add(3)) == [1, 1, 2, 2, 3]


# -- installing --------------------------------------------------------------------------------------------------------------------------------------------------------


async def test_without_faults_everything_is_as_before(actor_system: rt.ActorSystem) -> None:
    kernel = actor_system._kernel
    assert kernel.plain
    with rtt.Faults(actor_system):
        assert not kernel.plain
        with pytest.raises(rt.DefinitionError, match="has faults already"):
            rtt.Faults(actor_system).__enter__()
    assert kernel.plain and kernel.faults is None


async def test_a_system_that_does_not_run_has_no_faults() -> None:
    system = rt.ActorSystem("later")
    with pytest.raises(rt.SystemClosed, match="not running"):
        rtt.Faults(system).__enter__()
    async with system:
        with pytest.raises(rt.WrongThread):
            await trio.to_thread.run_sync(rtt.Faults(system).__enter__)
    with pytest.raises(rt.SystemClosed):
        rtt.Faults(system).__enter__()
    with pytest.raises(rt.DefinitionError, match=r"takes an rt\.ActorSystem"):
        rtt.Faults("system")  # type: ignore[arg-type]


async def test_malformed_rules_say_what_to_give(actor_system: rt.ActorSystem) -> None:
    ref = await actor_system.spawn(Sum)
    faults = rtt.Faults(actor_system)
    wrong: list[tuple[Any, str]] = [
        (lambda: faults.drop(Sum), "actors go with to="),
        (lambda: faults.drop(()), "matches no message"),
        (lambda: faults.drop(7), "a function of the message, or None"),
        (lambda: faults.drop(Add(1)), "is a message; give its class"),
        (lambda: faults.drop(to="bank"), "a path such as"),
        (lambda: faults.drop(sender=7), "'outside' is whatever no actor sent"),
        (lambda: faults.drop(probability=1.5), "a number from 0 to 1"),
        (lambda: faults.drop(times=0), "1 or more"),
        (lambda: faults.drop(form=Add), "it takes to=, sender=, probability=, times=, household="),
        (lambda: faults.delay(Add, -1), "0 or more"),
        (lambda: faults.delay_reply(Add, math.inf), "give seconds"),
        (lambda: faults.kill(Add, hard=True), "hard=True goes with a ref"),
        (lambda: faults.kill(ref), "works inside the block"),
    ]
    for call, text in wrong:
        with pytest.raises(rt.DefinitionError) as caught:
            call()
        assert text in str(caught.value)
