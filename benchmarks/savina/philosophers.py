"""Dining philosophers: one arbitrator gives the forks, and who is denied them asks again at once."""

from typing import Any

import attrs
import pykka
import trio
import trio.testing

import retinue as rt
from benchmarks.harness import BrokenBlock, Timer
from benchmarks.savina.benchmark import Benchmark, Outcome
from benchmarks.savina.hosts import Answer, Channel, Failures, in_pykka, in_retinue, in_trio, inbox

__all__ = ["PHILOSOPHERS", "Table"]


@attrs.frozen
class Table:
    """N philosophers, M meals each."""

    philosophers: int
    meals: int


class Forks:
    """The arbitrator's forks, the same for each port."""

    __slots__ = ("_used", "meals")

    def __init__(self, count: int) -> None:
        self._used = [False] * count
        self.meals = 0

    def take(self, number: int) -> bool:
        """Both forks of a philosopher, or none."""
        used = self._used
        right = (number + 1) % len(used)
        if used[number] or used[right]:
            return False
        used[number] = used[right] = True
        return True

    def put_back(self, number: int) -> None:
        """After a meal."""
        used = self._used
        right = (number + 1) % len(used)
        if not used[number] or not used[right]:
            raise BrokenBlock(f"philosopher {number} gives back forks that nobody has")
        used[number] = used[right] = False
        self.meals += 1


# -- Retinue ---------------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Start(rt.Message):
    pass


@rt.message
class Hungry(rt.Message):
    number: int


@rt.message
class Done(rt.Message):
    number: int


@rt.message
class Eat(rt.Message):
    pass


@rt.message
class Denied(rt.Message):
    pass


@rt.message
class Left(rt.Message):
    """A philosopher has had all its meals."""


class Arbitrator(rt.Actor):
    def __init__(self, philosophers: int, answer: Answer) -> None:
        self.forks = Forks(philosophers)
        self.left = philosophers
        self.answer = answer

    @rt.handler(requires="savina.eat")
    def hungry(self, message: Hungry) -> None:
        sender = self.ctx.sender
        assert sender is not None
        sender.tell(Eat() if self.forks.take(message.number) else Denied())

    @rt.handler(requires="savina.eat")
    def done(self, message: Done) -> None:
        self.forks.put_back(message.number)

    @rt.handler(requires="savina.eat")
    def leaves(self, _: Left) -> None:
        self.left -= 1
        if not self.left:
            self.answer.set(self.forks.meals)
            self.ctx.stop()


class Philosopher(rt.Actor):
    def __init__(self, number: int, meals: int, arbitrator: rt.Ref[Arbitrator]) -> None:
        self.number = number
        self.meals = meals
        self.arbitrator = arbitrator
        self.retries = 0

    @rt.handler(requires="savina.eat")
    def start(self, _: Start) -> None:
        self.arbitrator.tell(Hungry(self.number))

    @rt.handler(requires="savina.eat")
    def denied(self, _: Denied) -> None:
        self.retries += 1
        self.arbitrator.tell(Hungry(self.number))

    @rt.handler(requires="savina.eat")
    def eat(self, _: Eat) -> None:
        self.meals -= 1
        self.arbitrator.tell(Done(self.number))
        if self.meals:
            self.ctx.ref.tell(Start())
        else:
            self.arbitrator.tell(Left())
            self.ctx.stop()


@in_retinue
async def ours(system: rt.ActorSystem, size: Table) -> Outcome:
    answer = Answer()
    arbitrator = await system.spawn(Arbitrator, size.philosophers, answer)
    refs = [await system.spawn(Philosopher, number, size.meals, arbitrator) for number in range(size.philosophers)]
    with Timer() as timer:
        for ref in refs:
            ref.tell(Start())
        meals = await answer.get()
    return timer, meals


# -- pykka -----------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class PeerHungry:
    number: int
    sender: Any


