"""What the two twins share: a system that runs in a thread of its own, and how calls get into it and outcomes out.

`retinue.sync` (plain scripts) and `retinue.aio` (asyncio) are thin: they differ in how one waits for an outcome. Everything is handed over through the system's
portal, in the order it was called; a request costs the loop no task of its own. Each outcome is delivered by a callback that runs in the system's thread.

A twin is held by whoever made it, as a system is by the task that entered it: what is sent without `context=` is sent under the system's root context. Inside a
handler it is refused. There it would wait for itself, or give the handler the root's authority.
"""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import Any, Final, Generic, Literal, NoReturn, TypeAlias, TypedDict, TypeVar

import attrs
import trio

from retinue._twin_slots import Deliver, TwinSlot, TwinStreamSlot, TwinWatch
from retinue._twin_virtual import TwinVirtual
from retinue.actors.runtime.approving import Reviewer
from retinue.actors.runtime.asking import check_timeout, tokens_of
from retinue.actors.runtime.carrying import Approvals
from retinue.actors.runtime.cell import DEAD
from retinue.actors.runtime.coercing import addressed
from retinue.actors.runtime.current import Delivery, current, make_delivery
from retinue.actors.runtime.derivation import from_outside, sending
from retinue.actors.runtime.errors import AskTimeout, SystemClosed, WrongThread
from retinue.actors.runtime.ref import Ref
from retinue.actors.runtime.system import ActorSystem
from retinue.actors.runtime.tracing import sent_in
from retinue.actors.runtime.watch import terminated_of
from retinue.actors.tracing.tracing import Tracing
from retinue.capabilities.registry import CapabilityRegistry
from retinue.mailbox.envelope import Postmark
from retinue.mailbox.errors import Unhandled
from retinue.mailbox.messages import Message
from retinue.security.audit import AuditLog
from retinue.security.context import SecurityContext
from retinue.security.errors import DefinitionError
from retinue.security.keys import KeyFile, KeyRing
from retinue.security.revocations import Revocations

__all__ = ["GUARD", "STUCK", "Call", "Keys", "Options", "Revoked", "Twin", "TwinRef", "unwrap"]

_log = logging.getLogger("retinue.twin")

A_co = TypeVar("A_co", covariant=True)

GUARD: Final = 5.0
"""Seconds after an ask's deadline at which its asker stops relying on the loop: something blocks it."""
STUCK: Final = 10.0
"""Seconds without a sign of life after which a loop that should end is left behind."""


class Options(TypedDict, total=False):
    """The options of `retinue.ActorSystem`, which describes them."""

    data_dir: str | Path | None
    permissions: Iterable[Any] | None
    strict: bool
    seed: int | None
    ask_timeout: float
    start_timeout: float
    grace: float
    loopback: bool
    events: int
    block_warning: float
    policies: Iterable[object]
    policy_timeout: float
    capabilities: CapabilityRegistry | None
    audit: AuditLog | Literal[False] | None
    reviewer: Reviewer | None
    reviewer_timeout: float
    approval_lifetime: float
    tracing: Tracing | None


Keys: TypeAlias = KeyRing | KeyFile | str | Path | None
"""What `system.sealer` takes as keys."""

Revoked: TypeAlias = Revocations | str | Path | None
"""What `system.sealer` takes as revocations."""


class Call:
    """An async function that runs in the loop for somebody outside it."""

    __slots__ = ("_deliver", "_function", "_scope", "_twin")

    def __init__(self, twin: Twin, function: Callable[[], Awaitable[Any]], deliver: Deliver) -> None:
        self._twin = twin
        self._function = function
        self._deliver = deliver
        self._scope = trio.CancelScope()

    def refuse(self) -> None:
        """It will not run."""
        self._deliver(None, self._twin.closed_error())

    async def run(self) -> None:
        """The task."""
        try:
            if self._scope.cancel_called:
                return
            with self._scope:
                try:
                    value = await self._function()
                except trio.Cancelled:
                    if not self._scope.cancel_called:
                        self.refuse()
                    raise
                except BaseException as error:
                    self._deliver(None, error)
                else:
                    self._deliver(value, None)
        finally:
            del self._deliver, self._function

    def cancel(self) -> None:
        """Nobody waits for it any more; callable in any thread. Nothing is delivered then."""
        self._twin.portal.post(self._scope.cancel)


