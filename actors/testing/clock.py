"""Time for tests: a clock that jumps to the next deadline when nothing is left to do, and that waits for threads.

trio's own `MockClock` jumps when all tasks wait, also while a thread works: a deadline of an hour passes during 50 ms of SQLite. This one knows what works beside the
loop, and holds still as long. It is a `trio.abc.Clock` and an instrument, both public; the one private thing that it looks at, whether a test waits in
`wait_all_tasks_blocked`, it can do without.
"""

from __future__ import annotations

import contextlib
import logging
import math
import sys
import time
import traceback
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import trio
import trio.testing

from retinue.actors.hosts.thread import JOIN_TIMEOUT
from retinue.actors.testing.waiting import name_of, threads_of_the_run
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel

__all__ = ["HANG_AFTER", "VirtualClock"]

_log = logging.getLogger("retinue.testing")

HANG_AFTER: Final = 30.0
"""Real seconds that the clock waits for a thread."""

SHORTEST_NAP: Final = 0.001
LONGEST_NAP: Final = 0.01
"""Real seconds between two looks at what works; whatever comes back wakes the loop before."""

FOREVER: Final = 999_999_999.0


class _Ear(trio.abc.Instrument):
    """Hears whether anything happens in the run: whether any task is made ready."""

    def __init__(self) -> None:
        self.stirred = True

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002 - the name is trio's
        """Called by trio for each task that is made ready."""
        self.stirred = True


