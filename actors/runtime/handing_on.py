"""Handlers with `forwards=True`: they hand each of their messages over, so that whoever sent it is answered, or reads a stream, from elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from retinue.actors.runtime.asks import TakenSlot
from retinue.actors.runtime.current import current
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.current import Delivery

__all__ = ["handing_on"]

_ASYNC = 1  # `handlers.ASYNC`, which imports this


def handing_on(function: Callable[..., Any], kind: int) -> Callable[..., Any]:
    """The handler, with a look afterwards whether it has handed its message over. Stands around the method itself, so that whatever runs it sees it fail."""
    if kind == _ASYNC:

        @functools.wraps(function)
        async def forward_later(actor: Any, message: Any) -> None:
            await function(actor, message)
            _check(current(), function)

        return forward_later

    @functools.wraps(function)
    def forward(actor: Any, message: Any) -> Any:
        value = function(actor, message)
        if value.__class__ is CoroutineType:
            return value  # which is a mistake of its own
        _check(current(), function)
        return None

    return forward


def _check(turn: Delivery, function: Callable[..., Any]) -> None:
    if turn.asked and not isinstance(turn.slot, TakenSlot):
        raise DefinitionError(
            f"{function.__qualname__} of {turn.cell.path} is a handler with forwards=True, and has returned without handing {type(turn.message).__qualname__} over: "
            "call self.ctx.forward(ref, message) in it, or raise what whoever asked is to get"
        )
