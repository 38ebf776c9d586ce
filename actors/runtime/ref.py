"""Refs: how one talks to an actor. The paths of `ask` and `tell` are spelled out here, for they are the hottest code of the system."""

from __future__ import annotations

from collections.abc import Coroutine
from threading import get_ident
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from trio.lowlevel import cancel_shielded_checkpoint, checkpoint, checkpoint_if_cancelled, enable_ki_protection

from retinue.actors.runtime.asking import (
    breathe_now_and_then,
    check_timeout,
    finish_inline,
    inline_failed,
    note_received,
    post_and_wait,
    prepare,
    time_left,
    wait_for_room,
)
from retinue.actors.runtime.asks import AskSlot, DetachedSlot
from retinue.actors.runtime.cell import DEAD, IDLE, RUNNING, WAITING, Cell, Spec
from retinue.actors.runtime.coercing import TakesText, addressed
from retinue.actors.runtime.current import Delivery, current
from retinue.actors.runtime.cycles import add_wait, drop_wait
from retinue.actors.runtime.depths import STEP_DEPTH, check_stack
from retinue.actors.runtime.derivation import answered
from retinue.actors.runtime.handlers import DEF
from retinue.actors.runtime.lending import ask_lent, lent
from retinue.actors.runtime.receipts import ACCEPTED, Receipt
from retinue.actors.runtime.relaying import relayed
from retinue.actors.runtime.stepping import enter, enter_async, not_awaited, run_context
from retinue.mailbox.errors import Unhandled
from retinue.mailbox.messages import Message, Request, Stream
from retinue.security.errors import DefinitionError, RetinueError

if TYPE_CHECKING:
    from retinue.actors.runtime.carrying import Approvals
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.streams import StreamReader
    from retinue.security.context import SecurityContext

__all__ = ["MAX_DEPTH", "Ref", "new_cell"]


A_co = TypeVar("A_co", covariant=True)
R = TypeVar("R")
E = TypeVar("E")

MAX_DEPTH = 16
"""Handlers that may run inside each other in one asker's task; a deeper ask goes by the queue."""

_new = Delivery.__new__


