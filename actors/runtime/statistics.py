"""Counts of a system and of its actors, frozen at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from retinue.actors.runtime.timers import armed_of

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.kernel import Kernel

__all__ = ["ActorStatistics", "SystemStatistics", "statistics_of"]


@attrs.frozen
class ActorStatistics:
    """One actor at one moment.

    Attributes:
        path: Its address.
        type: Its class's name.
        state: "idle", "ready", "running", "waiting to restart" or "stopped"; of a pool "routing".
        queued: Messages that wait, are stashed, wait for room or are in progress.
        handled: Messages handled so far, over all restarts.
        failures: How often it failed.
        restarts: How often it was restarted.
        timers: Timers of it that will tick.
        waiting_seconds: Seconds that it waited for a turn with mail in its mailbox, summed over its turns.
        working_seconds: Seconds that its turns took, suspensions included. Turns that askers ran themselves are measured one in 64 and scaled: an estimate.
    """

    path: str
    type: str
    state: str
    queued: int
    handled: int
    failures: int
    restarts: int
    timers: int
    waiting_seconds: float
    working_seconds: float


@attrs.frozen
class SystemStatistics:
    """A system at one moment. At any quiet moment `sent == handled + dead_letters + queued`.

    Attributes:
        name: The system's name.
        sent: Messages sent.
        handled: Messages that a handler dealt with; of requests also those that failed, were denied or cancelled after they had been taken up.
        dead_letters: Messages that were not handled.
        dead_letters_by_reason: The same by reason; "late_reply" counts answers that came too late, which are no messages.
        queued: Messages that wait, wait for room, are stashed, or are in progress.
        actors: Actors alive.
        spawned, stopped: Actors so far.
        suspended: Handlers that are suspended in an await, in their askers' own tasks.
        workers: Worker tasks.
        deadlines: Deadlines that are armed.
        timers: Timers of actors that will tick.
        ready: Actors that wait for a turn.
        leaked_threads: Threads of blocking actors that did not end when their actor did, and were left behind.
    """

    name: str
    sent: int
    handled: int
    dead_letters: int
    dead_letters_by_reason: Mapping[str, int]
    queued: int
    actors: int
    spawned: int
    stopped: int
    suspended: int
    workers: int
    deadlines: int
    timers: int
    ready: int
    leaked_threads: int


def actor_statistics(cell: Cell) -> ActorStatistics:
    extra = cell.extra
    return ActorStatistics(
        path=cell.path,
        type=cell.spec.cls.__qualname__,
        state=cell.state_name,
        queued=queued_of(cell),
        handled=cell.handled,
        failures=extra.failures if extra is not None else 0,
        restarts=extra.restarts if extra is not None else 0,
        timers=armed_of(cell),
        waiting_seconds=cell.waited,
        working_seconds=cell.worked,
    )


def queued_of(cell: Cell) -> int:
    """Messages that wait or are in progress."""
    turn = cell.turn
    return cell.waiting() + (turn is not None and turn.handler is not None)


def statistics_of(kernel: Kernel) -> SystemStatistics:
    """Walks all living actors: the counts are kept where the messages are, so that the sum is a check and not a definition.

    Messages are counted as sent whoever they are for; what the household has of them is taken off.
    """
    household = kernel.household
    others = household.handled + household.dead + sum(cell.handled + queued_of(cell) for cell in household.cells())
    handled = kernel.retired_handled
    queued = kernel.faults.held if kernel.faults is not None else 0
    actors = -1  # the guardian is nobody's actor
    for cell in kernel.cells():
        handled += cell.handled
        queued += queued_of(cell)
        actors += 1
    return SystemStatistics(
        name=kernel.name,
        sent=kernel.sent + kernel.asks - others,
        handled=handled,
        dead_letters=kernel.letters.messages,
        dead_letters_by_reason=MappingProxyType({str(reason): count for reason, count in kernel.letters.counts.items()}),
        queued=queued,
        actors=actors,
        spawned=kernel.spawned,
        stopped=kernel.stopped,
        suspended=kernel.inline_suspended,
        workers=kernel.workers,
        deadlines=len(kernel.deadlines),
        timers=kernel.timers,
        ready=len(kernel.ready),
        leaked_threads=kernel.leaked_threads,
    )