class PykkaArbitrator(pykka.ThreadingActor):
    def __init__(self, philosophers: int, answer: pykka.Future[int]) -> None:
        super().__init__()
        self.forks = Forks(philosophers)
        self.left = philosophers
        self.answer = answer

    def on_receive(self, message: object) -> None:
        if isinstance(message, PeerHungry):
            message.sender.tell(Eat() if self.forks.take(message.number) else Denied())
        elif isinstance(message, Done):
            self.forks.put_back(message.number)
        else:
            self.left -= 1
            if not self.left:
                self.answer.set(self.forks.meals)
                self.stop()


class PykkaPhilosopher(pykka.ThreadingActor):
    def __init__(self, number: int, meals: int, arbitrator: pykka.ActorRef[Any]) -> None:
        super().__init__()
        self.number = number
        self.meals = meals
        self.arbitrator = arbitrator
        self.retries = 0

    def on_receive(self, message: object) -> None:
        if isinstance(message, Denied):
            self.retries += 1
            self.arbitrator.tell(PeerHungry(self.number, self.actor_ref))
        elif isinstance(message, Start):
            self.arbitrator.tell(PeerHungry(self.number, self.actor_ref))
        elif isinstance(message, Eat):
            self.meals -= 1
            self.arbitrator.tell(Done(self.number))
            if self.meals:
                self.actor_ref.tell(Start())
            else:
                self.arbitrator.tell(Left())
                self.stop()


@in_pykka
def with_pykka(failures: Failures, size: Table) -> Outcome:
    answer: pykka.Future[int] = pykka.ThreadingFuture()
    arbitrator = PykkaArbitrator.start(size.philosophers, answer)
    refs = [PykkaPhilosopher.start(number, size.meals, arbitrator) for number in range(size.philosophers)]
    with Timer() as timer:
        for ref in refs:
            ref.tell(Start())
        meals = failures.result_of(answer)
    return timer, meals


# -- trio ------------------------------------------------------------------------------------------------------------------------------------------


async def serve_arbitrator(messages: trio.MemoryReceiveChannel[Any], philosophers: int, answer: Answer) -> None:
    forks = Forks(philosophers)
    left = philosophers
    async for message in messages:
        if isinstance(message, PeerHungry):
            message.sender.send_nowait(Eat() if forks.take(message.number) else Denied())
        elif isinstance(message, Done):
            forks.put_back(message.number)
        else:
            left -= 1
            if not left:
                answer.set(forks.meals)
                return


async def serve_philosopher(this: Channel, messages: trio.MemoryReceiveChannel[Any], number: int, meals: int, arbitrator: Channel) -> None:
    retries = 0
    async for message in messages:
        if isinstance(message, Denied):
            retries += 1
            arbitrator.send_nowait(PeerHungry(number, this))
        elif isinstance(message, Start):
            arbitrator.send_nowait(PeerHungry(number, this))
        elif isinstance(message, Eat):
            meals -= 1
            arbitrator.send_nowait(Done(number))
            if meals:
                this.send_nowait(Start())
            else:
                arbitrator.send_nowait(Left())
                return


@in_trio
async def with_trio(nursery: trio.Nursery, size: Table) -> Outcome:
    answer = Answer()
    arbitrator, asked = inbox()
    nursery.start_soon(serve_arbitrator, asked, size.philosophers, answer)
    channels = []
    for number in range(size.philosophers):
        channel, messages = inbox()
        nursery.start_soon(serve_philosopher, channel, messages, number, size.meals, arbitrator)
        channels.append(channel)
    await trio.testing.wait_all_tasks_blocked()
    with Timer() as timer:
        for channel in channels:
            channel.send_nowait(Start())
        meals = await answer.get()
    return timer, meals


PHILOSOPHERS = Benchmark(
    name="philosophers",
    title="Dining philosophers",
    unit="meals",
    how="20 philosophers at one table, M meals each. One arbitrator gives both forks, or denies them, and then the philosopher asks again at once: how often "
    "that happens is up to the scheduler, and part of what is measured. Checked: no fork is used twice at once, and all meals were had.",
    operations=lambda size: size.philosophers * size.meals,
    expected=lambda size: size.philosophers * size.meals,
    full=Table(20, 500),
    quick=Table(20, 50),
    tiny=Table(5, 5),
    ports={"retinue": ours, "pykka": with_pykka, "trio": with_trio},
)
