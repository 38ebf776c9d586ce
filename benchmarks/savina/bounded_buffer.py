"""Bounded buffer: a manager between producers and consumers asks for more only while there is room."""

from collections import deque
from typing import Any

import attrs
import pykka
import trio
import trio.testing

import retinue as rt
from benchmarks.harness import Timer
from benchmarks.savina.arithmetic import process_item
from benchmarks.savina.benchmark import Benchmark, Outcome
from benchmarks.savina.hosts import Answer, Channel, Failures, in_pykka, in_retinue, in_trio, inbox

__all__ = ["BOUNDED_BUFFER", "Buffer"]


@attrs.frozen
class Buffer:
    """Room for so many items, so many producers of N items each, so many consumers; an item costs its producer and its consumer so much."""

    room: int
    producers: int
    consumers: int
    items: int
    cost: int


# -- Retinue ---------------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Produce(rt.Message):
    pass


@rt.message
class Item(rt.Message):
    data: float
    producer: rt.Ref[Any]


@rt.message
class Available(rt.Message):
    consumer: rt.Ref[Any]


@rt.message
class Exit(rt.Message):
    pass


class Manager(rt.Actor):
    def __init__(self, size: Buffer, answer: Answer) -> None:
        self.most = size.room - size.producers
        self.producers = size.producers
        self.consumers = size.consumers
        self.answer = answer
        self.items: deque[Item] = deque()
        self.idle_producers: deque[rt.Ref[Any]] = deque()
        self.idle_consumers: deque[rt.Ref[Any]] = deque()
        self.consumed = -size.consumers  # each is available once before its first item

    @rt.handler(requires="savina.buffer")
    def item(self, message: Item) -> None:
        if self.idle_consumers:
            self.idle_consumers.popleft().tell(message)
        else:
            self.items.append(message)
        if len(self.items) >= self.most:
            self.idle_producers.append(message.producer)
        else:
            message.producer.tell(Produce())

    @rt.handler(requires="savina.buffer")
    def available(self, message: Available) -> None:
        self.consumed += 1
        if not self.items:
            self.idle_consumers.append(message.consumer)
            self.try_exit()
            return
        message.consumer.tell(self.items.popleft())
        if self.idle_producers:
            self.idle_producers.popleft().tell(Produce())

    @rt.handler(requires="savina.buffer")
    def exited(self, _: Exit) -> None:
        self.producers -= 1
        self.try_exit()

    def try_exit(self) -> None:
        if not self.producers and len(self.idle_consumers) == self.consumers:
            for consumer in self.idle_consumers:
                consumer.tell(Exit())
            self.answer.set(self.consumed)
            self.ctx.stop()


class Producer(rt.Actor):
    def __init__(self, manager: rt.Ref[Manager], size: Buffer) -> None:
        self.manager = manager
        self.left = size.items
        self.cost = size.cost
        self.data = 0.0

    @rt.handler(requires="savina.buffer")
    def produce(self, _: Produce) -> None:
        if not self.left:
            self.manager.tell(Exit())
            self.ctx.stop()
            return
        self.left -= 1
        self.data = process_item(self.data, self.cost)
        self.manager.tell(Item(self.data, self.ctx.ref))


class Consumer(rt.Actor):
    def __init__(self, manager: rt.Ref[Manager], size: Buffer) -> None:
        self.manager = manager
        self.cost = size.cost
        self.data = 0.0

    @rt.handler(requires="savina.buffer")
    def consume(self, message: Item) -> None:
        self.data = process_item(self.data + message.data, self.cost)
        self.manager.tell(Available(self.ctx.ref))

    @rt.handler(requires="savina.buffer")
    def exit(self, _: Exit) -> None:
        self.ctx.stop()


@in_retinue
async def ours(system: rt.ActorSystem, size: Buffer) -> Outcome:
    answer = Answer()
    manager = await system.spawn(Manager, size, answer)
    for consumer in [await system.spawn(Consumer, manager, size) for _ in range(size.consumers)]:
        manager.tell(Available(consumer))
    producers = [await system.spawn(Producer, manager, size) for _ in range(size.producers)]
    with Timer() as timer:
        for producer in producers:
            producer.tell(Produce())
        consumed = await answer.get()
    return timer, consumed


# -- pykka -----------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class PeerItem:
    data: float
    producer: Any


@attrs.frozen
class PeerAvailable:
    consumer: Any


class PykkaManager(pykka.ThreadingActor):
    def __init__(self, size: Buffer, answer: pykka.Future[int]) -> None:
        super().__init__()
        self.most = size.room - size.producers
        self.producers = size.producers
        self.consumers = size.consumers
        self.answer = answer
        self.items: deque[PeerItem] = deque()
        self.idle_producers: deque[pykka.ActorRef[Any]] = deque()
        self.idle_consumers: deque[pykka.ActorRef[Any]] = deque()
        self.consumed = -size.consumers

    def on_receive(self, message: object) -> None:
        if isinstance(message, PeerItem):
            if self.idle_consumers:
                self.idle_consumers.popleft().tell(message)
            else:
                self.items.append(message)
            if len(self.items) >= self.most:
                self.idle_producers.append(message.producer)
            else:
                message.producer.tell(Produce())
        elif isinstance(message, PeerAvailable):
            self.consumed += 1
            if not self.items:
                self.idle_consumers.append(message.consumer)
                self.try_exit()
                return
            message.consumer.tell(self.items.popleft())
            if self.idle_producers:
                self.idle_producers.popleft().tell(Produce())
        else:
            self.producers -= 1
            self.try_exit()

    def try_exit(self) -> None:
        if not self.producers and len(self.idle_consumers) == self.consumers:
            for consumer in self.idle_consumers:
                consumer.tell(Exit())
            self.answer.set(self.consumed)
            self.stop()


