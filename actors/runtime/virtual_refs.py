"""The refs of virtual actors."""

from __future__ import annotations

from collections import OrderedDict
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar, final

from retinue.actors.runtime.cell import DEAD
from retinue.actors.runtime.errors import ActorStopped
from retinue.actors.runtime.ref import Ref

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.passivation import Seat

__all__ = ["VirtualRef", "not_here"]

A_co = TypeVar("A_co", covariant=True)


@final
class VirtualRef(Ref[A_co]):
    """The address of a virtual actor: a `Ref` that is never dead. The first message makes an instance, and so does the first after one was passivated or stopped.

    `sessions["alice"]` gives one, and it may go wherever a `Ref` may: into messages, to `watch`, `forward` and `ctx.ask`. As long as anybody holds it, all refs of the key
    are this very object. Options and errors of `ask`, `tell`, `send` and `stream` are those of `Ref`; besides, all of them but `tell` raise

    - `MailboxFull`, where as many virtual actors are active as the region's capacity says, and none of them is idle (`tell`: a receipt with "mailbox_full");
    - `Denied` and the like at once, where there is no instance and the sender may not send this message, whatever its arguments (`tell`: a receipt with "denied"): who may
      not use an actor does not activate it;
    - what its constructor or `on_start` raised, where this message was to make an instance (`tell` and `send`: a dead letter).

    `ActorStopped` is raised once the region has been stopped. `stop()` ends the instance of the moment.

    Attributes:
        key: The key.
    """

    __slots__ = ("_seats", "key")
    _seats: OrderedDict[str, Seat]
    key: str

    @property
    def alive(self) -> bool:
        """Whether messages are taken: True until the region is stopped."""
        region = self._cell.spec.region
        return region is not None and region.open

    @property
    def active(self) -> bool:
        """Whether there is an instance at this moment."""
        return self._cell.state != DEAD

    # For type checkers these have the types that Ref's own have. Each notes that the key was used; the rest is Ref's. Refs are told from all threads, and the order of use
    # is kept in the system's own; the others raise elsewhere.
    if not TYPE_CHECKING:

        def ask(self, message: Any, *, timeout: Any = None, context: Any = None, approvals: Any = (), detached: bool = False) -> Any:
            """Sends a request and returns what its handler returned. See `Ref`."""
            try:
                self._seats.move_to_end(self.key)
            except KeyError:
                pass  # there is no instance, or one that has just begun
            return Ref.ask(self, message, timeout=timeout, context=context, approvals=approvals, detached=detached)

        def tell(self, message: Any, *, context: Any = None, approvals: Any = ()) -> Any:
            """Sends a message and waits for nothing. See `Ref`."""
            if self.key in self._seats and get_ident() == self._cell.kernel.thread:
                self._seats.move_to_end(self.key)
            return Ref.tell(self, message, context=context, approvals=approvals)

        def send(self, message: Any, *, timeout: Any = None, context: Any = None, approvals: Any = ()) -> Any:
            """As `tell`, but waits for room in a full mailbox. See `Ref`."""
            try:
                self._seats.move_to_end(self.key)
            except KeyError:
                pass
            return Ref.send(self, message, timeout=timeout, context=context, approvals=approvals)

        def stream(self, message: Any, *, timeout: Any = None, window: int = 32, context: Any = None, approvals: Any = ()) -> Any:
            """Asks for a stream. See `Ref`."""
            try:
                self._seats.move_to_end(self.key)
            except KeyError:
                pass
            return Ref.stream(self, message, timeout=timeout, window=window, context=context, approvals=approvals)


def not_here(cell: Cell, does: str, otherwise: str) -> ActorStopped:
    """For what only a living actor can do.

    Args:
        cell: Its cell, which has ended.
        does: What it does not do therefore: "is not registered as 'x'".
        otherwise: What a virtual actor does instead, which may have no instance and be alive all the same.
    """
    region = cell.spec.region
    if region is not None and region.open:
        text = f"{cell.path} is a virtual actor and has no instance at the moment, so it {does}: {otherwise}"
    else:
        text = f"{cell.path} has stopped and {does}; spawn another, and use that one"
    return ActorStopped(text, path=cell.path, begun=False)
