"""What a test may ask of a system: that its books balance, that it is quiet, that nothing is left of it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import trio
import trio.testing

from retinue.actors.runtime.asks import DONE
from retinue.actors.runtime.cell import DEAD, STATE_NAMES, WAITING
from retinue.actors.runtime.current import Delivery
from retinue.actors.runtime.ref import Ref
from retinue.actors.runtime.statistics import SystemStatistics, queued_of
from retinue.actors.runtime.streams import StreamSlot

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.system import ActorSystem
    from retinue.mailbox.letters import DeadLetters

__all__ = ["assert_conserved", "assert_no_dead_letters", "assert_quiet", "leaks", "open_streams", "wait_idle", "waited_for", "waiting_asks"]

MOST_SHOWN = 10
"""Lines of one kind in a text."""


class HasStatistics(Protocol):
    """A system, or a twin of one."""

    def statistics(self) -> SystemStatistics:
        """Its counts at this moment."""
        ...


class HasDeadLetters(Protocol):
    """A system, or a twin of one."""

    @property
    def dead_letters(self) -> DeadLetters:
        """What was not handled."""
        ...


def assert_conserved(system: HasStatistics | SystemStatistics) -> SystemStatistics:
    """Asserts that every message that was sent is in exactly one place: handled, a dead letter, or queued. Returns the counts.

    It holds at any moment at which no message is on its way from another thread; after a `wait_quiet` it always does.

    Args:
        system: The system, or its counts (`await system.statistics()` of `retinue.aio`).

    Raises:
        AssertionError: With the counts, and by how many messages the sum is off.
    """
    counts = system if isinstance(system, SystemStatistics) else system.statistics()
    found = counts.handled + counts.dead_letters + counts.queued
    if counts.sent != found:
        missing = counts.sent - found
        what = f"{missing} are nowhere" if missing > 0 else f"{-missing} are counted twice"
        letters = ", ".join(f"{reason}: {count}" for reason, count in counts.dead_letters_by_reason.items() if count)
        raise AssertionError(
            f"the books of the system {counts.name!r} do not balance: {counts.sent} messages were sent, and {counts.handled} handled + {counts.dead_letters} "
            f"dead letters{f' ({letters})' if letters else ''} + {counts.queued} queued are {found}: {what}"
        )
    return counts


def assert_quiet(system: ActorSystem) -> None:
    """Asserts that no message is ready, being handled or suspended in a handler, nor on its way from another thread. Raises AssertionError with the actors at work."""
    kernel = system._kernel
    if not kernel.is_quiet():
        raise AssertionError(f"the system {system.name!r} is not quiet: {_told(_at_work(kernel)) or 'something is about to run'}")


def assert_no_dead_letters(system: HasDeadLetters, *, allow: Iterable[str] = ()) -> None:
    """Asserts that no message was lost, denied, dropped or answered too late.

    Args:
        system: The system.
        allow: Reasons that are expected, as in `rt.DeadLetter.reason`: "stopped", "expired"…

    Raises:
        AssertionError: With the last letters.
    """
    allowed = set(allow)
    letters = system.dead_letters
    found = {str(reason): count for reason, count in letters.counts.items() if count and str(reason) not in allowed}
    if found:
        shown = [
            f"{type(letter.message).__qualname__} to {letter.target} ({letter.reason})"
            for letter in letters.recent
            if str(letter.reason) not in allowed
        ]
        counted = ", ".join(f"{reason}: {count}" for reason, count in found.items())
        raise AssertionError(f"there are dead letters ({counted}): {_told(shown)}")


async def wait_idle(system: ActorSystem, *, timers: bool = False, timeout: float = 30.0) -> None:
    """Waits until nothing is left to do: as `system.wait_quiet`, and no actor waits for a delayed restart, and no task that actors started has still to end.

    Resident loops (`async def run`) do not count; neither do actors that wait for something which nobody is about to send.

    Args:
        system: The system.
        timers: Wait also until no timer is armed. A timer that repeats is armed until it is cancelled.
        timeout: Seconds of trio's clock. Default 30.

    Raises:
        AssertionError: It is not idle after that time; the text says what is left.
    """
    kernel = system._kernel
    left: list[str] = []
    with trio.move_on_after(timeout) as scope:
        pause = 0.001
        while True:
            left = _at_work(kernel)
            await system.wait_quiet(timeout=timeout)
            left = _left(kernel, timers=timers)
            if not left and kernel.is_quiet():
                return
            await trio.sleep(pause)
            pause = min(2 * pause, 0.05)
    assert scope.cancelled_caught
    raise AssertionError(f"the system {system.name!r} is not idle after {timeout:g} s: {_told(left) or 'something is about to run'}")


def _at_work(kernel: Kernel) -> list[str]:
    found = []
    for cell in kernel.cells()[1:]:
        queued = queued_of(cell)
        if queued:
            turn = cell.turn
            now = f", handling {type(turn.message).__qualname__}" if turn is not None and turn.message is not None else ""
            found.append(f"{cell.path} is {STATE_NAMES[cell.state]} with {queued} messages{now}")
    if len(kernel.portal):
        found.append(f"{len(kernel.portal)} calls from other threads wait")
    return found


def _left(kernel: Kernel, *, timers: bool) -> list[str]:
    found = []
    for cell in kernel.cells()[1:]:
        extra = cell.extra
        if extra is None:
            continue
        if extra.restarting or (extra.revival is not None and cell.state == WAITING):
            found.append(f"{cell.path} waits to be restarted")
        found.extend(
            f"{cell.path} runs its task {task.name}"
            for task in extra.tasks
            if not task.done and not (cell.spec.resident and task.name == "run")
        )
    if timers and kernel.timers:
        found.append(f"{kernel.timers} timers are armed")
    return found


# -- after the end -----------------------------------------------------------------------------------------------------------------------------------


def waiting_asks(system: ActorSystem) -> list[str]:
    """The tasks of this run that wait for an actor of the system, and are no actor's: each with the place in its code. Call it under trio."""
    kernel = system._kernel
    found = []
    root = trio.lowlevel.current_root_task()
    tasks = [] if root is None else [root]
    for task in tasks:
        tasks.extend(child for nursery in task.child_nurseries for child in nursery.child_tasks)
        place = ""
        for frame, line in task.iter_await_frames():
            code = frame.f_code
            if code not in _ASKS:
                place = f", {code.co_filename}:{line}"
                continue
            variables = frame.f_locals
            if variables["kernel"] is kernel and variables["turn"].__class__ is not Delivery:
                found.append(
                    f"{type(variables['message']).__qualname__} to {variables['cell'].path} is unanswered: the task {task.name} waits for it{place}"
                )
            break
    return found


