"""What an adversary found in asks: loops that never let go, exceptions that misbehave, answers given before the end, orders that came too early."""

from typing import Any

import pytest
import trio
import trio.testing

import retinue as rt

ROUNDS = 3_000_000
"""More than fit into the time of a test that is never cancelled: then it fails instead of hanging."""


@rt.message
class Do(rt.Request[int]):
    how: str = ""


@rt.message
class Note(rt.Message):
    pass


class Anything(rt.Actor):
    @rt.handler(raises=LookupError)
    def do(self, message: Do) -> int:
        if message.how == "reject":
            raise rt.Reject("no")
        return 1

    @rt.handler
    def note(self, message: Note) -> None:
        pass


@pytest.mark.parametrize("shape", ["ask and tell", "rejected", "stopped", "spawn", "unhandled"])
async def test_a_loop_that_never_has_to_wait_can_be_cancelled_all_the_same(shape: str) -> None:
    async with rt.ActorSystem("loops") as system:
        one, other, gone = [await system.spawn(Anything) for _ in range(3)]
        await gone.stop()
        with trio.move_on_after(0.05) as scope:
            for _ in range(ROUNDS):
                if shape == "ask and tell":
                    await one.ask(Do())
                    other.tell(Note())
                elif shape == "spawn":
                    await system.spawn(Anything)
                else:
                    with pytest.raises((rt.Reject, rt.ActorStopped, rt.Unhandled)):
                        await (gone if shape == "stopped" else one).ask(3 if shape == "unhandled" else Do("reject"))  # type: ignore[call-overload]
        assert scope.cancelled_caught


class Derives(ExceptionGroup[Exception]):
    def derive(self, excs: Any) -> Any:
        raise RuntimeError("no derivation")


class Splits(ExceptionGroup[Exception]):
    def split(self, *_: Any) -> Any:
        raise RuntimeError("no split")


class Disguised(Exception):
    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")


def _deep() -> BaseException:
    error: Exception = ValueError("bottom")
    for _ in range(5000):
        error = ExceptionGroup("deeper", [error])
    return error


class Thrower(rt.Actor):
    def __init__(self, make: Any) -> None:
        self.make = make
        self.count = 0

    @rt.handler
    def do(self, message: Do) -> int:
        if message.how == "throw":
            raise self.make()
        self.count += 1
        return self.count


@pytest.mark.parametrize(
    "make",
    [lambda: Derives("d", [ValueError("v")]), lambda: Splits("s", [ValueError("v")]), lambda: Disguised("x"), _deep],
    ids=["derive", "split", "class", "deep"],
)
@pytest.mark.parametrize("inline", [True, False])
async def test_an_exception_that_misbehaves_fails_its_actor_and_nothing_else(make: Any, inline: bool) -> None:
    async with rt.ActorSystem("odd") as system:
        ref = await system.spawn(Thrower, make)
        assert await ref.ask(Do()) == 1
        caught: BaseException | None = None
        try:
            await ref.ask(Do("throw"), detached=not inline)
        except Exception as error:
            caught = error
        assert type(caught) is type(make())
        assert await ref.ask(Do()) == 1  # restarted, and it answers
        statistics = system.statistics()
        assert statistics.sent == statistics.handled + statistics.dead_letters + statistics.queued


