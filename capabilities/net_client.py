"""The guarded HTTP client itself: what is asked of httpx and httpcore, and what is refused on the way.

Every request, the first one and each that a redirect leads to, passes `GuardedTransport`, which checks the very URL that is connected to.
`GuardedClient` adds what spans several requests: redirects, the time for all of it, and which headers go along to another origin.
"""

from __future__ import annotations

import contextlib
import http.cookiejar
import ssl
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import attrs
import httpcore
import httpx
import trio

from retinue.capabilities.net_addresses import AddressRule, Resolver
from retinue.capabilities.net_backend import PinnedBackend
from retinue.capabilities.net_body import ENCODINGS, Body
from retinue.security.errors import GuardRefused
from retinue.security.hosts import DEFAULT_PORTS, HostPattern, Url, check_url

__all__ = ["GuardedClient", "GuardedTransport", "NetRules"]

_DEADLINE: Final = "retinue.deadline"
_EXTENSIONS: Final = frozenset({"timeout", _DEADLINE})

# What may go along to another origin. Anything else may be a secret that was meant for the first one (`X-Api-Key`).
_HARMLESS: Final = frozenset(
    {
        "accept",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "connection",
        "content-encoding",
        "content-language",
        "content-length",
        "content-type",
        "host",
        "range",
        "transfer-encoding",
        "user-agent",
    }
)

_ERRORS: Final = (
    "ConnectTimeout",
    "ReadTimeout",
    "WriteTimeout",
    "PoolTimeout",
    "ConnectError",
    "ReadError",
    "WriteError",
    "RemoteProtocolError",
    "LocalProtocolError",
    "UnsupportedProtocol",
    "TimeoutException",
    "NetworkError",
    "ProtocolError",
)
"""Names that httpcore and httpx have in common, the special ones first."""


@attrs.frozen(kw_only=True)
class NetRules:
    """Where a client may connect to, and how much of it. See `guarded_client` for the meaning of each."""

    names: tuple[HostPattern, ...]
    schemes: tuple[str, ...]
    ports: tuple[int, ...]
    timeout: float
    connect_timeout: float
    max_bytes: int
    max_redirects: int
    addresses: AddressRule

    def check(self, url: httpx.URL) -> Url:
        """The URL's parts, if it may be connected to and is read by httpx as it is read here. Raises GuardRefused otherwise."""
        parsed = check_url(str(url), self.names, self.schemes, self.ports)
        read = (url.scheme, url.host.removesuffix("."), url.port or DEFAULT_PORTS.get(url.scheme), url.raw_path)
        if read != (parsed.scheme, parsed.host, parsed.port, parsed.target.encode()):
            raise GuardRefused("the URL is read in two ways. Write it plainly: scheme://host/path.", what="host")
        return parsed


def place(url: Url | httpx.URL) -> str:
    """Where a URL leads to, for texts: without its path and query, which may hold secrets."""
    return f"{url.scheme}://{url.host}"


