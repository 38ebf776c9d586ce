"""What the workers of one tool's executor share, from the start of the first of them to the end of the last."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import trio

if TYPE_CHECKING:
    from retinue.actors.tools.asyncio_thread import AsyncioThread
    from retinue.capabilities.artifacts import ArtifactStore
    from retinue.capabilities.tools import Tool

__all__ = ["CLOSE_TIMEOUT", "Household", "Job"]

_log = logging.getLogger("retinue.tools")

CLOSE_TIMEOUT: Final = 2.0
"""Seconds that something which was kept has to close, when the executor stops."""

MOST_STUCK_LOOPS: Final = 4
"""asyncio threads that may hang at the same time, each left behind by a tool that blocked its loop; with more the tool answers with an error at once."""


class Job:
    """One call in a worker thread. The thread and the loop agree by it on who was last.

    Attributes:
        begun: Whether the thread has begun with it.
        over: Whether the thread is through with it.
        given_up: Whether nobody waits for it any more.
    """

    __slots__ = ("begun", "given_up", "over")

    def __init__(self) -> None:
        self.begun = self.over = self.given_up = False


class Household:
    """The threads, the asyncio loop and the things kept between calls of one executor.

    Attributes:
        artifacts: Where long outputs are kept, or None.
        limiter: How many worker threads the tool may use at the same time: as many as its `concurrency`.
        stuck: How many of them run a call that was given up.
    """

    __slots__ = ("_guard", "_kept", "_loop", "_making", "_members", "_stuck_loops", "_tool", "artifacts", "limiter", "stuck")

    def __init__(self, tool: Tool[..., Any], artifacts: ArtifactStore | None) -> None:
        self._tool = tool
        self._members = 0
        self._guard = threading.Lock()  # of `stuck` and the jobs: held for a few instructions, by both sides
        self._making = trio.Lock()
        self._kept: dict[object, Any] = {}
        self._loop: AsyncioThread | None = None
        self._stuck_loops: list[AsyncioThread] = []
        self.artifacts = artifacts
        self.limiter = trio.CapacityLimiter(tool.concurrency)
        self.stuck = 0

    def enter(self) -> None:
        """A worker has started."""
        self._members += 1

    async def leave(self, *, close: bool = True) -> None:
        """A worker ends; the last one closes what there is, unless it comes again."""
        self._members -= 1
        if self._members or not close:
            return
        loop, self._loop = self._loop, None
        kept, self._kept = self._kept, {}
        with trio.CancelScope(shield=True):  # each part of it is bounded
            for key, thing in reversed(kept.items()):
                await _close(thing, f"what the tool {self._tool.name!r} kept as {key!r}")
            if loop is not None:
                await loop.close()

    # -- threads

    def begin(self, job: Job) -> bool:
        """The thread begins, unless the call was given up by now. Called by it."""
        with self._guard:
            job.begun = not job.given_up
            return job.begun

    def end(self, job: Job) -> None:
        """The thread is through. Called by it."""
        with self._guard:
            job.over = True
            if job.given_up:
                self.stuck -= 1

    def give_up(self, job: Job) -> bool:
        """Nobody waits for the call any more; gives whether a thread is left with it."""
        with self._guard:
            if job.over:
                return False
            job.given_up = True
            self.stuck += job.begun
            return job.begun

    # -- asyncio

    def loop(self) -> AsyncioThread | None:
        """The asyncio thread, started at its first use; None where too many hang already."""
        from retinue.actors.tools.asyncio_thread import AsyncioThread

        if self._loop is not None and (self._loop.hangs or not self._loop.alive):
            self._stuck_loops.append(self._loop)
            self._loop = None
        if self._loop is None:
            self._stuck_loops = [loop for loop in self._stuck_loops if loop.alive]
            if len(self._stuck_loops) >= MOST_STUCK_LOOPS:
                return None
            self._loop = AsyncioThread(f"retinue tool {self._tool.name}")
        return self._loop

    # -- what is kept

    def has(self, key: object) -> bool:
        """Whether something is kept under the key."""
        return key in self._kept

    async def keep(self, key: object, make: Callable[[], Any]) -> Any:
        """What is kept under the key, made now where nothing is."""
        async with self._making:
            if key not in self._kept:
                made = make()
                self._kept[key] = await made if inspect.isawaitable(made) else made
            return self._kept[key]

    async def drop(self, key: object) -> None:
        """Closes what is kept under the key, if anything is."""
        thing = self._kept.pop(key, None)
        if thing is not None:
            await _close(thing, f"what the tool {self._tool.name!r} kept as {key!r}")


async def _close(thing: Any, what: str) -> None:
    close = getattr(thing, "aclose", None) or getattr(thing, "close", None)
    if close is None:
        return
    try:
        with trio.move_on_after(CLOSE_TIMEOUT, shield=True) as scope:
            closing = close()
            if inspect.isawaitable(closing):
                await closing
        if scope.cancelled_caught:
            _log.warning("%s did not close within %g s and was left as it is", what, CLOSE_TIMEOUT)
    except (Exception, SystemExit, KeyboardInterrupt):  # it is the user's, and the executor ends all the same
        _log.exception("%s could not be closed", what)
