"""The client under trio and under asyncio: httpx runs on both, and so does this. What differs stands in a `Loop`."""

from __future__ import annotations

import math
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, final, overload

import httpx

from retinue.actors.runtime.entering import EnteredAsync
from retinue.actors.runtime.errors import AskTimeout, StreamClosed
from retinue.actors.runtime.receipts import Receipt
from retinue.client.address import check_path
from retinue.client.answers import Body, check_events, value_of
from retinue.client.approving import POLLS, Pages, approve_fields, edit_fields, note_fields, text_fields, token_of
from retinue.client.exchange import Exchange, Opening, Reading
from retinue.client.face import Face
from retinue.client.failures import LIMITS, failure_of, no_cookies
from retinue.client.session import MOST_REQUESTS, Session, seconds_of
from retinue.client.views import RemoteActor, RemoteTerminated, still_lives
from retinue.mailbox.messages import Message, Request, Stream
from retinue.security.errors import DefinitionError, RetinueError

if TYPE_CHECKING:
    from retinue.actors.agents.message import AgentEvent, AgentMessage
    from retinue.security.approvals import ApprovalRequest

__all__ = ["Client", "Connection", "Loop", "RemoteApprovals", "RemoteRef", "RemoteStream", "RemoteWatch", "TookTooLong"]

T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E")


class TookTooLong(Exception):
    """Raised by `Loop.within`; not a TimeoutError, because an answer may be one."""


class Loop(Protocol):
    """What trio and asyncio do differently."""

    def check(self) -> None:
        """Raises WrongEventLoop where another loop, or none, runs."""

    async def within(self, seconds: float, function: Callable[[], Awaitable[T]]) -> T:
        """Awaits what the function gives; raises TookTooLong after that many seconds (`math.inf`: never)."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits."""


class Connection:
    """The connections of one client, and how requests go over them."""

    def __init__(self, origin: str, tls: ssl.SSLContext, loop: Loop) -> None:
        self.origin = origin
        self.loop = loop
        self._tls = tls
        self._http: httpx.AsyncClient | None = None

    async def open(self) -> None:
        """Ready to send. Raises WrongEventLoop, and DefinitionError where it is open, or was."""
        self.loop.check()
        if self._http is not None:
            raise DefinitionError("this client is in use already: call connect(…) again for another one")
        # Nothing of the environment: a proxy would see the token, and would be asked for addresses of this machine.
        self._http = httpx.AsyncClient(
            base_url=self.origin,
            verify=self._tls,
            limits=LIMITS,
            cookies=no_cookies(),
            trust_env=False,
            follow_redirects=False,
            timeout=None,  # noqa: S113 - each request has its own
        )

    async def close(self) -> None:
        """Closes all connections; what still waits for an answer gets an error."""
        if self._http is not None:
            await self._http.aclose()

    async def send(self, session: Session, exchange: Exchange[Any], *, read: float, opening: bool = False) -> httpx.Response:
        """Sends a request, and returns its answer as soon as there are headers."""
        http = self._http
        if http is None or http.is_closed:
            raise DefinitionError("the client is not open: use it inside its block, `async with rt.connect(…) as client`")
        timeout = httpx.Timeout(or_none(read), connect=or_none(session.connect_timeout), pool=None)
        request = http.build_request(
            exchange.method, exchange.target, content=exchange.body, headers=session.headers(opening), timeout=timeout
        )
        try:
            return await http.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            failure = failure_of(error, exchange, self.origin)
        raise failure  # out here: httpx's error holds the request with its headers, and would be the context of this one

    async def carry_out(self, session: Session, exchange: Exchange[T]) -> T:
        """One request and its answer."""

        async def talk() -> T:
            response = await self.send(session, exchange, read=exchange.seconds)
            try:
                return value_of(exchange, response.status_code, response.headers, await self.body(exchange, response))
            finally:
                await response.aclose()

        try:
            return await self.loop.within(session.connect_timeout + exchange.seconds, talk)
        except TookTooLong:
            raise exchange.overdue() from None

    async def body(self, exchange: Exchange[Any], response: httpx.Response) -> bytes:
        """All bytes of an answer."""
        body = Body(exchange.what, exchange.largest)
        body.expect(response.headers)
        try:
            async for chunk in response.aiter_raw():
                body.add(chunk)
        except (httpx.HTTPError, httpx.StreamError) as error:
            failure = failure_of(error, exchange, self.origin)
        else:
            return body.whole
        raise failure


