"""Retinue, as its documentation says, with everything on its path.

The system's authority is narrowed to `bench.**` and every handler has its `requires=`, so that each message carries a context and passes the
gate; after every block the system's own counts must add up (sent = handled + dead letters + queued), and the actor must have counted each message.
"""

# No `from __future__ import annotations` here: what users type is measured, and so are the annotations as they type them.

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import trio
import trio.testing

import retinue as rt
from benchmarks.harness import Block, BrokenBlock, Contender, Timer
from benchmarks.machine import version_of
from benchmarks.runtime.meter import Meter

PERMISSIONS = ["bench.**"]


@rt.message
class Add(rt.Request[int]):
    amount: int


@rt.message
class Note(rt.Message):
    amount: int


@rt.message
class Total(rt.Request[int]):
    pass


@rt.message
class Hold(rt.Request[None]):
    pass


@rt.message(timeout=600)
class Drive(rt.Request[int]):
    count: int


class Counter(rt.Actor):
    def __init__(self) -> None:
        self.total = 0

    @rt.handler(requires="bench.add")
    def add(self, message: Add) -> int:
        self.total += message.amount
        return self.total

    @rt.handler(requires="bench.add")
    def note(self, message: Note) -> None:
        self.total += message.amount

    @rt.handler(requires="bench.read")
    def read(self, _: Total) -> int:
        return self.total


class AsyncCounter(rt.Actor):
    def __init__(self) -> None:
        self.total = 0

    @rt.handler(requires="bench.add")
    async def add(self, message: Add) -> int:
        self.total += message.amount
        return self.total

    @rt.handler(requires="bench.read")
    def read(self, _: Total) -> int:
        return self.total


class ThreadCounter(rt.Actor, blocking=True):
    def __init__(self) -> None:
        self.total = 0

    @rt.handler(requires="bench.add")
    def add(self, message: Add) -> int:
        self.total += message.amount
        return self.total

    @rt.handler(requires="bench.read")
    def read(self, _: Total) -> int:
        return self.total


class Asker(rt.Actor):
    """Asks another actor, from inside its own turn, as often as it is told: what it sends is stamped with the turn's context."""

    def __init__(self, target: rt.Ref[Counter]) -> None:
        self.target = target

    @rt.handler(requires="bench.drive")
    async def drive(self, message: Drive) -> int:
        for _ in range(message.count):
            await self.target.ask(Add(1))
        return message.count


class Latch:
    """Opens when it was counted so many times."""

    def __init__(self) -> None:
        self.left = 0
        self.opened = trio.Event()


class Listener(rt.Actor):
    def __init__(self, latch: Latch) -> None:
        self.latch = latch
        self.total = 0

    @rt.handler(requires="bench.add")
    def note(self, message: Note) -> None:
        self.total += message.amount
        self.latch.left -= 1
        if self.latch.left == 0:
            self.latch.opened.set()

    @rt.handler(requires="bench.read")
    def read(self, _: Total) -> int:
        return self.total


class Holder(rt.Actor):
    """Takes a request and never answers; `asked` tells whether its state survived."""

    def __init__(self) -> None:
        self.asked = 0

    @rt.handler(requires="bench.add")
    async def hold(self, _: Hold) -> None:
        self.asked += 1
        await trio.sleep_forever()

    @rt.handler(requires="bench.read")
    def read(self, _: Total) -> int:
        return self.asked


def _check(total: int, count: int) -> None:
    if total != count:
        raise BrokenBlock(f"retinue handled {total} of {count} messages")


def _conserved(statistics: Any, at_least: int) -> None:
    """The promise of the contract: every message is in exactly one place."""
    ended = statistics.handled + statistics.dead_letters + statistics.queued
    if statistics.sent != ended or statistics.sent < at_least:
        raise BrokenBlock(f"not conserved, at least {at_least} were sent: {statistics}")


def _block(body: Callable[[rt.ActorSystem, int], Awaitable[float]]) -> Callable[[int], float]:
    async def main(count: int) -> float:
        async with rt.ActorSystem("bench", permissions=PERMISSIONS) as system:
            seconds = await body(system, count)
            _conserved(system.statistics(), count)
        return seconds

    return lambda count: trio.run(main, count)


@_block
async def ask(system: rt.ActorSystem, count: int) -> float:
    ref = await system.spawn(Counter)
    await ref.ask(Total())
    with Timer() as timer:
        for _ in range(count):
            await ref.ask(Add(1))
    _check(await ref.ask(Total()), count)
    return timer.seconds


@_block
async def ask_queued(system: rt.ActorSystem, count: int) -> float:
    ref = await system.spawn(Counter)
    await ref.ask(Total(), detached=True)
    with Timer() as timer:
        for _ in range(count):
            await ref.ask(Add(1), detached=True)
    _check(await ref.ask(Total()), count)
    return timer.seconds


