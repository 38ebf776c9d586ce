"""AutoGen-core's `SingleThreadedAgentRuntime`, used as its documentation does, its tracing switched off.

An ask is `send_message`. It has no tell to an agent: the nearest is `publish_message` to a topic with one subscriber. Agents are made by the
runtime at their first message; `get(…, lazy=False)` makes one without a message.
"""

# No `from __future__ import annotations` here: handlers' types are read when the class is made.

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from autogen_core import (
    AgentId,
    CancellationToken,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TopicId,
    TypeSubscription,
    message_handler,
)
from opentelemetry.trace import NoOpTracerProvider

from benchmarks.harness import Block, BrokenBlock, Contender, Timer
from benchmarks.machine import version_of
from benchmarks.runtime.meter import Meter

TOPIC = TopicId("adds", "one")
ONE = AgentId("counter", "one")


@dataclass(frozen=True)
class Add:
    amount: int


@dataclass(frozen=True)
class Hold:
    pass


@dataclass(frozen=True)
class Drive:
    count: int


class Counter(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("adds")
        self.total = 0

    @message_handler
    async def add(self, message: Add, ctx: MessageContext) -> int:  # noqa: ARG002 - both names are AutoGen's rule
        self.total += message.amount
        return self.total

    @message_handler
    async def drive(self, message: Drive, ctx: MessageContext) -> int:  # noqa: ARG002
        for _ in range(message.count):
            await self.send_message(Add(1), ONE)
        return message.count

    @message_handler
    async def hold(self, message: Hold, ctx: MessageContext) -> None:  # noqa: ARG002
        await ctx.cancellation_token.link_future(asyncio.get_running_loop().create_future())


def _check(total: int, count: int) -> None:
    if total != count:
        raise BrokenBlock(f"autogen-core handled {total} of {count} messages")


def _block(body: Callable[[SingleThreadedAgentRuntime, int], Awaitable[float]]) -> Callable[[int], float]:
    async def main(count: int) -> float:
        runtime = await _runtime()
        runtime.start()
        seconds = await body(runtime, count)
        await runtime.stop()
        return seconds

    return lambda count: asyncio.run(main(count))


async def _runtime() -> SingleThreadedAgentRuntime:
    runtime = SingleThreadedAgentRuntime(tracer_provider=NoOpTracerProvider())
    await Counter.register(runtime, "counter", Counter)
    await runtime.add_subscription(TypeSubscription("adds", "counter"))
    await runtime.get(ONE, lazy=False)
    return runtime


async def _total(runtime: SingleThreadedAgentRuntime) -> int:
    return (await runtime.try_get_underlying_agent_instance(ONE, Counter)).total


@_block
async def ask(runtime: SingleThreadedAgentRuntime, count: int) -> float:
    with Timer() as timer:
        for _ in range(count):
            await runtime.send_message(Add(1), ONE)
    _check(await _total(runtime), count)
    return timer.seconds


@_block
async def ask_inside(runtime: SingleThreadedAgentRuntime, count: int) -> float:
    with Timer() as timer:
        await runtime.send_message(Drive(count), AgentId("counter", "asker"))
    _check(await _total(runtime), count)
    return timer.seconds


def tell(count: int) -> float:
    async def main() -> float:
        runtime = await _runtime()
        runtime.start()
        with Timer() as timer:
            for _ in range(count):
                await runtime.publish_message(Add(1), TOPIC)
            await runtime.stop_when_idle()
        _check(await _total(runtime), count)
        return timer.seconds

    return asyncio.run(main())


@_block
async def spawn(runtime: SingleThreadedAgentRuntime, count: int) -> float:
    with Timer() as timer:
        ids = [await runtime.get("counter", f"counter-{number}", lazy=False) for number in range(count)]
    _check(len(set(ids)), count)
    return timer.seconds


@_block
async def spawn_ask(runtime: SingleThreadedAgentRuntime, count: int) -> float:
    total = 0
    with Timer() as timer:
        for number in range(count):
            total += await runtime.send_message(Add(1), AgentId("counter", f"counter-{number}"))
    _check(total, count)
    return timer.seconds


@_block
async def fan_out(runtime: SingleThreadedAgentRuntime, count: int) -> float:
    ids = [await runtime.get("counter", f"counter-{number}", lazy=False) for number in range(1000)]
    total = 0
    with Timer() as timer:
        for _ in range(count // 1000):
            total = sum(await asyncio.gather(*(runtime.send_message(Add(1), each) for each in ids)))
    _check(total, count)
    return timer.seconds


@_block
async def flood(runtime: SingleThreadedAgentRuntime, count: int) -> float:
    loop = asyncio.get_running_loop()
    each = count // 8
    gate = threading.Barrier(9)

    def send() -> None:
        gate.wait()
        for _ in range(each):
            asyncio.run_coroutine_threadsafe(runtime.publish_message(Add(1), TOPIC), loop)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    with Timer() as timer:
        gate.wait()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        while await _total(runtime) < count:  # noqa: ASYNC110 - it tells nobody when it is idle, short of being stopped
            await asyncio.sleep(0)
    _check(await _total(runtime), count)
    return timer.seconds


@_block
async def cancel(runtime: SingleThreadedAgentRuntime, count: int) -> float:
    ids = [await runtime.get("counter", f"counter-{number}", lazy=False) for number in range(100)]
    token = CancellationToken()
    asks = [asyncio.ensure_future(runtime.send_message(Hold(), ids[number % 100], cancellation_token=token)) for number in range(count)]
    for _ in range(10):
        await asyncio.sleep(0)
    while runtime.unprocessed_messages_count:  # noqa: ASYNC110
        await asyncio.sleep(0)
    with Timer() as timer:
        token.cancel()
        outcomes = await asyncio.gather(*asks, return_exceptions=True)
    _check(sum(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes), count)
    return timer.seconds


def idle(count: int, meter: Meter) -> None:
    async def main() -> None:
        runtime = await _runtime()
        runtime.start()
        with meter:
            ids = [await runtime.get("counter", f"counter-{number}", lazy=False) for number in range(count)]
        _check(sum([await runtime.send_message(Add(1), each) for each in ids[::100]]), len(ids[::100]))
        await runtime.stop()

    asyncio.run(main())


CONTENDER = Contender(
    "autogen-core",
    version_of("autogen-core"),
    {
        "ask": Block(ask),
        "ask_queued": Block(ask),
        "ask_async": Block(ask),
        "ask_inside": Block(ask_inside),
        "tell": Block(tell, note="`publish_message` to one subscriber"),
        "spawn": Block(spawn, most=5000, note="`get(…, lazy=False)`"),
        "spawn_ask": Block(spawn_ask, most=5000),
        "fan_out": Block(fan_out, step=1000, note="`gather` of 1,000 `send_message`"),
        "flood": Block(flood, step=8),
        "cancel": Block(cancel, step=1000, most=1000, note="1,000 of them, one cancellation token"),
    },
)
