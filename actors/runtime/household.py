"""The household: the actors that a system runs for itself, under `/system`, beside those of its holder under `/user`.

The desk of approvals and the store beneath it are actors like any other, and yet nobody's: no look-up finds them, they act under a context of their own, which
permits everything and is given to nobody, and only what goes out under that context reaches them. They are not in the holder's books (statistics, actors, dead
letters), a failure restarts them without end, and nothing that they raise ends the system. They are made when they are first needed, and end after `/user` has.

What the runtime itself does with them runs as a *consultation*: in a task of the system's own and under the system's own context, never under that of the
message that gave rise to it. So no sender's deadline, revocation or cancellation reaches into the desk's work, and nothing of it is done with a sender's rights.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from retinue.actors.runtime import lifecycle
from retinue.actors.runtime.cell import DEAD, Cell
from retinue.actors.runtime.current import current_variable, make_delivery
from retinue.actors.runtime.errors import SystemClosed, WrongThread
from retinue.actors.runtime.supervision import Supervision
from retinue.actors.runtime.watch import StopReason

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.ref import Ref
    from retinue.security.context import SecurityContext

__all__ = ["Household"]

_log = logging.getLogger("retinue.runtime")

T = TypeVar("T")

NAME: Final = "system"
"""The name of the household's guardian: its actors have paths under `/system`."""

LAST_NOTES: Final = 5.0
"""Seconds that notes in progress (outcomes of approved effects) have at the end, before the household's actors are stopped."""

GRACE: Final = 5.0
"""Seconds that an actor of the household has to end what it is doing."""

_TIRELESS: Final = Supervision(restart="permanent", intensity=(1_000_000, 1.0), backoff=(0.05, 1.0))


