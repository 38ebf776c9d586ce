"""Refs: how one talks to an actor. The paths of `ask` and `tell` are spelled out here, for they are the hottest code of the system."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, final, overload

import trio
from trio.lowlevel import cancel_shielded_checkpoint, checkpoint, checkpoint_if_cancelled, current_task, enable_ki_protection

from retinue.actors.runtime import lifecycle, outcomes
from retinue.actors.runtime.asks import DONE, ROOM, AskSlot, DetachedSlot, RoomSlot, TakenSlot, deadline_of
from retinue.actors.runtime.cell import DEAD, IDLE, RUNNING, WAITING, Cell, Spec
from retinue.actors.runtime.current import Delivery, Suspension, current, make_delivery
from retinue.actors.runtime.cycles import add_wait, check_cycle, drop_wait
from retinue.actors.runtime.handlers import DEF, GENERATOR
from retinue.actors.runtime.receipts import ACCEPTED, Receipt
from retinue.actors.runtime.stepping import close_left_open, enclose, enter, enter_async, resume, run_context
from retinue.mailbox.envelope import Postmark
from retinue.mailbox.errors import Unhandled
from retinue.mailbox.messages import Message, Request, Stream
from retinue.security.errors import DefinitionError, RetinueError

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.streams import StreamReader
    from retinue.security.context import SecurityContext

__all__ = ["MAX_DEPTH", "Ref", "check_timeout"]

_NO_SCOPE: Any = None

RECEIVED = 256
"""Errors that a turn remembers to have received as answers; the oldest are forgotten first."""

A_co = TypeVar("A_co", covariant=True)
R = TypeVar("R")
E = TypeVar("E")

MAX_DEPTH = 16
"""Handlers that may run inside each other in one asker's task; a deeper ask goes by the queue."""

_new = Delivery.__new__


