"""The scheduler: one ready queue of cells with mail, and a small elastic pool of worker tasks that take cells from it.

A worker drains a cell's control lane, then up to 64 messages of its mail (fewer once they have taken 1 ms), and puts the cell back at the tail if mail is left. Plain handlers never touch trio's
scheduler. A worker that runs a handler which suspends is lost for that time; the invariant that keeps things going is

    ready queue not empty  =>  a worker runs, or is already scheduled to run (`lookers` > 0)

so every suspension hands over (see `stepping.drive`). As many worker tasks exist as actors are suspended in an await, and one more.
"""

from __future__ import annotations

import logging
import math
import random
from collections import deque
from contextvars import ContextVar
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final

import trio
from trio.lowlevel import cancel_shielded_checkpoint, current_task, enable_ki_protection, reschedule, wait_task_rescheduled

from retinue.actors.runtime import lifecycle, outcomes
from retinue.actors.runtime.asks import QUEUED, WITHDRAWN
from retinue.actors.runtime.asks import RUNNING as ASK_RUNNING
from retinue.actors.runtime.cell import DEAD, RUNNING, Cell
from retinue.actors.runtime.current import Suspension
from retinue.actors.runtime.depths import START_DEPTH, STEP_DEPTH, check_stack
from retinue.actors.runtime.due import bound
from retinue.actors.runtime.handlers import ASYNC, DEF
from retinue.actors.runtime.stepping import close_left_open, drive, enter, enter_async, not_awaited
from retinue.security.limits import NO_LIMITS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.tracing import Tracer

_log = logging.getLogger("retinue.runtime")

__all__ = ["BREATH", "TURN_MESSAGES", "Scheduler", "run_seed", "worker"]

run_seed: ContextVar[int | None] = ContextVar("retinue_run_seed", default=None)
"""Set around a `trio.run` whose order is to follow from a seed: its systems must not look at the machine's clock either."""

TURN_MESSAGES: Final = 64
"""Messages that one cell handles before others get their turn, at most."""

TIDY: Final = 10.0
"""Seconds of work after which what was only counted is written down."""

BREATH: Final = 0.001
"""Seconds after which a busy worker lets trio look at timers and sockets."""

PACE: Final = 4
"""Turns after which it does so where the order of things must not depend on the machine's speed."""

_LOOKS: Final = tuple(number in (1, 2, 4, 8, 16, 32) for number in range(TURN_MESSAGES))
"""Before which messages of a turn the clock is looked at: one that brings heavy messages ends early, and one of light ones hardly ever looks."""

IDLE_WORKERS: Final = 8
"""Workers that are kept while there is nothing to do."""


