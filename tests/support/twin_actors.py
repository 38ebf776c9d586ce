"""Messages and actors for the tests of the twins."""

from __future__ import annotations

import threading
from typing import Any

import trio

import retinue as rt
from quiet_threads import PATIENCE
from retinue.testing import assert_conserved


class Boom(Exception):
    """What a handler raises when a test asks for it."""


@rt.message
class Double(rt.Request[int]):
    number: int


@rt.message
class Note(rt.Message):
    number: int


@rt.message
class Notes(rt.Request[list[int]]):
    pass


@rt.message
class Break(rt.Request[int]):
    error: BaseException


@rt.message
class Never(rt.Request[int]):
    """Wait until cancelled; `entered` is set when it has begun."""

    entered: threading.Event


@rt.message
class Hold(rt.Request[int]):
    """Wait in a thread until the gate opens."""

    gate: threading.Event
    number: int = 0


@rt.message
class Call(rt.Request[Any]):
    """Call a function with the actor, in the loop."""

    function: Any


@rt.message
class Who(rt.Request[Any]):
    """The sender, the subject, and whether everything is permitted."""


@rt.message
class Carry(rt.Request[Any]):
    """Carries refs about."""

    ref: Any
    more: Any = None


@rt.message
class Unknown(rt.Request[int]):
    pass


@rt.message
class Count(rt.Stream[int]):
    """Count to `limit`; then raise `error`, if there is one."""

    limit: int
    error: BaseException | None = None


@rt.message
class Leave(rt.Message):
    pass


class Worker(rt.Actor):
    """Takes all of them.

    Args:
        friend: A ref that it was given.
        ends: Where it writes how its waits ended.
    """

    def __init__(self, friend: Any = None, ends: list[Any] | None = None) -> None:
        self.friend = friend
        self.ends = [] if ends is None else ends
        self.numbers: list[int] = []
        self.ahead = 0

    @rt.handler
    async def double(self, message: Double) -> int:
        return 2 * message.number

    @rt.handler
    def note(self, message: Note) -> None:
        self.numbers.append(message.number)

    @rt.handler
    def notes(self, _: Notes) -> list[int]:
        return list(self.numbers)

    @rt.handler
    def fail(self, message: Break) -> int:
        raise message.error

    @rt.handler
    async def never(self, message: Never) -> int:
        message.entered.set()
        try:
            await trio.sleep_forever()
        finally:
            self.ends.append("cancelled")

    @rt.handler
    async def hold(self, message: Hold) -> int:
        await trio.to_thread.run_sync(message.gate.wait, PATIENCE)
        return message.number

    @rt.handler
    def call(self, message: Call) -> Any:
        return message.function(self)

    @rt.handler
    def who(self, _: Who) -> Any:
        security = self.ctx.security
        return (self.ctx.sender, security.subject, security.permissions.is_everything)

    @rt.handler
    def carry(self, message: Carry) -> Any:
        self.friend = message.ref
        self.ends.append((message.ref, message.more))
        return message.ref

    @rt.handler
    async def count(self, message: Count) -> Any:
        try:
            for number in range(message.limit):
                self.ahead = number
                yield number
            if message.error is not None:
                raise message.error
        finally:
            self.ends.append("stream over")

    @rt.handler
    async def leave(self, _: Leave) -> None:
        await self.ctx.stop()


class Blocking(rt.Actor, blocking=True):
    @rt.handler
    def hold(self, message: Hold) -> int:
        message.gate.wait(PATIENCE)
        return message.number

    @rt.handler
    def call(self, message: Call) -> Any:
        return message.function(self)


conserved = assert_conserved
