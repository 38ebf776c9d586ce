"""Clients over raw sockets, as cheap as they can be made: what is measured is the server, in its own process."""

from __future__ import annotations

import json
import re
import selectors
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from benchmarks.harness import BrokenBlock, Timer

__all__ = ["Answer", "Connection", "Fleet", "post"]

PATIENCE = 30.0
"""Seconds without a byte from any server after which a run fails."""

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close\r\n", re.IGNORECASE)


@attrs.frozen
class Answer:
    """One answer: its status, its body, and whether the server closes after it."""

    status: int
    body: bytes
    last: bool


def post(path: str, port: int, value: object, *, token: str | None = None) -> bytes:
    """A whole request with a JSON body."""
    body = json.dumps(value, separators=(",", ":")).encode("utf-8")
    lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


class Connection:
    """A keep-alive connection, one request at a time."""

    __slots__ = ("_data", "_port", "socket")

    def __init__(self, port: int) -> None:
        self._port = port
        self._data = b""
        self.socket = self._open()

    def _open(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def send(self, request: bytes) -> None:
        self.socket.sendall(request)

    def read(self) -> Answer | None:
        """What one look at the socket gives: the answer, or None as long as it is not whole."""
        data = self.socket.recv(65536)
        if not data:
            raise BrokenBlock(f"the server closed in the middle of an answer: {self._data[:200]!r}")
        self._data += data
        head, found, rest = self._data.partition(b"\r\n\r\n")
        if not found:
            return None
        length = _LENGTH.search(head + b"\r\n")
        if length is None:
            raise BrokenBlock(f"an answer without a length: {head[:200]!r}")
        size = int(length[1])
        if len(rest) < size:
            return None
        if len(rest) > size:
            raise BrokenBlock("more came than one answer")
        self._data = b""
        return Answer(int(head[9:12]), rest, _CLOSE.search(head + b"\r\n") is not None)

    def reopen(self) -> None:
        self.socket.close()
        self.socket = self._open()

    def close(self) -> None:
        self.socket.close()


class Fleet:
    """So many clients, each with one request on its way at any time.

    Args:
        port: Of the server.
        request: What all of them send; the answer is `{"reply": n}`, where n counts the requests that the server has had.
        clients: How many.
    """

    def __init__(self, port: int, request: bytes, clients: int) -> None:
        self._request = request
        self._connections = [Connection(port) for _ in range(clients)]
        self._seen = 0
        """The highest count that this fleet has been told."""

    def run(self, count: int) -> float:
        """Sends `count` requests; returns seconds. Each must be answered, once, and the answers' numbers have no gap."""
        clients = self._connections[:count]
        left = count - len(clients)
        numbers: list[int] = []
        with self._selecting(clients) as selector, Timer() as timer:
            for connection in clients:
                connection.send(self._request)
            while len(numbers) < count:
                ready = selector.select(PATIENCE)
                if not ready:
                    raise BrokenBlock(f"no answer within {PATIENCE:g} s; {len(numbers)} of {count} had come")
                for key, _ in ready:
                    connection = key.data
                    answer = connection.read()
                    if answer is None:
                        continue
                    if answer.status != 200:
                        raise BrokenBlock(f"status {answer.status}: {answer.body[:300]!r}")
                    numbers.append(json.loads(answer.body)["reply"])
                    if answer.last:
                        selector.unregister(connection.socket)
                        connection.reopen()
                        selector.register(connection.socket, selectors.EVENT_READ, connection)
                    if left:
                        left -= 1
                        connection.send(self._request)
        numbers.sort()
        if numbers != list(range(numbers[0], numbers[0] + count)) or numbers[0] <= self._seen:
            raise BrokenBlock(f"{count} requests were counted from {numbers[0]} to {numbers[-1]}, after {self._seen}")
        self._seen = numbers[-1]
        return timer.seconds

    @staticmethod
    @contextmanager
    def _selecting(connections: list[Connection]) -> Iterator[selectors.BaseSelector]:
        with selectors.DefaultSelector() as selector:
            for connection in connections:
                selector.register(connection.socket, selectors.EVENT_READ, connection)
            yield selector

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
