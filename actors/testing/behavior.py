"""Actors tested without a system: one message in, its effects out, in a plain function, with neither loop nor clock nor thread.

Everything around the actor is a stand-in that notes what it is sent. Authority is real: the contexts of messages are derived as in a system, and `requires` is
checked by a gate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from threading import get_ident
from types import CoroutineType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

from retinue.actors.runtime import lifecycle, outcomes
from retinue.actors.runtime.asks import DONE
from retinue.actors.runtime.cell import RUNNING, WAITING, Extra
from retinue.actors.runtime.coercing import addressed
from retinue.actors.runtime.current import Delivery, Suspension, make_delivery
from retinue.actors.runtime.derivation import child_grant, sending
from retinue.actors.runtime.handlers import ASYNC, GENERATOR
from retinue.actors.runtime.names import check_name
from retinue.actors.runtime.ref import Ref
from retinue.actors.runtime.stepping import call, enter, not_awaited, odd_exit
from retinue.actors.runtime.topic_notices import Listing
from retinue.actors.runtime.watch import StopReason, Terminated
from retinue.actors.testing.by_hand import LoopNeeded, loop_needed, outside_of_trio, run_by_hand
from retinue.actors.testing.effects import Deferred, Effect, Failed, Started, Stashed, Unstashed
from retinue.actors.testing.errors import NeedsLoop
from retinue.actors.testing.recording_context import RecordingContext
from retinue.actors.testing.standin_regions import RecordingRegion, StandInRegion, make_region
from retinue.actors.testing.standins import Answer, Anybody, Halt, RecordingKernel, RecordingSlot, StandIn
from retinue.mailbox.envelope import Postmark
from retinue.mailbox.messages import Message, Request, Stream
from retinue.mailbox.queues import Mailbox
from retinue.security.authority import Authority
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Coroutine, Hashable

    from retinue.actors.runtime.actor import Actor
    from retinue.actors.runtime.receptionist import ServiceKey
    from retinue.actors.runtime.supervision import Supervision
    from retinue.actors.runtime.virtual import Virtual
    from retinue.capabilities.registry import CapabilityRegistry
    from retinue.security.approvals import ApprovalRequest
    from retinue.security.context import SecurityContext

__all__ = ["BehaviorTest"]

A = TypeVar("A", bound="Actor")
A2 = TypeVar("A2", bound="Actor")
R = TypeVar("R")
E = TypeVar("E")
Ef = TypeVar("Ef", bound=Effect)


class BehaviorTest(Generic[A]):
    """Plays one actor: `test = BehaviorTest(Till, 10)`, then `test.tell(…)`, `test.ask(…)`, and look at what it did.

    Handlers run at once and to their end, in the calling thread; so do those of a blocking actor. An `async def` may await asks, sends, spawns and stops: stand-ins
    answer at once, with what `answer` was told. What awaits anything else (`trio.sleep`, a nursery, a lock, a socket) is told to use a system.

    What a handler raises is raised to the test, by `tell` too; the actor is not restarted (`restart` does that). A message that it takes out of its stash is handled
    right after the current one. What it tells itself is an effect as any other, and is not handled until the test sends it.

    Args:
        cls: The actor's class; `arguments` and `keywords` go to its constructor, which runs now. A `StandIn("bank")` among them is the ref of a stand-in there,
            a `StandInRegion("sessions")` a region of them.
        name, grant, mailbox, supervision: As for `spawn`.
        key: For an actor that is to be virtual: what `self.ctx.key` says, and the last part of its path, under that of its region, which has the `name`.
        permissions: What the root context permits, under which the test sends; None: everything.
        policies, capabilities: As for `ActorSystem`.

    Attributes:
        actor: The actor's instance.
        effects: What the last call made it do, in order.
        history: All that it did so far, its constructor included.
        authority: Its world's authority: `test.authority.mint("ada", ["payments.send"])`.

    Raises:
        DefinitionError: It is no actor class, or an option is wrong.
        Exception: What its constructor raises.
    """

    def __init__(
        self,
        cls: type[A],
        *arguments: Any,
        name: str | None = None,
        grant: Sequence[Any] | None = None,
        mailbox: Mailbox | None = None,
        supervision: Supervision | None = None,
        key: str | None = None,
        permissions: Iterable[Any] | None = None,
        policies: Iterable[object] = (),
        capabilities: CapabilityRegistry | None = None,
        **keywords: Any,
    ) -> None:
        self.authority = Authority(permissions)
        kernel = self._kernel = RecordingKernel(self.authority, capabilities, tuple(policies))
        spec = kernel.spec(cls, supervision, mailbox)
        security = child_grant(kernel, kernel.roots, kernel.user, grant, 1 if key is None else 2)
        self._stand_ins: dict[str, Ref[Any]] = {}
        self._regions: dict[str, RecordingRegion] = {}
        self._ref: Ref[A] = (
            kernel.stand_in(kernel.user, spec, name, security)
            if key is None
            else make_region(kernel, kernel.user, spec, name, security, [key])[key]
        )
        cell = kernel.played = self._cell = self._ref._cell
        given = (tuple(map(self._there, arguments)), {name: self._there(value) for name, value in keywords.items()})
        cell.birth = given if arguments or keywords else None
        extra = cell.extra = Extra()
        extra.stash = _Noted(kernel, Stashed)
        extra.deferred = _NotedSlots(kernel)
        self._context = cell.facade = RecordingContext(cell, key)
        self._started = False
        self.effects: list[Effect] = []
        self.history: list[Effect] = []
        self._step(self._build)

    @property
    def actor(self) -> A:
        """The actor's instance: its state, to be looked at."""
        return self._cell.actor  # type: ignore[return-value]

    @property
    def own_ref(self) -> Ref[A]:
        """The actor's own ref."""
        return self._ref

    @property
    def running(self) -> bool:
        """False once the actor has stopped itself."""
        return not self._cell.closed

    # -- its world -------------------------------------------------------------------------------------------------------------------------------------

    def ref(self, name: str, cls: type[Any] | None = None, *, grant: Sequence[Any] | None = None) -> Ref[Any]:
        """A stand-in for another actor, `/user/NAME`; the same one for the same name.

        Args:
            name: Its name.
            cls: Its class, where messages that it has no handler for are to be refused. Default: it takes any.
            grant: What it may take part in. Default: all that the root context may.
        """
        found = self._stand_ins.get(check_name(name))
        if found is None:
            kernel = self._kernel
            spec = kernel.spec(cls if cls is not None else Anybody, None, None)
            security = child_grant(kernel, kernel.roots, kernel.user, grant)
            found = self._stand_ins[name] = kernel.stand_in(kernel.user, spec, name, security)
        return found

    def region(self, name: str, cls: type[Any] | None = None, *, grant: Sequence[Any] | None = None) -> Virtual[Any]:
        """A stand-in for a region of virtual actors, `/user/NAME`; the same one for the same name. `test.region("sessions")["ada"]` is the stand-in for a key.

        Args:
            name: Its name.
            cls: The class of its actors, where messages that it has no handler for are to be refused. Default: they take any.
            grant: What they may take part in. Default: all that the root context may.
        """
        found = self._regions.get(check_name(name))
        if found is None:
            kernel = self._kernel
            spec = kernel.spec(cls if cls is not None else Anybody, None, None)
            security = child_grant(kernel, kernel.roots, kernel.user, grant, 2)
            found = self._regions[name] = make_region(kernel, kernel.user, spec, name, security)
        return found

    def register(self, key: ServiceKey[A2], *who: Ref[A2] | str) -> None:
        """Makes stand-ins known as those that offer a service: `self.ctx.receptionist.find(key)` gives those that the message's authority may address. Where
        the actor follows the service, it handles the `rt.Listing` now.

        Args:
            key: The service's key.
            who: Stand-ins of the key's class, or names of such: `test.register(TILLS, "till")` makes `test.ref("till", Till)` known.

        Raises:
            DefinitionError: A stand-in of another class, or of none.
        """
        for one in who:
            ref = self.ref(one, key.cls) if isinstance(one, str) else one
            self._kernel.receptionist.agreed.check(key)
            self._kernel.receptionist.register(key, ref._cell)
        self._step(self._take_up)

    def unregister(self, key: ServiceKey[A2], ref: Ref[A2]) -> bool:
        """Makes one unknown again, stand-in or not; False where it was not registered."""
        found = self._kernel.receptionist.unregister(key, ref._cell)
        self._step(self._take_up)
        return found

    def _there(self, value: object) -> object:
        if isinstance(value, StandInRegion):
            region = self.region(value.name, value.cls)
            for key in value.active:
                region.touch(key)  # type: ignore[attr-defined]
            return region
        return self.ref(value.name, value.cls) if isinstance(value, StandIn) else value

    def answer(
        self,
        match: type[Any] | tuple[type[Any], ...] | Callable[[Any], object],
        given: Any = None,
        *,
        to: Ref[Any] | None = None,
        times: int | None = None,
    ) -> None:
        """Says what the actor gets for a request that it will make. The latest that fits is the one that counts.

        Args:
            match: The requests' class, several, or a function of the request that says whether it is meant.
            given: The value; a function of the request that gives or raises it; an exception, to be raised. Of a stream: its items (an exception among them is raised
                in its place).
            to: Only for requests to that one.
            times: How often; then the one before counts again. Default None: always.
        """
        if isinstance(match, type | tuple):
            kinds = match

            def fits(message: Any) -> bool:
                return isinstance(message, kinds)

        elif callable(match):
            predicate = match

            def fits(message: Any) -> bool:
                return bool(predicate(message))

        else:
            raise DefinitionError(f"answer({match!r}, …): give a class of requests, a tuple of them, or a function of the request")
        if isinstance(given, Iterator):
            given = tuple(given)  # for each stream that is asked for, not the first one only
        self._kernel.answers.insert(0, Answer(fits, given, to, times))

    def decided(self, request: ApprovalRequest, *, known_as: str | None = None) -> None:
        """Says what `self.ctx.decision(request.id)` gives: this request. One with a token is an approved one. `known_as`: the id of one that it has replaced."""
        self._kernel.requests[request.id if known_as is None else known_as] = request

    # -- one message in, effects out -------------------------------------------------------------------------------------------------------------------

    def tell(self, message: Message, *, sender: Ref[Any] | None = None, context: SecurityContext | None = None) -> list[Effect]:
        """Gives the actor a message that nobody waits for, and returns what it did.

        Args:
            message: The message.
            sender: Who sent it, a stand-in. Default: nobody's actor.
            context: What it was sent under, made by `authority`. Default: the root context.

        Raises:
            Unhandled: It has no handler for the message.
            Denied, ApprovalRequired: The gate refuses it.
            NeedsLoop: The handler awaits what needs a loop.
            Exception: What the handler raises.
        """
        self._step(self._receive, message, sender, context, None)
        return self.effects

    def request(self, message: Message, *, sender: Ref[Any] | None = None, context: SecurityContext | None = None) -> list[Effect]:
        """As `ask`, and returns what the actor did: a `Replied` is among it once the request is answered."""
        self._step(self._receive, message, sender, context, RecordingSlot)
        return self.effects

    def ask(self, message: Request[R], *, sender: Ref[Any] | None = None, context: SecurityContext | None = None) -> R:
        """Asks the actor, and returns its answer. Arguments and errors as for `tell`.

        Raises:
            DefinitionError: It has not answered yet: it deferred, forwarded or stashed the request. Use `request` there.
        """
        slot: RecordingSlot | None = self._step(self._receive, message, sender, context, RecordingSlot)
        if slot is None or slot.stage != DONE:
            raise DefinitionError(
                f"{self._cell.path} has not answered {type(message).__qualname__} yet, but did this: {self.effects}; "
                "test.request(…) returns that, and the Replied comes when it answers"
            )
        if slot.error is not None:
            raise slot.error
        return slot.value  # type: ignore[no-any-return]

    def stream(self, message: Stream[E], *, sender: Ref[Any] | None = None, context: SecurityContext | None = None) -> list[E]:
        """Asks the actor for a stream, and returns all its items. Arguments and errors as for `tell`."""
        items: list[E] = []
        self._step(self._receive, message, sender, context, RecordingSlot, items)
        return items

    def tick(self, key: Hashable) -> list[Effect]:
        """Lets a timer tick that the actor has set, and returns what it did. A timer that ticks once is gone then.

        Raises:
            DefinitionError: It has no such timer.
        """
        timer = self._context.timers_set.get(key)
        if timer is None:
            raise DefinitionError(
                f"{self._cell.path} has no timer {key!r}; it has {', '.join(map(repr, self._context.timers_set)) or 'none'}"
            )
        if timer.every is None:
            del self._context.timers_set[key]
        return self.tell(timer.message, sender=self._ref, context=timer.context)

    def terminate(self, ref: Ref[Any], reason: StopReason = StopReason.STOPPED, error: BaseException | None = None) -> list[Effect]:
        """Ends a stand-in, and returns what the actor did: it gets a `Terminated` if it watches and has a handler for that."""
        self._kernel.bury(ref._cell)
        extra = ref._cell.extras()
        extra.reason, extra.cause = reason, error
        watched = any(watch._watcher is self._cell for watch in extra.watchers)
        notice = self._cell.spec.notice
        if watched and notice is not None:
            delivery = make_delivery(self._cell, notice, Terminated(ref, reason, error), self._cell.grant, None)
            self._step(self._handle, delivery, None)
        else:
            self._step(self._take_up)
        return self.effects

    def run(self, started: Started) -> list[Effect]:
        """Runs a task that the actor has started, to its end, and returns what it did.

        Raises:
            NeedsLoop: It awaits what needs a loop.
            Exception: What it raises, which is a failure of the actor.
        """
        self._step(self._run_task, started)
        return self.effects

    # -- its life --------------------------------------------------------------------------------------------------------------------------------------

    def start(self) -> list[Effect]:
        """Runs `on_start`, and returns what the actor did. The first message does it too, where the test has not."""
        if self._started:
            raise DefinitionError(f"{self._cell.path} was started before; restart() starts it anew")
        self._step(self._start)
        return self.effects

    def stop(self, reason: StopReason = StopReason.STOPPED) -> list[Effect]:
        """Runs `on_stop`, and returns what the actor did. It takes no more messages."""
        self._step(self._stop, reason)
        self._cell.closed = True
        return self.effects

    def restart(self) -> list[Effect]:
        """Makes the actor anew, as after a failure: `on_stop`, the constructor with the same arguments, `on_start`. Timers and deferred answers end; what was stashed
        is handled then.
        """
        self._step(self._restart)
        return self.effects

    def _start(self) -> None:
        self._started = True
        spec = self._cell.spec
        if spec.has_start:
            self._hook(spec.cls.on_start)
        if spec.resident:
            from retinue.actors.runtime.tasks import start_owned

            start_owned(self._cell, self._cell.grant, spec.cls.run, (self._cell.actor,), "run")  # type: ignore[attr-defined]

    def _stop(self, reason: StopReason) -> None:
        self._context.timers_set.clear()
        if self._cell.spec.has_stop:
            self._hook(self._cell.spec.cls.on_stop, reason)

    def _restart(self) -> None:
        cell = self._cell
        extra = cell.extras()
        extra.incarnation += 1
        self._stop(StopReason.RESTART)
        lifecycle._fail_deferred(cell)
        cell.closed = False
        self._build()
        self._start()
        while extra.stash:
            cell.push_front(extra.stash.pop())

    def _build(self) -> None:
        turn = make_delivery(self._cell, None, None, self._cell.grant, None)
        self._occupy(turn)
        lifecycle.build(self._cell, turn)

    def _hook(self, function: Callable[..., Any], *arguments: Any) -> None:
        turn = make_delivery(self._cell, None, None, self._cell.grant, None)
        self._occupy(turn)
        result = self._kernel.context_of(self._cell).run(call, turn, function, (self._cell.actor, *arguments), {})
        if hasattr(result, "__await__"):
            self._to_its_end(result, f"{self._cell.spec.cls.__qualname__}.{function.__name__}")

    def _run_task(self, started: Started) -> None:
        job = started.job
        if job is None or job.task is None or job.task.done:
            raise DefinitionError(f"{started!r} is no task of this test's actor that is still to be run")
        job.task.done = True
        self._cell.extras().tasks.discard(job.task)
        turn: Delivery = job.turn

        async def work() -> None:
            await started.function(*started.arguments)

        try:
            self._to_its_end(work(), f"the task {started.name} of {self._cell.spec.cls.__qualname__}", job.context, turn)
        except Exception as error:
            self._failed(turn, error)
            raise

    # -- a step --------------------------------------------------------------------------------------------------------------------------------------

    def _step(self, function: Callable[..., R], *arguments: Any) -> R:
        """One call of the test's: notes what the actor does in it."""
        kernel = self._kernel
        kernel.thread = get_ident()
        kernel.effects = self.effects = []
        try:
            with outside_of_trio() as loop:
                result = function(*arguments)
            if loop.asked is not None:  # and caught by the actor, in a bare `except`
                raise loop_needed(loop.asked, self._cell.spec.cls.__qualname__)
            return result
        except Halt as halt:
            raise halt.error from None
        except (RuntimeError, AttributeError, LoopNeeded) as error:
            needed = loop_needed(error, self._cell.spec.cls.__qualname__)
            if needed is error:
                raise
            raise needed from None
        finally:
            self._cell.state, self._cell.turn = WAITING, None
            self.history.extend(kernel.effects)

    def _occupy(self, turn: Delivery) -> None:
        """The actor has begun with this turn."""
        cell = self._cell
        cell.state, cell.turn = RUNNING, turn
        if cell.spec.cls.blocking:
            turn.suspension = Suspension(SimpleNamespace(child_nurseries=[]), trio.CancelScope())  # type: ignore[arg-type]
            turn.suspension.thread = get_ident()

    def _receive(
        self,
        message: Any,
        sender: Ref[Any] | None,
        context: SecurityContext | None,
        slot: type[RecordingSlot] | None,
        items: list[Any] | None = None,
    ) -> RecordingSlot | None:
        kernel, cell = self._kernel, self._cell
        if cell.closed:
            raise DefinitionError(f"{cell.path} has stopped; restart() makes it anew")
        handler, message = addressed(cell, message, streamed=items is not None)
        if handler.streams is not (items is not None):
            raise DefinitionError(
                f"{type(message).__qualname__} is answered by {'a stream: use test.stream' if items is None else 'one value: use test.ask'}"
            )
        security = sending(kernel, kernel.roots, kernel.root if context is None else context, cell)
        if not self._started:
            self._start()
            self.history.extend(kernel.effects)
            kernel.effects = self.effects = []
        delivery = make_delivery(cell, handler, message, security, sender._cell if sender is not None else None)
        kernel.sent += 1
        waits = None
        if slot is not None:
            waits = delivery.slot = slot(kernel, delivery)
            delivery.postmark = Postmark()
            delivery.postmark.deadline = float("inf")
        self._handle(delivery, items)
        return waits

    def _handle(self, delivery: Delivery, items: list[Any] | None) -> None:
        """One message, and what waits after it."""
        self._one(delivery, items)
        self._take_up()

    def _take_up(self) -> None:
        """What came back from the stash, and a listing of a service that the actor follows."""
        cell = self._cell
        while cell.head is not None:
            delivery: Delivery = cell.take()  # type: ignore[assignment]
            if not isinstance(delivery.message, Listing):
                self._kernel.note(Unstashed(delivery.message))
            self._one(delivery, None)

    def _one(self, delivery: Delivery, items: list[Any] | None) -> None:
        cell, kernel = self._cell, self._kernel
        message = delivery.message
        self._occupy(delivery)
        try:
            kernel.door.admit(cell, delivery)
            value = self._call(delivery, items)
        except (Halt, NeedsLoop):
            raise
        except BaseException as raised:
            error = _as_of_a_turn(raised)
            slot = delivery.slot
            if slot is not None and slot.stage < DONE:
                slot.fail(error)
            delivery.message = message
            if not outcomes._is_answer(delivery, error):
                self._failed(delivery, error)
            cell.handled += 1
            if error is not raised:
                raise error from raised
            raise
        cell.handled += 1
        if delivery.slot is not None:
            delivery.slot.answer(value)

    def _call(self, delivery: Delivery, items: list[Any] | None) -> Any:
        handler, cell = delivery.handler, self._cell
        context = self._kernel.context_of(cell)
        where = f"{cell.spec.cls.__qualname__}.{handler.name}"
        if handler.kind == GENERATOR:
            found = handler.function(cell.actor, delivery.message)

            async def collect() -> None:
                async with aclosing(found):
                    async for item in found:
                        items.append(item)  # type: ignore[union-attr]

            return self._to_its_end(collect(), where, turn=delivery, inside=found)
        try:
            value = context.run(enter, delivery, handler.function, cell.actor, delivery.message)
        except (RuntimeError, AttributeError, LoopNeeded) as error:
            needed = loop_needed(error, where)
            if needed is error:
                raise
            raise needed from None
        if handler.kind == ASYNC:
            value = self._to_its_end(value, where)
        if isinstance(value, CoroutineType):
            raise not_awaited(delivery, value)
        return value

    def _to_its_end(
        self,
        coroutine: Coroutine[Any, Any, Any],
        where: str,
        context: contextvars.Context | None = None,
        turn: Delivery | None = None,
        inside: object = None,
    ) -> Any:
        run = self._kernel.context_of(self._cell) if context is None else context
        if turn is not None:
            run.run(call, turn, lambda: None, (), {})
        return run_by_hand(run, coroutine, where, inside)

    def _failed(self, turn: Delivery, error: BaseException) -> None:
        self._kernel.note(Failed(turn.message, error, self._cell.spec.supervision.decide(error)))


def _as_of_a_turn(error: BaseException) -> BaseException:
    """What becomes of an error of a handler's that means something else to whoever runs it."""
    if isinstance(error, GeneratorExit):
        return odd_exit(error)
    if isinstance(error, StopIteration):
        return RuntimeError("the handler raised StopIteration, which ends generators; raise an exception of your own")
    return error


class _Noted(deque[Delivery]):
    """A stash that notes what is put into it."""

    def __init__(self, kernel: RecordingKernel, effect: type[Any]) -> None:
        super().__init__()
        self._kernel = kernel
        self._effect = effect

    def append(self, delivery: Delivery) -> None:
        """Notes it."""
        self._kernel.note(self._effect(delivery.message))
        super().append(delivery)


class _NotedSlots(set[Any]):
    """Reply slots that were taken away, noted."""

    def __init__(self, kernel: RecordingKernel) -> None:
        super().__init__()
        self._kernel = kernel

    def add(self, slot: Any) -> None:
        """Notes it."""
        self._kernel.note(Deferred(slot.delivery.message))
        super().add(slot)
