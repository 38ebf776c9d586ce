"""The thread host: constructor, hooks and handlers of a blocking actor run in a thread of its own, so they may block.

The cell stays what everybody talks to: mailbox, supervision, authority and watch work as for any actor. The thread is the muscle, with one message in flight. It is
a pykka actor that the runtime owns: pykka's inbox, its loop and its `tell`. Three things are not left to pykka. What a handler raises never reaches its loop,
which stops *every* pykka actor of the process on a SystemExit. Answers do not go by its futures but by the system's portal. And the actor is not in pykka's
process-wide registry, where somebody else's `ActorRegistry.stop_all()` or `broadcast()` would find it.

A thread cannot be cancelled. A handler whose asker has given up runs on, and its answer is a dead letter. When its actor is stopped and the grace is over, the
thread has `JOIN_TIMEOUT` seconds more; then it is given up: the asker is told, the thread is left behind as a daemon, counted and logged, and what it still
does has no authority any more.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import pykka
import trio

from retinue.actors.runtime.current import Delivery, Suspension
from retinue.actors.runtime.errors import ActorStopped
from retinue.actors.runtime.stepping import odd_exit
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.hosts.asking import ThreadSlot
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.deadlines import Entry

__all__ = ["JOIN_TIMEOUT", "ThreadHost"]

_log = logging.getLogger("retinue.hosts")

JOIN_TIMEOUT: Final = 2.0
"""Seconds that a thread has to end once its actor is to end and the grace is over."""
LAST_STEPS: Final = 1.0
"""Seconds for the few instructions between a thread's last word and its end."""