class Scheduler:
    """The ready queue and its workers. The mutable heart of a kernel, which derives from it.

    Attributes:
        ready: Cells with something to do, in the order they will get a turn.
        lookers: Workers that run or are scheduled to run, and will look at `ready`.
        running: The cell whose code ran last, for the watchdog.
        steps: How often code of an actor was begun or gone on with by a worker, or gone on with in an asker's task; for the watchdog.
        spare_boxes: Empty deques, kept for the next cell that needs one.
        paced: The order of things follows from a seed, the system's or the run's: turns are counted, and the machine's clock decides nothing.
        luck: What delays are spread with.
        plain: Nothing on the way of a message needs more than the fast paths do (no loopback, no event ring, no tracer, no seed, not closing).
        tracer: What is told of each turn, where the system traces; else None.
        unsettled: Asks whose handlers have failed where their askers' stacks were too full to see to it: (delivery, error, those before it).
        missed: A worker should have been woken, and the stack was too full. Whoever comes next sees to it (`catch_up`).
    """

    ready: deque[Cell]

    def __init__(self, seed: int | None) -> None:
        self.ready = deque()
        self.lookers = 0
        self.workers = 0
        self.parked: list[trio.lowlevel.Task] = []
        self.running: Cell | None = None
        self.steps = 0
        self.spare_boxes: list[deque[Any]] = []
        self.inline_suspended = 0
        self.breath_at = 0.0
        self.tidy_at = math.inf
        self.dice = None if seed is None else random.Random(seed)  # noqa: S311 - an order, not a secret
        self.paced = seed is not None
        self.strides = 0
        self.luck: Any = self.dice or random
        self.quiet_waiters: list[trio.lowlevel.Task] = []
        self.closing = False
        self.plain = seed is None
        self.tracer: Tracer | None = None
        self.unsettled: Any = None
        self.missed = False

    # -- waking ------------------------------------------------------------------------------------------------------------------------------------

    def push(self, cell: Cell) -> None:
        """Puts a cell at the tail of the ready queue; the caller sets its state to READY then.

        Raises RecursionError where the stack is full, with nothing changed: what may raise comes first, here and in the callers.
        """
        cell.ready_at = perf_counter()
        if not self.lookers:
            self.wake()
        self.ready.append(cell)

    def wake(self) -> None:
        """Schedules a worker: a parked one, else a new one. Raises RecursionError where the stack is full, with nothing changed."""
        if self.parked:
            reschedule(self.parked[-1])  # changes nothing before its deepest call
            self.parked.pop()
        else:
            check_stack(START_DEPTH)  # trio's start of a task, cut off in the middle, cannot be undone
            self.start_worker()
            self.workers += 1
        self.lookers += 1
        self.missed = False

    def check_room(self) -> None:
        """Raises RecursionError where a step that sends something could be cut off for want of stack, whatever it sends and whom it wakes."""
        check_stack(STEP_DEPTH if self.lookers else STEP_DEPTH + START_DEPTH)

    def catch_up(self) -> None:
        """Wakes the worker that should have been woken, where there is room for that by now."""
        if self.lookers:
            self.missed = False
        elif self.missed:
            try:
                self.wake()
            except RecursionError:
                self.missed = True

    def start_worker(self) -> None:
        """Starts one more worker task."""
        raise NotImplementedError  # the kernel knows its nursery

    def tidy(self) -> None:
        """Does what is due every ten seconds of work."""
        self.tidy_at = perf_counter() + TIDY

    def next_cell(self) -> Cell:
        """The next cell that gets a turn, where turns are counted: the head of the queue, or with a seed any of them."""
        self._stride()
        ready = self.ready
        if self.dice is not None and len(ready) > 1:
            index = self.dice.randrange(len(ready))
            ready.rotate(-index)
            cell = ready.popleft()
            ready.rotate(index)
            return cell
        return ready.popleft()

    def is_quiet(self) -> bool:
        """Whether nothing is ready and no handler runs or is suspended."""
        return not self.ready and len(self.parked) == self.workers and not self.inline_suspended and self.unsettled is None

    def notice_quiet(self) -> None:
        """Wakes who waits for a quiet moment, if this is one."""
        if self.quiet_waiters and self.is_quiet():
            for task in self.quiet_waiters:
                reschedule(task)
            self.quiet_waiters.clear()

    @enable_ki_protection
    async def wait_quiet(self) -> None:
        """Returns at a moment when nothing is ready, running or suspended in a handler."""
        while not self.is_quiet():
            self.catch_up()
            task = current_task()
            self.quiet_waiters.append(task)

            def abort(_: Any, task: trio.lowlevel.Task = task) -> trio.lowlevel.Abort:
                self.quiet_waiters.remove(task)
                return trio.lowlevel.Abort.SUCCEEDED

            await wait_task_rescheduled(abort)

    async def breathe(self, checkpoint: Callable[[], Awaitable[None]]) -> None:
        """Lets trio look at timers and sockets if 1 ms has passed since it last could. With an unshielded checkpoint a cancelled task is told so here."""
        if self.paced:
            self._stride()
        now = perf_counter()
        if now - self.breath_at > BREATH:
            self.breathed()
            if now > self.tidy_at:
                self.tidy()
            await checkpoint()
            self.breathed()

    def breathed(self) -> None:
        """Trio has just looked, or is about to."""
        if self.paced:
            self.strides = 0
            self.breath_at = math.inf
        else:
            self.breath_at = perf_counter()

    def _stride(self) -> None:
        """One turn more of those that are counted; makes a breath due at the last one."""
        self.strides += 1
        self.breath_at = math.inf if self.strides < PACE else -math.inf

    def follow(self, seed: int) -> None:
        """Has the run's seed decide what no seed of the system's own does. Called before the first turn."""
        self.paced = True
        if self.dice is None:
            self.luck = random.Random(seed)  # noqa: S311 - spread, not a secret


