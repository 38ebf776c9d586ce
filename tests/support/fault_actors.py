"""Actors that faults are injected at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import trio

import retinue as rt


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
