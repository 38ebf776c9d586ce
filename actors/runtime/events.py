"""The event ring: the last N things that happened in a system. Off by default, and free then."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import attrs
import trio

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell

__all__ = ["Event", "EventRing"]


@attrs.frozen
class Event:
    """One thing that happened. Names types, never payloads.

    Attributes:
        at: Seconds of trio's clock.
        path: The actor; of a message, its receiver.
        what: "sent" (a message came for it), "handled", "dead_letter", "failed", "gave up", "restarted", "stopped".
        detail: The message's type (of one that was answered with an error, its type too; of a dead letter, the reason too), the failure's type and directive,
            or the reason of the end.
    """

    at: float
    path: str
    what: str
    detail: str


class EventRing:
    """Keeps the last `size` events."""

    def __init__(self, size: int) -> None:
        self._events: deque[Event] = deque(maxlen=size)

    def add(self, cell: Cell, what: str, detail: str) -> None:
        """Notes an event of an actor."""
        self._events.append(Event(trio.current_time(), cell.path, what, detail))

    def events(self, path: str | None = None) -> list[Event]:
        """The events, oldest first; with `path`, of that actor only."""
        return [event for event in self._events if path is None or event.path == path]
