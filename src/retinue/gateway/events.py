"""Server-sent events: many answers in one HTTP response, with a comment now and then so that silence means something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

    from retinue.gateway.bounds import Bounds
    from retinue.gateway.visit import Visit

__all__ = ["Events"]

PATIENCE: Final = 1.0
"""Seconds that a stream's first event is waited for. A refusal that comes by then is an answer with its own HTTP status, and no event."""

RECHECK: Final = 5.0
"""Seconds from one look at the token of an open stream to the next."""

_TYPE: Final = b"text/event-stream; charset=utf-8"


class Events:
    """Writes the events of one response. What is being sent is sent to its end, whatever is cancelled meanwhile: else the next event would begin inside it.

    Args:
        visit: The request.
        bounds: How long silence may last.
        recheck: Called every 5 s: whether the stream may go on is its business.
    """

    __slots__ = ("_ended", "_heartbeat", "_lock", "_recheck", "_sent_at", "_visit")

    def __init__(self, visit: Visit, bounds: Bounds, recheck: Callable[[], None]) -> None:
        self._visit = visit
        self._heartbeat = bounds.heartbeat
        self._recheck = recheck
        self._lock = trio.Lock()
        self._sent_at = trio.current_time()
        self._ended = False

    async def event(self, kind: str, data: bytes) -> None:
        """Sends an event. `data` is JSON, which has no line breaks outside its strings, and escapes those inside."""
        await self._send(b"event: " + kind.encode("ascii") + b"\ndata: " + data + b"\n\n")

    async def begin(self) -> None:
        """Sends the headers, where they are not sent yet."""
        await self._send(b"")

    async def end(self) -> None:
        """Ends the response."""
        await self._send(b"", last=True)

    async def beat(self) -> None:
        """Sends the headers when the first event takes its time, and a comment after each silence; until it is cancelled."""
        checked = trio.current_time()
        await trio.sleep(PATIENCE)
        await self.begin()
        while not self._ended:
            await trio.sleep_until(min(self._sent_at + self._heartbeat, checked + RECHECK))
            now = trio.current_time()
            if now >= checked + RECHECK:
                checked = now
                self._recheck()
            if now >= self._sent_at + self._heartbeat:
                await self._send(b": still here\n\n")

    async def _send(self, data: bytes, *, last: bool = False) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            self._lock.acquire_nowait()  # acquire() would go through the scheduler even where it is free, and sending does that already
        except trio.WouldBlock:
            await self._lock.acquire()
        try:
            if self._ended:
                return
            with trio.CancelScope(shield=True):
                if not self._visit.started:
                    await self._visit.begin(_TYPE)
                    if not data and not last:
                        await self._visit.part(b": here\n\n")
                if data or last:
                    await self._visit.part(data, last=last)
            self._sent_at = trio.current_time()
            self._ended = last
        finally:
            self._lock.release()
