"""The receptionist: which actors offer a service, by typed keys. (`system.receptionist` and `self.ctx.receptionist` stand in `receptionist_faces`.)

An entry goes in the same step in which its actor ends, so that nobody finds a dead one; a restart keeps it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, Self, TypeVar, final

import attrs
import trio

from retinue.actors.runtime import derivation, topic_rights
from retinue.actors.runtime.actor import Actor
from retinue.actors.runtime.cell import DEAD
from retinue.actors.runtime.current import make_delivery
from retinue.actors.runtime.errors import ActorStopped, SystemClosed
from retinue.actors.runtime.inlets import Inlet
from retinue.actors.runtime.names import check_name, tie, untie
from retinue.actors.runtime.topic_keys import Agreed
from retinue.actors.runtime.topic_notices import Listing
from retinue.actors.runtime.view import may_address
from retinue.mailbox.errors import Unhandled
from retinue.security.errors import DefinitionError
from retinue.security.operations import check_operation

if TYPE_CHECKING:
    from types import TracebackType

    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.ref import Ref
    from retinue.security.context import SecurityContext

__all__ = ["Listings", "Receptionist", "ServiceKey"]

A = TypeVar("A", bound=Actor)

MOST_SERVICES: Final = 1024
"""Services that one actor may be registered for, and that it may follow."""


@final
@attrs.frozen
class ServiceKey(Generic[A]):
    """A typed key for a service: `TILLS = rt.ServiceKey("tills", Till)`. Equal ones are the same key; it holds nothing itself.

    Args:
        name: Its name in each system: letters, digits and `_.@:~+-`, 1 to 128 characters.
        cls: The class of the actors that offer it; classes that derive from it may, too.
        register: The operation that the context of whoever registers must permit; its argument is `topic`, the service's name. Default None: any actor of that
            class may register.

    Raises:
        DefinitionError: A name that is not legal, no actor class, or something that is no operation.
    """

    name: str
    cls: type[A]
    register: str | None = None

    __immutable__: ClassVar[bool] = True

    def __attrs_post_init__(self) -> None:
        check_name(self.name, "a service's name")
        if not isinstance(self.cls, type) or not issubclass(self.cls, Actor):
            raise DefinitionError(f"ServiceKey({self.name!r}, …) takes a class derived from rt.Actor, not {self.cls!r}")
        if self.register is not None:
            check_operation(self.register)

    @property
    def path(self) -> str:
        """How the service is called in records and in the texts of refusals: `/services/tills`."""
        return f"/services/{self.name}"


class _Registration:
    """One registration of one actor."""

    __slots__ = ("cell", "hub", "key")

    def __init__(self, hub: Receptionist, key: ServiceKey[Any], cell: Cell) -> None:
        self.hub = hub
        self.key = key
        self.cell = cell

    def cut(self) -> None:
        """The actor has ended."""
        self.hub.unregister(self.key, self.cell)


class Follower(Inlet):
    """An actor that follows a service: at most one listing waits for it, the newest."""

    __slots__ = ("_hub", "_last", "key", "under")

    def __init__(self, hub: Receptionist, key: ServiceKey[Any], cell: Cell, security: SecurityContext) -> None:
        super().__init__(cell)
        self._hub = hub
        self._last: tuple[Ref[Any], ...] | None = None
        self.key = key
        self.under = security  # what the actor subscribed under: it hears of those that it may address under it

    def show(self, cells: dict[Cell, Any], *, again: bool = False) -> None:
        """Tells the actor who is there now; what it was told before only where it asks `again`."""
        cell, kernel = self.cell, self.cell.kernel
        if topic_rights.has_ended(kernel, self.under, cell):
            self.end()
            return
        security = derivation.effective(self.under, cell.grant)
        refs = tuple(one.ref for one in cells if may_address(security, cell, one))
        if refs == self._last and not again:
            return
        self._last = refs
        listing = Listing(self.key.name, refs)
        if self._items:
            self._items[0].message = listing
        else:
            self.put(make_delivery(cell, cell.spec.private[Listing], listing, self.under, None))

    def end(self) -> None:
        """Follows no longer; what waits becomes a dead letter."""
        untie(self.cell, self)
        self.cut()
        for delivery in self.clear():
            self.cell.kernel.record("unsubscribed", delivery)

    def cut(self) -> None:
        """The actor ends: what waits is refused with its mail."""
        self._hub.forget_follower(self)


class Listings:
    """What `system.receptionist.listen(key)` gives: `async with … as listings: async for listing in listings: …`.

    The first listing comes at once, then one whenever somebody came or went; who is slow sees the newest only. The iteration ends when the block or the system does.

    Attributes:
        key: The service's key.
        closed: Whether no more will come.
    """

    __slots__ = ("_begun", "_hub", "_kernel", "_lot", "_refs", "closed", "key")

    def __init__(self, kernel: Kernel, hub: Receptionist, key: ServiceKey[Any]) -> None:
        self._kernel = kernel
        self._hub = hub
        self._lot = trio.lowlevel.ParkingLot()
        self._refs: tuple[Ref[Any], ...] | None = None
        self._begun = False
        self.key = key
        self.closed = False

    async def __aenter__(self) -> Self:
        if self._begun:
            raise DefinitionError("listings are entered once; listen again for others")
        if self._kernel.user.state == DEAD:
            raise SystemClosed(f"the system {self._kernel.name!r} has ended, and nobody offers anything in it any more")
        await trio.lowlevel.checkpoint()
        self._begun = True
        tie(self._kernel.user, self)
        self._hub.add_listener(self)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends it. Closing twice is fine."""
        untie(self._kernel.user, self)
        self._refs = None
        self.cut()

    def cut(self) -> None:
        """Nothing will come any more: the iteration ends after what waits."""
        self.closed = True
        self._hub.forget_listener(self)
        self._lot.unpark_all()

    def show(self, refs: tuple[Ref[Any], ...]) -> None:
        """Somebody came or went."""
        self._refs = refs
        self._lot.unpark()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Listing:
        if not self._begun:
            raise DefinitionError(
                "enter it first: `async with system.receptionist.listen(key) as listings: async for listing in listings: …`"
            )
        await trio.lowlevel.checkpoint()
        await self._ready()
        listing = self._pop()
        if listing is None:
            raise StopAsyncIteration
        return listing

    async def _ready(self) -> None:
        """Waits until a listing is there, or none will come any more."""
        while self._refs is None and not self.closed:
            await self._lot.park()  # without a limit of its own: it may be long until somebody comes or goes

    def _has_items(self) -> bool:
        return self._refs is not None

    def _pop(self) -> Listing | None:
        refs, self._refs = self._refs, None
        return Listing(self.key.name, refs) if refs is not None else None


