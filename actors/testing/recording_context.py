"""`self.ctx` of an actor that a `BehaviorTest` plays: the real one, but for what would need a loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from retinue.actors.runtime import derivation, timers
from retinue.actors.runtime.carrying import carry
from retinue.actors.runtime.context import ActorContext
from retinue.actors.runtime.deciding import Decision, belongs_to, check_question, no_such_request
from retinue.actors.runtime.receptionist import ServiceKey
from retinue.actors.runtime.receptionist_faces import ActorReceptionist
from retinue.actors.runtime.topic_faces import ActorTopics
from retinue.actors.runtime.topic_reports import DeliveryReport, Published
from retinue.actors.runtime.virtual import CAPACITY, IDLE_TIME
from retinue.actors.testing import effects
from retinue.actors.testing.standin_regions import RecordingRegion, check_spawn
from retinue.actors.testing.standins import RecordingKernel, check_birth
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.carrying import Approvals
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.pools import Pool
    from retinue.actors.runtime.ref import Ref
    from retinue.actors.runtime.supervision import Supervision
    from retinue.actors.runtime.virtual import Virtual
    from retinue.mailbox.queues import Mailbox
    from retinue.security.context import SecurityContext

__all__ = ["RecordingContext"]

T = TypeVar("T")


class RecordingContext(ActorContext):
    """Notes what the real one would hand to the loop.

    Attributes:
        name: The key of a virtual actor, or None.
        timers_set: The timers that are set, by key.
    """

    __slots__ = ("name", "timers_set")

    def __init__(self, cell: Cell, key: str | None) -> None:
        super().__init__(cell)
        self.name = key
        self.timers_set: dict[Hashable, effects.TimerSet] = {}

    @property
    def _recorder(self) -> RecordingKernel:
        kernel = self._cell.kernel
        assert isinstance(kernel, RecordingKernel)
        return kernel

    @property
    def key(self) -> str | None:
        """The key that the test gave."""
        return self.name

    @property
    def timers(self) -> RecordingTimers:
        """Timers that tick when the test says so."""
        return RecordingTimers(self)

    @property
    def topics(self) -> RecordingTopics:
        """Topics that nobody else knows of."""
        return RecordingTopics(self)

    @property
    def receptionist(self) -> RecordingReceptionist:
        """A receptionist of the test's own."""
        return RecordingReceptionist(self)

    def ask(
        self,
        ref: Ref[Any],
        message: Any,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Approvals = (),
    ) -> Any:
        """As the real one, of a blocking actor, with the answer that stands ready."""
        if not self._turn().thread:
            return super().ask(ref, message, timeout=timeout, context=context, approvals=approvals)  # which says what is wrong
        return self._recorder.answer(ref, message, timeout, context, approvals)

    async def decision(self, request_id: str, *, wait: float = 0.0) -> Decision:
        """As the real one, with the request that stands ready: see `BehaviorTest.decided`."""
        turn = self._turn()
        check_question(turn, request_id, wait)
        request = self._recorder.requests.get(request_id)
        if request is None or not belongs_to(request, turn):
            raise no_such_request(turn, request_id)
        return Decision(request.without_token(), carry(self._cell, () if request.token is None else (request.token,)))

    def stop(self) -> Awaitable[None]:
        """Notes it."""
        self._turn()
        self._recorder.stop_now(self._cell)
        return _Nothing()

    async def spawn_pool(
        self,
        cls: type[Any],
        *arguments: Any,
        pool: Pool,
        name: str | None = None,
        grant: Any = None,
        mailbox: Mailbox | None = None,
        supervision: Supervision | None = None,
        **keywords: Any,
    ) -> Ref[Any]:
        """Notes it; one stand-in takes the place of the pool."""
        self._turn()
        return self._recorder.child(self._cell, cls, arguments, keywords, name, grant, mailbox, supervision, pool)

    async def spawn_group(
        self,
        members: Iterable[Ref[Any]] | ServiceKey[Any],
        *,
        pool: Pool,
        cls: type[Any] | None = None,
        name: str | None = None,
        grant: Any = None,
    ) -> Ref[Any]:
        """Notes it; one stand-in takes the place of the group."""
        self._turn()
        given = (members,) if isinstance(members, ServiceKey) else tuple(members)
        if not given:
            raise DefinitionError("spawn_group of nobody: give the refs of living actors, or an rt.ServiceKey")
        first = given[0]
        kind = cls if cls is not None else first.cls if isinstance(first, ServiceKey) else first._cell.spec.cls
        return self._recorder.child(self._cell, kind, given, {}, name, grant, None, None, pool, members=True)

    async def spawn_virtual(
        self,
        cls: type[Any],
        *arguments: Any,
        name: str | None = None,
        idle: float = IDLE_TIME,
        capacity: int = CAPACITY,
        grant: Any = None,
        mailbox: Mailbox | None = None,
        supervision: Supervision | None = None,
        **keywords: Any,
    ) -> Virtual[Any]:
        """Notes it; there is a stand-in for each key."""
        turn = self._turn()
        check_spawn(cls, idle, capacity, supervision)
        check_birth(cls, arguments, keywords)
        recorder, parent = self._recorder, self._cell
        spec = recorder.spec(cls, supervision, mailbox)
        security = derivation.child_grant(recorder, turn, parent, grant, 2)
        home = recorder.stand_in(parent, spec, name, security)
        region = RecordingRegion(home, spec, idle, capacity)
        recorder.note(effects.Spawned(cls, arguments, keywords, home, name, None, security, region=region))
        return region


