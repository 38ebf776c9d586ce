"""One attempt to send, with a limit for the whole of it. The limits of httpx are for each read and each write: an endpoint that drips bytes never meets them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

__all__ = ["Attempt", "Overdue"]


class Overdue(Exception):
    """An attempt took longer than it may."""


@final
class Attempt:
    """What an exporting thread is doing at an endpoint, one thing at a time, and what ends it from another thread."""

    __slots__ = ("_lock", "_number", "_overdue", "_running", "_socket", "_timers")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._running = False
        self._overdue = False
        self._socket: socket.socket | None = None
        self._timers: list[threading.Timer] = []  # of what is going on

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Raises Overdue where the body takes longer, in the place of what it raises then."""
        with self._lock:
            self._number += 1
            self._running, self._overdue = True, False
            self._start_timer(seconds)
        try:
            yield
        except Exception as error:
            if self._overdue:
                raise Overdue(f"no whole answer within {seconds:.3g} s") from error
            raise
        finally:
            with self._lock:
                self._running = False
                timers, self._timers = self._timers, []
            for timer in timers:
                timer.cancel()

    def watch(self, event: str, about: Mapping[str, Any]) -> None:
        """What httpcore tells of an attempt: it has a connection."""
        if event != "connection.connect_tcp.complete":
            return
        # A second handle of the connection, for TLS takes the first one away. To shut it down by this one ends what waits for it.
        found = about["return_value"].get_extra_info("socket").dup()
        with self._lock:
            last, self._socket = self._socket, found
            if self._overdue:
                _shut(found)
        if last is not None:
            last.close()

    def hurry(self, seconds: float) -> None:
        """Ends what is going on now after so many seconds."""
        with self._lock:
            if self._running:
                self._start_timer(seconds)

    def close(self) -> None:
        """Lets go of the connection."""
        with self._lock:
            last, self._socket = self._socket, None
        if last is not None:
            last.close()

    def _start_timer(self, seconds: float) -> None:
        timer = threading.Timer(seconds, self._end, (self._number,))
        timer.name = "retinue traces"
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def _end(self, number: int) -> None:
        with self._lock:
            if self._running and self._number == number:
                self._overdue = True
                if self._socket is not None:
                    _shut(self._socket)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is closed already
        connection.shutdown(socket.SHUT_RDWR)
