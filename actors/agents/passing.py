"""One coroutine for asks and streams: what it emits is yielded to the reader where there is one.

A run is written once, as a coroutine. Asked, it is awaited. Streamed, an asynchronous generator drives it by hand: what the coroutine awaits is passed
on to trio, what it emits is yielded. So a run has no task of its own, no channel, and no cancel scope that a reader's pace could leave half open.
"""

from __future__ import annotations

import types
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any

__all__ = ["Left", "emit", "events_of"]


class Left(BaseException):
    """The reader has left: raised in the run at the event that nobody took. Internal."""


class _Emitted:
    """An event on its way from the run to its reader."""

    __slots__ = ("event",)

    def __init__(self, event: Any) -> None:
        self.event = event


class _Trap:
    """What the coroutine awaits, passed on."""

    __slots__ = ("trap",)

    def __init__(self, trap: Any) -> None:
        self.trap = trap

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self.trap)


@types.coroutine
def emit(event: Any) -> Generator[Any, Any, None]:
    """Gives an event to the reader, and waits until there is room for the next. Only in the task of the run itself, and only where it is streamed."""
    yield _Emitted(event)


async def events_of(run: Coroutine[Any, Any, Any]) -> AsyncGenerator[Any, None]:
    """What a run emits, as it goes on. Raises what it raises; where the reader leaves, the run is told by `Left` and driven to its end."""
    value: Any = None
    error: BaseException | None = None
    try:
        while True:
            try:
                trap = run.send(value) if error is None else run.throw(error)
            except StopIteration:
                return
            value = error = None
            if trap.__class__ is _Emitted:
                try:
                    yield trap.event
                except GeneratorExit:
                    await _end(run)
                    raise
                continue
            try:
                value = await _Trap(trap)
            except BaseException as raised:
                error = raised
    finally:
        run.close()
        del error


async def _end(run: Coroutine[Any, Any, Any]) -> None:
    value: Any = None
    error: BaseException | None = Left()
    while True:
        try:
            trap = run.send(value) if error is None else run.throw(error)
        except (StopIteration, Left):
            return
        except BaseExceptionGroup as group:  # a nursery of the run was open
            if group.split(Left)[1] is None:
                return
            raise
        value = error = None
        if trap.__class__ is _Emitted:
            error = Left()
            continue
        try:
            value = await _Trap(trap)
        except BaseException as raised:
            error = raised
