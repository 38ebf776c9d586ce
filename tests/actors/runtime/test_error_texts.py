"""What errors say is true: the cause of an end, and what an actor takes."""

from __future__ import annotations

import math

import pytest
import trio.testing

import retinue as rt
from retinue.testing import Probe


@rt.message
class Greet(rt.Request[str]):
    name: str


@rt.message
class GreetLoudly(Greet):
    pass


@rt.message
class Mutter(rt.Message):
    pass


class Greeter(rt.Actor):
    @rt.handler
    def greet(self, message: Greet) -> str:
        if not message.name:
            raise ValueError("nobody to greet")
        return f"Hello, {message.name}"


async def test_a_failure_that_was_survived_is_not_told_as_the_cause_of_the_end() -> None:
    async with rt.ActorSystem() as system:
        greeter = await system.spawn(Greeter)
        with pytest.raises(ValueError, match="nobody to greet"):
            await greeter.ask(Greet(""))
        assert await greeter.ask(Greet("Ada")) == "Hello, Ada"
        await greeter.stop()
        with pytest.raises(rt.ActorStopped) as caught:
            await greeter.ask(Greet("Ada"))
    assert caught.value.__cause__ is None
    assert "failed" not in str(caught.value)


async def test_the_failure_that_ended_the_actor_is_told_and_chained() -> None:
    async with rt.ActorSystem() as system:
        greeter = await system.spawn(Greeter, supervision=rt.Supervision(restart="temporary"))
        with pytest.raises(ValueError, match="nobody to greet") as failure:
            await greeter.ask(Greet(""))
        with pytest.raises(rt.ActorStopped, match="it failed with ValueError: nobody to greet") as caught:
            await greeter.ask(Greet("Ada"))
    assert caught.value.__cause__ is failure.value


async def test_what_an_actor_takes_is_listed_once_though_a_subclass_was_sent() -> None:
    async with rt.ActorSystem() as system:
        greeter = await system.spawn(Greeter)
        assert await greeter.ask(GreetLoudly("Ada")) == "Hello, Ada"
        with pytest.raises(rt.Unhandled, match=r"it takes Greet$"):
            greeter.tell(Mutter())


@rt.message
class Dawdle(rt.Request[None]):
    pass


class Dawdler(rt.Actor):
    def __init__(self, *, put_off: bool = False) -> None:
        self.put_off = put_off
        self.slots: list[object] = []
        self.done = 0

    @rt.handler
    async def dawdle(self, message: Dawdle) -> None:
        if self.put_off:
            self.slots.append(self.ctx.defer())
            return
        await trio.sleep(10)
        self.done += 1


class Stubborn(Dawdler):
    @rt.handler(shield=True)
    async def dawdle(self, message: Dawdle) -> None:
        await super().dawdle(message)


async def late(dawdler: rt.Ref[Dawdler], *, detached: bool = False) -> str:
    with pytest.raises(rt.AskTimeout) as caught:
        await dawdler.ask(Dawdle(), timeout=1, detached=detached)
    return str(caught.value)


async def test_a_time_out_says_what_becomes_of_a_request_that_is_being_handled(autojump_clock: trio.abc.Clock) -> None:
    async with rt.ActorSystem() as system:
        assert "goes on, for its handler is shielded. The outcome is unknown" in await late(await system.spawn(Stubborn))
        assert "goes on, for it is detached. The outcome is unknown" in await late(await system.spawn(Dawdler), detached=True)
        assert "had been deferred, and was not answered. The outcome is unknown" in await late(await system.spawn(Dawdler, put_off=True))
        assert "was cancelled, the outcome is unknown" in await late(await system.spawn(Dawdler))


async def test_a_time_out_says_not_carried_out_of_no_request_that_still_will_be(autojump_clock: trio.abc.Clock) -> None:
    async with rt.ActorSystem() as system:
        dawdler = await system.spawn(Dawdler)
        dawdler.tell(Dawdle())
        await trio.testing.wait_all_tasks_blocked()
        assert "was withdrawn. It was not carried out" in await late(dawdler)
        text = await late(dawdler, detached=True)
        assert "will be handled all the same, for it is detached. The outcome is unknown" in text
        assert "not carried out" not in text
        await system.wait_quiet(timeout=60)
        assert system.actors()[0].handled == 2


def test_a_system_with_an_illegal_name_is_told_of_its_own_name() -> None:
    with pytest.raises(rt.DefinitionError, match=r"^name='my system': a system's name has 1 to 128 letters"):
        rt.ActorSystem("my system")
    with pytest.raises(rt.DefinitionError, match=r"^name=7: a system's name is a str"):
        rt.ActorSystem(7)


@rt.message
class Wait(rt.Request[None]):
    seconds: float


class Waiter(rt.Actor):
    @rt.handler
    async def wait(self, message: Wait) -> None:
        await trio.sleep(message.seconds)

    @rt.handler
    def greet(self, message: Greet) -> str:
        return message.name


async def test_a_request_that_timed_out_in_the_mailbox_says_what_it_waited_behind(autojump_clock: trio.testing.MockClock) -> None:
    async with rt.ActorSystem(block_warning=math.inf) as system:
        waiter = await system.spawn(Waiter, name="waiter")
        waiter.tell(Wait(100))
        await trio.sleep(1)
        for others, text in (
            (0, "waited behind a Wait that is in progress and was"),
            (1, "behind a Wait that is in progress and 1 other message and was"),
            (2, "behind a Wait that is in progress and 2 other messages and was"),
        ):
            with pytest.raises(rt.AskTimeout) as caught:
                await waiter.ask(Greet("Ada"), timeout=1)
            assert text in str(caught.value), others
            waiter.tell(Wait(0))
        await waiter.stop(grace=0)


async def test_an_ask_that_a_test_leaves_to_a_probe_says_so(autojump_clock: trio.testing.MockClock) -> None:
    async with rt.ActorSystem(block_warning=math.inf) as system:
        probe = await Probe.spawn(system, name="probe")
        with pytest.raises(
            rt.AskTimeout, match=r"is at a probe, and the test has not answered it: probe\.reply\(value\) and probe\.fail\(error\) do"
        ):
            await probe.ref.ask(Greet("Ada"), timeout=1)


async def test_watches_and_dead_letters_show_what_they_know() -> None:
    async with rt.ActorSystem() as system:
        greeter = await system.spawn(Greeter, name="greeter")
        watch = await system.watch(greeter)
        assert repr(watch) == "<Watch /user/greeter: lives>"
        assert repr(system.dead_letters) == "<DeadLetters: none>"
        await greeter.stop()
        await watch.wait()
        assert repr(watch) == "<Watch /user/greeter: ended, stopped>"
        greeter.tell(Greet("Ada"))
        greeter.tell(Greet("Eve"))
        assert repr(system.dead_letters) == "<DeadLetters: 2 stopped>"
