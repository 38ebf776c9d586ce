"""Timers: messages that an actor sends to itself later, once or again and again, each under a key.

A tick is an ordinary tell from the actor to itself, under the authority of the turn that set the timer; it waits in an inlet, so it needs no room in the mailbox, and at
most one tick of a key waits at any time. What comes due meanwhile is skipped and counted, and no burst follows: the next tick comes at its own time, a whole number of
intervals after the first.

A timer is one object from `once` or `every` until it is replaced, cancelled or cleared. With it goes its tick, if one waits: so no actor ever sees the tick of a timer
that it has cancelled or set anew, and a new instance none of the old one's (generations, as in Pekko's `TimerScheduler`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import trio

from retinue.actors.runtime import derivation
from retinue.actors.runtime.current import Delivery, make_delivery
from retinue.actors.runtime.depths import STEP_DEPTH, check_stack
from retinue.actors.runtime.inlets import Inlet
from retinue.actors.runtime.tracing import trace_of
from retinue.mailbox.envelope import Postmark
from retinue.mailbox.errors import Unhandled
from retinue.security.errors import DefinitionError, NoContext

if TYPE_CHECKING:
    from retinue.actors.runtime.actor import HandlerInfo
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.deadlines import Entry
    from retinue.mailbox.messages import Message
    from retinue.security.context import SecurityContext

_log = logging.getLogger("retinue.runtime")

__all__ = ["MAX_TIMERS", "MIN_INTERVAL", "TimerTable", "Timers", "armed_of", "clear_timers"]

MAX_TIMERS: Final = 1024
"""Timers that one actor may have."""

MIN_INTERVAL: Final = 0.001
"""Seconds between two ticks of a timer, at least."""

T = TypeVar("T")


class _Timer:
    """One timer, from its setting to its end.

    Attributes:
        interval: Seconds between ticks, None for one that ticks once.
        start, count: The next tick comes `count` intervals after `start`, in seconds of trio's clock.
        entry: Its deadline; None once it will not tick any more.
        tick: The tick that waits, if one does.
        skipped: Ticks that came due while another one waited.
        hash: Its key's, when it was set.
        place: Its number in its table.
    """

    __slots__ = (
        "count", "entry", "handler", "hash", "interval", "key", "message", "place", "security", "skipped", "start", "table", "tick", "trace",
    )  # fmt: skip

    def __init__(
        self, table: TimerTable, key: Hashable, message: Any, handler: HandlerInfo, security: SecurityContext, trace: str | None
    ) -> None:
        self.table = table
        self.key = key
        self.message = message
        self.handler = handler
        self.security = security
        self.trace = trace
        self.interval: float | None = None
        self.start = 0.0
        self.count = 0
        self.entry: Entry | None = None
        self.tick: Delivery | None = None
        self.skipped = 0
        self.hash = self.place = 0

    def arm(self, due: float) -> None:
        """The next tick comes then."""
        kernel = self.table.cell.kernel
        self.entry = kernel.deadlines.add(due, self.fire)
        kernel.timers += 1

    def disarm(self) -> None:
        """No tick comes any more."""
        kernel = self.table.cell.kernel
        if self.entry is not None:
            kernel.deadlines.cancel(self.entry)
            self.entry = None
            kernel.timers -= 1

    def fire(self) -> None:
        """A tick is due: a callback of the deadlines."""
        cell = self.table.cell
        self.entry = None
        cell.kernel.timers -= 1
        if cell.closed or (cell.kernel.closing and not cell.kernel.household.owns(cell)):  # what is there is done, and nothing is begun
            for timer in self.table.timers.values():
                timer.disarm()  # what waits is refused at the actor's end, with its other mail
            return
        if self.interval is None:
            self.send()
            return
        missed, due = self._next(self.interval)
        if self.tick is not None:
            self.skipped += missed + 1
        else:
            self.skipped += missed
            self.send()
        if self.has_ended():
            self.table.drop(self)  # its last tick is refused where every message is
        else:
            self.arm(due)

    def _next(self, interval: float) -> tuple[int, float]:
        """How many ticks lie behind beside the one that is due now, and when the first comes that lies ahead."""
        now = trio.current_time()
        passed = max(0, math.floor((now - self.start) / interval) - self.count)
        due = self.start + (self.count + passed + 1) * interval
        if due <= now:  # the quotient was rounded down
            passed += 1
            due += interval
        self.count += passed + 1
        if due <= now:  # the clock is too coarse for such an interval
            due = self.start = max(now + interval, math.nextafter(now, math.inf))
            self.count = 0
        return passed, due

    def send(self) -> None:
        """Puts a tick where it waits for its turn."""
        table = self.table
        cell = table.cell
        tick = self.tick = make_delivery(cell, self.handler, self.message, self.security, cell)
        if self.trace is not None:
            tick.postmark = Postmark((), self.trace)
        inlet = table.inlet
        if inlet is None:
            inlet = table.inlet = Inlet(cell, table._taken)
        table.waiting[tick] = self
        inlet.put(tick)

    def has_ended(self) -> bool:
        """Whether nothing is permitted any more under the authority that it was set under, or to the actor at all."""
        cell = self.table.cell
        try:
            derivation.check_alive(cell.kernel, self.security, cell)
            derivation.check_alive(cell.kernel, cell.grant, cell)
        except Exception:  # ended, forged, or not to be told: the gate says which, to the tick
            return True
        return False


class TimerTable:
    """The timers of one actor's instance; `Extra.timers` while there is one.

    A key's own methods are anybody's code. They are called where the actor names a key, and nowhere else: what is taken out is taken out by identity.

    Attributes:
        timers: The timers that may tick, or whose tick waits, by the number of their place: that of the first timer of that key.
        by_hash: The same by their keys' hashes.
        waiting: The ticks that wait.
        inlet: Where they wait; None while none does, for most timers of idle actors are far from due.
        taken: The last tick that left for its turn, and its timer, while that goes on.
    """

    __slots__ = ("_places", "by_hash", "cell", "inlet", "taken", "timers", "waiting")

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.timers: dict[int, _Timer] = {}
        self.by_hash: dict[int, list[_Timer]] = {}
        self.waiting: dict[Delivery, _Timer] = {}
        self.inlet: Inlet | None = None
        self.taken: tuple[Delivery, _Timer] | None = None
        self._places = 0

    def find(self, key: Hashable) -> _Timer | None:
        """The timer of that key. Raises what the key's own methods raise."""
        for timer in self.by_hash.get(hash(key), ()):
            if timer.key is key or timer.key == key:
                return timer
        return None

    def add(self, timer: _Timer, key_hash: int, old: _Timer | None) -> None:
        """One more timer, or one in the place of an old one."""
        if old is None:
            self._places += 1
            timer.place = self._places
            timer.hash = key_hash
            self.by_hash.setdefault(key_hash, []).append(timer)
        else:
            timer.place, timer.hash, timer.key = old.place, old.hash, old.key
            self.by_hash[old.hash] = [timer if one is old else one for one in self.by_hash[old.hash]]
        self.timers[timer.place] = timer

    def remove(self, timer: _Timer) -> bool:
        """Takes it out; False where it is not there any more."""
        if self.timers.get(timer.place) is not timer:
            return False
        del self.timers[timer.place]
        left = [one for one in self.by_hash[timer.hash] if one is not timer]
        if left:
            self.by_hash[timer.hash] = left
        else:
            del self.by_hash[timer.hash]
        return True

    def _taken(self, tick: Delivery) -> None:
        """A tick has left for its turn: whatever is done to its timer from now on, the actor has it."""
        timer = self.waiting.pop(tick)
        timer.tick = None
        self._leave_inlet()
        if timer.entry is None or timer.has_ended():
            self.drop(timer)
        else:
            self.taken = tick, timer

    def refused(self, tick: Delivery, error: BaseException) -> None:
        """Something was refused while this message was handled. Where that was a tick, and the gate that refused it, its timer ends: it would be refused for ever."""
        taken, self.taken = self.taken, None
        if taken is None or taken[0] is not tick:
            return
        timer = taken[1]
        operation = timer.handler.requires
        by_gate = (
            operation is not None and getattr(error, "operation", None) == operation and getattr(error, "path", None) == self.cell.path
        )
        if by_gate and self.timers.get(timer.place) is timer:
            self.end(timer)
            self.drop(timer)
            _log.warning("%s: a timer has ended, for its %s was refused", self.cell.path, type(timer.message).__qualname__)

    def drop(self, timer: _Timer) -> None:
        """Forgets a timer that will not tick any more, once its last tick was taken."""
        timer.disarm()
        if timer.tick is None and self.remove(timer):
            self._leave_if_empty()

    def end(self, timer: _Timer) -> None:
        """Ends a timer at once: a tick of it that waits becomes a dead letter."""
        timer.disarm()
        tick = timer.tick
        if tick is not None:
            timer.tick = None
            self.waiting.pop(tick, None)
            if self.inlet is not None and self.inlet.discard(tick):
                self.cell.kernel.record("cancelled", tick)
            self._leave_inlet()

    def clear(self) -> int:
        """Ends all of them; returns how many."""
        timers = list(self.timers.values())
        self.timers.clear()
        self.by_hash.clear()
        for timer in timers:
            self.end(timer)
        self._leave_if_empty()
        return len(timers)

    def _leave_inlet(self) -> None:
        if not self.waiting:
            self.inlet = None

    def _leave_if_empty(self) -> None:
        extra = self.cell.extra
        if not self.timers and extra is not None and extra.timers is self:
            extra.timers = None


