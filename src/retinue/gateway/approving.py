"""Approvals from another process: whoever has a token with the operation `approvals.approve` is a person at the desk.

The reviewer is the token's subject, which nobody can choose; a subject sees its own requests, with the approval once there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from retinue.errors import ApprovalError, CanonicalError, WireError
from retinue.gateway.asking import one_of_query
from retinue.gateway.bodies import body_of, text_of
from retinue.gateway.guard import check_some
from retinue.gateway.visit import json_bytes
from retinue.mailbox.messages import Message, message
from retinue.remote import request_to_data
from retinue.security.approvals import STATUSES, is_id

if TYPE_CHECKING:
    from retinue.actors.runtime.system import ActorSystem
    from retinue.gateway.bounds import Bounds
    from retinue.gateway.guard import Caller
    from retinue.gateway.permits import Permits
    from retinue.gateway.visit import Visit
    from retinue.gateway.wires import Wires
    from retinue.security.approvals import ApprovalRequest

__all__ = ["Approving"]

PAGE: Final = 50
"""Requests in one page of a list, where the query does not say."""

LARGEST_PAGE: Final = 1_000

PAGE_BYTES: Final = 262_144
"""Characters of arguments after which a page ends, so that showing it takes the loop's time for moments only."""

MOST_LOOKED_AT: Final = 2_000
"""Requests that one page looks at, where the caller may read few of them."""

_STEP: Final = 10
"""Requests that are fetched at one time."""


@message(name="retinue-gateway/ReadApprovals@1")
class ReadApprovals(Message):
    """What the gate sees where somebody looks at requests that are not their own: the operation `approvals.read`, so that a context can be narrowed to some.

    Attributes:
        id: The request's id.
        operation: The operation that the request is about, or None.
        subject: Whose request it is; "" of one that there is not.
        tenant: The subject's tenant, or None.
        path: The actor that was addressed.
    """

    id: str = ""
    operation: str | None = None
    subject: str = ""
    tenant: str | None = None
    path: str = ""


@message(name="retinue-gateway/Decide@1")
class Decide(Message):
    """What the gate sees where somebody decides: the operation `approvals.approve`, so that a context can be narrowed to what it may decide about.

    Attributes:
        verdict: "approve", "reject", "respond" or "edit".
        id: The request's id.
        operation: The operation that the request is about, or None.
        subject: Whose request it is.
        tenant: The subject's tenant, or None.
        path: The actor that was addressed.
    """

    verdict: str
    id: str
    operation: str | None
    subject: str
    tenant: str | None
    path: str


