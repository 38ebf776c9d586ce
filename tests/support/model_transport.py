"""An endpoint in memory, for tests in virtual time: an httpx transport that plays scripts of bytes and waits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import trio

Step = bytes | float


class Answer:
    """One answer: how long until its head, and then bytes and waits.

    Args:
        steps: Bytes, or seconds to wait; `math.inf` waits for ever.
        status: The HTTP status.
        before: Seconds until the head.
        connect: Seconds until the connection stands.
        kind: The content type.
        headers: Others.
    """

    def __init__(
        self,
        *steps: Step,
        status: int = 200,
        before: float = 0,
        connect: float = 0,
        kind: str = "text/event-stream",
        headers: dict[str, str] | None = None,
    ) -> None:
        self.steps = steps
        self.status = status
        self.before = before
        self.connect = connect
        self.headers = {"content-type": kind} | (headers or {})


class _Body(httpx.AsyncByteStream):
    def __init__(self, steps: Sequence[Step], transport: Memory) -> None:
        self._steps = iter(steps)
        self._transport = transport

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for step in self._steps:
            if isinstance(step, bytes):
                return step
            await trio.sleep(step)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._transport.closed += 1


class Memory(httpx.AsyncBaseTransport):
    """Plays one answer a request, the last one again and again.

    Attributes:
        times: When each request was sent, in trio's time.
        bodies: What was sent.
        closed: How many answers were closed.
    """

    def __init__(self, *answers: Answer) -> None:
        self._answers = answers
        self.times: list[float] = []
        self.bodies: list[bytes] = []
        self.closed = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._answers[min(len(self.times), len(self._answers) - 1)]
        self.times.append(trio.current_time())
        self.bodies.append(request.content)
        await trio.sleep(answer.connect)
        trace: Any = request.extensions["trace"]
        await trace("http11.send_request_headers.started", {"request": request})
        await trio.sleep(answer.before)
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer.steps, self))

    @property
    def gaps(self) -> list[float]:
        """The seconds between one request and the next."""
        return [later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False)]