@enable_ki_protection
async def worker(kernel: Kernel) -> None:
    """One worker: serves until it is parked with enough others. Its cancel scope is replaced once it was used, whoever used it up."""
    served = True
    while served:
        with trio.CancelScope() as scope:
            served = await _serve(kernel, scope)
    kernel.workers -= 1
    kernel.notice_quiet()  # who leaves may have been the last one that was busy


async def _park(kernel: Kernel) -> bool:
    """Waits to be woken; False when there are enough idle workers already."""
    kernel.lookers -= 1
    if len(kernel.parked) >= IDLE_WORKERS:
        return False
    task = current_task()
    kernel.parked.append(task)
    kernel.notice_quiet()

    def abort(_: Any) -> trio.lowlevel.Abort:
        if task in kernel.parked:
            kernel.parked.remove(task)
        return trio.lowlevel.Abort.SUCCEEDED

    await wait_task_rescheduled(abort)
    kernel.breath_at = math.inf if kernel.paced else perf_counter()  # as `breathed` does, without the call
    return True


@enable_ki_protection
async def _serve(kernel: Kernel, scope: trio.CancelScope) -> bool:
    """Takes cells from the ready queue until the scope is used up (True) or the worker is no longer needed (False)."""
    ready = kernel.ready
    next_cell: Callable[[], Cell] = kernel.next_cell if kernel.paced else ready.popleft
    longest = math.inf if kernel.paced else BREATH
    while True:
        if kernel.unsettled is not None:
            outcomes.settle_late(kernel)
        if not ready:
            if not await _park(kernel):
                return False
            continue
        cell = next_cell()
        if cell.state == DEAD:
            continue
        cell.state = RUNNING
        kernel.running = cell
        kernel.steps += 1
        began = perf_counter()
        cell.waited += began - cell.ready_at
        used = await _turn(kernel, cell, scope, began + longest)
        now = perf_counter()
        cell.worked += now - began
        due = now - kernel.breath_at > BREATH and not used
        if due and now > kernel.tidy_at:
            kernel.tidy()
        if due and cell.head is not None and not cell.control and cell.actor is not None:
            cell.turn = None  # it is over, and more waits; but who is woken while trio looks around stands before it in the queue
            await cancel_shielded_checkpoint()
            kernel.breathed()
            due = False
        cell.settle()
        del cell  # an idle worker must not keep the last actor alive, nor one that breathes
        if used:
            return True
        if due:
            await cancel_shielded_checkpoint()
            kernel.breathed()


