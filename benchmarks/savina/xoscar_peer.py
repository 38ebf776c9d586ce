"""Xoscar, its actors in one process (a pool of one, without sub-processes), for the programs whose ports are small."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import xoscar

from benchmarks.harness import Timer
from benchmarks.machine import version_of
from benchmarks.savina.arithmetic import sine_squared
from benchmarks.savina.benchmark import Outcome, Port, Size
from benchmarks.savina.hosts import LIMIT

__all__ = ["NAME", "PORTS", "VERSION"]

NAME = "xoscar"
VERSION = version_of(NAME)

_numbers = itertools.count()


class Pong(xoscar.Actor):  # type: ignore[misc]
    def __init__(self, answer: "asyncio.Future[int]") -> None:
        super().__init__()
        self.answer = answer
        self.count = 0

    async def ping(self, sender: Any) -> None:
        self.count += 1
        await sender.pong.tell()

    async def end(self) -> None:
        self.answer.set_result(self.count)


class Ping(xoscar.Actor):  # type: ignore[misc]
    def __init__(self, pong: Any, rounds: int) -> None:
        super().__init__()
        self.other = pong
        self.left = rounds

    async def next(self) -> None:
        self.left -= 1
        await self.other.ping.tell(self.ref())

    async def pong(self) -> None:
        if self.left:
            await self.ref().next.tell()
        else:
            await self.other.end.tell()


class Counter(xoscar.Actor):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def increment(self) -> None:
        self.count += 1

    async def retrieve(self, sender: Any) -> None:
        await sender.counted.tell(self.count)


class Producer(xoscar.Actor):  # type: ignore[misc]
    def __init__(self, counter: Any, answer: "asyncio.Future[int]") -> None:
        super().__init__()
        self.counter = counter
        self.answer = answer

    async def produce(self, messages: int) -> None:
        for _ in range(messages):
            await self.counter.increment.tell()
        await self.counter.retrieve.tell(self.ref())

    def counted(self, count: int) -> None:
        self.answer.set_result(count)


class Worker(xoscar.Actor):  # type: ignore[misc]
    def work(self) -> int:
        sine_squared()
        return 1


def _port(body: Callable[[str, Size], Awaitable[Outcome]]) -> Port:
    async def main(size: Size) -> Outcome:
        pool = await xoscar.create_actor_pool("127.0.0.1:0", n_process=0)
        async with pool, asyncio.timeout(LIMIT):
            return await body(pool.external_address, size)

    return lambda size: asyncio.run(main(size))


async def _make(cls: type[xoscar.Actor], *arguments: Any, address: str) -> Any:
    return await xoscar.create_actor(cls, *arguments, address=address, uid=f"savina-{next(_numbers)}")


@_port
async def ping_pong(address: str, size: Size) -> Outcome:
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    ping = await _make(Ping, await _make(Pong, answer, address=address), size.rounds, address=address)
    with Timer() as timer:
        await ping.next.tell()
        count = await answer
    return timer, count


@_port
async def counting(address: str, size: Size) -> Outcome:
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    producer = await _make(Producer, await _make(Counter, address=address), answer, address=address)
    with Timer() as timer:
        await producer.produce.tell(size.messages)
        count = await answer
    return timer, count


@_port
async def create(address: str, size: Size) -> Outcome:
    count = 0
    with Timer() as timer:
        for _ in range(size.actors):
            ref = await _make(Worker, address=address)
            count += await ref.work()
            await xoscar.destroy_actor(ref)
    return timer, count


PORTS: Mapping[str, Port] = {"ping-pong": ping_pong, "counting": counting, "fork-join-create": create}
