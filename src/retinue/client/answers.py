"""What an answer of the gateway means: its status, its headers and its bytes become a value or an error. No input, no output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from retinue.mailbox.errors import GatewayError, WireError
from retinue.mailbox.wire_json import Limits, parse
from retinue.remote import error_from_data
from retinue.security.errors import RetinueError

if TYPE_CHECKING:
    from retinue.client.exchange import Exchange, Opening

__all__ = ["Body", "check_events", "malformed", "read_json", "value_of"]

T = TypeVar("T")

_DEPTH: Final = 72
"""The wire's own depth, and what the gateway puts around it."""


class Body:
    """The bytes of one answer, as they come in: never more than the request allows.

    Args:
        what: What the request was, for texts.
        largest: The most bytes.
    """

    __slots__ = ("_bytes", "_largest", "_what")

    def __init__(self, what: str, largest: int) -> None:
        self._what = what
        self._largest = largest
        self._bytes = bytearray()

    def expect(self, headers: Mapping[str, str]) -> None:
        """What the headers say of it. Raises GatewayError: too large, or in an encoding that was not asked for."""
        length = headers.get("content-length", "")
        if length.isdecimal() and len(length) < 20 and int(length) > self._largest:
            raise self._too_large()
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise GatewayError(f"the answer to {self._what} is encoded, which was not asked for", reason="malformed")

    def add(self, data: bytes) -> None:
        """The next bytes. Raises GatewayError."""
        if len(self._bytes) + len(data) > self._largest:
            raise self._too_large()
        self._bytes += data

    @property
    def whole(self) -> bytes:
        """All that came."""
        return bytes(self._bytes)

    def _too_large(self) -> GatewayError:
        return GatewayError(
            f"the answer to {self._what} is larger than {self._largest:,} bytes and was not read; the request may have been carried out. "
            "Ask for less at once, or raise the limit (connect(max_answer=…))",
            reason="too_large",
        )


def value_of(exchange: Exchange[T], status: int, headers: Mapping[str, str], body: bytes) -> T:
    """What the request asked for. Raises what the answer says, or GatewayError where it is not one of a gateway's."""
    check_kind(exchange.what, status, headers, "application/json")
    data = read_json(exchange.what, status, body, exchange.largest)
    if status in exchange.expected and not (isinstance(data, dict) and "error" in data):
        return exchange.read(status, data)
    error = error_of(exchange.what, status, data)
    if exchange.hint and isinstance(error, WireError) and error.problem == "unknown_type":
        raise WireError(f"{error}. {exchange.hint}", problem=error.problem)
    raise error


def check_events(opening: Opening[Any], status: int, headers: Mapping[str, str]) -> bool:
    """Whether the answer is a stream of events; False: it is an error, to be read whole (`value_of` raises it). Raises GatewayError for another server's."""
    if status == 200 and _media_type(headers) == "text/event-stream":
        return True
    check_kind(opening.what, status, headers, "application/json")
    return False


def check_kind(what: str, status: int, headers: Mapping[str, str], wanted: str) -> None:
    """Refuse what a gateway does not answer with: a web page, a redirect, an empty text."""
    found = _media_type(headers)
    redirect = 300 <= status < 400
    if found == wanted and not redirect:
        return
    text = "leads to another address, which is not followed" if redirect else f"is {found[:60] or 'of no type'}, not {wanted}"
    raise GatewayError(
        f"the answer to {what} (HTTP status {status}) {text}: another server stands at this address, or between. Check the URL",
        status=status,
        reason="wrong_server",
    )


def read_json(what: str, status: int | None, body: bytes, largest: int) -> Any:
    """The JSON of an answer. Raises GatewayError ("malformed")."""
    try:
        return parse(body, Limits(max_bytes=max(largest, 1), max_depth=_DEPTH))
    except WireError as error:
        raise malformed(what, str(error), status) from None


def error_of(what: str, status: int, data: object) -> RetinueError:
    """The error of an answer that is none of the expected ones."""
    if not isinstance(data, dict) or "error" not in data:
        return malformed(what, f"HTTP status {status} without an error", status)
    return error_from_data(status, data)


def malformed(what: str, why: str, status: int | None = None) -> GatewayError:
    """The error for an answer that is not one of a Retinue gateway."""
    return GatewayError(
        f"the answer to {what} is not one of a Retinue gateway of this version: {why}. Check the URL, and the versions on both sides",
        status=status,
        reason="malformed",
    )


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()
