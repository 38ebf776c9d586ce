"""Bodies: read within their bounds, and taken for exactly what they must be."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from retinue.errors import GatewayError, WireError
from retinue.mailbox.wire_json import Limits, parse

if TYPE_CHECKING:
    from retinue.gateway.bounds import Bounds
    from retinue.gateway.visit import Visit

__all__ = ["Call", "body_of", "call_of", "text_of"]

MAX_DEPTH: Final = 64
"""Levels of objects and arrays in a body."""

MAX_APPROVALS: Final = 16
"""Approval tokens that may come with one message."""

_JSON: Final = frozenset({b"application/json", b"application/json;charset=utf-8"})


async def body_of(visit: Visit, bounds: Bounds, *, optional: bool = False) -> dict[str, Any]:
    """The object that the body is; where it is optional and there is none, an empty one.

    Raises:
        GatewayError: It is too long, is no JSON by its own word, or does not come in time.
        WireError: It is no JSON in fact, or no object.
        Gone: The client has left.
    """
    headers = visit.headers
    if optional and visit.over:
        return {}
    lengths, encoded = headers.all(b"content-length"), headers.all(b"transfer-encoding")
    if lengths and encoded:
        raise GatewayError("a request has either a Content-Length or a Transfer-Encoding, not both", reason="malformed", delivered=False)
    if len(headers.all(b"content-type")) != 1 or headers.all(b"content-type")[0].replace(b" ", b"").replace(b'"', b"").lower() not in _JSON:
        raise GatewayError("send the body as `Content-Type: application/json`, in UTF-8", status=415, reason="malformed", delivered=False)
    if headers.all(b"content-encoding") not in ([], [b"identity"]):
        raise GatewayError("send the body as it is, without a Content-Encoding", status=415, reason="malformed", delivered=False)
    if lengths and (len(lengths[0]) > 18 or int(lengths[0]) > bounds.max_body):
        raise _too_large(bounds)
    parts: list[bytes] = []
    size = 0
    with trio.move_on_after(bounds.body_timeout):
        while not visit.over:
            part = await visit.receive()
            size += len(part)
            if size > bounds.max_body:
                raise _too_large(bounds)
            parts.append(part)
    if not visit.over:
        raise GatewayError(f"the body did not come within {bounds.body_timeout:g} s", reason="timeout", delivered=False)
    value = parse(b"".join(parts), Limits(max_bytes=bounds.max_body, max_depth=MAX_DEPTH))
    if type(value) is not dict:
        raise WireError("the body of a request is a JSON object")
    return value


def _too_large(bounds: Bounds) -> GatewayError:
    return GatewayError(f"a body has at most {bounds.max_body:,} bytes: send less, or by reference", reason="too_large", delivered=False)


@attrs.frozen
class Call:
    """What the body of ask, tell and stream says.

    Attributes:
        to: The actor's path.
        message: The message as `{"type": name, "body": {…}}`, not yet looked into.
        timeout: Seconds, or None where it does not say.
        approvals: Approval tokens.
        detached: Whether the handler goes on when the client leaves.
        wait: Seconds that a tell waits for room in a full mailbox; None: not at all.
        window: Items that a stream's actor may be ahead; None: the default.
    """

    to: str
    message: Any
    timeout: float | None
    approvals: tuple[str, ...]
    detached: bool
    wait: float | None
    window: int | None


def call_of(data: dict[str, Any], allowed: Collection[str]) -> Call:
    """Reads it, strictly; `allowed` names the fields beside "to" and "message" that this kind of call has. Raises WireError ("invalid_fields")."""
    unknown = sorted(data.keys() - {"to", "message", *allowed})
    if unknown:
        raise WireError(f"unknown field{'s' if len(unknown) > 1 else ''} {', '.join(map(repr, unknown))[:200]}", problem="invalid_fields")
    missing = [name for name in ("to", "message") if name not in data]
    if missing:
        raise WireError(f"{missing[0]!r} is missing", problem="invalid_fields")
    approvals = data.get("approvals", [])
    if type(approvals) is not list or len(approvals) > MAX_APPROVALS or any(type(one) is not str for one in approvals):
        raise WireError(f"approvals: expected an array of at most {MAX_APPROVALS} strings", problem="invalid_fields")
    detached = data.get("detached", False)
    if type(detached) is not bool:
        raise WireError("detached: expected a boolean", problem="invalid_fields")
    window = data.get("window")
    if window is not None and (type(window) is not int or not 1 <= window <= 1024):
        raise WireError("window: expected an integer from 1 to 1024", problem="invalid_fields")
    return Call(text_of(data, "to"), data["message"], _seconds(data, "timeout"), tuple(approvals), detached, _seconds(data, "wait"), window)


def text_of(data: dict[str, Any], name: str) -> str:
    """A field that is a string. Raises WireError ("invalid_fields")."""
    value = data.get(name)
    if type(value) is not str:
        raise WireError(f"{name}: expected a string", problem="invalid_fields")
    return value


def _seconds(data: dict[str, Any], name: str) -> float | None:
    value = data.get(name)
    if value is None:
        return None
    if (type(value) is not int and type(value) is not float) or not 0 <= value <= 2**31:
        raise WireError(f"{name}: expected a number of seconds, 0 or more", problem="invalid_fields")
    return float(value)
