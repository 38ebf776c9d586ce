"""`Probe`: takes any message, and lets a test say what it expects."""

from __future__ import annotations

from functools import partial

import pytest
import trio

import retinue as rt
from core_actors import Double, Leave, Note, Plain
from retinue.testing import Probe, VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@rt.message
class Send(rt.Message):
    """Tell the other one a number of notes."""

    other: rt.Ref[rt.Actor]
    numbers: tuple[int, ...]


@rt.message
class AskFor(rt.Request[int]):
    """Ask the other one to double a number, and answer with what it says."""

    other: rt.Ref[rt.Actor]
    number: int


@rt.message
class Secret(rt.Message):
    password: str


class Sender(rt.Actor):
    @rt.handler
    def send(self, message: Send) -> None:
        for number in message.numbers:
            message.other.tell(Note(number))

    @rt.handler
    async def ask_for(self, message: AskFor) -> int:
        return await message.other.ask(Double(message.number))


class ThreadSender(rt.Actor, blocking=True):
    @rt.handler
    def send(self, message: Send) -> None:
        for number in message.numbers:
            message.other.tell(Note(number))

    @rt.handler
    def ask_for(self, message: AskFor) -> int:
        return self.ctx.ask(message.other, Double(message.number))


@pytest.fixture(params=[Sender, ThreadSender], ids=["loop", "thread"])
def sender_class(request):
    return request.param


async def test_what_is_expected_comes_in_order_with_its_sender(clock, sender_class):
    async with rt.ActorSystem() as system:
        probe, sender = await Probe.spawn(system, name="probe"), await system.spawn(sender_class)
        sender.tell(Send(probe.ref, (1, 2, 3)))
        assert (await probe.expect(Note)).number == 1
        assert probe.sender is not None and probe.sender.path == sender.path
        assert (await probe.expect(lambda message: message.number == 2)) == Note(2)
        assert await probe.expect(rt.Message) == Note(3)
        assert probe.messages == [Note(1), Note(2), Note(3)]
        await probe.expect_nothing()


async def test_an_ask_is_answered_by_the_test(clock, sender_class):
    async with rt.ActorSystem() as system:
        probe, sender = await Probe.spawn(system), await system.spawn(sender_class)
        answers = []

        async def ask(number: int) -> None:
            try:
                answers.append(await sender.ask(AskFor(probe.ref, number)))
            except rt.Reject as error:
                answers.append(str(error))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, 4)
            assert (await probe.expect(Double)).number == 4
            assert probe.reply(8)
            nursery.start_soon(ask, 5)
            await probe.expect(Double)
            assert probe.fail(rt.Reject("no more"))
        assert answers == [8, "no more"]
        assert not probe.reply(9)


async def test_an_ask_that_nobody_answers_times_out(clock):
    async with rt.ActorSystem() as system:
        probe = await Probe.spawn(system)
        with pytest.raises(rt.AskTimeout):
            await probe.ref.ask(Double(1), timeout=60)
        assert trio.current_time() == 60


async def test_another_message_than_the_expected_one_is_in_the_text(clock):
    async with rt.ActorSystem() as system:
        probe = await Probe.spawn(system, name="probe")
        probe.ref.tell(Note(7))
        with pytest.raises(AssertionError, match=r"/user/probe expected a Double, and got Note.*7"):
            await probe.expect(Double)
        probe.ref.tell(Note(8))
        with pytest.raises(AssertionError, match=r"a message for which the given function is true, and got Note.*8"):
            await probe.expect(lambda message: message.number == 9)
        probe.ref.tell(Note(8))
        with pytest.raises(AssertionError, match="a message for which .*is_small is true"):
            await probe.expect(is_small)


def is_small(message: Note) -> bool:
    return message.number < 5


async def test_nothing_within_the_time_is_in_the_text_with_what_came_before(clock):
    async with rt.ActorSystem() as system:
        probe = await Probe.spawn(system, name="probe")
        with pytest.raises(AssertionError, match=r"expected a Note within 3 s, and nothing came$"):
            await probe.expect(Note)
        assert trio.current_time() == 3
        probe.ref.tell(Note(1))
        await probe.expect(Note)
        with pytest.raises(AssertionError, match=r"within 60 s, and nothing came; before that it got Note"):
            await probe.expect(Note, timeout=60)
        await probe.ref.stop()
        with pytest.raises(AssertionError, match="the probe has been stopped"):
            await probe.expect(Note)


