"""Handlers that die: what an actor runs in place of a handler when a test kills it by a message."""

from __future__ import annotations

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from retinue.actors.runtime.handlers import ASYNC, GENERATOR, HandlerInfo
from retinue.actors.testing.errors import Killed
from retinue.security.errors import CanonicalError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.door import Door

__all__ = ["deadly", "killed_error"]


def killed_error(path: str) -> Killed:
    """What a killed actor fails with."""
    return Killed(f"{path} was killed: a fault that a test injected")


def deadly(door: Door, delivery: Delivery, spared: Callable[[], bool], *, after: bool) -> HandlerInfo:
    """The handler of a message as it runs when it is to die: at once, or (`after`) when it has done its work and is about to answer. The gate comes before it.

    `spared` is asked right before it would die: whether it is to live on, after all.
    """
    usual: HandlerInfo = delivery.handler
    handler = usual.origin
    function = handler.function
    made = handler.copy()
    made.origin = made  # where a person's consent is waited for, this one goes on
    if handler.guarded:
        with suppress(CanonicalError):
            handler.definition(type(delivery.message))  # a consent is for the real one
    made.definitions = dict(handler.definitions)

    def death() -> Killed:
        delivery.handler = usual  # once is enough: another worker of a pool may be given the message
        return killed_error(delivery.cell.path)

    def plain(actor: Any, message: Any) -> Any:
        if not after and not spared():
            raise death()
        value = function(actor, message)
        if after and not spared():
            raise death()
        return value

    async def waiting(actor: Any, message: Any) -> Any:
        if not after and not spared():
            raise death()
        value = await function(actor, message)
        if after and not spared():
            raise death()
        return value

    async def stream(actor: Any, message: Any) -> AsyncIterator[Any]:
        if not after and not spared():
            raise death()
        async with aclosing(function(actor, message)) as items:
            async for item in items:
                yield item
        if after and not spared():
            raise death()

    made.function = stream if handler.kind == GENERATOR else waiting if handler.kind == ASYNC else plain
    return door.prepared(made)
