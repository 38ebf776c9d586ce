"""An asyncio loop in a thread of its own, for tools that work with nothing else: aiohttp, Playwright. Trio waits, cancels and bounds.

What can go wrong stays on the other side: a coroutine that ignores its cancellation is left to itself, a loop that somebody blocks is found out when it does
not react, and its thread (a daemon) is left behind.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

__all__ = ["CANCEL_GRACE", "AsyncioThread"]

_log = logging.getLogger("retinue.tools")

CANCEL_GRACE: Final = 0.05
"""Seconds that a cancelled coroutine has to end before trio goes on without it."""

END_TIMEOUT: Final = 1.0
"""Seconds that what still runs on the loop has to end once it is closed."""


class _Call:
    """One coroutine on the loop, and the trio task that waits for it.

    Attributes:
        seen: Whether the loop has taken notice of the last thing that was asked of it.
        outcome: (whether it went well, the value or the exception), once it is over.
    """

    __slots__ = ("_task", "_token", "done", "outcome", "seen")

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._task: asyncio.Task[Any] | None = None
        self.done = trio.Event()
        self.seen = False
        self.outcome: tuple[bool, Any] | None = None

    def begin(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Awaitable[Any]], context: contextvars.Context) -> None:
        """Runs on the loop."""
        self.seen = True
        self._task = loop.create_task(self._run(work), context=context)

    async def _run(self, work: Callable[[], Awaitable[Any]]) -> None:
        try:
            self.outcome = (True, await work())
        except asyncio.CancelledError as error:
            self.outcome = (False, error)
        except BaseException as error:  # a SystemExit would end the loop, and everybody's calls with it
            self.outcome = (False, error)
        finally:
            try:
                self._token.run_sync_soon(self.done.set)
            except trio.RunFinishedError:
                pass

    def cancel(self) -> None:
        """Runs on the loop."""
        self.seen = True
        if self._task is not None:
            self._task.cancel()


class AsyncioThread:
    """The thread and its loop. Made, used and closed from the system's thread."""

    __slots__ = ("_closing", "_hangs", "_loop", "_thread")

    def __init__(self, name: str) -> None:
        self._hangs = False
        self._closing = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop, self._closing), name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread is there."""
        return self._thread.is_alive()

    @property
    def hangs(self) -> bool:
        """Whether the loop did not react the last time that something was asked of it."""
        return self._hangs

    async def run(self, work: Callable[[], Awaitable[Any]], context: contextvars.Context) -> tuple[bool, Any]:
        """Awaits `work()` on the loop, in `context`; gives whether it went well, and the value or the exception. Cancellable."""
        call = _Call()
        if not self._tell(call.begin, self._loop, work, context):
            return False, RuntimeError("its asyncio loop was closed by a tool")
        try:
            await call.done.wait()
        except trio.Cancelled:
            call.seen = False
            self._tell(call.cancel)
            with trio.move_on_after(CANCEL_GRACE, shield=True):
                await call.done.wait()
            if not call.seen and call.outcome is None:
                self._hangs = True  # nobody else's call can go on there either; once it reacts again, it ends
                self._stop()
            raise
        assert call.outcome is not None
        return call.outcome

    def _tell(self, function: Callable[..., object], *arguments: Any) -> bool:
        """Have the loop call something; gives whether there is one."""
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # it is closed
            return False
        return True

    def _stop(self) -> bool:
        self._closing.set()
        return self._tell(self._loop.stop)

    async def close(self) -> None:
        """Ends the loop and waits a bounded time for its thread."""
        if not self._stop():
            return
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.join, END_TIMEOUT + 0.5)
        if self._thread.is_alive():
            _log.warning("the asyncio thread %r is blocked by a tool and is left behind", self._thread.name)


def _serve(loop: asyncio.AbstractEventLoop, closing: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    try:
        while not closing.is_set() and not loop.is_closed():  # a tool may stop it, and a task that one has left raise a SystemExit
            try:
                loop.run_forever()
            except BaseException:
                _log.exception("something that a tool has left on its asyncio loop would have ended it")
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=END_TIMEOUT))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
