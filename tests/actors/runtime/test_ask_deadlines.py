"""Contract point 2: which deadline an ask has, and what happens when it passes."""

from __future__ import annotations

import math

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_actors import Double, Hold, HoldShielded, Note, Notes, Plain
from core_hosts import Host, conserved, reasons
from core_latch import Latch


@rt.message
class Usual(rt.Request[float]):
    """Has no time-out of its own."""


@rt.message(timeout=100)
class Patient(rt.Request[float]):
    pass


@rt.message(timeout=3)
class Hasty(Patient):
    """A kind of Patient with its own, shorter, time-out."""


@rt.message(timeout=math.inf)
class Endless(rt.Request[float]):
    pass


@rt.message
class Chain(rt.Request[float]):
    """Ask the next one with this time-out (or its default) and say when that one gave up."""

    timeout: float | None = None
    limit: float | None = None


@rt.message
class ChainLater(rt.Message):
    """The same, told."""

    timeout: float | None = None


class Never(rt.Actor):
    """Does not answer in time, whatever the time is."""

    @rt.handler
    async def usual(self, _: Usual) -> float:
        await trio.sleep_forever()
        raise AssertionError

    @rt.handler
    async def patient(self, _: Patient) -> float:
        await trio.sleep_forever()
        raise AssertionError

    @rt.handler
    async def endless(self, _: Endless) -> float:
        await trio.sleep(1e6)
        return trio.current_time()


class Middle(rt.Actor):
    def __init__(self, target: rt.Ref[Never], log: list[float] | None = None) -> None:
        self.target = target
        self.log = log

    @rt.handler
    async def chain(self, message: Chain) -> float:
        try:
            await self.target.ask(Usual(), timeout=message.timeout)
        except rt.AskTimeout:
            return trio.current_time()
        raise AssertionError

    @rt.handler
    async def later(self, message: ChainLater) -> None:
        assert self.log is not None
        began = trio.current_time()
        with pytest.raises(rt.AskTimeout):
            await self.target.ask(Usual(), timeout=message.timeout)
        self.log.append(trio.current_time() - began)


async def seconds_until_time_out(ref: rt.Ref[rt.Actor], message: rt.Request[float], timeout: float | None = None) -> float:
    began = trio.current_time()
    with pytest.raises(rt.AskTimeout):
        await ref.ask(message, timeout=timeout)
    return trio.current_time() - began


