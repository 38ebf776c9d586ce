"""An actor that stops itself: nothing is armed for a handler that is on the stack, and whatever it suspends in after that has the grace and no more."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons


@rt.message
class Leave(rt.Request[int]):
    """Stop, and tell how many deadlines are armed then."""


@rt.message
class Linger(rt.Message):
    """Stop, and do something that never ends."""


class Leaver(rt.Actor):
    @rt.handler
    def leave(self, _: Leave) -> int:
        self.ctx.stop()
        return self.ctx.system.statistics().deadlines

    @rt.handler
    async def linger(self, _: Linger) -> None:
        self.ctx.stop()
        await trio.sleep_forever()


async def ended_after(system: rt.ActorSystem, ref: rt.Ref[Leaver]) -> float:
    began = trio.current_time()
    await (await system.watch(ref)).wait()
    return trio.current_time() - began


@pytest.mark.parametrize("detached", [False, True], ids=["in the asker's task", "by a worker"])
async def test_a_handler_that_is_on_the_stack_needs_no_deadline(detached: bool) -> None:
    async with rt.ActorSystem("leaving") as system:
        before = system.statistics().deadlines
        ref = await system.spawn(Leaver)
        assert await ref.ask(Leave(), detached=detached, timeout=float("inf")) == before
        await ref.stop()
        assert system.statistics().actors == 0
        assert conserved(system)


async def test_a_handler_that_suspends_after_it_has_stopped_its_actor_is_cut_off_when_the_grace_is_over(autojump_clock: MockClock) -> None:
    async with rt.ActorSystem("leaving", grace=7) as system:
        ref = await system.spawn(Leaver)
        ref.tell(Linger())
        assert await ended_after(system, ref) == pytest.approx(7)
        assert reasons(system) == {"cancelled": 1}
        assert conserved(system)


async def test_a_shorter_grace_that_is_asked_for_later_counts_for_it_too(autojump_clock: MockClock) -> None:
    async with rt.ActorSystem("leaving", grace=7) as system:
        ref = await system.spawn(Leaver)
        ref.tell(Linger())
        async with trio.open_nursery() as nursery:
            await trio.sleep(1)
            nursery.start_soon(lambda: ref.stop(grace=1))
            assert await ended_after(system, ref) == pytest.approx(1)
        assert conserved(system)


async def test_the_mail_of_an_actor_that_has_stopped_itself_is_not_handled(autojump_clock: MockClock) -> None:
    async with rt.ActorSystem("leaving") as system:
        ref = await system.spawn(Leaver)
        ref.tell(Leave())
        ref.tell(Linger())
        await (await system.watch(ref)).wait()
        assert reasons(system) == {"stopped": 1}
        assert conserved(system)