@enable_ki_protection
async def _turn(kernel: Kernel, cell: Cell, scope: trio.CancelScope, until: float) -> bool:
    """Up to 64 messages of one cell, and hardly any more once it is `until`. True when the worker's scope was cancelled on the way, and has to be replaced."""
    for look in _LOOKS:
        if cell.control:
            await _run_control(kernel, cell)
            if cell.state == DEAD or cell.actor is None:
                return False
            continue
        if look and (cell.head is not None or cell.queue) and perf_counter() > until:
            return False
        delivery = cell.head
        if delivery is None or cell.extra is not None:
            delivery = cell.take()
            if delivery is None:
                return False
        else:
            box = cell.box
            cell.head = box.popleft() if box else None
        handler = delivery.handler
        slot = delivery.slot
        if slot is not None:
            if slot.stage == QUEUED:
                slot.stage = ASK_RUNNING
            elif slot.stage == WITHDRAWN:
                cell.extras().withdrawn -= 1
                continue
        cell.turn = delivery
        if kernel.tracer is not None:
            kernel.tracer.begin(delivery)
        try:
            if delivery.context is cell.gate_context and handler is cell.gate_handler:
                delivery.security = cell.gate_security
            else:
                kernel.door.admit(cell, delivery)
                handler = delivery.handler
            if handler.kind == DEF:
                value = cell.context.run(enter, delivery, handler.function, cell.actor, delivery.message)
            else:
                value = await _run_async(kernel, cell, delivery, scope)
            if value.__class__ is CoroutineType:
                raise not_awaited(delivery, value)
        except BaseException as error:
            outcomes.conclude_error(kernel, cell, delivery, error)
            del error
        else:
            if delivery.slot is None:
                cell.handled += 1
                if not kernel.plain:
                    outcomes.noted(kernel, delivery, value)
                delivery.message = None  # the cell's context holds the turn until the next one: not its payload, too
            else:
                outcomes.conclude(kernel, cell, delivery, value)
        if delivery.suspension is not None and scope.cancel_called:
            return True
    return False


@enable_ki_protection
async def _run_async(kernel: Kernel, cell: Cell, delivery: Any, scope: trio.CancelScope) -> Any:
    """Runs a handler that may suspend: an async one, a stream, or one in the actor's own thread."""
    handler, context = delivery.handler, cell.context
    if handler.kind != ASYNC:
        delivery.suspension = Suspension(current_task(), scope)
        return await outcomes.run_special(kernel, cell, delivery)
    try:
        coroutine, trap = context.run(enter_async, delivery, handler.function, cell.actor, delivery.message)
    except StopIteration as stop:
        return stop.value
    delivery.suspension = Suspension(current_task(), scope)
    if cell.closed:
        lifecycle.hurry_suspended(cell)
    timer = bound(delivery) if delivery.security.permissions.limits is not NO_LIMITS else None
    try:
        value = await drive(context.run, coroutine, trap, kernel, delivery)
    except BaseException:
        if kernel.inline_async:
            close_left_open(scope)
        raise
    finally:
        if timer is not None:
            kernel.deadlines.cancel(timer)
    if kernel.inline_async and close_left_open(scope):
        raise outcomes.scope_left_open(delivery)
    return value


async def _run_control(kernel: Kernel, cell: Cell) -> None:
    """Takes entries from the control lane of a cell that this worker runs: all, or a turn's worth, for a restart that fails brings the next one."""
    cell.turn = None  # the message before it is settled, and what runs now may take its time
    control = cell.control
    for _ in range(TURN_MESSAGES):
        if not control:
            break
        function, arguments = control.popleft()
        coroutine = None
        try:
            coroutine = function(cell, *arguments)
            if coroutine is not None:
                try:
                    trap = coroutine.send(None)
                except StopIteration:
                    continue
                await drive(_step, coroutine, trap, kernel, None)
        except BaseException as error:  # what actors raise was dealt with inside; this would be ours
            if isinstance(error, GeneratorExit) or outcomes.without_cancelled(error) is None:
                raise
            _log.exception("%s: %s failed; this is a fault of the runtime", cell.path, getattr(function, "__qualname__", function))
            if function is lifecycle.stop and cell.state != DEAD:
                lifecycle.finish(cell, lifecycle.FAILED)
        finally:
            coroutine = None
        if control:  # never before the first: a stop must come before the mail that it ends
            await kernel.breathe(cancel_shielded_checkpoint)
    if not control:
        cell.control = None


def _step(function: Callable[[Any], Any], argument: Any) -> Any:
    return function(argument)