async def test_an_ask_waits_30_seconds_when_nothing_says_otherwise(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        assert await seconds_until_time_out(await system.spawn(Never), Usual()) == pytest.approx(30)


async def test_the_system_may_say_otherwise(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system(ask_timeout=7) as system:
        ref = await system.spawn(Never)
        assert await seconds_until_time_out(ref, Usual()) == pytest.approx(7)
        assert await seconds_until_time_out(ref, Patient()) == pytest.approx(100)


async def test_the_message_class_may_say_otherwise(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        assert await seconds_until_time_out(await system.spawn(Never), Patient()) == pytest.approx(100)


async def test_a_kind_of_message_that_a_handler_of_its_base_takes_has_its_own_time_out(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        assert await seconds_until_time_out(await system.spawn(Never), Hasty()) == pytest.approx(3)


async def test_the_call_has_the_last_word(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(Never)
        assert await seconds_until_time_out(ref, Patient(), 2.5) == pytest.approx(2.5)
        assert await seconds_until_time_out(ref, Usual(), 1000) == pytest.approx(1000)


async def test_an_ask_may_wait_without_limit_if_told_so(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(Never)
        began = trio.current_time()
        assert await ref.ask(Endless()) - began == pytest.approx(1e6)
        with trio.move_on_after(1e7) as scope:
            await ref.ask(Usual(), timeout=math.inf)
        assert scope.cancelled_caught


async def test_the_deadline_of_the_request_in_hand_bounds_what_its_handler_asks(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        middle = await system.spawn(Middle, await system.spawn(Never))
        for timeout in (None, 500.0, 1e9):
            began = trio.current_time()
            with pytest.raises(rt.AskTimeout):
                await middle.ask(Chain(timeout), timeout=5)
            assert trio.current_time() - began == pytest.approx(5)


async def test_a_shorter_time_out_inside_a_handler_counts(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        middle = await system.spawn(Middle, await system.spawn(Never))
        began = trio.current_time()
        assert await middle.ask(Chain(2), timeout=5) - began == pytest.approx(2)


async def test_what_a_handler_of_a_told_message_asks_is_bounded_by_its_own_time_out_only(
    loop_host: Host, autojump_clock: MockClock
) -> None:
    async with loop_host.system() as system:
        log: list[float] = []
        middle = await system.spawn(Middle, await system.spawn(Never), log)
        middle.tell(ChainLater(500))
        middle.tell(ChainLater())
        await trio.sleep(1000)
        assert log == [pytest.approx(500), pytest.approx(30)]


async def test_a_resident_loop_may_ask_for_as_long_as_it_lives(loop_host: Host, autojump_clock: MockClock) -> None:
    answers: list[int] = []

    class Poller(rt.Actor):
        def __init__(self, target: rt.Ref[Slow]) -> None:
            self.target = target

        async def run(self) -> None:
            for number in range(30):
                answer = await self.target.ask(Double(number))
                answers.append(answer)

    class Slow(rt.Actor):
        @rt.handler
        async def double(self, message: Double) -> int:
            await trio.sleep(20)
            return message.number * 2

    async with loop_host.system() as system:
        poller = await system.spawn(Poller, await system.spawn(Slow))
        await trio.sleep(700)
        assert answers == [number * 2 for number in range(30)]
        assert poller.alive
        assert system.actors()[1].failures == 0


async def test_a_hook_may_ask_after_its_actor_has_lived_for_long(loop_host: Host, autojump_clock: MockClock) -> None:
    class Polite(rt.Actor):
        async def on_start(self) -> None:
            await trio.sleep(65)
            self.doubled = await target.ask(Waited(), timeout=60)

        @rt.handler
        def notes(self, _: Notes) -> list[int]:
            return [self.doubled]

    @rt.message
    class Waited(rt.Request[int]):
        pass

    class Target(rt.Actor):
        @rt.handler
        async def waited(self, _: Waited) -> int:
            await trio.sleep(50)
            return 1

    async with loop_host.system() as system:
        target = await system.spawn(Target)
        assert await (await system.spawn(Polite)).ask(Notes()) == [1]


async def test_a_time_out_says_that_the_outcome_is_unknown(host: Host, host_clock: object) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await system.spawn(host.holder, None, latch, name="slow")
        with pytest.raises(rt.AskTimeout, match=r"/user/slow did not answer Hold .*outcome is unknown") as caught:
            await ref.ask(Hold(1), timeout=host.moment)
        assert isinstance(caught.value, TimeoutError)
        latch.open()
        await system.wait_quiet()
        assert conserved(system)


async def test_a_request_that_waits_when_its_time_is_up_is_withdrawn_and_never_carried_out(host: Host, host_clock: object) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await system.spawn(host.holder, None, latch)
        ref.tell(Hold(0))
        await latch.until(entered=1)
        with pytest.raises(rt.AskTimeout, match="was not carried out"):
            await ref.ask(Note(1), timeout=host.moment)
        assert reasons(system) == {"expired": 1}
        latch.open()
        assert await ref.ask(Notes()) == [0]
        assert conserved(system)


async def test_a_running_handler_is_cancelled_when_the_time_is_up_and_the_actor_keeps_its_state(
    loop_host: Host, autojump_clock: MockClock
) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        ref = await system.spawn(loop_host.holder, None, latch)
        ref.tell(Note(7))
        with pytest.raises(rt.AskTimeout):
            await ref.ask(Hold(1), timeout=1)
        await latch.until(cancelled=1)
        assert await ref.ask(Notes()) == [7]
        assert system.actors()[0].failures == 0
        assert conserved(system)


async def test_a_shielded_handler_goes_on_after_the_time_is_up(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        ref = await system.spawn(loop_host.holder, None, latch)
        with pytest.raises(rt.AskTimeout):
            await ref.ask(HoldShielded(1), timeout=1)
        assert latch.cancelled == 0
        latch.open()
        assert await ref.ask(Notes()) == [1]
        assert reasons(system) == {"late_reply": 1}


async def test_an_asker_gets_its_time_out_even_from_a_handler_that_shields_itself(loop_host: Host, autojump_clock: MockClock) -> None:
    class Stubborn(Plain):
        @rt.handler
        async def hold(self, message: Hold) -> int:
            with trio.CancelScope(shield=True):
                await trio.sleep(100)
            self.numbers.append(message.number)
            return message.number

    async with loop_host.system() as system:
        ref = await system.spawn(Stubborn)
        # On the plain loop the asker's own task runs the handler, and so has to see it out; the error is the time-out all the same.
        with pytest.raises(rt.AskTimeout):
            await ref.ask(Hold(1), timeout=1)
        await system.wait_quiet(timeout=1000)
        assert await ref.ask(Notes()) == [1]
        assert reasons(system) == {"late_reply": 1}
        assert conserved(system)


async def test_an_answer_in_the_last_moment_is_an_answer(loop_host: Host, autojump_clock: MockClock) -> None:
    class JustInTime(Plain):
        @rt.handler
        async def hold(self, message: Hold) -> int:
            await trio.sleep(0.999)
            return message.number

    async with loop_host.system() as system:
        ref = await system.spawn(JustInTime)
        assert await ref.ask(Hold(4), timeout=1) == 4
        assert system.statistics().deadlines == 0


async def test_a_handler_may_read_its_deadline(loop_host: Host, autojump_clock: MockClock) -> None:
    class Clockwatcher(Plain):
        @rt.handler
        async def hold(self, message: Hold) -> int:
            assert self.ctx.deadline is not None
            await trio.sleep_until(self.ctx.deadline - 1)
            return 9

    async with loop_host.system() as system:
        ref = await system.spawn(Clockwatcher)
        began = trio.current_time()
        assert await ref.ask(Hold(), timeout=20) == 9
        assert trio.current_time() - began == pytest.approx(19)


async def test_a_told_message_has_no_deadline(loop_host: Host) -> None:
    seen: list[float | None] = []

    class Clockwatcher(Plain):
        @rt.handler
        def note(self, message: Note) -> None:
            seen.append(self.ctx.deadline)

    async with loop_host.system() as system:
        ref = await system.spawn(Clockwatcher)
        ref.tell(Note(1))
        await system.wait_quiet()
        assert seen == [None]