def check_timeout(timeout: object) -> float:
    """A time-out in seconds, 0 or more (`math.inf`: none), else a DefinitionError."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise DefinitionError(f"timeout={timeout!r}: give seconds, 0 or more, or math.inf for no limit")
    try:
        seconds = float(timeout)
    except OverflowError:  # an int that not even a text may be able to show
        raise DefinitionError("timeout= is an int of too many digits: give seconds, 0 or more, or math.inf for no limit") from None
    if not seconds >= 0:  # NaN is not
        raise DefinitionError(f"timeout={timeout!r}: give seconds, 0 or more, or math.inf for no limit")
    return seconds


@final
class Ref(Generic[A_co]):
    """The address of an actor, and the right to send it messages. Two refs are equal if they address the same actor; a restart changes nothing.

    Made by `spawn`; `Ref[Account]` says what the actor is, and `await ref.ask(request)` is statically the request's answer.

    Options of `ask`, `send` and `stream`, and of `tell` as far as they make sense there:

    - `timeout`: seconds until `AskTimeout` (`MailboxFull` for `send`); default: the message class's, else the system's (30 s). Never longer than what is left of
      the deadline of the request that the calling handler is working on. `math.inf`: no limit.
    - `context`: the security context to send under; inside a handler it must descend from the current one. Default: the current one.
    - `approvals`: approval tokens to redeem.
    - `detached` (`ask` only): the handler goes on when this asker is cancelled or times out.

    What `ask` raises: `AskTimeout` (no answer in time; the outcome is unknown), `ActorStopped` (the actor has stopped, or did before it answered; the cause is
    chained), `AskCancelled` (the handler was cancelled), `MailboxFull` (no room in time; not delivered), `Denied` and `ApprovalRequired` (the context does not
    permit it, or a person must consent), `AskCycle` (it would close a ring of actors that wait for each other), `Unhandled` (the actor has no handler for it),
    `NoContext` (sent from where nobody's authority is in force, without `context=`), `WrongThread`, and what the handler raised.
    """

    __slots__ = ("__weakref__", "_cell")
    _cell: Cell
    __immutable__ = True

    def __init__(self, *_: object) -> None:
        raise DefinitionError(
            "a Ref is made by spawn, and found with system.registry.get(path) or self.ctx.system.find(path), never built by hand"
        )

    @property
    def path(self) -> str:
        """The actor's address in its system: `/user/bank/ada`."""
        return self._cell.path

    @property
    def alive(self) -> bool:
        """Whether the actor still takes messages, at this moment."""
        return self._cell.state != DEAD and not self._cell.closed

    def __repr__(self) -> str:
        cell = self._cell
        return f"<Ref {cell.path} ({cell.spec.cls.__name__}{'' if self.alive else ', stopped'})>"

    def __copy__(self) -> Ref[A_co]:
        return self

    def __deepcopy__(self, _: object) -> Ref[A_co]:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} belongs to a running system and cannot be pickled; send its path and look it up in the registry there")

    # -- ask ---------------------------------------------------------------------------------------------------------------------------------------

    @overload
    async def ask(
        self,
        message: Request[R],
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Sequence[object] = (),
        detached: bool = False,
    ) -> R: ...
    @overload
    async def ask(
        self,
        message: Message,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Sequence[object] = (),
        detached: bool = False,
    ) -> object: ...
    @enable_ki_protection
    async def ask(
        self,
        message: Any,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Sequence[object] = (),
        detached: bool = False,
    ) -> Any:
        """Sends a request and returns what its handler returned. Options and errors: see the class."""
        cell = self._cell
        kernel = cell.kernel
        turn = current()
        handler = cell.handlers.get(message.__class__)
        usual = context is None and not detached and not approvals and kernel.plain and cell.state == IDLE
        if not usual or handler is None or not handler.inline or get_ident() != kernel.thread:
            return await self._ask_slowly(message, timeout, context, approvals, detached)
        sending: Any
        if turn.__class__ is Delivery and turn.cell.kernel is kernel and turn.depth < MAX_DEPTH:
            sending, asker, depth = turn.security, turn, turn.depth + 1
        elif turn is kernel.roots:
            sending, asker, depth = kernel.root, None, 1
        else:
            return await self._ask_slowly(message, timeout, context, approvals, detached)
        if timeout is not None:
            check_timeout(timeout)
        delivery = _new(Delivery)
        delivery.message = message
        delivery.context = sending
        delivery.cell = cell
        delivery.handler = handler
        delivery.source = asker
        delivery.timeout = timeout
        delivery.slot = delivery.postmark = delivery.waits = delivery.suspension = delivery.received = None
        delivery.depth = depth
        cell.state = RUNNING
        cell.turn = delivery
        kernel.running = cell
        kernel.sent += 1
        kernel.asks = asks = kernel.asks + 1
        began = 0.0 if asks & 63 else perf_counter()
        value = coroutine = trap = base = None
        try:
            if sending is cell.gate_context and handler is cell.gate_handler:
                delivery.security = cell.gate_security
            else:
                delivery.security = kernel.admit(cell, handler, sending)
            if handler.kind == DEF:
                value = cell.context.run(enter, delivery, handler.function, cell.actor, message)
            else:
                if asker is not None:
                    add_wait(asker, delivery)
                base = run_context.task._cancel_status
                try:
                    coroutine, trap = cell.context.run(enter_async, delivery, handler.function, cell.actor, message)
                except StopIteration as stop:
                    value = stop.value
                if asker is not None and coroutine is None:
                    drop_wait(asker, delivery)
        except BaseException as error:
            return await _inline_failed(delivery, error)
        if coroutine is not None:
            return await _finish_inline(delivery, coroutine, trap, base)
        cell.handled += 1
        cell.turn = None
        if cell.head is None and cell.control is None and cell.queue is None:
            cell.state = IDLE
        else:
            cell.settle()
        if delivery.slot is not None:
            return await _wait_for_answer(delivery, delivery.slot.real)
        delivery.message = delivery.source = None  # the cell's context holds the turn until the next one: not what came with it, too
        if not asks & 63:
            cell.worked += 64 * (perf_counter() - began)
            await kernel.breathe(checkpoint)  # a loop of such asks must be one that can be cancelled
        return value

    async def _ask_slowly(
        self, message: Any, timeout: float | None, context: SecurityContext | None, approvals: Sequence[object], detached: bool
    ) -> Any:
        """The path by the queue: the target is busy, the ask is out of the ordinary, or it is wrong and needs an error."""
        cell = self._cell
        kernel = cell.kernel
        if timeout is not None:
            check_timeout(timeout)
        kernel.check_thread("ask", self)
        try:
            delivery = prepare(cell, message, context, approvals, timeout, asked=True)
            if delivery.handler.kind == GENERATOR:
                raise Unhandled(
                    f"{type(message).__qualname__} is answered by a stream: use `async with ref.stream(message) as items`, not ask"
                )
            slot = delivery.slot = (DetachedSlot if detached else AskSlot)(kernel, delivery)
            return await _post_and_wait(cell, kernel, delivery, slot)
        except RetinueError as error:
            turn: Any = current()
            if turn.__class__ is Delivery:  # a refusal at once is an answer too, however it came about
                note_received(turn, error)
            await _breathe_now_and_then(kernel)  # what is refused at once never suspends
            raise

    # -- tell, send, stream ------------------------------------------------------------------------------------------------------------------------

    @enable_ki_protection
    def tell(self, message: Message, *, context: SecurityContext | None = None, approvals: Sequence[object] = ()) -> Receipt:
        """Sends a message and waits for nothing: neither room nor an answer. Never suspends, works in any thread.

        Args:
            message: The message; the answer to a request that is told goes nowhere.
            context, approvals: As for `ask`.

        Returns:
            A receipt, true where the message was accepted. One that was not accepted is a dead letter with the receipt's reason.

        Raises:
            Unhandled: The actor has no handler for it.
            Denied: `context` does not descend from the one in force, or is forged.
            NoContext: Sent from where nobody's authority is in force, without `context=`.
        """
        cell = self._cell
        kernel = cell.kernel
        turn = current()
        handler = cell.handlers.get(message.__class__)
        if (
            handler is None
            or context is not None
            or not kernel.plain
            or approvals
            or get_ident() != kernel.thread
            or handler.kind == GENERATOR
        ):
            return kernel.tell_slowly(cell, message, context, approvals)
        sending: Any
        if turn.__class__ is Delivery and turn.cell.kernel is kernel:
            sending, origin = turn.security, turn.cell
        elif turn is kernel.roots:
            sending, origin = kernel.root, None
        else:
            return kernel.tell_slowly(cell, message, None, approvals)
        delivery = _new(Delivery)
        delivery.message = message
        delivery.context = sending
        delivery.cell = cell
        delivery.handler = handler
        delivery.source = origin
        delivery.slot = delivery.postmark = delivery.timeout = delivery.waits = delivery.suspension = delivery.received = None
        delivery.depth = 0
        kernel.sent += 1
        box = cell.box
        if box and len(box) < cell.room and not cell.closed:  # a busy actor with more than one message waiting: what enqueue would do
            box.append(delivery)
            return ACCEPTED
        receipt = cell.enqueue(delivery)
        if receipt is not ACCEPTED:
            kernel.record(receipt.reason, delivery)
        return receipt

    async def send(
        self, message: Message, *, timeout: float | None = None, context: SecurityContext | None = None, approvals: Sequence[object] = ()
    ) -> Receipt:
        """As `tell`, but waits for room in a full mailbox, for at most `timeout` seconds (default: the system's, 30 s).

        Raises:
            MailboxFull: There was no room in time; the message was not delivered.
            AskCycle: The target is full, and waits for the sender.
            Unhandled, Denied, NoContext: As `tell`.
        """
        cell = self._cell
        kernel = cell.kernel
        limit = kernel.ask_timeout if timeout is None else check_timeout(timeout)
        kernel.check_thread("send", self)
        await checkpoint_if_cancelled()
        delivery = prepare(cell, message, context, approvals, None, asked=False)
        if delivery.handler.kind == GENERATOR:
            raise Unhandled(
                f"{type(message).__qualname__} is answered by a stream: use `async with ref.stream(message) as items`, not send"
            )
        receipt = kernel.take_in(cell, delivery, patient=True)
        if receipt is ACCEPTED:
            await kernel.breathe(cancel_shielded_checkpoint)
            return receipt
        if receipt.reason not in ("mailbox_full", "dropped_newest"):
            kernel.record(receipt.reason, delivery)
            await cancel_shielded_checkpoint()
            return receipt
        return await _wait_for_room(delivery, min(limit, _left(current())))

    def stream(
        self,
        message: Stream[E],
        *,
        timeout: float | None = None,
        window: int = 32,
        context: SecurityContext | None = None,
        approvals: Sequence[object] = (),
    ) -> StreamReader[E]:
        """Asks for a stream: `async with ref.stream(message) as items: async for item in items: …`.

        Args:
            message: The request for a stream.
            timeout: Seconds that the whole stream may take, as for `ask`.
            window: Items that the actor may be ahead of the reader before it waits, 1 or more.
            context, approvals: As for `ask`.

        The reader always sees a terminal event: the end of the iteration, the handler's exception, or one of `ask`'s errors. Leaving the block early cancels the
        handler.
        """
        from retinue.actors.runtime.streams import StreamReader

        if timeout is not None:
            check_timeout(timeout)
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise DefinitionError(f"window={window!r}: give a whole number of items, 1 or more")
        return StreamReader(self._cell, message, timeout, window, context, approvals)

    async def stop(self, *, grace: float | None = None) -> None:
        """Stops the actor and waits until it has ended. Its children end first; mail that still waits becomes dead letters.

        Args:
            grace: Seconds that the message in progress may take before it is cancelled; default: the system's (5 s).

        Raises:
            Denied: The caller is neither the actor itself, nor its parent, nor the system's holder, and its context does not permit `actor.stop`.
        """
        kernel = self._cell.kernel
        if grace is not None:
            check_timeout(grace)
        kernel.check_thread("stop", self)
        await kernel.stop_cell(self._cell, grace)


