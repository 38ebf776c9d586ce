"""An endpoint's connections: one HTTP client for each request that is under way, kept for the next.

httpx would share one client among all requests, and its pool is made for a few of them: it promises an idle connection to every request that waits, all but
one of which find it taken and start over. With 256 requests at once that is six times the work of 256 clients with a connection each, and few of the
connections are used.
"""

from __future__ import annotations

import importlib
import math
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress

import httpx
import trio

from retinue.actors.llm.errors import BadEndpoint
from retinue.actors.llm.replies import tidy

# httpx would load them with the first client, or within the first request, and block the loop meanwhile.
for _name in ("certifi", "httpcore", "h2.connection"):
    with suppress(ImportError):
        importlib.import_module(_name)

__all__ = ["IDLE_SECONDS", "Connections"]

IDLE_SECONDS = 30.0
"""How long a connection that nobody needs is kept."""

CLOSING = 2.0
"""Seconds that a cancellation waits for connections to be closed."""


class Connections:
    """Clients with one connection each: `take()` one, `give_back` it. Not for use by several threads.

    Args:
        headers: Of every request.
        connect: Seconds to connect, TLS included; `math.inf` for no limit. All other waits are bounded by who reads.
        proxies: Whether the machine's proxy settings apply.
        secure: Whether certificates may be needed: they are loaded at once then.
        most_idle: How many clients are kept.
        transport: In the place of connections, for tests; default None.

    Raises BadEndpoint for proxy settings or certificates of the machine that cannot be used.
    """

    __slots__ = ("_closed", "_connect", "_headers", "_idle", "_most_idle", "_proxies", "_taken", "_tls", "_transport")

    def __init__(
        self,
        headers: Mapping[str, str],
        *,
        connect: float,
        proxies: bool,
        secure: bool,
        most_idle: int,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._headers = dict(headers)
        self._connect = None if connect == math.inf else connect
        self._proxies = proxies
        self._most_idle = most_idle
        self._transport = transport
        self._idle: list[tuple[httpx.AsyncClient, float]] = []
        """The one that was used last is the last."""
        self._taken: set[httpx.AsyncClient] = set()
        self._closed = False
        try:
            # One for all: loading the certificates takes 20 ms. For plain addresses none are loaded.
            self._tls = httpx.create_ssl_context(trust_env=proxies) if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        except OSError as error:  # ssl.SSLError is one
            raise BadEndpoint(
                f"the machine's certificates cannot be loaded ({tidy(error.strerror or str(error))}): mend SSL_CERT_FILE or SSL_CERT_DIR"
            ) from None
        self._idle.append((self._make(), -math.inf))  # so that settings that cannot be used are told of now

    def _make(self) -> httpx.AsyncClient:
        try:
            return httpx.AsyncClient(
                headers=self._headers,
                timeout=httpx.Timeout(None, connect=self._connect),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=1, keepalive_expiry=IDLE_SECONDS),
                trust_env=self._proxies,
                verify=self._tls,
                follow_redirects=False,
                transport=self._transport,
            )
        except (ImportError, ValueError, httpx.InvalidURL) as error:  # its text may show a proxy's password
            needed = ", and a SOCKS proxy needs `pip install 'httpx[socks]'`" if isinstance(error, ImportError) else ""
            raise BadEndpoint(
                "the machine's proxy settings cannot be used: mend HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY (or the same in small letters)"
                f"{needed}; proxies=False passes them over"
            ) from None

    def take(self) -> httpx.AsyncClient:
        """A client for one request: the one that was used last, whose connection is the likeliest to live; else a new one."""
        client = self._idle.pop()[0] if self._idle else self._make()
        self._taken.add(client)
        return client

    async def give_back(self, client: httpx.AsyncClient, *, again: bool = True) -> None:
        """The request is over, however it ended. Those that nobody has needed for `IDLE_SECONDS` are closed.

        Args:
            client: Which one.
            again: Whether it may be used again.
        """
        self._taken.discard(client)
        client.cookies.clear()  # the next request is another one's
        now = trio.current_time()
        over: list[httpx.AsyncClient] = []
        if self._closed or not again or len(self._idle) >= self._most_idle:
            over.append(client)
        else:
            self._idle.append((client, now))
        while self._idle and self._idle[0][1] < now - IDLE_SECONDS:
            over.append(self._idle.pop(0)[0])
        if over:
            await _close(over)

    async def aclose(self) -> None:
        """Close all connections, those in use included; safe to call again."""
        self._closed = True
        clients = [*(client for client, _ in self._idle), *self._taken]
        self._idle.clear()
        await _close(clients)


async def _close(clients: Iterable[httpx.AsyncClient]) -> None:
    with trio.move_on_after(CLOSING, shield=True):
        for client in clients:
            await client.aclose()
