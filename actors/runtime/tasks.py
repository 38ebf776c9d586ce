"""Tasks that an actor owns: its resident loop, what it started with `ctx.start_soon`, and what it pipes to itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

import trio

from retinue.actors.runtime import lifecycle
from retinue.actors.runtime.current import Delivery, current, current_variable, make_delivery
from retinue.actors.runtime.depths import START_DEPTH, check_stack
from retinue.actors.runtime.stepping import call, odd_exit, resume
from retinue.actors.runtime.tracing import trace_of
from retinue.mailbox.envelope import Postmark

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.security.context import SecurityContext

__all__ = ["OwnedTask", "start_owned"]


class OwnedTask:
    """A background task of an actor. It acts under the authority of the message that created it, and ends with the actor, at its restart too.

    Attributes:
        name: For texts.
        done: Whether it has ended.
    """

    __slots__ = ("_cell", "_finished", "_scope", "done", "name")

    def __init__(self, cell: Cell, name: str) -> None:
        self._cell = cell
        self._scope = trio.CancelScope()
        self._finished = trio.Event()
        self.name = name
        self.done = False

    def cancel(self) -> None:
        """Cancels the task; from any thread."""
        kernel = self._cell.kernel
        if get_ident() == kernel.thread:
            self._scope.cancel()
        else:
            kernel.portal.post(self._scope.cancel)  # a closed system has no tasks

    async def wait(self) -> None:
        """Waits until the task has ended, however."""
        await self._finished.wait()

    async def run(self, turn: Delivery, function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...]) -> None:
        """The task itself; nothing but cancellation leaves it."""
        cell = self._cell
        failure: BaseException | None = None
        try:
            with self._scope:
                try:
                    await _run_in_turn(turn, function, arguments)
                except BaseException as error:
                    failure = lifecycle.failure_of(error)
                    if failure is None:
                        raise
        finally:
            self.done = True
            self._finished.set()
            if cell.extra is not None:
                cell.extra.tasks.discard(self)
        if failure is not None:
            lifecycle.fail_task(cell, self.name, failure)


async def _run_in_turn(turn: Delivery, function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...]) -> None:
    """Steps the function as a turn: so whoever looks at the stack (the authority's guard, the second Ctrl-C, the watchdog) finds whose code this is."""
    kernel = turn.cell.kernel
    coroutine = _awaiting(function, arguments)
    kernel.steps += 1
    try:
        trap = call(turn, coroutine.send, (None,), {})
    except StopIteration:
        return
    except GeneratorExit as exit_:
        raise odd_exit(exit_) from exit_
    await resume(_step, coroutine, trap, kernel, turn)


async def _awaiting(function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...]) -> None:
    await function(*arguments)


def _step(function: Callable[[Any], Any], argument: Any) -> Any:
    return function(argument)


def start_owned(
    cell: Cell, security: SecurityContext, function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...], name: str
) -> OwnedTask:
    """Starts a task that the cell owns, under `security` and without a deadline."""
    check_stack(START_DEPTH)  # trio's start of a task, cut off in the middle, cannot be undone
    task = OwnedTask(cell, name)
    cell.extras().tasks.add(task)
    turn: Delivery = make_delivery(cell, None, None, security, None)
    parent: Any = current()
    if parent.__class__ is Delivery and (trace := trace_of(parent)) is not None:
        turn.postmark = Postmark((), trace)
    context = cell.kernel.context_of(cell).copy()
    context.run(current_variable.set, turn)
    cell.kernel.start_task(context, task.run, turn, function, arguments, name=f"{cell.path}: {name}")
    return task
