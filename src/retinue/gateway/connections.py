"""One connection of a client: read, sent to, timed and cut off."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, cast

import trio
from hypercorn.events import Closed, RawData, Updated
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.typing import ConnectionState
from hypercorn.utils import parse_socket_addr

from retinue.gateway.http import Http
from retinue.gateway.unsent import SMALL
from retinue.gateway.visit import CONNECTION, Leaving

if TYPE_CHECKING:
    from hypercorn.events import Event

    from retinue.gateway.serving import Server

__all__ = ["Connection"]

RECEIVED: Final = 2**16
SENT: Final = 2**16
"""Bytes that are read, and written, at a time."""

AHEAD: Final = 2**17
"""Bytes of further requests that are read while an answer is under way: only so is it seen that the client leaves. Who sends more is cut off."""

LEAVING: Final = 1.0
"""Seconds in which answers are still given to who has sent several requests at once and closed, or half-closed."""

NEWCOMER: Final = 5.0
"""Seconds that a connection may be idle on which no token was accepted yet."""


class Connection(TCPServer):
    """One connection of a client.

    Attributes:
        left: Whether the client is gone, or cut off.
        visitors: Who wants to be told of that.
        owner: A name of the root of the token that was accepted on it last; "" as long as none was.
        moved: When its client last took something, in seconds of trio's clock.
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
        self._closed_at: float | None = None
        self.left = False
        self.visitors: set[Leaving] = set()
        self.owner = ""
        self.moved = 0.0

    @property
    def trusted(self) -> bool:
        """Whether a token was accepted on it."""
        return bool(self.owner)

    def trust(self, owner: str) -> None:
        """A token was accepted on it."""
        self.owner = owner
        self._server.newcomers.pop(self, None)

    async def run(self) -> None:
        """Serves it until one of both ends it."""
        socket = self.stream.socket
        try:
            client, here = parse_socket_addr(socket.family, socket.getpeername()), parse_socket_addr(socket.family, socket.getsockname())
            async with TaskGroup() as group:
                self._task_group = group
                state = ConnectionState(self.state)
                self._http = Http(
                    self._server.refusals,
                    self._overhear,
                    self.app,
                    self.config,
                    self.context,
                    group,
                    state,
                    False,
                    client,
                    here,
                    self.protocol_send,
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

    async def _overhear(self, answered: trio.Event) -> bytes | None:
        """Reads on while an answer is under way and the next request is there already. Returns what came, once it is answered, or None where the client has left."""
        ahead = bytearray()
        closed = False

        async def read() -> None:
            nonlocal closed
            try:
                while len(ahead) <= AHEAD:
                    data = await self.stream.receive_some(RECEIVED)
                    if not data:
                        break
                    ahead.extend(data)
                else:
                    self.abort()
            except (trio.ClosedResourceError, trio.BrokenResourceError):
                self.left = True
            closed = True
            reading.cancel_scope.deadline = -math.inf if self.left else self._until

        async with trio.open_nursery() as reading:
            reading.start_soon(read)
            await answered.wait()
            reading.cancel_scope.cancel()
        if closed and not answered.is_set():
            self._leave()
            await self.protocol.handle(Closed())
            return None
        return bytes(ahead)

    @property
    def _until(self) -> float:
        """Until when a client that has closed is answered."""
        if self._closed_at is None:
            self._closed_at = trio.current_time()
        return self._closed_at + LEAVING

    async def protocol_send(self, event: Event) -> None:
        """What hypercorn wants sent. A client that takes nothing for too long is cut off; nobody waits for it longer than that."""
        if isinstance(event, Closed) and self._http.answering:
            self._deaf = (
                True  # the body is no HTTP; the answer that is on its way all the same is not cut off for it, and nothing more is read
            )
            return
        if isinstance(event, Updated):
            self._waiting, self._begun = event.idle, False
            keep = self._bounds.keep_alive if self.owner else min(NEWCOMER, self._bounds.keep_alive)
            self._idle.deadline = trio.current_time() + keep if event.idle else math.inf
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
        counted = None
        try:
            self.moved = trio.current_time()
            if len(data) > SMALL:
                counted = self._server.unsent.begin(self, len(data))
            with trio.CancelScope(shield=True, deadline=self.moved + patience) as scope:
                try:
                    await self.stream.send_all(data[:SENT])
                    for start in range(SENT, len(data), SENT):
                        self.moved = trio.current_time()
                        scope.deadline = self.moved + patience
                        await self.stream.send_all(data[start : start + SENT])
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    self.abort()
            if scope.cancelled_caught:
                self.abort()
        finally:
            if counted is not None:
                self._server.unsent.end(self, counted)
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