class VirtualClock(trio.abc.Clock):
    """A clock whose hours pass at once, but never while a thread works: `trio.run(main, clock=VirtualClock())`, or the fixture `virtual_clock`.

    It jumps to the next deadline when every task waits and nothing works beside them: no blocking actor (stores included), no adopted actor, no call of
    `trio.to_thread.run_sync`, no message on its way from another thread, nothing that `held` was said of. A thread that itself waits for the loop (`ctx.ask` in a blocking
    actor, `trio.from_thread.run`) does not work. Sockets to other processes, subprocesses and threads that you started yourself are not seen: use `held`, or a
    `threshold`.

    A thread that does not come back in `hang_after` real seconds is waited for no longer: it is logged as an error with the place where it is, and time goes on. One whose
    actor is to end has 2 s.

    Args:
        rate: Seconds of this clock in a real second. Default 0: only jumps.
        autojump: Jump when nothing is left to do. Default True; without it only `jump` moves it.
        threshold: Real seconds in which nothing may happen before it jumps. Default 0.
        hang_after: Real seconds that it waits for a thread. Default 30.

    Raises:
        DefinitionError: A number is negative, or none.
    """

    def __init__(self, *, rate: float = 0.0, autojump: bool = True, threshold: float = 0.0, hang_after: float = HANG_AFTER) -> None:
        self._real_base = time.perf_counter()
        self._base = 0.0
        self._rate = _seconds("rate", rate)
        self.autojump = autojump
        self._threshold = _seconds("threshold", threshold)
        self._hang_after = _seconds("hang_after", hang_after)
        self._kernels: weakref.WeakSet[Kernel] = weakref.WeakSet()
        self._reasons: list[str] = []
        self._ear = _Ear()
        self._idle_since: float | None = None
        self._nap = SHORTEST_NAP
        self._lost: set[object] = set()

    def __repr__(self) -> str:
        return f"<VirtualClock at {self.current_time():.6g} s>"

    # -- for tests ---------------------------------------------------------------------------------------------------------------------------------

    @property
    def rate(self) -> float:
        """Seconds of this clock in a real second. It can be set."""
        return self._rate

    @rate.setter
    def rate(self, rate: float) -> None:
        rate = _seconds("rate", rate)
        self._rebase(self.current_time())
        self._rate = rate

    def jump(self, seconds: float) -> None:
        """Moves the clock on by so many seconds. Raises DefinitionError for less than 0."""
        self._rebase(self.current_time() + _seconds("jump", seconds))

    @contextlib.contextmanager
    def held(self, reason: str) -> Iterator[None]:
        """Holds the clock for as long as the block lasts: something works that it cannot see. Without a limit in time: it is the test's own business."""
        self._reasons.append(reason)
        try:
            yield
        finally:
            self._reasons.remove(reason)

    @property
    def waits_for(self) -> list[str]:
        """What works at this moment, in words: what the clock holds still for. Read it in the thread of the run."""
        return [*self._reasons, *(text for _, text, _ in self._works())]

    # -- for trio ----------------------------------------------------------------------------------------------------------------------------------

    def start_clock(self) -> None:
        """Called by trio when a run begins."""
        self._ear = _Ear()
        self._idle_since = None
        self._lost = set()
        trio.lowlevel.add_instrument(self._ear)

    def current_time(self) -> float:
        """Seconds since the clock was made, by itself."""
        return self._base + self._rate * (time.perf_counter() - self._real_base)

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Called by trio when no task is ready: how long it may wait for sockets and threads."""
        left = deadline - self.current_time()
        if left <= 0:
            return 0.0
        at_most = left / self._rate if self._rate else FOREVER
        if not self.autojump or _somebody_waits_for_idle():
            return at_most
        now = time.perf_counter()
        if self._ear.stirred or self._idle_since is None:
            # A look at sockets and threads first: only where nothing has come of it the next time there is nothing left to do.
            self._ear.stirred = False
            self._idle_since = now
            self._nap = SHORTEST_NAP
            return min(self._threshold, at_most)
        if self._reasons or self._is_held(now - self._idle_since):
            self._nap = min(2 * self._nap, LONGEST_NAP)
            return min(self._nap, at_most)
        if deadline == math.inf:
            return FOREVER
        self._rebase(deadline)
        return 0.0

    def watch_over(self, kernel: Kernel) -> None:
        """Called by each system that starts under this clock."""
        self._kernels.add(kernel)

    # -- what works --------------------------------------------------------------------------------------------------------------------------------

    def _rebase(self, virtual: float) -> None:
        self._base = virtual
        self._real_base = time.perf_counter()

    def _works(self) -> list[tuple[object, str, float]]:
        """What works: something to know it by again, words for it, and the real seconds that it has."""
        works: list[tuple[object, str, float]] = []
        calls = trio.testing.active_thread_count()
        idents: set[int] = set()
        if calls or any(worker.working for kernel in self._kernels for worker in kernel.threads):
            idents, working, waiting = threads_of_the_run([kernel.portal for kernel in self._kernels])
            works += [(call, f"a call of trio.to_thread.run_sync runs {name_of(call)} in its thread", self._hang_after) for call in working]
            calls -= len(working) + waiting
        for kernel in self._kernels:
            for worker in kernel.threads:
                text = worker.working
                if text is not None and getattr(worker, "ident", 0) not in idents:
                    works.append((worker.job, text, self._hang_after if worker.due is None else min(JOIN_TIMEOUT, self._hang_after)))
            if len(kernel.portal):
                works.append(
                    (kernel.portal, f"{len(kernel.portal)} calls from other threads wait for the system {kernel.name!r}", math.inf)
                )
        # Those that are about to begin, or to come back.
        works += [
            ((trio.to_thread, number), "a call of trio.to_thread.run_sync is on its way", self._hang_after) for number in range(calls)
        ]
        return works

    def _is_held(self, idle: float) -> bool:
        works = self._works()
        self._lost &= {key for key, _, _ in works}
        held = False
        for key, text, patience in works:
            if key in self._lost:
                continue
            if idle < patience:
                held = True
                continue
            self._lost.add(key)
            _log.error(
                "%s, and has not come back in %g real seconds: the clock waits no longer for it. The threads are here:\n%s",
                text,
                idle,
                _stacks(),
            )
        return held


def _somebody_waits_for_idle() -> bool:
    """Whether a task is in `trio.testing.wait_all_tasks_blocked`: it comes first, and trio wakes it where it is given time."""
    try:
        from trio._core._run import GLOBAL_RUN_CONTEXT

        return bool(GLOBAL_RUN_CONTEXT.runner.waiting_for_idle)
    except (ImportError, AttributeError):
        return False


def _stacks() -> str:
    own = sys._getframe().f_back
    texts = []
    for frame in sys._current_frames().values():
        step: Any = own
        while step is not None and step is not frame:
            step = step.f_back
        if step is None:  # not the loop's own thread
            texts.append("".join(traceback.format_stack(frame)[-6:]))
    return "\n".join(texts)


def _seconds(what: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise DefinitionError(f"VirtualClock({what}={value!r}): give a number, 0 or more")
    return float(value)
