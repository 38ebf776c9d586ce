"""A virtual actor for tests: it notes when its instances begin and end, and lets no two of a key live at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio

import retinue as rt


async def seconds(many: float) -> None:
    """Takes so long."""
    await trio.sleep(many)


class Broken(Exception):
    """What a start or a handler raises when a test wants it."""


@rt.message
class Count(rt.Request[int]):
    """Count one more, and say how many this instance has counted."""


@rt.message
class Number(rt.Message):
    """Note a number."""

    sender: str
    number: int


@rt.message
class Leave(rt.Message):
    """Stop yourself."""


@rt.message
class Fail(rt.Request[int]):
    """Raise Broken."""


@rt.message
class Run(rt.Request[Any]):
    """Run something with the actor."""

    what: Callable[[Any], Any]


@rt.message
class RunAsync(rt.Request[Any]):
    """Run something with the actor, and await it."""

    what: Callable[[Any], Awaitable[Any]]


@rt.message
class Up(rt.Stream[int]):
    """Count up."""

    to: int


@attrs.define(eq=False)
class Book:
    """What the instances of one region have in common with the test.

    Attributes:
        alive: How many instances of a key are alive; never more than one.
        made: How many instances of a key were made, failed ones included.
        log: (key, what) in order.
        numbers: What was noted, by key and sender.
        sleeper, held: Somebody to ask, and what an instance holds on to.
        on_start, on_stop: What the async hooks do besides; given the actor.
    """

    alive: Counter[str] = attrs.Factory(Counter)
    made: Counter[str] = attrs.Factory(Counter)
    log: list[tuple[str, str]] = attrs.Factory(list)
    numbers: dict[tuple[str, str], list[int]] = attrs.Factory(dict)
    sleeper: Any = None
    held: Any = None
    on_start: Callable[[Any], Awaitable[None]] | None = None
    on_stop: Callable[[Any, str], Awaitable[None]] | None = None

    def begins(self, key: str) -> None:
        self.made[key] += 1
        self.alive[key] += 1
        assert self.alive[key] == 1, f"two instances of {key!r} are alive"
        self.log.append((key, "begin"))

    def ends(self, key: str, reason: str) -> None:
        self.alive[key] -= 1
        self.log.append((key, str(reason)))


class Bare(rt.Actor):
    """Without hooks: it begins and ends in one step."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.counted = 0
        self.key = self.ctx.key
        self.begin()

    def begin(self) -> None:
        assert self.key is not None
        self.book.made[self.key] += 1

    @rt.handler
    def count(self, _: Count) -> int:
        self.counted += 1
        return self.counted

    @rt.handler
    def number(self, message: Number) -> None:
        assert self.key is not None
        self.book.numbers.setdefault((self.key, message.sender), []).append(message.number)

    @rt.handler
    def leave(self, _: Leave) -> None:
        self.ctx.stop()

    @rt.handler
    def fail(self, _: Fail) -> int:
        raise Broken("as asked")

    @rt.handler
    def do(self, message: Run) -> Any:
        return message.what(self)


class Session(Bare):
    """With async hooks and handlers."""

    def begin(self) -> None:
        assert self.key is not None
        self.book.begins(self.key)

    async def on_start(self) -> None:
        if self.book.on_start is not None:
            try:
                await self.book.on_start(self)
            except BaseException:
                assert self.key is not None
                self.book.ends(self.key, "start failed")
                raise

    async def on_stop(self, reason: str) -> None:
        assert self.key is not None
        try:
            if self.book.on_stop is not None:
                await self.book.on_stop(self, reason)
        finally:
            self.book.ends(self.key, reason)

    @rt.handler
    async def do_async(self, message: RunAsync) -> Any:
        return await message.what(self)

    @rt.handler
    async def up(self, message: Up) -> Any:
        for number in range(message.to):
            yield number


class ThreadSession(Bare, blocking=True):
    """In a thread of its own."""

    def begin(self) -> None:
        assert self.key is not None
        self.book.begins(self.key)

    def on_stop(self, reason: str) -> None:
        assert self.key is not None
        self.book.ends(self.key, reason)
