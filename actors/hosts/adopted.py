"""Pykka actors of the program's own that have joined the system: `await system.adopt(actor_ref, messages=…)`.

What joins is a stand-in: an actor with a mailbox, handlers, a grant, watchers and a supervision like any other, whose handlers put the message into the pykka actor's
inbox and wait for the answer. It comes back by a future of ours, which posts through the portal, so the loop never blocks and no thread waits for it. One message is
in flight; the others wait in the stand-in's mailbox, where they can be counted, withdrawn and refused, and not in pykka's inbox, which has no bound.

The pykka actor stays what it was: its thread, its state and its end are the program's. Whoever holds the pykka ref itself still reaches it past the gate.

Pykka tells nobody of an actor's end, but keeps an event for it. One thread a system looks at those of all adopted actors, every `POLL` seconds of the real
clock; a loop's timer would be read as work to come by clocks that jump.
"""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import pykka
import trio
from pykka._envelope import Envelope

from retinue.actors.runtime.actor import Actor
from retinue.actors.runtime.asks import DONE
from retinue.actors.runtime.errors import ActorStopped
from retinue.actors.runtime.lifecycle import request_stop
from retinue.actors.runtime.watch import StopReason

if TYPE_CHECKING:
    from types import TracebackType

    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.kernel import Kernel

    ExcInfo = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]

__all__ = ["POLL", "STOP_TIMEOUT", "Adopted", "Link", "StandIn", "working"]

_log = logging.getLogger("retinue.hosts")

POLL: Final = 0.05
"""Seconds between two looks at which adopted actors have ended."""
LAST_WORDS: Final = 2
"""Looks that an actor which has ended in the middle of a request is left, to answer it all the same."""
STOP_TIMEOUT: Final = 2.0
"""Seconds that a pykka actor has to end that is stopped with its stand-in."""
LAST_STEPS: Final = 1.0
"""Seconds for the few instructions that the thread which looks has still to do once nothing is left to look at."""
FUTURE_POLL: Final = 0.1
"""Seconds after which a thread that waits for a future, which a pykka actor has answered with, looks whether anybody still wants to know."""


class Call(pykka.Future[Any]):
    """One request on its way to a pykka actor, and the future that the actor's thread answers it with.

    Attributes:
        turn: The stand-in's turn that it is.
        task: The task that waits for the outcome; None once nobody does.
        over: Set when the actor has come back.
    """

    def __init__(self, link: Link, turn: Delivery) -> None:
        super().__init__()
        self._link = link
        self.turn = turn
        self.task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        self.over = trio.Event()
        self.value: Any = None
        self.error: BaseException | None = None

    def set(self, value: Any = None) -> None:
        """The answer; called by pykka, in the actor's thread."""
        self._link.kernel.portal.post(self._link.landed, self, value, None)

    def set_exception(self, exc_info: ExcInfo | None = None) -> None:
        """What the actor raised, or that it never took the message up; called by pykka, in the actor's thread."""
        kind, error, traceback = exc_info or sys.exc_info()
        if error is None:
            error = kind() if kind is not None else RuntimeError("a pykka actor answered with no exception")
        if isinstance(error, pykka.ActorDeadError) and self._link.gone:
            # Pykka's own, for what waited in the inbox at the end; one that a living actor lets through is an answer of that actor's.
            error = self._link.ended_error("before it took the message up", begun=False)
        elif traceback is not None:
            error = error.with_traceback(traceback)
        self._link.kernel.portal.post(self._link.landed, self, None, error)


class Link:
    """What ties a stand-in to its pykka actor, for all incarnations of the stand-in. All but what `Call` does happens in the system's thread.

    Attributes:
        actor_ref: The pykka actor.
        cell: The stand-in; None before its start.
        call: The request in flight.
        looks: How many more looks the request in flight is given, once the actor has ended.
        told: The end was posted to the loop.
        due: Until when the actor is given to end (trio's clock), once it is to.
        over: Set when the loop knows of the end.
    """

    def __init__(self, kernel: Kernel, actor_ref: pykka.ActorRef[Any], *, stop: bool) -> None:
        self.kernel = kernel
        self.actor_ref = actor_ref
        self.stops = stop
        self.cell: Cell | None = None
        self.call: Call | None = None
        self.looks = LAST_WORDS
        self.told = False
        self.due: float | None = None
        self.over = trio.Event()

    @property
    def gone(self) -> bool:
        """Whether the pykka actor has ended."""
        return not self.actor_ref.is_alive()

    @property
    def working(self) -> str | None:
        """What goes on in the actor's thread, in words; None while nothing does that the loop waits for. See `Kernel.threads`."""
        if self.call is not None:
            return f"the pykka actor behind {self.path} handles {type(self.call.turn.message).__qualname__}"
        return f"the pykka actor behind {self.path} ends" if (self.due is not None or self.gone) and not self.over.is_set() else None

    @property
    def job(self) -> object:
        """What `working` speaks of, to know it again: one request, or the end."""
        return self.call or self

    @property
    def path(self) -> str:
        """The stand-in's path."""
        assert self.cell is not None
        return self.cell.path

    def ended_error(self, when: str, *, begun: bool | None) -> ActorStopped:
        """What an asker gets whose request found the pykka actor at its end."""
        return ActorStopped(f"{self.path}: the pykka actor {self.actor_ref} ended {when}", path=self.path, begun=begun)

    async def request(self, payload: Any) -> Any:
        """Has the actor handle the payload as (part of) the stand-in's turn; returns or raises its outcome."""
        cell = self.cell
        assert cell is not None and cell.turn is not None
        while (
            self.call is not None
        ):  # a turn was cut off, and the actor still has its message; this one is cut off too, if the stand-in is to end
            await self.call.over.wait()
        if self.gone:
            raise self.ended_error("before the message was handed over", begun=False)
        call = self.call = Call(self, cell.turn)
        self.actor_ref.actor_inbox.put(Envelope(payload, reply_to=call))
        del payload

        def abort(_: Any) -> trio.lowlevel.Abort:
            call.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        value, error = call.value, call.error
        call.value = call.error = None
        if error is not None:
            try:
                raise error
            finally:
                del error  # else the error's traceback would hold this frame, and this frame the error
        if isinstance(value, pykka.Future) and call.turn.asked:
            return await _settled(value, call.turn)
        return value

    def landed(self, call: Call, value: Any, error: BaseException | None) -> None:
        """The actor has answered (called through the portal)."""
        if self.call is call:
            self.call = None
        call.over.set()
        task, call.task = call.task, None
        if task is not None:
            call.value, call.error = value, error
            trio.lowlevel.reschedule(task)
        elif call.turn.asked:
            self.kernel.late_reply(call.turn, value, error)
        elif error is not None:
            _log.error("%s: what was given up has failed in its pykka actor", self.path, exc_info=error)

    def ended(self) -> None:
        """The actor has ended (called through the portal): so does its stand-in, with whatever waits there."""
        assert self.cell is not None
        self.over.set()
        if self.call is not None:
            self.landed(self.call, None, self.ended_error("while it had the message; the outcome is unknown", begun=None))
        request_stop(self.cell, StopReason.STOPPED, None)


