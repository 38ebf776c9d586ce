"""Ask, tell, stream and watch: from HTTP to a ref, and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import trio

from retinue.errors import AskTimeout, GatewayError, RemoteError, RetinueError, SystemClosed, TokenError, WireError
from retinue.gateway.bodies import body_of, call_of
from retinue.gateway.events import Events
from retinue.gateway.foreseeing import Foresight
from retinue.gateway.guard import shown
from retinue.gateway.permits import INSPECT, Inspect
from retinue.gateway.visit import Gone, Visit, json_bytes
from retinue.gateway.wires import Target, Wires
from retinue.remote import error_to_data

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from retinue.actors.runtime.handlers import HandlerInfo
    from retinue.actors.runtime.receipts import Receipt
    from retinue.actors.runtime.system import ActorSystem
    from retinue.gateway.bodies import Call
    from retinue.gateway.bounds import Bounds
    from retinue.gateway.guard import Guard
    from retinue.gateway.permits import Permits
    from retinue.gateway.refusals import Refusals

__all__ = ["Asking", "Failed"]


WINDOW: Final = 16
"""Items of a stream that are made ahead of its reader, where the caller does not say."""


class Failed(Exception):
    """What asking an actor ended with; not a refusal of the gateway's own.

    Attributes:
        error: The error.
        raises: Errors that the handler declares.
    """

    def __init__(self, error: Exception, raises: tuple[type[BaseException], ...] = ()) -> None:
        super().__init__()
        self.error = error
        self.raises = raises


class Asking:
    """The endpoints that reach actors.

    Args:
        system: The system.
        wires: Finds actors and decodes messages.
        permits: Asks the gate whether somebody may watch an actor that takes none of its messages.
        bounds: How long things may take, and how many streams there may be.
        guard: Looks at the token of an open stream again.
        refusals: Where it is noted that a stream was ended for its token.
    """

    def __init__(self, system: ActorSystem, wires: Wires, permits: Permits, bounds: Bounds, guard: Guard, refusals: Refusals) -> None:
        self._permits = permits
        self._system = system
        self._guard = guard
        self._refusals = refusals
        self._kernel = system._kernel
        self._wires = wires
        self._bounds = bounds
        self._foresight = Foresight(system)
        self._streams: dict[trio.CancelScope, str] = {}
        self._of_token: dict[str, int] = {}
        self._closing = False

    @property
    def streams(self) -> int:
        """Streams and watches that are open."""
        return len(self._streams)

    def close(self) -> None:
        """Ends all streams, each with an error event; new ones are refused."""
        self._closing = True
        for scope in list(self._streams):
            scope.cancel()

    # -- one answer --------------------------------------------------------------------------------------------------------------------------------

    async def ask(self, visit: Visit) -> None:
        """POST /v1/ask."""
        call, target, message, handler = await self._read(visit, ("timeout", "approvals", "detached"))
        context = visit.caller.context
        timeout = self._timeout(call, handler, self._bounds.request_timeout)
        value: Any = None
        async with visit.leaving() as leaving:
            try:
                value = await target.ref.ask(message, timeout=timeout, context=context, approvals=call.approvals, detached=call.detached)
            except Exception as error:
                raise Failed(error, handler.raises) from error
        if leaving.left:
            raise Gone
        await visit.answer(200, b'{"reply":' + self._encoded(target, handler, value, self._bounds.max_reply) + b"}")

    async def tell(self, visit: Visit) -> None:
        """POST /v1/tell; with "wait" it waits for room. What is certain to be refused is refused here: 202 says that it was sent, and nothing of what becomes of it."""
        call, target, message, handler = await self._read(visit, ("approvals", "wait"))
        context = visit.caller.context
        receipt: Receipt | None = None
        async with visit.leaving() as leaving:
            try:
                approvals = await self._foresight.of_tell(target.cell, message, visit.caller, call.approvals)
                if call.wait is None:
                    receipt = target.ref.tell(message, context=context, approvals=approvals)
                else:
                    wait = min(call.wait, self._bounds.request_timeout)
                    receipt = await target.ref.send(message, timeout=wait, context=context, approvals=approvals)
            except Exception as error:
                raise Failed(error, handler.raises) from error
        if leaving.left or receipt is None:
            raise Gone
        await visit.answer(202 if receipt else 409, json_bytes({"accepted": receipt.accepted, "reason": receipt.reason}))

    # -- many answers ------------------------------------------------------------------------------------------------------------------------------

    async def stream(self, visit: Visit) -> None:
        """POST /v1/stream."""
        call, target, message, handler = await self._read(visit, ("timeout", "approvals", "window"), streamed=True)
        timeout = self._timeout(call, handler, self._bounds.stream_timeout)
        reader = target.ref.stream(
            message, timeout=timeout, window=call.window or WINDOW, context=visit.caller.context, approvals=call.approvals
        )

        async def items() -> AsyncIterator[tuple[str, bytes]]:
            async with reader as each:
                async for item in each:
                    yield "item", self._encoded(target, handler, item, self._bounds.max_item)
            yield "end", b"{}"

        await self._events(visit, items, handler.raises)

    async def watch(self, visit: Visit) -> None:
        """GET /v1/watch?path=…"""
        target = self._wires.target(one_of_query(visit, "path"), visit.caller, ended=True)
        if not self._wires.handlers(target.cell, visit.caller):
            await self._permits.ask(visit.caller, INSPECT, Inspect(), risk="L0")
        inspects = visit.caller.context.permissions.permits(INSPECT, {})
        watch = await self._system.watch(target.ref)

        async def end() -> AsyncIterator[tuple[str, bytes]]:
            terminated = await watch.wait()
            error = terminated.error
            if error is not None and not inspects:  # what it failed with may be about others: its kind alone
                error = RemoteError(f"it failed with {type(error).__name__}", type=type(error).__name__)
            told = error_to_data(error, asked=True)[1]["error"] if error is not None else None
            yield "terminated", json_bytes({"path": target.cell.path, "reason": str(terminated.reason), "error": told})

        try:
            await self._events(visit, end, at_once=True, seconds=self._bounds.stream_timeout)
        finally:
            watch.close()

    async def _events(
        self,
        visit: Visit,
        source: Callable[[], AsyncIterator[tuple[str, bytes]]],
        raises: tuple[type[BaseException], ...] = (),
        *,
        at_once: bool = False,
        seconds: float = math.inf,
    ) -> None:
        """Sends what the source gives, and in any case a last event that says how it ended."""
        scope = self._open(visit, seconds)
        refused: list[RetinueError] = []

        def recheck() -> None:
            """A token that has expired or was revoked meanwhile ends what it has opened."""
            try:
                self._guard.caller(visit.headers)
            except RetinueError as error:
                noted = self._refusals.note(error, caller=visit.caller)
                refused.append(shown(noted) if isinstance(noted, TokenError) else noted)
                scope.cancel()

        events = Events(visit, self._bounds, recheck)
        failure: Exception | None = None
        left = False
        try:
            async with trio.open_nursery() as nursery:
                if at_once:
                    await events.begin()
                nursery.start_soon(events.beat)
                async with visit.leaving() as leaving:
                    with scope:
                        failure = await _sent(source(), events)
                left = leaving.left
                nursery.cancel_scope.cancel()
        finally:
            self._shut(scope)
        if left:
            raise Gone
        if refused:
            await events.event("error", json_bytes(error_to_data(refused[0])[1]))
            failure = None
        elif scope.cancelled_caught:
            failure = (
                SystemClosed("the gateway is closing; the stream was cut off")
                if self._closing
                else AskTimeout(f"the watch lasted {seconds:g} s")
            )
        if failure is not None:
            if not visit.started:
                raise Failed(failure, raises) from failure
            await events.event("error", json_bytes(error_to_data(failure, raises=raises, asked=True)[1]))
        await events.end()

    def _open(self, visit: Visit, seconds: float) -> trio.CancelScope:
        if self._closing:
            raise GatewayError("the gateway is closing", reason="closing", delivered=False)
        token = visit.caller.token_id
        count = self._of_token.get(token, 0)
        if len(self._streams) >= self._bounds.max_streams or count >= self._bounds.max_streams_per_token:
            raise GatewayError("too many streams are open; end some of them", reason="rate", delivered=False)
        scope = trio.CancelScope(deadline=trio.current_time() + seconds)
        self._streams[scope] = token
        self._of_token[token] = count + 1
        return scope

    def _shut(self, scope: trio.CancelScope) -> None:
        token = self._streams.pop(scope)
        count = self._of_token.pop(token)
        if count > 1:
            self._of_token[token] = count - 1

    # -- what they share ---------------------------------------------------------------------------------------------------------------------------

    async def _read(self, visit: Visit, allowed: tuple[str, ...], *, streamed: bool = False) -> tuple[Call, Target, Any, HandlerInfo]:
        call = call_of(await body_of(visit, self._bounds), allowed)
        target = self._wires.target(call.to, visit.caller)
        message, handler = self._wires.message(target, call.message, visit.caller, streamed=streamed)
        return call, target, message, handler

    def _timeout(self, call: Call, handler: HandlerInfo, most: float) -> float:
        timeout = call.timeout
        if timeout is None:
            timeout = handler.info.timeout or self._kernel.ask_timeout
        return min(timeout, most)

    def _encoded(self, target: Target, handler: HandlerInfo, value: Any, most: int) -> bytes:
        """The answer as JSON. It was given: where it has no form there, that is the handler's mistake, and what it did is done."""
        info = handler.info
        if info.kind == "message":
            return b"null"
        try:
            data = target.wire.registry.encode_value(value, info.reply)
            if len(data) > most:
                raise WireError(f"its {len(data)} bytes are more than the limit of {most}", problem="too_large")
        except RetinueError as error:
            text = f"{target.cell.path} has handled {info.label}, but its answer cannot be sent: {error}"
            raise Failed(RemoteError(text, type=type(error).__name__)) from error
        return data


async def _sent(source: AsyncIterator[tuple[str, bytes]], events: Events) -> Exception | None:
    """Sends all events, and returns what the source ended with if it was an error."""
    try:
        async for kind, data in source:
            await events.event(kind, data)
    except Failed as failed:
        return failed.error
    except Exception as error:
        return error
    finally:
        await source.aclose()  # type: ignore[attr-defined]  # an async generator
    return None


def one_of_query(visit: Visit, name: str, default: str | None = None) -> str:
    """The one value of a parameter in the query. Raises GatewayError ("malformed") where there is none or are several."""
    from starlette.datastructures import QueryParams

    values = QueryParams(visit.scope.get("query_string", b"")).getlist(name)
    if not values and default is not None:
        return default
    if len(values) != 1:
        raise GatewayError(f"give the query one {name}=…", reason="malformed", delivered=False)
    return str(values[0])