_new_cell = Cell.__new__
_new_ref = Ref.__new__


def new_cell(kernel: Kernel, parent: Cell | None, spec: Spec, name: str | int, grant: SecurityContext) -> Cell:
    """A cell with its ref: not started, so its mail waits. (Stands here because it makes a ref.)"""
    cell = _new_cell(Cell)
    ref: Ref[Any] = _new_ref(Ref)
    ref._cell = cell
    cell.ref = ref
    cell.kernel = kernel
    cell.parent = parent
    cell.spec = spec
    cell.name = name
    cell.grant = grant
    cell.handlers = spec.handlers
    cell.room = spec.room
    cell.state = WAITING
    cell.closed = False
    cell.handled = 0
    cell.waited = cell.worked = 0.0
    cell.actor = cell.birth = cell.children = cell.head = cell.box = cell.control = cell.turn = cell.context = cell.facade = cell.extra = (
        None
    )
    cell.gate_context = cell.gate_handler = cell.gate_security = None
    cell.queue = spec.mailbox.make_queue() if spec.special else None
    return cell


def prepare(
    cell: Cell, message: Any, context: SecurityContext | None, approvals: Sequence[object], timeout: float | None, *, asked: bool
) -> Delivery:
    """A delivery for the slower paths, after every check that can be made at the send site. Raises what is wrong with the call; nothing was sent then."""
    kernel = cell.kernel
    turn: Any = current()
    handler = kernel.find_handler(cell, message)
    security = kernel.sending_context(turn, context, cell)
    in_turn = turn.__class__ is Delivery and turn.cell.kernel is kernel
    delivery = make_delivery(cell, handler, message, security, turn.cell if in_turn else None, turn if in_turn and asked else None, timeout)
    if in_turn and turn.postmark is not None and turn.postmark.trace is not None:
        delivery.postmark = Postmark((), turn.postmark.trace)
    if approvals:
        delivery.postmark = Postmark(tuple(approvals), delivery.postmark.trace if delivery.postmark is not None else None)
    if kernel.loopback is not None:
        delivery.message = kernel.loopback.message(message)
    return delivery