async def test_a_group_that_mixes_a_cancellation_with_a_failure_and_cannot_be_split_is_a_failure(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Mixed(rt.Actor):
        @rt.handler
        async def do(self, message: Do) -> int:
            try:
                await trio.sleep(100)
            except trio.Cancelled as cancelled:
                raise BaseExceptionGroup("mixed", [cancelled, Splits("s", [ValueError("v")])]) from None
            return 1

    async with rt.ActorSystem("odd") as system:
        ref = await system.spawn(Mixed)
        with pytest.raises(rt.AskTimeout):
            await ref.ask(Do(), timeout=1)
        assert [actor.failures for actor in system.actors()] == [1]


class Answerer(rt.Actor):
    @rt.handler
    async def do(self, message: Do) -> int:
        assert self.ctx.defer().reply(42)
        if message.how == "raise":
            raise rt.Reject("too late")
        await trio.sleep(100)
        return 7


@pytest.mark.parametrize("how", ["raise", "sleep"])
@pytest.mark.parametrize("inline", [True, False])
async def test_an_answer_that_was_given_is_the_answer_whatever_the_handler_does_then(
    how: str, inline: bool, autojump_clock: trio.testing.MockClock
) -> None:
    async with rt.ActorSystem("answers") as system:
        ref = await system.spawn(Answerer)
        assert await ref.ask(Do(how), timeout=5, detached=not inline) == 42


async def test_a_turn_does_not_hold_on_to_all_errors_that_it_ever_received() -> None:
    class Resident(rt.Actor):
        def __init__(self, target: rt.Ref[Anything]) -> None:
            self.target = target
            self.done = trio.Event()
            self.held = 0

        async def run(self) -> None:
            for _ in range(2000):
                with pytest.raises(rt.Reject):
                    await self.target.ask(Do("reject"))
            from retinue.actors.runtime.current import current

            self.held = len(current().received)
            self.done.set()

        @rt.handler
        async def do(self, message: Do) -> int:
            await self.done.wait()
            return self.held

    async with rt.ActorSystem("received") as system:
        ref = await system.spawn(Resident, await system.spawn(Anything))
        assert 0 < await ref.ask(Do()) <= 256


async def test_a_stop_ordered_while_the_handler_was_on_the_stack_cuts_it_when_it_suspends(autojump_clock: trio.testing.MockClock) -> None:
    refs: list[rt.Ref[Any]] = []

    class Stopper(rt.Actor):
        @rt.handler
        async def do(self, message: Do) -> int:
            self.ctx.start_soon(self.stop_asker)
            return 1

        async def stop_asker(self) -> None:
            await refs[0].stop(grace=0)

    class Asker(rt.Actor):
        @rt.handler
        async def do(self, message: Do) -> int:
            from retinue.actors.runtime import lifecycle

            await refs[1].ask(Do())
            lifecycle.request_stop(refs[0]._cell, rt.StopReason.STOPPED, None, 0)  # as the stopper does, but before the first suspension
            await trio.sleep(1000)
            return 2

    async with rt.ActorSystem("stops") as system:
        refs.extend([await system.spawn(Asker), await system.spawn(Stopper)])
        began = trio.current_time()
        with pytest.raises(rt.ActorStopped):
            await refs[0].ask(Do(), timeout=float("inf"))
        assert trio.current_time() - began < 1


@rt.message
class Along(rt.Request[int]):
    left: int


class Link(rt.Actor):
    """Asks the next one, and the last one never answers."""

    def __init__(self, others: list[Any]) -> None:
        self.others = others

    @rt.handler
    async def along(self, message: Along) -> int:
        await trio.lowlevel.checkpoint()
        if message.left:
            return int(await self.others[message.left - 1].ask(Along(message.left - 1), timeout=600))
        await trio.sleep_forever()
        raise AssertionError


@pytest.mark.parametrize("way", ["leave", "time-out", "stop"])
async def test_a_chain_of_askers_of_any_length_ends_when_its_first_asker_leaves(way: str) -> None:
    links: list[Any] = []
    async with rt.ActorSystem("chain", grace=0.1) as system:
        links.extend([await system.spawn(Link, links) for _ in range(300)])
        if way == "time-out":
            with pytest.raises(rt.AskTimeout):
                await links[-1].ask(Along(299), timeout=0.3)
        elif way == "leave":
            with trio.move_on_after(0.3) as scope:
                await links[-1].ask(Along(299), timeout=600)
            assert scope.cancelled_caught
        else:
            async with trio.open_nursery() as nursery:

                async def ask() -> None:
                    with pytest.raises(rt.ActorStopped):
                        await links[-1].ask(Along(299), timeout=600)

                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                await links[-1].stop(grace=0)
        with trio.fail_after(5):
            await system.wait_quiet()