class Job:
    """One call in the actor's thread.

    Attributes:
        turn: The turn that it is.
        task: The task that waits for its outcome; None once nobody does.
    """

    __slots__ = ("arguments", "error", "function", "host", "task", "turn", "value")

    def __init__(self, host: ThreadHost, turn: Delivery, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.host = host
        self.turn = turn
        self.function: Callable[..., Any] | None = function
        self.arguments: tuple[Any, ...] | None = arguments
        self.task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Runs in the actor's thread. Nothing leaves it."""
        function, arguments = self.function, self.arguments
        assert function is not None and arguments is not None
        self.function = self.arguments = None  # pykka's loop holds the last envelope while it waits for the next one
        value: Any = None
        error: BaseException | None = None
        try:
            value = function(*arguments)
            if isinstance(value, Coroutine):
                value.close()
                raise DefinitionError(
                    f"{self.turn.cell.path} is a blocking actor, and {getattr(value, '__qualname__', value)}() was called in it without an await: "
                    "there is no event loop in its thread; use self.ctx.ask(ref, message) and ref.tell(message)"
                )
        except GeneratorExit as raised:
            error = odd_exit(raised)
        except BaseException as raised:
            error = raised
        try:
            self.host.portal.post(self.host.landed, self, value, error)
        finally:
            del function, arguments, value, error  # the error's traceback holds this frame


class Muscle(pykka.ThreadingActor):
    """The pykka actor whose thread a blocking actor has to itself."""

    use_daemon_thread = True

    def __init__(self, host: ThreadHost) -> None:
        super().__init__()
        self._host = host
        self.thread: threading.Thread | None = None
        host.muscle = self

    def _start_actor_loop(self) -> None:
        """As pykka's own, but the thread is named after the actor and kept, to be joined."""
        pykka.ActorRegistry.unregister(self.actor_ref)
        self.thread = threading.Thread(target=self._actor_loop, name=f"retinue {self._host.cell.path}", daemon=self.use_daemon_thread)
        self.thread.start()

    def on_receive(self, message: Any) -> None:
        if isinstance(message, Job):
            message.run()

    def on_stop(self) -> None:
        self._host.portal.post(self._host.ended)


class ThreadHost:
    """The thread of one incarnation of a blocking actor. All but `Job.run` happens in the system's thread.

    Attributes:
        cell: The actor.
        ident: The thread's id, once it was started.
        asking: What the handler in the thread waits for, while it waits for another actor's answer.
        due: When the thread is given up (trio's clock), once the actor is to end and the thread keeps it.
        muscle: The pykka actor, from start to close.
    """

    __slots__ = ("_job", "_over", "_timer", "asking", "cell", "due", "ident", "muscle", "portal")

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.portal = cell.kernel.portal
        self.ident = 0
        self.asking: ThreadSlot | None = None
        self.due: float | None = None
        self.muscle: Muscle | None = None
        self._job: Job | None = None
        self._timer: Entry | None = None
        self._over = trio.Event()

    async def start(self) -> None:
        """Starts the thread. Raises RuntimeError where the operating system has none left."""
        try:
            Muscle.start(self)
        except BaseException:
            self.muscle = None
            raise
        assert self.muscle is not None and self.muscle.thread is not None and self.muscle.thread.ident is not None
        self.ident = self.muscle.thread.ident
        self.cell.kernel.threads.add(self)

    @property
    def working(self) -> str | None:
        """What the thread does, in words; None while it waits for work, or for another actor's answer."""
        if self._job is not None:
            if self.asking is not None:
                return None
            message = self._job.turn.message
            return f"{self.cell.path} {'runs its constructor or a hook' if message is None else f'handles {type(message).__qualname__}'} in its thread"
        return f"the thread of {self.cell.path} ends" if self.muscle is None and not self._over.is_set() else None

    @property
    def job(self) -> object:
        """What `working` speaks of, to know it again: one call, or the end."""
        return self._job or self

    @property
    def free(self) -> bool:
        """Whether a call can be run in the thread now."""
        return self.muscle is not None and self._job is None

    async def run(self, turn: Delivery, function: Callable[..., Any], *arguments: Any) -> Any:
        """Runs `function(*arguments)` in the thread as (part of) the turn; returns or raises its outcome.

        Cancelling it gives the thread up, or rather the wait for it: whoever cancels closes the host next. Raises ActorStopped where that has happened.
        """
        if self.muscle is None or self._job is not None:
            text = f"the thread of {self.cell.path} has not come back from what it did before, so this could not be run in it"
            raise ActorStopped(text, path=self.cell.path, begun=False)
        if turn.suspension is not None:
            turn.suspension.thread = self.ident
            return await self._land(turn, function, arguments)
        # A hook or the constructor: no worker stands ready to be cancelled, should the thread not come back.
        self.cell.turn = turn
        with trio.CancelScope() as scope:
            turn.suspension = Suspension(trio.lowlevel.current_task(), scope)
            turn.suspension.thread = self.ident
            return await self._land(turn, function, arguments)
        raise ActorStopped(f"{self.cell.path} was stopped, and its thread did not come back from its constructor or hook in time")

    async def _land(self, turn: Delivery, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        assert self.muscle is not None
        job = self._job = Job(self, turn, function, arguments)
        del function, arguments
        self.muscle.actor_ref.tell(job)
        await trio.lowlevel.wait_task_rescheduled(self._abort)
        self.cell.kernel.running = self.cell
        value, error = job.value, job.error
        job.value = job.error = None
        if error is not None:
            try:
                raise error
            finally:
                del error
        return value

    def _abort(self, _: Any) -> trio.lowlevel.Abort:
        job = self._job
        assert job is not None and job.turn.suspension is not None
        job.task = None
        job.turn.suspension.thread = -1  # whatever the thread still does, it does not do as this turn
        self._hasten()
        return trio.lowlevel.Abort.SUCCEEDED

    def landed(self, job: Job, value: Any, error: BaseException | None) -> None:
        """The thread has come back (called through the portal)."""
        self._job = self.due = None
        if self._timer is not None:
            self.cell.kernel.deadlines.cancel(self._timer)
            self._timer = None
        task, job.task = job.task, None
        if task is not None:
            job.value, job.error = value, error
            trio.lowlevel.reschedule(task)
        elif job.turn.handler is not None and job.turn.asked:
            self.cell.kernel.late_reply(job.turn, value, error)
        elif error is not None:
            _log.error("%s: what was given up has failed in its thread", self.cell.path, exc_info=error)

    # -- the end -------------------------------------------------------------------------------------------------------------------------------------

    def hurry(self, turn: Delivery) -> None:
        """The grace is over, and the thread is still at it: from now on it has `JOIN_TIMEOUT` seconds. If it waits for an answer, it is told not to."""
        job = self._job
        if job is None or job.turn is not turn or self._timer is not None:
            return
        due = self._hasten()
        self._timer = self.cell.kernel.deadlines.add(due, self._give_up)

    def _hasten(self) -> float:
        if self.due is None:
            self.due = trio.current_time() + JOIN_TIMEOUT
        if self.asking is not None:
            self.asking.interrupt(f"{self.cell.path} is being stopped and waits no longer")
        return self.due

    def _give_up(self) -> None:
        self._timer = None
        job = self._job
        if job is not None and job.task is not None and job.turn.suspension is not None:
            job.turn.suspension.scope.cancel()

    def ended(self) -> None:
        """The thread is about to end (called through the portal)."""
        self._over.set()

    async def close(self) -> None:
        """Ends the thread. Waits at most `JOIN_TIMEOUT` seconds, counted from when it was first wanted to end; then the thread is left behind."""
        muscle, self.muscle = self.muscle, None
        if muscle is None:
            return
        muscle.stop()
        thread = muscle.thread
        assert thread is not None
        with trio.CancelScope(deadline=self._hasten(), shield=True):
            await self._over.wait()
        if self._over.is_set():
            thread.join(LAST_STEPS)
        self.cell.kernel.threads.discard(self)
        if thread.is_alive():
            self._leave_behind(thread)

    def abandon(self) -> None:
        """The end without any waiting: the thread ends when it comes back, if it does."""
        muscle, self.muscle = self.muscle, None
        if muscle is None:
            return
        muscle.stop()
        self.cell.kernel.threads.discard(self)
        assert muscle.thread is not None
        if self._job is not None:
            self._leave_behind(muscle.thread)

    def _leave_behind(self, thread: threading.Thread) -> None:
        self.cell.kernel.leaked_threads += 1
        self.cell.context = None  # the thread is inside it for good, and a context cannot be entered twice
        frame = sys._current_frames().get(self.ident)
        stack = "".join(traceback.format_stack(frame)[-8:]) if frame is not None else "(it is just ending)"
        _log.error("%s: its thread has not ended within %g s and is left behind. It is here:\n%s", self.cell.path, JOIN_TIMEOUT, stack)
        del thread, frame
