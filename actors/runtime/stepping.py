"""Stepping handlers by hand.

A plain `def` handler is just called. An `async def` handler is stepped to its first real suspension: one that does not block costs no scheduler pass. A handler
that suspends goes on in the task that stepped it, a worker's or (when the asker ran it itself) the asker's own.

In the asker's own task the handler needs a cancel scope of its own, so that a deadline or the target's stop cancels the handler and not the asker. Entering one
before every handler costs more than the ask, so it comes only at the first suspension. By then the handler may have opened scopes itself (`trio.sleep` does);
ours is then slid in *around* them: it becomes the parent of the handler's outermost cancel status. That last part uses private attributes of trio. They
stand in this module only; `supported()` looks for them, and without them async handlers go by a worker. `tests/actors/runtime/test_stepping.py` is the contract.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Coroutine, Generator
from types import FrameType
from typing import TYPE_CHECKING, Any

import trio
from outcome import Error
from trio.lowlevel import current_task, enable_ki_protection

from retinue.actors.runtime.current import current_variable
from retinue.security.errors import DefinitionError

# `current_task()` without the call. Where trio does not have it, `supported()` is false and nobody reads it.
run_context: Any = getattr(trio._core._run, "GLOBAL_RUN_CONTEXT", None)

if TYPE_CHECKING:
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.kernel import Kernel

__all__ = [
    "call",
    "close_left_open",
    "drive",
    "enclose",
    "enter",
    "enter_async",
    "not_awaited",
    "odd_exit",
    "resume",
    "run_context",
    "supported",
    "turn_frame",
]

_set = current_variable.set


@enable_ki_protection
def enter(delivery: Delivery, function: Callable[..., Any], actor: Any, message: Any) -> Any:
    """Runs a plain handler as a turn; called through the cell's context."""
    _set(delivery)
    return function(actor, message)


@enable_ki_protection
def enter_async(delivery: Delivery, function: Callable[..., Any], actor: Any, message: Any) -> tuple[Coroutine[Any, Any, Any], Any]:
    """Steps an async handler to its first suspension and returns the coroutine with what it yielded.

    Raises StopIteration with the handler's value when it did not suspend at all.
    """
    _set(delivery)
    coroutine = function(actor, message)
    return coroutine, coroutine.send(None)


