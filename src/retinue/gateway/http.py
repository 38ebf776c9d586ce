"""HTTP/1.1 as the gateway speaks it: hypercorn's side of a connection on h11, and what they do not do by themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import h11
import trio
from hypercorn.events import Closed, RawData
from hypercorn.protocol.events import Response, StreamClosed
from hypercorn.protocol.h11 import H11Protocol

from retinue.errors import GatewayError
from retinue.gateway.visit import json_bytes
from retinue.remote import error_to_data

if TYPE_CHECKING:
    from hypercorn.protocol.events import Event as StreamEvent

    from retinue.gateway.refusals import Refusals

__all__ = ["Http"]


class Parser(h11.Connection):
    """For which a client's last request is the last. What comes behind one with `Connection: close`, or behind an answer with that, h11 takes for an error in the
    request, which is being answered. Here it is dropped.
    """

    def receive_data(self, data: bytes) -> None:
        if self.their_state is not h11.MUST_CLOSE:
            super().receive_data(data)

    gone = False
    """Whether the client has left, so that nothing more is read from it."""

    def next_event(self) -> Any:
        return h11.NEED_DATA if self.gone or self.their_state is h11.MUST_CLOSE else super().next_event()


class Answered:
    """What hypercorn waits for where another request has come while an answer is under way. It would not listen meanwhile, and a client could leave unnoticed.

    Args:
        parser: The connection's.
        overhear: Reads on until the event is set; what came meanwhile, or None where the client has left.
    """

    __slots__ = ("_event", "_overhear", "_parser")

    def __init__(self, parser: Parser, overhear: Callable[[trio.Event], Awaitable[bytes | None]]) -> None:
        self._parser = parser
        self._overhear = overhear
        self._event = trio.Event()

    async def clear(self) -> None:
        """An answer is under way."""
        self._event = trio.Event()

    async def set(self) -> None:
        """It is given."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether it is."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Until it is, or the client has left."""
        came = await self._overhear(self._event)
        if came is None:
            self._parser.gone = True
        elif came:
            self._parser.receive_data(came)


class Http(H11Protocol):
    """HTTP/1.1 and nothing else; what is no HTTP is answered as everything is, in JSON.

    Attributes:
        answering: Whether an answer has begun and not ended, and what the client sends meanwhile is no request any more.
    """

    _begun = False
    _head = b""

    def __init__(self, refusals: Refusals, overhear: Callable[[trio.Event], Awaitable[bytes | None]], *arguments: Any) -> None:
        super().__init__(*arguments)
        self.refusals = refusals
        self.connection = Parser(h11.SERVER, max_incomplete_event_size=self.config.h11_max_incomplete_size)
        self.can_read = Answered(self.connection, overhear)

    @property
    def answering(self) -> bool:
        """See the class."""
        return self._begun and self.connection.their_state is h11.ERROR

    async def stream_send(self, event: StreamEvent) -> None:
        """What the application answers."""
        if isinstance(event, Response):
            self._begun = True
        elif isinstance(event, StreamClosed):
            self._begun = False
        await super().stream_send(event)

    async def _send_h11_event(self, event: Any) -> None:
        """Sends the head of an answer with what comes first behind it: one call of the system, and one packet."""
        try:
            data = self.connection.send(event)
        except h11.LocalProtocolError:
            if self.connection.their_state is not h11.ERROR:
                raise
            return
        if isinstance(event, h11.Response):
            self._head = data
            return
        data, self._head = self._head + data, b""
        if data:
            await self.send(RawData(data))

    async def _check_protocol(self, event: h11.Request) -> None:
        """Overrides hypercorn's change to HTTP/2, which would go around every bound here."""

    async def _create_stream(self, request: h11.Request) -> None:
        size = len(request.target) + sum(len(name) + len(value) + 4 for name, value in request.headers)
        if size > self.config.h11_max_incomplete_size:  # h11 looks at what is incomplete alone, and this came in one piece
            await self._send_error_response(431)
            await self.send(Closed())
            return
        if request.method != request.method.upper():  # hypercorn would take it for the method in upper case, and those are different ones
            await self._send_error_response(400)
            await self.send(Closed())
            return
        if any(name == b"upgrade" for name, _ in request.headers):  # no websockets: the request is answered as what it is without
            headers = [(name, value) for name, value in request.headers if name != b"upgrade"]
            request = h11.Request(method=request.method, target=request.target, headers=headers, http_version=request.http_version)
        await super()._create_stream(request)

    async def _send_error_response(self, status_code: int) -> None:
        reason = "too_large" if status_code == 431 else "malformed"
        error = GatewayError("this is no HTTP/1.1 request, or its head is too long", status=status_code, reason=reason, delivered=False)
        self.refusals.note(error)
        status, body = error_to_data(error)
        data = json_bytes(body)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data)), (b"connection", b"close")]
        await self._send_h11_event(h11.Response(status_code=status, headers=headers))
        await self._send_h11_event(h11.Data(data=data))
        await self._send_h11_event(h11.EndOfMessage())
