"""Branches of a team's run that go on at the same time, each with steps of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import trio

from retinue.actors.agents.teams.journal import Branch, Parking, branch_in_force
from retinue.actors.runtime.current import current
from retinue.actors.runtime.cycles import turn_one_away
from retinue.actors.runtime.listening import FromChildren

__all__ = ["Failure", "at_once_in_order"]

ROOM: Final = 64
"""Events of the branches that wait for the reader; then the branches wait."""


class Failure:
    """An error of one branch, in the place of its value."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


class _Outlet:
    """What branches tell the reader, on its way through the task that has begun them."""

    __slots__ = ("_room", "_waiting", "told")

    def __init__(self) -> None:
        self.told = FromChildren()
        self._waiting = 0
        self._room = trio.Event()

    async def give(self, event: Any) -> None:
        """Called by branches. Waits while there is no room."""
        while self._waiting >= ROOM:
            await self._room.wait()
        self._waiting += 1
        self.told.put(event)

    def taken(self) -> None:
        """One more is on its way."""
        self._waiting -= 1
        room, self._room = self._room, trio.Event()
        room.set()


async def at_once_in_order(
    run: Any, outer: Branch, functions: Sequence[Callable[[], Awaitable[Any]]], at_once: int, say: Callable[[Any], Awaitable[None]]
) -> list[Any]:
    """What the functions give, in their order: a value, a Failure, or Parking. They are begun in their order, so many at the same time."""
    number = outer.next()
    outcomes: list[Any] = [None] * len(functions)
    left = iter(range(len(functions)))
    outlet = _Outlet()
    told = outlet.told

    async def work() -> None:
        try:
            for index in left:
                branch_in_force.set(Branch(run, (*number, index), outlet.give))
                try:
                    outcomes[index] = await functions[index]()
                except Parking as parking:
                    outcomes[index] = parking
                except Exception as error:
                    outcomes[index] = Failure(error)
        finally:
            told.put(None)

    workers = min(at_once, len(functions))
    with told:
        async with trio.open_nursery() as nursery:
            for _ in range(workers):
                nursery.start_soon(work)
            while workers:
                event = await told.get()
                if event is None:
                    workers -= 1
                    if workers:
                        turn_one_away(current())
                else:
                    outlet.taken()
                    await say(event)
    return outcomes
