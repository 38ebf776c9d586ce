"""The client for plain scripts: the same as `asynchronous`, and no `async` anywhere. May be used from several threads."""

from __future__ import annotations

import math
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, final, overload

import httpx

from retinue.actors.runtime.entering import EnteredPlainly
from retinue.actors.runtime.errors import AskTimeout, StreamClosed
from retinue.actors.runtime.receipts import Receipt
from retinue.client.address import check_path
from retinue.client.answers import Body, check_events, value_of
from retinue.client.approving import POLLS, Pages, approve_fields, edit_fields, note_fields, text_fields, token_of
from retinue.client.exchange import Exchange, Opening, Reading
from retinue.client.face import Face
from retinue.client.failures import failure_of, no_cookies, tls_of
from retinue.client.session import CONNECT_TIMEOUT, MAX_ANSWER, MOST_REQUESTS, TIMEOUT, Session, Token, seconds_of
from retinue.client.timed import Deadline, TimedTransport
from retinue.client.views import RemoteActor, RemoteTerminated, still_lives
from retinue.mailbox.messages import Message, Request, Stream
from retinue.security.errors import DefinitionError, RetinueError

if TYPE_CHECKING:
    from retinue.actors.agents.message import AgentEvent, AgentMessage
    from retinue.mailbox.wire import WireRegistry
    from retinue.security.approvals import ApprovalRequest

__all__ = ["Client", "RemoteApprovals", "RemoteRef", "RemoteStream", "RemoteWatch", "connect"]

T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E")


def connect(
    url: str,
    *,
    token: Token,
    timeout: float = TIMEOUT,
    connect_timeout: float = CONNECT_TIMEOUT,
    plain: bool = False,
    max_answer: int = MAX_ANSWER,
    tls: ssl.SSLContext | None = None,
    wire: WireRegistry | None = None,
) -> Client:
    """The client of a system that runs elsewhere, without `async`. Arguments and errors as for `retinue.connect`.

    with connect("http://127.0.0.1:8420", token=token) as client:
        print(client.ref("/user/shop").ask(Price("tea")))

    May be used from several threads.
    """
    session = Session(url, token=token, timeout=timeout, connect_timeout=connect_timeout, plain=plain, max_answer=max_answer, wire=wire)
    return Client(session, Connection(session.address.origin, tls_of(tls, encrypted=session.address.tls)))


class Connection:
    """The connections of one client, and how requests go over them."""

    def __init__(self, origin: str, tls: ssl.SSLContext) -> None:
        self.origin = origin
        self.deadline = Deadline()
        self._tls = tls
        self._http: httpx.Client | None = None

    def open(self) -> None:
        """Ready to send. Raises DefinitionError where it is open, or was."""
        if self._http is not None:
            raise DefinitionError("this client is in use already: call connect(…) again for another one")
        # Nothing of the environment: a proxy would see the token, and would be asked for addresses of this machine.
        self._http = httpx.Client(
            base_url=self.origin,
            transport=TimedTransport(self._tls, self.deadline),
            cookies=no_cookies(),
            trust_env=False,
            follow_redirects=False,
            timeout=None,  # noqa: S113 - each request has its own
        )

    def close(self) -> None:
        """Closes all connections."""
        if self._http is not None:
            self._http.close()

    def send(self, session: Session, exchange: Exchange[Any], *, read: float, opening: bool = False) -> httpx.Response:
        """Sends a request, and returns its answer as soon as there are headers."""
        http = self._http
        if http is None or http.is_closed:
            raise DefinitionError("the client is not open: use it inside its block, `with connect(…) as client`")
        timeout = httpx.Timeout(_or_none(read), connect=_or_none(session.connect_timeout), pool=None)
        request = http.build_request(
            exchange.method, exchange.target, content=exchange.body, headers=session.headers(opening), timeout=timeout
        )
        try:
            return http.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            failure = failure_of(error, exchange, self.origin)
        raise failure  # out here: httpx's error holds the request with its headers, and would be the context of this one

    def carry_out(self, session: Session, exchange: Exchange[T]) -> T:
        """One request and its answer."""
        with self.deadline.until(time.monotonic() + session.connect_timeout + exchange.seconds):
            response = self.send(session, exchange, read=exchange.seconds)
            try:
                return value_of(exchange, response.status_code, response.headers, self.body(exchange, response))
            finally:
                response.close()

    def body(self, exchange: Exchange[Any], response: httpx.Response) -> bytes:
        """All bytes of an answer."""
        body = Body(exchange.what, exchange.largest)
        body.expect(response.headers)
        try:
            for chunk in response.iter_raw():
                body.add(chunk)
        except (httpx.HTTPError, httpx.StreamError) as error:
            failure = failure_of(error, exchange, self.origin)
        else:
            return body.whole
        raise failure