class Household:
    """The system's own actors; all of it in the system's thread.

    Attributes:
        guardian: The cell of `/system`; None until there is an actor under it.
        handled: What actors of the household handled that have ended.
        dead: Messages to the household that were not handled.
        ended: Whether it has come to its end, so that no consultation begins any more.
    """

    __slots__ = ("_closed", "_context", "_idle", "_kernel", "_notes", "dead", "ended", "guardian", "handled")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._context: SecurityContext | None = None
        self._notes = 0
        self._idle: trio.Event | None = None
        self._closed: trio.Event | None = None
        self.guardian: Cell | None = None
        self.handled = 0
        self.dead = 0
        self.ended = False

    @property
    def context(self) -> SecurityContext:
        """The household's own context."""
        if self._context is None:
            self._context = self._kernel.authority._household()
        return self._context

    def owns(self, cell: Cell) -> bool:
        """Whether an actor is one of the household's."""
        guardian = self.guardian
        if guardian is None:
            return False
        above: Cell | None = cell
        while above is not None:
            cell, above = above, above.parent
        return cell is guardian

    def cells(self) -> list[Cell]:
        """All its cells that are alive, parents before children."""
        found = [self.guardian] if self.guardian is not None else []
        for cell in found:
            if cell.children:
                found.extend(cell.children.values())
        return found

    # -- working with it -------------------------------------------------------------------------------------------------------------------------------

    async def spawn(self, cls: object, arguments: tuple[Any, ...], keywords: dict[str, Any], name: str) -> Ref[Any]:
        """Makes an actor under `/system` and returns once it has started. Raises what its start raises, NameTaken, and SystemClosed at the end."""
        if self.guardian is None and not self.ended:
            self.guardian = self._kernel.make_guardian(NAME, self.context)
        guardian = self.guardian
        if guardian is None or self.ended:
            raise SystemClosed(f"the system {self._kernel.name!r} has ended and takes no new actors")
        return await self.consult(self._kernel.spawn, guardian, cls, arguments, keywords, name, None, None, _TIRELESS)

    async def consult(self, function: Callable[..., Awaitable[T]], *arguments: Any, holder: bool = False) -> T:
        """Runs an async function as the system, in a task of its own, and returns or raises its outcome. Cancelling the caller cancels it.

        Args:
            function: The function. What it raises for the whole process (SystemExit) does not get out of it as such.
            arguments: Passed to it.
            holder: Run it as the task that entered the system does, under the root context, where the system's holder gave the function.

        Raises:
            SystemClosed: The system ends, or has ended; what became of the function is unknown if it had begun.
            WrongThread: Called outside the system's thread.
        """
        job = _Job(function, arguments)
        self._start(job, holder=holder)
        try:
            await job.done.wait()
        except BaseException:
            job.scope.cancel()
            raise
        if job.error is None:
            return job.value  # type: ignore[no-any-return]
        error, job.error = job.error, None
        try:
            raise error
        finally:
            del error  # else its traceback would hold this frame, and this frame the error

    def note(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Runs an async function as the system, and waits for nothing. The end of the system waits for it, a while; what it raises is logged."""

        async def noted() -> None:
            try:
                await function(*arguments)
            except Exception:
                _log.exception("the system %r could not note something at its own actors", self._kernel.name)
            finally:
                self._notes -= 1
                if not self._notes:
                    if self._idle is not None:
                        self._idle.set()
                    self._kernel.notice_quiet()

        self._notes += 1
        try:
            self._start(_Job(noted, ()), holder=False)
        except SystemClosed:
            self._notes -= 1
            _log.warning(
                "the system %r has ended before the outcome of an approved effect could be noted; it counts as unknown", self._kernel.name
            )

    @property
    def quiet(self) -> bool:
        """Whether nothing is left to be noted."""
        return not self._notes

    def _start(self, job: _Job, *, holder: bool) -> None:
        kernel = self._kernel
        if not kernel.thread:
            raise SystemClosed(f"the system {kernel.name!r} has not started: use it inside `async with ActorSystem(…) as system`")
        if get_ident() != kernel.thread:
            raise WrongThread(f"the system {kernel.name!r} runs in another thread; use retinue.sync or retinue.aio there")
        if self.ended:
            raise SystemClosed(f"the system {kernel.name!r} has ended")
        if self.guardian is None:
            self.guardian = kernel.make_guardian(NAME, self.context)
        context = kernel.template.copy()
        context.run(current_variable.set, kernel.roots if holder else make_delivery(self.guardian, None, None, self.context, None))
        kernel.start_task(context, job.run, kernel, name="consultation")

    # -- the end ---------------------------------------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Lets notes be written, for `LAST_NOTES` seconds, then stops the actors. Asked for again, it waits for the same end."""
        if self._closed is not None:
            await self._closed.wait()
            return
        self._closed = trio.Event()
        try:
            if self._notes:
                self._idle = trio.Event()
                with trio.move_on_after(LAST_NOTES):
                    await self._idle.wait()
            guardian = self.guardian
            if guardian is not None and guardian.state != DEAD:
                watch = self._kernel.watch(guardian)
                lifecycle.request_stop(guardian, StopReason.SYSTEM, None, GRACE)
                await watch.wait()
        except BaseException:
            self._closed.set()
            self._closed = None  # cut short: whoever comes next may do better
            raise
        self.ended = True
        self._closed.set()


class _Job:
    """One consultation.

    Attributes:
        done: Set at its end, however it ends.
        error: What it raised.
    """

    __slots__ = ("_arguments", "_function", "done", "error", "scope", "value")

    def __init__(self, function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...]) -> None:
        self._function: Callable[..., Awaitable[Any]] | None = function
        self._arguments = arguments
        self.done = trio.Event()
        self.error: BaseException | None = None
        self.value: Any = None
        self.scope = trio.CancelScope()

    async def run(self, kernel: Kernel) -> None:
        """The task itself; nothing but cancellation leaves it."""
        function = self._function
        assert function is not None
        self.error = SystemClosed(f"the system {kernel.name!r} has ended before this was done; what became of it is unknown")
        try:
            with self.scope:
                try:
                    self.value = await function(*self._arguments)
                except BaseException as error:
                    failure = lifecycle.failure_of(error)
                    if failure is None:
                        raise
                    self.error = failure if isinstance(failure, Exception) else _contained(failure)
                else:
                    self.error = None
        finally:
            self._function, self._arguments = None, ()
            self.done.set()


def _contained(failure: BaseException) -> Exception:
    contained = RuntimeError(f"{type(failure).__name__} was raised in what the system does for itself, where it ends nothing else")
    contained.__cause__ = failure
    return contained
