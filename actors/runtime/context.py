"""`self.ctx`: what an actor may do. Everything here acts under the authority of the message that is being handled."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Generator, Iterable
from threading import get_ident
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

from retinue.actors.runtime import derivation, lifecycle
from retinue.actors.runtime.asks import QUEUED, RUNNING, AskSlot, TakenSlot
from retinue.actors.runtime.carrying import CarriedApprovals, carry
from retinue.actors.runtime.cell import Cell
from retinue.actors.runtime.current import Delivery, current, make_delivery
from retinue.actors.runtime.deciding import Decision, check_question, decision
from retinue.actors.runtime.deferred import Deferred
from retinue.actors.runtime.depths import STEP_DEPTH, check_stack
from retinue.actors.runtime.due import deadline_of, expiry_of
from retinue.actors.runtime.errors import WrongThread
from retinue.actors.runtime.forwarding import forward
from retinue.actors.runtime.interrupting import Interrupter
from retinue.actors.runtime.names import cell_of
from retinue.actors.runtime.ref import Ref
from retinue.actors.runtime.relaying import hand_over
from retinue.actors.runtime.spending import Budget
from retinue.actors.runtime.tasks import OwnedTask, start_owned
from retinue.actors.runtime.timers import Timers
from retinue.actors.runtime.tracing import NO_SPAN, TurnSpan
from retinue.actors.runtime.virtual_refs import VirtualRef
from retinue.actors.runtime.watch import Watch
from retinue.mailbox.errors import MailboxFull
from retinue.mailbox.messages import Message, Request
from retinue.mailbox.queues import Mailbox
from retinue.security.errors import AuthorityError, DefinitionError, Denied, NoContext

if TYPE_CHECKING:
    from retinue.actors.runtime.actor import Actor
    from retinue.actors.runtime.carrying import Approvals
    from retinue.actors.runtime.pools import Pool
    from retinue.actors.runtime.receptionist import ServiceKey
    from retinue.actors.runtime.receptionist_faces import ActorReceptionist
    from retinue.actors.runtime.supervision import Supervision
    from retinue.actors.runtime.topic_faces import ActorTopics
    from retinue.actors.runtime.view import SystemView
    from retinue.actors.runtime.virtual import Virtual
    from retinue.capabilities.consent import Approval
    from retinue.security.context import SecurityContext
    from retinue.security.restrictions import Restriction

__all__ = ["ActorContext", "Deferred"]

A = TypeVar("A", bound="Actor")
R = TypeVar("R")


class _Done:
    """An awaitable that is done: `await` is allowed, and not needed."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


_DONE = _Done()


