"""What the runtime alone sends to actors beside `Terminated`: that messages of a topic were missed, and who offers a service.

An actor gets one where it has a handler for it. Nobody else can send one: these handlers are kept apart from the others, so what is told under such a name has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from retinue.mailbox.messages import Message, message

if TYPE_CHECKING:
    from retinue.actors.runtime.ref import Ref

__all__ = ["PRIVATE", "Lagged", "Listing"]


@message
class Lagged(Message):
    """Messages of a topic were dropped because the subscriber was too slow. It comes right before the oldest that is left.

    Attributes:
        topic: The topic's name.
        missed: How many were dropped there, 1 or more.
    """

    topic: str
    missed: int


@message
class Listing(Message):
    """Who offers a service now. A newer listing takes the place of one that still waits.

    Attributes:
        key: The service key's name.
        refs: The actors, in the order in which they were registered.
    """

    key: str
    refs: tuple[Ref[Any], ...]


PRIVATE: Final[tuple[type[Message], ...]] = (Lagged, Listing)
"""The types of which only the runtime's own messages reach a handler."""