class Client(EnteredPlainly, Face[Connection]):
    """A running system, as its gateway shows it: `with connect(url, token=token) as client: …`. Made by `connect`; see `retinue.connect`."""

    def __enter__(self) -> Self:
        self._connection.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._connection.close()

    def ref(self, path: str) -> RemoteRef:
        """The address of an actor; whether one is there shows when it is asked.

        Args:
            path: Its path, such as `/user/shop`. Raises DefinitionError for what is no path.
        """
        return RemoteRef(check_path(path), self._session, self._connection)

    def actors(self) -> tuple[RemoteActor, ...]:
        """The living actors. Takes the operation `system.inspect`."""
        return self._connection.carry_out(self._session, self._session.actors())

    def describe(self) -> dict[str, Any]:
        """The description of the messages that the living actors take, as OpenAPI with JSON Schemas."""
        return self._connection.carry_out(self._session, self._session.describe())

    @property
    def approvals(self) -> RemoteApprovals:
        """What waits for a person's consent."""
        return RemoteApprovals(self._session, self._connection)


@final
class RemoteRef:
    """The address of an actor in another process. Its methods are those of `retinue.RemoteRef`, blocking."""

    __slots__ = ("_connection", "_session", "path")

    def __init__(self, path: str, session: Session, connection: Connection) -> None:
        self.path = path
        self._session = session
        self._connection = connection

    @overload
    def ask(self, message: Request[R], *, timeout: float | None = None, approvals: Sequence[object] = (), detached: bool = False) -> R: ...
    @overload
    def ask(
        self, message: str, *, timeout: float | None = None, approvals: Sequence[object] = (), detached: bool = False
    ) -> AgentMessage: ...
    @overload
    def ask(
        self, message: Message, *, timeout: float | None = None, approvals: Sequence[object] = (), detached: bool = False
    ) -> object: ...
    def ask(self, message: Any, *, timeout: float | None = None, approvals: Sequence[object] = (), detached: bool = False) -> Any:
        """Sends a request and returns its answer. Arguments and errors as for `retinue.RemoteRef.ask`."""
        return self._connection.carry_out(self._session, self._session.ask(self.path, message, timeout, approvals, detached))

    def tell(self, message: Message | str, *, approvals: Sequence[object] = ()) -> Receipt:
        """Sends a message and waits for no answer but the receipt, which is true where the mailbox took it."""
        return self._connection.carry_out(self._session, self._session.tell(self.path, message, approvals))

    def send(self, message: Message | str, *, timeout: float | None = None, approvals: Sequence[object] = ()) -> Receipt:
        """As `tell`, but waits for room in a full mailbox, for at most `timeout` seconds (default: the client's). Raises MailboxFull."""
        wait = self._session.timeout if timeout is None else seconds_of(timeout)
        return self._connection.carry_out(self._session, self._session.tell(self.path, message, approvals, wait))

    @overload
    def stream(
        self, message: Stream[E], *, timeout: float | None = None, window: int = 32, approvals: Sequence[object] = ()
    ) -> RemoteStream[E]: ...
    @overload
    def stream(
        self, message: str, *, timeout: float | None = None, window: int = 32, approvals: Sequence[object] = ()
    ) -> RemoteStream[AgentEvent]: ...
    def stream(
        self, message: Any, *, timeout: float | None = None, window: int = 32, approvals: Sequence[object] = ()
    ) -> RemoteStream[Any]:
        """Asks for a stream: `with ref.stream(message) as items: for item in items: …`. Arguments as for `retinue.RemoteRef.stream`."""
        return RemoteStream(self._session, self._connection, self._session.stream(self.path, message, timeout, window, approvals))

    def watch(self) -> RemoteWatch:
        """Watches the actor: `ref.watch().wait()`; or `with ref.watch() as watch: …`, which watches from the beginning of the block."""
        return RemoteWatch(self._session, self._connection, self.path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RemoteRef):
            return NotImplemented
        return self.path == other.path and self._connection is other._connection and self._session is other._session

    def __hash__(self) -> int:
        return hash((self.path, id(self._session)))

    def __repr__(self) -> str:
        return f"<RemoteRef {self.path} at {self._session.address.origin}>"


