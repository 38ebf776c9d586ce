"""What the ports of one contender have in common: a system of its own for each run, and a place for the result."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import trio

import retinue as rt
from benchmarks.harness import BrokenBlock
from benchmarks.savina.benchmark import Outcome, Port, Size

__all__ = ["MANY", "Answer", "Channel", "in_retinue", "in_trio", "inbox"]

MANY = rt.Mailbox.unbounded()
"""Savina's actors have mailboxes without a bound: where a program floods one, so has ours."""

Channel = trio.MemorySendChannel[Any]
"""The address of an actor that is a bare trio task."""


def inbox() -> tuple[Channel, trio.MemoryReceiveChannel[Any]]:
    """The mailbox of a bare trio task, without a bound, so that sending needs no scheduler pass (`send_nowait`): its fastest."""
    return trio.open_memory_channel[Any](math.inf)


class Answer:
    """Where the last actor puts the result, and whoever started it all waits for it."""

    __slots__ = ("_set", "_value")

    def __init__(self) -> None:
        self._set = trio.Event()
        self._value: Any = None

    def set(self, value: object) -> None:
        self._value = value
        self._set.set()

    async def get(self) -> Any:
        await self._set.wait()
        return self._value


def in_retinue(body: Callable[[rt.ActorSystem, Size], Awaitable[Outcome]]) -> Port:
    """A port for Retinue: every message carries a context and passes the gate, and in the end the system's books must balance."""

    async def main(size: Size) -> Outcome:
        async with rt.ActorSystem("savina", permissions=["savina.**"]) as system:
            outcome = await body(system, size)
            books = system.statistics()
            if books.sent != books.handled + books.dead_letters + books.queued:
                raise BrokenBlock(f"not conserved: {books}")
        return outcome

    return lambda size: trio.run(main, size)


def in_trio(body: Callable[[trio.Nursery, Size], Awaitable[Outcome]]) -> Port:
    """A port for bare trio: a task and a memory channel an actor."""

    async def main(size: Size) -> Outcome:
        async with trio.open_nursery() as nursery:
            outcome = await body(nursery, size)
            nursery.cancel_scope.cancel()
        return outcome

    return lambda size: trio.run(main, size)
