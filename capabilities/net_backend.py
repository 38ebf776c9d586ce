"""Connections to addresses that were checked: the lowest layer of the guarded HTTP client."""

from __future__ import annotations

import math
import ssl
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any, cast

import httpcore
import trio

from retinue.capabilities.net_addresses import AddressRule, Resolver, resolve
from retinue.security.errors import GuardRefused

__all__ = ["PinnedBackend"]


class PinnedBackend(httpcore.AsyncNetworkBackend):
    """Resolves a name once, checks every address, and connects to one of them by its number.

    TLS is started by what is above, with the name; so the certificate is checked against the name, whatever the address.

    Args:
        resolver: Gives the addresses of a name.
        rule: Which addresses may be connected to.
    """

    def __init__(self, resolver: Resolver, rule: AddressRule) -> None:
        self._resolver = resolver
        self._rule = rule
        self._backend = cast("httpcore.AsyncNetworkBackend", httpcore.TrioBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect; see the class. The addresses are tried one after the other, each with its share of the time that is left."""
        end = trio.current_time() + (math.inf if timeout is None else timeout)
        try:
            with trio.fail_at(end):
                addresses = await resolve(host, port, self._resolver, self._rule)
        except trio.TooSlowError:
            raise httpcore.ConnectTimeout(f"the name {host!r} was not resolved in time") from None
        except OSError as error:
            raise httpcore.ConnectError(f"the name {host!r} cannot be resolved ({error})") from error
        failure: Exception | None = None
        for number, address in enumerate(addresses):
            share = (end - trio.current_time()) / (len(addresses) - number)
            try:
                stream = await self._backend.connect_tcp(
                    str(address), port, None if share == math.inf else max(share, 0.0), local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
                continue
            if ip_address(stream.get_extra_info("server_addr")[0]) == address:
                return PinnedStream(stream)
            await stream.aclose()
            raise GuardRefused(
                f"the connection to {host!r} ended at another address than the one that was checked. It was closed.", what="host"
            )
        assert failure is not None
        raise failure

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run meanwhile."""
        await trio.sleep(seconds)


class PinnedStream(httpcore.AsyncNetworkStream):
    """A connection that is closed also where the start of TLS is cancelled; httpcore's own is then left to the garbage collector."""

    __slots__ = ("_stream",)

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next bytes, b"" at the end."""
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all bytes."""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Begin TLS under the host's name."""
        try:
            return await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            with trio.CancelScope(shield=True):  # closing a socket does not wait for anything
                await self._stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        """What is known of the connection."""
        return self._stream.get_extra_info(info)
