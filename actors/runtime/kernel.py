"""The kernel: everything that one running system has exactly one of. `ActorSystem` is its public face."""

from __future__ import annotations

import contextvars
import logging
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

import trio
from trio.lowlevel import enable_ki_protection

from retinue.actors.runtime import derivation, lifecycle
from retinue.actors.runtime.actor import Actor, handlers_of, ready_class
from retinue.actors.runtime.asking import prepare
from retinue.actors.runtime.asks import StartSlot, stopped_error
from retinue.actors.runtime.cell import DEAD, IDLE, WAITING, Cell, Spec
from retinue.actors.runtime.coercing import addressed
from retinue.actors.runtime.current import Delivery, current, make_delivery
from retinue.actors.runtime.cycles import add_wait, drop_wait
from retinue.actors.runtime.deadlines import Deadlines
from retinue.actors.runtime.depths import STEP_DEPTH, check_stack
from retinue.actors.runtime.door import Door
from retinue.actors.runtime.errors import NameTaken, SystemClosed, WrongThread
from retinue.actors.runtime.events import EventRing
from retinue.actors.runtime.handlers import ASYNC, HandlerInfo
from retinue.actors.runtime.household import Household
from retinue.actors.runtime.names import Names, check_name
from retinue.actors.runtime.portal import Portal
from retinue.actors.runtime.receipts import ACCEPTED, CLOSED, Receipt
from retinue.actors.runtime.receptionist import Receptionist
from retinue.actors.runtime.ref import Ref, new_cell
from retinue.actors.runtime.scheduler import Scheduler, run_seed, worker
from retinue.actors.runtime.supervision import DEFAULT_SUPERVISION, Supervision
from retinue.actors.runtime.topic_notices import PRIVATE
from retinue.actors.runtime.topics import Topics
from retinue.actors.runtime.watch import StopReason, Terminated, Watch, terminated_of
from retinue.capabilities.gate import Gate
from retinue.mailbox.errors import Unhandled
from retinue.mailbox.letters import DeadLetters
from retinue.mailbox.messages import Message, message_info
from retinue.mailbox.queues import Mailbox
from retinue.security.authority import Authority
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.auditing import AuditBook
    from retinue.actors.runtime.carrying import Approvals
    from retinue.actors.runtime.loopback import Loopback
    from retinue.security.context import SecurityContext

__all__ = ["DEFAULT_MAILBOX", "Guardian", "Kernel"]

_log = logging.getLogger("retinue.runtime")

T = TypeVar("T")

DEFAULT_MAILBOX = Mailbox()
ASK_TIMEOUT = 30.0
START_TIMEOUT = 120.0
STOP_GRACE = 5.0


class Guardian(Actor):
    """The actor behind `/user`: the parent of what the system's holder spawns; and the one behind `/system`. It handles nothing."""

    __slots__ = ()


