"""AutoGen-core's `SingleThreadedAgentRuntime`, its tracing switched off, for the programs whose ports are small.

It has no tell to an agent: the nearest is `publish_message` to a topic with one subscriber. Agents are made by their first message, and never end.
"""

# No `from __future__ import annotations` here: handlers' types are read when the class is made.

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from autogen_core import AgentId, MessageContext, RoutedAgent, SingleThreadedAgentRuntime, TopicId, TypeSubscription, message_handler
from opentelemetry.trace import NoOpTracerProvider

from benchmarks.harness import Timer
from benchmarks.machine import version_of
from benchmarks.savina.arithmetic import sine_squared
from benchmarks.savina.benchmark import Outcome, Port, Size
from benchmarks.savina.hosts import LIMIT

__all__ = ["NAME", "PORTS", "VERSION"]

NAME = "autogen-core"
VERSION = version_of(NAME)

PINGS, PONGS, COUNTS, PRODUCTS = (TopicId(kind, "one") for kind in ("ping", "pong", "counter", "producer"))


@dataclass(frozen=True)
class Next:
    pass


@dataclass(frozen=True)
class SendPing:
    pass


@dataclass(frozen=True)
class SendPong:
    pass


@dataclass(frozen=True)
class Stop:
    pass


@dataclass(frozen=True)
class Produce:
    messages: int


@dataclass(frozen=True)
class Increment:
    pass


@dataclass(frozen=True)
class Retrieve:
    pass


@dataclass(frozen=True)
class Counted:
    count: int


@dataclass(frozen=True)
class Work:
    pass


class Pong(RoutedAgent):
    def __init__(self, answer: "asyncio.Future[int]") -> None:
        super().__init__("pong")
        self.answer = answer
        self.count = 0

    @message_handler
    async def ping(self, message: SendPing, ctx: MessageContext) -> None:  # noqa: ARG002 - both names are AutoGen's rule
        self.count += 1
        await self.publish_message(SendPong(), PINGS)

    @message_handler
    async def stop(self, message: Stop, ctx: MessageContext) -> None:  # noqa: ARG002
        self.answer.set_result(self.count)


class Ping(RoutedAgent):
    def __init__(self, rounds: int) -> None:
        super().__init__("ping")
        self.left = rounds
        self.sending: asyncio.Future[None] | None = None

    @message_handler
    async def next(self, message: Next, ctx: MessageContext) -> None:  # noqa: ARG002
        self.left -= 1
        await self.publish_message(SendPing(), PONGS)

    @message_handler
    async def pong(self, message: SendPong, ctx: MessageContext) -> None:  # noqa: ARG002
        if self.left:
            # What an agent publishes never reaches itself, and to await its own answer would nest the rounds.
            self.sending = asyncio.ensure_future(self.send_message(Next(), self.id))
        else:
            await self.publish_message(Stop(), PONGS)


class Counter(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("counter")
        self.count = 0

    @message_handler
    async def increment(self, message: Increment, ctx: MessageContext) -> None:  # noqa: ARG002
        self.count += 1

    @message_handler
    async def retrieve(self, message: Retrieve, ctx: MessageContext) -> None:  # noqa: ARG002
        await self.publish_message(Counted(self.count), PRODUCTS)


class Producer(RoutedAgent):
    def __init__(self, answer: "asyncio.Future[int]") -> None:
        super().__init__("producer")
        self.answer = answer

    @message_handler
    async def produce(self, message: Produce, ctx: MessageContext) -> None:  # noqa: ARG002
        for _ in range(message.messages):
            await self.publish_message(Increment(), COUNTS)
        await self.publish_message(Retrieve(), COUNTS)

    @message_handler
    async def counted(self, message: Counted, ctx: MessageContext) -> None:  # noqa: ARG002
        self.answer.set_result(message.count)


class Worker(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("worker")

    @message_handler
    async def work(self, message: Work, ctx: MessageContext) -> int:  # noqa: ARG002
        sine_squared()
        return 1


def _port(body: Callable[[SingleThreadedAgentRuntime, Size], Awaitable[Outcome]]) -> Port:
    async def main(size: Size) -> Outcome:
        runtime = SingleThreadedAgentRuntime(tracer_provider=NoOpTracerProvider())
        runtime.start()
        async with asyncio.timeout(LIMIT):
            outcome = await body(runtime, size)
        await runtime.stop()
        return outcome

    return lambda size: asyncio.run(main(size))


@_port
async def ping_pong(runtime: SingleThreadedAgentRuntime, size: Size) -> Outcome:
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    await Pong.register(runtime, "pong", lambda: Pong(answer))
    await Ping.register(runtime, "ping", lambda: Ping(size.rounds))
    for kind in ("ping", "pong"):
        await runtime.add_subscription(TypeSubscription(kind, kind))
        await runtime.get(AgentId(kind, "one"), lazy=False)
    with Timer() as timer:
        await runtime.send_message(Next(), AgentId("ping", "one"))
        count = await answer
    return timer, count


@_port
async def counting(runtime: SingleThreadedAgentRuntime, size: Size) -> Outcome:
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    await Counter.register(runtime, "counter", Counter)
    await Producer.register(runtime, "producer", lambda: Producer(answer))
    for kind in ("counter", "producer"):
        await runtime.add_subscription(TypeSubscription(kind, kind))
        await runtime.get(AgentId(kind, "one"), lazy=False)
    with Timer() as timer:
        await runtime.publish_message(Produce(size.messages), PRODUCTS)
        count = await answer
    return timer, count


@_port
async def create(runtime: SingleThreadedAgentRuntime, size: Size) -> Outcome:
    await Worker.register(runtime, "worker", Worker)
    count = 0
    with Timer() as timer:
        for number in range(size.actors):
            count += await runtime.send_message(Work(), AgentId("worker", f"worker-{number}"))
    return timer, count


PORTS: Mapping[str, Port] = {"ping-pong": ping_pong, "counting": counting, "fork-join-create": create}