def clear_timers(cell: Cell) -> None:
    """Ends all timers of an actor: its instance ends."""
    extra = cell.extra
    if extra is not None and extra.timers is not None:
        extra.timers.clear()


def armed_of(cell: Cell) -> int:
    """How many timers of the actor will tick."""
    table = cell.extra.timers if cell.extra is not None else None
    return sum(timer.entry is not None for timer in table.timers.values()) if table is not None else 0


class Timers:
    """An actor's timers: `self.ctx.timers`. To be used where the rest of `self.ctx` is: in handlers, hooks, `run` and owned tasks, and in a blocking actor's own thread.

    Each timer has a key. Setting a key again replaces its timer; after that, and after `cancel`, a restart or a stop, the actor never sees a tick of the old one, even if
    one was waiting already (it is a dead letter with the reason "cancelled" or "stopped"). All timers end with the actor's instance, before `on_stop` runs: set them in
    `on_start`, and they are there again after a restart.

    A tick is a message from the actor to itself (`self.ctx.sender` is its own ref), under the authority of the turn that set the timer and without that turn's deadline
    and approvals. It waits beside the mailbox, so a full mailbox does not keep it out. At most one tick of a key waits. A timer ends with the first tick that the gate
    refuses: its authority has expired, was revoked or does not permit it, a budget is used up, a policy says no.
    """

    __slots__ = ("_cell", "_turn")

    def __init__(self, cell: Cell, turn: Callable[[], Delivery]) -> None:
        self._cell = cell
        self._turn = turn

    def __reduce__(self) -> NoReturn:
        raise TypeError("an actor's timers cannot be copied or pickled")

    def once(self, key: Hashable, message: Message, after: float, *, context: SecurityContext | None = None) -> None:
        """Sends the actor a message after some seconds, unless the key is set again or cancelled before it is handled.

        Args:
            key: Names the timer within the actor: any hashable value.
            message: What the actor will get; it must have a handler for it, and the answer goes nowhere.
            after: Seconds from now on, 0 or more.
            context: A context narrowed from the current one, for the tick to carry. Default: the current one.

        Raises:
            Unhandled: The actor has no handler for the message.
            DefinitionError: `after` is no such number, the key is not hashable, or the actor has 1,024 timers already.
            Denied: `context` does not descend from the current one, or is an actor's own authority, which is for its turn alone.
            Revoked: `context` was revoked.
            NoContext: This is no turn of the actor, or the actor is stopping.
        """
        self._set(key, message, _seconds("after", after, 0.0), None, context)

    def every(
        self,
        key: Hashable,
        message: Message,
        interval: float,
        *,
        first: float | None = None,
        context: SecurityContext | None = None,
    ) -> None:
        """Sends the actor a message again and again, until the key is set again or cancelled.

        The ticks come due a whole number of intervals after the first one, however long each takes to be handled, so the timer does not drift. A tick that comes due
        while one of the same key still waits is skipped (`skipped`).

        Args:
            key, message, context: As for `once`.
            interval: Seconds between two ticks, 0.001 or more.
            first: Seconds until the first tick, 0 or more. Default: one interval.

        Raises: as `once`.
        """
        seconds = _seconds("interval", interval, MIN_INTERVAL)
        self._set(key, message, seconds if first is None else _seconds("first", first, 0.0), seconds, context)

    def cancel(self, key: Hashable) -> bool:
        """Ends a timer; a tick of it that waits is never seen. False where there is none of that key, any more or at all."""
        return self._here(_cancel, self._cell, key)

    def cancel_all(self) -> int:
        """Ends all timers of the actor; returns how many there were."""
        return self._here(_cancel_all, self._cell)

    def keys(self) -> tuple[Hashable, ...]:
        """The keys of the timers that will tick, or whose tick waits, in the order in which they were first set."""
        return self._here(_keys, self._cell)

    def skipped(self, key: Hashable) -> int:
        """How many ticks of a timer were skipped since it was set, because one waited or nobody could look at the clock in time. 0 where there is no such timer."""
        return self._here(_skipped, self._cell, key)

    def __contains__(self, key: Hashable) -> bool:
        """Whether there is a timer of that key: it will tick, or its tick waits."""
        return self._here(_contains, self._cell, key)

    def __len__(self) -> int:
        """How many timers there are."""
        return len(self.keys())

    def __bool__(self) -> bool:  # without any it is still the actor's timers
        return True

    def _here(self, function: Callable[..., T], *arguments: Any) -> T:
        """Calls a function in the system's own thread."""
        check_stack(STEP_DEPTH)
        if self._turn().thread:
            found: T = self._cell.kernel.portal.call(function, *arguments)
            return found
        return function(*arguments)

    def _set(self, key: Hashable, message: Any, after: float, interval: float | None, context: SecurityContext | None) -> None:
        turn = self._turn()
        cell = self._cell
        kernel = cell.kernel
        handler = kernel.find_handler(cell, message)
        if handler.streams:
            raise Unhandled(
                f"{type(message).__qualname__} is answered by a stream, which a timer cannot read: give it a message of its own"
            )
        _check_key(key)
        security = derivation.lasting(kernel, turn, context, cell)
        if kernel.loopback is not None and not kernel.household.owns(cell):
            message = kernel.loopback.message(message)
        trace = trace_of(turn)
        self._here(_put, cell, key, message, handler, security, trace, after, interval)