async def _post_and_wait(cell: Cell, kernel: Kernel, delivery: Delivery, slot: AskSlot) -> Any:
    """Enqueues a request (or waits for room) and suspends until it is answered."""
    asker = delivery.asker
    label = type(delivery.message).__qualname__
    if asker is not None:
        check_cycle(asker, cell, current_task(), f"the ask of {cell.path} for {label}")
        lifecycle.check_restarting(asker.cell, cell, delivery.message)
    receipt = kernel.take_in(cell, delivery)
    if receipt is not ACCEPTED:
        if receipt.reason not in ("mailbox_full", "dropped_newest"):
            slot.stage = DONE
            kernel.record(receipt.reason, delivery)
            raise kernel.gone(delivery)
        slot.stage = ROOM
        cell.extras().waiters[delivery] = None
    slot.arm()
    return await _wait_for_answer(delivery, slot)


async def _wait_for_answer(delivery: Delivery, slot: AskSlot) -> Any:
    asker = delivery.asker
    if asker is None:
        return await slot.wait()
    add_wait(asker, slot.delivery)
    try:
        return await slot.wait()
    except BaseException as error:
        note_received(asker, error)
        raise
    finally:
        drop_wait(asker, slot.delivery)
        drop_wait(asker, delivery)


async def _wait_for_room(delivery: Delivery, limit: float) -> Receipt:
    cell = delivery.cell
    turn: Any = current()
    in_turn = turn.__class__ is Delivery
    if in_turn:
        try:
            check_cycle(turn, cell, current_task(), f"the send of {type(delivery.message).__qualname__} to the full mailbox of {cell.path}")
            lifecycle.check_restarting(turn.cell, cell, delivery.message)
        except BaseException:
            cell.kernel.sent -= 1  # what raises at the send site was never sent
            raise
    slot = RoomSlot(cell.kernel, delivery, turn if in_turn else None)
    cell.extras().waiters[delivery] = slot
    if in_turn:
        delivery.suspension = Suspension(current_task(), _NO_SCOPE)
        add_wait(turn, delivery)
    return await slot.wait(limit)


def _left(turn: Any) -> float:
    """Seconds that are left of the deadline of the request that the turn works on."""
    if turn.__class__ is not Delivery or not turn.asked:
        return math.inf
    return max(0.0, deadline_of(turn) - trio.current_time())


