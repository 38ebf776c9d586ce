"""The blocking twin, for plain scripts: the same actors, and no `async` anywhere.

    from retinue.sync import ActorSystem

    with ActorSystem("shop") as system:
        till = system.spawn(Till)
        print(till.ask(Pay(5)))
        answers = pykka.get_all([till.ask(Pay(n), block=False) for n in range(10)])

The system runs on trio in a thread of its own; signals stay with the main thread. Every method here may be called in any thread, but not in a handler of the
system. What does not block gives a pykka future.

Not promised: that a system survives `os.fork()`. Start worker processes before it, or with the "spawn" method.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

import attrs

from retinue._twin import Call, Keys, Options, Revoked, Twin, TwinRef, unwrap
from retinue._twin_approvals import SyncApprovals
from retinue._twin_books import SystemAudit, SystemBudgets
from retinue._twin_futures import Future
from retinue._twin_joining import check_no_loop, join
from retinue._twin_reading import SyncStreamReader as StreamReader
from retinue._twin_slots import DetachedTwinSlot, TwinSlot, TwinWatch
from retinue._twin_topics import SyncReceptionist, SyncTopics
from retinue._twin_virtual import SyncVirtual
from retinue.actors.runtime.asking import check_timeout
from retinue.actors.runtime.coercing import TakesText
from retinue.actors.runtime.entering import EnteredPlainly
from retinue.actors.runtime.errors import SystemClosed
from retinue.actors.runtime.options import no_option
from retinue.actors.runtime.portal import PORTAL_CAPACITY, PULSE, Latch
from retinue.actors.runtime.receipts import FULL, Receipt
from retinue.actors.runtime.ref import Ref as CoreRef
from retinue.actors.runtime.virtual import Virtual
from retinue.mailbox.errors import MailboxFull
from retinue.mailbox.messages import Message, Request, Stream
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from pykka import ActorProxy, ActorRef

    from retinue.actors.hosts.adopting import AdoptOptions
    from retinue.actors.runtime.actor import Actor
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.events import Event
    from retinue.actors.runtime.pools import GroupOptions, Pool
    from retinue.actors.runtime.receptionist import ServiceKey
    from retinue.actors.runtime.statistics import ActorStatistics, SystemStatistics
    from retinue.actors.runtime.supervision import Supervision
    from retinue.actors.runtime.watch import Terminated
    from retinue.client.blocking import connect
    from retinue.mailbox.letters import DeadLetters
    from retinue.mailbox.queues import Mailbox
    from retinue.security.authority import Authority
    from retinue.security.context import SecurityContext
    from retinue.security.seal import Sealer

__all__ = ["ActorSystem", "Future", "Names", "Ref", "StreamReader", "SystemAudit", "SystemBudgets", "Watch", "connect"]

A = TypeVar("A", bound="Actor")
A_co = TypeVar("A_co", covariant=True)
E = TypeVar("E")
R = TypeVar("R")

BREATH = 0.001
"""Seconds that a `tell` sleeps while the system has more calls waiting than it takes."""


def __getattr__(name: str) -> object:
    """`connect` is loaded when it is first used: who runs a system does not need the client."""
    if name == "connect":
        from retinue.client.blocking import connect

        return connect
    raise AttributeError(f"module 'retinue.sync' has no attribute {name!r}")


class ActorSystem(EnteredPlainly):
    """A system of actors for a plain script: `with ActorSystem("shop") as system: …`.

    It acts under the system's root context. At the end of the block the intake closes, the actors drain for `grace` seconds, what still runs is cancelled, and every
    open ask is resolved. An error in the block leaves it as it is. Ctrl-C in the block ends it in good order, a second one at once. Entered in a thread where asyncio
    or trio runs, it raises `WrongEventLoop`: its calls would block that loop.

    Args:
        name: The system's name, for texts and for logs.
        options: As for `retinue.ActorSystem`.
    """

    def __init__(self, name: str = "main", **options: Unpack[Options]) -> None:
        self._twin = Twin(name, options)
        self._ended = threading.Event()

    @property
    def name(self) -> str:
        """The system's name."""
        return self._twin.name

    def __repr__(self) -> str:
        return f"<sync.ActorSystem {self.name!r}>"

    def __enter__(self) -> Self:
        check_no_loop()
        latch = Latch()
        self._twin.start(latch.set, self._ended.set)
        try:
            while True:
                try:
                    latch.wait(self._twin.portal, PULSE)  # the loop is only just being made: its portal may be closed yet
                except (SystemClosed, TimeoutError):
                    if latch.done or self._twin.ended:
                        raise
                else:
                    return self
        except BaseException:
            self._twin.leave()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._twin.leave()
        interrupted = join(self._twin, self._ended, error)
        self._twin.outcome(error)
        if interrupted is not None:
            raise interrupted

    # -- actors --------------------------------------------------------------------------------------------------------------------------------------

    def spawn(
        self,
        cls: type[A],
        *arguments: Any,
        name: str | None = None,
        grant: Sequence[Any] | None = None,
        mailbox: Mailbox | None = None,
        supervision: Supervision | None = None,
        **keywords: Any,
    ) -> Ref[A]:
        """Makes an actor under `/user` and returns once it has started; arguments and errors as for `retinue.ActorSystem.spawn`."""
        twin = self._twin
        twin.check_holder("system.spawn")
        arguments, keywords = unwrap(arguments), unwrap(keywords)
        options: dict[str, Any] = {"name": name, "grant": grant, "mailbox": mailbox, "supervision": supervision}
        ref: CoreRef[A] = _run(twin, partial(twin.core.spawn, cls, *arguments, **options, **keywords))
        return Ref(ref, twin)

    def spawn_pool(self, cls: type[A], *arguments: Any, pool: Pool, **keywords: Any) -> Ref[A]:
        """Makes several actors behind one ref; arguments, keywords and errors as for `retinue.ActorSystem.spawn_pool`."""
        twin = self._twin
        twin.check_holder("system.spawn_pool")
        arguments, keywords = unwrap(arguments), unwrap(keywords)
        ref: CoreRef[A] = _run(twin, partial(twin.core.spawn_pool, cls, *arguments, pool=pool, **keywords))
        return Ref(ref, twin)

    def spawn_group(
        self, members: Iterable[TwinRef[A] | CoreRef[A]] | ServiceKey[A], *, pool: Pool, **options: Unpack[GroupOptions[A]]
    ) -> Ref[A]:
        """Puts one ref before actors that live already; arguments and errors as for `retinue.ActorSystem.spawn_group`."""
        twin = self._twin
        twin.check_holder("system.spawn_group")
        cores: Any = unwrap(list(members)) if isinstance(members, Iterable) else members
        ref: CoreRef[A] = _run(twin, partial(twin.core.spawn_group, cores, pool=pool, **options))
        return Ref(ref, twin)

    def spawn_virtual(self, cls: type[A], *arguments: Any, **keywords: Any) -> SyncVirtual[A]:
        """Makes a region of virtual actors; arguments, keywords and errors as for `retinue.ActorSystem.spawn_virtual`."""
        twin = self._twin
        twin.check_holder("system.spawn_virtual")
        arguments, keywords = unwrap(arguments), unwrap(keywords)
        core: Virtual[A] = _run(twin, partial(twin.core.spawn_virtual, cls, *arguments, **keywords))
        return _region(core, twin)

    def adopt(self, actor: ActorRef[Any] | ActorProxy[Any], **options: Unpack[AdoptOptions]) -> Ref[Any]:
        """Gives a pykka actor that exists already an address, a gate and a mailbox under `/user`; arguments and errors as for `retinue.ActorSystem.adopt`."""
        twin = self._twin
        twin.check_holder("system.adopt")
        ref: CoreRef[Any] = _run(twin, partial(twin.core.adopt, actor, **options))
        return Ref(ref, twin)

    def watch(self, ref: TwinRef[Any] | CoreRef[Any]) -> Watch:
        """Watches an actor: `watch.wait()` is its `Terminated`, at once if it is gone already."""
        self._twin.check_holder("system.watch")
        return Watch(self._twin, self._twin.own(ref))

    def stop(self, *, grace: float | None = None) -> None:
        """Stops the system; the end of its block does it too. Asked for again, it returns at once.

        Args:
            grace: Seconds that the actors have to drain their mailboxes; then what runs is cancelled. Default: the system's (5 s).
        """
        twin = self._twin
        twin.check_holder("system.stop")
        if grace is not None:
            check_timeout(grace)
        if twin.portal.closed and twin.thread is not None:
            return
        _run(twin, partial(twin.stop, grace))

    # -- looking in ----------------------------------------------------------------------------------------------------------------------------------

    @property
    def authority(self) -> Authority:
        """What mints security contexts for this system."""
        return self._twin.core.authority

    @property
    def dead_letters(self) -> DeadLetters:
        """Messages that were not handled, with the reasons."""
        return self._twin.core.dead_letters

    @property
    def registry(self) -> Names:
        """Names and paths of living actors."""
        return Names(self._twin)

    @property
    def topics(self) -> SyncTopics:
        """Topics: publish to all who have subscribed."""
        return SyncTopics(self._twin, *_ways(self._twin))

    @property
    def receptionist(self) -> SyncReceptionist:
        """Who offers which service."""
        return SyncReceptionist(self._twin, *_ways(self._twin))

    @property
    def audit(self) -> SystemAudit:
        """What was refused, asked, allowed, minted and revoked: `system.audit.entries()`."""
        return SystemAudit(self._twin, partial(_call, self._twin))

    @property
    def approvals(self) -> SyncApprovals:
        """What waits for a person's consent, and what was decided: `system.approvals.pending()`, `.approve(id, reviewer=…)`."""
        return SyncApprovals(self._twin, partial(_run, self._twin))

    @property
    def budgets(self) -> SystemBudgets:
        """What contexts may spend and have spent: `system.budgets.balance(context)`."""
        return SystemBudgets(self._twin)

    def sealer(self, keys: Keys = None, *, audience: str | None = None, revocations: Revoked = None) -> Sealer:
        """What turns contexts into sealed tokens and back; as for `retinue.ActorSystem.sealer`."""
        return self._twin.core.sealer(keys, audience=audience, revocations=revocations)

    def statistics(self) -> SystemStatistics:
        """The system's counts at this moment; after its end, the last ones."""
        found: SystemStatistics = _call(self._twin, "system.statistics", self._twin.core.statistics)
        return found

    def actors(self) -> list[ActorStatistics]:
        """The counts of each living actor, parents before children."""
        found: list[ActorStatistics] = _call(self._twin, "system.actors", self._twin.core.actors)
        return found

    def events(self, path: str | None = None) -> list[Event]:
        """The last events, oldest first; empty unless the system was made with `events=`."""
        found: list[Event] = _call(self._twin, "system.events", partial(self._twin.core.events, path))
        return found

    def wait_quiet(self, *, timeout: float = 30.0) -> None:
        """Waits until no message is ready, being handled or suspended in a handler. Raises trio.TooSlowError after `timeout` seconds."""
        self._twin.check_place("system.wait_quiet", "wait for an answer instead")
        _run(self._twin, partial(self._twin.core.wait_quiet, timeout=timeout))