class ActorContext:
    """What an actor may do; it is `self.ctx`.

    Of the current message: `message`, `sender`, `security`. Of the actor: `ref`, `path`, `parent`, `children`. Of the system: `system`, a view.
    """

    __slots__ = ("_cell",)

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def __reduce__(self) -> NoReturn:
        raise TypeError("an actor's context cannot be copied or pickled")

    # -- the actor ---------------------------------------------------------------------------------------------------------------------------------

    @property
    def ref(self) -> Ref[Any]:
        """The actor's own ref."""
        return self._cell.ref

    @property
    def path(self) -> str:
        """The actor's address."""
        return self._cell.path

    @property
    def key(self) -> str | None:
        """The key of a virtual actor; None for any other."""
        return self._cell.ref.key if isinstance(self._cell.ref, VirtualRef) else None

    @property
    def parent(self) -> Ref[Any] | None:
        """The parent's ref; None right under `/user`. For a virtual actor: of whoever spawned the region."""
        parent = self._cell.parent
        if parent is not None and self._cell.spec.region is not None:
            parent = parent.parent
        return parent.ref if parent is not None and parent.parent is not None else None

    @property
    def children(self) -> tuple[Ref[Any], ...]:
        """The refs of the living children, in the order they were spawned."""
        return tuple(child.ref for child in (self._cell.children or {}).values())

    @property
    def system(self) -> SystemView:
        """A view of the system: name, statistics, look-ups. It can neither mint nor approve nor stop."""
        from retinue.actors.runtime.view import SystemView

        return SystemView(self._cell.kernel)

    @property
    def timers(self) -> Timers:
        """The actor's timers: `self.ctx.timers.every("poll", Poll(), 5.0)`."""
        return Timers(self._cell, self._turn)

    @property
    def topics(self) -> ActorTopics:
        """Publishing and subscribing: `self.ctx.topics.publish(topic, message)`, `.subscribe(topic)`."""
        from retinue.actors.runtime.topic_faces import ActorTopics

        return ActorTopics(self)

    @property
    def receptionist(self) -> ActorReceptionist:
        """Who offers which service: `self.ctx.receptionist.register(key)`, `.find(key)`."""
        from retinue.actors.runtime.receptionist_faces import ActorReceptionist

        return ActorReceptionist(self)

    # -- the current message -----------------------------------------------------------------------------------------------------------------------

    def _turn(self) -> Delivery:
        turn: Any = current()
        cell = self._cell
        if turn.__class__ is Delivery and turn.cell is cell:
            suspension = turn.suspension
            if get_ident() == (cell.kernel.thread if suspension is None else suspension.thread or cell.kernel.thread):
                return turn
        raise NoContext(
            f"this is no turn of {self._cell.path}: self.ctx speaks of the message that the actor is handling, in the task or thread that handles it"
        )

    @property
    def message(self) -> Any:
        """The current message; None in hooks and the resident loop."""
        return self._turn().message

    @property
    def sender(self) -> Ref[Any] | None:
        """Who sent the current message; None where no actor did."""
        origin = self._turn().origin
        return origin.ref if origin is not None else None

    @property
    def security(self) -> SecurityContext:
        """The effective context: what the current message was sent under, narrowed by this actor's grant. What the handler sends carries it."""
        turn = current()
        if turn.__class__ is Delivery and turn.cell is self._cell and turn.suspension is None and get_ident() == turn.cell.kernel.thread:
            return turn.security  # as nearly always, and it is asked for often
        return self._turn().security

    @property
    def is_root(self) -> bool:
        """Whether the current message was sent under the system's root context itself: by the system's holder, or by an actor that hands on what that one sent."""
        return self._turn().context is self._cell.kernel.root

    def refusal(self, error: Denied) -> AuthorityError:
        """Records a refusal that the actor decides by itself, as the gate records its own: `raise self.ctx.refusal(rt.Denied(…))`. It is the error itself, or the
        `AuditUnavailable` that it becomes where it cannot be recorded.
        """
        return self._cell.kernel.book.refused(error)

    @property
    def span(self) -> TurnSpan:
        """The span of the current message, to note something on it; where nothing is traced, one that notes nothing."""
        postmark = self._turn().postmark
        found: TurnSpan | None = postmark.span if postmark is not None else None
        return NO_SPAN if found is None else found

    def interrupter(self) -> Interrupter:
        """What ends the current turn from outside, while it waits for something: to be left where a message that cannot wait behind it finds it.

        Called with an error, it cancels the turn, and whoever asked for it gets the error.
        """
        return Interrupter(self._turn())

    @property
    def labels(self) -> frozenset[str]:
        """What the current turn has touched: `taint` adds labels, and so does each answer that it gets from a turn that has some."""
        return self._turn().security.labels

    def taint(self, *labels: str) -> None:
        """Adds labels to the current turn: what it sends, spawns and starts from now on carries them, and its answer gives them to whoever asked.

        Args:
            labels: Names such as "web" or "mail", for where data came from, or what it must be kept from.

        Raises:
            ConstraintError: A label is malformed.
        """
        derivation.taint(self._cell.kernel, self._turn(), labels)

    def restrict(self, *restrictions: Restriction) -> None:
        """Narrows the current turn's own authority: what it sends, spawns and starts from now on may do less, and there is no way back. `self.ctx.security` is the
        narrower one then. (What the actor takes of its own grant by `own_authority` is not the turn's, and stays as it is.)

        Args:
            restrictions: What `SecurityContext.narrow` takes, such as `rt.limit(calls=10)` or `rt.deny("fs.write")`.

        Raises:
            DefinitionError: Something else is given.
            Revoked: The authority was revoked.
        """
        derivation.restrict(self._turn(), restrictions)

    @property
    def approval(self) -> Approval | None:
        """The consent that the current message is handled by, or None where none was needed. Its `jti` is never used again: give it as the idempotency key to
        what does the work outside, so that nothing is done twice for one approval.
        """
        return self._cell.kernel.door.approval_of(self._turn())

    @property
    def approvals(self) -> CarriedApprovals:
        """The approval tokens that came with the current message, to be passed on with what the handler sends: `approvals=self.ctx.approvals`. (They go along with
        `forward` by themselves.) Nobody can look into it.
        """
        turn = self._turn()
        return carry(self._cell, turn.postmark.approvals if turn.postmark is not None else ())

    async def decision(self, request_id: str, *, wait: float = 0.0) -> Decision:
        """What became of a request for consent that was made for the current message's subject, tenant and session; with the consent, to be passed on.

        Args:
            request_id: The request's id. One that was edited leads to the one in its place.
            wait: Seconds to wait for a decision, as long as the current message has. Default: 0, it looks once.

        Raises:
            Denied: There is none of this id, or it is somebody else's, which is not told apart; on record.
            StoreUnavailable: The desk's file cannot be used.
        """
        turn = self._turn()
        return await decision(self._cell.kernel, turn, request_id, check_question(turn, request_id, wait))

    @property
    def budget(self) -> Budget:
        """What the current message's authority may spend: reserve the worst case, do the work, settle with what it took."""
        return Budget(self._cell.kernel, self._turn().security)

    def own_authority(self, operation: str) -> SecurityContext:
        """This actor's own authority for one operation, to be given as `context=` to what it sends in this turn: its grant and nothing of the asker's.

        The class names the operations that it may do so for: `internal_operations = ("memory.write",)`. For what an actor does in its own name, with arguments
        from its own state: a store that writes its file, whoever asked it to remember something. Each use is recorded in the audit.

        Args:
            operation: One of `internal_operations`.

        Raises:
            Denied: It is none of them, the actor's grant does not permit it, or the authority of the message has ended.
            AuditUnavailable: It could not be recorded.
        """
        return derivation.own_authority(self._cell.kernel, self._turn(), operation)

    @property
    def deadline(self) -> float | None:
        """When the current request must be answered, or the current authority ends, in seconds of trio's clock; None where neither has an end."""
        turn = self._turn()
        deadline = deadline_of(turn) if turn.asked else expiry_of(turn)
        return deadline if deadline != math.inf or turn.asked else None

    @overload
    def ask(
        self,
        ref: Ref[Any],
        message: Request[R],
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Approvals = (),
    ) -> R: ...
    @overload
    def ask(
        self,
        ref: Ref[Any],
        message: Message,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Approvals = (),
    ) -> object: ...
    def ask(
        self,
        ref: Ref[Any],
        message: Any,
        *,
        timeout: float | None = None,
        context: SecurityContext | None = None,
        approvals: Approvals = (),
    ) -> Any:
        """Asks from the thread of a blocking actor, and blocks that thread until the answer is there. Elsewhere: `await ref.ask(message)`.

        Arguments, deadline and errors are those of `Ref.ask`. When this actor is to be stopped and its grace is over, ActorStopped is raised here.

        Raises:
            WrongThread: Called by an actor that is not blocking (it would stop the whole system).
        """
        turn = self._turn()
        extra = self._cell.extra
        if not turn.thread or extra is None or extra.host is None:
            raise WrongThread(
                f"ctx.ask blocks, and {self._cell.path} runs in the system's own loop: write `await ref.ask(message)` in an `async def` handler "
                f"(or make it a blocking actor: class {self._cell.spec.cls.__name__}(…, blocking=True))"
            )
        from retinue.actors.hosts.asking import ask

        return ask(extra.host, turn, ref, message, timeout, context, approvals)

    def forward(self, ref: Ref[Any], message: Message, *, context: SecurityContext | None = None) -> None:
        """Hands the current request over: the target answers the original asker, within the original deadline, and gets the approval tokens that came with it.
        What the handler returns is ignored then.

        A stream is handed over by a handler with `forwards=True`, and read from the target then; one whose reader has left meanwhile goes nowhere.
        A message that nobody waits for is simply told on. Raises what `tell` raises, and DefinitionError for a ref of another system. Where it raises, this
        actor still has the request to answer.
        """
        turn = self._turn()
        if context is None and isinstance(ref, Ref) and hand_over(turn, ref._cell, message):
            return
        forward(self._cell, turn, self._find_slot, ref, message, context)

    def defer(self) -> Deferred:
        """Takes the reply slot of the current request away, to answer it later; the actor goes on to its next message. What the handler returns is ignored then."""
        turn = self._turn()
        if not turn.asked:
            raise DefinitionError(f"nobody waits for an answer to {type(turn.message).__qualname__}: it was told, not asked")
        if turn.thread:
            raise DefinitionError("a blocking actor cannot defer; return the answer")
        slot = self._take_slot(turn)
        slot.owner = self._cell
        self._cell.extras().deferred.add(slot)
        return Deferred(slot)

    def _take_slot(self, turn: Delivery) -> AskSlot:
        slot = self._find_slot(turn)
        if turn.slot is None:
            slot.arm()
        turn.slot = TakenSlot(slot)
        return slot

    def _find_slot(self, turn: Delivery, *, forward: bool = False) -> AskSlot:
        """The slot of the current request, still its own; where it has none, a new one that is not armed. Raises where it is not to be had."""
        slot: AskSlot | TakenSlot | None = turn.slot
        if isinstance(slot, TakenSlot):
            raise DefinitionError(
                f"the answer to {type(turn.message).__qualname__} was deferred or forwarded before; a reply slot is used once"
            )
        if turn.handler is None or (turn.handler.streams and not (forward and turn.handler.forwards)):
            raise DefinitionError(
                "a stream cannot be deferred, nor handed over by a handler that yields: yield what there is, or write @handler(forwards=True) above a plain "
                "`def` that forwards it"
            )
        if slot is None:
            # The asker runs this turn in its own task: only now does it need a slot to wait at, and it will (see Ref.ask).
            return AskSlot(self._cell.kernel, turn, RUNNING)
        return slot

    # -- work beside the messages --------------------------------------------------------------------------------------------------------------------

    def start_soon(self, function: Callable[..., Awaitable[Any]], *arguments: Any, name: str | None = None) -> OwnedTask:
        """Starts a task that the actor owns. It acts under the current message's authority, without its deadline; it ends with the actor, at a restart too.

        What it raises is a failure of the actor. Beware: it runs between and beside the handlers, so hand its results over as messages (`ctx.ref.tell`).

        Raises:
            Denied: The current message was sent under an actor's own authority, which nothing outlasts.
        """
        turn = self._turn()
        if turn.thread:
            raise DefinitionError("a blocking actor lives in a thread and cannot own trio tasks")
        if not callable(function):
            if inspect.iscoroutine(function):
                function.close()
            raise DefinitionError(
                f"start_soon takes an async function and its arguments, start_soon(work, 1), not what calling it gave: {function!r}"
            )
        if self._cell.closed:
            raise NoContext(f"{self._cell.path} is stopping and starts no more tasks")
        return start_owned(
            self._cell,
            derivation.lasts(self._cell.kernel, turn),
            function,
            arguments,
            name or str(getattr(function, "__qualname__", function)),
        )

    def pipe_to_self(
        self,
        awaitable: Awaitable[Any],
        *,
        then: Callable[[Any], Message] | None = None,
        catch: Callable[[Exception], Message] | None = None,
    ) -> OwnedTask:
        """Awaits something in a task of the actor's own and sends the outcome to the actor as a message, under the current message's authority.

        Args:
            awaitable: What to await, `other.ask(…)` for example.
            then: Makes the message from the value; without it the value must be a message.
            catch: Makes a message from an exception; without it the exception is a failure of the actor.
        """

        async def pipe() -> None:
            try:
                value = await awaitable
            except Exception as error:
                if catch is None:
                    raise
                outcome = catch(error)
            else:
                outcome = value if then is None else then(value)
            self._cell.ref.tell(outcome)

        try:
            return self.start_soon(pipe, name="pipe_to_self")
        except BaseException:
            close = getattr(awaitable, "close", None)
            if close is not None:
                close()  # a coroutine that will never be awaited
            raise

    # -- mail set aside ------------------------------------------------------------------------------------------------------------------------------

    def stash(self) -> None:
        """Sets the current message aside until `unstash_all`. Raises MailboxFull where as many are set aside as the mailbox holds."""
        turn = self._turn()
        if turn.thread:
            self._cell.kernel.portal.call(self._stash, turn)  # the mailbox is touched in the system's thread only
        else:
            self._stash(turn)

    def _stash(self, turn: Delivery) -> None:
        extra = self._cell.extras()
        if turn.message is None:
            raise DefinitionError("there is no current message to stash: this is a hook or a background task")
        if isinstance(turn.slot, TakenSlot) or (turn.handler is not None and turn.handler.streams):
            raise DefinitionError(
                f"{type(turn.message).__qualname__} was stashed, deferred or forwarded before, or is a stream: it cannot be stashed"
            )
        if self._cell.kernel.door.approval_of(turn) is not None:
            raise DefinitionError(
                f"{type(turn.message).__qualname__} is handled by an approval, which is used up: it cannot be stashed, and handled later. Reject it, and have it "
                "approved once more"
            )
        if len(extra.stash) >= self._cell.spec.mailbox.capacity:
            raise MailboxFull(
                f"{self._cell.path} has stashed {len(extra.stash)} messages, as many as its mailbox holds; unstash, or refuse what comes"
            )
        original = turn.postmark.original if turn.postmark is not None else None
        message = turn.message if original is None else original  # it will be asked about again, and must not be rewritten twice
        again = make_delivery(self._cell, turn.handler, message, turn.context, turn.origin, turn.asker, turn.timeout)
        again.postmark = turn.postmark
        if turn.asked:
            slot = self._take_slot(turn)
            again.slot, slot.delivery, slot.stage = slot, again, QUEUED
        else:
            turn.slot = TakenSlot(None)
        turn.slot.again = again
        extra.stash.append(again)
        self._cell.kernel.sent += 1  # this turn counts as handled, and the stashed message as sent once more

    def unstash_all(self) -> int:
        """Brings all stashed messages back, before everything that waits, in the order in which they came. Returns how many."""
        if self._turn().thread:
            return self._cell.kernel.portal.call(self._unstash_all)  # type: ignore[no-any-return]
        return self._unstash_all()

    def _unstash_all(self) -> int:
        extra = self._cell.extra
        if extra is None:
            return 0
        check_stack(STEP_DEPTH)
        count = len(extra.stash)
        while extra.stash:
            self._cell.push_front(extra.stash.pop())
        return count

    # -- actors --------------------------------------------------------------------------------------------------------------------------------------

    async def spawn(
        self,
        cls: type[A],
        *arguments: Any,
        name: str | None = None,
        grant: Any = None,
        mailbox: Mailbox | None = None,
        supervision: Supervision | None = None,
        **keywords: Any,
    ) -> Ref[A]:
        """Spawns a child; as `ActorSystem.spawn`. Its grant is the current message's effective authority, narrowed by `grant`."""
        if self._turn().thread:
            raise DefinitionError("a blocking actor cannot spawn from its thread; let the actor that asks it spawn")
        return await self._cell.kernel.spawn(self._cell, cls, arguments, keywords, name, grant, mailbox, supervision)

    async def spawn_pool(
        self,
        cls: type[A],
        *arguments: Any,
        pool: Pool,
        name: str | None = None,
        grant: Any = None,
        mailbox: Mailbox | None = None,
        supervision: Supervision | None = None,
        **keywords: Any,
    ) -> Ref[A]:
        """Spawns a pool as a child; as `ActorSystem.spawn_pool`. Its grant is the current message's effective authority, narrowed by `grant`."""
        from retinue.actors.runtime.pools import spawn_pool

        if self._turn().thread:
            raise DefinitionError("a blocking actor cannot spawn from its thread; let the actor that asks it spawn")
        return await spawn_pool(self._cell.kernel, self._cell, cls, arguments, keywords, pool, name, grant, mailbox, supervision)

    async def spawn_group(
        self,
        members: Iterable[Ref[A]] | ServiceKey[A],
        *,
        pool: Pool,
        cls: type[A] | None = None,
        name: str | None = None,
        grant: Any = None,
    ) -> Ref[A]:
        """Puts one ref before actors that live already; as `ActorSystem.spawn_group`."""
        from retinue.actors.runtime.pools import spawn_group

        if self._turn().thread:
            raise DefinitionError("a blocking actor cannot spawn from its thread; let the actor that asks it spawn")
        return await spawn_group(self._cell.kernel, self._cell, members, cls, pool, name, grant)

    async def spawn_virtual(
        self,
        cls: type[A],
        *arguments: Any,
        name: str | None = None,
        idle: float = 900.0,
        capacity: int = 10_000,
        grant: Any = None,
        mailbox: Mailbox | None = None,
        supervision: Supervision | None = None,
        **keywords: Any,
    ) -> Virtual[A]:
        """Makes a region of virtual actors below this actor; as `ActorSystem.spawn_virtual`. Their grant is the current message's authority, narrowed by `grant`."""
        from retinue.actors.runtime.virtual import spawn_virtual

        if self._turn().thread:
            raise DefinitionError("a blocking actor cannot spawn from its thread; let the actor that asks it spawn")
        options: dict[str, Any] = {
            "name": name,
            "idle": idle,
            "capacity": capacity,
            "grant": grant,
            "mailbox": mailbox,
            "supervision": supervision,
        }
        return await spawn_virtual(self._cell.kernel, self._cell, cls, (arguments, keywords), **options)

    def watch(self, ref: Ref[Any]) -> Watch:
        """Watches an actor. If this actor has a handler for `Terminated` it gets one as a message; the returned watch can be awaited too."""
        kernel = self._cell.kernel
        cell = cell_of(ref, kernel)
        if self._turn().thread:
            return kernel.portal.call(kernel.watch, cell, self._cell)  # type: ignore[no-any-return]
        return kernel.watch(cell, self._cell)

    def stop(self) -> Awaitable[None]:
        """Stops this actor after the current message. Returns at once; `await` is allowed and does nothing."""
        turn = self._turn()
        if turn.thread:
            self._cell.kernel.portal.post(lifecycle.stop_itself, self._cell)
        else:
            lifecycle.stop_itself(self._cell)
        return _DONE