class Twin:
    """A system in a thread of its own.

    Attributes:
        core: The system.
        error: What its run has ended with, if it was an error.
        leaving: Its end was asked for.
        ended: Its run is over.
    """

    def __init__(self, name: str, options: Options) -> None:
        self.core = ActorSystem(name, **options)
        self.kernel = self.core._kernel
        self.portal = self.kernel.portal
        self.name = name
        self.error: BaseException | None = None
        self.thread: threading.Thread | None = None
        self._begun = False
        self.leaving = self.ended = False
        self._beat_at = 0.0
        self._token: trio.lowlevel.TrioToken | None = None
        self._leave: trio.Event | None = None
        self._nursery: trio.Nursery | None = None
        self._context = contextvars.Context()

    # -- beginning and end -----------------------------------------------------------------------------------------------------------------------------

    def start(self, begun: Deliver, ended: Callable[[], None]) -> None:
        """Starts the thread. `begun` is called once the system runs or has failed to, `ended` when the thread is about to end."""
        if self.thread is not None:
            raise SystemClosed(f"the system {self.name!r} was entered before; a system runs once, make another")
        # An empty context: what is current where the system is made (a handler's turn, say) has no meaning in it.
        self.thread = threading.Thread(
            target=contextvars.Context().run, args=(self._run, begun, ended), name=f"retinue system {self.name}", daemon=True
        )
        self.thread.start()

    def _run(self, begun: Deliver, ended: Callable[[], None]) -> None:
        try:
            trio.run(self._main, begun)
        except BaseException as error:
            self.error = error
        finally:
            if not self._begun:
                begun(None, self.error or self.closed_error())
            self.ended = True
            ended()

    async def _main(self, begun: Deliver) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._leave = trio.Event()
        async with self.core:
            self._context = contextvars.copy_context()  # with the mark of the task that entered the system
            async with trio.open_nursery() as self._nursery:
                self._begun = True
                begun(None, None)
                if not self.leaving:
                    await self._leave.wait()
                self._nursery.cancel_scope.cancel()

    def leave(self) -> None:
        """Lets the system come to its end, in good order; in any thread."""
        self.leaving = True
        if self._leave is not None:
            self._soon(self._leave.set)

    def interrupt(self) -> None:
        """Ends it at once."""
        self._soon(partial(self.core.interrupt, hard=True))

    def alive(self) -> bool:
        """Called every now and then while one waits for the end. False once the loop has shown no sign of life for too long: then it is left behind."""
        now = time.monotonic()
        if not self._beat_at:
            self._beat_at = now
        self._soon(self._beat)
        if now - self._beat_at < STUCK:
            return True
        frame = sys._current_frames().get(self.kernel.thread)
        stack = "".join(traceback.format_stack(frame)[-8:]) if frame is not None else ""
        _log.error("the loop of the system %r has been blocked for %g s and is left behind. It is here:\n%s", self.name, STUCK, stack)
        return False

    def _beat(self) -> None:
        self._beat_at = time.monotonic()

    def _soon(self, function: Callable[[], object]) -> None:
        try:
            if self._token is not None:
                self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            pass

    def outcome(self, error: BaseException | None) -> None:
        """Raises what the system has ended with. An error of the block itself goes first, except before what ends the whole system (SystemExit)."""
        found, self.error = self.error, None
        if found is None:
            return
        if error is not None and isinstance(found, Exception):
            _log.error("the system %r has ended with an error, after the error of its block", self.name, exc_info=found)
            return
        raise found

    def closed_error(self) -> SystemClosed:
        """The text depends on whether it has not begun or has ended."""
        if self.thread is None:
            return SystemClosed(f"the system {self.name!r} has not started: use it inside its `with` (or `async with`) block")
        return SystemClosed(f"the system {self.name!r} is closed")

    # -- who calls -------------------------------------------------------------------------------------------------------------------------------------

    def check_place(self, what: str, instead: str) -> None:
        """Raises WrongThread in a handler of the system."""
        turn = current()
        if get_ident() == self.kernel.thread:
            raise WrongThread(
                f"{what} was called in the thread that runs the system {self.name!r}, where it would wait for itself; in a handler {instead}"
            )
        if turn.__class__ is Delivery and turn.cell.kernel is self.kernel and turn.thread == get_ident():
            raise WrongThread(
                f"{what} was called in a handler of {turn.cell.path}, which acts under its message's authority; there, {instead}"
            )

    def check_holder(self, what: str) -> None:
        """Raises WrongThread in a handler of the system, NoContext in any other's: only the holder spawns and stops."""
        self.check_place(what, "use self.ctx")
        if current().__class__ is Delivery:
            sending(self.kernel, current(), None, None)

    # -- messages --------------------------------------------------------------------------------------------------------------------------------------

    def prepare(
        self, ref: Ref[Any], message: Any, timeout: float | None, context: SecurityContext | None, approvals: Approvals, *, what: str
    ) -> Delivery:
        """A delivery, after every check that can be made where it is sent. Raises what is wrong with the call; nothing was sent then."""
        cell = ref._cell
        if current() is not None or get_ident() == self.kernel.thread:
            self.check_place(f"ref.{what} of {cell.path}", f"use the core's ref (ref.core): {_IN_A_HANDLER[what]}")
        if timeout is not None:
            check_timeout(timeout)
        message = unwrap(message)
        handler, message = addressed(cell, message, streamed=what == "stream")
        if handler.streams != (what == "stream"):
            label = type(message).__qualname__
            raise Unhandled(
                f"{label} is answered by a stream: use ref.stream(message), not {what}"
                if handler.streams
                else f"{label} is no Stream; ask for it"
            )
        delivery = make_delivery(cell, handler, message, from_outside(self.kernel, current(), context, cell), None, None, timeout)
        trace = sent_in(self.kernel, None)
        if approvals or trace is not None:
            delivery.postmark = Postmark(tokens_of(approvals) if approvals else (), trace)
        if self.kernel.loopback is not None:
            delivery.message = self.kernel.loopback.message(message)
        return delivery

    def limit(self, delivery: Delivery) -> float:
        """Seconds after which the asker may stop relying on the loop."""
        timeout = delivery.timeout
        if timeout is None:
            timeout = delivery.handler.info.timeout or self.kernel.ask_timeout
        return float(timeout) + GUARD

    def overdue(self, delivery: Delivery) -> AskTimeout:
        """For an asker that stops relying on the loop."""
        return AskTimeout(
            f"{delivery.cell.path} did not answer {type(delivery.message).__qualname__} within {self.limit(delivery):g} s, and the loop of the system "
            f"{self.name!r} does not react: something blocks it (the log of retinue.watchdog says what). The outcome is unknown",
            path=delivery.cell.path,
        )

    def stuck_error(self) -> SystemClosed:
        """For who leaves a blocked loop behind."""
        return SystemClosed(f"the loop of the system {self.name!r} is blocked and was left behind; the log says where it is")

    def request(self, delivery: Delivery, slot: TwinSlot | TwinStreamSlot) -> None:
        """Sends a request. Raises SystemClosed. Call it where a Ctrl-C (which may come at its very end) makes the asker give up."""
        if not self.portal.post(self._begin, delivery, slot):
            raise self.closed_error()

    def _begin(self, delivery: Delivery, slot: TwinSlot | TwinStreamSlot) -> None:
        slot.begun = True
        self.portal.begin(delivery, slot)

    def give_up(self, slot: TwinSlot) -> None:
        """The asker waits no longer."""
        self.portal.post(_give_up, slot)

    # -- anything else ---------------------------------------------------------------------------------------------------------------------------------

    def run(self, call: Call) -> None:
        """Starts a call's task, which holds the system. Raises SystemClosed."""
        if not self.portal.post(self._start, call):
            raise self.closed_error()

    def _start(self, call: Call) -> None:
        try:
            assert self._nursery is not None
            self._context.run(self._nursery.start_soon, call.run)
        except RuntimeError:  # it takes no more tasks
            call.refuse()

    def call(self, function: Callable[[], Any], deliver: Deliver) -> None:
        """Calls a function in the system's thread, or here once that has ended. Raises SystemClosed before it has begun."""
        if not self.portal.post(_call, function, deliver):
            if self.thread is None:
                raise self.closed_error()
            _call(function, deliver)

    def watch(self, ref: Ref[Any], deliver: Deliver) -> TwinWatch:
        """Watches an actor; call it in the system's thread."""
        watch = TwinWatch(ref, deliver)
        cell = ref._cell
        if cell.state == DEAD:
            watch.deliver(terminated_of(cell))
        else:
            cell.extras().watchers.append(watch)
        return watch

    async def stop(self, grace: float | None) -> None:
        """Stops the system; run it with `run`."""
        assert self._leave is not None
        try:
            await self.core.stop(grace=grace)
        finally:
            self._leave.set()

    def own(self, ref: object) -> Ref[Any]:
        """The core's ref of a ref of this system, either kind."""
        found = ref.core if isinstance(ref, TwinRef) else ref
        if not isinstance(found, Ref):
            raise DefinitionError(f"a ref is wanted, not {ref!r}")
        if found._cell.kernel is not self.kernel:
            raise DefinitionError(f"{ref!r} belongs to another system")
        return found