class PykkaProducer(pykka.ThreadingActor):
    def __init__(self, manager: pykka.ActorRef[Any], size: Buffer) -> None:
        super().__init__()
        self.manager = manager
        self.left = size.items
        self.cost = size.cost
        self.data = 0.0

    def on_receive(self, _: object) -> None:
        if not self.left:
            self.manager.tell(Exit())
            self.stop()
            return
        self.left -= 1
        self.data = process_item(self.data, self.cost)
        self.manager.tell(PeerItem(self.data, self.actor_ref))


class PykkaConsumer(pykka.ThreadingActor):
    def __init__(self, manager: pykka.ActorRef[Any], size: Buffer) -> None:
        super().__init__()
        self.manager = manager
        self.cost = size.cost
        self.data = 0.0

    def on_receive(self, message: object) -> None:
        if isinstance(message, PeerItem):
            self.data = process_item(self.data + message.data, self.cost)
            self.manager.tell(PeerAvailable(self.actor_ref))
        else:
            self.stop()


@in_pykka
def with_pykka(failures: Failures, size: Buffer) -> Outcome:
    answer: pykka.Future[int] = pykka.ThreadingFuture()
    manager = PykkaManager.start(size, answer)
    consumers = [PykkaConsumer.start(manager, size) for _ in range(size.consumers)]
    for consumer in consumers:
        manager.tell(PeerAvailable(consumer))
    producers = [PykkaProducer.start(manager, size) for _ in range(size.producers)]
    with Timer() as timer:
        for producer in producers:
            producer.tell(Produce())
        consumed = failures.result_of(answer)
    for ref in consumers:
        failures.ended([ref])
    return timer, consumed


# -- trio ------------------------------------------------------------------------------------------------------------------------------------------


async def serve_manager(messages: trio.MemoryReceiveChannel[Any], size: Buffer, answer: Answer) -> None:
    most, producers, consumed = size.room - size.producers, size.producers, -size.consumers
    items: deque[PeerItem] = deque()
    idle_producers: deque[Channel] = deque()
    idle_consumers: deque[Channel] = deque()
    async for message in messages:
        if isinstance(message, PeerItem):
            if idle_consumers:
                idle_consumers.popleft().send_nowait(message)
            else:
                items.append(message)
            if len(items) >= most:
                idle_producers.append(message.producer)
            else:
                message.producer.send_nowait(Produce())
            continue
        if isinstance(message, PeerAvailable):
            consumed += 1
            if items:
                message.consumer.send_nowait(items.popleft())
                if idle_producers:
                    idle_producers.popleft().send_nowait(Produce())
                continue
            idle_consumers.append(message.consumer)
        else:
            producers -= 1
        if not producers and len(idle_consumers) == size.consumers:
            for consumer in idle_consumers:
                consumer.send_nowait(Exit())
            answer.set(consumed)
            return


async def serve_producer(this: Channel, messages: trio.MemoryReceiveChannel[Any], manager: Channel, size: Buffer) -> None:
    left, data = size.items, 0.0
    async for _ in messages:
        if not left:
            manager.send_nowait(Exit())
            return
        left -= 1
        data = process_item(data, size.cost)
        manager.send_nowait(PeerItem(data, this))


async def serve_consumer(this: Channel, messages: trio.MemoryReceiveChannel[Any], manager: Channel, size: Buffer) -> None:
    data = 0.0
    async for message in messages:
        if isinstance(message, PeerItem):
            data = process_item(data + message.data, size.cost)
            manager.send_nowait(PeerAvailable(this))
        else:
            return


@in_trio
async def with_trio(nursery: trio.Nursery, size: Buffer) -> Outcome:
    answer = Answer()
    manager, managed = inbox()
    nursery.start_soon(serve_manager, managed, size, answer)
    for _ in range(size.consumers):
        consumer, messages = inbox()
        nursery.start_soon(serve_consumer, consumer, messages, manager, size)
        manager.send_nowait(PeerAvailable(consumer))
    producers = []
    for _ in range(size.producers):
        producer, messages = inbox()
        nursery.start_soon(serve_producer, producer, messages, manager, size)
        producers.append(producer)
    await trio.testing.wait_all_tasks_blocked()
    with Timer() as timer:
        for producer in producers:
            producer.send_nowait(Produce())
        consumed = await answer.get()
    return timer, consumed


BOUNDED_BUFFER = Benchmark(
    name="bounded-buffer",
    title="Bounded buffer",
    unit="items",
    how="40 producers and 40 consumers with a manager between them, which asks a producer for its next item while there is room in a buffer of 50. An item costs "
    "each side 100 logarithms. Checked: the items that were consumed.",
    operations=lambda size: size.producers * size.items,
    expected=lambda size: size.producers * size.items,
    full=Buffer(50, 40, 40, items=100, cost=1),
    quick=Buffer(50, 40, 40, items=20, cost=1),
    tiny=Buffer(5, 3, 3, items=6, cost=0),
    ports={"retinue": ours, "pykka": with_pykka, "trio": with_trio},
)
