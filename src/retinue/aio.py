"""The asyncio twin, for web frameworks and notebooks: the same actors, awaited under asyncio.

    from retinue import aio

    async with aio.ActorSystem("shop") as system:
        till = await system.spawn(Till)
        print(await till.ask(Pay(5)))
        answers = await asyncio.gather(*(till.ask(Pay(n)) for n in range(10)))

The system runs on trio in a thread of its own. Refs may be used in any asyncio loop of the process, but not in a handler of the system. Cancelling a task that awaits
an answer withdraws the request, or cancels its handler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

import attrs

from retinue._twin import Call, Keys, Options, Revoked, Twin, TwinRef, unwrap
from retinue._twin_approvals import AioApprovals
from retinue._twin_loops import Loops
from retinue._twin_reading import AioStreamReader as StreamReader
from retinue._twin_slots import DetachedTwinSlot, TwinSlot, TwinWatch
from retinue._twin_topics import AioReceptionist, AioTopics
from retinue._twin_virtual import AioVirtual
from retinue.actors.runtime.asking import check_timeout
from retinue.actors.runtime.coercing import TakesText
from retinue.actors.runtime.entering import EnteredAsync
from retinue.actors.runtime.options import no_option
from retinue.actors.runtime.portal import PULSE
from retinue.actors.runtime.ref import Ref as CoreRef
from retinue.actors.runtime.spending import SystemBudgets
from retinue.actors.runtime.virtual import Virtual
from retinue.mailbox.messages import Message, Request, Stream
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from pykka import ActorProxy, ActorRef

    from retinue.actors.hosts.adopting import AdoptOptions
    from retinue.actors.runtime.actor import Actor
    from retinue.actors.runtime.events import Event
    from retinue.actors.runtime.pools import GroupOptions, Pool
    from retinue.actors.runtime.receipts import Receipt
    from retinue.actors.runtime.receptionist import ServiceKey
    from retinue.actors.runtime.statistics import ActorStatistics, SystemStatistics
    from retinue.actors.runtime.supervision import Supervision
    from retinue.actors.runtime.watch import Terminated
    from retinue.client.on_asyncio import connect
    from retinue.mailbox.letters import DeadLetters
    from retinue.mailbox.queues import Mailbox
    from retinue.security.audit import AuditEntry, AuditHead, AuditStatistics
    from retinue.security.audit_chain import Kind
    from retinue.security.authority import Authority
    from retinue.security.context import SecurityContext
    from retinue.security.seal import Sealer

__all__ = ["ActorSystem", "Names", "Ref", "StreamReader", "SystemAudit", "SystemBudgets", "Watch", "connect"]

A = TypeVar("A", bound="Actor")
A_co = TypeVar("A_co", covariant=True)
E = TypeVar("E")
R = TypeVar("R")


def __getattr__(name: str) -> object:
    """`connect` is loaded when it is first used: who runs a system does not need the client."""
    if name == "connect":
        from retinue.client.on_asyncio import connect

        return connect
    raise AttributeError(f"module 'retinue.aio' has no attribute {name!r}")


class ActorSystem(EnteredAsync):
    """A system of actors under asyncio: `async with aio.ActorSystem("shop") as system: …`.

    It acts under the system's root context. At the end of the block the intake closes, the actors drain for `grace` seconds, what still runs is cancelled, and every
    open ask is resolved. An error in the block leaves it as it is. A task that is cancelled while it leaves the block ends the system at once.

    Args:
        name: The system's name, for texts and for logs.
        options: As for `retinue.ActorSystem`.
    """

    def __init__(self, name: str = "main", **options: Unpack[Options]) -> None:
        self._twin = Twin(name, options)
        self._loops = Loops(self._twin)
        self._ended: asyncio.Future[None] | None = None

    @property
    def name(self) -> str:
        """The system's name."""
        return self._twin.name

    def __repr__(self) -> str:
        return f"<aio.ActorSystem {self.name!r}>"

    async def __aenter__(self) -> Self:
        bridge = self._loops.here()
        begun, deliver = bridge.future()
        ended, end = bridge.future()
        self._twin.start(deliver, partial(end, None, None))
        self._loops.home, self._ended = bridge, ended
        try:
            await begun
        except BaseException:
            await self._leave(None)
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        cancelled = await self._leave(error)
        self._twin.outcome(error)
        if cancelled is not None:
            raise cancelled

    async def _leave(self, error: BaseException | None) -> asyncio.CancelledError | None:
        """Waits for the system's end, whatever comes; returns the cancellation that came meanwhile and ended it at once."""
        twin, ended = self._twin, self._ended
        assert ended is not None and twin.thread is not None
        twin.leave()
        cancelled: asyncio.CancelledError | None = None
        while not ended.done():
            try:
                await asyncio.wait([ended], timeout=PULSE)
                if not ended.done() and not twin.alive():
                    if error is None:
                        raise twin.stuck_error()
                    return cancelled
            except asyncio.CancelledError as again:
                cancelled = cancelled or again
                twin.interrupt()
        twin.thread.join()  # only its very last instructions are left
        return cancelled

    # -- actors --------------------------------------------------------------------------------------------------------------------------------------

    async def spawn(
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
        ref: CoreRef[A] = await _run(self._loops, twin, partial(twin.core.spawn, cls, *arguments, **options, **keywords))
        return Ref(ref, twin, self._loops)

    async def spawn_pool(self, cls: type[A], *arguments: Any, pool: Pool, **keywords: Any) -> Ref[A]:
        """Makes several actors behind one ref; arguments, keywords and errors as for `retinue.ActorSystem.spawn_pool`."""
        twin = self._twin
        twin.check_holder("system.spawn_pool")
        arguments, keywords = unwrap(arguments), unwrap(keywords)
        ref: CoreRef[A] = await _run(self._loops, twin, partial(twin.core.spawn_pool, cls, *arguments, pool=pool, **keywords))
        return Ref(ref, twin, self._loops)

    async def spawn_group(
        self, members: Iterable[TwinRef[A] | CoreRef[A]] | ServiceKey[A], *, pool: Pool, **options: Unpack[GroupOptions[A]]
    ) -> Ref[A]:
        """Puts one ref before actors that live already; arguments and errors as for `retinue.ActorSystem.spawn_group`."""
        twin = self._twin
        twin.check_holder("system.spawn_group")
        cores: Any = unwrap(list(members)) if isinstance(members, Iterable) else members
        ref: CoreRef[A] = await _run(self._loops, twin, partial(twin.core.spawn_group, cores, pool=pool, **options))
        return Ref(ref, twin, self._loops)

    async def spawn_virtual(self, cls: type[A], *arguments: Any, **keywords: Any) -> AioVirtual[A]:
        """Makes a region of virtual actors; arguments, keywords and errors as for `retinue.ActorSystem.spawn_virtual`."""
        twin, loops = self._twin, self._loops
        twin.check_holder("system.spawn_virtual")
        arguments, keywords = unwrap(arguments), unwrap(keywords)
        core: Virtual[A] = await _run(loops, twin, partial(twin.core.spawn_virtual, cls, *arguments, **keywords))
        return _region(core, twin, loops)

    async def adopt(self, actor: ActorRef[Any] | ActorProxy[Any], **options: Unpack[AdoptOptions]) -> Ref[Any]:
        """Gives a pykka actor that exists already an address, a gate and a mailbox under `/user`; arguments and errors as for `retinue.ActorSystem.adopt`."""
        twin = self._twin
        twin.check_holder("system.adopt")
        ref: CoreRef[Any] = await _run(self._loops, twin, partial(twin.core.adopt, actor, **options))
        return Ref(ref, twin, self._loops)

    async def watch(self, ref: TwinRef[Any] | CoreRef[Any]) -> Watch:
        """Watches an actor: `await watch.wait()` is its `Terminated`, at once if it is gone already."""
        twin = self._twin
        twin.check_holder("system.watch")
        core = twin.own(ref)
        terminated, deliver = self._loops.here().future()
        watch: TwinWatch = await _call(self._loops, twin, "system.watch", partial(twin.watch, core, deliver))
        return Watch(watch, Ref(core, twin, self._loops), terminated)

    async def stop(self, *, grace: float | None = None) -> None:
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
        await _run(self._loops, twin, partial(twin.stop, grace))

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
        return Names(self._twin, self._loops)

    @property
    def topics(self) -> AioTopics:
        """Topics: publish to all who have subscribed."""
        return AioTopics(self._twin, *_ways(self._loops, self._twin))

    @property
    def receptionist(self) -> AioReceptionist:
        """Who offers which service."""
        return AioReceptionist(self._twin, *_ways(self._loops, self._twin))

    @property
    def audit(self) -> SystemAudit:
        """What was refused, asked, allowed, minted and revoked: `await system.audit.entries()`."""
        return SystemAudit(self._twin, self._loops)

    @property
    def approvals(self) -> AioApprovals:
        """What waits for a person's consent, and what was decided: `await system.approvals.pending()`, `.approve(id, reviewer=…)`."""
        return AioApprovals(self._twin, partial(_run, self._loops, self._twin))

    @property
    def budgets(self) -> SystemBudgets:
        """What contexts may spend and have spent: `await system.budgets.balance(context)`."""
        self._twin.check_place("system.budgets", "use self.ctx.budget")
        return SystemBudgets(self._twin.kernel, outside=True)

    def sealer(self, keys: Keys = None, *, audience: str | None = None, revocations: Revoked = None) -> Sealer:
        """What turns contexts into sealed tokens and back; as for `retinue.ActorSystem.sealer`."""
        return self._twin.core.sealer(keys, audience=audience, revocations=revocations)

    async def statistics(self) -> SystemStatistics:
        """The system's counts at this moment; after its end, the last ones."""
        found: SystemStatistics = await _call(self._loops, self._twin, "system.statistics", self._twin.core.statistics)
        return found

    async def actors(self) -> list[ActorStatistics]:
        """The counts of each living actor, parents before children."""
        found: list[ActorStatistics] = await _call(self._loops, self._twin, "system.actors", self._twin.core.actors)
        return found

    async def events(self, path: str | None = None) -> list[Event]:
        """The last events, oldest first; empty unless the system was made with `events=`."""
        found: list[Event] = await _call(self._loops, self._twin, "system.events", partial(self._twin.core.events, path))
        return found

    async def wait_quiet(self, *, timeout: float = 30.0) -> None:
        """Waits until no message is ready, being handled or suspended in a handler. Raises trio.TooSlowError after `timeout` seconds."""
        self._twin.check_place("system.wait_quiet", "wait for an answer instead")
        await _run(self._loops, self._twin, partial(self._twin.core.wait_quiet, timeout=timeout))


class Ref(TwinRef[A_co]):
    """The address of an actor, under asyncio. Two refs are equal if they address the same actor."""

    __slots__ = ("_loops",)

    def __init__(self, core: CoreRef[A_co], twin: Twin, loops: Loops) -> None:
        super().__init__(core, twin)
        self._loops = loops

    @overload
    async def ask(
        self,
        message: Request[R],
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Sequence[str] = (),
        detached: bool = False,
    ) -> R: ...
    @overload
    async def ask(
        self: Ref[TakesText[R, Any]],
        message: str,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Sequence[str] = (),
        detached: bool = False,
    ) -> R: ...
    @overload
    async def ask(
        self,
        message: Message,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Sequence[str] = (),
        detached: bool = False,
    ) -> object: ...
    async def ask(
        self,
        message: Any,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Sequence[str] = (),
        detached: bool = False,
        **unknown: Any,
    ) -> Any:
        """Sends a request and waits for its answer; arguments and errors as for `retinue.Ref.ask`. Cancelled, it withdraws or cancels the request."""
        if unknown:
            raise no_option(self.core, "ask", message, unknown)
        twin = self._twin
        delivery = twin.prepare(self.core, message, timeout, context, approvals, what="ask")
        bridge = self._loops.here()
        future, deliver = bridge.future()
        slot = (DetachedTwinSlot if detached else TwinSlot)(delivery, deliver)
        del message, delivery
        try:
            twin.request(slot.delivery, slot)
            bridge.guard(future, slot)
            return _wrap(await future, twin, self._loops)
        except BaseException:
            if future.cancelled():
                twin.give_up(slot)
            raise
        finally:
            del slot, future, deliver  # an error's traceback holds this frame

    @overload
    def tell(self, message: Message, *, context: SecurityContext | None = None, approvals: Sequence[str] = ()) -> Receipt: ...
    @overload
    def tell(
        self: Ref[TakesText[Any, Any]], message: str, *, context: SecurityContext | None = None, approvals: Sequence[str] = ()
    ) -> Receipt: ...
    def tell(self, message: Any, *, context: SecurityContext | None = None, approvals: Sequence[str] = ()) -> Receipt:
        """Sends a message and waits for nothing; arguments, receipt and errors as for `retinue.Ref.tell`.

        The message is handed over to the system's thread (the receipt's reason is "handed_over"): whether its mailbox has room is decided there. `send` knows.
        """
        return self._twin.portal.hand_over(self._twin.prepare(self.core, message, None, context, approvals, what="tell"))

    @overload
    async def send(
        self, message: Message, *, timeout: float | None = None, context: SecurityContext | None = None, approvals: Sequence[str] = ()
    ) -> Receipt: ...
    @overload
    async def send(
        self: Ref[TakesText[Any, Any]],
        message: str,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Sequence[str] = (),
    ) -> Receipt: ...
    async def send(
        self, message: Any, *, timeout: float | None = None, context: SecurityContext | None = None, approvals: Sequence[str] = ()
    ) -> Receipt:
        """As `tell`, but waits for room in a full mailbox, and knows. Arguments and errors as for `retinue.Ref.send`."""
        twin = self._twin
        delivery = twin.prepare(self.core, message, timeout, context, approvals, what="send")
        send = partial(self.core.send, delivery.message, timeout=timeout, context=delivery.context, approvals=approvals)
        receipt: Receipt = await _run(self._loops, twin, send)
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
        """Asks for a stream: `async with ref.stream(message) as items: async for item in items: …`. Arguments and errors as for `retinue.Ref.stream`."""
        if unknown:
            raise no_option(self.core, "stream", message, unknown)
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise DefinitionError(f"window={window!r}: give a whole number of items, 1 or more")
        delivery = self._twin.prepare(self.core, message, timeout, context, approvals, what="stream")
        return StreamReader(self._twin, self._loops, delivery, window, partial(_wrap, twin=self._twin, loops=self._loops))

    async def stop(self, *, grace: float | None = None) -> None:
        """Stops the actor and waits until it has ended, as `retinue.Ref.stop` does."""
        self._twin.check_holder(f"ref.stop of {self.path}")
        await _run(self._loops, self._twin, partial(self.core.stop, grace=grace))


class Watch:
    """A watch on one actor: `await watch.wait()` returns its `Terminated`, however often it is called, at once if the actor is gone."""

    def __init__(self, watch: TwinWatch, ref: Ref[Any], terminated: asyncio.Future[Any]) -> None:
        self._watch = watch
        self._terminated = terminated
        self.ref = ref

    @property
    def terminated(self) -> Terminated | None:
        """What `wait` would return, or None while the actor lives."""
        return attrs.evolve(self._terminated.result(), ref=self.ref) if self._terminated.done() else None

    async def wait(self) -> Terminated:
        """Waits, without a limit of its own, until the actor has ended."""
        await asyncio.shield(self._terminated)
        found = self.terminated
        assert found is not None
        return found

    def close(self) -> None:
        """Watches no longer. Who waits on this watch goes on waiting only if the actor has ended."""
        self.ref._twin.portal.post(self._watch.close)


class Names:
    """The registry of a system: names and paths of living actors. `retinue.ActorSystem.registry` describes it."""

    def __init__(self, twin: Twin, loops: Loops) -> None:
        self._twin = twin
        self._loops = loops

    async def register(self, name: str, ref: TwinRef[Any] | CoreRef[Any]) -> None:
        """Makes the actor known under a name. Raises NameTaken where another living actor has it."""
        self._twin.check_holder("registry.register")
        await self._call("registry.register", partial(self._twin.core.registry.register, name, self._twin.own(ref)))

    async def unregister(self, name: str) -> None:
        """Gives a name up; one that is not registered is no error."""
        self._twin.check_holder("registry.unregister")
        await self._call("registry.unregister", partial(self._twin.core.registry.unregister, name))

    async def get(self, name: str) -> Ref[Any] | None:
        """The living actor registered under the name, or with the path (`/user/…`), or None."""
        found: Ref[Any] | None = _wrap(
            await self._call("registry.get", partial(self._twin.core.registry.get, name)), self._twin, self._loops
        )
        return found

    async def names(self) -> list[str]:
        """The registered names, sorted."""
        found: list[str] = await self._call("registry.names", self._twin.core.registry.names)
        return found

    async def _call(self, what: str, function: Callable[[], Any]) -> Any:
        return await _call(self._loops, self._twin, what, function)


class SystemAudit:
    """What the gate and the authority of a system decided; `retinue.ActorSystem.audit` describes it. It can be read after the system's end, too."""

    def __init__(self, twin: Twin, loops: Loops) -> None:
        self._twin = twin
        self._loops = loops
        self._core = twin.core.audit

    async def entries(
        self, *, kind: Kind | None = None, operation: str | None = None, allowed: bool | None = None, limit: int | None = None
    ) -> tuple[AuditEntry, ...]:
        """The latest records, oldest first. Arguments and errors as for the core's."""
        read = partial(self._core._entries, kind=kind, operation=operation, allowed=allowed, limit=limit)
        found: tuple[AuditEntry, ...] = await _call(self._loops, self._twin, "audit.entries", read)
        return found

    async def head(self) -> AuditHead | None:
        """The number and MAC of the last record; None where nothing is recorded."""
        found: AuditHead | None = await _call(self._loops, self._twin, "audit.head", self._core._head)
        return found

    async def verify(self) -> int:
        """Checks the chain of all records, in a thread, and returns how many it holds. Raises AuditBroken."""
        return await asyncio.to_thread(self._core._book.verify)

    async def statistics(self) -> AuditStatistics | None:
        """The log's counts; None where nothing is recorded."""
        found: AuditStatistics | None = await _call(self._loops, self._twin, "audit.statistics", self._core._statistics)
        return found


def _wrap(value: Any, twin: Twin, loops: Loops) -> Any:
    """An answer that is a ref of the system, or a region, becomes one of the twin."""
    if isinstance(value, CoreRef) and value._cell.kernel is twin.kernel:
        return Ref(value, twin, loops)
    if isinstance(value, Virtual) and value._region.kernel is twin.kernel:
        return _region(value, twin, loops)
    return value


def _region(core: Virtual[A], twin: Twin, loops: Loops) -> AioVirtual[A]:
    return AioVirtual(core, partial(_run, loops, twin), partial(_wrap, twin=twin, loops=loops))


def _ways(loops: Loops, twin: Twin) -> tuple[Any, Any, Any]:
    return partial(_run, loops, twin), partial(_wrap, twin=twin, loops=loops), partial(_call, loops, twin)


async def _run(loops: Loops, twin: Twin, function: Callable[[], Any]) -> Any:
    """Runs an async function in the system's loop and waits until it is done; cancelled, it cancels that."""
    bridge = loops.here()
    future, deliver = bridge.future()
    call = Call(twin, function, deliver)
    try:
        twin.run(call)
        bridge.guard(future)
        return await future
    except BaseException:
        if future.cancelled():
            call.cancel()
        raise
    finally:
        del future, call, function, deliver  # an error's traceback holds this frame


async def _call(loops: Loops, twin: Twin, what: str, function: Callable[[], Any]) -> Any:
    """Calls a function in the system's thread and waits until it has returned."""
    twin.check_place(what, "use self.ctx.system")
    bridge = loops.here()
    future, deliver = bridge.future()
    try:
        twin.call(function, deliver)
        bridge.guard(future)
        return await future
    finally:
        del future, deliver