_IN_A_HANDLER = {
    "ask": "`await ref.ask(message)`, or self.ctx.ask(ref, message) in a blocking actor",
    "tell": "`ref.tell(message)`",
    "send": "`await ref.send(message)`",
    "stream": "`async with ref.stream(message) as items`",
    "stop": "`await ref.stop()`",
}


class TwinRef(Generic[A_co]):
    """What the refs of both twins have in common.

    Attributes:
        core: The `rt.Ref` behind it. A twin's ref in a message's field, or as a constructor's argument, arrives as that by itself; type checkers want `ref.core` there.
    """

    __slots__ = ("_twin", "core")

    def __init__(self, core: Ref[A_co], twin: Twin) -> None:
        self.core: Ref[A_co] = core
        self._twin = twin

    @property
    def path(self) -> str:
        """The actor's address in its system: `/user/bank/ada`."""
        return self.core.path

    @property
    def alive(self) -> bool:
        """Whether the actor took messages a moment ago."""
        return self.core.alive

    def __eq__(self, other: object) -> bool:
        return self.core is other.core if isinstance(other, TwinRef) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.core)

    def __repr__(self) -> str:
        return repr(self.core)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} belongs to a running system and cannot be pickled; send its path and look it up in the registry there")


_PLAIN: Final = frozenset({bool, bytes, float, int, str, type(None)})


