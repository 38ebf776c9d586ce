"""Real servers on loopback addresses, in the test's own trio run, that answer byte by byte what a test says."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial

import trio


class Asked:
    """One request as a server saw it."""

    def __init__(self, head: bytes, body: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = first.split(" ", 2)
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        self.body = body


Answer = bytes | Callable[[Asked, trio.abc.Stream], Awaitable[None]]


def answer(body: bytes = b"ok", *, status: str = "200 OK", **headers: str) -> bytes:
    """Make a whole answer; underscores in the headers' names stand for hyphens."""
    lines = [
        f"HTTP/1.1 {status}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in {"content_length": str(len(body)), **headers}.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def redirect(location: str, *, status: str = "302 Found") -> bytes:
    return answer(b"elsewhere", status=status, location=location)


class Server:
    """A server at one address and port.

    Args:
        answers: What is answered to each path, or one answer to all.
        tls: Its TLS context; None for plain text.
    """

    def __init__(self, answers: Answer | dict[str, Answer], tls: ssl.SSLContext | None = None) -> None:
        self.answers = answers
        self.tls = tls
        self.asked: list[Asked] = []
        self.connections = 0
        self.names: list[str | None] = []
        """The names that clients gave at the start of TLS (SNI)."""
        self.address = ""
        self.port = 0
        if tls is not None:
            tls.sni_callback = lambda _socket, name, _context: self.names.append(name)

    async def __call__(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        inner: trio.abc.Stream = stream if self.tls is None else trio.SSLStream(stream, self.tls, server_side=True)
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with inner:
                while (asked := await self._read(inner)) is not None:
                    self.asked.append(asked)
                    made = (
                        self.answers.get(asked.target, answer(b"", status="404 Not Found"))
                        if isinstance(self.answers, dict)
                        else self.answers
                    )
                    if isinstance(made, bytes):
                        await inner.send_all(made)
                    else:
                        await made(asked, inner)
                        return

    @staticmethod
    async def _read(stream: trio.abc.Stream) -> Asked | None:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = await stream.receive_some()
            if not piece:
                return None
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        asked = Asked(head, b"")
        while len(body) < int(asked.headers.get("content-length", 0)):
            body += await stream.receive_some()
        asked.body = bytes(body)
        return asked


@contextlib.asynccontextmanager
async def serving(server: Server, address: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Server]:
    """Run a server for the length of the block."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, server, port, host=address))
        server.address, server.port = listeners[0].socket.getsockname()[:2]
        try:
            yield server
        finally:
            nursery.cancel_scope.cancel()


class Names:
    """A resolver that says what a test says, and counts.

    Args:
        answers: Each name's answers: addresses for all times, or a list of such lists, one a question, the last one for ever.
    """

    def __init__(self, answers: dict[str, Sequence[object]]) -> None:
        self.answers = answers
        self.questions: list[tuple[str, int]] = []

    async def __call__(self, name: str, port: int) -> Sequence[object]:
        await trio.lowlevel.checkpoint()
        self.questions.append((name, port))
        if name not in self.answers:
            raise OSError(-2, "Name or service not known")
        found = self.answers[name]
        if found and isinstance(found[0], list):
            turn = sum(1 for asked, _ in self.questions if asked == name) - 1
            found = found[min(turn, len(found) - 1)]
        return found