class Client(EnteredAsync, Face[Connection]):
    """A running system, as its gateway shows it: `async with rt.connect(url, token=token) as client: …`. Made by `connect`, which describes it."""

    async def __aenter__(self) -> Self:
        await self._connection.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self._connection.close()

    def ref(self, path: str) -> RemoteRef:
        """The address of an actor; whether one is there shows when it is asked.

        Args:
            path: Its path, such as `/user/shop`. Raises DefinitionError for what is no path.
        """
        return RemoteRef(check_path(path), self._session, self._connection)

    async def actors(self) -> tuple[RemoteActor, ...]:
        """The living actors. Takes the operation `system.inspect`."""
        return await self._connection.carry_out(self._session, self._session.actors())

    async def describe(self) -> dict[str, Any]:
        """The description of the messages that the living actors take, as OpenAPI with JSON Schemas."""
        return await self._connection.carry_out(self._session, self._session.describe())

    @property
    def approvals(self) -> RemoteApprovals:
        """What waits for a person's consent."""
        return RemoteApprovals(self._session, self._connection)


@final
class RemoteRef:
    """The address of an actor in another process. Its methods are those of `retinue.Ref`, with one difference: `tell` is awaited, as it goes over the network
    (`await ref.tell(message)`; on `rt.Ref` it is a plain call). And `tell` and `send` raise what the gate is certain to refuse, `Denied` and `ApprovalRequired`.

    `ask` raises what the system's `ask` would: `AskTimeout`, `ActorStopped`, `Denied`, `ApprovalRequired`, … as the very classes; what the handler raised of its own
    is a `RemoteError`; and where the gateway could not be asked, a `GatewayError`, whose `delivered` says whether the message may have been handled. Nothing is sent a
    second time by itself.
    """

    __slots__ = ("_connection", "_session", "path")

    def __init__(self, path: str, session: Session, connection: Connection) -> None:
        self.path = path
        self._session = session
        self._connection = connection

    @overload
    async def ask(
        self, message: Request[R], *, timeout: float | None = None, approvals: Sequence[object] = (), detached: bool = False
    ) -> R: ...
    @overload
    async def ask(
        self, message: str, *, timeout: float | None = None, approvals: Sequence[object] = (), detached: bool = False
    ) -> AgentMessage: ...
    @overload
    async def ask(
        self, message: Message, *, timeout: float | None = None, approvals: Sequence[object] = (), detached: bool = False
    ) -> object: ...
    async def ask(self, message: Any, *, timeout: float | None = None, approvals: Sequence[object] = (), detached: bool = False) -> Any:
        """Sends a request and returns its answer.

        Args:
            message: The request; a str is what an agent is told, as `rt.AgentMessage`.
            timeout: Seconds until `AskTimeout`; default: the message class's, else the client's. The gateway may allow less.
            approvals: Tokens of approval to redeem.
            detached: The handler goes on when this asker gives up.
        """
        return await self._connection.carry_out(self._session, self._session.ask(self.path, message, timeout, approvals, detached))

    async def tell(self, message: Message | str, *, approvals: Sequence[object] = ()) -> Receipt:
        """Sends a message and waits for no answer but the receipt, which is true where the mailbox took it. What becomes of it then, nobody is told.

        To be awaited: without `await` nothing is sent, and Python warns that the coroutine was never awaited.

        Raises:
            Denied, ApprovalRequired: It is certain that the gate would refuse it; nothing was sent to the actor.
            GatewayError: The gateway could not be asked.
        """
        return await self._connection.carry_out(self._session, self._session.tell(self.path, message, approvals))

    async def send(self, message: Message | str, *, timeout: float | None = None, approvals: Sequence[object] = ()) -> Receipt:
        """As `tell`, but waits for room in a full mailbox, for at most `timeout` seconds (default: the client's). Raises MailboxFull."""
        wait = self._session.timeout if timeout is None else seconds_of(timeout)
        return await self._connection.carry_out(self._session, self._session.tell(self.path, message, approvals, wait))

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
        """Asks for a stream: `async with ref.stream(message) as items: async for item in items: …`.

        Args:
            message: The request for a stream.
            timeout: Seconds that the whole stream may take, as for `ask`.
            window: Items that the actor may be ahead of the gateway before it waits, 1 or more.
            approvals: As for `ask`.
        """
        return RemoteStream(self._session, self._connection, self._session.stream(self.path, message, timeout, window, approvals))

    def watch(self) -> RemoteWatch:
        """Watches the actor: `await ref.watch().wait()`; or `async with ref.watch() as watch: …`, which watches from the beginning of the block."""
        return RemoteWatch(self._session, self._connection, self.path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RemoteRef):
            return NotImplemented
        return self.path == other.path and self._connection is other._connection and self._session is other._session

    def __hash__(self) -> int:
        return hash((self.path, id(self._session)))

    def __repr__(self) -> str:
        return f"<RemoteRef {self.path} at {self._session.address.origin}>"


