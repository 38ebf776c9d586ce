"""A crash storm: one message of a hundred makes its handler raise, and the actor is begun anew with its mail kept.

The peers have no supervision that keeps the mail (pykka's actor ends with a failing tell; a trio task takes its nursery along), so theirs is what one writes by hand.
"""

import logging
from collections.abc import Mapping
from typing import Any

import attrs
import pykka
import trio
import trio.testing

import retinue as rt
from benchmarks.harness import Block, BrokenBlock, Timer

__all__ = ["BLOCKS"]

ACTORS = 10
BURST = 1_000
NEVER_TIRED = rt.Supervision(intensity=(1_000_000, 60), backoff=(0, 0))

_log = logging.getLogger("benchmarks.storms")
_log.addHandler(logging.NullHandler())  # a failure is logged with its traceback, by each of them; nobody reads it here
_log.propagate = False


class Fault(Exception):
    """What one message of a hundred leads to."""


@attrs.define
class Books:
    """What was done, over all restarts."""

    handled: int = 0
    births: int = 0


def work(books: Books, number: int) -> None:
    """One message of a hundred fails."""
    if not number % 100:
        raise Fault(number)
    books.handled += 1


def check(books: Books, count: int) -> None:
    """Every message was handled or failed, and each failure was followed by a new beginning."""
    if books.handled != count * 99 // 100 or books.births != ACTORS + count // 100:
        raise BrokenBlock(f"of {count} messages {books.handled} were handled, and actors began {books.births} times")


# -- Retinue ---------------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Job(rt.Message):
    number: int


@rt.message
class Sync(rt.Request[None]):
    pass


class Fragile(rt.Actor):
    def __init__(self, books: Books) -> None:
        self.books = books
        books.births += 1

    @rt.handler(requires="bench.work")
    def job(self, message: Job) -> None:
        work(self.books, message.number)

    @rt.handler(requires="bench.sync")
    def sync(self, _: Sync) -> None:
        pass


def ours(count: int) -> float:
    async def main() -> float:
        async with rt.ActorSystem("storm", permissions=["bench.**"]) as system:
            books = Books()
            refs = [await system.spawn(Fragile, books, supervision=NEVER_TIRED) for _ in range(ACTORS)]
            with Timer() as timer:
                for burst in range(count // BURST):
                    for number in range(burst * BURST, (burst + 1) * BURST):
                        refs[number // 100 % ACTORS].tell(Job(number))
                    for ref in refs:
                        await ref.ask(Sync())
            check(books, count)
            letters = system.statistics().dead_letters_by_reason
            if letters["poison"] != count // 100 or system.statistics().dead_letters != count // 100:
                raise BrokenBlock(f"{count // 100} messages failed, and the dead letters are {letters}")
        return timer.seconds

    return trio.run(main)


# -- pykka -----------------------------------------------------------------------------------------------------------------------------------------


class PykkaFragile(pykka.ThreadingActor):
    """Survives by its own hand: catches, logs, begins anew."""

    def __init__(self, books: list[Books]) -> None:
        super().__init__()
        self.books = books
        self.begin()

    def begin(self) -> None:
        self.mine = Books(births=1)
        self.books.append(self.mine)

    def on_receive(self, message: Any) -> None:
        if isinstance(message, Job):
            try:
                work(self.mine, message.number)
            except Exception:
                _log.exception("%s failed", self)
                self.begin()


def with_pykka(count: int) -> float:
    books: list[Books] = []
    refs = [PykkaFragile.start(books) for _ in range(ACTORS)]
    with Timer() as timer:
        for burst in range(count // BURST):
            for number in range(burst * BURST, (burst + 1) * BURST):
                refs[number // 100 % ACTORS].tell(Job(number))
            for ref in refs:
                ref.ask(Sync())
    for ref in refs:
        ref.stop()
    check(Books(sum(one.handled for one in books), sum(one.births for one in books)), count)
    return timer.seconds


# -- trio ------------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class BareSync:
    answers: "trio.MemorySendChannel[None]"


async def serve(messages: "trio.MemoryReceiveChannel[Any]", books: Books) -> None:
    while True:
        books.births += 1
        try:
            async for message in messages:
                if isinstance(message, Job):
                    work(books, message.number)
                else:
                    message.answers.send_nowait(None)
            return
        except Exception:
            _log.exception("a task failed")


def with_trio(count: int) -> float:
    async def main() -> float:
        books = Books()
        async with trio.open_nursery() as nursery:
            channels = []
            for _ in range(ACTORS):
                channel, messages = trio.open_memory_channel[Any](1024)
                nursery.start_soon(serve, messages, books)
                channels.append(channel)
            await trio.testing.wait_all_tasks_blocked()
            with Timer() as timer:
                for burst in range(count // BURST):
                    for number in range(burst * BURST, (burst + 1) * BURST):
                        channels[number // 100 % ACTORS].send_nowait(Job(number))
                    for channel in channels:
                        send, receive = trio.open_memory_channel[None](1)
                        await channel.send(BareSync(send))
                        await receive.receive()
            nursery.cancel_scope.cancel()
        check(books, count)
        return timer.seconds

    return trio.run(main)


BLOCKS: Mapping[str, Block] = {
    "retinue": Block(ours, step=BURST),
    "pykka": Block(with_pykka, step=BURST, note="`on_receive` catches, logs and begins anew"),
    "trio": Block(with_trio, step=BURST, note="the task catches, logs and begins anew"),
}
