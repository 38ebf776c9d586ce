"""What an actor makes of what is no message of its own: a str that becomes one, say. Its class has a hook for that, `Actor.coerce`.

It is asked on the slow paths only, where the table of handlers has none for what was sent, or one that answers in another way (one value, and a stream is wanted).
The hook is the code of the actor's class, and runs where the message is sent: so under nobody's authority.
"""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from retinue.mailbox.errors import Unhandled
from retinue.mailbox.messages import Message
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.handlers import HandlerInfo

__all__ = ["TakesText", "addressed"]

R_co = TypeVar("R_co", covariant=True)
E_co = TypeVar("E_co", covariant=True)


class TakesText(Generic[R_co, E_co]):
    """A mark for type checkers on actor classes whose `coerce` makes a message of a `str`: `class Agent(rt.Actor, rt.TakesText[Reply, Event])`.

    Then `await agent.ask("hi")` is statically a `Reply`, and `agent.stream("hi")` a stream of `Event`. It does nothing else.
    """

    __slots__ = ()


def addressed(cell: Cell, message: Any, *, streamed: bool) -> tuple[HandlerInfo, Any]:
    """The handler of an actor for what it is sent, and the message that the handler gets: what was sent, or what the actor's class makes of it.

    The handler may be one of the other kind, where the class makes nothing of the message: whoever calls says so.

    Args:
        cell: The actor.
        message: What is sent.
        streamed: Whether a stream is wanted for an answer.

    Raises:
        Unhandled: The actor has no handler for it.
        DefinitionError: Its class has made something of it that is of no use.
        Exception: What `coerce` raises.
    """
    handler: HandlerInfo | None = cell.handlers.get(message.__class__)
    if handler is not None and handler.streams is streamed:
        return handler, message
    kernel = cell.kernel
    if not cell.spec.coerces:
        return kernel.find_handler(cell, message), message
    missing: Unhandled | None = None
    if handler is None and isinstance(message, Message):
        try:
            handler = kernel.find_handler(cell, message)
        except Unhandled as error:
            missing = error
        else:
            if handler.streams is streamed:
                return handler, message
    cls = cell.spec.cls
    made = contextvars.Context().run(cls.coerce, message, streamed=streamed)
    if made is None or made is message:
        if missing is not None:
            raise missing
        return (handler if handler is not None else kernel.find_handler(cell, message)), message
    try:
        if not isinstance(made, Message):
            raise DefinitionError(f"it is {type(made).__qualname__}, and no message")
        handler = kernel.find_handler(cell, made)
        if handler.streams is not streamed:
            raise DefinitionError(f"{type(made).__qualname__} is answered by {'one value' if streamed else 'a stream'}")
    except (Unhandled, DefinitionError) as error:
        raise DefinitionError(
            f"{cls.__qualname__}.coerce({type(message).__qualname__}, streamed={streamed}) gave what {cell.path} cannot take: {error}. Let it give a message that "
            f"the actor answers by {'a stream' if streamed else 'one value'}, or None"
        ) from error
    return handler, made
