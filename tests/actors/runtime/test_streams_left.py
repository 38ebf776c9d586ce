"""Leaving a stream early is no mishap: nothing is logged of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import retinue as rt


@rt.message
class Count(rt.Stream[int]):
    fails: bool = False


class Counter(rt.Actor):
    @rt.handler(raises=ValueError)
    async def count(self, message: Count) -> AsyncIterator[int]:
        try:
            for number in range(100):
                yield number
        finally:
            if message.fails:
                raise ValueError("on the way out")


class Front(rt.Actor):
    def __init__(self, back: rt.Ref[Counter]) -> None:
        self.back = back

    @rt.handler(forwards=True)
    def count(self, message: Count) -> None:
        self.ctx.forward(self.back, message)


@pytest.mark.parametrize("forwarded", [False, True])
@pytest.mark.parametrize("fails", [False, True])
async def test_a_reader_that_leaves_early_leaves_no_dead_letter_behind(forwarded: bool, fails: bool) -> None:
    async with rt.ActorSystem("left") as system:
        counter = await system.spawn(Counter)
        ref = await system.spawn(Front, counter) if forwarded else counter
        async with ref.stream(Count(fails), window=1) as numbers:
            async for number in numbers:
                if number == 3:
                    break
        await system.wait_quiet()
        assert system.dead_letters.counts["late_reply"] == 0
        assert [number async for number in _some(counter)] == [0, 1, 2]  # and it takes the next one


async def _some(counter: rt.Ref[Counter]) -> AsyncIterator[int]:
    async with counter.stream(Count()) as numbers:
        async for number in numbers:
            if number == 3:
                return
            yield number