_ASKS = {Ref.ask.__code__, Ref.send.__code__}


def open_streams(system: ActorSystem) -> list[str]:
    """The streams of this system that no actor reads, and that were neither read to their end nor left."""
    found = []
    for cell in system._kernel.cells()[1:]:
        for delivery in (cell.turn, *cell.mail()):
            slot = delivery.slot if delivery is not None else None
            if isinstance(slot, StreamSlot) and not slot.closed and slot.stage < DONE and slot.delivery.asker is None:
                found.append(
                    f"the stream {type(slot.delivery.message).__qualname__} of {cell.path} is open: read it to its end, or leave its block"
                )
    return found


async def waited_for(system: ActorSystem) -> list[str]:
    """What the test itself still waits for: asks, and streams. What its other fixtures, which are left at the same time, cancel, is given the time for it."""
    for _ in range(3):
        if not (waiting_asks(system) or open_streams(system)):
            return []
        with trio.move_on_after(1.0):
            await trio.testing.wait_all_tasks_blocked()
    return waiting_asks(system) + open_streams(system)


def leaks(system: ActorSystem) -> list[str]:
    """What is left of a system that was stopped, and should not be: nothing, as a rule. Call it in the thread that it ran in.

    Found are: actors that are alive, their threads, armed timers and deadlines, messages that are nowhere or still queued.
    """
    kernel = system._kernel
    found = [f"the actor {cell.path} is alive ({STATE_NAMES[cell.state]})" for cell in kernel.cells()[1:]]
    if kernel.user.state != DEAD:
        found.append("the system was not stopped")
    elif kernel.spawned != kernel.stopped - 1:  # the guardian was not spawned
        found.append(f"{kernel.spawned} actors were spawned, and {kernel.stopped - 1} have stopped")
    if kernel.leaked_threads:
        alive = [thread.name for thread in threading.enumerate() if thread.name.startswith("retinue /")]
        found.append(
            f"{kernel.leaked_threads} threads of blocking actors did not come back and were left behind; alive are: {_told(alive) or 'none any more'}"
        )
    if kernel.timers:
        found.append(f"{kernel.timers} timers are armed, and their actors have ended")
    if len(kernel.deadlines):
        found.append(f"{len(kernel.deadlines)} deadlines are armed, so somebody still waits for an answer")
    try:
        queued = assert_conserved(system).queued
    except AssertionError as error:
        found.append(str(error))
    else:
        if queued:
            found.append(f"{queued} messages are still queued")
    return found


def _told(lines: list[str]) -> str:
    shown = "; ".join(lines[:MOST_SHOWN])
    return f"{shown}; and {len(lines) - MOST_SHOWN} more" if len(lines) > MOST_SHOWN else shown
