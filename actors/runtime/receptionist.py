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
from retinue.actors.runtime.entering import EnteredAsync
from retinue.actors.runtime.errors import SystemClosed
from retinue.actors.runtime.inlets import Inlet
from retinue.actors.runtime.names import check_name, tie, untie
from retinue.actors.runtime.topic_keys import Agreed
from retinue.actors.runtime.topic_notices import Listing
from retinue.actors.runtime.view import may_send_to
from retinue.actors.runtime.virtual_refs import not_here
from retinue.mailbox.errors import Unhandled
from retinue.security.errors import DefinitionError
from retinue.security.operations import check_operation

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.current import Delivery
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


class View:
    """What is seen of a service under one authority; all who follow the service under it share one, so that a change is looked at once for all of them.

    Attributes:
        security: The authority.
        seen: The actors that it may address.
        users: How many followers share it.
    """

    __slots__ = ("_refs", "security", "seen", "users")

    def __init__(self, security: SecurityContext, cells: Iterable[Cell]) -> None:
        self.security = security
        self.seen: dict[Cell, None] = {}
        self.users = 0
        self._refs: tuple[Ref[Any], ...] | None = None
        for cell in cells:
            self.came(cell)

    def came(self, cell: Cell) -> None:
        """One more actor offers the service."""
        if may_send_to(self.security, cell):
            self.seen[cell] = None
            self._refs = None

    def went(self, cell: Cell) -> None:
        """One offers it no longer."""
        if cell in self.seen:
            del self.seen[cell]
            self._refs = None

    @property
    def refs(self) -> tuple[Ref[Any], ...]:
        """Those that are seen, in the order in which they came."""
        if self._refs is None:
            self._refs = tuple(cell.ref for cell in self.seen)
        return self._refs


class Follower(Inlet):
    """An actor that follows a service: at most one listing waits for it, and it is made only when the actor takes it, so that it is the newest.

    Attributes:
        key: The service's key.
        under: What the actor subscribed under: it hears of those that it may address under it.
        view: What is seen under that, met with the actor's grant.
    """

    __slots__ = ("_hub", "key", "under", "view")

    def __init__(self, hub: Receptionist, key: ServiceKey[Any], cell: Cell, security: SecurityContext, view: View) -> None:
        super().__init__(cell, self._taken)
        self._hub = hub
        self.key = key
        self.under = security
        self.view = view

    def sees(self, cell: Cell) -> bool:
        """Whether its listings show that actor, if it offers the service: it may send to it, or it is the actor itself or a child."""
        return cell in self.view.seen or cell is self.cell or cell.parent is self.cell

    def notify(self) -> None:
        """A listing waits from now on."""
        cell = self.cell
        if not self._items and not cell.closed:
            self.put(make_delivery(cell, cell.spec.private[Listing], Listing(self.key.name, ()), self.under, None))

    def _taken(self, delivery: Delivery) -> None:
        """The actor takes it: who is there now?"""
        delivery.message = Listing(self.key.name, self._hub.shown_to(self))

    def end(self) -> None:
        """Follows no longer; what waits becomes a dead letter."""
        untie(self.cell, self)
        self.cut()
        for delivery in self.clear():
            self.cell.kernel.record("unsubscribed", delivery)

    def cut(self) -> None:
        """The actor ends: what waits is refused with its mail."""
        self._hub.forget_follower(self)


