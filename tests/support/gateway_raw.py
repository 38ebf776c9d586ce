"""A gateway in the test's own trio run, with an actor that counts what reaches it, and clients that send it bytes as they are."""

from __future__ import annotations

import contextlib
import json
import logging
import math
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

import retinue as rt
from retinue.gateway import Gateway

PATIENCE = 30.0
"""Seconds that a client of a test waits for the server, at most."""

SECRET = "sesame-7319"
"""Known to the actor and the messages alone: it may be in no refusal."""


@rt.message(name="probe/Look@1")
class Look(rt.Request[int]):
    what: str
    amount: int = 0


@rt.message(name="probe/Poke@1")
class Poke(rt.Message):
    what: str = ""


@rt.message(name="probe/Count@1")
class Count(rt.Stream[int]):
    to: int


class Probe(rt.Actor):
    """Counts the messages that reached a handler."""

    def __init__(self, seen: list[object]) -> None:
        self.seen = seen
        self.secret = SECRET

    @rt.handler(requires="probe.look")
    def look(self, message: Look) -> int:
        self.seen.append(message)
        return len(self.seen)

    @rt.handler(requires="probe.poke")
    def poke(self, message: Poke) -> None:
        self.seen.append(message)

    @rt.handler(requires="probe.count")
    async def count(self, message: Count) -> AsyncIterator[int]:
        self.seen.append(message)
        for number in range(message.to):
            yield number


@attrs.frozen
class Reply:
    """One answer of the server: status, headers with lower-case names, body (chunks put together)."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The typed error that the body is. Fails where it is none."""
        assert self.headers["content-type"] == "application/json", self
        [(key, error)] = self.json().items()
        assert key == "error" and type(error["type"]) is str and type(error["message"]) is str, self
        assert error["status"] == self.status, self
        return error


class Raw:
    """A client with one connection, which sends what it is told and reads answers with care: what is no HTTP/1.1 fails the test."""

    def __init__(self, stream: trio.SocketStream, target: Target) -> None:
        self.stream = stream
        self._target = target
        self._data = b""

    async def send(self, *parts: bytes) -> bool:
        """Returns False where the server has closed, so that it cannot be sent."""
        try:
            for part in parts:
                await self.stream.send_all(part)
        except trio.BrokenResourceError:
            return False
        return True

    async def half_close(self) -> None:
        """Says that nothing more comes, and goes on reading."""
        with contextlib.suppress(trio.BrokenResourceError):
            await self.stream.send_eof()

    async def _more(self) -> bool:
        try:
            data = await self.stream.receive_some(65536)
        except trio.BrokenResourceError:  # a reset: it is cut, if not gently
            return False
        self._data += data
        self._target.heard += data
        return bool(data)

    async def reply(self, *, patience: float = PATIENCE, to: str = "POST") -> Reply | None:
        """The next answer, or None where the connection is closed before one begins; an answer that is cut off fails the test.

        Args:
            patience: Seconds until the test fails.
            to: The method of the request: an answer to HEAD has no body.
        """
        with trio.fail_after(patience):
            while b"\r\n\r\n" not in self._data:
                if not await self._more():
                    assert not self._data, f"cut off in an answer's head: {self._data!r}"
                    return None
            head, _, self._data = self._data.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            version, status, _ = first.split(" ", 2)
            assert version == "HTTP/1.1", first
            headers = {}
            for line in lines:
                name, colon, value = line.partition(":")
                assert colon and name.lower() not in headers, line
                headers[name.lower()] = value.strip()
            code = int(status)
            if code == 100:
                return await self.reply(patience=patience, to=to)
            return Reply(code, headers, b"" if to == "HEAD" or code in (101, 204, 304) else await self._body(headers))

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if "content-length" in headers:
            assert "transfer-encoding" not in headers, headers
            return await self._exactly(int(headers["content-length"]))
        assert headers.get("transfer-encoding") == "chunked", headers
        body = b""
        while True:
            while b"\r\n" not in self._data:
                assert await self._more(), "cut off between chunks"
            size, _, self._data = self._data.partition(b"\r\n")
            part = await self._exactly(int(size, 16) + 2)
            assert part.endswith(b"\r\n")
            if len(part) == 2:
                return body
            body += part[:-2]

    async def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            assert await self._more(), f"cut off in an answer's body: {self._data!r}"
        part, self._data = self._data[:size], self._data[size:]
        return part

    async def closed(self, *, patience: float = PATIENCE) -> bytes:
        """Waits until the server has closed, and returns what came before."""
        with trio.fail_after(patience):
            while await self._more():
                pass
        data, self._data = self._data, b""
        return data


