"""The way from a system's thread back into asyncio's loops."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from retinue._twin import Twin
from retinue._twin_slots import TwinSlot
from retinue.actors.runtime.errors import WrongEventLoop
from retinue.actors.runtime.portal import PULSE
from retinue.capabilities.places import shorten

__all__ = ["Bridge", "Loops"]

_log = logging.getLogger("retinue.twin")


class Bridge:
    """The way back into one asyncio loop: one `call_soon_threadsafe` for all outcomes that are there together, since each call of it writes a socket."""

    def __init__(self, loop: asyncio.AbstractEventLoop, twin: Twin, gone: Callable[[], None]) -> None:
        self.loop = loop
        self._twin = twin
        self._gone = gone
        self._guarded: dict[asyncio.Future[Any], tuple[float, TwinSlot | None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._armed = self._closed = False

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Calls a function in the loop; in any thread. Where the loop is closed nobody waits any more, and nothing happens."""
        if self._closed:
            return
        self._calls.append((function, arguments))
        if self._armed:
            return
        self._armed = True
        try:
            self.loop.call_soon_threadsafe(self._drain)
        except RuntimeError:
            self._closed = True
            self._calls.clear()
            self._gone()

    def _drain(self) -> None:
        self._armed = False  # first: what is appended from now on arms again
        for _ in range(len(self._calls)):
            function, arguments = self._calls.popleft()
            try:
                function(*arguments)
            except Exception:
                _log.exception("an outcome could not be delivered: %s", getattr(function, "__qualname__", function))

    def future(self) -> tuple[asyncio.Future[Any], Callable[[Any, BaseException | None], None]]:
        """A future of the loop, and what settles it from another thread."""
        future = self.loop.create_future()
        return future, partial(self.post, self._settle, future)

    def _settle(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        self._guarded.pop(future, None)
        if future.done():
            return  # whoever waited was cancelled
        if error is None:
            future.set_result(value)
        elif isinstance(error, StopIteration):
            replacement = RuntimeError("a handler raised StopIteration, which cannot be awaited")
            replacement.__cause__ = error
            future.set_exception(replacement)
        else:
            shorten(error)
            future.set_exception(error)

    def guard(self, future: asyncio.Future[Any], slot: TwinSlot | None = None) -> None:
        """Makes sure that the future ends though the system's loop may be blocked or dead: the deadline that counts runs there."""
        limit = math.inf if slot is None else self._twin.limit(slot.delivery)
        self._guarded[future] = (time.monotonic() + limit, slot)
        if self._timer is None:
            self._timer = self.loop.call_later(PULSE, self._look)

    def _look(self) -> None:
        self._timer = None
        twin, now = self._twin, time.monotonic()
        over = twin.ended and not self._calls
        for future, (end, slot) in list(self._guarded.items()):
            if future.done():
                del self._guarded[future]
            elif over:
                self._settle(future, None, twin.closed_error())
            elif now >= end and slot is not None:
                twin.give_up(slot)
                self._settle(future, None, twin.overdue(slot.delivery))
        if self._guarded:
            self._timer = self.loop.call_later(PULSE, self._look)


class Loops:
    """The bridges of one system, one for each asyncio loop that it is used in."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin
        self._bridges: dict[asyncio.AbstractEventLoop, Bridge] = {}
        self.home: Bridge | None = None

    def here(self) -> Bridge:
        """The bridge into the running loop. Raises WrongEventLoop where none of asyncio runs."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise WrongEventLoop(
                "retinue.aio is awaited under asyncio, and no asyncio loop runs here. In a plain script use `from retinue.sync import ActorSystem`; "
                "on trio retinue.ActorSystem"
            ) from None
        bridge = self._bridges.get(loop)
        if bridge is None:
            for old in [old for old in self._bridges if old.is_closed()]:
                del self._bridges[old]
            bridge = self._bridges[loop] = Bridge(loop, self._twin, partial(self._gone, loop))
        return bridge

    def _gone(self, loop: asyncio.AbstractEventLoop) -> None:
        if self.home is not None and loop is self.home.loop and not self._twin.leaving:
            _log.warning("the asyncio loop that entered the system %r was closed without leaving it; the system stops", self._twin.name)
            self._twin.leave()
