"""Many streams at once (server-sent events): all open, then each gets its items."""

from __future__ import annotations

import selectors
import statistics
import time
from collections.abc import Callable
from typing import Final

import attrs

from benchmarks.border.fleet import PATIENCE, Connection, post
from benchmarks.border.serving import Serving
from benchmarks.harness import BrokenBlock, Progress

__all__ = ["ITEMS", "StreamsResult", "measure_streams"]

ITEMS: Final = 10


@attrs.frozen
class StreamsResult:
    """What so many streams took.

    Attributes:
        name: How the items came.
        streams: How many.
        open_ms: Milliseconds a stream, from the first request to the last handler that had begun.
        bytes_each: What the server's process grew by while they were opened, by their number.
        items: Items in all; each came once, in order.
        items_a_second: From the word to the last end.
        delays_ms: The median, and the 99th of 100, of the milliseconds from the handler's `yield` to the client's read.
        cpu_micros: Microseconds of the server's process for one item.
    """

    name: str
    streams: int
    open_ms: float
    bytes_each: float
    items: int
    items_a_second: float
    delays_ms: tuple[float, float]
    cpu_micros: float


class _Stream:
    """The client's end of one stream: what has come of it."""

    __slots__ = ("_data", "_events", "connection", "ended", "stamps", "standing")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.standing = False
        self.ended = False
        self.stamps: list[int] = []
        self._data = b""
        self._events = b""

    def read(self) -> list[int]:
        """The delays of the items that one look at the socket gives, in nanoseconds."""
        data = self.connection.socket.recv(65536)
        now = time.monotonic_ns()
        if not data:
            raise BrokenBlock(f"a stream was cut after {len(self.stamps)} items")
        self._data += data
        if not self.standing:
            head, found, rest = self._data.partition(b"\r\n\r\n")
            if not found:
                return []
            if not head.startswith(b"HTTP/1.1 200 ") or b"text/event-stream" not in head:
                raise BrokenBlock(f"no stream: {self._data[:400]!r}")
            self.standing = True
            self._data = rest
        self._unchunk()
        return [now - stamp for stamp in self._parse()]

    def _unchunk(self) -> None:
        while True:
            size, found, rest = self._data.partition(b"\r\n")
            length = int(size, 16) if found else 0
            if not found or len(rest) < length + 2:
                return
            self._events += rest[:length]
            self._data = rest[length + 2 :]

    def _parse(self) -> list[int]:
        stamps = []
        *events, self._events = self._events.split(b"\n\n")
        for event in events:
            fields = dict(line.split(b": ", 1) for line in event.split(b"\n") if not line.startswith(b":"))
            if not fields:  # a heartbeat
                continue
            if fields[b"event"] == b"item":
                stamps.append(int(fields[b"data"]))
            elif fields[b"event"] == b"end":
                self.ended = True
            else:
                raise BrokenBlock(f"a stream ended badly: {event!r}")
        self.stamps += stamps
        return stamps


def measure_streams(name: str, *, streams: int, every: float, progress: Progress) -> StreamsResult:
    """Opens them all, says the word, and reads until all have ended.

    Args:
        name: For the table.
        streams: How many.
        every: Seconds between two items of a stream; the streams begin one after the other within the first interval. 0: as fast as they come.
        progress: Told what is going on.
    """
    delays: list[int] = []
    with Serving("streams", str(streams)) as server, selectors.DefaultSelector() as selector:
        before = server.resident_bytes()
        progress(f"{name}: opening {streams:,} streams")
        began = time.perf_counter()
        open_streams = []
        for number in range(streams):
            body = {"items": ITEMS, "every": every, "after": every * number / streams}
            value = {"to": f"/user/feed-{number}", "message": {"type": "bench/Feed@1", "body": body}, "timeout": 60.0}
            stream = _Stream(Connection(server.port))
            stream.connection.send(post("/v1/stream", server.port, value, token=server.token))
            selector.register(stream.connection.socket, selectors.EVENT_READ, stream)
            open_streams.append(stream)
        while server.say("how many?")["open"] < streams:
            time.sleep(0.005)
        opened = time.perf_counter() - began
        _read(selector, delays, lambda stream: stream.standing, streams)
        grown = server.resident_bytes() - before
        progress(f"{name}: {streams * ITEMS:,} items")
        cpu = server.cpu_seconds()
        began = time.perf_counter()
        server.say("go")
        _read(selector, delays, lambda stream: stream.ended, streams)
        taken = time.perf_counter() - began
        cpu = server.cpu_seconds() - cpu
        for stream in open_streams:
            if len(stream.stamps) != ITEMS or stream.stamps != sorted(stream.stamps):
                raise BrokenBlock(f"a stream gave {len(stream.stamps)} items of {ITEMS}")
            stream.connection.close()
    items = streams * ITEMS
    if server.last != {"open": streams, "items": items, "ended": streams} or len(delays) != items:
        raise BrokenBlock(f"the server has counted {server.last}, the clients {len(delays)} of {items} items")
    return StreamsResult(
        name,
        streams,
        opened * 1e3 / streams,
        grown / streams,
        items,
        items / taken,
        (statistics.median(delays) / 1e6, statistics.quantiles(delays, n=100, method="inclusive")[98] / 1e6),
        cpu * 1e6 / items,
    )


def _read(selector: selectors.BaseSelector, delays: list[int], reached: Callable[[_Stream], bool], streams: int) -> None:
    """Reads until so many streams have reached something."""
    count = 0
    while count < streams:
        ready = selector.select(PATIENCE)
        if not ready:
            raise BrokenBlock(f"nothing came from any stream within {PATIENCE:g} s; {count:,} of {streams:,} are where they should be")
        for key, _ in ready:
            stream: _Stream = key.data
            before = reached(stream)
            delays += stream.read()
            if reached(stream) and not before:
                count += 1
            if stream.ended:
                selector.unregister(key.fileobj)
