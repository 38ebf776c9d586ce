"""What a system says of itself: its actors, and the messages that they take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from retinue.actors.runtime.statistics import actor_statistics
from retinue.errors import RetinueError, WireError
from retinue.gateway.asking import one_of_query
from retinue.gateway.guard import check_some
from retinue.gateway.permits import INSPECT, Inspect
from retinue.gateway.schemas import Schemas
from retinue.gateway.visit import json_bytes

if TYPE_CHECKING:
    from retinue.actors.runtime.handlers import HandlerInfo
    from retinue.gateway.foreseeing import Foresight
    from retinue.gateway.permits import Permits
    from retinue.gateway.visit import Visit
    from retinue.gateway.wires import Wires

__all__ = ["Describing"]


_ENDPOINTS: Final[dict[str, tuple[str, str]]] = {
    "/v1/ask": ("post", "Asks an actor and answers with its reply."),
    "/v1/tell": ("post", "Sends a message and waits for no answer; with `wait`, for room."),
    "/v1/stream": ("post", "Asks for a stream; answers with server-sent events: item, end, error."),
    "/v1/watch": ("get", "Waits for the end of an actor (?path=…): the event terminated."),
    "/v1/actors": ("get", "The actors; needs the operation system.inspect."),
    "/v1/openapi.json": ("get", "This description: of what the token may reach."),
    "/v1/approvals": ("get", "The requests for consent (?status=…); needs the operation approvals.read."),
    "/v1/approvals/{id}": ("get", "One request: of the token's own subject, or with the operation approvals.read."),
    "/v1/approvals/{id}/approve": ("post", "Consents; needs the operation approvals.approve."),
    "/v1/approvals/{id}/reject": ("post", "Refuses; needs the operation approvals.approve."),
    "/v1/approvals/{id}/respond": ("post", "Refuses with a text; needs the operation approvals.approve."),
    "/v1/approvals/{id}/edit": ("post", "Replaces the request by one with other arguments; needs the operation approvals.approve."),
}
"""Path → method and summary."""


class Describing:
    """The endpoints that describe.

    Args:
        wires: Which messages reach which actors.
        permits: Asks the gate.
        foresight: Refuses whoever may never send what they want described.
    """

    def __init__(self, wires: Wires, permits: Permits, foresight: Foresight) -> None:
        self._wires = wires
        self._permits = permits
        self._foresight = foresight

    async def actors(self, visit: Visit) -> None:
        """GET /v1/actors: the first 1,000."""
        await self._permits.ask(visit.caller, INSPECT, Inspect(), risk="L0")
        listed = []
        for cell, _ in self._wires.reachable(visit.caller):
            counts = actor_statistics(cell)
            listed.append(
                {
                    "path": counts.path,
                    "class": counts.type,
                    "messages": sorted(self._wires.of(cell).handlers),
                    "depth": counts.queued,
                    "state": counts.state,
                }
            )
        await visit.answer(200, json_bytes({"actors": listed}))

    async def openapi(self, visit: Visit) -> None:
        """GET /v1/openapi.json, for one actor with ?path=…, for one message of it with ?path=…&message=…, which says whether there is none or it is not permitted."""
        check_some(visit.caller.context, "the gateway")
        path = one_of_query(visit, "path", "") or None
        name = one_of_query(visit, "message", "") or None
        if name is not None:
            await self._one(visit, one_of_query(visit, "path"), name)
            return
        reachable = [(cell, handlers) for cell, handlers in self._wires.reachable(visit.caller, path) if handlers]
        await visit.answer(200, json_bytes(_description([(cell.path, handlers) for cell, handlers in reachable])))

    async def _one(self, visit: Visit, path: str, name: str) -> None:
        target = self._wires.target(path, visit.caller)
        handler = target.wire.handlers.get(name)
        if handler is None:
            raise WireError(f"{path} takes no message of the name {name[:200]!r}", problem="unknown_type")
        self._wires.check_open(target, handler, visit.caller)
        if handler.requires is not None and not visit.caller.context.permissions.may_permit(handler.requires):
            self._foresight.refuse_to_describe(target.cell, name, handler.requires, visit.caller, handler.risk)
        await visit.answer(200, json_bytes(_description([(path, {name: handler})])))


def _description(actors: list[tuple[str, dict[str, HandlerInfo]]]) -> dict[str, Any]:
    schemas = Schemas()
    messages: dict[str, Any] = {}
    for _, handlers in actors:
        for name, handler in handlers.items():
            if name not in messages:
                messages[name] = _message(schemas, handler)
    bodies: list[dict[str, Any]] = [
        {
            "type": "object",
            "properties": {"type": {"const": name}, "body": described["schema"]},
            "required": ["type", "body"],
            "additionalProperties": False,
        }
        for name, described in messages.items()
    ]
    sent = {
        "type": "object",
        "properties": {"to": {"type": "string"}, "message": {"anyOf": bodies} if bodies else {}},
        "required": ["to", "message"],
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "A Retinue system", "version": "1"},
        "security": [{"token": []}],
        "paths": {path: {method: _operation(path, summary, sent)} for path, (method, summary) in _ENDPOINTS.items()},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}, "schemas": schemas.components},
        "x-retinue-messages": messages,
        "x-retinue-actors": {path: sorted(handlers) for path, handlers in actors},
    }


def _message(schemas: Schemas, handler: HandlerInfo) -> dict[str, Any]:
    info = handler.info
    try:
        schema, reply = schemas.body(info.cls), None if info.kind == "message" else schemas.of(info.reply)
        items = None if info.items is None else schemas.of(info.items)
    except RetinueError as error:  # an annotation that names what is not there: the wire refuses such a message, too
        return {"kind": info.kind, "schema": {}, "reply": {}, "problem": str(error)}
    described: dict[str, Any] = {"kind": info.kind, "schema": schema, "reply": reply if reply is not None else {"type": "null"}}
    if info.kind == "request" and items is not None:
        described["items"] = items
    if handler.requires is not None:
        described["requires"] = handler.requires
    return described


def _operation(path: str, summary: str, sent: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"summary": summary, "responses": {"default": {"description": "JSON, or server-sent events"}}}
    if path in ("/v1/ask", "/v1/tell", "/v1/stream"):
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": sent}}}
    return made