class Listings(EnteredAsync):
    """What `system.receptionist.listen(key)` gives: `async with … as listings: async for listing in listings: …`.

    The first listing comes at once, then one whenever somebody came or went; who is slow sees the newest only. The iteration ends when the block or the system does.

    Attributes:
        key: The service's key.
        closed: Whether no more will come.
    """

    __slots__ = ("_begun", "_hub", "_kernel", "_lot", "_news", "closed", "key")

    def __init__(self, kernel: Kernel, hub: Receptionist, key: ServiceKey[Any]) -> None:
        self._kernel = kernel
        self._hub = hub
        self._lot = trio.lowlevel.ParkingLot()
        self._news = False
        self._begun = False
        self.key = key
        self.closed = False

    async def __aenter__(self) -> Self:
        if self._begun:
            raise DefinitionError("listings are entered once; listen again for others")
        if self._kernel.user.state == DEAD:
            raise SystemClosed(f"the system {self._kernel.name!r} has ended, and nobody offers anything in it any more")
        await trio.lowlevel.checkpoint()
        self._begun = self._news = True
        tie(self._kernel.user, self)
        self._hub.add_listener(self)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends it. Closing twice is fine."""
        untie(self._kernel.user, self)
        self._news = False
        self.cut()

    def cut(self) -> None:
        """Nothing will come any more: the iteration ends after what waits."""
        self.closed = True
        self._hub.forget_listener(self)
        self._lot.unpark_all()

    def came(self, cell: Cell) -> None:  # noqa: ARG002 - whoever it is
        """Somebody came: there is something to tell."""
        self._news = True
        self._lot.unpark()

    went = came

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
        while not self._news and not self.closed:
            await self._lot.park()  # without a limit of its own: it may be long until somebody comes or goes

    def _has_items(self) -> bool:
        return self._news

    def _pop(self) -> Listing | None:
        if not self._news:
            return None
        self._news = False
        return Listing(self.key.name, self._hub.refs(self.key))


class Listener(Protocol):
    """What hears who offers a service."""

    key: ServiceKey[Any]

    def came(self, cell: Cell) -> None:
        """Somebody came."""
        ...

    def went(self, cell: Cell) -> None:
        """Somebody went."""
        ...


class _Service:
    """A service that somebody offers or follows.

    Attributes:
        cells: Who offers it.
        followers: Who follows it.
        listeners: Who hears of it besides.
        views: What is seen of it, by authority.
    """

    __slots__ = ("_refs", "cells", "followers", "key", "listeners", "views")

    def __init__(self, key: ServiceKey[Any]) -> None:
        self.key = key
        self.cells: dict[Cell, _Registration] = {}
        self.followers: dict[Cell, Follower] = {}
        self.listeners: dict[Listener, None] = {}
        self.views: dict[SecurityContext, View] = {}
        self._refs: tuple[Ref[Any], ...] | None = None

    @property
    def refs(self) -> tuple[Ref[Any], ...]:
        """Those who offer it, in the order in which they came."""
        if self._refs is None:
            self._refs = tuple(cell.ref for cell in self.cells)
        return self._refs

    def changed(self, cell: Cell, *, came: bool) -> None:
        """Whoever looks at it sees this actor from now on, or no longer."""
        self._refs = None
        for view in self.views.values():
            (view.came if came else view.went)(cell)

    def view_of(self, security: SecurityContext) -> View:
        """What is seen under this authority; one more follower uses it."""
        view = self.views.get(security)
        if view is None:
            view = self.views[security] = View(security, self.cells)
        view.users += 1
        return view

    def leave(self, view: View) -> None:
        """A follower uses it no longer."""
        view.users -= 1
        if not view.users:
            del self.views[view.security]

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
        self._kernel.check_room()
        self.agreed.check(key)
        if not issubclass(cell.spec.cls, key.cls):
            raise DefinitionError(
                f"{cell.path} is a {cell.spec.cls.__qualname__}, and {key.name!r} is for {key.cls.__qualname__}: only those are registered for it"
            )
        if cell.state == DEAD or cell.closed:
            raise not_here(
                cell,
                f"is not registered for {key.name!r}",
                "only an instance is. Let it do so in on_start, self.ctx.receptionist.register(…), or send it something first",
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
        self._changed(service, cell, came=True)

    def unregister(self, key: ServiceKey[Any], cell: Cell) -> bool:
        """Forgets the actor; False where it was not registered."""
        self._kernel.check_room()
        service = self._services.get(self.agreed.check(key).name)
        registration = service.cells.pop(cell, None) if service is not None else None
        if service is None or registration is None:
            return False
        untie(cell, registration)
        self._changed(service, cell, came=False)
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
        view = service.view_of(derivation.effective(security, cell.grant))
        follower = service.followers.get(cell)
        if follower is None:
            follower = service.followers[cell] = Follower(self, key, cell, security, view)
            tie(cell, follower)
        else:
            service.leave(follower.view)
            follower.under, follower.view = security, view
            for delivery in follower.items():
                delivery.context = security
        follower.notify()

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
            service.leave(follower.view)
            self._tidy(service)

    def shown_to(self, follower: Follower) -> tuple[Ref[Any], ...]:
        """Who is there for it now."""
        service = self._services.get(follower.key.name)
        if service is None:
            return ()
        seen = follower.view.seen
        if len(seen) == len(service.cells) or not any(cell not in seen and follower.sees(cell) for cell in service.cells):
            return follower.view.refs
        return tuple(cell.ref for cell in service.cells if follower.sees(cell))

    def refs(self, key: ServiceKey[Any]) -> tuple[Ref[Any], ...]:
        """Who offers it, for those who listen."""
        service = self._services.get(key.name)
        return service.refs if service is not None else ()

    def add_listener(self, listener: Listener) -> tuple[Cell, ...]:
        """Somebody listens from now on; returns who is there."""
        service = self._service(listener.key)
        service.listeners[listener] = None
        return tuple(service.cells)

    def forget_listener(self, listener: Listener) -> None:
        """They have ended."""
        service = self._services.get(listener.key.name)
        if service is not None and service.listeners.pop(listener, self) is None:
            self._tidy(service)

    def _changed(self, service: _Service, cell: Cell, *, came: bool) -> None:
        seen_by = [] if came else [one for one in service.followers.values() if one.sees(cell)]
        service.changed(cell, came=came)
        if self._kernel.closing:  # all end: it would be a dead letter, and a look at all who are left, for each of them
            return
        if came:
            seen_by = [one for one in service.followers.values() if one.sees(cell)]
        for listener in tuple(service.listeners):
            (listener.came if came else listener.went)(cell)
        ended: dict[SecurityContext, bool] = {}
        for follower in seen_by:
            under = follower.under
            if under not in ended:
                ended[under] = topic_rights.has_ended(self._kernel, under, follower.cell)
            if ended[under]:
                follower.end()
            else:
                follower.notify()

    def _tidy(self, service: _Service) -> None:
        if service.unused and self._services.get(service.key.name) is service:
            del self._services[service.key.name]