class Kernel(Scheduler):
    """One running system.

    Attributes:
        thread: The id of the thread that runs it; everything but the portal is touched there only.
        roots: The mark of the task that entered the system.
        root: The context that this task acts under.
        door: What asks the gate.
        book: What is recorded in.
        labelled: Whether any authority in the system has a label, so that answers are looked at for labels.
        owned: The contexts that turns took as their actors' own authority.
        sent: Messages sent so far.
        asks: Messages sent so far that went without the queue, handled in their askers' own tasks; not among `sent`. One in 64 breathes.
        timers: Actors' timers that will tick.
        breaths: What else never suspends by itself (spawns, refused asks); one in 64 breathes.
        threads: What works for actors in threads of their own, from its start to its end; each says what in `working`.
        faults: What injects faults (`retinue.testing.Faults`), while a test does; else None.
        user: The cell of `/user`.
        household: The system's own actors, under `/system`.
    """

    def __init__(
        self,
        name: str,
        authority: Authority,
        gate: Gate,
        *,
        policies: bool,
        registry: bool,
        book: AuditBook,
        strict: bool,
        seed: int | None,
        ask_timeout: float,
        start_timeout: float,
        grace: float,
        loopback: bool,
        events: int,
    ) -> None:
        super().__init__(seed)
        self.name = name
        self.authority = authority
        self.gate = gate
        self.book = book
        self.labelled = bool(authority.root.labels)
        self.owned: weakref.WeakKeyDictionary[SecurityContext, Delivery] = weakref.WeakKeyDictionary()
        self.door = Door(self, gate, policies=policies, registry=registry)
        self.root: SecurityContext = authority.root
        self.strict = strict
        self.ask_timeout = ask_timeout
        self.start_timeout = start_timeout
        self.grace = grace
        self.stop_grace = min(grace, STOP_GRACE) if grace else STOP_GRACE
        self.thread = 0
        self.roots: Any = None
        self.sent = 0
        self.asks = 0
        self.breaths = 0
        self.timers = 0
        self.retired_handled = 0
        self.spawned = 0
        self.stopped = 0
        self.leaked_threads = 0
        self.threads: set[Any] = set()
        self.letters = DeadLetters()
        self.deadlines = Deadlines()
        self.names = Names(self)
        self.topics = Topics(self)
        self.receptionist = Receptionist(self)
        self.portal = Portal(self)
        self.ring: EventRing | None = EventRing(events) if events else None
        self.loopback: Loopback | None = None
        self.faults: Any = None
        if loopback:
            from retinue.actors.runtime.loopback import Loopback

            self.loopback = Loopback(self)
        self.plain = seed is None and not loopback and not events
        self.inline_async = True
        self.hook_scopes: set[trio.CancelScope] = set()
        self._cancelling: deque[trio.CancelScope] | None = None
        self.fatal: BaseException | None = None
        self.on_fatal: Callable[[], None] | None = None
        self.template: contextvars.Context = contextvars.Context()
        self.nursery: trio.Nursery | None = None
        self.next_number = 0
        self._plain_specs: dict[object, Spec] = {}
        self._specs: dict[tuple[type[Actor], Supervision, Mailbox], Spec] = {}
        self.adopted: Any = None  # the pykka actors that have joined, once there is one; see hosts.adopted
        self.household = Household(self)
        self.user = self.make_guardian("user", self.root)

    # -- running -----------------------------------------------------------------------------------------------------------------------------------

    def begin(self, nursery: trio.Nursery, template: contextvars.Context) -> None:
        """Called once, in the task that enters the system, when the nursery is open."""
        self.gate.self_test()
        self.book.started(self.name, self.root)
        super().tidy()  # the first time is due then
        self.nursery = nursery
        self.template = template
        if (seed := run_seed.get()) is not None:
            self.follow(seed)
        if (watch_over := getattr(trio.lowlevel.current_clock(), "watch_over", None)) is not None:
            watch_over(self)  # a clock of tests that waits for our threads
        self.start_task(template, self.deadlines.run, name="deadlines")

    def start_task(self, context: contextvars.Context, function: Callable[..., Any], *arguments: Any, name: str) -> None:
        """Starts a task of the system in a copy of the given context."""
        if self.nursery is None:
            raise SystemClosed(f"the system {self.name!r} is closed")
        context.run(_start_soon, self.nursery, function, arguments, f"{self.name}: {name}")

    def start_worker(self) -> None:
        """Starts one more worker task."""
        self.start_task(self.template, worker, self, name="worker")

    def tidy(self) -> None:
        """Now and then, under load: writes down what was only counted."""
        super().tidy()
        self.door.flush()

    def crash(self, error: BaseException) -> None:
        """A handler raised SystemExit or KeyboardInterrupt: the whole system ends with it, after its slots were settled."""
        if self.fatal is None:
            self.fatal = error
            if self.on_fatal is not None:
                self.on_fatal()

    def context_of(self, cell: Cell) -> contextvars.Context:
        """The cell's own context variables, made when they are first needed."""
        context: contextvars.Context | None = cell.context
        if context is None:
            context = cell.context = self.template.copy()
        return context

    def check_thread(self, what: str, ref: Ref[Any]) -> None:
        """Raises WrongThread outside the system's own thread."""
        if get_ident() != self.thread:
            here = current()
            if here.__class__ is Delivery and here.cell.kernel is not self:
                raise WrongThread(
                    f"{ref.path} belongs to the system {self.name!r}, and is asked by {here.cell.path} of the system {here.cell.kernel.name!r}: actors, models and "
                    "members that are asked are of the same system; spawn it in that one, or reach the other through its gateway, rt.connect(url)"
                )
            raise WrongThread(
                f"ref.{what} of {ref.path} was called outside the thread that runs the system {self.name!r}; "
                "use tell(…, context=…) there, or retinue.sync / retinue.aio, or trio.from_thread.run(ref.ask, message)"
            )

    def make_host(self, cell: Cell) -> Any:
        """The thread of a blocking actor."""
        from retinue.actors.hosts.thread import ThreadHost

        return ThreadHost(cell)

    def system_actor(self, cls: type[Actor], *arguments: Any, name: str, **keywords: Any) -> Coroutine[Any, Any, Ref[Any]]:
        """Makes an actor of the system's own, under `/system`; see `household`."""
        return self.household.spawn(cls, arguments, keywords, name)

    def consult(self, function: Callable[..., Awaitable[T]], *arguments: Any, holder: bool = False) -> Coroutine[Any, Any, T]:
        """Runs an async function as the system, in a task of its own; see `household`."""
        return self.household.consult(function, *arguments, holder=holder)

    def event(self, cell: Cell, what: str, detail: str) -> None:
        """Notes an event, where the ring is on."""
        if self.ring is not None:
            self.ring.add(cell, what, detail)

    # -- authority ---------------------------------------------------------------------------------------------------------------------------------

    def guard(self) -> None:
        """Called before the authority makes anything: see `derivation`."""
        derivation.guard(self)

    def holding(self) -> None:
        """Called before anything is decided for the system's holder: see `derivation`."""
        derivation.holding(self)

    # -- messages ----------------------------------------------------------------------------------------------------------------------------------

    def find_handler(self, cell: Cell, message: Any) -> HandlerInfo:
        """The handler for the message's type or the nearest of its bases. Raises Unhandled with what the actor does take."""
        kind = message.__class__
        found = cell.handlers.get(kind)
        if found is not None:
            return found
        if not isinstance(message, Message):
            if isinstance(message, type) and issubclass(message, Message):
                raise Unhandled(f"{cell.path} was sent the class {message.__qualname__} itself; send an instance: {message.__name__}(…)")
            raise Unhandled(
                f"{cell.path} was sent {_short(message)}, which is no message; derive its class from rt.Message or rt.Request[…] with @rt.message"
            )
        message_info(kind)
        for base in kind.__mro__[1:]:
            found = cell.handlers.get(base)
            if found is not None:
                cell.handlers[kind] = found
                return found
        names = sorted({handler.info.label for handler in cell.handlers.values()})  # a look-up of a subclass adds its base's handler again
        text = f"{cell.path} ({cell.spec.cls.__qualname__}) has no handler for {kind.__qualname__}; it takes {', '.join(names) or 'no messages at all'}"
        if kind.__qualname__ in names:
            text += f". {kind.__qualname__} was defined again after the actor's class: define (or run) the actor's class again too, and spawn it"
        raise Unhandled(text)

    def tell_slowly(self, cell: Cell, message: Any, context: SecurityContext | None, approvals: Approvals) -> Receipt:
        """A tell that is out of the ordinary: from another thread, under another context, to an actor that may not take it…"""
        if get_ident() != self.thread:
            return self.portal.tell(cell, message, context, approvals)
        if (
            self.user.state == DEAD and context is None
        ):  # nobody's authority is in force any more, but a tell does not raise for what has ended
            handler, message = addressed(cell, message, streamed=False)
            return self.post(cell, make_delivery(cell, handler, message, self.root, None))
        delivery = prepare(cell, message, context, approvals, None, asked=False)
        if delivery.handler.streams:
            raise Unhandled(
                f"{type(message).__qualname__} is answered by a stream: use `async with ref.stream(message) as items`, not tell"
            )
        return self.post(cell, delivery)

    def take_in(self, cell: Cell, delivery: Delivery, *, patient: bool = False) -> Receipt:
        """Counts a message as sent and takes it into the mailbox, or says why not. While the system closes nothing comes in from outside."""
        self.sent += 1
        try:
            if self.missed:
                self.catch_up()
            if self.ring is not None:
                self.ring.add(cell, "sent", type(delivery.message).__qualname__)
            if self.closing and delivery.source is None:
                return CLOSED
            if self.faults is not None:
                return self.faults.take_in(cell, delivery, patient=patient)  # type: ignore[no-any-return]
            return cell.enqueue(delivery, patient=patient)
        except BaseException:
            self.sent -= 1  # what raises at the send site was never sent
            raise

    def post(self, cell: Cell, delivery: Delivery) -> Receipt:
        """Enqueues a prepared tell."""
        receipt = self.take_in(cell, delivery)
        if receipt is not ACCEPTED:
            try:
                self.record(receipt.reason or "stopped", delivery)
            except BaseException:
                self.sent -= 1
                raise
        return receipt

    def record(self, reason: str | None, delivery: Delivery, error: BaseException | None = None) -> None:
        """Makes a dead letter of a message."""
        if self.household.owns(delivery.cell):
            self.household.dead += 1
            _log.debug("%s did not handle a %s: %s", delivery.cell.path, type(delivery.message).__qualname__, reason)
            return
        if self.ring is not None and get_ident() == self.thread:  # the ring's clock is the loop's
            self.ring.add(delivery.cell, "dead_letter", f"{type(delivery.message).__qualname__}: {reason}")
        origin = delivery.origin
        self.letters.record(reason, delivery.message, delivery.cell.path, origin.path if origin is not None else None, error)  # type: ignore[arg-type]

    def refuse(self, delivery: Delivery, reason: str) -> None:
        """Makes a dead letter of a message that was in a mailbox, and tells its asker, if it has one."""
        self.record(reason, delivery)
        slot = delivery.slot
        if slot is not None:
            slot.fail(stopped_error(delivery))

    def gone(self, delivery: Delivery) -> Exception:
        """What an asker gets whose request was not even taken in."""
        if self.closing and not delivery.cell.closed:
            return SystemClosed(f"the system {self.name!r} is closing and takes no more messages ({delivery.cell.path} was asked)")
        return stopped_error(delivery)

    def late_reply(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        """Records an answer that nobody waits for any more."""
        if self.household.owns(delivery.cell):
            return
        origin = delivery.origin
        self.letters.record("late_reply", value, delivery.cell.path, origin.path if origin is not None else None, error)

    def cancel_turn(self, delivery: Delivery, *, force: bool = False) -> None:
        """Cancels a running turn where it can be cancelled. `force`: also one whose handler is shielded (the actor is being stopped)."""
        handler = delivery.handler
        if delivery.suspension is None or delivery.suspension.scope is None or (handler is not None and handler.shield and not force):
            return
        if delivery.thread:
            extra = delivery.cell.extra
            if force and extra is not None and extra.host is not None:
                extra.host.hurry(delivery)  # a thread cannot be cancelled, only waited for, or left
            return
        # Who waits in that turn gives up its own ask there and then, and comes back here: one after the other, however long the chain of askers is.
        waiting = self._cancelling
        if waiting is not None:
            waiting.append(delivery.suspension.scope)
            return
        self._cancelling = waiting = deque((delivery.suspension.scope,))
        try:
            while waiting:
                waiting.popleft().cancel()
        finally:
            self._cancelling = None

    def notify(self, watcher: Cell, terminated: Terminated) -> None:
        """Brings a Terminated to an actor that watches and has a handler for it, before its ordinary mail."""
        if watcher.state == DEAD or watcher.closed:
            return
        handler = watcher.spec.notice
        if handler is None:
            return
        self.sent += 1
        self.event(watcher, "sent", type(terminated).__qualname__)
        watcher.push_notice(make_delivery(watcher, handler, terminated, watcher.grant, None))

    # -- actors ------------------------------------------------------------------------------------------------------------------------------------

    def spec(self, cls: object, supervision: Supervision | None, mailbox: Mailbox | None, *, own: bool = False) -> Spec:
        """What actors spawned alike share; those of the household (`own`) share nothing. Raises DefinitionError for what cannot be spawned."""
        if own:
            return self._own_spec(ready_class(cls), supervision, mailbox)
        plain = supervision is None and mailbox is None
        key = None
        try:
            if plain and (known := self._plain_specs.get(cls)) is not None:
                return known
            key = (cls, DEFAULT_SUPERVISION if supervision is None else supervision, DEFAULT_MAILBOX if mailbox is None else mailbox)
            found = self._specs.get(key)  # type: ignore[arg-type]
        except TypeError:  # not even hashable
            found = None
        if found is not None:
            return found
        actor = ready_class(cls)
        assert key is not None  # an actor class can be hashed
        if supervision is not None and not isinstance(supervision, Supervision):
            raise DefinitionError(f"supervision={supervision!r}: give rt.Supervision(…)")
        if mailbox is not None and not isinstance(mailbox, Mailbox):
            raise DefinitionError(f"mailbox={mailbox!r}: give rt.Mailbox.bounded(…), .unbounded(), .priority(…) or .conflate(…)")
        handlers = handlers_of(actor)
        if self.strict:
            open_to_all = [
                handler.name
                for message, handler in handlers.items()
                if handler.requires is None and not handler.open_to_all and message not in (Terminated, *PRIVATE)
            ]
            if open_to_all:
                raise DefinitionError(
                    f"the system {self.name!r} is strict, and {actor.__qualname__}.{', '.join(open_to_all)} is open to all: give it @handler(requires=…)"
                )
        table = {message: self.door.prepared(handler) for message, handler in handlers.items()}
        if not self.inline_async:
            # Also those that may have to wait for a person's consent.
            table = {
                message: handler.by_worker() if handler.kind == ASYNC or handler.guarded else handler for message, handler in table.items()
            }
        made = Spec(actor, table, key[1], key[2])
        if self.loopback is not None:
            self.loopback.register(made)
        if len(self._specs) > 4096:
            self._specs.clear()
            self._plain_specs.clear()
        self._specs[key] = made  # type: ignore[index]
        if plain:
            self._plain_specs[cls] = made
        return made

    def _own_spec(self, actor: type[Actor], supervision: Supervision | None, mailbox: Mailbox | None) -> Spec:
        table = {message: handler.by_worker() for message, handler in handlers_of(actor).items()}
        return Spec(actor, table, supervision or DEFAULT_SUPERVISION, mailbox or DEFAULT_MAILBOX)

    def make_cell(
        self, parent: Cell, spec: Spec, name: str | None, grant: SecurityContext, birth: tuple[tuple[Any, ...], dict[str, Any]] | None
    ) -> Cell:
        """A new cell under its parent, not started yet: its mail waits."""
        if spec.hooked:
            self.check_room()
        else:
            check_stack(STEP_DEPTH // 2)  # for its end, should its constructor fail
        if parent.closed or (self.closing and parent is self.user):
            raise (
                SystemClosed(f"{parent.path} is stopping and takes no new actors")
                if parent.parent is not None
                else SystemClosed(f"the system {self.name!r} is closing and takes no new actors")
            )
        key: str | int
        if name is None:
            self.next_number = key = self.next_number + 1
        else:
            key = check_name(name)
            number = name.rpartition("-")[2]
            if number.isdecimal() and number.isascii():
                # It looks like the path of an unnamed actor: there must be none, and none in times to come.
                unnamed = parent.children.get(int(number)) if parent.children is not None else None
                if unnamed is not None and unnamed.path == f"{parent.path}/{name}":
                    raise NameTaken(f"{unnamed.path} is alive already; choose another name, or stop it first")
                self.next_number = max(self.next_number, int(number))
            if parent.children is not None and key in parent.children:
                raise NameTaken(f"{parent.path}/{name} is alive already; choose another name, or stop it first")
        cell = new_cell(self, parent, spec, key, grant)
        cell.birth = birth
        children = parent.children
        if children is None:
            children = parent.children = {}
        children[key] = cell
        if self.household.guardian is None or not self.household.owns(cell):
            self.spawned += 1
        return cell

    @enable_ki_protection
    async def spawn(
        self,
        parent: Cell,
        cls: object,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        name: str | None,
        grant: Any,
        mailbox: Mailbox | None,
        supervision: Supervision | None,
        former: Cell | None = None,
    ) -> Ref[Any]:
        """Makes and starts an actor; returns once it has started. Raises what its start raises; nothing is left of it then. With the grant of `former`, if there is one."""
        self.breaths += 1
        if not self.breaths & 63:
            await self.breathe(trio.lowlevel.checkpoint)  # a loop of spawns must be one that can be cancelled
        turn = current()
        security = derivation.child_grant(self, turn, parent, grant) if former is None else derivation.inherited(self, turn, former, parent)
        spec = self.spec(cls, supervision, mailbox, own=self.household.guardian is not None and self.household.owns(parent))
        cell = self.make_cell(parent, spec, name, security, (arguments, keywords) if arguments or keywords else None)
        if not spec.hooked:
            try:
                lifecycle.build(cell)
            except BaseException as error:
                cell.extras().cause = error
                lifecycle.finish(cell, StopReason.START_FAILED)
                raise
            if cell.state == WAITING:  # else its constructor did something that put it into the ready queue, as a stop does
                cell.state = IDLE
                if cell.head is not None or cell.control is not None or cell.queue is not None:
                    cell.settle()
            return cell.ref
        start = make_delivery(cell, None, None, security, None, turn if turn.__class__ is Delivery else None)
        slot = start.slot = StartSlot(self, start)
        cell.signal(lifecycle.start, slot)
        if turn.__class__ is Delivery:
            add_wait(turn, start)
        try:
            return await slot.wait()  # type: ignore[no-any-return]
        except BaseException:
            if cell.state != DEAD:
                cell.closed = True
                if start.suspension is not None:
                    start.suspension.scope.cancel()
                cell.signal(lifecycle.stop, StopReason.START_FAILED, 0.0)
            raise
        finally:
            if turn.__class__ is Delivery:
                drop_wait(turn, start)

    def watch(self, cell: Cell, watcher: Cell | None = None) -> Watch:
        """A watch on a cell, for outside or for the actor `watcher`."""
        watch = Watch(cell.ref, watcher)
        count = len(cell.extra.watchers) if cell.extra is not None else 0
        if cell.extra is not None and count >= 16 and not count & (count - 1):  # now and then, not each time
            cell.extra.watchers = [one for one in cell.extra.watchers if not one.stale]
        if cell.state == DEAD:
            watch.deliver(terminated_of(cell))
        else:
            cell.extras().watchers.append(watch)
        return watch

    @enable_ki_protection
    async def stop_cell(self, cell: Cell, grace: float | None) -> None:
        """`Ref.stop`, for whoever calls."""
        turn = derivation.acting(self)
        if turn is not None and turn.cell is cell:
            lifecycle.stop_itself(cell)
            return
        if turn is not None and turn.cell is not cell.parent:
            await self.door.admit_stop(turn, cell)
        watch = self.watch(cell)
        lifecycle.request_stop(cell, StopReason.STOPPED, None, grace)
        await watch.wait()

    def retire(self, cell: Cell) -> None:
        """Keeps the counts of an actor that has ended."""
        self.door.tally.retire(cell)
        if self.household.guardian is not None and self.household.owns(cell):
            self.household.handled += cell.handled
        else:
            self.retired_handled += cell.handled
            self.stopped += 1
        cell.handled = 0
        if self.running is cell:
            self.running = None

    def make_guardian(self, name: str, grant: SecurityContext) -> Cell:
        """The root of a tree of actors."""
        spec = Spec(Guardian, {}, DEFAULT_SUPERVISION, DEFAULT_MAILBOX)
        cell = new_cell(self, None, spec, name, grant)
        cell.actor = Guardian()
        cell.actor._cell = cell
        cell.state = IDLE
        return cell

    def is_quiet(self) -> bool:
        """Whether nothing is ready, no handler runs or is suspended, no other thread has handed anything over, and nothing is left to be noted."""
        return not len(self.portal) and self.household.quiet and super().is_quiet()

    def cells(self) -> list[Cell]:
        """All cells that are alive under `/user`, parents before children."""
        found = [self.user]
        for cell in found:
            if cell.children:
                found.extend(cell.children.values())
        return found


def _start_soon(nursery: trio.Nursery, function: Callable[..., Any], arguments: tuple[Any, ...], name: str) -> None:
    nursery.start_soon(_protected, function, arguments, name=name)


@enable_ki_protection
async def _protected(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """A task of the system: Ctrl-C is for a task of the holder's. Raised in one of these it would be the end of them all, without any `on_stop`."""
    await function(*arguments)


def _short(value: object) -> str:
    text = f"an object of type {type(value).__qualname__}"
    return f"{text} ({value!r})" if isinstance(value, (int, float, str)) and len(repr(value)) < 40 else text
