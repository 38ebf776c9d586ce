"""Serving: the application on hypercorn's HTTP/1.1, with bounds that hypercorn does not have by itself.

Hypercorn's trio worker never cuts a client that takes nothing (it sends inside a shield), counts a header that comes in drops as idle time, has no limit on
connections, and ends with whatever still runs. So the connections are ours, and its parser and its ASGI side are used as they are. HTTP/1.1 alone is spoken:
an upgrade to HTTP/2 or to a websocket is not taken up.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import h11
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, RawData, Updated
from hypercorn.protocol.events import Response, StreamClosed
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from hypercorn.utils import parse_socket_addr

from retinue.errors import DefinitionError, GatewayError
from retinue.gateway.visit import CONNECTION, Leaving, json_bytes
from retinue.remote import error_to_data

if TYPE_CHECKING:
    from hypercorn.events import Event
    from hypercorn.protocol.events import Event as StreamEvent

    from retinue.gateway.bounds import Bounds
    from retinue.gateway.refusals import Refusals

__all__ = ["Server", "address_of", "is_loopback"]

_log = logging.getLogger("retinue.gateway")

RECEIVED: Final = 2**16
SENT: Final = 2**16
"""Bytes that are read, and written, at a time."""

LAST_WORDS: Final = 0.5
"""Seconds that a server which is cancelled leaves to error events and answers on their way."""

_BIND: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]/\s]+):([0-9]{1,5})", re.ASCII)


def address_of(bind: str) -> tuple[str, int]:
    """Host and port of `host:port`. Raises DefinitionError."""
    match = _BIND.fullmatch(bind) if isinstance(bind, str) else None
    if match is None or int(match[2]) > 65_535:
        raise DefinitionError(f"bind={bind!r}: give host:port, such as 127.0.0.1:8080, an IPv6 address in brackets; port 0 is a free one")
    return match[1].strip("[]"), int(match[2])


def is_loopback(host: str) -> bool:
    """Whether it is this machine alone that can connect."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Server:
    """Listens, and ends in good order.

    Args:
        app: The ASGI application.
        bounds: How many connections, how long they may take.
        refusals: Where those are noted that never got to the application.
        on_stop: Called when the end begins: no new requests, streams say goodbye.
    """

    def __init__(self, app: Any, bounds: Bounds, refusals: Refusals, on_stop: Callable[[], None]) -> None:
        self.app = ASGIWrapper(app)
        self.bounds = bounds
        self.refusals = refusals
        self.connections: set[Connection] = set()
        self.context = WorkerContext(None)
        self.config = Config()
        self.config.accesslog = None
        self.config.errorlog = _log
        self.config.include_server_header = False
        self.config.h11_max_incomplete_size = bounds.max_headers
        self.config.keep_alive_max_requests = 2**31
        self._on_stop = on_stop
        self._stopping = trio.Event()
        self._stopped = trio.Event()
        self._grace = 0.0

    async def run(self, bind: str, task_status: trio.TaskStatus[str]) -> None:
        """See `Gateway.serve`."""
        cancelled = False

        async def notice() -> None:
            nonlocal cancelled
            try:
                await self._stopped.wait()
            except trio.Cancelled:
                cancelled = True
                raise
            finally:
                self._stopping.set()

        # The connections live inside a shield, so that a cancelled server can still say goodbye; beside it a task notices the cancellation.
        try:
            host, port = address_of(bind)
            listeners = await trio.open_tcp_listeners(port, host=host, backlog=1024)
            port = listeners[0].socket.getsockname()[1]
            async with trio.open_nursery() as outside:
                outside.start_soon(notice)
                with trio.CancelScope(shield=True):
                    async with trio.open_nursery() as handlers:
                        async with trio.open_nursery() as accepting:
                            accepting.start_soon(self.refusals.run)
                            accepting.start_soon(partial(trio.serve_listeners, self._connected, listeners, handler_nursery=handlers))
                            task_status.started(f"http://{f'[{host}]' if ':' in host else host}:{port}")
                            await self._stopping.wait()
                            accepting.cancel_scope.cancel()
                        await self._end(LAST_WORDS if cancelled else self._grace)
                        handlers.cancel_scope.cancel()
                self._stopped.set()
        finally:
            self._stopped.set()
            self.refusals.flush(everything=True)

    async def stop(self, grace: float) -> None:
        """Ends `run`, and waits for its end."""
        self._grace = grace
        self._stopping.set()
        await self._stopped.wait()

    async def _end(self, grace: float) -> None:
        self._on_stop()
        await self.context.terminated.set()  # hypercorn closes idle connections now, and others after their answer
        with trio.move_on_after(grace):
            while self.connections:  # noqa: ASYNC110 - when the last one of them ends is no event of ours
                await trio.sleep(0.01)
        for connection in list(self.connections):
            connection.abort()

    async def _connected(self, stream: trio.SocketStream) -> None:
        if len(self.connections) >= self.bounds.max_connections:
            await self._turn_away(stream)
            return
        connection = Connection(self, stream)
        self.connections.add(connection)
        try:
            await connection.run()
        except Exception:
            _log.exception("a connection ended with an error")
        finally:
            self.connections.discard(connection)

    async def _turn_away(self, stream: trio.SocketStream) -> None:
        error = GatewayError(
            "the gateway has all the connections that it takes; come back later", status=503, reason="rate", delivered=False
        )
        self.refusals.note(error)
        with trio.move_on_after(1.0):
            try:
                await stream.send_all(_last_answer(error))
                await stream.send_eof()
            except trio.BrokenResourceError:
                pass
        await trio.aclose_forcefully(stream)