class Ref(TwinRef[A_co]):
    """The address of an actor, for a plain script. Two refs are equal if they address the same actor."""

    __slots__ = ()

    @overload
    def ask(
        self,
        message: Request[R],
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Sequence[str] = (),
        detached: bool = False,
        block: Literal[True] = True,
    ) -> R: ...
    @overload
    def ask(
        self,
        message: Request[R],
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Sequence[str] = (),
        detached: bool = False,
        block: Literal[False],
    ) -> Future[R]: ...
    @overload
    def ask(
        self: Ref[TakesText[R, Any]],
        message: str,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Sequence[str] = (),
        detached: bool = False,
        block: Literal[True] = True,
    ) -> R: ...
    @overload
    def ask(
        self: Ref[TakesText[R, Any]],
        message: str,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Sequence[str] = (),
        detached: bool = False,
        block: Literal[False],
    ) -> Future[R]: ...
    @overload
    def ask(
        self,
        message: Message,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Sequence[str] = (),
        detached: bool = False,
        block: bool = True,
    ) -> Any: ...
    def ask(
        self,
        message: Any,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Sequence[str] = (),
        detached: bool = False,
        block: bool = True,
        **unknown: Any,
    ) -> Any:
        """Sends a request and blocks until the answer is there; with `block=False` returns a pykka future of it.

        Args, errors: As for `retinue.Ref.ask`. Ctrl-C while it blocks withdraws or cancels the request.
        """
        if unknown:
            raise no_option(self.core, "ask", message, unknown)
        twin = self._twin
        delivery = twin.prepare(self.core, message, timeout, context, approvals, what="ask")
        make = DetachedTwinSlot if detached else TwinSlot
        if not block:
            return _future(twin, delivery, make)
        latch = Latch()
        slot = make(delivery, latch.set)
        limit = twin.limit(delivery)
        del message
        try:
            twin.request(delivery, slot)
            return _wrap(latch.wait(twin.portal, limit), twin)
        except BaseException as error:
            if not latch.done:
                twin.give_up(slot)
                if isinstance(error, TimeoutError):
                    raise twin.overdue(delivery) from None
            raise
        finally:
            del slot, latch, delivery  # an error's traceback holds this frame

    @overload
    def tell(self, message: Message, *, context: SecurityContext | None = None, approvals: Sequence[str] = ()) -> Receipt: ...
    @overload
    def tell(
        self: Ref[TakesText[Any, Any]], message: str, *, context: SecurityContext | None = None, approvals: Sequence[str] = ()
    ) -> Receipt: ...
    def tell(self, message: Any, *, context: SecurityContext | None = None, approvals: Sequence[str] = ()) -> Receipt:
        """Sends a message and waits for no answer; arguments, receipt and errors as for `retinue.Ref.tell`.

        The message is handed over to the system's thread (the receipt's reason is "handed_over"): whether its mailbox has room is decided there. Where the mailbox
        was made with `overflow="wait"`, or the system has more waiting than it can take, this blocks until there is room, for at most the system's `ask_timeout`.
        """
        twin = self._twin
        delivery = twin.prepare(self.core, message, None, context, approvals, what="tell")
        limit = twin.kernel.ask_timeout
        if self.core._cell.spec.mailbox.overflow == "wait":
            try:
                return self._send(delivery, approvals, limit)
            except MailboxFull:
                return FULL
        if len(twin.portal) < PORTAL_CAPACITY:
            return twin.portal.hand_over(delivery, squeeze=True)
        end = time.monotonic() + limit
        while len(twin.portal) >= PORTAL_CAPACITY and not twin.portal.closed:
            if time.monotonic() >= end:
                return twin.portal.hand_over(delivery)
            time.sleep(BREATH)
        return twin.portal.hand_over(delivery, squeeze=True)

    @overload
    def send(
        self, message: Message, *, timeout: float | None = None, context: SecurityContext | None = None, approvals: Sequence[str] = ()
    ) -> Receipt: ...
    @overload
    def send(
        self: Ref[TakesText[Any, Any]],
        message: str,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Sequence[str] = (),
    ) -> Receipt: ...
    def send(
        self, message: Any, *, timeout: float | None = None, context: SecurityContext | None = None, approvals: Sequence[str] = ()
    ) -> Receipt:
        """As `tell`, but waits for room in a full mailbox, and knows. Arguments and errors as for `retinue.Ref.send`."""
        delivery = self._twin.prepare(self.core, message, timeout, context, approvals, what="send")
        return self._send(delivery, approvals, timeout)

    def _send(self, delivery: Delivery, approvals: Sequence[str], timeout: float | None) -> Receipt:
        send = partial(self.core.send, delivery.message, timeout=timeout, context=delivery.context, approvals=approvals)
        receipt: Receipt = _run(self._twin, send)
        return receipt

    @overload
    def stream(
        self,
        message: Stream[E],
        *,
        timeout: float | None = None,
        window: int = 32,
        context: SecurityContext | None = None,
        approvals: Sequence[str] = (),
    ) -> StreamReader[E]: ...
    @overload
    def stream(
        self: Ref[TakesText[Any, E]],
        message: str,
        *,
        timeout: float | None = None,
        window: int = 32,
        context: SecurityContext | None = None,
        approvals: Sequence[str] = (),
    ) -> StreamReader[E]: ...
    def stream(
        self,
        message: Any,
        *,
        timeout: float | None = None,
        window: int = 32,
        context: SecurityContext | None = None,
        approvals: Sequence[str] = (),
        **unknown: Any,
    ) -> StreamReader[Any]:
        """Asks for a stream: `with ref.stream(message) as items: for item in items: …`. Arguments and errors as for `retinue.Ref.stream`."""
        if unknown:
            raise no_option(self.core, "stream", message, unknown)
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise DefinitionError(f"window={window!r}: give a whole number of items, 1 or more")
        twin = self._twin
        return StreamReader(
            twin, twin.prepare(self.core, message, timeout, context, approvals, what="stream"), window, partial(_wrap, twin=twin)
        )

    def stop(self, *, grace: float | None = None) -> None:
        """Stops the actor and blocks until it has ended, as `retinue.Ref.stop` does."""
        self._twin.check_holder(f"ref.stop of {self.path}")
        _run(self._twin, partial(self.core.stop, grace=grace))


