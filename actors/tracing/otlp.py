"""The exporter to an OTLP endpoint over HTTP: what OpenTelemetry's collector, Langfuse, Jaeger and others take.

It sends with httpx what OpenTelemetry's encoder makes. OpenTelemetry's own exporter would look into the environment, and logs each failure.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import httpx

from retinue.actors.tracing.attempt import Attempt, Overdue

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

__all__ = ["TIMEOUT", "OtlpEndpoint"]

TIMEOUT: Final = 10.0
"""Seconds that one attempt to send may take."""

ATTEMPTS: Final = 4
"""How often a batch is sent, where the endpoint says that it may be sent again."""

FIRST_PAUSE: Final = 1.0
"""Seconds before the second attempt, about; twice as many before each one more."""

_AGAIN: Final = frozenset({429, 502, 503, 504})


class OtlpEndpoint:
    """An endpoint.

    Args:
        url: The address for traces, with its path: `http://localhost:4318/v1/traces`.
        headers: What goes with each request, such as a key; they are in no text.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

        self._encode = encode_spans
        parts = httpx.URL(url)
        self.name = f"{parts.scheme}://{parts.netloc.decode()}{parts.path}"
        self._url = url
        self._client = httpx.Client(
            headers={**headers, "content-type": "application/x-protobuf"}, timeout=TIMEOUT, trust_env=False, follow_redirects=False
        )
        self._until: float | None = None
        self._hurried = threading.Event()
        self._attempt = Attempt()

    def write(self, spans: Sequence[ReadableSpan]) -> int:
        """Sends them, and returns how many cannot be. Raises what the last attempt came to."""
        try:
            content = self._encoded(spans)
        except Exception:  # OpenTelemetry lets anything into a span, and the others are other people's
            fit = [span for span in spans if self._fits(span)]
            content = self._encoded(fit)
        else:
            fit = list(spans)
        if fit:
            self._deliver(content)
        return len(spans) - len(fit)

    def _encoded(self, spans: Sequence[ReadableSpan]) -> bytes:
        content: bytes = self._encode(spans).SerializePartialToString()
        return content

    def _fits(self, span: ReadableSpan) -> bool:
        try:
            self._encoded([span])
        except Exception:
            return False
        return True

    def _deliver(self, content: bytes) -> None:
        pause = FIRST_PAUSE
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._send(content)
            except _RefusedForNow as refused:
                last: Exception = refused
                wait = refused.after
            except (httpx.TransportError, Overdue) as error:
                last, wait = error, None
            wait = pause * random.uniform(0.8, 1.2) if wait is None else min(wait, 30.0)  # noqa: S311 - spread, no secret
            pause *= 2
            if attempt == ATTEMPTS or wait > self._left():
                raise last
            self._hurried.wait(wait)  # at the end of the system it is tried at once, and once more
        raise AssertionError

    def _send(self, content: bytes) -> None:
        timeout = min(TIMEOUT, self._left())
        if timeout <= 0:
            raise TimeoutError("the system has ended, and there was no time left to send them")
        with self._attempt.within(timeout):
            status, retry_after = self._exchanged(content, timeout)
        if status in _AGAIN:
            raise _RefusedForNow(status, retry_after)
        if not 200 <= status < 300:
            raise ConnectionRefusedError(f"the endpoint answered {status}")

    def _exchanged(self, content: bytes, timeout: float) -> tuple[int, str | None]:
        with self._client.stream(
            "POST", self._url, content=content, timeout=timeout, extensions={"trace": self._attempt.watch}
        ) as response:
            return response.status_code, response.headers.get("retry-after")

    def _left(self) -> float:
        return float("inf") if self._until is None else self._until - time.monotonic()

    def hurry(self, seconds: float) -> None:
        """Cuts what is waited for short, an attempt in progress too."""
        seconds *= 0.9  # what is ended then has to come back
        self._until = time.monotonic() + seconds
        self._hurried.set()
        self._attempt.hurry(seconds)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()
        self._attempt.close()


class _RefusedForNow(Exception):
    """The endpoint takes nothing at the moment.

    Attributes:
        after: Seconds after which it wants to be asked again, where it says so.
    """

    def __init__(self, status: int, after: str | None) -> None:
        super().__init__(f"the endpoint answered {status}")
        self.after = float(after) if after is not None and after.isascii() and after.isdigit() and len(after) < 6 else None
