"""The reader's end of a stream, for both twins: `retinue.sync.StreamReader` and `retinue.aio.StreamReader`."""

from __future__ import annotations

import asyncio
import math
import queue
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from retinue._twin_slots import TwinStreamSlot
from retinue.actors.runtime.entering import EnteredAsync, EnteredPlainly
from retinue.actors.runtime.errors import StreamClosed
from retinue.actors.runtime.portal import PULSE

if TYPE_CHECKING:
    from retinue._twin import Twin
    from retinue._twin_loops import Loops
    from retinue.actors.runtime.current import Delivery

__all__ = ["AioStreamReader", "SyncStreamReader"]

E = TypeVar("E")


class SyncStreamReader(EnteredPlainly, Generic[E]):
    """The reader's end of a stream: a context manager and an iterator. It always sees an end: of the iteration, or an error. Leaving early cancels the handler."""

    def __init__(self, twin: Twin, delivery: Delivery, window: int, wrap: Callable[[Any], Any]) -> None:
        self._twin = twin
        self._wrap = wrap
        self._delivery = delivery
        self._items: queue.SimpleQueue[tuple[Any, BaseException | None, bool]] = queue.SimpleQueue()
        self._slot: TwinStreamSlot | None = TwinStreamSlot(delivery, window, self._emit)
        self._window = window
        self._end = math.inf
        self._entered = False
        self._owed = 0

    def _emit(self, item: Any, error: BaseException | None, last: bool) -> None:
        self._items.put((item, error, last))

    def __enter__(self) -> Self:
        if self._slot is None or self._entered:
            raise StreamClosed(f"the stream of {self._delivery.cell.path} was entered before: ask for another")
        self._entered = True
        self._end = time.monotonic() + self._twin.limit(self._delivery)
        try:
            self._twin.request(self._delivery, self._slot)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            self._twin.portal.post(slot.leave)

    def __iter__(self) -> Iterator[E]:
        return self

    def __next__(self) -> E:
        slot = self._slot
        if slot is None or not self._entered:
            raise StreamClosed(
                f"the stream of {self._delivery.cell.path} is not open: read it inside its block, `with ref.stream(message) as items: for item in items: …`"
            )
        if self._owed * 2 >= self._window or (self._owed and self._items.empty()):
            self._twin.portal.post(slot.credit, self._owed)
            self._owed = 0
        item, error, last = self._next(slot)
        if not last:
            self._owed += 1
            return self._wrap(item)  # type: ignore[no-any-return]
        self._items.put((None, error, True))  # an end stays one
        if error is None:
            raise StopIteration
        try:
            raise error
        finally:
            del error

    def _next(self, slot: TwinStreamSlot) -> tuple[Any, BaseException | None, bool]:
        while True:
            try:
                return self._items.get(timeout=max(0.0, min(PULSE, self._end - time.monotonic())))
            except queue.Empty:
                if time.monotonic() >= self._end:
                    self._twin.portal.post(slot.leave)
                    return None, self._twin.overdue(self._delivery), True
                if not self._twin.portal.is_open() and self._twin.ended and self._items.empty():
                    return None, self._twin.closed_error(), True


class AioStreamReader(EnteredAsync, Generic[E]):
    """The reader's end of a stream: an async context manager and iterator. It always sees an end: of the iteration, or an error. Leaving early cancels the handler."""

    def __init__(self, twin: Twin, loops: Loops, delivery: Delivery, window: int, wrap: Callable[[Any], Any]) -> None:
        self._twin = twin
        self._wrap = wrap
        self._loops = loops
        self._delivery = delivery
        self._window = window
        self._items: deque[tuple[Any, BaseException | None, bool]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._slot: TwinStreamSlot | None = None
        self._entered = False
        self._owed = 0

    async def __aenter__(self) -> Self:
        if self._entered:
            raise StreamClosed(f"the stream of {self._delivery.cell.path} was entered before: ask for another")
        self._entered = True
        emit = partial(self._loops.here().post, self._emit)
        slot = TwinStreamSlot(self._delivery, self._window, emit)
        self._twin.request(self._delivery, slot)
        self._slot = slot
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            self._twin.portal.post(slot.leave)

    def _emit(self, item: Any, error: BaseException | None, last: bool) -> None:
        self._items.append((item, error, last))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> AsyncIterator[E]:
        return self

    async def __anext__(self) -> E:
        slot = self._slot
        if slot is None:
            raise StreamClosed(
                f"the stream of {self._delivery.cell.path} is not open: read it inside its block, "
                "`async with ref.stream(message) as items: async for item in items: …`"
            )
        if self._owed * 2 >= self._window or (self._owed and not self._items):
            self._twin.portal.post(slot.credit, self._owed)
            self._owed = 0
        while not self._items:
            self._waiter = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._waiter], timeout=PULSE)
            if not self._items and not self._twin.portal.is_open() and self._twin.ended:
                self._emit(None, self._twin.closed_error(), True)
        item, error, last = self._items.popleft()
        if not last:
            self._owed += 1
            return self._wrap(item)  # type: ignore[no-any-return]
        self._items.append((None, error, True))  # an end stays one
        if error is None:
            raise StopAsyncIteration
        try:
            raise error
        finally:
            del error
