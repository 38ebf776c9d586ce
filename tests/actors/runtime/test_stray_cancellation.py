"""What must never leave an actor's code, a Cancelled of somebody else's scope or a GeneratorExit, is a failure of that actor: the others go on and stop in order."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved


@rt.message
class Go(rt.Request[str]):
    pass


async def stray() -> None:
    """Raises a Cancelled whose scope is over."""
    kept: BaseException | None = None
    with trio.move_on_after(0.01):
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            kept = cancelled
    assert kept is not None
    raise kept


async def stray_at_once() -> None:
    """The same, without a suspension."""
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            kept = cancelled
    raise kept


async def stray_in_a_group() -> None:
    try:
        await stray()
    except trio.Cancelled as cancelled:
        raise BaseExceptionGroup("several", [cancelled]) from None


async def generator_exit() -> None:
    await trio.sleep(0.01)
    raise GeneratorExit


class Good(rt.Actor):
    """Says how it ended."""

    def __init__(self, said: list[str]) -> None:
        self.said = said

    async def on_stop(self, reason: rt.StopReason) -> None:
        await trio.lowlevel.checkpoint()
        self.said.append(str(reason))


class Bad(rt.Actor):
    """Does something odd in one place."""

    def __init__(self, place: str, odd: Callable[[], Awaitable[None]], starts: list[int]) -> None:
        self.place = place
        self.odd = odd
        self.starts = starts

    async def on_start(self) -> None:
        self.starts.append(1)
        if self.place == "on_start" or (self.place == "on_start again" and len(self.starts) > 1):
            await self.odd()

    async def run(self) -> None:
        if self.place == "run":
            await self.odd()

    @rt.handler
    async def go(self, message: Go) -> str:
        if self.place == "a handler":
            await self.odd()
        if self.place == "an own task":
            self.ctx.start_soon(self.odd)
        if self.place in ("on_start again", "on_stop of a restart"):
            raise ValueError("restart me")
        return "done"

    async def on_stop(self, reason: rt.StopReason) -> None:
        if self.place == "on_stop" or (self.place == "on_stop of a restart" and reason is rt.StopReason.RESTART):
            await self.odd()


@pytest.mark.parametrize("odd", [stray, stray_at_once, stray_in_a_group, generator_exit])
@pytest.mark.parametrize("place", ["on_start", "on_start again", "run", "a handler", "an own task", "on_stop", "on_stop of a restart"])
async def test_what_must_not_leave_an_actor_leaves_the_others_alone(
    place: str, odd: Callable[[], Awaitable[None]], autojump_clock: MockClock
) -> None:
    said: list[str] = []
    with trio.fail_after(100):
        async with rt.ActorSystem(block_warning=math.inf) as system:
            good = await system.spawn(Good, said)
            if place == "on_start":
                with pytest.raises(RuntimeError):
                    await system.spawn(Bad, place, odd, [])
            else:
                bad = await system.spawn(Bad, place, odd, [])
                for _ in range(3):
                    with contextlib.suppress(ValueError, RuntimeError, rt.AskCancelled, rt.ActorStopped, rt.AskTimeout):
                        await bad.ask(Go(), timeout=1)
                    bad.tell(Go())
                    await trio.sleep(0.1)
            assert good.alive and said == []
        assert said == ["system_closed"]
        assert conserved(system)


async def test_who_asks_is_not_cancelled_by_the_stray_cancellation_of_a_handler() -> None:
    async with rt.ActorSystem(block_warning=math.inf) as system:
        for odd in (stray, stray_at_once, stray_in_a_group):
            ref = await system.spawn(Bad, "a handler", odd, [])
            with pytest.raises(rt.AskCancelled):
                await ref.ask(Go())
            assert ref.alive
