"""`self.ctx.receptionist` and `system.receptionist`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from retinue.actors.runtime import derivation, topic_rights
from retinue.actors.runtime.actor import Actor
from retinue.actors.runtime.names import cell_of
from retinue.actors.runtime.receptionist import Listings, ServiceKey
from retinue.actors.runtime.topic_faces import check_holder
from retinue.actors.runtime.view import may_address
from retinue.security.errors import DefinitionError, Denied

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.context import ActorContext
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.ref import Ref
    from retinue.security.context import SecurityContext

__all__ = ["ActorReceptionist", "SystemReceptionist"]

A = TypeVar("A", bound=Actor)


class ActorReceptionist:
    """What an actor does with the receptionist, `self.ctx.receptionist`: in handlers, hooks and owned tasks, and in the thread of a blocking actor."""

    __slots__ = ("_context",)

    def __init__(self, context: ActorContext) -> None:
        self._context = context

    def register(self, key: ServiceKey[Any], ref: Ref[Any] | None = None) -> None:
        """Makes this actor, or a child of it, known as one that offers a service. Done again, nothing changes; a restart changes nothing either.

        Args:
            key: The service's key.
            ref: The child; None, the default, is the actor itself.

        Raises:
            Denied: It is neither the actor itself nor a child, or the key's operation `register` is not permitted, or cannot be decided at once.
            DefinitionError: It is no actor of the key's class, another key has that name, or the actor is registered for too many services.
            ActorStopped: It has ended, or is to end.
        """
        turn, kernel, cell = self._own(key, ref)
        _call(kernel, turn, _register, kernel, turn.cell, cell, key, turn.security)

    def unregister(self, key: ServiceKey[Any], ref: Ref[Any] | None = None) -> bool:
        """Gives that up, for the actor itself or a child; False where it was not registered."""
        turn, kernel, cell = self._own(key, ref)
        return cast("bool", _call(kernel, turn, kernel.receptionist.unregister, key, cell))

    def find(self, key: ServiceKey[A]) -> tuple[Ref[A], ...]:
        """The actors that offer a service, in the order in which they were registered: those that the current message's authority may address.

        That is an actor with a handler that is open to all or whose operation the effective context permits, the actor itself, and its children.
        """
        turn = self._context._turn()
        kernel = turn.cell.kernel
        _check_key(key)
        found: tuple[Cell, ...] = _call(kernel, turn, kernel.receptionist.find, key)
        return tuple(cell.ref for cell in found if may_address(turn.security, turn.cell, cell))

    def subscribe(self, key: ServiceKey[Any]) -> None:
        """Follows a service: this actor, which needs a handler for `rt.Listing`, is told at once who offers it, and then whenever one that it may address comes or goes.

        At most one listing waits, the newest; it takes no room in the mailbox. What it may address is decided by the current authority, for as long as that holds. A
        restart of the actor changes nothing.

        Raises:
            Unhandled: The actor has no handler for `rt.Listing`.
            Denied: The current message came under an actor's own authority, which nothing outlasts.
            DefinitionError: Another key has that name, or the actor follows too many services.
        """
        turn = self._context._turn()
        _check_key(key)
        security = derivation.lasts(turn.cell.kernel, turn)
        _call(turn.cell.kernel, turn, turn.cell.kernel.receptionist.follow, key, turn.cell, security)

    def unsubscribe(self, key: ServiceKey[Any]) -> bool:
        """Follows it no longer; False where it did not. A listing that still waits becomes a dead letter ("unsubscribed")."""
        turn = self._context._turn()
        _check_key(key)
        return cast("bool", _call(turn.cell.kernel, turn, turn.cell.kernel.receptionist.unfollow, key, turn.cell))

    def _own(self, key: ServiceKey[Any], ref: Ref[Any] | None) -> tuple[Delivery, Kernel, Cell]:
        turn = self._context._turn()
        kernel = turn.cell.kernel
        _check_key(key)
        cell = turn.cell if ref is None else cell_of(ref, kernel)
        if cell is not turn.cell and cell.parent is not turn.cell:
            raise kernel.book.refused(
                Denied(
                    f"{turn.cell.path} may register itself and its children for {key.name!r}, not {cell.path}; let that do it",
                    path=key.path,
                    subject=turn.security.subject,
                )
            )
        return turn, kernel, cell


class SystemReceptionist:
    """The services of a system, for its holder: `system.receptionist`."""

    __slots__ = ("_kernel",)

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def register(self, key: ServiceKey[A], ref: Ref[A]) -> None:
        """Makes an actor known as one that offers a service; arguments and errors as for `self.ctx.receptionist.register`."""
        kernel = self._check(key)
        _register(kernel, kernel.user, cell_of(ref, kernel), key, kernel.root)

    def unregister(self, key: ServiceKey[Any], ref: Ref[Any]) -> bool:
        """Gives that up; False where it was not registered."""
        kernel = self._check(key)
        return kernel.receptionist.unregister(key, cell_of(ref, kernel))

    def find(self, key: ServiceKey[A]) -> tuple[Ref[A], ...]:
        """The living actors that offer a service, in the order in which they were registered."""
        return tuple(cell.ref for cell in self._check(key).receptionist.find(key))

    def listen(self, key: ServiceKey[Any]) -> Listings:
        """Follows a service without an actor: `async with system.receptionist.listen(key) as listings: async for listing in listings: …`."""
        kernel = self._check(key)
        kernel.receptionist.agreed.check(key)
        return Listings(kernel, kernel.receptionist, key)

    def declare(self, *keys: ServiceKey[Any]) -> None:
        """Keeps what these names mean for as long as the system lives. Raises DefinitionError where one of them means something else already."""
        for key in keys:
            self._check(key).receptionist.agreed.declare(key)

    def keys(self) -> list[str]:
        """The names of the services that somebody offers, sorted."""
        return check_holder(self._kernel, "self.ctx.receptionist").receptionist.keys()

    def _check(self, key: object) -> Kernel:
        kernel = check_holder(self._kernel, "self.ctx.receptionist")
        _check_key(key)
        return kernel


def _register(kernel: Kernel, by: Cell, cell: Cell, key: ServiceKey[Any], security: SecurityContext) -> None:
    kernel.receptionist.agreed.check(key)
    if key.register is not None:
        topic_rights.admit(kernel, security, by, key.register, topic_rights.Subscribe(key.name), key.path)
    kernel.receptionist.register(key, cell)


def _call(kernel: Kernel, turn: Delivery, function: Any, *arguments: Any) -> Any:
    """In the system's thread, from wherever the turn runs."""
    return kernel.portal.call(function, *arguments) if turn.thread else function(*arguments)


def _check_key(key: object) -> None:
    if type(key) is not ServiceKey:  # a class derived from it could say anything of itself
        raise DefinitionError(f"{key!r} is no service key; make one with rt.ServiceKey(name, ActorClass)")
