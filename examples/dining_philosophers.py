"""Dining philosophers: five of them, five forks, and each needs two to eat.

Shows: a fork as an actor that answers later (`ctx.defer`), why an agreed order of the forks lets everybody eat, and what becomes of actors
that ask each other in a ring: the ask that would close it fails at once, with the ring in its text.
Run:   python examples/dining_philosophers.py
"""

from typing import Any

import trio

import retinue as rt

NAMES = ["Arendt", "Berkeley", "Confucius", "Descartes", "Epicurus"]


@rt.message
class Take(rt.Request[None]):
    """Ask for a fork; the answer comes when it is free."""


@rt.message
class PutBack(rt.Message):
    """Give the fork back."""


class Fork(rt.Actor):
    """Lies on the table, or is in somebody's hand."""

    def __init__(self) -> None:
        self.taken = False
        self.waiting: list[Any] = []  # what ctx.defer() gave

    @rt.handler
    def take(self, message: Take) -> None:
        if self.taken:
            self.waiting.append(self.ctx.defer())  # no answer yet; the fork goes on with its next message
        self.taken = True

    @rt.handler
    def put_back(self, message: PutBack) -> None:
        while self.waiting:
            if self.waiting.pop(0).reply(None):  # False: that philosopher does not wait any longer
                return
        self.taken = False


@rt.message
class Dine(rt.Request[int]):
    """Eat so many meals; the answer is how many were eaten."""

    meals: int


class Philosopher(rt.Actor):
    """Takes two forks, the one that comes first on the table first. So all take them in the same order, and no ring can close."""

    def __init__(self, first: rt.Ref[Fork], second: rt.Ref[Fork]) -> None:
        self.first, self.second = first, second

    @rt.handler
    async def dine(self, message: Dine) -> int:
        for _ in range(message.meals):
            await self.first.ask(Take())
            await self.second.ask(Take())
            await trio.sleep(0.001)  # eat
            self.second.tell(PutBack())
            self.first.tell(PutBack())
        return message.meals


@rt.message
class Sit(rt.Message):
    """Get to know the neighbour."""

    neighbour: rt.Ref["Polite"]


@rt.message
class MayIEat(rt.Request[bool]):
    """Ask for leave to eat."""


class Polite(rt.Actor):
    """Eats only with the neighbour's leave, who has to ask the next one first, and so on around the table."""

    @rt.handler
    def sit(self, message: Sit) -> None:
        self.neighbour = message.neighbour

    @rt.handler(raises=rt.AskCycle)  # an answer: nobody is restarted for it
    async def may_i_eat(self, message: MayIEat) -> bool:
        return await self.neighbour.ask(MayIEat())


async def main() -> None:
    async with rt.ActorSystem("table") as system:
        forks = [await system.spawn(Fork, name=f"fork-{number}") for number in range(5)]
        pairs = [sorted([number, (number + 1) % 5]) for number in range(5)]
        philosophers = [await system.spawn(Philosopher, forks[a], forks[b], name=name) for name, (a, b) in zip(NAMES, pairs, strict=True)]

        async def dine(philosopher: rt.Ref[Philosopher]) -> None:
            eaten = await philosopher.ask(Dine(meals=20))
            print(f"{philosopher.path} has eaten {eaten} times")

        async with trio.open_nursery() as nursery:
            for philosopher in philosophers:
                nursery.start_soon(dine, philosopher)

        polite = [await system.spawn(Polite, name=f"polite-{name}") for name in NAMES[:3]]
        for index, ref in enumerate(polite):
            ref.tell(Sit(polite[(index + 1) % 3]))
        try:
            await polite[0].ask(MayIEat())
        except rt.AskCycle as error:
            print(error)


if __name__ == "__main__":
    rt.run(main)