class Watch:
    """A watch on one actor: `wait()` returns its `Terminated`, however often it is called, at once if the actor is gone."""

    def __init__(self, twin: Twin, core: CoreRef[Any]) -> None:
        self._twin = twin
        self._latch = Latch()
        self.ref: Ref[Any] = Ref(core, twin)
        self._watch: TwinWatch = _call(twin, "system.watch", partial(twin.watch, core, self._latch.set))

    @property
    def terminated(self) -> Terminated | None:
        """What `wait` would return, or None while the actor lives."""
        return attrs.evolve(self._latch.value, ref=self.ref) if self._latch.done else None

    def wait(self, timeout: float = math.inf) -> Terminated:
        """Blocks until the actor has ended. Raises TimeoutError after `timeout` seconds (default: no limit)."""
        check_timeout(timeout)
        if not self._latch.done:
            self._twin.check_place("watch.wait", "use `await (await ctx.watch(ref)).wait()`")
            try:
                self._latch.wait(self._twin.portal, timeout)
            except TimeoutError:
                raise TimeoutError(f"{self.ref.path} has not ended within {timeout:g} s") from None
            self._latch.release()  # whoever else waits
        found = self.terminated
        assert found is not None
        return found

    def close(self) -> None:
        """Watches no longer."""
        self._twin.portal.post(self._watch.close)