def note_received(turn: Delivery, error: BaseException) -> None:
    """Remembers that the turn got this error as an answer: letting it through is no failure of the turn's actor."""
    received = turn.received
    if received is None:
        received = turn.received = deque(maxlen=RECEIVED)  # bounded: a resident loop may receive errors for ever
    received.append(error)


async def _breathe_now_and_then(kernel: Kernel) -> None:
    """One time in 64 lets trio look at timers, sockets and cancellations, if it could not for 1 ms."""
    kernel.asks += 1
    if not kernel.asks & 63:
        await kernel.breathe(checkpoint)


async def _inline_failed(delivery: Delivery, error: BaseException) -> Any:
    """A handler that ran in its asker's task raised; settles it and raises what the asker gets.

    A handler that had deferred its answer and given it before it raised has answered: then that is what the asker gets.
    """
    cell = delivery.cell
    asker = delivery.asker
    answered = _answered(delivery)
    answer = outcomes.conclude_error(cell.kernel, cell, delivery, error)
    cell.settle()
    if asker is not None:
        drop_wait(asker, delivery)
    if answered is not None:
        return await _wait_for_answer(delivery, answered)
    if asker is not None:
        note_received(asker, answer)
    if not cell.kernel.asks & 63:
        await cell.kernel.breathe(checkpoint)
    try:
        raise answer
    finally:
        del answer, error


def _answered(delivery: Delivery) -> AskSlot | None:
    """The slot that the handler took away, where it has been answered already."""
    slot = delivery.slot
    if slot.__class__ is TakenSlot and slot.real is not None and slot.real.stage == DONE:
        real: AskSlot = slot.real
        return real
    return None


@enable_ki_protection
async def _finish_inline(delivery: Delivery, coroutine: Any, trap: Any, base: Any) -> Any:
    """A handler that runs in its asker's task has suspended: it gets a cancel scope of its own, and goes on here."""
    cell = delivery.cell
    kernel = cell.kernel
    began = perf_counter()
    scope = trio.CancelScope()
    try:
        enclose(scope, base)
    except RuntimeError as misnested:  # it left a scope of its asker
        coroutine.close()
        return await _inline_failed(delivery, misnested)
    suspension = delivery.suspension = Suspension(current_task(), scope)
    if cell.closed:
        lifecycle.hurry_suspended(cell)
    timer = None
    deadline = deadline_of(delivery)
    if deadline != math.inf:

        def expire() -> None:
            suspension.expired = True
            scope.cancel()

        timer = kernel.deadlines.add(deadline, expire)
    kernel.inline_suspended += 1
    value: Any = None
    error: BaseException | None = None
    try:
        value = await resume(cell.context.run, coroutine, trap, kernel, delivery)
    except BaseException as raised:
        error = raised
    if close_left_open(scope) and error is None:
        error = outcomes.scope_left_open(delivery)
    left = _leave(scope, error)
    kernel.inline_suspended -= 1
    if timer is not None:
        kernel.deadlines.cancel(timer)
    cell.worked += perf_counter() - began
    try:
        if suspension.interrupt is not None:
            if error is None:
                cell.handled += 1
            else:
                outcomes.conclude_error(kernel, cell, delivery, left or error)
            cell.settle()
            raise suspension.interrupt
        if error is not None and left is not None and outcomes.without_cancelled(left) is None:
            # The asker itself is being cancelled, and the handler with it: no failure, and trio's Cancelled goes its way.
            outcomes.conclude_error(kernel, cell, delivery, left)
            cell.settle()
            raise left
        if error is not None:
            return await _inline_failed(delivery, left or error)
        if delivery.expired and _answered(delivery) is None:
            late = outcomes.late_value(delivery, value)
            cell.settle()
            if delivery.asker is not None:
                note_received(delivery.asker, late)
            raise late
    finally:
        if delivery.asker is not None:
            drop_wait(delivery.asker, delivery)
        kernel.notice_quiet()
        del error, left
    cell.handled += 1
    cell.settle()
    if delivery.slot is not None:
        return await _wait_for_answer(delivery, delivery.slot.real)
    delivery.message = delivery.source = None
    return value


def _leave(scope: trio.CancelScope, error: BaseException | None) -> BaseException | None:
    """Leaves the handler's scope; returns what is left of the error once the scope has taken out its own cancellation."""
    if error is None:
        scope.__exit__(None, None, None)
        return None
    try:
        return None if scope.__exit__(type(error), error, error.__traceback__) else error
    except BaseException as changed:
        return changed
