"""An actor that does what its messages say: the shape of a test stands in the test itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import retinue as rt


@rt.message
class Do(rt.Request[Any]):
    """Await `script(actor)` in an async handler and answer with what it returns."""

    script: Callable[[Any], Awaitable[Any]]


@rt.message
class DoShielded(rt.Request[Any]):
    """As Do, in a handler that its asker cannot cancel."""

    script: Callable[[Any], Awaitable[Any]]


@rt.message
class Call(rt.Request[Any]):
    """Call `script(actor)` in a plain handler and answer with what it returns."""

    script: Callable[[Any], Any]


@rt.message
class Pour(rt.Stream[Any]):
    """Answer with the items of the async generator `script(actor)`."""

    script: Callable[[Any], AsyncIterator[Any]]


class Puppet(rt.Actor):
    """Does what it is told to. Keeps what scripts write into `log`, which a restart empties."""

    def __init__(self, **given: Any) -> None:
        self.given = given
        self.log: list[Any] = []

    @rt.handler
    async def do(self, message: Do) -> Any:
        return await message.script(self)

    @rt.handler(shield=True)
    async def do_shielded(self, message: DoShielded) -> Any:
        return await message.script(self)

    @rt.handler
    def call(self, message: Call) -> Any:
        return message.script(self)

    @rt.handler
    async def pour(self, message: Pour) -> AsyncIterator[Any]:
        async with aclosing(message.script(self)) as items:  # type: ignore[type-var]
            async for item in items:
                yield item


def nothing(_: Any) -> None:
    """A script for Call that does nothing."""


async def state_of(ref: rt.Ref[Any]) -> list[Any]:
    """What this incarnation has logged; also a way to wait until everything before has been handled."""
    found = await ref.ask(Call(lambda actor: list(actor.log)))
    assert isinstance(found, list)
    return found
