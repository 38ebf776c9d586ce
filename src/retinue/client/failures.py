"""What httpx raises, as errors of ours: what happened, and whether the message may have been delivered."""

from __future__ import annotations

import ssl
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final

import httpx

from retinue.client.exchange import Exchange
from retinue.mailbox.errors import GatewayError
from retinue.security.errors import RetinueError

__all__ = ["LIMITS", "failure_of", "no_cookies", "tls_of"]

LIMITS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30.0)
"""As many connections as there are streams and asks at one time; 64 are kept for 30 s once they are idle."""


def failure_of(error: httpx.HTTPError | httpx.InvalidURL | httpx.StreamError, exchange: Exchange[Any], origin: str) -> RetinueError:
    """The error for a request that was not answered. Nothing of it holds the token: httpx's own errors keep the request, with its headers."""
    text = _text_of(error)
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        return GatewayError(f"no connection to {origin} in time; nothing was sent", reason="unreachable", delivered=False)
    if isinstance(error, httpx.ConnectError):
        return GatewayError(
            f"no gateway can be reached at {origin} ({text}); nothing was sent. Is `retinue serve` running, and is the URL what it printed?",
            reason="unreachable",
            delivered=False,
        )
    if isinstance(error, httpx.TimeoutException):
        return exchange.overdue()
    if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError | httpx.InvalidURL):
        return GatewayError(f"{exchange.what} cannot be sent to {origin} ({text})", reason="wrong_url", delivered=False)
    if isinstance(error, httpx.RemoteProtocolError) and "disconnected" not in str(error) and "closed connection" not in str(error):
        return GatewayError(f"what stands at {origin} does not speak HTTP as a gateway does ({text}). Check the URL", reason="wrong_server")
    return GatewayError(
        f"the connection to {origin} broke off before {exchange.what} was answered ({text}). The outcome is unknown: it may have been carried out",
        reason="broken",
    )


def no_cookies() -> CookieJar:
    """A jar that takes none: what a server wants to be told again is not told."""
    return CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))


def _text_of(error: BaseException) -> str:
    """The error's name and text; where it has none (on trio, say), that of the first one behind it that has: a certificate that nobody trusts, a refused connection."""
    behind: BaseException | None = error
    for _ in range(10):
        if behind is None:
            break
        if str(behind):
            return f"{type(error).__name__}: {behind}"
        behind = behind.__cause__ or behind.__context__
    return type(error).__name__


def tls_of(given: ssl.SSLContext | None, *, encrypted: bool) -> ssl.SSLContext:
    """The TLS context of a client: the given one, or one that trusts what this machine trusts; where nothing is encrypted, one that trusts nobody."""
    if given is not None:
        return given
    return ssl.create_default_context() if encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
