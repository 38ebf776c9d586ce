"""For tests of authority in turns: a clock that follows the test's, an actor with gated handlers, and the way to an error."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import trio

import retinue as rt

FAR = 2 * 10**12
"""A time in ms that no real clock shows before 2033: the authority's time never goes back, so a test's clock begins there."""


def tie_clock(system: rt.ActorSystem) -> None:
    """Makes the authority's time go with trio's clock, which a mock clock moves. Call it in the loop; ask for the time in the loop only."""
    began = trio.current_time()
    system.authority._clock._clock = lambda: FAR + round((trio.current_time() - began) * 1000)


@rt.message
class Touch(rt.Request[str]):
    """A gated request with an argument."""

    what: str = ""


@rt.message
class Send(rt.Request[str]):
    """A gated request of high risk."""

    to: str
    amount: int


class Vault(rt.Actor):
    """Two gated operations, and what was done."""

    def __init__(self, log: list[Any] | None = None) -> None:
        self.log = [] if log is None else log

    @rt.handler(requires="vault.touch")
    def touch(self, message: Touch) -> str:
        self.log.append(message.what)
        return self.ctx.security.subject

    @rt.handler(requires="vault.send", risk="L2")
    async def send(self, message: Send) -> str:
        await trio.lowlevel.checkpoint()
        self.log.append((message.to, message.amount))
        return self.ctx.security.subject


async def error_of(asking: Awaitable[Any]) -> Any:
    """The error that it raises, else what it returns."""
    try:
        return await asking
    except rt.RetinueError as error:
        return error
