"""A guarded HTTP client: it connects to the hosts that it was made for, on the public internet, and to nothing else.

For code that fetches what an agent names: the URL that was permitted must be the one that is connected to, also after the name was
resolved, after a redirect, and whatever the machine's proxy settings say. The parts: `net_addresses` (names to addresses), `net_backend`
(connections), `net_body` (bounds), `net_client` (requests). Importing this module loads no HTTP library; making a client does.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from retinue.security.errors import GuardRefused
from retinue.security.hosts import HostPattern

if TYPE_CHECKING:
    import httpx

    from retinue.capabilities.net_addresses import Resolver

T = TypeVar("T")

__all__ = ["MAX_BYTES", "MAX_REDIRECTS", "TIMEOUT", "guarded_client"]

TIMEOUT: Final = 30.0
"""Seconds for a request, its redirects and its whole answer."""

CONNECT_TIMEOUT: Final = 10.0
"""Seconds to resolve a name and connect, TLS included."""

MAX_BYTES: Final = 10 * 1024 * 1024
"""The most bytes of an answer, as they come and unpacked."""

MAX_REDIRECTS: Final = 5
"""The most redirects of a request."""


def guarded_client(
    names: Iterable[str],
    *,
    schemes: Iterable[str] = ("https",),
    ports: Iterable[int] = (443,),
    timeout: float = TIMEOUT,
    connect_timeout: float = CONNECT_TIMEOUT,
    max_bytes: int = MAX_BYTES,
    max_redirects: int = MAX_REDIRECTS,
    allow_private: bool = False,
    addresses: Iterable[str] = (),
    resolver: Resolver | None = None,
    tls: ssl.SSLContext | None = None,
    headers: Mapping[str, str] | None = None,
) -> httpx.AsyncClient:
    """An HTTP client, for trio, that goes nowhere but to these hosts. Use it in an `async with` block.

    It is an `httpx.AsyncClient`: `get`, `post`, `stream` and the rest are httpx's. It follows redirects, keeps no cookies, and takes
    nothing from the environment (no proxies, no `.netrc`, no certificates). Each URL, redirects included, is checked as `host(…)` checks an
    argument: IP addresses in any spelling, user names and odd characters are refused. Each name is resolved once a connection, all its
    addresses are checked, and one of them is connected to by its number; TLS and `Host` keep the name. A request whose `Host` header,
    method or extensions would lead it elsewhere is refused. Headers that are not plainly harmless do not go along to another origin.

    Make one client and keep it: its connections are kept for the next request, and the first client of a process loads httpx and the certificates, for which a
    loop stands still half a second. So make it in `on_start`, not at the first message.

    Args:
        names: Hosts, or patterns such as `*.example.com` (see `HostPattern`).
        schemes: "https" and "http"; default https alone. A redirect from https to http is refused in any case.
        ports: Default 443 alone.
        timeout: Seconds for a request, its redirects and its whole answer, a streamed one too; default 30.
        connect_timeout: Seconds to resolve and connect, of those; default 10.
        max_bytes: The most bytes of an answer, as they come and unpacked; default 10,485,760.
        max_redirects: The most redirects of a request; default 5. With 0 or `follow_redirects=False` they are not followed.
        allow_private: Whether addresses of private networks and of this machine may be connected to (default False); never link-local
            ones and the metadata servers of clouds.
        addresses: Addresses or networks that may be connected to in any case: `["127.0.0.1"]` for a test.
        resolver: An async function from a name and a port to addresses; default: the machine's.
        tls: For certificates of one's own; must check certificates and names. Default: the authorities of `certifi`.
        headers: Sent with every request to the origin that was asked for.

    Returns:
        The client. Its methods raise GuardRefused (`what` is "host" or "body") for what is refused, and httpx's errors otherwise:
        `httpx.ReadTimeout` when the time is over, `httpx.TooManyRedirects`, `httpx.ConnectError` and so on.

    Raises:
        GuardRefused: An argument cannot be used.
    """
    from retinue.capabilities.net_addresses import AddressRule, system_resolver
    from retinue.capabilities.net_client import GuardedClient, GuardedTransport, NetRules

    rules = NetRules(
        names=_names(names),
        schemes=_schemes(schemes),
        ports=_ports(ports),
        timeout=_seconds("timeout", timeout),
        connect_timeout=_seconds("connect_timeout", connect_timeout),
        max_bytes=_count("max_bytes", max_bytes, 1),
        max_redirects=_count("max_redirects", max_redirects, 0),
        addresses=AddressRule(allow_private=allow_private is True, addresses=addresses),
    )
    transport = GuardedTransport(rules, system_resolver if resolver is None else resolver, _tls(tls, rules.schemes))
    return GuardedClient(rules, transport, headers)


def _refused(text: str) -> GuardRefused:
    return GuardRefused(f"a guarded client cannot be made: {text}", what="host")


def _names(names: Iterable[str]) -> tuple[HostPattern, ...]:
    return tuple(HostPattern(name) for name in _items("names", names, "['api.example.com']"))


def _schemes(schemes: Iterable[str]) -> tuple[str, ...]:
    found = _items("schemes", schemes, "('https',)")
    if not found or any(scheme not in ("http", "https") for scheme in found):
        raise _refused(f"schemes={found!r}. Give ('https',), or ('https', 'http').")
    return found


def _ports(ports: Iterable[int]) -> tuple[int, ...]:
    found = _items("ports", ports, "(443,)")
    if not found or not all(type(port) is int and 0 < port < 65536 for port in found):
        raise _refused(f"ports={found!r}. Give numbers from 1 to 65535, (443,) for example.")
    return found


def _items(name: str, given: Iterable[T], example: str) -> tuple[T, ...]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        shown = repr(given) if type(given) in (str, int) else f"an object of type {type(given).__name__}"
        raise _refused(f"{name}= is {shown}. Give a list or a tuple, {example} for example.")
    return tuple(given)


def _seconds(name: str, value: float) -> float:
    try:
        seconds = float(value) if type(value) is float or type(value) is int else math.nan
    except OverflowError:
        seconds = math.inf
    if not 0 < seconds < math.inf:
        raise _refused(f"{name}= is a finite number of seconds above zero.")
    return seconds


def _count(name: str, value: int, least: int) -> int:
    if type(value) is not int or value < least:
        raise _refused(f"{name}={value!r}. Give a whole number, {least} or more.")
    return value


def _tls(tls: ssl.SSLContext | None, schemes: tuple[str, ...]) -> ssl.SSLContext | None:
    if tls is not None:
        if not isinstance(tls, ssl.SSLContext):
            raise _refused(f"tls= is an ssl.SSLContext, not an object of type {type(tls).__name__}.")
        if tls.verify_mode is not ssl.CERT_REQUIRED or not tls.check_hostname:
            raise _refused("tls= does not check certificates and names. Give one with verify_mode=CERT_REQUIRED and check_hostname=True.")
        return tls
    if "https" not in schemes:
        return None
    return _usual_tls()


@lru_cache(maxsize=1)
def _usual_tls() -> ssl.SSLContext:
    """What checks certificates by the authorities of `certifi`. Reading them keeps a loop for a tenth of a second or more, so it is done once, and all clients
    have the same.
    """
    import httpx

    return httpx.create_ssl_context(trust_env=False)
