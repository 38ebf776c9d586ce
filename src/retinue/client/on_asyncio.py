"""The client under asyncio."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, final

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
    """A client of a system that runs elsewhere: `async with aio.connect(url, token=token) as client: …`. Arguments and errors as for `retinue.connect`."""
    session = Session(url, token=token, timeout=timeout, connect_timeout=connect_timeout, plain=plain, max_answer=max_answer, wire=wire)
    return Client(session, Connection(session.address.origin, tls_of(tls, encrypted=session.address.tls), AsyncioLoop()))


@final
class AsyncioLoop:
    """How it is done under asyncio."""

    def check(self) -> None:
        """Raises WrongEventLoop elsewhere."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise WrongEventLoop(
                "retinue.aio.connect is for asyncio, and no asyncio loop runs here. On trio use retinue.connect, in a plain script "
                "`from retinue.sync import connect`"
            ) from None

    async def within(self, seconds: float, function: Callable[[], Awaitable[T]]) -> T:
        """Awaits what the function gives; raises TookTooLong after that many seconds."""
        scope = asyncio.timeout(None if seconds == math.inf else seconds)
        try:
            async with scope:
                return await function()
        except TimeoutError:
            if scope.expired():
                raise TookTooLong from None
            raise

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)