@enable_ki_protection
def call(delivery: Delivery, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Runs any function as a turn (constructors, hooks); called through the cell's context."""
    _set(delivery)
    return function(*arguments, **keywords)


@enable_ki_protection  # outside: types.coroutine replaces the code object, which is what is marked
@types.coroutine
def resume(
    run: Callable[..., Any], coroutine: Coroutine[Any, Any, Any], trap: Any, kernel: Kernel, delivery: Delivery | None
) -> Generator[Any, Any, Any]:
    """Carries a suspended handler on to its end inside the task that calls this, each step in the cell's context."""
    cell = delivery.cell if delivery is not None else None
    while True:
        try:
            sent = yield trap
        except BaseException as error:
            step: Any = coroutine.throw
            argument: Any = error
        else:
            step, argument = coroutine.send, sent
            if sent.__class__ is Error and sent.error.__class__ is KeyboardInterrupt and delivery is not None:
                argument = yield from _cancelled_instead(delivery.suspension, sent.error)
        kernel.steps += 1
        if cell is not None:
            kernel.running = cell
        try:
            trap = run(step, argument)
        except StopIteration as stop:
            return stop.value
        except GeneratorExit as exit_:
            if exit_ is argument:
                raise  # this coroutine is being closed
            raise odd_exit(exit_) from exit_
        finally:
            del argument


def odd_exit(error: BaseException) -> RuntimeError:
    """What a handler's own GeneratorExit becomes: as itself it would close the coroutines that it passes through."""
    odd = RuntimeError("the handler raised GeneratorExit, which is for closing generators; raise an exception of your own")
    odd.__cause__ = error
    return odd


def close_left_open(scope: trio.CancelScope) -> bool:
    """Takes off the cancel scopes that a handler entered and never left. Whether there were any: the next scope to end in this task would be corrupted by them."""
    task: Any = current_task()
    ours: Any = scope
    status = ours._cancel_status
    if task._cancel_status is status:
        return False
    task._activate_cancel_status(status)
    return True


def not_awaited(delivery: Delivery, coroutine: Any) -> DefinitionError:
    """The failure of a handler that returned a coroutine: nobody would await it, and its asker would get it for an answer."""
    if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        coroutine.close()  # else Python warns, much later, that nobody awaited it
    cell = delivery.cell
    where = f"{type(cell.actor).__qualname__}.{delivery.handler.name}" if delivery.handler is not None else "the handler"
    return DefinitionError(
        f"{where} of {cell.path} returned the coroutine {getattr(coroutine, '__qualname__', type(coroutine).__name__)}(…) that nobody awaits: make it `async def`, and `return await …`"
    )


async def _cancelled_instead(suspension: Any, interrupt: BaseException) -> Error:
    """Ctrl-C has reached the task that a handler waits in. It is meant for whoever the task belongs to: the handler is cancelled instead."""
    suspension.interrupt = interrupt
    suspension.scope.cancel()
    task: Any = current_task()
    inner = task._cancel_status
    task._activate_cancel_status(suspension.scope._cancel_status)
    try:
        while True:
            try:
                await trio.lowlevel.checkpoint_if_cancelled()
            except trio.Cancelled as cancelled:
                return Error(cancelled)
            except KeyboardInterrupt as again:  # one more; the handler must not be left where it is
                suspension.interrupt = again
            else:
                raise AssertionError("a scope that was just cancelled does not cancel")
    finally:
        task._activate_cancel_status(inner)


@enable_ki_protection
@types.coroutine
def drive(
    run: Callable[..., Any], coroutine: Coroutine[Any, Any, Any], trap: Any, kernel: Kernel, delivery: Delivery | None
) -> Generator[Any, Any, Any]:
    """As `resume`, in a worker: while the handler is suspended, another worker looks after the ready queue."""
    cell = delivery.cell if delivery is not None else None
    while True:
        kernel.lookers -= 1
        if kernel.ready and not kernel.lookers:
            kernel.wake()
        try:
            sent = yield trap
        except BaseException as error:
            step: Any = coroutine.throw
            argument: Any = error
        else:
            step, argument = coroutine.send, sent
        kernel.lookers += 1
        kernel.steps += 1
        if cell is not None:
            kernel.running = cell
        try:
            trap = run(step, argument)
        except StopIteration as stop:
            return stop.value
        except GeneratorExit as exit_:
            if exit_ is argument:
                raise  # this coroutine is being closed
            raise odd_exit(exit_) from exit_
        finally:
            del argument


def turn_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of this module through which the stack runs a handler or a hook, or None. Its local `delivery` is the turn."""
    while frame is not None:
        if frame.f_code in _turn_codes:
            return frame
        frame = frame.f_back
    return None


_turn_codes = frozenset(function.__code__ for function in (enter, enter_async, call, resume, drive))


def supported() -> bool:
    """Whether this trio has the private attributes that `enclose` needs. Call inside a trio task."""
    task: Any = current_task()
    status = getattr(task, "_cancel_status", None)
    return (
        run_context is not None
        and getattr(run_context, "task", None) is task
        and status is not None
        and hasattr(task, "_activate_cancel_status")
        and isinstance(getattr(type(status), "parent", None), property)
        and type(status).parent.fset is not None
        and hasattr(trio.CancelScope(), "_cancel_status")
    )


def enclose(scope: trio.CancelScope, base: Any) -> None:
    """Enters `scope` around everything that was opened in the current task since its cancel status was `base`."""
    task: Any = current_task()
    inner = task._cancel_status
    if inner is base:
        scope.__enter__()
        return
    outermost = inner
    while outermost.parent is not base:
        outermost = outermost.parent
        if outermost is None:
            raise RuntimeError("the handler left a cancel scope of its asker; scopes must be closed where they were opened")
    task._activate_cancel_status(base)
    scope.__enter__()
    outermost.parent = task._cancel_status
    task._activate_cancel_status(inner)