class RemoteStream(EnteredAsync, Generic[E]):
    """The reader's end of a stream: an async context manager and iterator. It always sees an end: of the iteration, or an error. Leaving early cancels the handler.

    A read that is cancelled ends the stream.
    """

    def __init__(self, session: Session, connection: Connection, opening: Opening[E]) -> None:
        self._session = session
        self._connection = connection
        self._opening = opening
        self._reading: Reading[E] | None = None
        self._response: httpx.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._end = math.inf
        self._busy = False

    async def __aenter__(self) -> Self:
        opening, connection = self._opening, self._connection
        if self._reading is not None:
            raise DefinitionError(f"{opening.what} was entered before: ask for another")
        self._reading = opening.reading()
        self._end = time.monotonic() + self._session.connect_timeout + opening.seconds

        async def talk() -> None:
            response = await connection.send(self._session, opening, read=opening.begin, opening=True)
            try:
                if check_events(opening, response.status_code, response.headers):
                    response.request.extensions["timeout"]["read"] = None  # from here on, what counts stands in `_more`
                    self._response = response
                    return
                value_of(opening, response.status_code, response.headers, await connection.body(opening, response))
            finally:
                if self._response is None:
                    await response.aclose()

        try:
            await connection.loop.within(self._session.connect_timeout + opening.begin, talk)
        except TookTooLong:
            raise opening.overdue() from None
        assert self._response is not None
        self._chunks = self._response.aiter_raw()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        response, self._response, self._chunks = self._response, None, None
        if response is not None:
            await response.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        reading = self._reading
        if reading is None or self._chunks is None:
            raise StreamClosed(
                f"{self._opening.what} is not open: read it inside its block, `async with ref.stream(message) as items: async for item in items: …`"
            )
        if self._busy:
            raise DefinitionError(f"another task is reading {self._opening.what}; give each reader a stream of its own")
        self._busy = True
        try:
            while not reading.items:
                if reading.over():
                    raise StopAsyncIteration
                await self._more(reading, self._chunks)
        finally:
            self._busy = False
        return reading.items.popleft()

    async def _more(self, reading: Reading[E], chunks: AsyncIterator[bytes]) -> None:
        """Reads on; whatever happens ends up in `reading`."""
        opening = self._opening

        async def read() -> bytes | None:
            return await anext(chunks, None)

        left = self._end - time.monotonic()
        try:
            data = await self._connection.loop.within(max(0.0, min(opening.idle, left)), read)
        except TookTooLong:
            reading.end(opening.overdue() if left <= opening.idle else opening.silent(opening.idle))
        except (httpx.HTTPError, httpx.StreamError):
            reading.feed(b"")
        else:
            if data != b"":
                reading.feed(b"" if data is None else data)


