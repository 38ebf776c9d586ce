"""HTTP for the blocking client, with one end for a whole request: httpx by itself counts from one read to the next, and a server that drips is waited for.

Whoever sends sets the end for its thread (`Deadline.until`); each step on a connection that the thread waits for takes what is left of it, and no longer.
"""

from __future__ import annotations

import math
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, final

import httpcore
import httpx

from retinue.client.failures import LIMITS

__all__ = ["Deadline", "TimedTransport"]

_ERRORS: Final = (
    "ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout", "ConnectError", "ReadError", "WriteError",
    "LocalProtocolError", "RemoteProtocolError", "UnsupportedProtocol", "ProtocolError", "NetworkError", "TimeoutException",
)  # fmt: skip
"""Errors that httpcore and httpx have under one name, what is special first."""


@final
class Deadline(threading.local):
    """When what this thread waits for must be there, on the monotonic clock; `math.inf` where it need not."""

    end: float = math.inf

    @contextmanager
    def until(self, end: float) -> Iterator[None]:
        """Within the block, nothing is waited for beyond that."""
        before, self.end = self.end, min(self.end, end)
        try:
            yield
        finally:
            self.end = before

    def left(self, seconds: float | None) -> float | None:
        """What is left of a time-out; None is no limit. Not below 0."""
        left = min(math.inf if seconds is None else seconds, self.end - time.monotonic())
        return None if left == math.inf else max(left, 0.0)


class _Backend(httpcore.NetworkBackend):
    """Connects, and gives streams that know the deadline."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._backend: httpcore.NetworkBackend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(timeout)
        if left == 0:
            raise httpcore.ConnectTimeout("no time is left")
        return _Stream(self._backend.connect_tcp(host, port, left, local_address, socket_options), self._deadline)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class _Stream(httpcore.NetworkStream):
    """A connection."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        left = self._deadline.left(timeout)
        if left == 0:  # a socket takes that for "do not block"
            raise httpcore.ReadTimeout("no time is left")
        return self._stream.read(max_bytes, left)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        left = self._deadline.left(timeout)
        if left == 0:
            raise httpcore.WriteTimeout("no time is left")
        self._stream.write(buffer, left)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(timeout)
        if left == 0:
            raise httpcore.ConnectTimeout("no time is left")
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class TimedTransport(httpx.BaseTransport):
    """Sends requests within the deadline of the thread that does. No proxies, no HTTP/2.

    Args:
        tls: The context of TLS connections.
        deadline: The deadline.
    """

    def __init__(self, tls: ssl.SSLContext, deadline: Deadline) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            max_connections=LIMITS.max_connections,
            max_keepalive_connections=LIMITS.max_keepalive_connections,
            keepalive_expiry=LIMITS.keepalive_expiry,
            network_backend=_Backend(deadline),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One request; its answer is read by whoever gets it. Raises httpx.TransportError."""
        url = request.url
        core = httpcore.Request(
            method=request.method,
            url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _translated():
            answer = self._pool.handle_request(core)
        return httpx.Response(answer.status, headers=answer.headers, stream=_Answer(answer), extensions=answer.extensions)

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


class _Answer(httpx.SyncByteStream):
    """The body of an answer as it comes."""

    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        with _translated():
            yield from self._answer.iter_stream()

    def close(self) -> None:
        with _translated():
            self._answer.close()


@contextmanager
def _translated() -> Iterator[None]:
    """Raise httpx's errors in place of httpcore's, as its own transport does."""
    try:
        yield
    except Exception as error:
        for name in _ERRORS:
            if isinstance(error, getattr(httpcore, name)):
                raise getattr(httpx, name)(str(error)) from error
        raise