class Listener(Protocol):
    """What hears who offers a service."""

    key: ServiceKey[Any]

    def show(self, refs: tuple[Ref[Any], ...]) -> None:
        """Somebody came or went; called once at the beginning, too."""
        ...


class _Service:
    """A service that somebody offers or follows."""

    __slots__ = ("cells", "followers", "key", "listeners")

    def __init__(self, key: ServiceKey[Any]) -> None:
        self.key = key
        self.cells: dict[Cell, _Registration] = {}
        self.followers: dict[Cell, Follower] = {}
        self.listeners: dict[Listener, None] = {}

    @property
    def unused(self) -> bool:
        """Whether nobody needs it any more."""
        return not self.cells and not self.followers and not self.listeners


class Receptionist:
    """The services of one system; all of it in the system's thread."""

    __slots__ = ("_kernel", "_services", "agreed")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._services: dict[str, _Service] = {}
        self.agreed: Agreed[ServiceKey[Any]] = Agreed()

    def _service(self, key: ServiceKey[Any]) -> _Service:
        service = self._services.get(self.agreed.check(key).name)
        if service is None:
            service = self._services[key.name] = _Service(key)
        return service

    # -- who offers it -------------------------------------------------------------------------------------------------------------------------------

    def register(self, key: ServiceKey[Any], cell: Cell) -> None:
        """Makes the actor known; done again, nothing changes. Raises DefinitionError for one of another class, ActorStopped for one that has ended or is to end."""
        self.agreed.check(key)
        if not issubclass(cell.spec.cls, key.cls):
            raise DefinitionError(
                f"{cell.path} is a {cell.spec.cls.__qualname__}, and {key.name!r} is for {key.cls.__qualname__}: only those are registered for it"
            )
        if cell.state == DEAD or cell.closed:
            raise ActorStopped(
                f"{cell.path} has stopped and is not registered for {key.name!r}; spawn another, and register that",
                path=cell.path,
                begun=False,
            )
        extra = cell.extras()
        if len(extra.ties or ()) >= MOST_SERVICES:
            raise DefinitionError(
                f"{cell.path} is registered for, or subscribed to, {MOST_SERVICES:,} services or topics, and may not be for more"
            )
        service = self._service(key)
        if cell in service.cells:
            return
        registration = service.cells[cell] = _Registration(self, key, cell)
        tie(cell, registration)
        self._changed(service)

    def unregister(self, key: ServiceKey[Any], cell: Cell) -> bool:
        """Forgets the actor; False where it was not registered."""
        service = self._services.get(self.agreed.check(key).name)
        registration = service.cells.pop(cell, None) if service is not None else None
        if service is None or registration is None:
            return False
        untie(cell, registration)
        self._changed(service)
        self._tidy(service)
        return True

    def find(self, key: ServiceKey[Any]) -> tuple[Cell, ...]:
        """The actors that offer it and take messages, in the order in which they were registered."""
        service = self._services.get(self.agreed.check(key).name)
        return tuple(cell for cell in service.cells if not cell.closed) if service is not None else ()

    def keys(self) -> list[str]:
        """The names of the services that somebody offers, sorted."""
        return sorted(name for name, service in self._services.items() if service.cells)

    # -- who follows it ------------------------------------------------------------------------------------------------------------------------------

    def follow(self, key: ServiceKey[Any], cell: Cell, security: SecurityContext) -> None:
        """Subscribes the actor to listings of the service, under this authority; it is told at once who is there. Raises Unhandled where it has no handler for them."""
        self.agreed.check(key)
        if Listing not in cell.spec.private:
            raise Unhandled(
                f"{cell.path} ({cell.spec.cls.__qualname__}) cannot follow {key.name!r}: it has no handler for rt.Listing; give it one"
            )
        extra = cell.extras()
        if len(extra.ties or ()) >= MOST_SERVICES:
            raise DefinitionError(
                f"{cell.path} is registered for, or subscribed to, {MOST_SERVICES:,} services or topics, and may not be for more"
            )
        service = self._service(key)
        follower = service.followers.get(cell)
        if follower is None:
            follower = service.followers[cell] = Follower(self, key, cell, security)
            tie(cell, follower)
        follower.under = security
        follower.show(service.cells, again=True)

    def unfollow(self, key: ServiceKey[Any], cell: Cell) -> bool:
        """Ends that; False where it did not follow the service."""
        service = self._services.get(self.agreed.check(key).name)
        follower = service.followers.get(cell) if service is not None else None
        if follower is None:
            return False
        follower.end()
        return True

    def forget_follower(self, follower: Follower) -> None:
        """It has ended."""
        service = self._services.get(follower.key.name)
        if service is not None and service.followers.pop(follower.cell, None) is not None:
            self._tidy(service)

    def add_listener(self, listener: Listener) -> None:
        """Listings have been entered; the first comes at once."""
        service = self._service(listener.key)
        service.listeners[listener] = None
        listener.show(tuple(cell.ref for cell in service.cells))

    def forget_listener(self, listener: Listener) -> None:
        """They have ended."""
        service = self._services.get(listener.key.name)
        if service is not None and service.listeners.pop(listener, self) is None:
            self._tidy(service)

    def _changed(self, service: _Service) -> None:
        if service.listeners:
            refs = tuple(cell.ref for cell in service.cells)
            for listener in tuple(service.listeners):
                listener.show(refs)
        if not self._kernel.closing:  # else it would be a dead letter for each actor that stops
            for follower in tuple(service.followers.values()):
                follower.show(service.cells)

    def _tidy(self, service: _Service) -> None:
        if service.unused and self._services.get(service.key.name) is service:
            del self._services[service.key.name]