def _put(
    cell: Cell,
    key: Hashable,
    message: Any,
    handler: HandlerInfo,
    security: SecurityContext,
    trace: str | None,
    after: float,
    interval: float | None,
) -> None:
    if cell.closed:
        raise NoContext(f"{cell.path} is stopping and sets no more timers")
    extra = cell.extras()
    key_hash, old = hash(key), _find(cell, key)
    table = extra.timers
    if table is None:
        table = TimerTable(cell)
    if old is not None and table.timers.get(old.place) is not old:
        old = None  # the key's own methods have cancelled it
    if old is not None:
        table.end(old)
    elif len(table.timers) >= MAX_TIMERS:
        raise DefinitionError(
            f"{cell.path} has {MAX_TIMERS} timers, and no actor has more: cancel some, or let one timer serve several purposes"
        )
    timer = _Timer(table, key, message, handler, security, trace)
    timer.interval = interval
    table.add(timer, key_hash, old)
    extra.timers = table
    timer.start = trio.current_time() + after
    timer.arm(timer.start)


def _cancel(cell: Cell, key: Hashable) -> bool:
    timer = _find(cell, key)
    if timer is None:
        return False
    timer.table.remove(timer)
    timer.table.end(timer)
    timer.table._leave_if_empty()
    return True


def _cancel_all(cell: Cell) -> int:
    table = cell.extra.timers if cell.extra is not None else None
    return table.clear() if table is not None else 0


