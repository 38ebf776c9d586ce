"""What follows a topic or a service without an actor, for both twins: iterators over what a listener in the system's loop has.

Items are fetched a few at a time, and go straight into the twin's own room: who gives up while he waits loses none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

import trio

from retinue.actors.runtime.asking import check_timeout
from retinue.actors.runtime.entering import EnteredAsync, EnteredPlainly
from retinue.actors.runtime.errors import StreamClosed, SystemClosed
from retinue.actors.runtime.topic_notices import Listing
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue._twin import Twin

__all__ = ["BATCH", "AioItems", "SyncItems"]

T = TypeVar("T")

BATCH: Final = 32
"""Items that are fetched at once, at most."""


class _Items(Generic[T]):
    """What both have in common. `make` makes the core's listener, in the system's loop."""

    def __init__(
        self,
        twin: Twin,
        run: Callable[[Callable[[], Awaitable[Any]]], Any],
        wrap: Callable[[Any], Any],
        call: Callable[[str, Callable[[], Any]], Any],
        what: str,
        make: Callable[[], Any],
        timeout: float,
    ) -> None:
        self._twin = twin
        self._run = run
        self._wrap = wrap
        self._call = call
        self._what = what
        self._make = make
        self._timeout = check_timeout(timeout)
        self._items: deque[Any] = deque()
        self._core: Any = None
        self._entered = self._closed = False

    def close(self) -> None:
        """Takes no more; what waits is forgotten. The end of the block does it too."""
        self._closed = True
        self._items.clear()
        if not self._twin.portal.post(self._leave):
            self._leave()  # the loop is gone

    def _leave(self) -> None:
        if self._core is not None:
            self._core.close()

    def _check_new(self) -> None:
        self._twin.check_holder(self._what)
        if self._entered:
            raise DefinitionError(f"{self._what} is entered once; listen again for another")
        self._entered = True

    def _check_open(self) -> None:
        self._twin.check_place(self._what, "let the actor subscribe")
        if not self._entered:
            raise DefinitionError(f"enter it first: `with {self._what} as items: for item in items: …`")

    async def _enter(self) -> None:
        listener = self._make()
        await listener.__aenter__()
        self._core = listener

    async def _fetch(self, timeout: float) -> bool:
        """Waits for items and takes those that are there, in the system's loop. False where none came in time."""
        with trio.move_on_after(timeout):
            await self._core._ready()
        return self._take()

    def _take(self) -> bool:
        for _ in range(BATCH):
            item = self._core._pop()
            if item is None:
                break
            self._items.append(item)
        return bool(self._items) or self._core.closed

    def _finish(self) -> None:
        """The system ends and runs nothing for us any more: what has come until now is all."""
        while self._take() and self._core._has_items():
            pass
        self._core.close()

    def _next(self) -> Any:
        """What has been fetched; IndexError without any."""
        item = self._items.popleft()
        return Listing(item.key, tuple(map(self._wrap, item.refs))) if type(item) is Listing else item

    def _is_over(self) -> bool:
        return self._closed or (self._core.closed and not self._core._has_items())

    def _ended(self) -> StreamClosed:
        return StreamClosed(f"{self._what}: nothing comes any more, for {'its block' if self._closed else 'the system'} has ended")

    def _late(self, timeout: float) -> TimeoutError:
        return TimeoutError(f"{self._what}: nothing came within {timeout:g} s")

    def __repr__(self) -> str:
        return f"<{self._what}{', closed' if self._closed else ''}>"


class SyncItems(EnteredPlainly, _Items[T]):
    """What comes, for a plain script: `with system.topics.listen(topic) as items: for item in items: …`, or `items.get(timeout=1)`."""

    def __enter__(self) -> Self:
        self._check_new()
        try:
            self._run(self._enter)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            return self.get()
        except StreamClosed:
            raise StopIteration from None

    def get(self, timeout: float | None = None) -> T:
        """Blocks until the next item is there.

        Args:
            timeout: Seconds to wait for it, 0 or more. Default: as `listen` was told, and without that as long as it takes.

        Raises:
            TimeoutError: None came. Those that come later are there for the next call.
            StreamClosed: None will come any more, since the block or the system has ended.
        """
        self._check_open()
        limit = self._timeout if timeout is None else check_timeout(timeout)
        while True:
            try:
                return self._next()  # type: ignore[no-any-return]
            except IndexError:
                pass
            if self._is_over():
                raise self._ended()
            try:
                if not self._run(partial(self._fetch, limit)):
                    raise self._late(limit)
            except SystemClosed:
                self._call(self._what, self._finish)


class AioItems(EnteredAsync, _Items[T]):
    """What comes, under asyncio: `async with system.topics.listen(topic) as items: async for item in items: …`, or `await items.get(timeout=1)`."""

    async def __aenter__(self) -> Self:
        self._check_new()
        try:
            await self._run(self._enter)
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            return await self.get()
        except StreamClosed:
            raise StopAsyncIteration from None

    async def get(self, timeout: float | None = None) -> T:
        """Waits for the next item; arguments and errors as for the blocking twin's. Cancelled, it has lost none."""
        self._check_open()
        limit = self._timeout if timeout is None else check_timeout(timeout)
        while True:
            try:
                return self._next()  # type: ignore[no-any-return]
            except IndexError:
                pass
            if self._is_over():
                raise self._ended()
            try:
                if not await self._run(partial(self._fetch, limit)):
                    raise self._late(limit)
            except SystemClosed:
                await self._call(self._what, self._finish)
