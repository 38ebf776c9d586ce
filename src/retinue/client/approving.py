"""What the clients say about approvals, and read out of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from retinue.client.session import seconds_of
from retinue.security.errors import ApprovalError, DefinitionError

if TYPE_CHECKING:
    from retinue.security.approvals import ApprovalRequest

__all__ = ["POLLS", "approve_fields", "edit_fields", "note_fields", "text_fields", "token_of"]

_DELAYS: Final = (0.1, 0.1, 0.2, 0.2, 0.5, 0.5)


class _Polls:
    """How many seconds to wait between two looks: shortly at first, then each second. Never ends."""

    def __iter__(self) -> itertools.chain[float]:
        return itertools.chain(_DELAYS, itertools.repeat(1.0))


POLLS: Final[Iterable[float]] = _Polls()


def approve_fields(note: str, expires_seconds: float) -> dict[str, Any]:
    """The body of an approval."""
    return {**note_fields(note), "expires_seconds": seconds_of(expires_seconds, "expires_seconds")}


def note_fields(note: str) -> dict[str, Any]:
    """The body of a rejection."""
    return {"note": _checked(note, "note")}


def text_fields(text: str) -> dict[str, Any]:
    """The body of a response."""
    return {"text": _checked(text, "text")}


def edit_fields(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an edit: the new arguments, as a text that keeps their types. Raises CanonicalError for what is no plain data."""
    from retinue.security.typed_data import arguments_to_text

    return {"arguments": arguments_to_text(dict(arguments))}


def token_of(request: ApprovalRequest) -> str | None:
    """The token of a request that was approved; None while nobody has decided. Raises ApprovalError for another end."""
    if request.status == "pending":
        return None
    if request.status == "approved":
        if request.token is None:
            raise ApprovalError(f"{request.id} is approved, but its token is for another subject than this client's", reason="subject")
        return request.token
    said = f" ({request.note})" if request.note else ""
    further = f"; in its place stands {request.edited_to}" if request.edited_to else ""
    raise ApprovalError(f"{request.id} was not approved: it is {request.status}{said}{further}", reason=request.status)


def _checked(text: object, name: str) -> str:
    if not isinstance(text, str):
        raise DefinitionError(f"{name}= is a str, not an object of type {type(text).__name__}")
    return text
