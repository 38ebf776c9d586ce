"""Fork-join, throughput and creation: messages from outside to many actors, and many actors with one message each."""

from typing import Any

import attrs
import pykka
import trio

import retinue as rt
from benchmarks.harness import Timer
from benchmarks.savina.arithmetic import sine_squared
from benchmarks.savina.benchmark import Benchmark, Outcome
from benchmarks.savina.hosts import Answer, Failures, in_pykka, in_retinue, in_trio, inbox

__all__ = ["CREATE", "THROUGHPUT", "Actors", "Throughput"]


@attrs.frozen
class Throughput:
    """N messages to each of A actors."""

    messages: int
    actors: int


@attrs.frozen
class Actors:
    """N."""

    actors: int


# -- Retinue ---------------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Work(rt.Message):
    pass


class Tally:
    """Counts what the actors of one system (one thread) have done; the last one opens the answer."""

    __slots__ = ("answer", "count", "left")

    def __init__(self, actors: int) -> None:
        self.answer = Answer()
        self.count = 0
        self.left = actors

    def done(self, count: int) -> None:
        self.count += count
        self.left -= 1
        if not self.left:
            self.answer.set(self.count)


class Worker(rt.Actor):
    """Ends after so many messages."""

    def __init__(self, tally: Tally, messages: int) -> None:
        self.tally = tally
        self.messages = messages
        self.count = 0

    @rt.handler(requires="savina.work")
    def work(self, _: Work) -> None:
        sine_squared()
        self.count += 1
        if self.count == self.messages:
            self.tally.done(self.count)
            self.ctx.stop()


async def all_ended(system: rt.ActorSystem) -> None:
    while system.statistics().actors:
        await trio.lowlevel.checkpoint()


@in_retinue
async def our_throughput(system: rt.ActorSystem, size: Throughput) -> Outcome:
    tally = Tally(size.actors)
    refs = [await system.spawn(Worker, tally, size.messages) for _ in range(size.actors)]
    with Timer() as timer:
        for _ in range(size.messages):
            for ref in refs:
                ref.tell(Work())
        count = await tally.answer.get()
        await all_ended(system)
    return timer, count


@in_retinue
async def our_create(system: rt.ActorSystem, size: Actors) -> Outcome:
    tally = Tally(size.actors)
    with Timer() as timer:
        for _ in range(size.actors):
            ref = await system.spawn(Worker, tally, 1)
            ref.tell(Work())
        count = await tally.answer.get()
        await all_ended(system)
    return timer, count


# -- pykka -----------------------------------------------------------------------------------------------------------------------------------------


class PykkaWorker(pykka.ThreadingActor):
    def __init__(self, messages: int, counts: list[int]) -> None:
        super().__init__()
        self.messages = messages
        self.counts = counts
        self.count = 0

    def on_receive(self, message: object) -> None:
        if isinstance(message, Work):
            sine_squared()
            self.count += 1
            if self.count == self.messages:
                self.counts.append(self.count)  # atomic
                self.stop()


@in_pykka
def pykka_throughput(failures: Failures, size: Throughput) -> Outcome:
    counts: list[int] = []
    refs = [PykkaWorker.start(size.messages, counts) for _ in range(size.actors)]
    with Timer() as timer:
        for _ in range(size.messages):
            for ref in refs:
                ref.tell(Work())
        failures.ended(refs)
    return timer, sum(counts)


@in_pykka
def pykka_create(failures: Failures, size: Actors) -> Outcome:
    counts: list[int] = []
    refs = []
    with Timer() as timer:
        for _ in range(size.actors):
            ref = PykkaWorker.start(1, counts)
            ref.tell(Work())
            refs.append(ref)
        failures.ended(refs)
    return timer, sum(counts)


# -- trio ------------------------------------------------------------------------------------------------------------------------------------------


async def serve_worker(messages: trio.MemoryReceiveChannel[Any], tally: Tally, most: int) -> None:
    count = 0
    async for message in messages:
        if isinstance(message, Work):
            sine_squared()
            count += 1
            if count == most:
                tally.done(count)
                return


@in_trio
async def trio_throughput(_: trio.Nursery, size: Throughput) -> Outcome:
    tally = Tally(size.actors)
    channels = []
    async with trio.open_nursery() as nursery:
        for _number in range(size.actors):
            channel, messages = inbox()
            nursery.start_soon(serve_worker, messages, tally, size.messages)
            channels.append(channel)
        timer = Timer()
        timer.start()
        for _number in range(size.messages):
            for channel in channels:
                channel.send_nowait(Work())
    timer.stop()
    return timer, tally.count


AT_ONCE = 16
"""Tasks that are made before those there are get their turn: with fewer or more of them, or with all of them at once, it takes longer."""


@in_trio
async def trio_create(_: trio.Nursery, size: Actors) -> Outcome:
    tally = Tally(size.actors)
    with Timer() as timer:
        async with trio.open_nursery() as nursery:
            for number in range(size.actors):
                channel, messages = inbox()
                nursery.start_soon(serve_worker, messages, tally, 1)
                channel.send_nowait(Work())
                if not number % AT_ONCE:
                    await trio.lowlevel.checkpoint()
    return timer, tally.count


THROUGHPUT = Benchmark(
    name="fork-join-throughput",
    title="Fork-join, throughput",
    unit="messages",
    how="From outside, N messages to each of 60 actors, by turns; each squares a sine a message, and ends after N. Timed until all have ended, with what "
    "they counted for the check.",
    operations=lambda size: size.messages * size.actors,
    expected=lambda size: size.messages * size.actors,
    full=Throughput(1_000, 60),
    quick=Throughput(100, 60),
    tiny=Throughput(5, 6),
    ports={"retinue": our_throughput, "pykka": pykka_throughput, "trio": trio_throughput},
)

CREATE = Benchmark(
    name="fork-join-create",
    title="Fork-join, creation",
    unit="actors",
    how="An actor is made and gets one message, upon which it squares a sine and ends; then the next one. Timed until all have ended, with what they "
    "counted for the check.",
    operations=lambda size: size.actors,
    expected=lambda size: size.actors,
    full=Actors(40_000),
    quick=Actors(4_000),
    tiny=Actors(10),
    ports={"retinue": our_create, "pykka": pykka_create, "trio": trio_create},
    smaller={"pykka": Actors(2_000), "autogen-core": Actors(1_000), "xoscar": Actors(1_000)},
    notes={
        "autogen-core": "agents never end, and each one's answer is awaited before the next is made",
        "xoscar": "each actor's answer and end are awaited before the next is made",
    },
)
