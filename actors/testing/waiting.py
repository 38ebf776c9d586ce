"""Which threads work for a loop, and which wait for it: those hold no clock still, for nothing would ever come of it.

The loop's side says what is asked of it and not answered yet; the frames of the threads, who has asked. (The frames alone would not do: a thread that is about to ask, or was
just answered, is in the same ones, and works.)
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import trio

from retinue.actors.runtime.portal import Latch

if TYPE_CHECKING:
    from retinue.actors.runtime.portal import Portal

__all__ = ["name_of", "threads_of_the_run"]

_FILE: Final = "_threads.py"
_ANSWERS: Final = ("run", "run_system")
_CALLS: Final = "worker_fn"
_SENDS: Final = "_send_message_to_trio"
"""Functions of trio's: those of a task that does what a thread has asked for with `trio.from_thread.run`, that of a thread of `trio.to_thread.run_sync`, and that of one that
waits for its answer. They are private: where a version of trio has others, a thread that waits counts as one that works.
"""


def threads_of_the_run(portals: Collection[Portal]) -> tuple[set[int], list[FrameType], int]:
    """The ids of the threads that wait for one of the portals or for this run of trio; the calls of `trio.to_thread.run_sync` that work, each as a frame
    that is its own as long as it lasts; and how many calls wait.

    Called in the thread of the run, at a moment when no task is ready and no call waits in a portal.
    """
    asked = _asked()
    token = trio.lowlevel.current_trio_token()
    idents = set()
    working: list[FrameType] = []
    waiting = 0
    for ident, frame in sys._current_frames().items():
        waits, call = _look(frame, portals, asked)
        if waits:
            idents.add(ident)
        if call is None or not _counts(call, token):
            continue
        if waits:
            waiting += 1
        else:
            working.append(call)
    return idents, working, waiting


def name_of(call: FrameType) -> str:
    """The function that a call of `trio.to_thread.run_sync` runs."""
    function = call.f_locals.get("sync_fn")
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def _counts(call: FrameType, token: trio.lowlevel.TrioToken) -> bool:
    """Whether a task of this run waits for the call: it is no other run's, and nobody has given it up."""
    variables: Any = call.f_locals
    return variables.get("current_trio_token", token) is token and variables.get("task_register", call) != [None]


def _asked() -> list[object]:
    """What threads have asked this run for and it is still doing."""
    root = trio.lowlevel.current_root_task()
    tasks = [] if root is None else [root]
    found = []
    for task in tasks:
        tasks.extend(child for nursery in task.child_nurseries for child in nursery.child_tasks)
        for frame, _ in task.iter_await_frames():
            if frame.f_code.co_name in _ANSWERS and frame.f_code.co_filename.endswith(_FILE):
                found.append(frame.f_locals.get("self"))
    return found


def _look(frame: FrameType, portals: Collection[Portal], asked: list[object]) -> tuple[bool, FrameType | None]:
    waits, call = False, None
    step: FrameType | None = frame
    while step is not None:
        code = step.f_code
        if code is Latch.wait.__code__:
            variables: Any = step.f_locals
            waits = waits or (variables["portal"] in portals and not variables["self"].done)
        elif code.co_filename.endswith(_FILE):
            if code.co_name == _SENDS:
                message = step.f_locals.get("message_to_trio")
                waits = waits or any(message is one for one in asked)
            if code.co_name == _CALLS:
                call = step
        step = step.f_back
    return waits, call