def unwrap(value: Any) -> Any:
    """The value with the core's refs and regions in place of a twin's: in a message's fields, and in lists, tuples, sets and dicts."""
    kind = value.__class__
    if kind in _PLAIN:
        return value
    if isinstance(value, TwinRef | TwinVirtual):
        return value.core
    if kind in (list, tuple, set, frozenset):
        inner = [unwrap(one) for one in value]
        return value if all(map(_same, inner, value)) else kind(inner)
    if kind is dict:
        pairs = {unwrap(key): unwrap(one) for key, one in value.items()}
        return value if all(map(_same, pairs, value)) and all(map(_same, pairs.values(), value.values())) else pairs
    if isinstance(value, Message) and attrs.has(kind):
        changed: dict[str, Any] = {}
        for field in attrs.fields(kind):
            old = getattr(value, field.name)
            if old.__class__ not in _PLAIN and (new := unwrap(old)) is not old and field.init:
                changed[field.alias] = new
        evolve: Any = attrs.evolve
        return evolve(value, **changed) if changed else value
    within = getattr(kind, "__with_refs__", None)  # an object that holds refs, such as a team's members that are not spawned yet
    return value if within is None else within(value, unwrap)


def _give_up(slot: TwinSlot) -> None:
    if slot.begun:
        slot.give_up()


def _same(one: Any, other: Any) -> bool:
    return one is other


def _call(function: Callable[[], Any], deliver: Deliver) -> None:
    try:
        value = function()
    except Exception as error:
        deliver(None, error)
    else:
        deliver(value, None)
