"""Big: many to many. Each worker pings a random one (itself, perhaps), waits for its pong, and pings the next."""

from typing import Any

import attrs
import pykka
import trio
import trio.testing

import retinue as rt
from benchmarks.harness import BrokenBlock, Timer
from benchmarks.savina.arithmetic import PseudoRandom
from benchmarks.savina.benchmark import Benchmark, Outcome
from benchmarks.savina.hosts import Answer, Channel, Failures, in_pykka, in_retinue, in_trio, inbox

__all__ = ["BIG", "Everybody"]


@attrs.frozen
class Everybody:
    """W workers, N pings each."""

    workers: int
    pings: int


def check(expected: int, got: int) -> None:
    """A pong comes from the one that was pinged."""
    if got != expected:
        raise BrokenBlock(f"a pong came from {got}, and {expected} was pinged")


# -- Retinue ---------------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Neighbours(rt.Message):
    refs: tuple[rt.Ref[Any], ...]


@rt.message
class Ping(rt.Message):
    sender: int


@rt.message
class Pong(rt.Message):
    sender: int


@rt.message
class Finished(rt.Message):
    pings: int


@rt.message
class Exit(rt.Message):
    pass


class Sink(rt.Actor):
    """Hears from each worker when it has done its pings, and then ends them all."""

    def __init__(self, workers: int, answer: Answer) -> None:
        self.left = workers
        self.answer = answer
        self.pings = 0
        self.refs: tuple[rt.Ref[Any], ...] = ()

    @rt.handler(requires="savina.ping")
    def neighbours(self, message: Neighbours) -> None:
        self.refs = message.refs

    @rt.handler(requires="savina.ping")
    def finished(self, message: Finished) -> None:
        self.pings += message.pings
        self.left -= 1
        if not self.left:
            for ref in self.refs:
                ref.tell(Exit())
            self.answer.set(self.pings)
            self.ctx.stop()


class Worker(rt.Actor):
    def __init__(self, number: int, pings: int, sink: rt.Ref[Sink]) -> None:
        self.number = number
        self.most = pings
        self.sink = sink
        self.sent = 0
        self.expected = -1
        self.random = PseudoRandom(number)
        self.refs: tuple[rt.Ref[Any], ...] = ()

    @rt.handler(requires="savina.ping")
    def neighbours(self, message: Neighbours) -> None:
        self.refs = message.refs

    @rt.handler(requires="savina.ping")
    def ping(self, message: Ping) -> None:
        self.refs[message.sender].tell(Pong(self.number))

    @rt.handler(requires="savina.ping")
    def pong(self, message: Pong) -> None:
        check(self.expected, message.sender)
        if self.sent < self.most:
            self.sent += 1
            self.expected = self.random.below(len(self.refs))
            self.refs[self.expected].tell(Ping(self.number))
        else:
            self.sink.tell(Finished(self.sent))

    @rt.handler(requires="savina.ping")
    def exit(self, _: Exit) -> None:
        self.ctx.stop()


@in_retinue
async def ours(system: rt.ActorSystem, size: Everybody) -> Outcome:
    answer = Answer()
    sink = await system.spawn(Sink, size.workers, answer)
    refs = tuple([await system.spawn(Worker, number, size.pings, sink) for number in range(size.workers)])
    for ref in (sink, *refs):
        ref.tell(Neighbours(refs))
    await trio.testing.wait_all_tasks_blocked()
    with Timer() as timer:
        for ref in refs:
            ref.tell(Pong(-1))  # as the original begins
        pings = await answer.get()
    return timer, pings


# -- pykka -----------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class PeerNeighbours:
    refs: tuple[Any, ...]


class PykkaSink(pykka.ThreadingActor):
    def __init__(self, workers: int, answer: pykka.Future[int]) -> None:
        super().__init__()
        self.left = workers
        self.answer = answer
        self.pings = 0
        self.refs: tuple[Any, ...] = ()

    def on_receive(self, message: object) -> None:
        if isinstance(message, Finished):
            self.pings += message.pings
            self.left -= 1
            if not self.left:
                for ref in self.refs:
                    ref.tell(Exit())
                self.answer.set(self.pings)
                self.stop()
        elif isinstance(message, PeerNeighbours):
            self.refs = message.refs


