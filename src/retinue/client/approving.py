"""What the clients say about approvals, and read out of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import urlencode

from retinue.client.answers import malformed
from retinue.client.session import MOST_REQUESTS, seconds_of
from retinue.security.errors import ApprovalError, DefinitionError

if TYPE_CHECKING:
    from retinue.security.approvals import ApprovalRequest

__all__ = ["POLLS", "Pages", "approve_fields", "edit_fields", "note_fields", "text_fields", "token_of"]

MOST_PAGES: Final = 20_000
"""Pages of one list; beyond that, whoever sends them means no good."""

_DELAYS: Final = (0.1, 0.1, 0.2, 0.2, 0.5, 0.5)


class _Polls:
    """How many seconds to wait between two looks: shortly at first, then each second. Never ends."""

    def __iter__(self) -> itertools.chain[float]:
        return itertools.chain(_DELAYS, itertools.repeat(1.0))


POLLS: Final[Iterable[float]] = _Polls()


@final
class Pages:
    """A list of requests that comes in pages.

    Args:
        status, subject, operation, tenant: Which; None: any.
        limit: How many at most.

    Attributes:
        found: What came so far.
    """

    __slots__ = ("_after", "_left", "_limit", "_query", "found")

    def __init__(self, status: str | None, subject: str | None, operation: str | None, tenant: str | None, limit: int) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= MOST_REQUESTS:
            raise DefinitionError(f"limit= is a whole number of requests, at most {MOST_REQUESTS:,}")
        query = {"status": status or "all", "subject": subject, "operation": operation, "tenant": tenant}
        for name, value in query.items():
            if value is not None:
                _checked(value, name)
        self._query = {name: value for name, value in query.items() if value is not None}
        self._limit = limit
        self._after: str | None = "" if limit else None
        self._left = MOST_PAGES
        self.found: list[ApprovalRequest] = []

    def next(self) -> str | None:
        """What the next page comes after; None where there is none."""
        return self._after if len(self.found) < self._limit else None

    def query(self, after: str) -> str:
        """The query of a page."""
        wanted = {**self._query, "limit": str(min(self._limit - len(self.found), 100)), **({"after": after} if after else {})}
        return urlencode(wanted)

    def add(self, requests: Iterable[ApprovalRequest], more: str | None) -> None:
        """A page. Raises GatewayError for one that leads nowhere."""
        self._left -= 1
        if more is not None and (more == self._after or self._left <= 0):
            raise malformed("the list of approvals", "its pages do not come to an end")
        self.found += requests
        del self.found[self._limit :]
        self._after = more


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
