"""Approvals from another process: whoever has a token with the operation `approvals.approve` is a person at the desk.

The reviewer is the token's subject, which nobody can choose; a subject sees its own requests, with the approval once there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from retinue.errors import ApprovalError, CanonicalError, WireError
from retinue.gateway.asking import one_of_query
from retinue.gateway.bodies import body_of, text_of
from retinue.gateway.guard import check_some
from retinue.gateway.visit import json_bytes
from retinue.mailbox.messages import Message, message
from retinue.remote import request_to_data
from retinue.security.approvals import STATUSES

if TYPE_CHECKING:
    from retinue.actors.runtime.system import ActorSystem
    from retinue.gateway.bounds import Bounds
    from retinue.gateway.permits import Permits
    from retinue.gateway.visit import Visit
    from retinue.security.approvals import ApprovalRequest
    from retinue.security.context import SecurityContext

__all__ = ["Approving"]

MOST_LISTED: Final = 1_000
"""Requests in one list."""


@message(name="retinue-gateway/ReadApprovals@1")
class ReadApprovals(Message):
    """What the gate sees where somebody looks at requests that are not their own: the operation `approvals.read`."""


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
    """

    def __init__(self, system: ActorSystem, permits: Permits, bounds: Bounds) -> None:
        self._system: Any = system
        self._permits = permits
        self._bounds = bounds

    async def listed(self, visit: Visit) -> None:
        """GET /v1/approvals, by default those that are pending: the latest 1,000."""
        await self._permits.ask(visit.caller, "approvals.read", ReadApprovals(), risk="L1")
        status = one_of_query(visit, "status", "pending")
        if status not in ("all", *STATUSES):
            raise WireError(f"status: one of {', '.join(STATUSES)}, or all", problem="invalid_fields")
        found = await self._desk.find(status=None if status == "all" else status, limit=MOST_LISTED)
        await visit.answer(200, json_bytes({"requests": [_for_others(request) for request in found]}))

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
        """POST /v1/approvals/{id}/edit: answers with the new request."""
        from retinue.security.typed_data import arguments_from_text

        data = _only(await body_of(visit, self._bounds), "arguments")
        text = text_of(data, "arguments")
        try:
            arguments = arguments_from_text(text)
        except CanonicalError as error:
            raise WireError(f"arguments: {error}", problem="invalid_fields") from None
        request = await self._permitted(visit, "edit")
        made = await self._desk.edit(request.id, arguments, **self._reviewer(visit))
        await visit.answer(200, json_bytes({"request": _for_others(made)}))

    @property
    def _desk(self) -> Any:
        return self._system.approvals

    def _reviewer(self, visit: Visit) -> dict[str, Any]:
        return {"reviewer": visit.caller.context.subject, "asserted": False}

    async def _found(self, visit: Visit, *, own: bool) -> ApprovalRequest:
        """The request of the path. Whoever may not see it learns nothing of it, whether there is one of that id or not."""
        context = visit.caller.context
        request: ApprovalRequest | None = None
        unknown: ApprovalError | None = None
        try:
            request = await self._desk.get(visit.scope["path_params"]["id"])
        except ApprovalError as error:
            if error.reason != "unknown":
                raise
            unknown = error
        if request is not None and own and _is_of(request, context):
            return request
        if own:
            await self._permits.ask(visit.caller, "approvals.read", ReadApprovals(), risk="L1")
        if request is None:
            raise unknown or ApprovalError("there is no request of that id", reason="unknown")
        return request.without_token()

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


def _is_of(request: ApprovalRequest, context: SecurityContext) -> bool:
    """Whether it is the context's own: of its subject, and about what it may do. A token that was narrowed to something else is not told of the rest."""
    binding = request.binding
    if (binding.subject, binding.tenant) != (context.subject, context.tenant):
        return False
    return binding.operation is None or context.permissions.may_permit(binding.operation)


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