class Approving:
    """The endpoints of the desk.

    Args:
        system: The system.
        permits: Asks the gate.
        bounds: How long bodies may be.
        wires: Knows the types of what is edited.
    """

    def __init__(self, system: ActorSystem, permits: Permits, bounds: Bounds, wires: Wires) -> None:
        self._system: Any = system
        self._permits = permits
        self._bounds = bounds
        self._wires = wires

    async def listed(self, visit: Visit) -> None:
        """GET /v1/approvals: a page of those that the caller may read, oldest first; by default of those that are pending. `more` is what the next page comes after."""
        caller = visit.caller
        check_some(caller.context, "the gateway")
        query = _query(visit)
        if not caller.context.permissions.may_permit("approvals.read"):
            await self._permits.ask(caller, "approvals.read", ReadApprovals(), risk="L1")
        tenant = caller.context.tenant
        if tenant is not None and query.tenant not in (None, tenant):
            await visit.answer(200, json_bytes({"requests": [], "more": None}))
            return
        found: list[dict[str, Any]] = []
        size, looked_at, last, more = 0, 0, query.after, None
        asked = False
        while page := await self._desk.find(
            status=query.status, subject=query.subject, operation=query.operation, tenant=tenant or query.tenant, after=last, limit=_STEP
        ):
            for request in page:
                if len(found) >= query.limit or size >= PAGE_BYTES or looked_at >= MOST_LOOKED_AT:
                    more = last
                    break
                last, looked_at = request.id, looked_at + 1
                reading = _reading(request)
                if not self._permits.layers_permit(caller, "approvals.read", reading):
                    continue
                if not asked:  # one list is one call, whose policies are asked about its first request
                    await self._permits.ask(caller, "approvals.read", reading, risk="L1")
                    asked = True
                found.append(request_to_data(request.without_token()))
                size += len(request.stored_arguments)
                await trio.lowlevel.checkpoint()
            if more is not None:
                break
        await visit.answer(200, json_bytes({"requests": found, "more": more}))

    async def one(self, visit: Visit) -> None:
        """GET /v1/approvals/{id}: one's own (same subject, an operation that the token may permit), with its approval; others with `approvals.read`."""
        check_some(visit.caller.context, "the gateway")
        request = await self._found(visit, own=True)
        await visit.answer(200, json_bytes({"request": request_to_data(request)}))

    async def approve(self, visit: Visit) -> None:
        """POST /v1/approvals/{id}/approve: answers with the approval."""
        data = _only(await body_of(visit, self._bounds, optional=True), "note", "expires_seconds")
        seconds = data.get("expires_seconds", 3600)
        if (type(seconds) is not int and type(seconds) is not float) or not 0 < seconds <= 3600:
            raise WireError("expires_seconds: expected a number of seconds, above 0 and up to 3600", problem="invalid_fields")
        request = await self._permitted(visit, "approve")
        token = await self._desk.approve(request.id, note=_note(data), expires_seconds=seconds, **self._reviewer(visit))
        decided = await self._desk.get(request.id)
        await visit.answer(200, json_bytes({"request": _for_others(decided), "token": token}))

    async def reject(self, visit: Visit) -> None:
        """POST /v1/approvals/{id}/reject."""
        data = _only(await body_of(visit, self._bounds, optional=True), "note")
        request = await self._permitted(visit, "reject")
        await self._desk.reject(request.id, note=_note(data), **self._reviewer(visit))
        await self._decided(visit, request.id)

    async def respond(self, visit: Visit) -> None:
        """POST /v1/approvals/{id}/respond."""
        data = _only(await body_of(visit, self._bounds), "text")
        text = text_of(data, "text")
        request = await self._permitted(visit, "respond")
        await self._desk.respond(request.id, text, **self._reviewer(visit))
        await self._decided(visit, request.id)

    async def edit(self, visit: Visit) -> None:
        """POST /v1/approvals/{id}/edit: answers with the new request. The arguments are an object of new values, or a text that keeps their types."""
        from retinue.security.typed_data import arguments_from_text

        given = _only(await body_of(visit, self._bounds), "arguments").get("arguments")
        if type(given) is not dict and type(given) is not str:
            raise WireError("arguments: expected an object of new values by name", problem="invalid_fields")
        changes: dict[str, Any] = {}
        if type(given) is str:
            try:
                changes = arguments_from_text(given)
            except CanonicalError as error:
                raise WireError(f"arguments: {error}", problem="invalid_fields") from None
        request = await self._permitted(visit, "edit")
        if type(given) is dict:
            changes = self._wires.typed(request.audience, request.message_type, given)
        made = await self._desk.edit(request.id, changes, **self._reviewer(visit))
        await visit.answer(200, json_bytes({"request": _for_others(made)}))

    @property
    def _desk(self) -> Any:
        return self._system.approvals

    def _reviewer(self, visit: Visit) -> dict[str, Any]:
        return {"reviewer": visit.caller.context.subject, "asserted": False}

    async def _found(self, visit: Visit, *, own: bool) -> ApprovalRequest:
        """The request of the path. Whoever may not see it learns nothing of it, whether there is one of that id or not; other tenants' are none."""
        context = visit.caller.context
        request_id = str(visit.scope["path_params"]["id"])
        request: ApprovalRequest | None = None
        if is_id(request_id, "apr"):
            try:
                request = await self._desk.get(request_id)
            except ApprovalError as error:
                if error.reason != "unknown":
                    raise
        if request is not None and context.tenant not in (None, request.tenant):
            request = None
        if request is not None and own and self._is_own(request, visit.caller):
            return request
        if own:
            reading = ReadApprovals(id=request_id[:64]) if request is None else _reading(request)
            await self._permits.ask(visit.caller, "approvals.read", reading, risk="L1")
        if request is None:
            raise ApprovalError("there is no request of that id", reason="unknown")
        return request.without_token()

    def _is_own(self, request: ApprovalRequest, caller: Caller) -> bool:
        """Whether it is the caller's own: of its subject, and what its token may do. A token that was narrowed to something else is not told of the rest."""
        context = caller.context
        if (request.subject, request.tenant) != (context.subject, context.tenant):
            return False
        return request.operation is None or self._permits.layers_permit_call(caller, request.operation, request.arguments)

    async def _permitted(self, visit: Visit, verdict: str) -> ApprovalRequest:
        try:
            request = await self._found(visit, own=False)
        except ApprovalError as error:
            if error.reason != "unknown":
                raise
            asked = Decide(verdict, str(visit.scope["path_params"]["id"])[:64], None, "", None, "")
            await self._permits.ask(visit.caller, "approvals.approve", asked, risk="L2")
            raise
        binding = request.binding
        asked = Decide(verdict, request.id, binding.operation, binding.subject, binding.tenant, binding.audience)
        await self._permits.ask(visit.caller, "approvals.approve", asked, risk="L2")
        return request

    async def _decided(self, visit: Visit, request_id: str) -> None:
        await visit.answer(200, json_bytes({"request": _for_others(await self._desk.get(request_id))}))


@attrs.frozen
class _Query:
    """What a list is asked for."""

    status: str | None
    subject: str | None
    operation: str | None
    tenant: str | None
    after: str
    limit: int


def _query(visit: Visit) -> _Query:
    status = one_of_query(visit, "status", "pending")
    if status not in ("all", *STATUSES):
        raise WireError(f"status: one of {', '.join(STATUSES)}, or all", problem="invalid_fields")
    limit = one_of_query(visit, "limit", str(PAGE))
    if not (limit.isascii() and limit.isdecimal() and len(limit) < 6 and 1 <= int(limit) <= LARGEST_PAGE):
        raise WireError(f"limit: a whole number from 1 to {LARGEST_PAGE:,}", problem="invalid_fields")
    after = one_of_query(visit, "after", "")
    if after and not is_id(after, "apr"):
        raise WireError("after: the id of a request, as `more` of the page before it gives", problem="invalid_fields")
    subject, operation, tenant = (one_of_query(visit, name, "") or None for name in ("subject", "operation", "tenant"))
    return _Query(None if status == "all" else status, subject, operation, tenant, after, int(limit))


def _reading(request: ApprovalRequest) -> ReadApprovals:
    return ReadApprovals(request.id, request.operation, request.subject, request.tenant, request.audience)


def _for_others(request: ApprovalRequest) -> dict[str, Any]:
    """A request as data, without the approval, which is for its subject alone."""
    return request_to_data(request.without_token())


def _only(data: dict[str, Any], *names: str) -> dict[str, Any]:
    unknown = sorted(data.keys() - set(names))
    if unknown:
        raise WireError(f"unknown fields {', '.join(map(repr, unknown))[:200]}", problem="invalid_fields")
    return data


def _note(data: dict[str, Any]) -> str:
    return text_of(data, "note") if "note" in data else ""
