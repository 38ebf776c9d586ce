"""Streams of server-sent events, read from the bytes as they come."""

from __future__ import annotations

from typing import Final, final

import attrs

from retinue.mailbox.errors import GatewayError

__all__ = ["Event", "EventParser"]

_LONGEST_NAME: Final = 100


@attrs.frozen
class Event:
    """One event.

    Attributes:
        name: What follows `event:`, "message" where there is none.
        data: What follows `data:`, the lines of several joined by line feeds.
    """

    name: str
    data: bytes


@final
class EventParser:
    """Takes bytes, gives events. Comments (the gateway's heartbeats) and fields other than `event` and `data` are nothing.

    Args:
        largest: The most bytes that the lines of one event may have.
    """

    __slots__ = ("_buffer", "_data", "_largest", "_name", "_searched", "_size")

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._buffer = bytearray()
        self._searched = 0  # how much of the buffer is known to hold no line feed
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0

    @property
    def torn(self) -> bool:
        """Whether the bytes that came so far end in the middle of an event."""
        return bool(self._buffer or self._data or self._name)

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete. Raises GatewayError ("too_large", "malformed")."""
        events: list[Event] = []
        buffer = self._buffer
        buffer += data
        begin = 0
        while (end := buffer.find(b"\n", max(begin, self._searched))) >= 0:
            line = bytes(buffer[begin:end])
            begin = end + 1
            event = self._line(line.removesuffix(b"\r"))
            if event is not None:
                events.append(event)
        del buffer[:begin]
        self._searched = len(buffer)
        if self._size + len(buffer) > self._largest:
            raise self._too_large()
        return events

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._complete()
        if line.startswith(b":"):
            return None
        self._size += len(line)
        if self._size > self._largest:
            raise self._too_large()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        return None

    def _complete(self) -> Event | None:
        name, data = self._name, self._data
        self._name, self._data, self._size = b"", [], 0
        if not name and not data:
            return None
        if len(name) > _LONGEST_NAME or not name.isascii():
            raise GatewayError("the stream has an event that no gateway of Retinue sends", reason="malformed")
        return Event(name.decode("ascii") or "message", b"\n".join(data))

    def _too_large(self) -> GatewayError:
        return GatewayError(
            f"an event of the stream is larger than {self._largest:,} bytes: send less at once, or by reference, "
            "or raise the limit (connect(max_answer=…))",
            reason="too_large",
        )
