"""A latch that a handler waits at, in the loop or in a thread: what makes an actor busy for exactly as long as a test wants."""

from __future__ import annotations

import threading

import trio


class Latch:
    """Handlers pass it once it is open. Make it inside a trio test.

    Attributes:
        entered: How many handlers have come to it.
        passed: How many have gone through.
        cancelled: How many were cancelled while they waited.
    """

    def __init__(self) -> None:
        self.entered = 0
        self.passed = 0
        self.cancelled = 0
        self._token = trio.lowlevel.current_trio_token()
        self._open = trio.Event()
        self._open_in_threads = threading.Event()
        self._changed = trio.Event()

    def open(self) -> None:
        """Lets everybody through, from now on."""
        self._open.set()
        self._open_in_threads.set()

    async def wait(self) -> None:
        """For `async def` handlers."""
        self._count("entered")
        try:
            await self._open.wait()
        except trio.Cancelled:
            self._count("cancelled")
            raise
        self._count("passed")

    def wait_in_thread(self) -> None:
        """For the handlers of blocking actors."""
        self._token.run_sync_soon(self._count, "entered")
        assert self._open_in_threads.wait(30), "the test never opened the latch"
        try:
            self._token.run_sync_soon(self._count, "passed")
        except trio.RunFinishedError:
            pass  # a handler that outlived its test

    async def until(self, *, entered: int = 0, passed: int = 0, cancelled: int = 0) -> None:
        """Waits until so many have entered, passed or been cancelled."""
        while self.entered < entered or self.passed < passed or self.cancelled < cancelled:
            await self._changed.wait()

    def _count(self, what: str) -> None:
        setattr(self, what, getattr(self, what) + 1)
        self._changed.set()
        self._changed = trio.Event()
