"""The client on trio."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, final

import sniffio
import trio

from retinue.actors.runtime.errors import WrongEventLoop
from retinue.client.asynchronous import Client, Connection, TookTooLong
from retinue.client.failures import tls_of
from retinue.client.session import CONNECT_TIMEOUT, MAX_ANSWER, TIMEOUT, Session, Token

if TYPE_CHECKING:
    from retinue.mailbox.wire import WireRegistry

__all__ = ["connect"]

T = TypeVar("T")


def connect(
    url: str,
    *,
    token: Token,
    timeout: float = TIMEOUT,
    connect_timeout: float = CONNECT_TIMEOUT,
    plain: bool = False,
    max_answer: int = MAX_ANSWER,
    tls: ssl.SSLContext | None = None,
    wire: WireRegistry | None = None,
) -> Client:
    """A client of a system that runs elsewhere: `async with rt.connect(url, token=token) as client: …`. Nothing is sent before the first question.

    Under asyncio it is `retinue.aio.connect`, in a plain script `retinue.sync.connect`; the arguments are the same. Proxies, `.netrc` and certificates that the
    environment names are not looked at, and redirects are not followed: the token goes to this address and nowhere else.

    Args:
        url: The gateway: `http://127.0.0.1:8420`, as `retinue serve` prints it, or https to another machine.
        token: The sealed token that everything is asked under: its text, an `rt.TokenFile`, or the `pathlib.Path` of one.
        timeout: Seconds that an ask waits where neither the call nor the message class says otherwise. Default 30.
        connect_timeout: Seconds that a connection may take. Default 10.
        plain: Whether http may lead to another machine, where whoever is between reads the token.
        max_answer: The largest answer, or item of a stream, in bytes. Default 8 MiB.
        tls: How the server's certificate is checked, for https; default: by what this machine trusts.
        wire: The types that messages and answers may have. Default: a new registry; the messages that are sent need not be registered.

    Raises:
        GatewayError: The URL cannot be used ("wrong_url").
        TokenError: The token is empty, or none.
        DefinitionError: An argument is of another type.
    """
    session = Session(url, token=token, timeout=timeout, connect_timeout=connect_timeout, plain=plain, max_answer=max_answer, wire=wire)
    return Client(session, Connection(session.address.origin, tls_of(tls, encrypted=session.address.tls), TrioLoop()))


@final
class TrioLoop:
    """How it is done on trio."""

    def check(self) -> None:
        """Raises WrongEventLoop elsewhere."""
        try:
            library = sniffio.current_async_library()
        except sniffio.AsyncLibraryNotFoundError:
            library = "no event loop"
        if library != "trio":
            raise WrongEventLoop(
                f"retinue.connect is for trio, and this is {library}. Under asyncio use `from retinue.aio import connect`, in a plain script "
                "`from retinue.sync import connect`"
            )

    async def within(self, seconds: float, function: Callable[[], Awaitable[T]]) -> T:
        """Awaits what the function gives; raises TookTooLong after that many seconds."""
        with trio.move_on_after(seconds):
            return await function()
        raise TookTooLong

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await trio.sleep(seconds)
