"""Serving: the application on hypercorn's HTTP/1.1, with bounds that hypercorn does not have by itself.

Hypercorn's trio worker never cuts a client that takes nothing (it sends inside a shield), counts a header that comes in drops as idle time, has no limit on
connections, and ends with whatever still runs. So the connections are ours, and its parser and its ASGI side are used as they are. HTTP/1.1 alone is spoken:
an upgrade to HTTP/2 or to a websocket is not taken up.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext

from retinue.errors import DefinitionError, GatewayError
from retinue.gateway.connections import Connection
from retinue.gateway.unsent import Unsent
from retinue.gateway.visit import json_bytes
from retinue.remote import error_to_data

if TYPE_CHECKING:
    from retinue.gateway.bounds import Bounds
    from retinue.gateway.refusals import Refusals

__all__ = ["Server", "address_of", "is_loopback"]

_log = logging.getLogger("retinue.gateway")

SPARE_FILES: Final = 32
"""Files that the process may open beside those it has and the connections: for databases, records, modules, and to turn others away."""

FEWEST: Final = 8

NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""What `accept` fails with where the process, or the machine, has no room for another connection now."""

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


def files_left() -> float:
    """How many files the process may open yet; infinity where the system does not say."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return math.inf if most == resource.RLIM_INFINITY else most - sum(1 for _ in Path("/proc/self/fd").iterdir())
    except (ImportError, OSError):
        return math.inf


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
        self.most = bounds.max_connections
        self.unsent = Unsent(bounds)
        self.connections: set[Connection] = set()
        self.newcomers: dict[Connection, None] = {}
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
            left = files_left() - SPARE_FILES
            if left < self.most:
                self.most = max(FEWEST, int(left))
                _log.warning(
                    "the gateway takes %d connections instead of %d: the process may not open more files (ulimit -n)",
                    self.most,
                    self.bounds.max_connections,
                )
            async with trio.open_nursery() as outside:
                outside.start_soon(notice)
                with trio.CancelScope(shield=True):
                    async with trio.open_nursery() as handlers:
                        async with trio.open_nursery() as accepting:
                            accepting.start_soon(self.refusals.run)
                            for listener in listeners:
                                accepting.start_soon(self._accept, listener, handlers)
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

    async def _accept(self, listener: trio.SocketListener, handlers: trio.Nursery) -> None:
        """Takes connections. (`trio.serve_listeners` logs a whole traceback ten times a second where there is no room for one.)"""
        logged = -math.inf
        async with listener:
            while True:
                try:
                    stream = await listener.accept()
                except OSError as error:
                    if error.errno not in NO_ROOM:
                        raise
                    now = trio.current_time()
                    if now - logged >= 1.0:
                        logged = now
                        _log.error("no connection can be taken now: %s", error.strerror)
                    await trio.sleep(0.1)
                else:
                    handlers.start_soon(self._connected, stream)

    async def _connected(self, stream: trio.SocketStream) -> None:
        if len(self.connections) >= self.most and not self._make_room():
            await self._turn_away(stream)
            return
        connection = Connection(self, stream)
        self.connections.add(connection)
        self.newcomers[connection] = None
        try:
            await connection.run()
        except Exception:
            _log.exception("a connection ended with an error")
        finally:
            self.connections.discard(connection)
            self.newcomers.pop(connection, None)
            await trio.aclose_forcefully(stream)

    def _make_room(self) -> bool:
        """Closes the oldest connection on which no token was accepted, where there is one: nobody keeps others out who has no token."""
        oldest = next(iter(self.newcomers), None)
        if oldest is None:
            return False
        del self.newcomers[oldest]
        self.connections.discard(oldest)
        oldest.abort()
        self.refusals.note(GatewayError("a connection without a token made room for another", reason="rate", delivered=False))
        return True

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


def _last_answer(error: GatewayError) -> bytes:
    status, body = error_to_data(error)
    data = json_bytes(body)
    head = f"HTTP/1.1 {status} \r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\nconnection: close\r\n\r\n"
    return head.encode("ascii") + data
