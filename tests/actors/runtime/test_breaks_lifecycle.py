"""Starts, restarts and ends that go wrong in odd ways never take anything down but the actor itself."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons

AT_ONCE = rt.Supervision(backoff=(0, 0))


@rt.message
class Go(rt.Request[int]):
    what: Any = None


@rt.message
class Item(rt.Message):
    key: Any = None


class Innocent(rt.Actor):
    @rt.handler
    def go(self, message: Go) -> int:
        return 1


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked()


class Untold(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


async def test_an_error_without_a_text_ends_its_actor_and_all_are_told() -> None:
    class Odd(rt.Actor):
        @rt.handler
        async def go(self, message: Go) -> int:
            await trio.lowlevel.checkpoint()
            raise Untold

    outcomes: list[str] = []

    async def ask(ref: rt.Ref[Any]) -> None:
        try:
            await ref.ask(Go())
        except Exception as error:
            outcomes.append(type(error).__name__)

    async with rt.ActorSystem("untold") as system:
        ref = await system.spawn(Odd, supervision=rt.Supervision(restart="temporary"))
        watch = await system.watch(ref)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask, ref)
        with trio.fail_after(5):
            assert (await watch.wait()).reason == "failed"
        with pytest.raises(rt.ActorStopped, match="Untold: .no text"):
            await ref.ask(Go())
        assert sorted(outcomes) == ["ActorStopped", "ActorStopped", "Untold"]
        assert conserved(system)
