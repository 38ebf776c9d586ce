"""The cell: all that an actor is to the runtime. Passive: an idle one has no task, no queue object and no context of its own.

The first waiting message sits in the cell itself (`head`); a deque comes only with the second, which saves 760 bytes for every actor that never has two.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, ClassVar, Final

from retinue.actors.runtime.actor import Actor, is_resident
from retinue.actors.runtime.depths import STEP_DEPTH, check_stack
from retinue.actors.runtime.receipts import ACCEPTED, CLOSED, DROPPED_NEWEST, FULL, MISPLACED, STOPPED, Receipt
from retinue.actors.runtime.topic_notices import PRIVATE
from retinue.actors.runtime.watch import Terminated
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from retinue.actors.runtime.actor import HandlerInfo
    from retinue.actors.runtime.asks import AskSlot, RoomSlot
    from retinue.actors.runtime.context import ActorContext
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.deadlines import Entry
    from retinue.actors.runtime.inlets import Inlet
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.ref import Ref
    from retinue.actors.runtime.supervision import Supervision
    from retinue.actors.runtime.tasks import OwnedTask
    from retinue.actors.runtime.timers import TimerTable
    from retinue.actors.runtime.virtual_regions import Region
    from retinue.actors.runtime.watch import StopReason, Watch
    from retinue.mailbox.messages import Message
    from retinue.mailbox.queues import Mailbox, Queue
    from retinue.security.context import SecurityContext

__all__ = ["DEAD", "IDLE", "READY", "RUNNING", "WAITING", "Cell", "Extra", "Spec"]

IDLE: Final = 0  # no mail, nobody runs it
READY: Final = 1  # in the ready queue
RUNNING: Final = 2  # a worker, or an asker in its own task, runs a turn of it (perhaps suspended)
WAITING: Final = 3  # between a failure and its delayed restart: takes mail, runs nothing
DEAD: Final = 4  # stopped for good

STATE_NAMES: Final = ("idle", "ready", "running", "waiting to restart", "stopped")


class Spec:
    """What actors spawned alike share.

    Attributes:
        cls: The actor's class.
        handlers: Its handlers by message type; grows by look-ups of subclasses.
        notice: Its handler for `Terminated`, if it has one.
        private: Its handlers for what else only the runtime sends.
        supervision: What happens when it fails.
        mailbox: How its mail waits.
        region: What the actor is a virtual actor of, if it is one.
        room: Messages that may wait in `Cell.box`, beside the one in `Cell.head`; none where a queue holds the mail.
        coerces: Whether the class makes messages of what it has no handler for.
        special: Whether the mailbox is anything but first in, first out.
        hooked: Whether starting or stopping it may have to wait (hooks, a thread, a resident loop).
        kind: The kind of cell.
    """

    __slots__ = (
        "cls", "coerces", "handlers", "has_init", "has_start", "has_stop", "hooked", "kind", "mailbox", "notice", "private", "region", "resident", "room", "special", "supervision",
    )  # fmt: skip

    def __init__(self, cls: type[Actor], handlers: dict[type[Message], HandlerInfo], supervision: Supervision, mailbox: Mailbox) -> None:
        self.cls = cls
        self.coerces = cls.coerce.__func__ is not Actor.coerce.__func__  # type: ignore[attr-defined]  # bound methods, both
        self.notice = handlers.pop(Terminated, None)  # the runtime's to send: what others tell under its name finds no handler
        self.private = {kind: handlers.pop(kind) for kind in PRIVATE if kind in handlers}
        self.handlers = handlers
        self.supervision = supervision
        self.mailbox = mailbox
        self.special = mailbox.kind != "fifo"
        self.room = 0 if self.special else mailbox.capacity - 1
        self.region: Region | None = None
        self.has_init = cls.__init__ is not Actor.__init__
        self.has_start = cls.on_start is not Actor.on_start
        self.has_stop = cls.on_stop is not Actor.on_stop
        self.resident = is_resident(cls)
        self.hooked = self.has_start or self.resident or cls.blocking
        self.kind: type[Cell] = Cell


class Extra:
    """What only some cells need, made when the first of it is needed.

    Attributes:
        watchers: Who waits for the end of the actor.
        tasks: The tasks that the actor owns, its resident loop included.
        stash: Messages put aside, oldest first.
        waiters: Who waits for room: deliveries, in order, with the slot of a waiting `send` (None for an ask).
        deferred: Reply slots that handlers took away to answer later.
        withdrawn: How many entries of the mailbox were withdrawn by their askers and still take place in it.
        history: When the last restarts happened, for the intensity.
        delay: Seconds that the next restart waits.
        failures, restarts: How often.
        cause: The error that the actor ended with. (An error that it survived would hold the old instance, by its traceback.)
        reason: Why the actor has stopped, where it was anything but a plain stop.
        host: The thread of a blocking actor.
        incarnation: How often the actor's instance was replaced.
        notices: How many messages at the front of the mailbox are notices of the runtime's.
        inlets: Mail that has a room of its own beside the mailbox, where some waits there; whose turn is next stands first.
        guest: The inlet whose first item waits in `Cell.head`, if it is one's.
        ties: What hears of the actor's end in the same step, by its `cut()`: subscriptions, and what it is registered for.
        timers: The timers of the actor's instance, where it has some.
        stop_by: When a stop cuts off what the actor is busy with.
        limit: The deadline that does so.
        ending: The last `on_stop` runs.
        restarting: The actor waits for its children to end, to be restarted.
        revival: The deadline at which it is made anew, while a restart is delayed.
    """

    __slots__ = (
        "cause", "deferred", "delay", "ending", "failures", "guest", "history", "host", "incarnation", "inlets", "limit", "notices", "reason", "restarting", "restarts", "revival", "stash", "stop_by",
        "tasks", "ties", "timers", "waiters", "watchers", "withdrawn",
    )  # fmt: skip

    def __init__(self) -> None:
        self.watchers: list[Watch] = []
        self.tasks: set[OwnedTask] = set()
        self.stash: deque[Delivery] = deque()
        self.waiters: OrderedDict[Delivery, RoomSlot | None] = OrderedDict()
        self.deferred: set[AskSlot] = set()
        self.withdrawn = 0
        self.history: deque[float] = deque()
        self.delay = 0.0
        self.failures = 0
        self.restarts = 0
        self.cause: BaseException | None = None
        self.reason: StopReason | None = None
        self.host: Any = None
        self.notices = 0
        self.inlets: list[Inlet] | None = None
        self.guest: Inlet | None = None
        self.ties: dict[Any, None] | None = None
        self.timers: TimerTable | None = None
        self.incarnation = 0
        self.stop_by = math.inf
        self.limit: Entry | None = None
        self.ending = False
        self.restarting = False
        self.revival: Entry | None = None


class Cell:
    """One actor. Everything in it is read and written in the system's own thread only.

    Attributes:
        state: One of the constants above.
        closed: A stop was asked for: no mail is taken any more.
        control: The control lane: stop, restart, failures of children. Drained before any mail.
        turn: The message in progress.
        name: Its name under its parent; an unnamed actor has a number.
        birth: Constructor arguments, or None without any.
        waited, worked: Seconds that mail waited until the actor got a turn, and that its turns took. Turns that askers ran themselves are sampled.
        gate_context, gate_handler, gate_security: The last (context, handler) that the gate admitted without looking at arguments, and what came out.
    """

    __slots__ = (
        "__weakref__", "actor", "birth", "box", "children", "closed", "context", "control", "extra", "facade", "gate_context", "gate_handler", "gate_security",
        "grant", "handled", "handlers", "head", "kernel", "name", "parent", "queue", "ready_at", "ref", "room", "spec", "state", "turn", "waited", "worked",
    )  # fmt: skip

    relays: ClassVar[bool] = False
    """Whether it runs nothing itself, and hands its mail to others (see `routing`)."""

    kernel: Kernel
    spec: Spec
    actor: Actor | None
    birth: tuple[tuple[Any, ...], dict[str, Any]] | None
    ref: Ref[Any]
    parent: Cell | None
    name: str | int
    children: dict[str | int, Cell] | None
    state: int
    closed: bool
    head: Delivery | None
    box: deque[Delivery] | None
    queue: Queue[Delivery] | None
    room: float
    control: deque[tuple[Callable[..., Any], tuple[Any, ...]]] | None
    turn: Delivery | None
    context: Any  # contextvars.Context | None; not spelled out, for the hot paths know that it is there
    grant: SecurityContext
    handlers: dict[type[Message], HandlerInfo]
    handled: int
    gate_context: SecurityContext | None
    gate_handler: HandlerInfo | None
    gate_security: Any
    facade: ActorContext | None
    extra: Extra | None
    ready_at: float
    waited: float
    worked: float

    @property
    def path(self) -> str:
        """The actor's address: `/user/shop/till`. An unnamed actor is called after its class: `/user/Till-7`."""
        parts: list[str] = []
        cell: Cell | None = self
        while cell is not None:
            name = cell.name
            parts.append(name if isinstance(name, str) else f"{cell.spec.cls.__name__}-{name}")
            cell = cell.parent
        return "/" + "/".join(reversed(parts))

    @property
    def state_name(self) -> str:
        """What statistics show for its state."""
        return STATE_NAMES[self.state]

    def extras(self) -> Extra:
        """The rarer parts, made at the first need."""
        extra = self.extra
        if extra is None:
            extra = self.extra = Extra()
        return extra

    def waiting(self) -> int:
        """Messages that wait: in the mailbox, beside it, stashed, and those that wait for room. The one in progress is not among them."""
        count = (self.head is not None) + (len(self.box) if self.box else 0) + (len(self.queue) if self.queue is not None else 0)
        extra = self.extra
        if extra is not None:
            count += len(extra.stash) + len(extra.waiters) - extra.withdrawn
            if extra.inlets:
                count += sum(map(len, extra.inlets)) - (extra.guest is not None)
        return count

    # -- taking mail in ----------------------------------------------------------------------------------------------------------------------------

    def enqueue(self, delivery: Delivery, *, patient: bool = False) -> Receipt:
        """Takes a message into the mailbox, or says why not. Makes no dead letter of the refused one: the caller does, with what it knows. What it raises (where
        the sender's stack is full, for one) it raises with nothing taken in: then the caller takes back that it was sent.

        Whoever is `patient` would rather wait for room than have others' mail dropped; askers always are.
        """
        if self.state == IDLE and self.queue is None and not self.closed:
            self.kernel.push(self)
            self.head = delivery
            self.state = READY
            return ACCEPTED
        if self.closed or self.state == DEAD:
            if self.spec.region is not None:
                return self.spec.region.take_in(self, delivery, patient)
            return STOPPED if not self.kernel.closing else CLOSED
        if self.queue is not None:
            return self._enqueue_special(delivery)
        if self.head is None:
            if self.kernel.missed:
                self.kernel.catch_up()
            self.head = delivery
        else:
            box = self.box
            if box is None:
                spare = self.kernel.spare_boxes
                box = self.box = spare.pop() if spare else deque()
            if len(box) >= self.room and not self._make_room(patient or delivery.slot is not None):
                return FULL if self.spec.mailbox.overflow != "drop_newest" else DROPPED_NEWEST
            if self.head is None:  # the room that was made is the head's
                self.head = delivery
            else:
                box.append(delivery)
        return ACCEPTED

    def _enqueue_special(self, delivery: Delivery) -> Receipt:
        queue = self.queue
        assert queue is not None
        check_stack(STEP_DEPTH)
        alone = delivery.slot is not None
        capacity = self.spec.mailbox.capacity
        if len(queue) >= capacity and self.extra is not None and self.extra.withdrawn:
            self.sweep()
        try:
            if len(queue) >= capacity and (alone or not queue.replaces(delivery.message)):
                return FULL
            if self.state == IDLE:
                self.kernel.push(self)
                self.state = READY
            replaced = queue.push(delivery, delivery.message, alone=alone)
        except RecursionError:  # the sender's stack is full
            raise
        except Exception as error:
            raise DefinitionError(self._no_key(delivery)) from error
        if replaced is not None:
            self.kernel.refuse(replaced, "conflated")
        return ACCEPTED

    def _no_key(self, delivery: Delivery) -> str:
        return (
            f"the {self.spec.mailbox.kind} mailbox of {self.path} cannot place {type(delivery.message).__qualname__}: its key raised, or gave what cannot be "
            "compared or hashed; give a key that suits every message that the actor takes"
        )

    def _make_room(self, patient: bool) -> bool:
        """Tries to make room in a full box: sweeps out withdrawn requests first, then what the overflow policy gives up."""
        box, extra = self.box, self.extra
        assert box is not None
        check_stack(STEP_DEPTH)
        if extra is not None and extra.waiters:
            return False  # nobody overtakes those who wait for room
        if extra is not None and self._has_room(extra, box):
            return True
        if extra is not None and extra.withdrawn:
            self.sweep()
            if self._has_room(extra, box):
                return True
        overflow = self.spec.mailbox.overflow
        if patient or overflow in ("reject", "wait"):
            return False
        victim = self._victim(oldest=overflow == "drop_oldest")
        if victim is None:
            return False
        self.kernel.refuse(victim, "dropped_oldest" if overflow == "drop_oldest" else "dropped_newest")
        return True

    def _has_room(self, extra: Extra, box: deque[Delivery]) -> bool:
        """Whether one more may wait. What a guest in the head takes is no room of the mailbox's."""
        return self.head is None or len(box) < self.room + (extra.guest is not None)

    def _victim(self, *, oldest: bool) -> Delivery | None:
        """Takes the oldest or newest tell out of the mailbox; requests stay, somebody waits for each of them, and so do notices."""
        box = self.box
        assert box is not None
        notice, head = self.spec.notice, self.head
        guest = self.extra is not None and self.extra.guest is not None
        droppable = head is not None and head.slot is None and (notice is None or head.handler is not notice) and not guest
        if oldest and droppable:
            self.head = box.popleft() if box else None
            return head
        for index in range(len(box)) if oldest else range(len(box) - 1, -1, -1):
            victim = box[index]
            if victim.slot is None and (notice is None or victim.handler is not notice):
                del box[index]
                return victim
        if droppable:
            self.head = box.popleft() if box else None
            return head
        return None

    def withdrew(self) -> None:
        """A request that waits was withdrawn: it is skipped when its turn comes, or swept out with others before."""
        extra = self.extras()
        extra.withdrawn += 1
        if extra.withdrawn > 32 and extra.withdrawn * 2 > len(self.queue if self.queue is not None else self.box or ()):
            self.sweep()

    def sweep(self) -> None:
        """Takes the withdrawn requests out of the mailbox and the stash, so that they take no room and no memory."""
        extra = self.extra
        assert extra is not None
        kept = [d for d in ([self.head] if self.head is not None else []) + list(self.box or ()) if not _withdrawn(d)]
        extra.withdrawn = 0
        self.head = kept[0] if kept else None
        if self.box is not None:
            self.box.clear()
            self.box.extend(kept[1:])
        if self.queue is not None:
            self.queue.remove(_withdrawn)
        if extra.stash:
            extra.stash = deque(d for d in extra.stash if not _withdrawn(d))
        if extra.waiters:
            self.admit_waiters()
        self.refill()

    # -- giving mail out ---------------------------------------------------------------------------------------------------------------------------

    def take(self) -> Delivery | None:
        """The next message, or None. Lets in who waits for room. (The scheduler spells the plain case out.)"""
        extra = self.extra
        if extra is not None and extra.inlets:
            return self._take_in_turns(extra)
        delivery = self.head
        if delivery is not None:
            box = self.box
            self.head = box.popleft() if box else None
        elif self.queue is not None and len(self.queue):
            delivery = self.queue.pop()
        if extra is not None:
            if extra.notices:
                extra.notices -= 1
            if extra.waiters:
                self.admit_waiters()
        return delivery

    def _take_in_turns(self, extra: Extra) -> Delivery | None:
        """As `take`, where mail waits beside the mailbox: one from the mailbox, one from an inlet, and the inlets in turn."""
        guest, box, delivery = extra.guest, self.box, self.head
        if guest is not None:
            self.head = box.popleft() if box else None
            guest.leave(extra)
        else:
            if delivery is None and self.queue is not None and len(self.queue):
                delivery = self.queue.pop()
            if extra.notices:
                extra.notices -= 1
            self.head = box.popleft() if extra.notices and box else None  # notices come first
            if self.head is None and extra.inlets:
                extra.inlets[0].seat(extra)
        if extra.waiters:
            self.admit_waiters()
        if extra.inlets and self.head is None:
            self.refill()
        if guest is not None and guest.on_taken is not None:
            assert delivery is not None
            guest.on_taken(delivery)
        return delivery

    def refill(self) -> None:
        """Keeps what holds between any two steps: where mail waits beside the mailbox, some waits in it, so that nobody has to look beside it."""
        extra = self.extra
        if extra is not None and extra.inlets and self.head is None and not (self.queue is not None and len(self.queue)):
            extra.inlets[0].seat(extra)

    def admit_waiters(self) -> None:
        """Lets those in who wait for room, in their order, as far as there is room."""
        extra = self.extra
        assert extra is not None
        waiters = extra.waiters
        while waiters:
            delivery, room_slot = next(iter(waiters.items()))
            if self.queue is not None:
                if len(self.queue) >= self.spec.mailbox.capacity:
                    return
                try:
                    self.queue.push(delivery, delivery.message, alone=True)
                except Exception as error:
                    waiters.popitem(last=False)
                    self._misplaced(delivery, room_slot, error)
                    continue
            elif self.head is None:
                self.head = delivery
            else:
                if self.box is None:
                    self.box = deque()
                if len(self.box) >= self.room + (extra.guest is not None):
                    return
                self.box.append(delivery)
            waiters.popitem(last=False)
            if room_slot is not None:
                room_slot.answer(ACCEPTED)
            elif delivery.slot is not None:
                delivery.slot.admitted()

    def _misplaced(self, delivery: Delivery, room_slot: RoomSlot | None, error: Exception) -> None:
        self.kernel.record("poison", delivery, error)
        if room_slot is not None:
            room_slot.answer(MISPLACED)
        elif delivery.slot is not None:
            failure = DefinitionError(self._no_key(delivery))
            failure.__cause__ = error
            delivery.slot.fail(failure)

    def settle(self) -> None:
        """Ends a turn: idle, or back into the ready queue."""
        self.turn = None
        if self.state == DEAD:
            return
        if self.control:
            self.get_ready()
        elif self.actor is None:
            self.state = WAITING
        elif self.head is not None or (self.queue is not None and len(self.queue)):
            self.get_ready()
        else:
            self.state = IDLE
            if self.box is not None:
                self.drop_box()

    def get_ready(self) -> None:
        """Puts the cell back into the ready queue. Does not raise where an asker's handler could be called."""
        self.state = READY
        try:
            self.kernel.push(self)
        except RecursionError:  # an asker's stack is full; whoever comes next wakes a worker
            self.kernel.missed = True
            self.kernel.ready.append(self)

    def push_front(self, delivery: Delivery) -> None:
        """Puts a message before all others, whatever the capacity: unstashed mail, for one."""
        if self.state == IDLE:
            self.kernel.push(self)
            self.state = READY
        if self.extra is not None:
            self.extra.notices = 0  # those that still wait are behind it now
            if self.extra.guest is not None:
                self.extra.guest = self.head = None  # it goes back to its inlet, where it still is the first
        if self.head is not None:
            if self.box is None:
                self.box = deque()
            self.box.appendleft(self.head)
        self.head = delivery

    def push_notice(self, delivery: Delivery) -> None:
        """Puts a notice of the runtime's before all mail, and behind the notices that came before it."""
        extra = self.extras()
        before = extra.notices
        if before and self.head is not None:
            if self.box is None:
                self.box = deque()
            self.box.insert(before - 1, delivery)
        else:
            before = 0
            self.push_front(delivery)
        extra.notices = before + 1

    def drop_notices(self) -> list[Delivery]:
        """Takes out the notices that wait: the incarnation that they are for has ended."""
        notice = self.spec.notice
        mail = ([self.head] if self.head is not None else []) + list(self.box or ())
        dropped = [d for d in mail if notice is not None and d.handler is notice]
        if dropped:
            kept = [d for d in mail if d.handler is not notice]
            self.head = kept[0] if kept else None
            self.box = deque(kept[1:])
        if self.extra is not None:
            self.extra.notices = 0
            if self.extra.waiters:
                self.admit_waiters()
        self.refill()
        return dropped

    def hand_back(self, delivery: Delivery) -> bool:  # noqa: ARG002 - for workers of a pool
        """Whether somebody else tries the message that this one has failed on."""
        return False

    def drop_box(self) -> None:
        """Gives an empty deque back: an idle cell should not hold one."""
        box = self.box
        if box is not None and not box:
            self.box = None
            spare = self.kernel.spare_boxes
            if len(spare) < 64:
                spare.append(box)

    def signal(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Puts an entry into the control lane: `function(cell, *arguments)` runs, in a worker, before the next message. It may be `async def`."""
        if self.state == DEAD:
            return
        if self.state in (IDLE, WAITING):
            self.kernel.push(self)
            self.state = READY
        elif self.kernel.missed:
            self.kernel.catch_up()
        control = self.control
        if control is None:
            control = self.control = deque()
        control.append((function, arguments))

    def mail(self) -> list[Delivery]:
        """Everything that waits, those included that wait for room."""
        extra = self.extra
        mail = [] if self.head is None or (extra is not None and extra.guest is not None) else [self.head]
        mail.extend(self.box or ())
        if self.queue is not None:
            mail.extend(self.queue.items())
        if extra is not None:
            mail.extend(extra.stash)
            mail.extend(extra.waiters)
            for inlet in extra.inlets or ():
                mail.extend(inlet.items())
        return mail

    def clear_mail(self) -> list[Delivery]:
        """Takes out everything that waits, in order."""
        mail: list[Delivery] = []
        extra = self.extra
        if extra is not None:
            mail.extend(extra.stash)
            extra.stash.clear()
            for inlet in tuple(extra.inlets or ()):
                mail.extend(inlet.clear())
        if self.head is not None:
            mail.append(self.head)
            self.head = None
        if self.box is not None:
            mail.extend(self.box)
            self.box = None
        if self.queue is not None:
            while len(self.queue):
                mail.append(self.queue.pop())
        if extra is not None:
            mail = [d for d in mail if not _withdrawn(d)]
            extra.withdrawn = extra.notices = 0
        return mail


def _withdrawn(delivery: Delivery) -> bool:
    return delivery.slot is not None and delivery.slot.withdrawn
