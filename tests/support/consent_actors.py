"""Actors whose handlers need a person's consent, and the ways to ask them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import trio

import retinue as rt
from core_authority import error_of
from core_puppet import Call


@rt.message
class Plain(rt.Request[str]):
    text: str = "plain"


@rt.message
class Async(rt.Request[str]):
    text: str = "async"


@rt.message
class Shielded(rt.Request[str]):
    text: str = "shielded"


@rt.message
class Many(rt.Stream[str]):
    text: str = "stream"


@rt.message
class Rest(rt.Request[None]):
    """Open to all, and takes a moment."""


@rt.message
class Hand(rt.Request[str]):
    """Handed over to another actor."""

    to: rt.Ref[Any]
    text: str = "handed"


class Worker(rt.Actor):
    """Each of its handlers needs consent, and says which one it has."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def done(self, text: str) -> str:
        approval = self.ctx.approval
        assert approval is not None and approval.approver == "bob"
        self.log.append((text, approval.jti))
        return f"{text} by {approval.jti}"

    @rt.handler(requires="work.plain", approval=True)
    def plain(self, message: Plain) -> str:
        return self.done(message.text)

    @rt.handler(requires="work.async", approval=True, raises=ValueError)
    async def coroutine(self, message: Async) -> str:
        said = self.done(message.text)
        if message.text == "fail":
            raise ValueError("as asked")
        if message.text == "hang":
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return said

    @rt.handler(requires="work.shielded", approval=True, shield=True)
    async def shielded(self, message: Shielded) -> str:
        return self.done(message.text)

    @rt.handler(requires="work.stream", approval=True)
    async def many(self, message: Many) -> AsyncIterator[str]:
        for number in range(3):
            yield f"{message.text} {number}"
        self.done(message.text)

    @rt.handler
    async def rest(self, _: Rest) -> None:
        for _ in range(5):
            await trio.lowlevel.checkpoint()

    @rt.handler
    async def call(self, message: Call) -> Any:
        value = message.script(self)
        return await value if inspect.isawaitable(value) else value


class Blocking(rt.Actor, blocking=True):
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    @rt.handler(requires="work.plain", approval=True)
    def plain(self, message: Plain) -> str:
        assert self.ctx.approval is not None
        self.log.append((message.text, self.ctx.approval.jti))
        return f"{message.text} by {self.ctx.approval.jti}"


class Agent(rt.Actor):
    @rt.handler
    async def go(self, message: Hand) -> str:
        return str(await message.to.ask(Plain(message.text)))


class Forwarder(rt.Actor):
    @rt.handler
    def hand(self, message: Hand) -> str:
        self.ctx.forward(message.to, Plain(message.text))
        return "nobody hears this"


async def streamed(worker: rt.Ref[Worker], **options: Any) -> list[str]:
    async with worker.stream(Many(), **options) as items:
        return [item async for item in items]


async def busy(worker: rt.Ref[Worker], **options: Any) -> Any:
    """An ask that waits in the mailbox behind another one."""
    outcome: Any = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.ask, Rest())
        while worker._cell.turn is None:
            await trio.lowlevel.checkpoint()
        outcome = await error_of(worker.ask(Plain(), **options))
    if isinstance(outcome, rt.RetinueError):
        raise outcome
    return outcome


WAYS: dict[str, Callable[..., Awaitable[Any]]] = {
    "inline": lambda worker, **options: worker.ask(Plain(), **options),
    "inline, async": lambda worker, **options: worker.ask(Async(), **options),
    "queued": busy,
    "detached": lambda worker, **options: worker.ask(Plain(), detached=True, **options),
    "shielded": lambda worker, **options: worker.ask(Shielded(), **options),
    "stream": streamed,
}
