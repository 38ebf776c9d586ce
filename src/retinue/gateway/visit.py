"""A visit: one HTTP request on its way through the gateway, and its answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import trio

from retinue.actors.runtime.tracing import MOST_STATE
from retinue.mailbox.wire_json import Limits, render

if TYPE_CHECKING:
    from retinue.gateway.guard import Caller

_log = logging.getLogger("retinue.gateway")

__all__ = ["CONNECTION", "Gone", "Headers", "Leaving", "Receive", "Scope", "Send", "Visit", "json_bytes"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

CONNECTION: Final = "retinue.connection"
"""Where our server says, in a scope's state, which connection it is."""

LINGER: Final = 2.0
"""Seconds in which a client may go on sending a body that nobody reads, so that it gets to read why."""

LONGEST_TRACEPARENT: Final = 64
"""Bytes of a header that names a span."""

_ANY_SIZE: Final = Limits(max_bytes=2**30, max_depth=200)

_HEADERS: Final = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class Gone(Exception):
    """The client has left: there is nobody to answer."""


class Headers:
    """A request's headers, looked up without regard to case; ASGI's own are lower-case already."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._pairs = list(pairs)

    def all(self, name: bytes) -> list[bytes]:
        """The values of all headers of that name."""
        return [value.strip() for key, value in self._pairs if key == name]


class Visit:
    """One request.

    Attributes:
        scope: ASGI's description of it.
        headers: Its headers.
        caller: Who asks; set once the guard knows it.
        started: Whether an answer has begun, so that no other one can.
        over: Whether its body has come to the end (or there is none).
        last: Whether the connection is closed after the answer.
    """

    __slots__ = ("_receive", "_send", "caller", "headers", "last", "over", "scope", "started")

    caller: Caller

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self._receive = receive
        self._send = send
        self.headers = Headers(scope["headers"])
        self.started = False
        self.last = False
        self.over = self.headers.all(b"content-length") in ([], [b"0"]) and not self.headers.all(b"transfer-encoding")

    @property
    def traceparent(self) -> str | None:
        """The caller's span, where it says one; what is none is left alone by whoever looks at it."""
        values = self.headers.all(b"traceparent")
        return values[0].decode("ascii", "replace") if len(values) == 1 and len(values[0]) <= LONGEST_TRACEPARENT else None

    @property
    def tracestate(self) -> str | None:
        """What belongs to that span, where it is said: a list that may stand in several headers."""
        values = self.headers.all(b"tracestate")
        whole = b",".join(values)
        return whole.decode("ascii", "replace") if values and len(whole) <= MOST_STATE else None

    def known(self, caller: Caller) -> None:
        """Says who asks, before it is sure that the guard lets it in: for the record of what is refused."""
        self.caller = caller

    async def receive(self) -> bytes:
        """The next part of the body; sets `over` with the last one. Raises Gone."""
        message = await self._receive()
        if message["type"] != "http.request":
            raise Gone
        self.over = not message.get("more_body", False)
        return message.get("body", b"")  # type: ignore[no-any-return]

    async def answer(self, status: int, body: bytes, *more: tuple[bytes, bytes]) -> None:
        """Sends a whole answer: JSON."""
        self.started = True
        headers = [*_HEADERS, (b"content-length", b"%d" % len(body)), *more]
        if self.last or not self.over:
            headers.append((b"connection", b"close"))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        if self.over:
            await self._send({"type": "http.response.body", "body": body})
            return
        # A server that closes while the client still sends takes the answer out of its hands (TCP resets). So the rest is read, for a while.
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        await self._drain()
        await self._send({"type": "http.response.body", "body": b""})

    async def begin(self, content_type: bytes) -> None:
        """Begins an answer of many parts."""
        self.started = True
        headers = [(b"content-type", content_type), *_HEADERS[1:], (b"x-accel-buffering", b"no")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def part(self, body: bytes, *, last: bool = False) -> None:
        """Sends one part, at once."""
        await self._send({"type": "http.response.body", "body": body, "more_body": not last})

    @property
    def connection(self) -> Any:
        """Our server's connection; None under another server."""
        return self.scope.get("state", {}).get(CONNECTION)

    def leaving(self) -> Leaving:
        """A block that is cancelled when the client leaves: `async with visit.leaving() as leaving: …`, and then look at `leaving.left`."""
        return Leaving(self.connection, self._receive)

    async def _drain(self) -> None:
        with trio.move_on_after(LINGER):
            while not self.over:
                await self.receive()
        connection = self.connection
        if not self.over and connection is not None:
            connection.abort()
            with trio.move_on_after(LINGER):
                while True:  # what the connection's reader still holds for us, until it has seen the end
                    await self.receive()
            raise Gone


class Leaving:
    """A block that ends when the client leaves. Our own server tells; under another one a task waits for it.

    Attributes:
        left: Whether the client has left.
    """

    __slots__ = ("_connection", "_receive", "_waiting", "left", "scope")

    def __init__(self, connection: Any, receive: Receive) -> None:
        self._connection = connection
        self._receive = receive
        self._waiting = trio.CancelScope()
        self.left = False
        self.scope = trio.CancelScope()

    async def __aenter__(self) -> Self:
        if self._connection is None:
            trio.lowlevel.spawn_system_task(self._wait, name="retinue gateway: waits for a client to leave")
        else:
            self._connection.visitors.add(self)
            if self._connection.left:
                self.leave()
        self.scope.__enter__()
        return self

    def leave(self) -> None:
        """The client has left."""
        self.left = True
        self.scope.cancel()

    async def _wait(self) -> None:
        with self._waiting:
            try:
                while (await self._receive())["type"] != "http.disconnect":
                    pass
            except Exception as error:  # a system task may not fail; a server whose `receive` does has no client there any more
                _log.debug("a connection cannot be read any more: %r", error)
            self.leave()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        self._waiting.cancel()
        if self._connection is not None:
            self._connection.visitors.discard(self)
        return bool(self.scope.__exit__(kind, error, traceback))


def json_bytes(value: Any) -> bytes:
    """JSON of plain values that the gateway made itself."""
    return render(value, _ANY_SIZE)