class Ref(Generic[A_co]):
    """The address of an actor, and the right to send it messages. Two refs are equal if they address the same actor; a restart changes nothing.

    Made by `spawn`; `Ref[Account]` says what the actor is, and `await ref.ask(request)` is statically the request's answer.

    Options of `ask`, `send` and `stream`, and of `tell` as far as they make sense there:

    - `timeout`: seconds until `AskTimeout` (`MailboxFull` for `send`); default: the message class's, else the system's (30 s). Never longer than what is left of
      the deadline of the request that the calling handler is working on. `math.inf`: no limit.
    - `context`: the security context to send under; inside a handler it must descend from the current one. Default: the current one.
    - `approvals`: approval tokens to redeem, at most 16: what `system.approvals.approve(…)` gave; in a handler, `self.ctx.approvals`: those of its own message.
    - `detached` (`ask` only): the handler goes on when this asker is cancelled or times out.

    A message is sent, or what the actor's class makes one of (`Actor.coerce`): an agent takes a `str`.

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
        approvals: Approvals = (),
        detached: bool = False,
    ) -> R: ...
    @overload
    async def ask(
        self: Ref[TakesText[R, Any]],
        message: str,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Approvals = (),
        detached: bool = False,
    ) -> R: ...
    @overload
    async def ask(
        self,
        message: Message,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Approvals = (),
        detached: bool = False,
    ) -> object: ...
    @enable_ki_protection
    async def ask(
        self,
        message: Any,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Approvals = (),
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
        delivery.cell, delivery.handler = cell, handler
        delivery.source = asker
        delivery.timeout = timeout
        delivery.slot = delivery.postmark = delivery.waits = delivery.suspension = delivery.received = None
        delivery.depth = depth
        cell.state, cell.turn = RUNNING, delivery
        kernel.running = cell
        kernel.asks = asks = kernel.asks + 1
        began = 0.0 if asks & 63 else perf_counter()
        value = coroutine = trap = base = None
        try:
            if sending is cell.gate_context and handler is cell.gate_handler:
                delivery.security = cell.gate_security
            else:
                kernel.door.admit(cell, delivery)
                handler, message = delivery.handler, delivery.message
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
            if value.__class__ is CoroutineType:
                raise not_awaited(delivery, value)
        except BaseException as error:
            kernel.unsettled = (delivery, error, kernel.unsettled)  # noted before any call, for which the stack may be too full
            kernel.missed = True
            return await inline_failed(delivery, error)
        if coroutine is not None:
            return await finish_inline(delivery, coroutine, trap, base)
        cell.handled += 1
        cell.turn = None
        if cell.head is None and cell.control is None and cell.queue is None:
            cell.state = IDLE
        else:
            cell.settle()
        if delivery.security is not sending and kernel.labelled:
            answered(delivery)
        if delivery.slot is not None:
            return await relayed(delivery, delivery.slot.real)
        delivery.message = delivery.source = None  # the cell's context holds the turn until the next one: not what came with it, too
        if not asks & 63:
            cell.worked += 64 * (perf_counter() - began)
            await kernel.breathe(checkpoint)  # a loop of such asks must be one that can be cancelled
        return value

    def _ask_slowly(
        self, message: Any, timeout: float | None, context: SecurityContext | None, approvals: Approvals, detached: bool
    ) -> Coroutine[Any, Any, Any]:
        """By a worker that a pool lends, where it does; else by the queue."""
        cell = self._cell
        kernel = cell.kernel
        if timeout is not None:
            check_timeout(timeout)
        kernel.check_thread("ask", self)
        turn: Any = current()
        if cell.relays and context is None and not approvals and not detached and kernel.plain:
            in_turn = turn.__class__ is Delivery and turn.cell.kernel is kernel and turn.depth < MAX_DEPTH
            handler = cell.handlers.get(message.__class__)
            worker = lent(cell, handler) if handler is not None and (in_turn or turn is kernel.roots) else None
            if worker is not None and handler is not None:
                sending = turn.security if in_turn else kernel.root
                return ask_lent(cell, worker, handler, message, sending, turn if in_turn else None, timeout)
        return self._ask_by_queue(message, timeout, context, approvals, detached)

    async def _ask_by_queue(
        self, message: Any, timeout: float | None, context: SecurityContext | None, approvals: Approvals, detached: bool
    ) -> Any:
        """The path by the queue: the target is busy, the ask is out of the ordinary, or it is wrong and needs an error."""
        cell = self._cell
        kernel = cell.kernel
        turn: Any = current()
        try:
            if cell.spec.coerces and message.__class__ not in cell.handlers:
                made = addressed(cell, message, streamed=False)[1]
                if made is not message:  # then its own way may be the short one
                    return await self.ask(made, timeout=timeout, context=context, approvals=approvals, detached=detached)
            delivery = prepare(cell, message, context, approvals, timeout, asked=True)
            if delivery.handler.streams:
                raise Unhandled(
                    f"{type(message).__qualname__} is answered by a stream: use `async with ref.stream(message) as items`, not ask"
                )
            slot = delivery.slot = (DetachedSlot if detached else AskSlot)(kernel, delivery)
            return await post_and_wait(cell, kernel, delivery, slot)
        except RetinueError as error:
            if turn.__class__ is Delivery:  # a refusal at once is an answer too, however it came about
                note_received(turn, error)
            await breathe_now_and_then(kernel)  # what is refused at once never suspends
            raise

    # -- tell, send, stream ------------------------------------------------------------------------------------------------------------------------

    @overload
    def tell(self, message: Message, *, context: SecurityContext | None = None, approvals: Approvals = ()) -> Receipt: ...
    @overload
    def tell(
        self: Ref[TakesText[Any, Any]], message: str, *, context: SecurityContext | None = None, approvals: Approvals = ()
    ) -> Receipt: ...
    @enable_ki_protection
    def tell(self, message: Any, *, context: SecurityContext | None = None, approvals: Approvals = ()) -> Receipt:
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
        if handler is None or context is not None or not kernel.plain or approvals or get_ident() != kernel.thread or handler.streams:
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
        box = cell.box
        if box and len(box) < cell.room and not cell.closed:  # a busy actor with more than one message waiting: what enqueue would do
            box.append(delivery)
            kernel.sent += 1
            return ACCEPTED
        kernel.sent += 1
        try:
            receipt = cell.enqueue(delivery)
            if receipt is not ACCEPTED:
                kernel.record(receipt.reason, delivery)
        except BaseException:
            kernel.sent -= 1  # what raises at the send site was never sent
            raise
        return receipt

    @overload
    async def send(
        self, message: Message, *, timeout: float | None = None, context: SecurityContext | None = None, approvals: Approvals = ()
    ) -> Receipt: ...
    @overload
    async def send(
        self: Ref[TakesText[Any, Any]],
        message: str,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Approvals = (),
    ) -> Receipt: ...
    @enable_ki_protection
    async def send(
        self, message: Any, *, timeout: float | None = None, context: SecurityContext | None = None, approvals: Approvals = ()
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
        check_stack(STEP_DEPTH)
        delivery = prepare(cell, message, context, approvals, None, asked=False)
        if delivery.handler.streams:
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
        return await wait_for_room(delivery, min(limit, time_left(current())))

    @overload
    def stream(
        self,
        message: Stream[E],
        *,
        timeout: float | None = None,
        window: int = 32,
        context: SecurityContext | None = None,
        approvals: Approvals = (),
    ) -> StreamReader[E]: ...
    @overload
    def stream(
        self: Ref[TakesText[Any, E]],
        message: str,
        *,
        timeout: float | None = None,
        window: int = 32,
        context: SecurityContext | None = None,
        approvals: Approvals = (),
    ) -> StreamReader[E]: ...
    def stream(
        self,
        message: Any,
        *,
        timeout: float | None = None,
        window: int = 32,
        context: SecurityContext | None = None,
        approvals: Approvals = (),
        **unknown: Any,
    ) -> StreamReader[Any]:
        """Asks for a stream: `async with ref.stream(message) as items: async for item in items: …`.

        Args:
            message: The request for a stream.
            timeout: Seconds that the whole stream may take, as for `ask`.
            window: Items that the actor may be ahead of the reader before it waits, 1 or more.
            context, approvals: As for `ask`.

        The reader always sees a terminal event: the end of the iteration, the handler's exception, or one of `ask`'s errors. Leaving the block early cancels the
        handler.
        """
        if unknown:
            from retinue.actors.runtime.options import no_option

            raise no_option(self, "stream", message, unknown)
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
    cell = _new_cell(spec.kind)
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