class GuardedTransport(httpx.AsyncBaseTransport):
    """Checks each request, connects to checked addresses alone, and bounds each answer.

    Args:
        rules: See `NetRules`.
        resolver: Gives the addresses of a name.
        tls: The context of TLS connections; None where there are none.
    """

    def __init__(self, rules: NetRules, resolver: Resolver, tls: ssl.SSLContext | None) -> None:
        self._rules = rules
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls, http1=True, http2=False, keepalive_expiry=5.0, network_backend=PinnedBackend(resolver, rules.addresses)
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request.

        Raises:
            GuardRefused: It, or where it leads to, is refused; nothing was sent.
            httpx.TransportError: As ever.
        """
        url = self._rules.check(request.url)
        deadline = request.extensions.get(_DEADLINE, trio.current_time() + self._rules.timeout)
        core = httpcore.Request(
            method=request.method,
            url=httpcore.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target),
            headers=_headers(request, url),
            content=request.stream,
            extensions={"timeout": request.extensions.get("timeout", {})},
        )
        with _translated(request), _in_time(deadline, request, self._rules.timeout):
            answer = await self._pool.handle_async_request(core)
        stream = AnswerStream(answer, request, deadline, self._rules, place(url))
        try:
            headers = httpx.Headers(answer.headers)
            body = Body(headers.get("content-encoding", ""), self._rules.max_bytes, place(url))
            if request.method != "HEAD" and (length := headers.get("content-length", "")).isdecimal():
                body.announced(int(length))
        except BaseException:
            await stream.aclose()
            raise
        stream.body = body
        if body.unpacks:  # it arrives unpacked
            for name in ("content-encoding", "content-length"):
                headers.pop(name, None)
        # The raw connection is not passed on: what is read from it has no bound.
        extensions = {name: value for name, value in answer.extensions.items() if name in ("http_version", "reason_phrase")}
        return httpx.Response(answer.status, headers=headers, stream=stream, extensions=extensions)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class AnswerStream(httpx.AsyncByteStream):
    """The body of an answer, unpacked, up to its bound and its deadline."""

    body: Body

    def __init__(self, answer: httpcore.Response, request: httpx.Request, deadline: float, rules: NetRules, where: str) -> None:
        self._answer = answer
        self._request = request
        self._deadline = deadline
        self._rules = rules
        self._where = where

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = self._answer.aiter_stream()
        while True:
            with _translated(self._request), _in_time(self._deadline, self._request, self._rules.timeout):
                piece = await anext(pieces, None)
            if piece is None:
                break
            with _translated(self._request):
                unpacked = self.body.feed(piece)
            if unpacked:
                yield unpacked
        with _translated(self._request):
            self.body.finish()

    async def aclose(self) -> None:
        with _translated(self._request):
            await self._answer.aclose()


class GuardedClient(httpx.AsyncClient):
    """What `guarded_client` returns: an `httpx.AsyncClient` for trio whose every request is checked.

    Args:
        rules: See `NetRules`.
        transport: Sends single requests.
        headers: Sent with every request.
    """

    def __init__(self, rules: NetRules, transport: GuardedTransport, headers: Mapping[str, str] | None) -> None:
        no_cookies = http.cookiejar.CookieJar(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
        super().__init__(
            transport=transport,
            headers={"accept-encoding": ENCODINGS} | dict(headers or {}),
            cookies=no_cookies,  # one client serves many askers: none is to act with what another one was given
            timeout=httpx.Timeout(rules.timeout, connect=min(rules.timeout, rules.connect_timeout)),
            trust_env=False,
            follow_redirects=True,
            max_redirects=rules.max_redirects,
        )
        self._rules = rules

    def build_request(self, method: str, url: httpx.URL | str, **options: Any) -> httpx.Request:
        """Make a request; see `httpx.AsyncClient.build_request`. Text is checked as it is, before httpx mends what it can. Raises GuardRefused."""
        if isinstance(url, str):
            check_url(url, self._rules.names, self._rules.schemes, self._rules.ports)
        return super().build_request(method, url, **options)

    async def send(
        self,
        request: httpx.Request,
        *,
        stream: bool = False,
        auth: Any = httpx.USE_CLIENT_DEFAULT,
        follow_redirects: Any = httpx.USE_CLIENT_DEFAULT,
    ) -> httpx.Response:
        """Send a request, and those that redirects lead to; see `httpx.AsyncClient.send`.

        Raises:
            GuardRefused: A URL or an address is refused, or the answer is too large.
            httpx.HTTPError: As ever; `httpx.ReadTimeout` also when the time for all of it is over.
        """
        deadline = _now() + self._rules.timeout
        follow = self.follow_redirects if follow_redirects is httpx.USE_CLIENT_DEFAULT else follow_redirects
        history: list[httpx.Response] = []
        while True:
            request.extensions = {**request.extensions, _DEADLINE: deadline}
            try:
                response = await super().send(request, stream=True, auth=auth, follow_redirects=False)
            except httpx.InvalidURL:  # the request's own URL was read long ago; httpx has closed the answer
                raise httpx.RemoteProtocolError(f"{place(request.url)} redirects to what is no URL", request=request) from None
            response.history = list(history)
            following = response.next_request
            if not follow or following is None:
                break
            await response.aclose()  # a redirect's own body is of no use to anyone
            if len(history) >= self.max_redirects:
                raise httpx.TooManyRedirects(f"more than {self.max_redirects} redirects (max_redirects=)", request=request)
            self._check_redirect(request, following)
            history.append(response)
            request, auth = following, None
        if not stream:
            try:
                await response.aread()
            except BaseException:
                await response.aclose()
                raise
        return response

    def _check_redirect(self, request: httpx.Request, following: httpx.Request) -> None:
        """Refuse a redirect to where the client may not go, and take from the next request what is not meant for its origin."""
        before = self._rules.check(request.url)
        try:
            after = self._rules.check(following.url)
        except GuardRefused as error:
            raise GuardRefused(f"{place(before)} redirects to what is refused: {error}", what="host") from None
        if before.scheme == "https" and after.scheme != "https":
            raise GuardRefused(
                f"{place(before)} redirects to {place(after)}, from TLS to none. Use the https address, if there is one.", what="host"
            )
        if (before.scheme, before.host, before.port) != (after.scheme, after.host, after.port):
            following.headers = httpx.Headers([(name, value) for name, value in following.headers.multi_items() if name in _HARMLESS])


def _now() -> float:
    try:
        return trio.current_time()
    except RuntimeError:
        raise RuntimeError("a guarded client works within trio only: use it in an actor, or in a task of trio.run") from None


def _headers(request: httpx.Request, url: Url) -> list[tuple[bytes, bytes]]:
    """The request's headers, its `Host` the one of the URL. Raises GuardRefused for a request that would be led astray by something else."""
    odd = request.extensions.keys() - _EXTENSIONS
    if odd:
        raise GuardRefused(
            f"the request has the extension {min(odd)!r}, which could lead it elsewhere than its URL. Leave it out.", what="host"
        )
    if request.method.upper() in ("CONNECT", "TRACE"):
        raise GuardRefused(f"the method {request.method.upper()} is refused: it is for proxies. Use GET, POST and the like.", what="host")
    host = url.host if url.port == DEFAULT_PORTS[url.scheme] else f"{url.host}:{url.port}"
    given = [value.lower().removesuffix(".") for name, value in request.headers.multi_items() if name == "host"]
    if any(value.replace(".:", ":") not in (host, f"{url.host}:{url.port}") for value in given):
        raise GuardRefused("the request's Host header is another than its URL's. Leave it out; it follows from the URL.", what="host")
    return [(b"Host", host.encode()), *((name, value) for name, value in request.headers.raw if name.lower() != b"host")]


@contextlib.contextmanager
def _in_time(deadline: float, request: httpx.Request, seconds: float) -> Iterator[None]:
    try:
        with trio.fail_at(deadline):
            yield
    except trio.TooSlowError:
        raise httpx.ReadTimeout(f"the request and its answer took more than {seconds:g} s (timeout=)", request=request) from None


@contextlib.contextmanager
def _translated(request: httpx.Request) -> Iterator[None]:
    """Raise httpx's errors in place of httpcore's, as its own transport does."""
    try:
        yield
    except zlib.error as error:
        raise httpx.DecodingError(f"the answer is not in the encoding that it names ({error})", request=request) from None
    except Exception as error:
        for name in _ERRORS:
            if isinstance(error, getattr(httpcore, name)):
                raise getattr(httpx, name)(_text(error), request=request) from error
        raise


def _text(error: BaseException) -> str:
    """The error's own text, or where it has none that of what caused it (TLS says what is wrong only there)."""
    cause: BaseException | None = error
    while cause is not None and not str(cause):
        cause = cause.__cause__ or cause.__context__
    return str(cause) if cause is not None else type(error).__name__
