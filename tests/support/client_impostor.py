"""A server that answers with whatever bytes a test gives it, and keeps what it was sent."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

__all__ = ["HANG", "Impostor", "answer", "events"]

HANG = object()
"""In a script: nothing more is sent, and the connection stays open."""


def answer(body: bytes, *, status: int = 200, kind: str = "application/json", length: int | None = None, more: str = "") -> bytes:
    """An HTTP answer."""
    head = f"HTTP/1.1 {status} Whatever\r\ncontent-type: {kind}\r\ncontent-length: {len(body) if length is None else length}\r\nconnection: close\r\n{more}\r\n"
    return head.encode("ascii") + body


def events(body: bytes, *, whole: bool = True) -> bytes:
    """The answer that a stream is, with these bytes in it; `whole`: it ends as HTTP says it must."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
    return head + chunk + (b"0\r\n\r\n" if whole else b"")


class Impostor:
    """Serves on a loopback port, each connection in a thread of its own, for the length of a `with`.

    Args:
        script: What each request is answered with: bytes, numbers (seconds to wait), `HANG`; then the connection is closed.
        tls: Its certificate; None: no encryption.
    """

    def __init__(self, *script: object, tls: ssl.SSLContext | None = None) -> None:
        self.script: Iterable[object] = script
        self._tls = tls
        self.requests: list[bytes] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _start(self, function: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=function, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(10)
            try:
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                self.requests.append(_read_request(connection))
                for step in self.script:
                    if step is HANG:
                        self._ended.wait(20)
                    elif isinstance(step, bytes):
                        connection.sendall(step)
                    else:
                        assert isinstance(step, float)
                        time.sleep(step)
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the client has left, which is its right
            finally:
                connection.close()


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65_536)
        if not part:
            return data
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        part = connection.recv(65_536)
        if not part:
            break
        body += part
    return head + b"\r\n\r\n" + body