def _keys(cell: Cell) -> tuple[Hashable, ...]:
    table = cell.extra.timers if cell.extra is not None else None
    return tuple(timer.key for timer in table.timers.values()) if table is not None else ()


def _skipped(cell: Cell, key: Hashable) -> int:
    timer = _find(cell, key)
    return timer.skipped if timer is not None else 0


def _contains(cell: Cell, key: Hashable) -> bool:
    return _find(cell, key) is not None


def _find(cell: Cell, key: Hashable) -> _Timer | None:
    _check_key(key)
    table = cell.extra.timers if cell.extra is not None else None
    return table.find(key) if table is not None else None


def _check_key(key: object) -> None:
    try:
        hash(key)
    except Exception as error:
        raise DefinitionError(
            f"a timer's key must be hashable, and an object of type {type(key).__qualname__} is not: give a text or a tuple"
        ) from error


def _seconds(name: str, value: object, least: float) -> float:
    """A finite number of seconds, else a DefinitionError."""
    problem = f"give seconds, {least:g} or more"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DefinitionError(f"{name}={value!r}: {problem}")
    try:
        seconds = float(value)
    except OverflowError:  # an int that not even a text may be able to show
        raise DefinitionError(f"{name}= is an int of too many digits: {problem}") from None
    if not least <= seconds < math.inf:
        raise DefinitionError(f"{name}={value!r}: {problem}, and no more than a clock can tell")
    return seconds
