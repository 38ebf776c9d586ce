"""`Gateway`: a running system for scripts in other processes."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Unpack

import trio
from starlette.exceptions import HTTPException
from starlette.routing import Route, Router

from retinue.actors.runtime.tracing import incoming, incoming_state
from retinue.errors import AuthorityError, DefinitionError, Denied, GatewayError, RemoteError, RetinueError, TokenError
from retinue.gateway.approving import Approving
from retinue.gateway.asking import Asking, Failed
from retinue.gateway.bounds import Bounds, BoundsOptions
from retinue.gateway.describing import Describing
from retinue.gateway.foreseeing import Foresight
from retinue.gateway.guard import LOOPBACK, Guard, shown
from retinue.gateway.permits import Permits
from retinue.gateway.refusals import Refusals
from retinue.gateway.visit import Gone, Receive, Scope, Send, Visit, json_bytes
from retinue.gateway.wires import Wires
from retinue.remote import error_to_data

if TYPE_CHECKING:
    from retinue.actors.runtime.system import ActorSystem
    from retinue.gateway.serving import Server
    from retinue.security.seal import Sealer

__all__ = ["Gateway"]

_log = logging.getLogger("retinue.gateway")

DENIED: Final = 9.0
"""Requests that one counts as more which the gate denies: each of those is a record of the audit."""

LISTS: Final = {"/v1/actors": 4.0, "/v1/openapi.json": 4.0, "/v1/approvals": 4.0}
"""Requests that one counts as more which has to go through all that there is."""


class Gateway:
    """A running system over HTTP: ask, tell, stream, watch, approvals. Every request needs a sealed token, and acts under what the token permits.

    `await nursery.start(gateway.serve)` listens, on loopback, and gives the URL. `gateway.app` is the ASGI application by itself. Reached are actors under
    `/user`, by the messages that their handlers take; a handler without `requires` by every token that permits anything.

    Args:
        system: The system, in whose task the gateway is used.
        sealer: What opens tokens. Default: `system.sealer()`, which needs a `data_dir`.
        hosts: The names under which the gateway may be addressed (the `Host` header), without ports. Default: 127.0.0.1, localhost, [::1].
        origins: Web pages that may send requests (the `Origin` header), as `http://host:port`. Default: none.
        open_handlers: Whether handlers without `requires` can be reached. Default: True.
        bounds: See `retinue.gateway.Bounds`.

    Raises:
        DefinitionError: An argument is none of these, or there are no keys.
        Denied: Made inside a handler.
    """

    def __init__(
        self,
        system: ActorSystem,
        sealer: Sealer | None = None,
        *,
        hosts: Iterable[str] = LOOPBACK,
        origins: Iterable[str] = (),
        open_handlers: bool = True,
        **bounds: Unpack[BoundsOptions],
    ) -> None:
        kernel = getattr(system, "_kernel", None)
        if kernel is None:
            raise DefinitionError(f"Gateway(system=…) takes a retinue.ActorSystem, not {type(system).__name__}")
        kernel.guard()
        try:
            self.bounds = Bounds(**bounds)
        except TypeError as error:
            if isinstance(error, DefinitionError):
                raise
            raise DefinitionError(f"Gateway(…): {error}") from None
        self.system = system
        self.refusals = Refusals(kernel.book.log)
        self._guard = Guard(system.sealer() if sealer is None else sealer, hosts, origins, self.bounds)
        wires = Wires(kernel, self.bounds, open_handlers=open_handlers)
        permits = Permits(kernel)
        self._asking = Asking(system, wires, permits, self.bounds, self._guard, self.refusals)
        self._closing = False
        self._server: Server | None = None
        self._router = Router(
            _routes(self._asking, Describing(wires, permits, Foresight(system)), Approving(system, permits, self.bounds, wires)),
            redirect_slashes=False,
        )

    @property
    def app(self) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        """The ASGI application, for a server of your own. (Bounds on connections and headers are then that server's.)"""
        return self._answer

    @property
    def streams(self) -> int:
        """Streams and watches that are open."""
        return self._asking.streams

    async def serve(self, bind: str = "127.0.0.1:0", *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """Listens until `stop` is called, or the task is cancelled: `url = await nursery.start(gateway.serve)`.

        Args:
            bind: Address and port; port 0 is a free one. Default: `127.0.0.1:0`. There is no TLS: another address than loopback sends tokens in the clear.
            task_status: Told the URL, once it listens.

        Raises:
            OSError: It cannot listen there.
            DefinitionError: `bind` is no address and port, or the gateway serves already.
        """
        from retinue.gateway.serving import Server

        if self._server is not None:
            raise DefinitionError("this gateway serves already, or has served; make another one")
        self._server = Server(self._answer, self.bounds, self.refusals, self.close)
        await self._server.run(bind, task_status)

    def close(self) -> None:
        """Takes no more requests, and ends all streams, each with an error event. What is asked already goes on."""
        self._closing = True
        self._asking.close()

    async def stop(self, *, grace: float = 5.0) -> None:
        """Ends `serve`: nothing new is taken, streams end with an error event, asks in progress may finish.

        Args:
            grace: Seconds that they have; then their connections are cut. Default: 5.
        """
        self.close()
        if self._server is not None:
            await self._server.stop(grace)

    # -- one request -------------------------------------------------------------------------------------------------------------------------------

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "http":
            visit = Visit(scope, receive, send)
            try:
                await self._let_in(visit)
            except Gone:
                return
            except Failed as failed:
                if isinstance(failed.error, Denied):
                    self._guard.owe(visit.caller, DENIED)
                await self._tell(visit, *error_to_data(failed.error, raises=failed.raises, asked=True))
            except HTTPException as error:
                await self._refuse(visit, _unroutable(error), *_allow(error))
            except RetinueError as error:
                await self._refuse(visit, error)
            except Exception:
                _log.exception("a request failed in the gateway itself")
                await self._tell(visit, *error_to_data(RemoteError("the gateway failed; its log says how", type="InternalError")))

    async def _let_in(self, visit: Visit) -> None:
        """Each step only after the one before has let it pass."""
        guard = self._guard
        guard.check_place(visit.headers)
        visit.caller = guard.caller(visit.headers, visit.known)
        incoming.set(visit.traceparent)  # of each request anew: a connection is one task
        incoming_state.set(visit.tracestate)
        if visit.connection is not None:
            visit.connection.trust(visit.caller.token_id)
        if self._closing:
            raise GatewayError("the gateway is closing", reason="closing", delivered=False)
        raw = visit.scope.get("raw_path")
        if raw is not None and raw != visit.scope["path"].encode("utf-8"):
            raise HTTPException(404)  # no path of ours needs an escape, and what guards paths in front of us may not see through it
        if visit.scope["path"] in LISTS:
            guard.owe(visit.caller, LISTS[visit.scope["path"]])
        visit.scope["app"] = self  # so that the router raises what it cannot route
        visit.scope["retinue.visit"] = visit
        await self._router(visit.scope, visit._receive, visit._send)

    async def _refuse(self, visit: Visit, error: RetinueError, *more: tuple[bytes, bytes]) -> None:
        caller = getattr(visit, "caller", None)
        if not _recorded_by_gate(error):
            error = self.refusals.note(error, caller=caller)
        elif caller is not None:
            self._guard.owe(caller, DENIED)
        connection = visit.connection
        if connection is not None and not connection.trusted and (isinstance(error, TokenError) or _is_misdirected(error)):
            visit.last = True  # who shows no token keeps no connection
        if isinstance(error, TokenError):
            error = shown(error)
            more = (*more, (b"www-authenticate", b"Bearer"))
        status, data = error_to_data(error)
        seconds = _retry_after(error)
        if seconds:
            more = (*more, (b"retry-after", str(seconds).encode()))
        await self._tell(visit, status, data, *more)

    async def _tell(self, visit: Visit, status: int, data: dict[str, Any], *more: tuple[bytes, bytes]) -> None:
        if visit.started:
            return
        try:
            await visit.answer(status, json_bytes(data), *more)
        except Gone:
            return


class Endpoint:
    """One method of one path, as an ASGI application: starlette then adds nothing around it."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[Visit], Awaitable[None]]) -> None:
        self._function = function

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - the visit has them
        await self._function(scope["retinue.visit"])


def _routes(asking: Asking, describing: Describing, approving: Approving) -> list[Route]:
    routes = [
        Route("/v1/ask", Endpoint(asking.ask), methods=["POST"]),
        Route("/v1/tell", Endpoint(asking.tell), methods=["POST"]),
        Route("/v1/stream", Endpoint(asking.stream), methods=["POST"]),
        Route("/v1/watch", Endpoint(asking.watch), methods=["GET"]),
        Route("/v1/actors", Endpoint(describing.actors), methods=["GET"]),
        Route("/v1/openapi.json", Endpoint(describing.openapi), methods=["GET"]),
        Route("/v1/approvals", Endpoint(approving.listed), methods=["GET"]),
        Route("/v1/approvals/{id}", Endpoint(approving.one), methods=["GET"]),
        Route("/v1/approvals/{id}/approve", Endpoint(approving.approve), methods=["POST"]),
        Route("/v1/approvals/{id}/reject", Endpoint(approving.reject), methods=["POST"]),
        Route("/v1/approvals/{id}/respond", Endpoint(approving.respond), methods=["POST"]),
        Route("/v1/approvals/{id}/edit", Endpoint(approving.edit), methods=["POST"]),
    ]
    for route in routes:
        assert route.methods is not None
        route.methods.discard("HEAD")  # which starlette adds to GET: a stream without a body would last, and say nothing
    return routes


def _is_misdirected(error: RetinueError) -> bool:
    return isinstance(error, GatewayError) and error.reason == "refused_host"


def _recorded_by_gate(error: RetinueError) -> bool:
    """Whether the refusal is on record already: of those that can come here, what the gate was asked."""
    return isinstance(error, AuthorityError) and getattr(error, "operation", None) is not None


def _retry_after(error: RetinueError) -> int:
    """Whole seconds after which it may be tried again (RFC 9110, 10.2.3); 0 where the error does not say that trying again helps."""
    seconds = getattr(error, "retry_after", None)
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < math.inf:
        return math.ceil(seconds)
    return 1 if isinstance(error, GatewayError) and error.reason == "rate" and error.status is None else 0


def _unroutable(error: HTTPException) -> GatewayError:
    if error.status_code == 405:
        return GatewayError("this path takes another method", status=405, reason="not_found", delivered=False)
    return GatewayError("there is no such path; GET /v1/openapi.json lists them", status=404, reason="not_found", delivered=False)


def _allow(error: HTTPException) -> Iterable[tuple[bytes, bytes]]:
    allowed = (error.headers or {}).get("Allow")
    return [(b"allow", allowed.encode("ascii"))] if allowed else []


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
