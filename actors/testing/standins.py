"""The world of an actor that a `BehaviorTest` plays: stand-ins that do nothing but note what they are sent, and a kernel that runs nothing.

Derivation, the gate and the actor's context are the real ones. What is replaced is whatever would need a loop: taking in mail, waiting for answers, starting actors
and tasks, stopping, time.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from threading import get_ident
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import attrs

from retinue.actors.runtime import derivation
from retinue.actors.runtime.actor import Actor, handler, handlers_of
from retinue.actors.runtime.asking import check_timeout, note_received, prepare
from retinue.actors.runtime.asks import AskSlot, stopped_error
from retinue.actors.runtime.auditing import AuditBook
from retinue.actors.runtime.cell import DEAD, WAITING, Cell, Spec
from retinue.actors.runtime.current import Delivery, current
from retinue.actors.runtime.errors import AskCycle
from retinue.actors.runtime.kernel import ASK_TIMEOUT, START_TIMEOUT, STOP_GRACE, Kernel
from retinue.actors.runtime.receipts import ACCEPTED, STOPPED, Receipt
from retinue.actors.runtime.ref import Ref
from retinue.actors.testing.effects import Asked, Effect, Forwarded, Replied, Spawned, Started, Stopped, Told, Watched
from retinue.capabilities.gate import Gate
from retinue.mailbox.errors import Unhandled
from retinue.mailbox.messages import Message, Request, Stream, message
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    import contextvars

    from retinue.actors.runtime.carrying import Approvals
    from retinue.actors.runtime.supervision import Supervision
    from retinue.actors.runtime.watch import Watch
    from retinue.capabilities.registry import CapabilityRegistry
    from retinue.mailbox.queues import Mailbox
    from retinue.security.approvals import ApprovalRequest
    from retinue.security.authority import Authority
    from retinue.security.context import SecurityContext

__all__ = ["Answer", "Anybody", "Halt", "RecordingKernel", "RecordingSlot", "StandIn", "StandInRef", "check_birth"]

M = TypeVar("M")


@attrs.frozen
class StandIn:
    """An actor that a constructor is to be given: `BehaviorTest(Shop, StandIn("bank"))`. It is then `test.ref("bank")`.

    Attributes:
        name: Its name: it is `/user/NAME`.
        cls: Its class, where messages that it has no handler for are to be refused. Default: it takes any.
    """

    name: str
    cls: type[Any] | None = None


class Halt(BaseException):
    """Ends a handler whose test has forgotten something; no `except Exception` of the handler's stands in its way.

    Attributes:
        error: What the test is told.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Answer:
    """What stands ready for requests of some kind: a value, a function of the message, or an error."""

    __slots__ = ("_fits", "_given", "_to", "times")

    def __init__(self, fits: Callable[[Any], bool], given: Any, to: Ref[Any] | None, times: int | None) -> None:
        self._fits = fits
        self._given = given
        self._to = to
        self.times = times

    def suits(self, ref: Ref[Any], asked: Any) -> bool:
        """Whether it is for that request."""
        return self.times != 0 and (self._to is None or ref is self._to) and self._fits(asked)

    def give(self, asked: Any) -> Any:
        """Returns or raises it."""
        if self.times is not None:
            self.times -= 1
        given = self._given
        if isinstance(given, BaseException) or (isinstance(given, type) and issubclass(given, BaseException)):
            raise given
        return given(asked) if callable(given) else given


class StandInRef(Ref[Any]):
    """A ref in a `BehaviorTest`: what would wait for an answer gets it at once."""

    __slots__ = ()

    async def ask(
        self,
        message: Any,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Approvals = (),
        detached: bool = False,  # noqa: ARG002 - as of a ref
    ) -> Any:
        """As `Ref.ask`, with the answer that stands ready."""
        return _kernel(self).answer(self, message, timeout, context, approvals)

    async def send(
        self, message: Any, *, timeout: float | None = None, context: SecurityContext | None = None, approvals: Approvals = ()
    ) -> Receipt:
        """As `Ref.send`; there is room."""
        if timeout is not None:
            check_timeout(timeout)
        return self.tell(message, context=context, approvals=approvals)

    def stream(
        self,
        message: Any,
        *,
        timeout: float | None = None,
        window: int = 32,  # noqa: ARG002 - as of a ref
        context: SecurityContext | None = None,
        approvals: Approvals = (),
    ) -> Any:
        """As `Ref.stream`, with the items that stand ready."""
        return _Items(lambda: _kernel(self).answer(self, message, timeout, context, approvals, streams=True))

    def used(self) -> None:
        """It was sent something."""

    def outlives(self) -> bool:
        """It is stopped. Whether its ref goes on, as that of a virtual actor does."""
        return False


class _Items:
    """The reader's end of a stream that stands ready."""

    def __init__(self, start: Callable[[], Iterable[Any]]) -> None:
        self._start = start
        self._items: Any = None

    async def __aenter__(self) -> Self:
        self._items = iter(self._start())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._items = iter(())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        for item in self._items:
            if isinstance(item, BaseException):
                raise item
            return item
        raise StopAsyncIteration