class Names:
    """The registry of a system: names and paths of living actors. `retinue.ActorSystem.registry` describes it."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin

    def register(self, name: str, ref: TwinRef[Any] | CoreRef[Any]) -> None:
        """Makes the actor known under a name. Raises NameTaken where another living actor has it."""
        self._twin.check_holder("registry.register")
        _call(self._twin, "registry.register", partial(self._twin.core.registry.register, name, self._twin.own(ref)))

    def unregister(self, name: str) -> None:
        """Gives a name up; one that is not registered is no error."""
        self._twin.check_holder("registry.unregister")
        _call(self._twin, "registry.unregister", partial(self._twin.core.registry.unregister, name))

    def get(self, name: str) -> Ref[Any] | None:
        """The living actor registered under the name, or with the path (`/user/…`), or None."""
        found: Ref[Any] | None = _wrap(_call(self._twin, "registry.get", partial(self._twin.core.registry.get, name)), self._twin)
        return found

    def names(self) -> list[str]:
        """The registered names, sorted."""
        found: list[str] = _call(self._twin, "registry.names", self._twin.core.registry.names)
        return found


def _wrap(value: Any, twin: Twin) -> Any:
    """An answer that is a ref of the system, or a region, becomes one of the twin."""
    if isinstance(value, CoreRef) and value._cell.kernel is twin.kernel:
        return Ref(value, twin)
    if isinstance(value, Virtual) and value._region.kernel is twin.kernel:
        return _region(value, twin)
    return value


def _region(core: Virtual[A], twin: Twin) -> SyncVirtual[A]:
    return SyncVirtual(core, partial(_run, twin), partial(_wrap, twin=twin))


def _ways(twin: Twin) -> tuple[Any, Any, Any]:
    return partial(_run, twin), partial(_wrap, twin=twin), partial(_call, twin)


def _future(twin: Twin, delivery: Delivery, make: type[TwinSlot]) -> Future[Any]:
    future: Future[Any] = Future()

    def deliver(value: Any, error: BaseException | None) -> None:
        future._settle(_wrap(value, twin), error)

    future._twin = twin
    future._slot = slot = make(delivery, deliver)
    future._end = time.monotonic() + twin.limit(delivery)
    try:
        twin.request(delivery, slot)
    except BaseException:
        twin.give_up(slot)
        raise
    return future


def _run(twin: Twin, function: Any) -> Any:
    """Runs an async function in the system's loop and blocks until it is done; Ctrl-C cancels it."""
    latch = Latch()
    call = Call(twin, function, latch.set)
    try:
        twin.run(call)
        return latch.wait(twin.portal)
    except BaseException:
        if not latch.done:
            call.cancel()
        raise
    finally:
        del latch, call, function  # an error's traceback holds this frame


def _call(twin: Twin, what: str, function: Any) -> Any:
    """Calls a function in the system's thread and blocks until it has returned."""
    twin.check_place(what, "use self.ctx.system")
    latch = Latch()
    twin.call(function, latch.set)
    try:
        return latch.wait(twin.portal)
    finally:
        del latch, function
