"""A raw socket server on the loopback address that sends bytes exactly as a test tells it: split characters, stalls, resets, halves.

    async with told([HEAD, sse("Hel"), 0.05, sse("lo"), END]) as server: …

Each request gets the next script, the last one again and again. A script is a list of steps, or a function from the request to one.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import trio


@attrs.frozen
class Asked:
    """One request as the server saw it."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@attrs.frozen
class Act:
    """Something other than bytes that a server does to a connection."""

    name: str


RESET: Final = Act("reset")  # the client reads ECONNRESET
HALF_CLOSE: Final = Act("half-close")  # nothing more comes, but the client could go on sending
STALL: Final = Act("stall")  # until the client goes away
KEEP: Final = Act("keep")  # the answer is over, and the connection takes another request

Step = bytes | float | Act
Script = list[Step] | Callable[[Asked], list[Step]]


def head(status: int = 200, kind: str = "text/event-stream", **headers: str) -> bytes:
    """The head of an answer that ends with its connection."""
    lines = [f"HTTP/1.1 {status} Told", f"content-type: {kind}", "connection: close"]
    return "\r\n".join([*lines, *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()), "", ""]).encode()


def chunked_head() -> bytes:
    """The head of an answer in HTTP chunks, on a connection that stays."""
    return b"HTTP/1.1 200 Told\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(data: Any) -> bytes:
    """One event, as text or as an object."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"data: {text}\n\n".encode()


def sse(content: str | None = None, *, finish: str | None = None, **delta: Any) -> bytes:
    """One chunk of a completion's stream."""
    if content is not None:
        delta["content"] = content
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "model": "told"})


def whole(content: str = "hi", **more: Any) -> bytes:
    """All of a plain answer, head included."""
    body = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        "model": "told",
    } | more
    return head(kind="application/json") + json.dumps(body).encode()


def refusal(
    status: int, message: str = "no", *, code: str | None = None, kind: str | None = None, param: str | None = None, **headers: str
) -> bytes:
    """All of an answer that is an error."""
    error = {"message": message, "code": code, "type": kind, "param": param}
    return head(status, "application/json", **headers) + json.dumps({"error": error}).encode()


HEAD: Final = head()
DONE: Final = b"data: [DONE]\n\n"
STOP: Final = sse(finish="stop")
USAGE: Final = event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}})
GOOD: Final[list[Step]] = [HEAD + sse("Hel") + sse("lo") + STOP + USAGE + DONE]


@attrs.define
class Told:
    """The running server.

    Attributes:
        url: Its base URL.
        asked: The requests, in order.
        left: How many clients went away during a STALL.
        connections: How many connections were made.
    """

    url: str
    asked: list[Asked] = attrs.field(factory=list)
    arrived: trio.Semaphore = attrs.field(factory=lambda: trio.Semaphore(0))
    left: int = 0
    connections: int = 0


@asynccontextmanager
async def told(*scripts: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[Told]:
    """Run the server for the length of a block; with `tls`, as an https server that is named "localhost"."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    server = Told(f"http://127.0.0.1:{port}/v1" if tls is None else f"https://localhost:{port}/v1")

    async def serve(stream: Any) -> None:
        server.connections += 1
        if tls is not None:
            stream = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        try:
            async with stream:
                while (asked := await _request(stream)) is not None:
                    number = len(server.asked)
                    server.asked.append(asked)
                    server.arrived.release()
                    script = scripts[min(number, len(scripts) - 1)]
                    if not await _play(stream, script(asked) if callable(script) else script, server):
                        return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            server.left += 1

    async with trio.open_nursery() as nursery:
        for listener in listeners:
            nursery.start_soon(trio.serve_listeners, serve, [listener])
        try:
            yield server
        finally:
            nursery.cancel_scope.cancel()


async def _play(stream: Any, steps: Iterable[Step], server: Told) -> bool:
    """Whether the connection takes another request."""
    for step in steps:
        if isinstance(step, bytes):
            await stream.send_all(step)
        elif not isinstance(step, Act):
            await trio.sleep(step)
        elif step is RESET:
            stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            stream.socket.close()
            return False
        elif step is HALF_CLOSE:
            await stream.send_eof()
        elif step is STALL:
            if await stream.receive_some() == b"":
                server.left += 1
            return False
        else:
            return True
    return False


async def _request(stream: Any) -> Asked | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = await stream.receive_some()
        if not more:
            return None
        data += more
    start, _, body = data.partition(b"\r\n\r\n")
    first, *lines = start.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += await stream.receive_some()
    return Asked(first.split(" ")[1], headers, body)