class RemoteStream(EnteredPlainly, Generic[E]):
    """The reader's end of a stream: a context manager and an iterator. It always sees an end: of the iteration, or an error. Leaving early cancels the handler."""

    def __init__(self, session: Session, connection: Connection, opening: Opening[E]) -> None:
        self._session = session
        self._connection = connection
        self._opening = opening
        self._reading: Reading[E] | None = None
        self._response: httpx.Response | None = None
        self._chunks: Iterator[bytes] | None = None
        self._end = math.inf

    def __enter__(self) -> Self:
        opening, connection = self._opening, self._connection
        if self._reading is not None:
            raise DefinitionError(f"{opening.what} was entered before: ask for another")
        self._reading = opening.reading()
        began = time.monotonic()
        self._end = began + self._session.connect_timeout + opening.seconds
        with connection.deadline.until(began + self._session.connect_timeout + opening.begin):
            response = connection.send(self._session, opening, read=opening.begin, opening=True)
            try:
                if check_events(opening, response.status_code, response.headers):
                    response.request.extensions["timeout"]["read"] = None  # from here on, what counts stands in `_more`
                    self._response, self._chunks = response, response.iter_raw()
                    return self
                value_of(opening, response.status_code, response.headers, connection.body(opening, response))
                raise AssertionError  # no answer but a stream is expected
            finally:
                if self._response is None:
                    response.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        response, self._response, self._chunks = self._response, None, None
        if response is not None:
            response.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> E:
        reading = self._reading
        if reading is None or self._chunks is None:
            raise StreamClosed(
                f"{self._opening.what} is not open: read it inside its block, `with ref.stream(message) as items: for item in items: …`"
            )
        while not reading.items:
            if reading.over():
                raise StopIteration
            self._more(reading, self._chunks)
        return reading.items.popleft()

    def _more(self, reading: Reading[E], chunks: Iterator[bytes]) -> None:
        """Reads on; whatever happens ends up in `reading`."""
        opening, began = self._opening, time.monotonic()
        try:
            with self._connection.deadline.until(min(began + opening.idle, self._end)):
                data = next(chunks, None)
        except httpx.TimeoutException:
            reading.end(opening.overdue() if self._end <= began + opening.idle else opening.silent(opening.idle))
        except (httpx.HTTPError, httpx.StreamError):
            reading.feed(b"")
        else:
            if data != b"":
                reading.feed(b"" if data is None else data)