class _Nothing:
    def __await__(self) -> Any:
        yield from ()


class RecordingTimers(timers.Timers):
    """Checks as the real ones do; what they would arm is noted."""

    __slots__ = ("_context",)

    def __init__(self, context: RecordingContext) -> None:
        super().__init__(context._cell, context._turn)
        self._context = context

    def _here(self, function: Callable[..., T], *arguments: Any) -> T:
        return getattr(self, f"_do{function.__name__}")(*arguments)  # type: ignore[no-any-return]

    def _do_put(
        self, cell: Cell, key: Hashable, message: Any, _: Any, security: SecurityContext, __: Any, after: float, interval: float | None
    ) -> None:
        if cell.closed:
            raise DefinitionError(f"{cell.path} is stopping and sets no more timers")
        timer = effects.TimerSet(key, message, after, interval, security)
        self._context.timers_set[key] = timer
        self._context._recorder.note(timer)

    def _do_cancel(self, _: Cell, key: Hashable) -> bool:
        if self._context.timers_set.pop(key, None) is None:
            return False
        self._context._recorder.note(effects.TimerCancelled(key))
        return True

    def _do_cancel_all(self, cell: Cell) -> int:
        return sum(self._do_cancel(cell, key) for key in list(self._context.timers_set))

    def _do_keys(self, _: Cell) -> tuple[Hashable, ...]:
        return tuple(self._context.timers_set)

    def _do_skipped(self, _: Cell, __: Hashable) -> int:
        return 0

    def _do_contains(self, _: Cell, key: Hashable) -> bool:
        return key in self._context.timers_set


class RecordingTopics(ActorTopics):
    """Publishes for the record only."""

    __slots__ = ()
    _context: RecordingContext

    def publish(self, topic: Any, message: Any, *, context: SecurityContext | None = None) -> Published:
        """Notes what was published, once it is known to be permitted."""
        recorder = self._context._recorder
        published = super().publish(topic, message, context=context)
        recorder.note(effects.Published(topic, message, context if context is not None else self._context.security))
        return published

    async def publish_and_report(
        self,
        topic: Any,
        message: Any,
        *,
        timeout: float = 30.0,  # noqa: ARG002 - as of the real one
        context: SecurityContext | None = None,
    ) -> DeliveryReport:
        """The same; the report is empty."""
        self.publish(topic, message, context=context)
        return DeliveryReport(topic.name, {}, {})

    def subscribe(self, topic: Any, capacity: int = 256) -> Any:
        """Notes it."""
        found = super().subscribe(topic, capacity)
        self._context._recorder.note(effects.Subscribed(topic, capacity))
        return found

    def unsubscribe(self, topic: Any) -> bool:
        """Notes it."""
        found = super().unsubscribe(topic)
        if found:
            self._context._recorder.note(effects.Unsubscribed(topic))
        return found


class RecordingReceptionist(ActorReceptionist):
    """The real one, of a system that has nobody else in it."""

    __slots__ = ()
    _context: RecordingContext

    def register(self, key: Any, ref: Ref[Any] | None = None) -> None:
        """Notes it."""
        super().register(key, ref)
        self._context._recorder.note(effects.Registered(key, ref if ref is not None else self._context.ref))

    def unregister(self, key: Any, ref: Ref[Any] | None = None) -> bool:
        """Notes it."""
        found = super().unregister(key, ref)
        if found:
            self._context._recorder.note(effects.Unregistered(key, ref if ref is not None else self._context.ref))
        return found