class RecordingSlot(AskSlot):
    """Where the test waits for an answer."""

    __slots__ = ("asked",)

    kernel: RecordingKernel

    def __init__(self, kernel: RecordingKernel, delivery: Delivery) -> None:
        super().__init__(kernel, delivery)
        self.asked = delivery.message

    def wake(self) -> None:
        """The answer is there."""
        self.kernel.note(Replied(self.asked, self.value, self.error))

    def arm(self) -> None:
        """The test has all the time in the world."""


class RecordingCell(Cell):
    """A cell whose mail is noted, and goes nowhere."""

    __slots__ = ()

    def enqueue(self, delivery: Delivery, *, patient: bool = False) -> Receipt:  # noqa: ARG002 - as of a cell
        """Notes a message; one that a request was handed over with comes with the request's slot."""
        if self.closed or self.state == DEAD:
            return STOPPED
        kind = Told if delivery.slot is None else Forwarded
        if isinstance(self.ref, StandInRef):
            self.ref.used()
        _kernel(self.ref).note(kind(self.ref, delivery.message, delivery.context))
        return ACCEPTED


@message
class _Anything(Message):
    """Whatever a stand-in is sent."""


@message
class _AnyStream(Stream[Any]):
    """Whatever stream it is asked for."""


class Anybody(Actor):
    """The class of the actors that a test made by name."""

    @handler
    async def take(self, message: _Anything) -> None:
        """Never called: its mail is noted."""

    @handler
    async def flow(self, message: _AnyStream) -> AsyncIterator[Any]:
        """Never called."""
        yield message


_table = handlers_of(Anybody)
_table[Message], _table[Stream] = _table.pop(_Anything), _table.pop(_AnyStream)


class _Direct:
    """The portal of a kernel that has but one thread."""

    closed = False

    def call(self, function: Callable[..., M], *arguments: Any) -> M:
        """Calls it."""
        return function(*arguments)

    def post(self, function: Callable[..., Any], *arguments: Any) -> bool:
        """Calls it."""
        function(*arguments)
        return True

    def is_open(self) -> bool:
        """Always."""
        return True

    def __len__(self) -> int:
        return 0