class RemoteWatch(EnteredPlainly):
    """A watch on one actor: `watch.wait()` returns its `RemoteTerminated`, however often it is called. A context manager."""

    def __init__(self, session: Session, connection: Connection, path: str) -> None:
        self._session = session
        self._connection = connection
        self._path = path
        self._events: RemoteStream[RemoteTerminated] | None = None
        self._entered = False
        self.terminated: RemoteTerminated | None = None

    def __enter__(self) -> Self:
        self._begin()
        self._entered = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._entered = False
        self._close()

    def wait(self, *, timeout: float | None = None) -> RemoteTerminated:
        """Blocks until the actor has ended. Arguments and errors as for `retinue.RemoteRef.watch`."""
        seconds = math.inf if timeout is None else seconds_of(timeout)
        if self.terminated is None:
            end = time.monotonic() + seconds
            try:
                with self._connection.deadline.until(end):
                    self.terminated = self._next()
            except (RetinueError, StopIteration) as error:
                self._close()
                if time.monotonic() >= end:
                    raise still_lives(self._path, seconds) from None
                if isinstance(error, StopIteration):
                    raise StreamClosed("the watch ended, and did not say that the actor has") from None
                raise
            finally:
                if not self._entered:
                    self._close()
        return self.terminated

    def _next(self) -> RemoteTerminated:
        return next(self._events if self._events is not None else self._begin())

    def _begin(self) -> RemoteStream[RemoteTerminated]:
        events = RemoteStream(self._session, self._connection, self._session.watch(self._path))
        events.__enter__()
        self._events = events
        return events

    def _close(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            events.__exit__(None, None, None)


class RemoteApprovals:
    """What waits for a person's consent, and the decisions; as `retinue.Client.approvals`, blocking."""

    def __init__(self, session: Session, connection: Connection) -> None:
        self._session = session
        self._connection = connection

    def get(self, request_id: str) -> ApprovalRequest:
        """One request: the token's own, or with the operation `approvals.read` any. Of an approved one that is the token's own, the approval is in it, too."""
        return self._connection.carry_out(self._session, self._session.request(request_id))

    def pending(self) -> tuple[ApprovalRequest, ...]:
        """What waits for a decision, oldest first. Takes the operation `approvals.read`."""
        return self.find(status="pending")

    def find(
        self,
        *,
        status: str | None = None,
        subject: str | None = None,
        operation: str | None = None,
        tenant: str | None = None,
        limit: int = MOST_REQUESTS,
    ) -> tuple[ApprovalRequest, ...]:
        """Requests, oldest first. Takes the operation `approvals.read`. Arguments as for `retinue.Client.approvals.find`."""
        pages = Pages(status, subject, operation, tenant, limit)
        while (after := pages.next()) is not None:
            pages.add(*self._connection.carry_out(self._session, self._session.requests(pages, after)))
        return tuple(pages.found)

    def approve(self, request_id: str, *, note: str = "", expires_seconds: float = 3600.0) -> str:
        """Consents, and returns the token that the message is sent again with. Raises ApprovalError."""
        _, token = self._decide(request_id, "approve", approve_fields(note, expires_seconds))
        assert token is not None
        return token

    def reject(self, request_id: str, *, note: str = "") -> ApprovalRequest:
        """Refuses. Raises ApprovalError."""
        return self._decide(request_id, "reject", note_fields(note))[0]

    def respond(self, request_id: str, text: str) -> ApprovalRequest:
        """Refuses with a text for whoever asked. Raises ApprovalError."""
        return self._decide(request_id, "respond", text_fields(text))[0]

    def edit(self, request_id: str, arguments: Mapping[str, Any]) -> ApprovalRequest:
        """Puts another request, with these arguments, in the place of this one; it is returned, and is still to be approved. Raises ApprovalError."""
        return self._decide(request_id, "edit", edit_fields(arguments))[0]

    def wait(self, request_id: str, *, timeout: float) -> str:
        """Blocks until somebody has decided, and returns the token of an approval. Errors as for `retinue.Client.approvals.wait`."""
        end = time.monotonic() + seconds_of(timeout)
        for delay in POLLS:
            token = token_of(self.get(request_id))
            if token is not None:
                return token
            left = end - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(delay, left))
        raise AskTimeout(f"nobody has decided about {request_id} within {timeout:g} s; the request still waits", begun=False)

    def _decide(self, request_id: str, decision: Any, fields: Mapping[str, Any]) -> tuple[ApprovalRequest, str | None]:
        return self._connection.carry_out(self._session, self._session.decide(request_id, decision, fields))


def _or_none(seconds: float) -> float | None:
    return None if seconds == math.inf else seconds
