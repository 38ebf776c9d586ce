"""One HTTP request to an endpoint, and the events of its answer. No retries here: `Endpoint` starts another exchange.

The answer is read by what it is, not by what its headers say: events, one JSON object, or a web page. Every wait is bounded by the
exchange's `Clock`; no cancel scope is open across a `yield`.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import httpx
import trio

from retinue.actors.llm.deadlines import Clock
from retinue.actors.llm.errors import BadReply, ModelError, ModelFailed, ModelTimeout, ModelUnreachable, RateLimited, StreamTruncated
from retinue.actors.llm.events import ModelEvent
from retinue.actors.llm.profiles.profile import Profile
from retinue.actors.llm.reading import AnswerReader
from retinue.actors.llm.replies import failure_of, tidy
from retinue.actors.llm.retrying import asked_wait

__all__ = ["Exchange"]

_LONGEST_FAILURE = 64 * 1024  # of an answer that is an error; what is beyond is not looked at
_FAILURE_BYTES = 5.0  # seconds for the body of such an answer
_LEAVING = 0.1  # seconds; a connection that is not closed by then is cut
_LAST_BYTES = 0.2  # seconds for the end of an answer that is whole, so that its connection can be used again
_BROKEN = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, RuntimeError, ValueError)
"""What a connection breaks with. The last three are what the layers below httpx let through: closed sockets, certificates, host names."""

_DEEPEST = 10  # of the exceptions below one that are looked at

T = TypeVar("T")


class Exchange:
    """One attempt at a request.

    Args:
        client: Sends it, without time-outs of its own.
        url: Where to.
        content: The body.
        clock: Bounds every wait.
        profile: The endpoint's ways.
        read_by: Makes the reader of an answer from its content type.
        where: Which model at which address, for texts.
        hide: Blots the key out of texts.
    """

    __slots__ = (
        "_client",
        "_clock",
        "_fresh",
        "_heard",
        "_hide",
        "_opened",
        "_profile",
        "_read_by",
        "_scope",
        "_sent",
        "_url",
        "_where",
        "asked_wait",
        "content",
        "failure",
        "hopeless",
        "reader",
        "surplus",
    )

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        url: str,
        content: bytes,
        clock: Clock,
        profile: Profile,
        read_by: Callable[[str], AnswerReader],
        where: str,
        hide: Callable[[str], str],
    ) -> None:
        self._client = client
        self._url = url
        self.content = content
        self._clock = clock
        self._profile = profile
        self._read_by = read_by
        self._where = where
        self._hide = hide
        self._scope: trio.CancelScope | None = None
        self._fresh = False  # the connection was made for this request
        self._opened: Any = None  # the stream that was opened for it
        self._heard = False  # the head of an answer came
        self._sent = False  # the request has gone out, or its first byte
        self.surplus = False
        """Whether more than the answer came over the connection: that must be nobody else's answer."""
        self.reader: AnswerReader | None = None
        """What has been read; None before the head of an answer has come."""
        self.asked_wait: float | None = None
        """The seconds that the endpoint asked to wait before the next attempt."""
        self.hopeless = False
        """Whether another attempt cannot do better, whatever the error's type says."""
        self.failure: tuple[int, bytes] | None = None
        """Status and body of an answer that was a refusal."""

    async def events(self) -> AsyncGenerator[ModelEvent, None]:
        """Send the request and give the answer's events; raises a ModelError. To be closed by whoever leaves early."""
        answer = await self._send()
        self._heard = True
        chunks = answer.aiter_raw()
        try:
            self.asked_wait = asked_wait(answer.headers)
            self.hopeless = answer.headers.get("x-should-retry", "").strip().lower() == "false"
            if not answer.is_success:
                raise await self._failure(answer, chunks)
            encoding = answer.headers.get("content-encoding", "").strip().lower()
            if encoding not in ("", "identity"):  # never decoded: a few kilobytes may stand for gigabytes
                raise BadReply(
                    f"{self._where} answered in the encoding {tidy(self._hide(encoding))!r} although none was asked for: "
                    f"is a proxy compressing its answers?"
                )
            self.reader = reader = self._read_by(answer.headers.get("content-type", ""))
            while (chunk := await self._more(chunks, reader)) is not None:
                events = reader.feed(chunk)
                if events:
                    self._clock.told()
                else:
                    self._clock.alive()
                for event in events:
                    yield event
            for event in reader.close():
                yield event
        except (RateLimited, ModelFailed) as error:  # an error inside a successful answer, too
            if error.retry_after is None:
                error.retry_after = self.asked_wait
            raise
        finally:
            await _leave(answer, chunks)
            self.surplus = _has_surplus(answer)

    @property
    def was_stale(self) -> bool:
        """Whether it broke since the connection was kept from an earlier request, and closed by the other side by now: it says nothing of the endpoint."""
        return not self._fresh and not self._heard

    @property
    def may_have_begun(self) -> bool:
        """Whether the endpoint may have begun to work at the request: it went out, and was not refused."""
        return (self._sent or self._heard) and self.failure is None and not self.was_stale

    async def _more(self, chunks: AsyncIterator[bytes], reader: AnswerReader) -> bytes | None:
        """The next bytes of the answer; None at its end."""
        if reader.done:
            await self._last_bytes(chunks)
            return None
        if reader.ended:
            self._clock.ended()
        try:
            chunk = await self._next(chunks)
        except ModelTimeout:
            if reader.ended:
                return None
            raise
        except ModelUnreachable as error:
            if reader.ended:
                return None
            said = f"the answer of {self._where} broke off before the model was finished: {error}"
            raise StreamTruncated(said, partial=reader.partial()) from error
        return chunk  # how many there may be is the reader's to say: a stream may be longer than a plain answer

    async def _send(self) -> httpx.Response:
        request = self._client.build_request("POST", self._url, content=self.content, extensions={"trace": self._trace})
        try:
            return await self._within(lambda: self._client.send(request, stream=True))
        except BaseException:
            # Who is cancelled while httpcore shakes hands leaves the socket open, for the garbage collector to find.
            if self._opened is not None:
                with trio.move_on_after(_LEAVING, shield=True), contextlib.suppress(*_BROKEN):
                    await self._opened.aclose()
            raise

    async def _trace(self, name: str, info: dict[str, Any]) -> None:
        """Told by httpcore of each of its steps: when the request goes out, the connection stands."""
        if name.startswith("connection.connect"):
            self._fresh = True
            if name.endswith("connect_tcp.complete"):
                self._opened = info.get("return_value")
            return
        if name.endswith("start_tls.started"):
            self._clock.shakes_hands()
        elif name.endswith("send_request_headers.started") and getattr(info.get("request"), "method", b"") != b"CONNECT":  # to a proxy
            self._sent = True
            self._clock.connected()
        else:
            return
        if self._scope is not None:
            self._scope.deadline = self._clock.deadline

    async def _failure(self, answer: httpx.Response, chunks: AsyncIterator[bytes]) -> ModelError:
        body = bytearray()
        if answer.headers.get("content-encoding", "").strip().lower() in ("", "identity"):
            with trio.move_on_after(_FAILURE_BYTES), contextlib.suppress(ModelTimeout, ModelUnreachable):  # the status says enough
                while len(body) <= _LONGEST_FAILURE and (chunk := await self._next(chunks)) is not None:
                    body += chunk
        self.failure = (answer.status_code, bytes(body))
        return failure_of(answer.status_code, answer.headers, bytes(body), where=self._where, hide=self._hide, profile=self._profile)

    async def _last_bytes(self, chunks: AsyncIterator[bytes]) -> None:
        """Read what comes after the end; a connection whose answer was not read to its end cannot be used again."""
        with trio.move_on_after(_LAST_BYTES):
            try:
                for _ in range(16):
                    if await anext(chunks, None) is None:
                        return
            except _BROKEN:
                return

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        return await self._within(lambda: anext(chunks, None))

    async def _within(self, step: Callable[[], Awaitable[T]]) -> T:
        """Do one step of the exchange, within the clock's deadline; raises ModelTimeout and ModelUnreachable."""
        broken: ModelError | None = None
        with trio.CancelScope(deadline=self._clock.deadline) as self._scope:
            try:
                return await step()
            except _BROKEN as error:
                broken = self._broken(error)
        # Not within `except`: what broke may show a proxy's password, and has the request with the key.
        raise broken or self._too_slow()

    def _broken(self, error: Exception) -> ModelError:
        if isinstance(error, httpx.ConnectTimeout):
            return self._too_slow()
        chain: list[BaseException] = [error]
        while len(chain) < _DEEPEST and (below := chain[-1].__cause__ or chain[-1].__context__) is not None:
            chain.append(below)
        reason = tidy(self._hide(next((text for text in map(str, chain) if text), type(error).__name__)))
        if not isinstance(error, httpx.ConnectError):
            return ModelUnreachable(f"the connection to {self._where} broke ({reason}): try again")
        for below in chain:
            if isinstance(below, ssl.SSLCertVerificationError):
                self.hopeless = True
                return ModelUnreachable(
                    f"{self._where} has a certificate that is not trusted ({tidy(below.verify_message)}): is the address right? "
                    f"SSL_CERT_FILE names a file of authorities to trust"
                )
            if isinstance(below, ssl.SSLError) and below.reason == "WRONG_VERSION_NUMBER":
                self.hopeless = True
                return ModelUnreachable(
                    f"{self._where} does not answer in TLS ({reason}): is its address one with http:// instead of https://?"
                )
        return ModelUnreachable(f"{self._where} cannot be connected to ({reason}): is it running, and is the address right?")

    def _too_slow(self) -> ModelTimeout:
        cause, limit, where = self._clock.cause, self._clock.limit, self._where
        if cause == "connect":
            return ModelTimeout(f"{where} could not be connected to within {limit:g} s (Timeouts.connect)")
        if cause == "first_token":
            return ModelTimeout(
                f"{where} said nothing for {limit:g} s (Timeouts.first_token): is it overloaded, or does it think for long?"
            )
        if cause == "between_tokens":
            return ModelTimeout(f"{where} fell silent for {limit:g} s in the middle of its answer (Timeouts.between_tokens)")
        self.hopeless = True  # no time is left for another attempt
        return ModelTimeout(f"{where} did not finish within {limit:g} s (Timeouts.total): ask for fewer tokens or allow more time")


async def _leave(answer: httpx.Response, chunks: AsyncIterator[bytes]) -> None:
    """Let go of an answer, whether or not it was read to its end; what was not closes its connection."""
    with trio.move_on_after(_LEAVING, shield=True):
        await answer.aclose()
        # The layers below are generators around generators, none of which closes the next one: reading on after the close ends them all.
        with contextlib.suppress(*_BROKEN):
            while await anext(chunks, None) is not None:
                pass


def _has_surplus(answer: httpx.Response) -> bool:
    """Whether bytes came after the end of an answer. They are in h11's hands, which the layers above do not show; what still is in the socket they see themselves."""
    stream: Any = answer.stream
    for name in ("_stream", "_httpcore_stream", "_stream", "_connection", "_h11_state"):
        stream = getattr(stream, name, None)
    return stream is not None and bool(stream.trailing_data[0])
