"""Messages and actors for the tests of the actor core, each actor for the loop and for a thread."""

from __future__ import annotations

from typing import Any

import retinue as rt
from core_latch import Latch


class Boom(Exception):
    """What a handler raises when a test asks for it."""


class Answer(Exception):
    """A declared exception: an answer, not a failure."""


@rt.message
class Note(rt.Message):
    """Remember a number."""

    number: int


@rt.message
class Notes(rt.Request[list[int]]):
    """The numbers that this incarnation remembers."""


@rt.message
class Double(rt.Request[int]):
    number: int


@rt.message
class Hold(rt.Request[int]):
    """Wait at the actor's latch, remember the number, return it."""

    number: int = 0


@rt.message
class HoldShielded(rt.Request[int]):
    """As Hold, in a handler that its asker cannot cancel."""

    number: int = 0


@rt.message
class Break(rt.Request[int]):
    """Raise Boom."""

    text: str = "broken"


@rt.message
class Declared(rt.Request[int]):
    """Raise the declared exception."""


@rt.message
class Refuse(rt.Request[int]):
    """Raise Reject."""

    reason: str = "not today"


@rt.message
class Forbidden(rt.Request[int]):
    """Requires an operation that nobody is granted in these tests unless they say so."""


@rt.message
class Leave(rt.Message):
    """Stop yourself."""


@rt.message
class Unknown(rt.Request[int]):
    """No actor handles it."""


class Plain(rt.Actor):
    """Handlers that are plain functions, so that it runs on every host.

    Args:
        log: Where it writes what happens to it; shared with the test.
        latch: What Hold waits at, in the variants that have it.
    """

    def __init__(self, log: list[Any] | None = None, latch: Latch | None = None) -> None:
        self.log = [] if log is None else log
        self.latch = latch
        self.numbers: list[int] = []

    @rt.handler
    def note(self, message: Note) -> None:
        self.numbers.append(message.number)
        self.log.append(message.number)

    @rt.handler
    def notes(self, _: Notes) -> list[int]:
        return list(self.numbers)

    @rt.handler
    def double(self, message: Double) -> int:
        return 2 * message.number

    @rt.handler
    def fail(self, message: Break) -> int:
        raise Boom(message.text)

    @rt.handler(raises=Answer)
    def declared(self, _: Declared) -> int:
        raise Answer("as declared")

    @rt.handler
    def refuse(self, message: Refuse) -> int:
        raise rt.Reject(message.reason)

    @rt.handler(requires="core.forbidden")
    def forbidden(self, _: Forbidden) -> int:
        return 1

    @rt.handler
    def leave(self, _: Leave) -> None:
        self.ctx.stop()


class Holder(Plain):
    """Has handlers that wait: `async def` in the loop."""

    @rt.handler
    async def hold(self, message: Hold) -> int:
        assert self.latch is not None
        await self.latch.wait()
        self.numbers.append(message.number)
        self.log.append(message.number)
        return message.number

    @rt.handler(shield=True)
    async def hold_shielded(self, message: HoldShielded) -> int:
        return await self.hold(Hold(message.number))


class ThreadPlain(Plain, blocking=True):
    pass


class ThreadHolder(Plain, blocking=True):
    @rt.handler
    def hold(self, message: Hold) -> int:
        assert self.latch is not None
        self.latch.wait_in_thread()
        self.numbers.append(message.number)
        self.log.append(message.number)
        return message.number

    @rt.handler(shield=True)
    def hold_shielded(self, message: HoldShielded) -> int:
        return self.hold(Hold(message.number))


class Hooked(Holder):
    """Writes its hooks into the log."""

    def on_start(self) -> None:
        self.log.append("start")

    def on_stop(self, reason: str) -> None:
        self.log.append(f"stop: {reason}")


class ThreadHooked(ThreadHolder, blocking=True):
    def on_start(self) -> None:
        self.log.append("start")

    def on_stop(self, reason: str) -> None:
        self.log.append(f"stop: {reason}")