class Connection(TCPServer):
    """One connection of a client.

    Attributes:
        left: Whether the client is gone, or cut off.
        visitors: Who wants to be told of that.
    """

    stream: Any  # a trio.SocketStream; hypercorn says that it is one of TLS
    _http: Http

    def __init__(self, server: Server, stream: trio.SocketStream) -> None:
        state = ConnectionState(cast("Any", {CONNECTION: self}))
        super().__init__(server.app, server.config, server.context, state, cast("Any", stream))
        self._server = server
        self._bounds = server.bounds
        self._idle = trio.CancelScope()
        self._waiting = True
        self._begun = False
        self._deaf = False
        self.left = False
        self.visitors: set[Leaving] = set()

    async def run(self) -> None:
        """Serves it until one of both ends it."""
        socket = self.stream.socket
        try:
            client, here = parse_socket_addr(socket.family, socket.getpeername()), parse_socket_addr(socket.family, socket.getsockname())
            async with TaskGroup() as group:
                self._task_group = group
                state = ConnectionState(self.state)
                self._http = Http(
                    self._server.refusals, self.app, self.config, self.context, group, state, False, client, here, self.protocol_send
                )
                self.protocol = cast("Any", self._http)
                async with trio.open_nursery() as watching:
                    watching.start_soon(self._watch_idle)
                    await self._read_data()
                    watching.cancel_scope.cancel()
        except OSError:
            pass  # it was gone before it began
        finally:
            self._leave()
            with trio.CancelScope(shield=True):
                await self._close()

    def abort(self) -> None:
        """Cuts it off, at once."""
        self._leave()
        self.stream.socket.close()

    def _leave(self) -> None:
        self.left = True
        for visitor in list(self.visitors):
            visitor.leave()

    async def _read_data(self) -> None:
        while True:
            try:
                data = await self.stream.receive_some(RECEIVED)
            except (trio.ClosedResourceError, trio.BrokenResourceError):
                break
            if not data:
                break
            if self._waiting and not self._begun:  # the first bytes of a request: its head has to be whole soon
                self._begun = True
                self._idle.deadline = min(self._idle.deadline, trio.current_time() + self._bounds.header_timeout)
            if not self._deaf:
                await self.protocol.handle(RawData(bytes(data)))
        self._leave()
        await self.protocol.handle(Closed())

    async def protocol_send(self, event: Event) -> None:
        """What hypercorn wants sent. A client that takes nothing for too long is cut off; nobody waits for it longer than that."""
        if isinstance(event, Closed) and self._http.answering:
            self._deaf = (
                True  # the body is no HTTP; the answer that is on its way all the same is not cut off for it, and nothing more is read
            )
            return
        if isinstance(event, Updated):
            self._waiting, self._begun = event.idle, False
            self._idle.deadline = trio.current_time() + self._bounds.keep_alive if event.idle else math.inf
            return
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        data = memoryview(event.data)
        patience = self._bounds.write_timeout
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            self.send_lock.acquire_nowait()  # acquire() would go through the scheduler even where it is free, and sending does that already
        except trio.WouldBlock:
            await self.send_lock.acquire()
        try:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + patience) as scope:
                try:
                    await self.stream.send_all(data[:SENT])
                    for start in range(SENT, len(data), SENT):
                        scope.deadline = trio.current_time() + patience
                        await self.stream.send_all(data[start : start + SENT])
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    self.abort()
            if scope.cancelled_caught:
                self.abort()
        finally:
            self.send_lock.release()

    async def _close(self) -> None:
        try:
            await super()._close()
        except OSError:
            pass  # it was cut off

    async def _watch_idle(self) -> None:
        """Closes the connection when it has waited for a request for too long, or waits for one while the server ends. (Hypercorn starts a task for each wait.)"""
        self._idle.deadline = trio.current_time() + self._bounds.header_timeout
        while True:
            with self._idle:
                await self.context.terminated.wait()
            if self._waiting:
                with trio.CancelScope(shield=True):
                    await self._initiate_server_close()
                return
            if not self._idle.cancelled_caught:
                return  # the server ends: the answer that is on its way is the last one
            self._idle = trio.CancelScope()  # a request was there at the very moment


class Parser(h11.Connection):
    """For which a client's last request is the last. What comes behind one with `Connection: close`, or behind an answer with that, h11 takes for an error in the
    request, which is being answered. Here it is dropped.
    """

    def receive_data(self, data: bytes) -> None:
        if self.their_state is not h11.MUST_CLOSE:
            super().receive_data(data)

    def next_event(self) -> Any:
        return h11.NEED_DATA if self.their_state is h11.MUST_CLOSE else super().next_event()


class Http(H11Protocol):
    """HTTP/1.1 and nothing else; what is no HTTP is answered as everything is, in JSON.

    Attributes:
        answering: Whether an answer has begun and not ended, and what the client sends meanwhile is no request any more.
    """

    _begun = False
    _head = b""

    def __init__(self, refusals: Refusals, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.refusals = refusals
        self.connection = Parser(h11.SERVER, max_incomplete_event_size=self.config.h11_max_incomplete_size)

    @property
    def answering(self) -> bool:
        return self._begun and self.connection.their_state is h11.ERROR

    async def stream_send(self, event: StreamEvent) -> None:
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


def _last_answer(error: GatewayError) -> bytes:
    status, body = error_to_data(error)
    data = json_bytes(body)
    head = f"HTTP/1.1 {status} \r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\nconnection: close\r\n\r\n"
    return head.encode("ascii") + data