class PykkaWorker(pykka.ThreadingActor):
    def __init__(self, number: int, pings: int, sink: pykka.ActorRef[Any]) -> None:
        super().__init__()
        self.number = number
        self.most = pings
        self.sink = sink
        self.sent = 0
        self.expected = -1
        self.random = PseudoRandom(number)
        self.refs: tuple[Any, ...] = ()

    def on_receive(self, message: object) -> None:
        if isinstance(message, Ping):
            self.refs[message.sender].tell(Pong(self.number))
        elif isinstance(message, Pong):
            check(self.expected, message.sender)
            if self.sent < self.most:
                self.sent += 1
                self.expected = self.random.below(len(self.refs))
                self.refs[self.expected].tell(Ping(self.number))
            else:
                self.sink.tell(Finished(self.sent))
        elif isinstance(message, PeerNeighbours):
            self.refs = message.refs
        else:
            self.stop()


@in_pykka
def with_pykka(failures: Failures, size: Everybody) -> Outcome:
    answer: pykka.Future[int] = pykka.ThreadingFuture()
    sink = PykkaSink.start(size.workers, answer)
    refs = tuple([PykkaWorker.start(number, size.pings, sink) for number in range(size.workers)])
    for ref in (sink, *refs):
        ref.tell(PeerNeighbours(refs))
    with Timer() as timer:
        for ref in refs:
            ref.tell(Pong(-1))
        pings = failures.result_of(answer)
    failures.ended(refs)
    return timer, pings


# -- trio ------------------------------------------------------------------------------------------------------------------------------------------


async def serve_sink(messages: trio.MemoryReceiveChannel[Any], channels: list[Channel], answer: Answer) -> None:
    left, pings = len(channels), 0
    async for message in messages:
        if isinstance(message, Finished):
            pings += message.pings
            left -= 1
            if not left:
                for channel in channels:
                    channel.send_nowait(Exit())
                answer.set(pings)
                return


async def serve_worker(number: int, messages: trio.MemoryReceiveChannel[Any], most: int, channels: list[Channel], sink: Channel) -> None:
    sent, expected, random = 0, -1, PseudoRandom(number)
    async for message in messages:
        if isinstance(message, Ping):
            channels[message.sender].send_nowait(Pong(number))
        elif isinstance(message, Pong):
            check(expected, message.sender)
            if sent < most:
                sent += 1
                expected = random.below(len(channels))
                channels[expected].send_nowait(Ping(number))
            else:
                sink.send_nowait(Finished(sent))
        else:
            return


@in_trio
async def with_trio(nursery: trio.Nursery, size: Everybody) -> Outcome:
    answer = Answer()
    sink, sunk = inbox()
    boxes = [inbox() for _ in range(size.workers)]
    channels = [channel for channel, _ in boxes]
    nursery.start_soon(serve_sink, sunk, channels, answer)
    for number, (_, messages) in enumerate(boxes):
        nursery.start_soon(serve_worker, number, messages, size.pings, channels, sink)
    await trio.testing.wait_all_tasks_blocked()
    with Timer() as timer:
        for channel in channels:
            channel.send_nowait(Pong(-1))
        pings = await answer.get()
    return timer, pings


BIG = Benchmark(
    name="big",
    title="Big",
    unit="pings",
    how="120 workers, each with a ping to a random one on its way, N of them one after the other. Checked: who answers, and how many there were.",
    operations=lambda size: size.workers * size.pings,
    expected=lambda size: size.workers * size.pings,
    full=Everybody(120, 200),
    quick=Everybody(120, 20),
    tiny=Everybody(4, 5),
    ports={"retinue": ours, "pykka": with_pykka, "trio": with_trio},
)
