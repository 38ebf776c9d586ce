"""One client's side of the talk, without the talking: what it sends to the gateway, and what it reads out of the answers."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, final
from urllib.parse import quote, urlencode

import attrs

from retinue.actors.runtime.receipts import Receipt
from retinue.actors.runtime.tracing import MOST_STATE
from retinue.client.address import check_address
from retinue.client.answers import malformed, read_json
from retinue.client.bearer import Bearer, TokenFile
from retinue.client.exchange import MARGIN, Exchange, Opening, Reading, approvals_data, body_of, object_of, timeout_data
from retinue.client.views import RemoteActor, RemoteTerminated, actor_of, terminated_of
from retinue.mailbox.errors import Unhandled, WireError
from retinue.mailbox.messages import Message, message_info
from retinue.mailbox.wire import Limits, WireRegistry
from retinue.remote import request_from_data
from retinue.security.errors import DefinitionError
from retinue.security.restrictions import Permission, Restriction
from retinue.security.seal import attenuate

if TYPE_CHECKING:
    from retinue.client.approving import Pages
    from retinue.security.approvals import ApprovalRequest

__all__ = ["CONNECT_TIMEOUT", "IDLE", "MAX_ANSWER", "MOST_REQUESTS", "TIMEOUT", "Session", "Token", "seconds_of"]

T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E")

Token = str | TokenFile | PathLike[str]
"""How a token may be given: as text, as a file, or as the path of one (`pathlib.Path`, not a str)."""

TIMEOUT: Final = 30.0
CONNECT_TIMEOUT: Final = 10.0
IDLE: Final = 60.0
"""Seconds without a byte after which a stream counts as lost; the gateway sends a heartbeat each 15."""

MOST_REQUESTS: Final = 10_000
"""Requests for approval in one list."""

MAX_WINDOW: Final = 1024
"""Items that an actor may be ahead of its reader, over a gateway."""

MAX_ANSWER: Final = 8 * 1024 * 1024
_ENVELOPE: Final = 65_536
"""Bytes that an answer may have around what it holds."""

_LONGEST_ID: Final = 200

Decision = Literal["approve", "reject", "respond", "edit"]


def seconds_of(timeout: object, name: str = "timeout") -> float:
    """A time-out in seconds, 0 or more (`math.inf`: none), else a DefinitionError."""
    seconds = math.nan
    if isinstance(timeout, int | float) and not isinstance(timeout, bool):
        try:
            seconds = float(timeout)
        except OverflowError:
            seconds = math.nan
    if not seconds >= 0:  # NaN is not
        shown = repr(timeout)[:50] if not isinstance(timeout, int) else "an int"
        raise DefinitionError(f"{name}={shown}: give seconds, 0 or more, or math.inf for no limit")
    return seconds


@final
class Session:
    """Makes the requests of one client. See `retinue.connect` for its arguments.

    Attributes:
        address: Where the gateway is.
        timeout: Seconds that an ask waits where neither the call nor the message says otherwise.
        connect_timeout: Seconds that a connection may take.
        wire: The messages that may be sent and received, and their types.
    """

    __slots__ = ("_bearer", "_largest", "_lock", "address", "connect_timeout", "timeout", "wire")

    def __init__(
        self, url: str, *, token: Token, timeout: float, connect_timeout: float, plain: bool, max_answer: int, wire: WireRegistry | None
    ) -> None:
        self.address: Final = check_address(url, plain=plain)
        self._bearer = Bearer(token)
        self.timeout: Final = seconds_of(timeout)
        self.connect_timeout: Final = seconds_of(connect_timeout, "connect_timeout")
        if isinstance(max_answer, bool) or not isinstance(max_answer, int) or max_answer < 1:
            raise DefinitionError("max_answer= is a whole number of bytes, 1 or more")
        self._lock = threading.RLock()  # a registry compiles its types at their first use, and one thread at a time may do that
        self._largest: Final = max_answer + _ENVELOPE
        self.wire: Final = WireRegistry(Limits(max_bytes=max_answer)) if wire is None else wire

    def narrowed(self, restrictions: tuple[Restriction | str | Iterable[Permission], ...], audience: str | None) -> Session:
        """The same with a token that permits less. Errors: as `retinue.attenuate`."""
        made = object.__new__(Session)
        for name in ("address", "connect_timeout", "timeout", "wire", "_largest", "_lock"):
            setattr(made, name, getattr(self, name))
        made._bearer = Bearer(attenuate(self._bearer.reveal(), *restrictions, audience=audience))
        return made

    def headers(self, opening: bool = False) -> dict[str, str]:
        """The headers of a request. Raises KeyFileError and TokenError for a token file that cannot be used."""
        return {
            "authorization": f"Bearer {self._bearer.reveal()}",
            "accept": "text/event-stream, application/json" if opening else "application/json",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "retinue",
            **_span_in_force(),
        }

    def __repr__(self) -> str:
        return f"<{self.address.origin} with {self._bearer!r}>"

    # -- messages ----------------------------------------------------------------------------------------------------------------------------------

    def ask(self, path: str, message: Any, timeout: float | None, approvals: Sequence[object], detached: bool) -> Exchange[Any]:
        """An ask; its value is the reply, of the type that the request promises."""
        message = _spoken(message)
        encoded = self._encoded(message)
        info = message_info(type(message))
        if info.kind == "stream":
            raise Unhandled(f"{info.label} is answered by a stream: use `client.ref(…).stream(message)`, not ask")
        kind = Any if info.kind == "message" else info.reply
        what = f"the ask of {path}"
        seconds = self._limit(message, timeout)
        made = self.ask_encoded(path, encoded, seconds, approvals, lambda value: self._decoded(what, value, kind), detached=detached)
        return attrs.evolve(made, hint=_hint(message))

    def ask_encoded(
        self,
        path: str,
        encoded: bytes,
        seconds: float,
        approvals: Sequence[object],
        decode: Callable[[Any], Any],
        *,
        detached: bool = False,
    ) -> Exchange[Any]:
        """An ask with a message that is JSON already; its value is what `decode` makes of the JSON of the reply."""
        what = f"the ask of {path}"
        fields: dict[str, Any] = {"to": path, **timeout_data(seconds), **approvals_data(approvals)}
        if detached:
            fields["detached"] = True
        return Exchange(
            method="POST",
            target="/v1/ask",
            what=what,
            read=lambda status, data: decode(object_of(what, status, data, "reply")["reply"]),
            body=body_of(fields, encoded),
            seconds=seconds + MARGIN,
            largest=self._largest,
            path=path,
        )

    def tell(self, path: str, message: Any, approvals: Sequence[object], wait: float | None = None) -> Exchange[Receipt]:
        """A tell, or a send that waits for room for `wait` seconds."""
        message = _spoken(message)
        return attrs.evolve(self.tell_encoded(path, self._encoded(message), approvals, wait), hint=_hint(message))

    def tell_encoded(self, path: str, encoded: bytes, approvals: Sequence[object], wait: float | None = None) -> Exchange[Receipt]:
        """The same with a message that is JSON already."""
        what = f"the {'tell to' if wait is None else 'send to'} {path}"
        fields = {"to": path, **approvals_data(approvals), **({} if wait is None else timeout_data(wait, "wait"))}

        def read(status: int, data: Any) -> Receipt:
            answer = object_of(what, status, data, "accepted")
            accepted, reason = answer["accepted"], answer.get("reason")
            if type(accepted) is not bool or not (reason is None or isinstance(reason, str)):
                raise malformed(what, "it is no receipt", status)
            return Receipt(accepted, reason)

        return Exchange(
            method="POST",
            target="/v1/tell",
            what=what,
            read=read,
            body=body_of(fields, encoded),
            expected=frozenset({200, 202, 409}),
            seconds=(self.timeout if wait is None else wait) + MARGIN,
            largest=self._largest,
        )

    def stream(self, path: str, message: Any, timeout: float | None, window: int, approvals: Sequence[object]) -> Opening[Any]:
        """A stream; its items are of the type that the message promises."""
        message = _spoken(message)
        encoded = self._encoded(message)
        info = message_info(type(message))
        if info.items is None:
            raise Unhandled(f"{info.label} is no Stream; ask for it")
        if isinstance(window, bool) or not isinstance(window, int) or not 1 <= window <= MAX_WINDOW:
            raise DefinitionError(f"window={window!r}: give a whole number of items, from 1 to {MAX_WINDOW:,}")
        what = f"the stream of {path}"
        decode: Callable[[Any], Any] = lambda value: self._decoded(what, value, info.items)  # noqa: E731
        made = self.stream_encoded(path, encoded, self._limit(message, timeout), window, approvals, decode)
        return attrs.evolve(made, hint=_hint(message))

    def stream_encoded(
        self, path: str, encoded: bytes, seconds: float, window: int, approvals: Sequence[object], decode: Callable[[Any], Any]
    ) -> Opening[Any]:
        """A stream for a message that is JSON already; its items are what `decode` makes of the JSON of each."""
        what = f"the stream of {path}"
        fields = {"to": path, **timeout_data(seconds), "window": window, **approvals_data(approvals)}

        def item(data: bytes) -> Any:
            return decode(read_json(what, None, data, self._largest))

        return self._opening("POST", "/v1/stream", what, body_of(fields, encoded), seconds, path, item)

    def watch(self, path: str) -> Opening[RemoteTerminated]:
        """A watch, which has one event: the end."""
        what = f"the watch on {path}"

        def item(data: bytes) -> RemoteTerminated:
            return terminated_of(read_json(what, None, data, self._largest))

        target = f"/v1/watch?path={quote(path, safe='/')}"
        return self._opening("GET", target, what, None, math.inf, None, item, name="terminated", last=True)

    def _opening(
        self,
        method: str,
        target: str,
        what: str,
        body: bytes | None,
        seconds: float,
        path: str | None,
        item: Callable[[bytes], T],
        *,
        name: str = "item",
        last: bool = False,
    ) -> Opening[T]:
        return Opening(
            method=method,
            target=target,
            what=what,
            read=lambda status, _: _raise_unexpected(what, status),
            body=body,
            expected=frozenset(),
            seconds=seconds + MARGIN,
            largest=self._largest,
            path=path,
            reading=lambda: Reading(what, self._largest, item, name=name, last=last),
            begin=(self.timeout if last else seconds) + MARGIN,
            idle=IDLE,
        )

    # -- the system ----------------------------------------------------------------------------------------------------------------------------------

    def actors(self) -> Exchange[tuple[RemoteActor, ...]]:
        """The list of living actors."""

        def read(status: int, data: Any) -> tuple[RemoteActor, ...]:
            found = object_of("the list of actors", status, data, "actors")["actors"]
            if not isinstance(found, list):
                raise malformed("the list of actors", "it is no list", status)
            return tuple(map(actor_of, found))

        return self._get("/v1/actors", "the list of actors", read)

    def describe(self, path: str | None = None, message: str | None = None) -> Exchange[dict[str, Any]]:
        """The description of the messages, of one actor or of all; or of one message of one actor, whose absence and whose refusal are errors."""
        what = "the description of the messages"
        query = {name: value for name, value in (("path", path), ("message", message)) if value is not None}
        target = "/v1/openapi.json" + (f"?{urlencode(query, safe='/')}" if query else "")
        return self._get(target, what, lambda status, data: object_of(what, status, data))

    def requests(self, pages: Pages, after: str) -> Exchange[tuple[tuple[ApprovalRequest, ...], str | None]]:
        """A page of the requests for approval; its value has them, and what the next page comes after."""
        what = "the list of approvals"

        def read(code: int, data: Any) -> tuple[tuple[ApprovalRequest, ...], str | None]:
            answer = object_of(what, code, data, "requests", "more")
            found, more = answer["requests"], answer["more"]
            if not isinstance(found, list) or not (more is None or isinstance(more, str)):
                raise malformed(what, "it is no list", code)
            return tuple(_request_of(what, code, item) for item in found), more

        return self._get(f"/v1/approvals?{pages.query(after)}", what, read)

    def request(self, request_id: str) -> Exchange[ApprovalRequest]:
        """One request for approval."""
        what = "the approval"

        def read(code: int, data: Any) -> ApprovalRequest:
            return _request_of(what, code, object_of(what, code, data, "request")["request"])

        return self._get(_approval(request_id), what, read)

    def decide(self, request_id: str, decision: Decision, fields: Mapping[str, Any]) -> Exchange[tuple[ApprovalRequest, str | None]]:
        """A decision of a person; its value is the request after it, and the token where one was made."""
        what = f"the decision to {decision}"

        def read(code: int, data: Any) -> tuple[ApprovalRequest, str | None]:
            answer = object_of(what, code, data, "request")
            token = answer.get("token")
            if not (token is None or isinstance(token, str)) or (decision == "approve" and token is None):
                raise malformed(what, "it has no token", code)
            return _request_of(what, code, answer["request"]), token

        return Exchange(
            method="POST",
            target=f"{_approval(request_id)}/{decision}",
            what=what,
            read=read,
            body=body_of(dict(fields)),
            seconds=self.timeout + MARGIN,
            largest=self._largest,
        )

    def _get(self, target: str, what: str, read: Callable[[int, Any], T]) -> Exchange[T]:
        return Exchange(method="GET", target=target, what=what, read=read, seconds=self.timeout + MARGIN, largest=self._largest)

    # -- types ---------------------------------------------------------------------------------------------------------------------------------------

    def _encoded(self, message: Any) -> bytes:
        if not isinstance(message, Message) or isinstance(message, type):
            label = f"{message.__qualname__} is a class" if isinstance(message, type) else f"{type(message).__qualname__} is no message"
            raise Unhandled(f"{label}: send an instance of a class that is decorated with @rt.message")
        with self._lock:
            if type(message) not in self.wire:
                self.wire.register(type(message))
            return self.wire.encode(message)

    def _decoded(self, what: str, value: Any, kind: Any) -> Any:
        try:
            with self._lock:
                return self.wire.load_value(value, kind)
        except WireError as error:
            raise WireError(
                f"{what} was answered with what its message does not promise: {error}. Are both sides of the same version?",
                problem=error.problem,
            ) from None

    def _limit(self, message: Any, timeout: float | None) -> float:
        if timeout is not None:
            return seconds_of(timeout)
        own = message_info(type(message)).timeout
        return self.timeout if own is None else own


def _spoken(message: Any) -> Any:
    """A str is what a user says to an agent."""
    if isinstance(message, str):
        from retinue.actors.agents.message import AgentMessage

        return AgentMessage(message)
    return message


def _hint(message: Any) -> str:
    """Why the other process may not know a message that it has."""
    info = message_info(type(message))
    if info.name is not None:
        return ""
    return (
        f"{info.label} has no wire name, so both sides have to import it from a module of one name ({info.cls.__module__} here): "
        f'give it one, @rt.message(name="shop/{info.label.rpartition(".")[2]}@1"), where they do not'
    )


def _span_in_force() -> dict[str, str]:
    """The headers that make what is asked for a child of the caller's span, where OpenTelemetry is in use here and one is in force."""
    find = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)  # another thread may be importing it just now
    context = find().get_span_context() if find is not None else None
    if context is None or not context.is_valid:
        return {}
    headers = {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"}
    if context.trace_state and len(state := context.trace_state.to_header()) <= MOST_STATE:
        headers["tracestate"] = state
    return headers


def _raise_unexpected(what: str, status: int) -> None:
    raise malformed(what, "it is no stream", status)


def _approval(request_id: object) -> str:
    plain = (
        isinstance(request_id, str) and request_id.isascii() and request_id.replace("_", "").isalnum() and len(request_id) <= _LONGEST_ID
    )
    if not plain:
        raise DefinitionError("the id of a request for approval is what request.id gives, such as 'apr_…'")
    return f"/v1/approvals/{request_id}"


def _request_of(what: str, status: int, data: object) -> ApprovalRequest:
    from retinue.security.errors import RetinueError

    try:
        return request_from_data(data)
    except (RetinueError, ValueError, TypeError, KeyError) as error:
        raise malformed(what, f"a request in it is malformed ({type(error).__name__})", status) from None
