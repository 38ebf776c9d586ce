"""The pykka futures of the blocking twin."""

from __future__ import annotations

import math
import queue
import time
from threading import get_ident
from typing import Any, NoReturn, TypeVar

import pykka

from retinue._twin import Twin
from retinue._twin_slots import TwinSlot
from retinue.actors.runtime.errors import WrongThread
from retinue.actors.runtime.portal import PULSE

__all__ = ["Future"]

T = TypeVar("T")


class Future(pykka.ThreadingFuture[T]):
    """A pykka future of an answer: `get(timeout=)`, `map`, `filter`, `reduce`, `join` and `pykka.get_all` work. `get` may be called again and gives the same.

    A time-out of `get` raises `pykka.Timeout` and leaves the request alone; the request's own deadline is that of its `ask`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._twin: Twin | None = None
        self._slot: TwinSlot | None = None
        self._end = math.inf
        self.done = False

    def get(self, *, timeout: float | None = None) -> T:
        """The answer; raises what the ask raises, or `pykka.Timeout` after `timeout` seconds (default: no limit but the ask's own)."""
        twin = self._twin
        if twin is None or self._get_hook is not None or self.done:
            return super().get(timeout=timeout)  # type: ignore[no-any-return]
        if get_ident() == twin.kernel.thread:
            raise WrongThread(
                f"get() of a future was called in the thread that runs the system {twin.name!r}, where it would wait for itself"
            )
        end = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return super().get(timeout=max(0.0, min(PULSE, end - time.monotonic(), self._end - time.monotonic())))  # type: ignore[no-any-return]
            except pykka.Timeout:
                if self._is_done():
                    return super().get(timeout=0)  # type: ignore[no-any-return]
                now = time.monotonic()
                if now >= end:
                    raise
                slot = self._slot
                if now >= self._end and slot is not None:
                    twin.give_up(slot)
                    self._settle(None, twin.overdue(slot.delivery))
                elif not twin.portal.is_open() and twin.ended:
                    self._settle(None, twin.closed_error())

    def _is_done(self) -> bool:
        return self.done  # read again: the loop's thread may have set it

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self.done:
            return
        try:
            if error is None:
                self.set(value)
            else:
                self.set_exception((type(error), error, error.__traceback__))
        except queue.Full:
            pass  # the loop and the thread that waits came to it at the same time
        self.done = True
        self._slot = None

    def __await__(self) -> NoReturn:
        raise TypeError(
            "a future of retinue.sync blocks, and so it cannot be awaited: under asyncio use retinue.aio, whose ask is awaited, and on trio retinue.ActorSystem"
        )

    __iter__ = __await__