class StandIn(Actor):
    """What stands in the system for a pykka actor. `adopt` derives a class with handlers for each."""

    def __init__(self, link: Link) -> None:
        self.link = link

    def on_start(self) -> None:
        """Begins to look at the actor. Raises ActorStopped where it has ended."""
        link = self.link
        link.cell = self._cell
        if link.gone:
            raise link.ended_error("before it could be adopted", begun=False)
        adopted_of(link.kernel).add(link)

    async def on_stop(self, reason: StopReason) -> None:
        """Lets the actor go; stops it first, where that was agreed on."""
        link = self.link
        if reason is StopReason.RESTART:
            return
        try:
            if link.stops and not link.gone:
                link.actor_ref.stop(block=False)
                link.due = trio.current_time() + STOP_TIMEOUT
                with trio.move_on_at(link.due):
                    await link.over.wait()
                if link.actor_ref.is_alive():
                    _log.error("%s: its pykka actor %s has not ended within %g s", link.path, link.actor_ref, STOP_TIMEOUT)
        finally:
            adopted_of(link.kernel).discard(link)


class Adopted:
    """All pykka actors that have joined one system, and the thread that looks at them while there are any."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._links: dict[Link, None] = {}
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, link: Link) -> None:
        """Looks at one more. Raises RuntimeError where the operating system has no thread left."""
        self._links[link] = None
        if self._thread is None:
            self._wake.clear()
            thread = threading.Thread(target=self._look, args=(self._wake,), name=f"retinue {self._kernel.name} pykka", daemon=True)
            try:
                thread.start()
            except BaseException:
                del self._links[link]
                raise
            self._thread = thread
        self._kernel.threads.add(link)

    def discard(self, link: Link) -> None:
        """Looks at it no longer."""
        self._links.pop(link, None)
        self._kernel.threads.discard(link)
        thread = self._thread
        if not self._links and thread is not None:
            self._thread = None
            self._wake.set()
            self._wake = threading.Event()
            thread.join(LAST_STEPS)

    @property
    def working(self) -> int:
        """How many of the actors have a request of ours."""
        return sum(link.call is not None for link in self._links)

    def _look(self, wake: threading.Event) -> None:
        """Runs in a thread of its own, until nothing is left to look at or the system is gone."""
        portal = self._kernel.portal
        while not wake.wait(POLL) and not portal.closed:
            for link in list(self._links):
                if link.told or not link.gone:
                    continue
                if link.call is not None and link.looks:
                    link.looks -= 1
                    continue
                link.told = True
                portal.post(link.ended)


def adopted_of(kernel: Kernel) -> Adopted:
    """The adopted actors of a system."""
    found: Adopted | None = kernel.adopted
    if found is None:
        found = kernel.adopted = Adopted(kernel)
    return found


def working(kernel: Kernel) -> int:
    """How many adopted actors of a system have a request of ours at this moment, so that clocks which jump know of them."""
    found: Adopted | None = kernel.adopted
    return found.working if found is not None else 0


async def _settled(future: pykka.Future[Any], turn: Delivery) -> Any:
    """What a future comes to that a pykka actor has answered with: that of another actor's answer, as a rule. Pykka's futures can only be waited for by a thread.

    The wait ends with the asker's: nobody else wants to know.
    """

    def wait() -> Any:
        while True:
            began = time.monotonic()
            try:
                return future.get(timeout=FUTURE_POLL)
            except pykka.Timeout:
                if time.monotonic() - began < FUTURE_POLL * 0.9:
                    raise  # somebody else's, which the future holds
                if turn.slot is None or turn.slot.stage >= DONE:
                    raise ActorStopped(f"{turn.cell.path}: nobody waits any more for the future that it answered with") from None

    # In a context of its own: functions that the future was mapped with are the pykka program's, and run under no authority of ours.
    return await trio.to_thread.run_sync(contextvars.Context().run, wait, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))
