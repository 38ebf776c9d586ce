"""A time-out that costs nothing where nothing is waited for: a coroutine gets its cancel scope only once it suspends.

Entering one around every call costs more than the rest of the call, and most quick tools never suspend. So the coroutine is stepped to its first suspension as the runtime does
with handlers (see `retinue.actors.runtime.stepping`), and a scope is slid in around whatever scopes it has opened by then.
"""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from typing import Any, Final

import trio

from retinue.actors.runtime.stepping import close_left_open, enclose

__all__ = ["LEFT_OPEN", "Exited", "finish_within", "owned", "shed"]

LEFT_OPEN: Final = "it entered a cancel scope and never left it; write `with trio.CancelScope(): …`"


class Exited(Exception):
    """A coroutine of a tool has raised a GeneratorExit by itself, which is the argument. Internal: else it is not to be told from its being closed."""


async def finish_within(coroutine: Coroutine[Any, Any, Any], trap: Any, base: Any, scope: trio.CancelScope) -> Any:
    """Carries a coroutine that has suspended to its end, within `scope`; gives its value, None where the scope has cancelled it.

    Args:
        coroutine: What was stepped once.
        trap: What it has yielded.
        base: The cancel status of the task before that.
        scope: A scope that nobody has entered.
    """
    try:
        enclose(scope, base)
    except RuntimeError:
        coroutine.close()
        raise
    error: BaseException | None = None
    value: Any = None
    try:
        value = await _rest(coroutine, trap)
    except BaseException as raised:
        error = raised
    if close_left_open(scope) and error is None:
        error = RuntimeError(LEFT_OPEN)
    try:
        if error is None:
            scope.__exit__(None, None, None)
        elif not scope.__exit__(type(error), error, error.__traceback__):
            raise error
        return value
    finally:
        del error  # its traceback holds this frame


def shed(base: Any) -> None:
    """Takes off the cancel scopes that a coroutine has entered since the task's cancel status was `base`, and left open at its end."""
    scope = trio.CancelScope()
    enclose(scope, base)
    close_left_open(scope)
    scope.__exit__(None, None, None)


@types.coroutine
def owned(coroutine: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Awaits a coroutine of a tool; a GeneratorExit that it raises by itself is an `Exited`."""
    try:
        trap = coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    except GeneratorExit as error:
        raise Exited(error) from None
    return (yield from _steps(coroutine, trap))


@types.coroutine
def _rest(coroutine: Coroutine[Any, Any, Any], trap: Any) -> Generator[Any, Any, Any]:
    return (yield from _steps(coroutine, trap))


def _steps(coroutine: Coroutine[Any, Any, Any], trap: Any) -> Generator[Any, Any, Any]:
    closed = False
    try:
        while True:
            try:
                sent = yield trap
            except BaseException as error:
                closed = type(error) is GeneratorExit
                trap = coroutine.throw(error)
            else:
                trap = coroutine.send(sent)
    except StopIteration as stop:
        return stop.value
    except GeneratorExit as error:
        if closed:
            raise
        raise Exited(error) from None
