"""Connections to addresses that were checked: the lowest layer of the guarded HTTP client."""

from __future__ import annotations

import math
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any

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
        self._backend = httpcore.TrioBackend()

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
                return stream
            await stream.aclose()
            raise GuardRefused(
                f"the connection to {host!r} ended at another address than the one that was checked. It was closed.", what="host"
            )
        assert failure is not None
        raise failure

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run meanwhile."""
        await trio.sleep(seconds)
