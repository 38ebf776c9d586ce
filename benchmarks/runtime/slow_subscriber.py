"""A topic with a hundred subscribers, one of whom is slow: what the others get of it."""

import threading
from collections.abc import Mapping
from typing import Any

import attrs
import pykka
import trio
import trio.testing

import retinue as rt
from benchmarks.harness import Block, BrokenBlock, Timer

__all__ = ["BLOCKS"]

FAST = 99
BURST = 100
STEP = 4 * FAST * BURST
"""Deliveries to the fast ones in a block, at least: so many that the slow one cannot keep up."""

PAUSE = 0.05
"""Seconds that the slow one takes for a message."""


@rt.message
class Price(rt.Message):
    cents: int


PRICES = rt.Topic("bench.prices", Price)


class Latch:
    """Opens when the fast ones have had a burst."""

    def __init__(self) -> None:
        self.left = 0
        self.total = 0
        self.opened = trio.Event()

    def begin(self) -> None:
        self.left, self.opened = FAST * BURST, trio.Event()

    def had(self, cents: int) -> None:
        self.total += cents
        self.left -= 1
        if not self.left:
            self.opened.set()


def _check(total: int, count: int) -> None:
    if total != count:
        raise BrokenBlock(f"the fast subscribers had {total} of {count} messages")


def _check_lag(missed: int) -> None:
    if not missed:
        raise BrokenBlock("the slow subscriber missed nothing: it was not slow")


class Fast(rt.Actor):
    def __init__(self, latch: Latch) -> None:
        self.latch = latch

    @rt.handler(requires="bench.price")
    def price(self, message: Price) -> None:
        self.latch.had(message.cents)


class Slow(rt.Actor):
    @rt.handler(requires="bench.price")
    async def price(self, _: Price) -> None:
        await trio.sleep(PAUSE)


def ours(count: int) -> float:
    async def main() -> float:
        async with rt.ActorSystem("topics", permissions=["bench.**"]) as system:
            latch = Latch()
            refs: list[rt.Ref[Any]] = [await system.spawn(Slow)]
            refs += [await system.spawn(Fast, latch) for _ in range(FAST)]
            for ref in refs:
                system.topics.subscribe(PRICES, ref)
            with Timer() as timer:
                for _ in range(count // (FAST * BURST)):
                    latch.begin()
                    for _number in range(BURST):
                        system.topics.publish(PRICES, Price(1))
                    await latch.opened.wait()
            books = system.statistics()
            if books.sent != books.handled + books.dead_letters + books.queued:
                raise BrokenBlock(f"not conserved: {books}")
            _check(latch.total, count)
            _check_lag(books.dead_letters_by_reason["lagged"])
            await system.stop(grace=0)  # the slow one has more waiting than anybody wants to wait for
        return timer.seconds

    return trio.run(main)


class PykkaFast(pykka.ThreadingActor):
    def __init__(self, done: "threading.Semaphore") -> None:
        super().__init__()
        self.done = done
        self.had = 0
        self.total = 0

    def on_receive(self, message: Any) -> int:
        if isinstance(message, Price):
            self.total += message.cents
            self.had += 1
            if not self.had % BURST:
                self.done.release()
        return self.total


class PykkaSlow(pykka.ThreadingActor):
    def __init__(self, ended: threading.Event) -> None:
        super().__init__()
        self.ended = ended

    def on_receive(self, _: Any) -> None:
        self.ended.wait(PAUSE)


def with_pykka(count: int) -> float:
    done = threading.Semaphore(0)
    ended = threading.Event()
    slow = PykkaSlow.start(ended)
    fast = [PykkaFast.start(done) for _ in range(FAST)]
    refs: list[pykka.ActorRef[Any]] = [slow, *fast]
    with Timer() as timer:
        for _ in range(count // (FAST * BURST)):
            for _number in range(BURST):
                message = Price(1)
                for ref in refs:
                    ref.tell(message)
            for _number in range(FAST):
                done.acquire()
    _check(sum(ref.ask(None) for ref in fast), count)
    ended.set()  # what waits is gone through at once now
    for stopping in [ref.stop(block=False) for ref in refs]:
        stopping.get(timeout=600)
    return timer.seconds


@attrs.define
class Missed:
    count: int = 0


async def serve_fast(messages: "trio.MemoryReceiveChannel[Price]", latch: Latch) -> None:
    async for message in messages:
        latch.had(message.cents)


async def serve_slow(messages: "trio.MemoryReceiveChannel[Price]") -> None:
    async for _ in messages:
        await trio.sleep(PAUSE)


def with_trio(count: int) -> float:
    async def main() -> float:
        latch, missed = Latch(), Missed()
        async with trio.open_nursery() as nursery:
            channels = []
            for number in range(FAST + 1):
                channel, messages = trio.open_memory_channel[Price](256)
                if number:
                    nursery.start_soon(serve_fast, messages, latch)
                else:
                    nursery.start_soon(serve_slow, messages)
                channels.append(channel)
            await trio.testing.wait_all_tasks_blocked()
            with Timer() as timer:
                for _ in range(count // (FAST * BURST)):
                    latch.begin()
                    for _number in range(BURST):
                        message = Price(1)
                        for channel in channels:
                            try:
                                channel.send_nowait(message)
                            except trio.WouldBlock:
                                missed.count += 1
                    await latch.opened.wait()
            nursery.cancel_scope.cancel()
        _check(latch.total, count)
        _check_lag(missed.count)
        return timer.seconds

    return trio.run(main)


BLOCKS: Mapping[str, Block] = {
    "retinue": Block(ours, step=STEP),
    "pykka": Block(with_pykka, step=STEP, most=STEP, note="a tell to each; the slow one's inbox grows without a bound"),
    "trio": Block(with_trio, step=STEP, note="a bounded channel each, by hand; the newest are lost to the slow one"),
}
