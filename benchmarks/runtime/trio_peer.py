"""A bare trio task a server, with memory channels: what one writes by hand, without names, supervision, deadlines or authority."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable

import attrs
import trio
import trio.testing

from benchmarks.harness import Block, BrokenBlock, Contender, Timer
from benchmarks.machine import version_of
from benchmarks.runtime.meter import Meter


@attrs.frozen
class Add:
    amount: int


@attrs.frozen
class Total:
    pass


Mail = tuple[object, "trio.MemorySendChannel[int] | None"]


class Counter:
    """A server: it serves its channel until the channel is closed."""

    def __init__(self, size: float = 1024) -> None:
        self.total = 0
        self.inbox, self._mail = trio.open_memory_channel[Mail](size)

    async def serve(self) -> None:
        async for message, answers in self._mail:
            if isinstance(message, Add):
                self.total += message.amount
                self.handled()
            if answers is not None:
                answers.send_nowait(self.total)

    def handled(self) -> None:
        pass


class Listener(Counter):
    def __init__(self, latch: list[int], opened: trio.Event) -> None:
        super().__init__()
        self.latch = latch
        self.opened = opened

    def handled(self) -> None:
        self.latch[0] -= 1
        if self.latch[0] == 0:
            self.opened.set()


class Deaf(Counter):
    """Takes requests and never answers."""

    async def serve(self) -> None:
        async for _ in self._mail:
            pass


async def request(server: Counter, message: object) -> int:
    """One request: a channel for the answer is made, as one would."""
    send, receive = trio.open_memory_channel[int](1)
    await server.inbox.send((message, send))
    return await receive.receive()


def _check(total: int, count: int) -> None:
    if total != count:
        raise BrokenBlock(f"the trio tasks handled {total} of {count} messages")


def _block(body: Callable[[trio.Nursery, int], Awaitable[float]]) -> Callable[[int], float]:
    async def main(count: int) -> float:
        async with trio.open_nursery() as nursery:
            seconds = await body(nursery, count)
            nursery.cancel_scope.cancel()
        return seconds

    return lambda count: trio.run(main, count)


def _start(nursery: trio.Nursery, server: Counter) -> Counter:
    nursery.start_soon(server.serve)
    return server


@_block
async def ask(nursery: trio.Nursery, count: int) -> float:
    server = _start(nursery, Counter())
    await request(server, Total())
    with Timer() as timer:
        for _ in range(count):
            await request(server, Add(1))
    _check(server.total, count)
    return timer.seconds


@_block
async def ask_inside(nursery: trio.Nursery, count: int) -> float:
    server = _start(nursery, Counter())
    done, finished = trio.open_memory_channel[None](1)

    async def asker() -> None:
        for _ in range(count):
            await request(server, Add(1))
        await done.send(None)

    with Timer() as timer:
        nursery.start_soon(asker)
        await finished.receive()
    _check(server.total, count)
    return timer.seconds


@_block
async def tell(nursery: trio.Nursery, count: int) -> float:
    server = _start(nursery, Counter())
    with Timer() as timer:
        for _ in range(count // 1000):
            for _ in range(1000):
                server.inbox.send_nowait((Add(1), None))
            await request(server, Total())
    _check(server.total, count)
    return timer.seconds


@_block
async def spawn(nursery: trio.Nursery, count: int) -> float:
    with Timer() as timer:
        servers = [_start(nursery, Counter()) for _ in range(count)]
        await trio.testing.wait_all_tasks_blocked()  # so that they have started, all of them
    _check(len(servers), count)
    return timer.seconds


@_block
async def spawn_ask(nursery: trio.Nursery, count: int) -> float:
    total = 0
    with Timer() as timer:
        for _ in range(count):
            total += await request(_start(nursery, Counter()), Add(1))
    _check(total, count)
    return timer.seconds


@_block
async def fan_out(nursery: trio.Nursery, count: int) -> float:
    latch, opened = [count], trio.Event()
    servers = [_start(nursery, Listener(latch, opened)) for _ in range(10_000)]
    await trio.testing.wait_all_tasks_blocked()
    with Timer() as timer:
        for _ in range(count // 10_000):
            for server in servers:
                server.inbox.send_nowait((Add(1), None))
            await trio.lowlevel.checkpoint()
        await opened.wait()
    _check(sum(server.total for server in servers), count)
    return timer.seconds


@_block
async def thread_host(_: trio.Nursery, count: int) -> float:
    total = [0]

    def add(message: Add) -> int:
        total[0] += message.amount
        return total[0]

    await trio.to_thread.run_sync(add, Add(0))
    with Timer() as timer:
        for _number in range(count):
            await trio.to_thread.run_sync(add, Add(1))
    _check(total[0], count)
    return timer.seconds


@_block
async def flood(nursery: trio.Nursery, count: int) -> float:
    server = _start(nursery, Counter(float("inf")))
    token = trio.lowlevel.current_trio_token()
    each = count // 8
    gate = threading.Barrier(9)

    def send() -> None:
        gate.wait()
        for _ in range(each):
            token.run_sync_soon(server.inbox.send_nowait, (Add(1), None))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    await trio.to_thread.run_sync(int)
    with Timer() as timer:
        gate.wait()
        for thread in threads:
            await trio.to_thread.run_sync(thread.join)
        while server.total < count:
            await request(server, Total())
    _check(server.total, count)
    return timer.seconds


@_block
async def cancel(nursery: trio.Nursery, count: int) -> float:
    servers = [_start(nursery, Deaf()) for _ in range(100)]
    cancelled = 0

    async def wait(server: Counter) -> None:
        nonlocal cancelled
        try:
            await request(server, Add(1))
        except trio.Cancelled:
            cancelled += 1
            raise

    async with trio.open_nursery() as askers:
        for number in range(count):
            askers.start_soon(wait, servers[number % 100])
        await trio.testing.wait_all_tasks_blocked()
        timer = Timer()
        timer.start()
        askers.cancel_scope.cancel()
    timer.stop()
    _check(cancelled, count)
    return timer.seconds


def idle(count: int, meter: Meter) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            with meter:
                servers = [_start(nursery, Counter()) for _ in range(count)]
                await trio.testing.wait_all_tasks_blocked()
            _check(sum([await request(server, Add(1)) for server in servers[::100]]), len(servers[::100]))
            nursery.cancel_scope.cancel()

    trio.run(main)


CONTENDER = Contender(
    "trio",
    version_of("trio"),
    {
        "ask": Block(ask),
        "ask_queued": Block(ask),
        "ask_async": Block(ask),
        "ask_inside": Block(ask_inside),
        "tell": Block(tell, step=1000),
        "spawn": Block(spawn, most=10_000),
        "spawn_ask": Block(spawn_ask, most=10_000),
        "fan_out": Block(fan_out, step=10_000),
        "thread_host": Block(thread_host, note="`trio.to_thread.run_sync`"),
        "flood": Block(flood, step=8, note="`run_sync_soon` for each message"),
        "cancel": Block(cancel, step=10_000, most=10_000),
    },
)
