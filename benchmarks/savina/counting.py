"""Counting: one actor floods another from within one handler, and then asks it how many came."""

from typing import Any

import attrs
import pykka
import trio

import retinue as rt
from benchmarks.harness import Timer
from benchmarks.savina.benchmark import Benchmark, Outcome
from benchmarks.savina.hosts import MANY, Answer, Channel, Failures, in_pykka, in_retinue, in_trio, inbox

__all__ = ["COUNTING", "Messages"]


@attrs.frozen
class Messages:
    """N."""

    messages: int


@attrs.frozen
class Produce:
    """For the peers: send so many increments."""

    messages: int


# -- Retinue ---------------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Start(rt.Message):
    messages: int


@rt.message
class Increment(rt.Message):
    pass


@rt.message
class Retrieve(rt.Message):
    pass


@rt.message
class Counted(rt.Message):
    count: int


class Counter(rt.Actor):
    def __init__(self) -> None:
        self.count = 0

    @rt.handler(requires="savina.count")
    def increment(self, _: Increment) -> None:
        self.count += 1

    @rt.handler(requires="savina.retrieve")
    def retrieve(self, _: Retrieve) -> None:
        sender = self.ctx.sender
        if sender is not None:
            sender.tell(Counted(self.count))
        self.ctx.stop()


class Producer(rt.Actor):
    def __init__(self, counter: rt.Ref[Counter], answer: Answer) -> None:
        self.counter = counter
        self.answer = answer

    @rt.handler(requires="savina.produce")
    def start(self, message: Start) -> None:
        for _ in range(message.messages):
            self.counter.tell(Increment())
        self.counter.tell(Retrieve())

    @rt.handler(requires="savina.produce")
    def counted(self, message: Counted) -> None:
        self.answer.set(message.count)
        self.ctx.stop()


@in_retinue
async def ours(system: rt.ActorSystem, size: Messages) -> Outcome:
    answer = Answer()
    producer = await system.spawn(Producer, await system.spawn(Counter, mailbox=MANY), answer)
    with Timer() as timer:
        producer.tell(Start(size.messages))
        count = await answer.get()
    return timer, count


# -- pykka -----------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class PykkaRetrieve:
    sender: pykka.ActorRef[Any]


class PykkaCounter(pykka.ThreadingActor):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def on_receive(self, message: object) -> None:
        if isinstance(message, Increment):
            self.count += 1
        elif isinstance(message, PykkaRetrieve):
            message.sender.tell(Counted(self.count))
            self.stop()


class PykkaProducer(pykka.ThreadingActor):
    def __init__(self, counter: pykka.ActorRef[Any], answer: pykka.Future[int]) -> None:
        super().__init__()
        self.counter = counter
        self.answer = answer

    def on_receive(self, message: object) -> None:
        if isinstance(message, Produce):
            for _ in range(message.messages):
                self.counter.tell(Increment())
            self.counter.tell(PykkaRetrieve(self.actor_ref))
        elif isinstance(message, Counted):
            self.answer.set(message.count)
            self.stop()


@in_pykka
def with_pykka(failures: Failures, size: Messages) -> Outcome:
    answer: pykka.Future[int] = pykka.ThreadingFuture()
    producer = PykkaProducer.start(PykkaCounter.start(), answer)
    with Timer() as timer:
        producer.tell(Produce(size.messages))
        count = failures.result_of(answer)
    return timer, count


# -- trio ------------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class BareRetrieve:
    sender: Channel


async def serve_counter(messages: trio.MemoryReceiveChannel[Any]) -> None:
    count = 0
    async for message in messages:
        if isinstance(message, Increment):
            count += 1
        elif isinstance(message, BareRetrieve):
            message.sender.send_nowait(Counted(count))
            return


async def serve_producer(this: Channel, messages: trio.MemoryReceiveChannel[Any], counter: Channel, answer: Answer) -> None:
    async for message in messages:
        if isinstance(message, Produce):
            for _ in range(message.messages):
                counter.send_nowait(Increment())
            counter.send_nowait(BareRetrieve(this))
        elif isinstance(message, Counted):
            answer.set(message.count)
            return


@in_trio
async def with_trio(nursery: trio.Nursery, size: Messages) -> Outcome:
    answer = Answer()
    counter, counted = inbox()
    producer, produced = inbox()
    nursery.start_soon(serve_counter, counted)
    nursery.start_soon(serve_producer, producer, produced, counter, answer)
    with Timer() as timer:
        producer.send_nowait(Produce(size.messages))
        count = await answer.get()
    return timer, count


COUNTING = Benchmark(
    name="counting",
    title="Counting",
    unit="messages",
    how="A producer sends N increments from within one handler, and then asks for the count, which must be N.",
    operations=lambda size: size.messages,
    expected=lambda size: size.messages,
    full=Messages(200_000),
    quick=Messages(20_000),
    tiny=Messages(100),
    ports={"retinue": ours, "pykka": with_pykka, "trio": with_trio},
    smaller={"autogen-core": Messages(5_000), "xoscar": Messages(10_000)},
    notes={"autogen-core": "`publish_message` to one subscriber"},
)