@attrs.define(eq=False)
class Target:
    """What is attacked.

    Attributes:
        system: The system; its audit is in memory unless it has a data folder.
        gateway: The gateway.
        port: Where it listens on 127.0.0.1.
        token: Permits all that the probe asks for, and the gateway's own operations.
        seen: The messages that reached the probe's handlers.
        heard: Every byte that any client was sent.
    """

    system: rt.ActorSystem
    gateway: Gateway
    port: int
    sealer: rt.Sealer
    token: str
    seen: list[object]
    heard: bytearray = attrs.field(factory=bytearray)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Raw]:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        async with stream:
            yield Raw(stream, self)

    def head(self, line: str, *headers: str, token: str | None = "") -> bytes:
        """A request's line and headers with Host and Authorization ("": the good token, None: no header), without the empty line at the end."""
        lines = [line, f"Host: 127.0.0.1:{self.port}"]
        if token is not None:
            lines.append(f"Authorization: Bearer {token or self.token}")
        return "".join(f"{line}\r\n" for line in [*lines, *headers]).encode("latin-1")

    def post(self, path: str, body: bytes, *headers: str, token: str | None = "") -> bytes:
        """A whole request with a JSON body."""
        return (
            self.head(f"POST {path} HTTP/1.1", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers, token=token)
            + b"\r\n"
            + body
        )

    def get(self, path: str, *headers: str, token: str | None = "") -> bytes:
        return self.head(f"GET {path} HTTP/1.1", *headers, token=token) + b"\r\n"

    async def once(self, request: bytes, *, to: str = "POST", patience: float = PATIENCE) -> Reply | None:
        """Sends it over a connection of its own."""
        async with self.client() as client:
            await client.send(request)
            return await client.reply(to=to, patience=patience)

    async def still_serves(self, *, patience: float = PATIENCE) -> None:
        """A well-formed ask over a new connection is answered, and reaches the probe."""
        before = len(self.seen)
        reply = await self.once(self.post("/v1/ask", ask_body()), patience=patience)
        assert reply is not None and reply.status == 200 and reply.json() == {"reply": before + 1}, reply


def ask_body(what: str = SECRET, **more: object) -> bytes:
    return json.dumps({"to": "/user/probe", "message": {"type": "probe/Look@1", "body": {"what": what}}, **more}).encode("utf-8")


@contextmanager
def case(name: object, target: Target) -> Iterator[None]:
    """One case of a table: a failure says which, and no actor was touched by it."""
    before = len(target.seen)
    try:
        yield
        assert len(target.seen) == before, "a message has reached the actor"
    except BaseException as error:
        error.add_note(f"in the case {name!r}")
        raise


@contextmanager
def no_complaints() -> Iterator[list[logging.LogRecord]]:
    """Fails where anything is logged as an error by us or by the server, or with an exception; gives what was logged from warnings up."""
    records: list[logging.LogRecord] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    keeper = Keeper(logging.WARNING)
    loggers = [logging.getLogger(name) for name in ("", "retinue", "hypercorn", "hypercorn.error", "hypercorn.access")]
    for logger in loggers:
        logger.addHandler(keeper)
    try:
        yield records
    finally:
        for logger in loggers:
            logger.removeHandler(keeper)
    bad = [
        record.getMessage() + (f" {record.exc_info[1]!r}" if record.exc_info else "")
        for record in records
        if record.levelno >= logging.ERROR or record.exc_info
    ]
    assert not bad, bad


@asynccontextmanager
async def attacked(data_dir: Path, **options: Any) -> AsyncIterator[Target]:
    """A gateway that is attacked within the block; after it nothing may have been logged as an error, no secret told, and the books must add up."""
    with no_complaints():
        async with rt.ActorSystem("attacked", data_dir=data_dir) as system, trio.open_nursery() as nursery:
            seen: list[object] = []
            await system.spawn(Probe, seen, name="probe")
            sealer = system.sealer()
            token = sealer.seal(system.authority.mint("ada", ["probe.*", "system.*", "approvals.*"]))
            gateway = Gateway(system, sealer, **{"rate": math.inf, **options})
            url = await nursery.start(gateway.serve)
            target = Target(system, gateway, int(url.rpartition(":")[2]), sealer, token, seen)
            yield target
            await target.still_serves()
            figures = system.statistics()
            assert figures.sent == figures.handled + figures.dead_letters, figures
            await gateway.stop(grace=1.0)
            check_told(target, data_dir)


def check_told(target: Target, data_dir: Path) -> None:
    """Nothing that is secret, or of the insides, was in any byte that the server sent."""
    heard = bytes(target.heard)
    keys = json.loads((data_dir / "tokens.key").read_text(encoding="utf-8"))["keys"]
    texts = [SECRET, str(data_dir), "Traceback", 'File "', "site-packages", *target.token.split(".")[2:], *(key["secret"] for key in keys)]
    assert len(texts) == 8
    for text in texts:
        assert text.encode("ascii") not in heard, text