class RemoteWatch(EnteredAsync):
    """A watch on one actor: `await watch.wait()` returns its `RemoteTerminated`, however often it is called. An async context manager.

    Entered (`async with ref.watch() as watch: …`), it watches from the beginning of the block, so that nothing is missed before `wait`.
    """

    def __init__(self, session: Session, connection: Connection, path: str) -> None:
        self._session = session
        self._connection = connection
        self._path = path
        self._events: RemoteStream[RemoteTerminated] | None = None
        self._entered = False
        self.terminated: RemoteTerminated | None = None

    async def __aenter__(self) -> Self:
        await self._begin()
        self._entered = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._entered = False
        await self._close()

    async def wait(self, *, timeout: float | None = None) -> RemoteTerminated:
        """Waits until the actor has ended.

        Args:
            timeout: Seconds; default: no limit of its own. After a time-out it can be waited for again.

        Raises:
            AskTimeout: The actor still lives after `timeout`; or the watch has lasted as long as the gateway lets one last (an hour, unless it was told
                otherwise). Watch again.
            StreamClosed: The connection was lost.
            GatewayError: There is no such actor, and was none that the gateway remembers.
        """
        seconds = math.inf if timeout is None else seconds_of(timeout)
        if self.terminated is None:
            try:
                self.terminated = await self._connection.loop.within(seconds, self._next)
            except TookTooLong:
                await self._close()
                raise still_lives(self._path, seconds) from None
            except StopAsyncIteration:
                raise StreamClosed("the watch ended, and did not say that the actor has") from None
            except RetinueError:
                await self._close()
                raise
            finally:
                if not self._entered:
                    await self._close()
        return self.terminated

    async def _next(self) -> RemoteTerminated:
        return await anext(self._events if self._events is not None else await self._begin())

    async def _begin(self) -> RemoteStream[RemoteTerminated]:
        events = RemoteStream(self._session, self._connection, self._session.watch(self._path))
        await events.__aenter__()
        self._events = events
        return events

    async def _close(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            await events.__aexit__(None, None, None)


class RemoteApprovals:
    """What waits for a person's consent, and the decisions. Who decides is the subject of the client's token; it takes the operation `approvals.approve`."""

    def __init__(self, session: Session, connection: Connection) -> None:
        self._session = session
        self._connection = connection

    async def get(self, request_id: str) -> ApprovalRequest:
        """One request: the token's own, or with the operation `approvals.read` any. Of an approved one that is the token's own, the approval is in it, too."""
        return await self._connection.carry_out(self._session, self._session.request(request_id))

    async def pending(self) -> tuple[ApprovalRequest, ...]:
        """What waits for a decision, oldest first. Takes the operation `approvals.read`."""
        return await self.find(status="pending")

    async def find(
        self,
        *,
        status: str | None = None,
        subject: str | None = None,
        operation: str | None = None,
        tenant: str | None = None,
        limit: int = MOST_REQUESTS,
    ) -> tuple[ApprovalRequest, ...]:
        """Requests, oldest first. Takes the operation `approvals.read`; those that the token may not read are left out.

        Args:
            status: Only those of it; None: all.
            subject, operation, tenant: Only those of it.
            limit: How many at most. Default, and at most: 10,000. They are fetched in pages.
        """
        pages = Pages(status, subject, operation, tenant, limit)
        while (after := pages.next()) is not None:
            pages.add(*await self._connection.carry_out(self._session, self._session.requests(pages, after)))
        return tuple(pages.found)

    async def approve(self, request_id: str, *, note: str = "", expires_seconds: float = 3600.0) -> str:
        """Consents, and returns the token that the message is sent again with. Raises ApprovalError."""
        _, token = await self._decide(request_id, "approve", approve_fields(note, expires_seconds))
        assert token is not None
        return token

    async def reject(self, request_id: str, *, note: str = "") -> ApprovalRequest:
        """Refuses. Raises ApprovalError."""
        return (await self._decide(request_id, "reject", note_fields(note)))[0]

    async def respond(self, request_id: str, text: str) -> ApprovalRequest:
        """Refuses with a text for whoever asked. Raises ApprovalError."""
        return (await self._decide(request_id, "respond", text_fields(text)))[0]

    async def edit(self, request_id: str, arguments: Mapping[str, Any]) -> ApprovalRequest:
        """Puts another request, with these arguments, in the place of this one; it is returned, and is still to be approved. Raises ApprovalError."""
        return (await self._decide(request_id, "edit", edit_fields(arguments)))[0]

    async def wait(self, request_id: str, *, timeout: float) -> str:
        """Waits until somebody has decided, and returns the token of an approval.

        Raises:
            ApprovalError: It was not approved ("rejected", "expired", "cancelled"), or its token is for another subject ("subject").
            AskTimeout: Nobody decided within `timeout` seconds; the request still waits.
        """
        end = time.monotonic() + seconds_of(timeout)
        for delay in POLLS:
            token = token_of(await self.get(request_id))
            if token is not None:
                return token
            left = end - time.monotonic()
            if left <= 0:
                break
            await self._connection.loop.sleep(min(delay, left))
        raise AskTimeout(f"nobody has decided about {request_id} within {timeout:g} s; the request still waits", begun=False)

    async def _decide(self, request_id: str, decision: Any, fields: Mapping[str, Any]) -> tuple[ApprovalRequest, str | None]:
        return await self._connection.carry_out(self._session, self._session.decide(request_id, decision, fields))


def or_none(seconds: float) -> float | None:
    """What httpx calls no limit."""
    return None if seconds == math.inf else seconds