class RecordingKernel(Kernel):
    """A kernel that runs nothing: what an actor does is noted.

    Attributes:
        effects: What was noted since somebody looked.
        answers: What stands ready for those whom the actor asks, the latest first.
        requests: What stands ready for `ctx.decision`, by id.
        played: The cell of the actor that is played, once it is there.
    """

    def __init__(self, authority: Authority, capabilities: CapabilityRegistry | None, policies: tuple[object, ...]) -> None:
        book = AuditBook(None, None, authority.now_ms)
        gate = Gate(authority, audit=book.log, policies=policies, capabilities=capabilities)
        super().__init__(
            "behavior",
            authority,
            gate,
            policies=bool(policies),
            registry=capabilities is not None,
            book=book,
            strict=False,
            seed=0,
            ask_timeout=ASK_TIMEOUT,
            start_timeout=START_TIMEOUT,
            grace=STOP_GRACE,
            loopback=False,
            events=0,
        )
        self.portal = _Direct()  # type: ignore[assignment]
        self.thread = get_ident()
        self.plain = False  # so that nothing takes the fast paths
        self.effects: list[Effect] = []
        self.answers: list[Answer] = []
        self.requests: dict[str, ApprovalRequest] = {}
        self.played: Cell | None = None
        authority.guard = self.guard
        authority.on_revoke = gate.changed
        authority.on_event = book.told

    def note(self, effect: Effect) -> None:
        """Notes what the actor did."""
        self.effects.append(effect)

    # -- stand-ins -------------------------------------------------------------------------------------------------------------------------------------

    def stand_in(self, parent: Cell, spec: Spec, name: str | None, grant: SecurityContext) -> StandInRef:
        """Makes a cell that notes its mail."""
        spec.kind = RecordingCell
        cell = self.make_cell(parent, spec, name, grant, None)
        ref: StandInRef = StandInRef.__new__(StandInRef)
        ref._cell = cell
        cell.ref = ref
        cell.state = WAITING
        return ref

    def answer(
        self,
        ref: Ref[Any],
        asked: Any,
        timeout: float | None,
        context: SecurityContext | None,
        approvals: Approvals,
        *,
        streams: bool = False,
    ) -> Any:
        """An ask, or the start of a stream: notes it, and gives the answer that stands ready."""
        if timeout is not None:
            check_timeout(timeout)
        cell = ref._cell
        turn: Delivery = current()
        delivery = prepare(cell, asked, context, approvals, timeout, asked=True, streamed=streams)
        asked = delivery.message
        if delivery.handler.streams is not streams and not (
            cell.spec.cls is Anybody and isinstance(asked, Request) and isinstance(asked, Stream)
        ):
            raise Unhandled(f"{type(asked).__qualname__} is answered by {'one value: ask' if streams else 'a stream: use ref.stream'}")
        if cell is turn.cell:
            raise AskCycle(f"{cell.path} would wait for its own answer to {type(asked).__qualname__} for ever; tell it, or call the method")
        if cell.state == DEAD or (cell.closed and cell is not self.played):
            error = stopped_error(delivery)
            note_received(turn, error)
            raise error
        if isinstance(ref, StandInRef):
            ref.used()
        self.note(Asked(ref, asked, delivery.context, timeout))
        if not delivery.handler.awaits:  # its door, as far as nobody has to be waited for
            try:
                self.door.admit(cell, delivery)
            except BaseException as error:
                note_received(turn, error)
                raise
        ready = next((one for one in self.answers if one.suits(ref, asked)), None)
        if ready is None:
            raise Halt(
                DefinitionError(
                    f"{turn.cell.path} asks {ref.path} for {type(asked).__qualname__}, and no answer stands ready: test.answer({type(asked).__qualname__}, value) "
                    "before (a function of the message or an error will do, too)"
                )
            )
        try:
            return ready.give(asked)
        except BaseException as error:
            note_received(turn, error)
            raise

    # -- what needs a loop elsewhere -------------------------------------------------------------------------------------------------------------------

    def push(self, cell: Cell) -> None:
        """Nobody gets a turn by himself here."""

    async def breathe(self, checkpoint: Callable[[], Awaitable[None]]) -> None:
        """There is nothing beside."""

    def start_task(self, context: contextvars.Context, function: Callable[..., Any], *arguments: Any, name: str) -> None:
        """Notes a task that the actor starts."""
        owner = getattr(function, "__self__", None)
        turn, work, work_arguments = arguments
        title = getattr(owner, "name", name)
        self.note(Started(title, work, work_arguments, SimpleNamespace(context=context, turn=turn, task=owner)))

    async def spawn(
        self,
        parent: Cell,
        cls: Any,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        name: str | None,
        grant: Any,
        mailbox: Mailbox | None,
        supervision: Supervision | None,
        former: Cell | None = None,
    ) -> Ref[Any]:
        """Notes a child; a stand-in takes its place."""
        return self.child(parent, cls, arguments, keywords, name, grant, mailbox, supervision, former=former)

    def child(
        self,
        parent: Cell,
        cls: Any,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        name: str | None,
        grant: Any,
        mailbox: Mailbox | None,
        supervision: Supervision | None,
        pool: object = None,
        *,
        members: bool = False,
        former: Cell | None = None,
    ) -> Ref[Any]:
        """A child, or a pool, under the grant that it would have; `members` says that the arguments are no constructor's, `former` whose place it takes."""
        spec = self.spec(cls, supervision, mailbox)
        if not members:
            check_birth(cls, arguments, keywords)
        turn = current()
        security = derivation.child_grant(self, turn, parent, grant) if former is None else derivation.inherited(self, turn, former, parent)
        ref = self.stand_in(parent, spec, name, security)
        self.note(Spawned(cls, arguments, keywords, ref, name, pool, security))
        return ref

    def watch(self, cell: Cell, watcher: Cell | None = None) -> Watch:
        """Notes a watch."""
        self.note(Watched(cell.ref))
        return super().watch(cell, watcher)

    async def stop_cell(self, cell: Cell, grace: float | None) -> None:  # noqa: ARG002 - as of a kernel
        """Notes that somebody is stopped, who must be a child, or the actor itself, or else `actor.stop` is permitted."""
        turn = derivation.acting(self)
        if turn is not None and turn.cell is not cell and turn.cell is not cell.parent:
            await self.door.admit_stop(turn, cell)
        self.stop_now(cell)

    def stop_now(self, cell: Cell) -> None:
        """Notes that somebody is stopped."""
        self.note(Stopped(cell.ref))
        parent = cell.parent
        if cell is not self.played and isinstance(cell.ref, StandInRef):
            if cell.ref.outlives():
                return
            if parent is not None and parent is not self.user:
                self.bury(cell)
        cell.closed = True

    def bury(self, cell: Cell) -> None:
        """A stand-in has ended."""
        cell.closed, cell.state = True, DEAD
        parent = cell.parent
        if parent is not None and parent.children is not None and parent.children.get(cell.name) is cell:
            del parent.children[cell.name]
        self.names.forget(cell)


def check_birth(cls: type[Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Raises the TypeError of a constructor that does not take these arguments. It is not called: a child is a stand-in."""
    try:
        signature = inspect.signature(cls)
    except ValueError:  # written in C, it shows none
        return
    try:
        signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise TypeError(f"{cls.__qualname__}.__init__(): {error}") from None


def _kernel(ref: Ref[Any]) -> RecordingKernel:
    kernel = ref._cell.kernel
    assert isinstance(kernel, RecordingKernel)
    return kernel
