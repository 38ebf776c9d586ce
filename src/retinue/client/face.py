"""What a client is whichever way it waits: the part of `Client` that needs no I/O, and so is one for trio, asyncio and plain scripts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from retinue.client.session import Session
from retinue.security.restrictions import Permission, Restriction

if TYPE_CHECKING:
    from retinue.mailbox.wire import WireRegistry

__all__ = ["Face"]

C = TypeVar("C")


class Face(Generic[C]):
    """A session, and the connections that it goes over."""

    def __init__(self, session: Session, connection: C) -> None:
        self._session = session
        self._connection = connection

    @property
    def url(self) -> str:
        """The gateway's address."""
        return self._session.address.origin

    @property
    def wire(self) -> WireRegistry:
        """The types that messages and answers may have; `client.wire.add_type(…)` teaches it one."""
        return self._session.wire

    def narrow(self, *restrictions: Restriction | str | Iterable[Permission], audience: str | None = None) -> Self:
        """The same client with a token that permits less, over the same connections; it is open as long as this one. Arguments and errors as for `retinue.attenuate`."""
        return type(self)(self._session.narrowed(restrictions, audience), self._connection)

    def __repr__(self) -> str:
        return f"<Client of {self._session!r}>"
