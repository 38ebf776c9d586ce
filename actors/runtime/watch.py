"""Watching: exactly one `Terminated` for each watch, also for an actor that is gone already."""

from __future__ import annotations

import enum
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import trio
from trio.lowlevel import enable_ki_protection

from retinue.mailbox.messages import Message, message

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.ref import Ref

__all__ = ["StopReason", "Terminated", "Watch"]


class StopReason(enum.StrEnum):
    """Why an actor stops: what `on_stop` gets and `Terminated.reason` says."""

    STOPPED = "stopped"
    """It was asked to, by itself, its parent or the system's holder."""
    FAILED = "failed"
    """It failed and its supervision does not restart it."""
    START_FAILED = "start_failed"
    """Its constructor or `on_start` raised."""
    SYSTEM = "system_closed"
    """The system closed."""
    PASSIVATED = "passivated"
    """A virtual actor that nobody has needed for a while: its next message makes a new instance."""
    RESTART = "restart"
    """It is being restarted (`on_stop` only: a restart is no termination)."""


@message
class Terminated(Message):
    """An actor has ended. An actor that watches another and has a handler for this gets it as a message, before its ordinary mail.

    Attributes:
        ref: The actor that ended.
        reason: Why.
        error: The error that it failed with, if it did.
    """

    ref: Ref[Any]
    reason: StopReason
    error: BaseException | None = None


class Watch:
    """A watch on one actor. `await watch.wait()` returns its `Terminated`, however often it is called, at once if the actor is gone."""

    __slots__ = ("_incarnation", "_result", "_waiting", "_watcher", "ref")

    def __init__(self, ref: Ref[Any], watcher: Cell | None = None) -> None:
        self.ref = ref
        self._watcher = watcher
        self._incarnation = incarnation_of(watcher) if watcher is not None else 0
        self._result: Terminated | None = None
        self._waiting: set[trio.lowlevel.Task] = set()

    def __repr__(self) -> str:
        result = self._result
        return f"<Watch {self.ref.path}: {'lives' if result is None else f'ended, {result.reason}'}>"

    @property
    def stale(self) -> bool:
        """Whether nobody is to be told: the actor that watches has been restarted since, and no task waits."""
        return self._watcher is not None and not self._waiting and incarnation_of(self._watcher) != self._incarnation

    @property
    def terminated(self) -> Terminated | None:
        """What `wait` would return, or None while the actor lives."""
        return self._result

    @enable_ki_protection
    async def wait(self) -> Terminated:
        """Waits, without a limit of its own, until the actor has ended."""
        from retinue.actors.runtime.cell import DEAD

        cell = self.ref._cell
        if self._result is None and cell.state == DEAD:
            self._result = terminated_of(cell)
        if self._result is None:
            if self not in cell.extras().watchers:
                cell.extras().watchers.append(self)
            task = trio.lowlevel.current_task()
            self._waiting.add(task)

            def abort(_: Any) -> trio.lowlevel.Abort:
                self._waiting.discard(task)
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(abort)
        assert self._result is not None
        return self._result

    def close(self) -> None:
        """Watches no longer. Who waits on this watch goes on waiting only if the actor has ended."""
        extra = self.ref._cell.extra
        if extra is not None and self in extra.watchers:
            extra.watchers.remove(self)

    def __await__(self) -> Generator[Any, None, Watch]:
        """`await ctx.watch(ref)` is `ctx.watch(ref)`, as `await system.watch(ref)` returns the watch."""
        yield from ()
        return self

    def deliver(self, terminated: Terminated) -> None:
        """The actor has ended (called once, by the runtime)."""
        self._result = terminated
        for task in self._waiting:
            trio.lowlevel.reschedule(task)
        self._waiting.clear()
        watcher = self._watcher
        if watcher is not None and incarnation_of(watcher) == self._incarnation:  # a restarted actor never watched anybody yet
            watcher.kernel.notify(watcher, terminated)


def incarnation_of(cell: Cell) -> int:
    """How often the actor's instance was replaced."""
    return cell.extra.incarnation if cell.extra is not None else 0


def terminated_of(cell: Cell) -> Terminated:
    """The `Terminated` of an actor that has ended."""
    extra = cell.extra
    if extra is None or extra.reason is None:
        return Terminated(cell.ref, StopReason.SYSTEM if cell.kernel.closing else StopReason.STOPPED)
    reason = extra.reason
    return Terminated(cell.ref, reason, extra.cause if reason in (StopReason.FAILED, StopReason.START_FAILED) else None)
