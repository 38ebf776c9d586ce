"""What the child tasks of a turn tell the turn's own task, which does nothing else meanwhile: so that a ring of askers that goes through a child is found."""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from typing import Any, Final, Self, final

import trio
from trio.lowlevel import current_task, reschedule, wait_task_rescheduled

__all__ = ["FromChildren", "is_listening"]


@final
class FromChildren:
    """A queue between the tasks of one turn: `with FromChildren() as told:` around the nursery whose tasks put something in.

    In the block, the reader waits for these tasks and for whoever it hands things on to, and for nothing else: it cannot go on where they cannot. The queue has no
    bound: who puts something in must not wait.
    """

    __slots__ = ("_items", "_outer", "_task", "reader")

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._task: trio.lowlevel.Task | None = None
        self._outer: FromChildren | None = None
        self.reader: trio.lowlevel.Task | None = None

    def __enter__(self) -> Self:
        self.reader = current_task()
        self._outer = _listener.get()
        _listener.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.reader = None
        _listener.set(self._outer)  # no reset: a stream that is left may be ended in another context

    def put(self, item: Any) -> None:
        """Puts something in. Only in the loop's thread."""
        self._items.append(item)
        task, self._task = self._task, None
        if task is not None:
            reschedule(task)

    async def get(self) -> Any:
        """Takes the next one out; waits while there is none. Only for the task of the block."""
        while not self._items:
            self._task = current_task()
            await wait_task_rescheduled(self._abort)
        return self._items.popleft()

    def _abort(self, _: Any) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


_listener: Final[ContextVar[FromChildren | None]] = ContextVar("retinue_listener", default=None)
"""Inherited by the tasks that are started in the block."""


def is_listening(task: trio.lowlevel.Task, child: trio.lowlevel.Task) -> bool:
    """Whether a task does nothing but hear what this child of its has to tell."""
    listener = child.context.get(_listener)
    return listener is not None and listener.reader is task
