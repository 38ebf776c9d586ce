"""Messages, topics and subscribers for the tests of topics."""

from __future__ import annotations

import math
from typing import Any

import trio

import retinue as rt
from core_actors import Boom


@rt.message
class Price(rt.Message):
    """What is published."""

    number: int


@rt.message
class Dear(Price):
    """One of a class that derives from it."""


@rt.message
class Fatal(Price):
    """A subscriber's handler raises Boom."""


@rt.message
class Other(rt.Message):
    """Nobody's."""


@rt.message
class Say(rt.Request[list[int]]):
    """Publish that, as the actor; answer with the numbers of subscribers, and of those that lag."""

    message: Price
    context: Any = None


@rt.message
class Report(rt.Request[Any]):
    """Publish that and wait for the report."""

    message: Price
    timeout: float = 30.0


@rt.message
class Join(rt.Request[Any]):
    """Subscribe to that topic."""

    topic: Any
    capacity: int = 256


@rt.message
class Part(rt.Request[bool]):
    """Unsubscribe."""

    topic: Any


PRICES = rt.Topic("prices", Price)
OTHERS = rt.Topic("others", Other)


class Reader(rt.Actor):
    """Notes the numbers that it gets, and each `Lagged` as (topic, missed). Runs on every host.

    Args:
        log: Where it writes; shared with the test.
        topic: What it subscribes to when it starts, None for nothing.
        capacity: How many may wait.
    """

    def __init__(self, log: list[Any] | None = None, topic: rt.Topic[Any] | None = PRICES, capacity: int = 256) -> None:
        self.log = [] if log is None else log
        self.topic = topic
        self.capacity = capacity

    def on_start(self) -> None:
        if self.topic is not None:
            self.ctx.topics.subscribe(self.topic, self.capacity)

    @rt.handler
    def price(self, message: Price) -> None:
        if isinstance(message, Fatal):
            raise Boom(str(message.number))
        self.log.append(message.number)

    @rt.handler
    def lag(self, message: rt.Lagged) -> None:
        self.log.append((message.topic, message.missed))

    @rt.handler
    def say(self, message: Say) -> list[int]:
        published = self.ctx.topics.publish(PRICES, message.message, context=message.context)
        return [published.subscribers, published.lagging]

    @rt.handler
    def join(self, message: Join) -> Any:
        return self.ctx.topics.subscribe(message.topic, message.capacity)

    @rt.handler
    def part(self, message: Part) -> bool:
        return self.ctx.topics.unsubscribe(message.topic)


class ThreadReader(Reader, blocking=True):
    """The same in a thread of its own."""

    @rt.handler
    def price(self, message: Price) -> None:
        Reader.price(self, message)

    @rt.handler
    def lag(self, message: rt.Lagged) -> None:
        Reader.lag(self, message)

    @rt.handler
    def say(self, message: Say) -> list[int]:
        return Reader.say(self, message)

    @rt.handler
    def join(self, message: Join) -> Any:
        return Reader.join(self, message)

    @rt.handler
    def part(self, message: Part) -> bool:
        return Reader.part(self, message)


class Deaf(rt.Actor):
    """As Reader, without a handler for `Lagged`."""

    def __init__(self, log: list[Any], capacity: int = 256) -> None:
        self.log = log
        self.capacity = capacity

    def on_start(self) -> None:
        self.ctx.topics.subscribe(PRICES, self.capacity)

    @rt.handler
    def price(self, message: Price) -> None:
        self.log.append(message.number)


class Gated(Reader):
    """Handles one price for each permit that the test gives."""

    def __init__(self, log: list[Any], permits: trio.Semaphore, capacity: int = 256) -> None:
        super().__init__(log, PRICES, capacity)
        self.permits = permits

    @rt.handler
    async def price(self, message: Price) -> None:
        await self.permits.acquire()
        self.log.append(message.number)


class Publisher(rt.Actor):
    """Publishes, and reports."""

    @rt.handler
    def say(self, message: Say) -> list[int]:
        published = self.ctx.topics.publish(PRICES, message.message, context=message.context)
        return [published.subscribers, published.lagging]

    @rt.handler
    async def report(self, message: Report) -> Any:
        return await self.ctx.topics.publish_and_report(PRICES, message.message, timeout=message.timeout)


def plain_system(**options: Any) -> rt.ActorSystem:
    """A system without a watchdog."""
    return rt.ActorSystem("topics", **{"block_warning": math.inf, **options})
