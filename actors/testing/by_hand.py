"""Running a coroutine by hand, without a loop: to its end at once, for there is nothing that it could wait on."""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn

from retinue.actors.runtime.stepping import run_context
from retinue.actors.testing.errors import NeedsLoop

__all__ = ["LoopNeeded", "NoLoop", "loop_needed", "outside_of_trio", "run_by_hand"]

_NO_LOOP = ("must be called from async context", "no running event loop", "'RunContext' object has no attribute")
"""What trio and asyncio say outside of a run."""
_LOOPS = ("trio", "asyncio", "anyio")


class LoopNeeded(BaseException):
    """Something asked for trio's loop; no `except Exception` of the actor's stands in its way."""


class NoLoop:
    """What trio finds in place of its loop.

    Attributes:
        asked: What was raised last for whoever asked for it, None where nobody did.
    """

    def __init__(self) -> None:
        self.asked: LoopNeeded | None = None

    def __getattr__(self, name: str) -> NoReturn:
        self.asked = LoopNeeded(name)
        raise self.asked


@contextmanager
def outside_of_trio() -> Iterator[NoLoop]:
    """Hides a trio run that the test itself may be in: what needs a loop is refused there as elsewhere, instead of being begun by a task that cannot end it."""
    found = NoLoop()
    hidden = {name: getattr(run_context, name) for name in ("task", "runner") if hasattr(run_context, name)}
    for name in ("task", "runner"):
        setattr(run_context, name, found)
    try:
        yield found
    finally:
        for name in ("task", "runner"):
            if name in hidden:
                setattr(run_context, name, hidden[name])
            else:
                delattr(run_context, name)


def run_by_hand(context: contextvars.Context, coroutine: Coroutine[Any, Any, Any], where: str, inside: object = None) -> Any:
    """Runs a coroutine to its end in a context, and returns or raises its outcome. `inside` is an async generator that it reads, which says what it awaits.

    Raises:
        NeedsLoop: It awaits something else than what a stand-in answers: time, sockets, tasks, locks.
    """
    try:
        context.run(coroutine.send, None)
    except StopIteration as stop:
        return stop.value
    except (RuntimeError, AttributeError, LoopNeeded) as error:
        needed = loop_needed(error, where)
        if needed is error:
            raise
        raise needed from None
    awaited = _innermost(inside or coroutine)
    try:
        context.run(coroutine.close)
    except RuntimeError:  # it goes on awaiting while it is closed
        pass
    raise NeedsLoop(_text(where, awaited))


def loop_needed(error: BaseException, where: str) -> BaseException:
    """The clear error, where trio or asyncio has found no loop; else the error itself."""
    if not isinstance(error, LoopNeeded) and not any(text in str(error) for text in _NO_LOOP):
        return error
    return NeedsLoop(_text(where, _raised_in(error.__traceback__)))


def _text(where: str, awaited: str) -> str:
    return (
        f"{where} waits on {awaited}, and a BehaviorTest has no loop: give it a system (the fixture actor_system, with a virtual_clock for time), or let the actor "
        "have a timer or ask somebody for it"
    )


def _innermost(coroutine: Any) -> str:
    """The outermost awaited thing that is not the actor's own code: `trio.sleep`."""
    own = getattr(coroutine, "__module__", None)
    step = coroutine
    name = ""
    while step is not None:
        frame = getattr(step, "cr_frame", None) or getattr(step, "ag_frame", None) or getattr(step, "gi_frame", None)
        if frame is not None:
            name = _public(frame.f_globals.get("__name__", "?"), frame.f_code.co_qualname)
            if name.partition(".")[0] in _LOOPS:
                return name
        step = getattr(step, "cr_await", None) or getattr(step, "ag_await", None) or getattr(step, "gi_yieldfrom", None)
    return name or str(own)


def _raised_in(traceback: TracebackType | None) -> str:
    while traceback is not None:
        frame = traceback.tb_frame
        module = frame.f_globals.get("__name__", "?")
        if module.partition(".")[0] in _LOOPS:
            return _public(module, frame.f_code.co_qualname)
        traceback = traceback.tb_next
    return "an event loop"


def _public(module: str, name: str) -> str:
    """As one writes it: `trio.sleep`, not `trio._timeouts.sleep`."""
    loop, first = module.partition(".")[0], name.partition(".")[0]
    face = next((face for face in (loop, f"{loop}.lowlevel") if hasattr(sys.modules.get(face), first)), module)
    return f"{face}.{name}"