async def test_nothing_expected_and_something_there_is_an_error(clock):
    async with rt.ActorSystem() as system:
        probe = await Probe.spawn(system)
        began = trio.current_time()
        await probe.expect_nothing(within=5)
        assert trio.current_time() == began + 5
        probe.ref.tell(Note(1))
        with pytest.raises(AssertionError, match="expected nothing for 0.1 s, and got Note"):
            await probe.expect_nothing()
        assert (await probe.expect(Note)).number == 1


async def test_fishing_leaves_out_what_is_not_wanted(clock):
    async with rt.ActorSystem() as system:
        probe = await Probe.spawn(system)
        for number in range(5):
            probe.ref.tell(Note(number))
        assert await probe.fish(lambda message: message.number == 3) == Note(3)
        assert await probe.expect(Note) == Note(4)
        probe.ref.tell(Note(5))
        with pytest.raises(AssertionError, match=r"fished for a Double for 3 s, and got Note.*5"):
            await probe.fish(Double)
        with pytest.raises(AssertionError, match="and got nothing"):
            await probe.fish(Double, timeout=1)


async def test_a_watch_notice_comes_as_a_message(clock):
    async with rt.ActorSystem() as system:
        probe, plain = await Probe.spawn(system), await system.spawn(Plain)
        await probe.watch(plain)
        plain.tell(Leave())
        assert (await probe.expect(rt.Terminated)).ref is plain
        await probe.watch(plain)
        assert (await probe.expect(rt.Terminated)).reason is rt.StopReason.STOPPED


async def test_a_strict_system_takes_a_probe_that_requires_something(clock):
    async with rt.ActorSystem(strict=True) as system:
        with pytest.raises(rt.DefinitionError, match="strict"):
            await Probe.spawn(system)
        probe = await Probe.spawn(system, requires="probe.touch", name="probe")
        context = system.authority.mint("ada", ["probe.*"])
        probe.ref.tell(Note(1), context=context)
        await probe.expect(Note)
        assert probe.last is not None and probe.last.security.subject == "ada"
        probe.ref.tell(Note(2), context=system.authority.mint("eve", ["other.*"]))
        await probe.expect_nothing()


async def test_messages_cross_the_border_of_a_loopback(clock):
    async with rt.ActorSystem(loopback=True) as system:
        probe, sender = await Probe.spawn(system), await system.spawn(Sender)
        sender.tell(Send(probe.ref, (1,)))
        assert await probe.expect(Note) == Note(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(probe.ref.ask, Double(1)))
            await probe.expect(Double)
            assert probe.reply(2)


async def test_a_text_shows_no_secret(clock):
    async with rt.ActorSystem() as system:
        probe = await Probe.spawn(system)
        probe.ref.tell(Secret("hunter2"))
        with pytest.raises(AssertionError) as raised:
            await probe.expect(Note)
        assert "hunter2" not in str(raised.value)
        assert "Secret" in str(raised.value)


async def test_what_was_told_cannot_be_answered_and_nothing_is_the_latest_before_the_first(clock):
    async with rt.ActorSystem() as system:
        probe = await Probe.spawn(system)
        with pytest.raises(AssertionError, match="has not expected anything yet"):
            _ = probe.sender
        probe.ref.tell(Note(1))
        await probe.expect(Note)
        assert probe.sender is None
        with pytest.raises(AssertionError, match="was told"):
            probe.reply(1)
        assert "0 unread" in repr(probe)


async def test_topics_and_listings_reach_a_probe_with_the_notice_of_what_was_missed(clock):
    prices = rt.Topic("prices", Note)
    async with rt.ActorSystem() as system:
        probe = await Probe.spawn(system)
        system.topics.subscribe(prices, probe.ref)
        for number in range(300):
            system.topics.publish(prices, Note(number))
        lagged = await probe.expect(rt.Lagged)
        assert lagged.topic == "prices"
        assert await probe.expect(Note) == Note(lagged.missed)


async def test_a_probe_that_was_stopped_does_not_say_that_nothing_came(clock):
    async with rt.ActorSystem() as system:
        probe = await Probe.spawn(system)
        await probe.expect_nothing()
        await probe.ref.stop()
        with pytest.raises(AssertionError, match="has been stopped"):
            await probe.expect_nothing()