@_block
async def ask_async(system: rt.ActorSystem, count: int) -> float:
    ref = await system.spawn(AsyncCounter)
    await ref.ask(Total())
    with Timer() as timer:
        for _ in range(count):
            await ref.ask(Add(1))
    _check(await ref.ask(Total()), count)
    return timer.seconds


@_block
async def ask_inside(system: rt.ActorSystem, count: int) -> float:
    ref = await system.spawn(Counter)
    asker = await system.spawn(Asker, ref)
    context = system.authority.mint(subject="bench", permissions=["bench.add", "bench.drive"])
    with Timer() as timer:
        await asker.ask(Drive(count), context=context)
    _check(await ref.ask(Total()), count)
    return timer.seconds


@_block
async def tell(system: rt.ActorSystem, count: int) -> float:
    ref = await system.spawn(Counter)
    with Timer() as timer:
        for _ in range(count // 1000):
            for _ in range(1000):
                ref.tell(Note(1))
            await ref.ask(Total())
    _check(await ref.ask(Total()), count)
    return timer.seconds


@_block
async def spawn(system: rt.ActorSystem, count: int) -> float:
    with Timer() as timer:
        refs = [await system.spawn(Counter) for _ in range(count)]
    _check(sum([await ref.ask(Add(1)) for ref in refs]), count)
    return timer.seconds


@_block
async def spawn_ask(system: rt.ActorSystem, count: int) -> float:
    total = 0
    with Timer() as timer:
        for _ in range(count):
            ref = await system.spawn(Counter)
            total += await ref.ask(Add(1))
    _check(total, count)
    return timer.seconds


@_block
async def fan_out(system: rt.ActorSystem, count: int) -> float:
    latch = Latch()
    refs = [await system.spawn(Listener, latch) for _ in range(10_000)]
    with Timer() as timer:
        for _ in range(count // 10_000):
            latch.left, latch.opened = 10_000, trio.Event()
            for ref in refs:
                ref.tell(Note(1))
            await latch.opened.wait()
    _check(sum([await ref.ask(Total()) for ref in refs]), count)
    return timer.seconds


@_block
async def thread_host(system: rt.ActorSystem, count: int) -> float:
    ref = await system.spawn(ThreadCounter)
    await ref.ask(Total())
    with Timer() as timer:
        for _ in range(count):
            await ref.ask(Add(1))
    _check(await ref.ask(Total()), count)
    return timer.seconds


def flood(count: int) -> float:
    from retinue.sync import ActorSystem as BlockingActorSystem

    with BlockingActorSystem("flood", permissions=PERMISSIONS) as system:
        ref = system.spawn(Counter, mailbox=rt.Mailbox.unbounded())
        each = count // 8
        gate = threading.Barrier(9)

        def send() -> None:
            gate.wait()
            for _ in range(each):
                ref.tell(Note(1))

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        with Timer() as timer:
            gate.wait()
            for thread in threads:
                thread.join()
            total = ref.ask(Total())
        _check(total, count)
        _conserved(system.statistics(), count)
    return timer.seconds


@_block
async def cancel(system: rt.ActorSystem, count: int) -> float:
    refs = [await system.spawn(Holder) for _ in range(100)]
    cancelled = 0

    async def wait(ref: rt.Ref[Holder]) -> None:
        nonlocal cancelled
        try:
            await ref.ask(Hold())
        except trio.Cancelled:
            cancelled += 1
            raise

    async with trio.open_nursery() as askers:
        for number in range(count):
            askers.start_soon(wait, refs[number % 100])
        await trio.testing.wait_all_tasks_blocked()
        _check(system.statistics().queued, count)  # all of them wait, the 100 that are in progress included
        timer = Timer()
        timer.start()
        askers.cancel_scope.cancel()
    timer.stop()
    _check(cancelled, count)
    if not all([await ref.ask(Total()) >= 1 for ref in refs]):
        raise BrokenBlock("an actor whose handler was cancelled lost its state")
    return timer.seconds


def idle(count: int, meter: Meter) -> None:
    async def main() -> None:
        async with rt.ActorSystem("bench", permissions=PERMISSIONS) as system:
            with meter:
                refs = [await system.spawn(Counter) for _ in range(count)]
            _check(sum([await ref.ask(Add(1)) for ref in refs[::100]]), len(refs[::100]))

    trio.run(main)


CONTENDER = Contender(
    "retinue",
    version_of("retinue"),
    {
        "ask": Block(ask),
        "ask_queued": Block(ask_queued),
        "ask_async": Block(ask_async),
        "ask_inside": Block(ask_inside),
        "tell": Block(tell, step=1000),
        "spawn": Block(spawn, most=50_000),
        "spawn_ask": Block(spawn_ask, most=50_000),
        "fan_out": Block(fan_out, step=10_000),
        "thread_host": Block(thread_host, note="a `blocking=True` actor"),
        "flood": Block(flood, step=8),
        "cancel": Block(cancel, step=10_000, most=10_000),
    },
)
