"""`ActorSystem`: the public face of one running system."""

from __future__ import annotations

import contextvars
import math
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeVar

import sniffio
import trio
from trio.lowlevel import enable_ki_protection

from retinue.actors.runtime import stepping
from retinue.actors.runtime.approving import APPROVAL_LIFETIME, REVIEWER_TIMEOUT, DeskWay, Reviewer
from retinue.actors.runtime.asking import check_timeout
from retinue.actors.runtime.auditing import AuditBook, SystemAudit
from retinue.actors.runtime.cell import DEAD
from retinue.actors.runtime.current import Roots, current_variable
from retinue.actors.runtime.derivation import acting
from retinue.actors.runtime.errors import SystemClosed, WrongEventLoop, WrongThread
from retinue.actors.runtime.events import Event
from retinue.actors.runtime.kernel import ASK_TIMEOUT, START_TIMEOUT, STOP_GRACE, Kernel
from retinue.actors.runtime.names import Names, cell_of, check_name
from retinue.actors.runtime.receptionist_faces import SystemReceptionist
from retinue.actors.runtime.ref import Ref
from retinue.actors.runtime.running import interrupts
from retinue.actors.runtime.shutdown import Patience, abandon, shut_down, shut_down_hard
from retinue.actors.runtime.spending import SystemBudgets
from retinue.actors.runtime.statistics import ActorStatistics, SystemStatistics, actor_statistics, statistics_of
from retinue.actors.runtime.supervision import is_a, leaves
from retinue.actors.runtime.topic_faces import SystemTopics
from retinue.actors.runtime.tracing import ready
from retinue.actors.runtime.watch import Watch
from retinue.actors.runtime.watchdog import Watchdog
from retinue.capabilities.engine import DEFAULT_TIMEOUT
from retinue.capabilities.gate import Gate
from retinue.security.authority import Authority
from retinue.security.errors import DefinitionError
from retinue.security.seal import Sealer

if TYPE_CHECKING:
    from pykka import ActorProxy, ActorRef

    from retinue.actors.approvals.book import SystemApprovals
    from retinue.actors.runtime.actor import Actor
    from retinue.actors.runtime.pools import Pool
    from retinue.actors.runtime.receptionist import ServiceKey
    from retinue.actors.runtime.supervision import Supervision
    from retinue.actors.runtime.virtual import Virtual
    from retinue.actors.tracing.tracing import Tracing
    from retinue.capabilities.cases import ApprovalRule
    from retinue.capabilities.registry import CapabilityRegistry
    from retinue.mailbox.letters import DeadLetters
    from retinue.mailbox.messages import Message
    from retinue.mailbox.queues import Mailbox
    from retinue.security.audit import AuditLog
    from retinue.security.keys import KeyFile, KeyRing
    from retinue.security.revocations import Revocations

__all__ = ["ActorSystem"]

A = TypeVar("A", bound="Actor")


class ActorSystem:
    """A system of actors on trio: `async with ActorSystem("shop") as system: …`.

    The task that enters it, and its children, hold it: they act under its root context. At the end of the block the intake closes, the actors drain for `grace`
    seconds, what still runs is cancelled, every open ask is resolved, and children stop before their parents. An error in the block leaves it as it is.

    Args:
        name: The system's name, for paths in texts and for logs.
        data_dir: Where durable parts keep their files; None keeps everything in memory.
        permissions: What the root context permits (patterns and restrictions); None: everything.
        strict: Refuse to spawn actors with handlers that have no `requires`.
        seed: Makes the order in which ready actors get their turns pseudo-random, reproducibly; for tests.
        ask_timeout: Seconds that an ask waits when neither the call nor the message class says otherwise. Default 30.
        start_timeout: Seconds that an actor's constructor and `on_start` may take, at its spawn and at each restart. Default 120. (A plain `def` cannot be
            cut off.)
        grace: Seconds that a stop leaves to the message in progress. Default 5.
        loopback: Encode every message and answer to bytes and decode them again on the way, as between processes; for tests.
        events: How many events the ring keeps (`events()`); 0, the default, is off and free.
        block_warning: Seconds after which a handler that blocks the loop is reported with its stack; default 0.25, `math.inf` for never.
        policies: Policies that are asked about each message of an operation that they name, in order; see `rt.policy`. Default: none.
        policy_timeout: Seconds that one asynchronous policy may take for one message; then the message is refused. Default 5.
        capabilities: The registry of operations; where there is one, operations that it does not know are refused, and its ratings count. Default: none.
        audit: Where the system records what was decided. Default: in memory, or in `audit.jsonl` in `data_dir`, with the key in `audit.key` beside it
            (`audit.2.jsonl` and so on while another system has that file). An `rt.AuditLog`: that one; it is not closed at the end. False: nothing is recorded.
        reviewer: Asked about each new request for a person's consent, before the asker is told of it: a function (it may be `async def`) that takes the
            `rt.ApprovalRequest` and gives `rt.Review.approve()`, `.reject()`, `.respond()` or `.edit()`, or None: then the request waits. One that fails, or
            takes too long, has not approved. Default: nobody is asked, and requests wait in `system.approvals`.
        reviewer_timeout: Seconds that it has for one request. Default 300. (The asker's own time-out goes on meanwhile.)
        approval_lifetime: Seconds that a request for a person's consent waits; then it has expired. From 1 s to 366 days; default 604,800, seven days.
        tracing: Whether and where spans of what its actors do are exported: `rt.Tracing(…)`. Default: nothing is traced.
    """

    def __init__(
        self,
        name: str = "main",
        *,
        data_dir: str | Path | None = None,
        permissions: Iterable[Any] | None = None,
        strict: bool = False,
        seed: int | None = None,
        ask_timeout: float = ASK_TIMEOUT,
        start_timeout: float = START_TIMEOUT,
        grace: float = STOP_GRACE,
        loopback: bool = False,
        events: int = 0,
        block_warning: float = 0.25,
        policies: Iterable[object] = (),
        policy_timeout: float = DEFAULT_TIMEOUT,
        capabilities: CapabilityRegistry | None = None,
        audit: AuditLog | Literal[False] | None = None,
        reviewer: Reviewer | None = None,
        reviewer_timeout: float = REVIEWER_TIMEOUT,
        approval_lifetime: float = APPROVAL_LIFETIME,
        tracing: Tracing | None = None,
    ) -> None:
        check_name(name, "a system's name")
        for what, value in (
            ("ask_timeout", ask_timeout),
            ("start_timeout", start_timeout),
            ("grace", grace),
            ("block_warning", block_warning),
        ):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0 or (what != "grace" and value == 0):
                raise DefinitionError(f"ActorSystem({what}={value!r}): give seconds, more than 0")
        if grace == math.inf:
            raise DefinitionError("ActorSystem(grace=inf): a stop must end; give seconds")
        if isinstance(events, bool) or not isinstance(events, int) or events < 0:
            raise DefinitionError(f"ActorSystem(events={events!r}): give how many events to keep, 0 for none")
        if data_dir is not None and not isinstance(data_dir, str | Path):
            raise DefinitionError(f"ActorSystem(data_dir=…) takes the path of a folder, not an object of type {type(data_dir).__name__}")
        # As it is now: which keys this system trusts must not depend on where the process goes later.
        self.data_dir = None if data_dir is None else Path(data_dir).absolute()
        self.authority = Authority(permissions)
        policies = tuple(policies) if isinstance(policies, Iterable) and not isinstance(policies, str | bytes) else policies
        book = AuditBook(audit, self.data_dir, self.authority.now_ms)
        gate = Gate(self.authority, audit=book.log, policies=policies, policy_timeout=policy_timeout, capabilities=capabilities)
        self._kernel = Kernel(
            name,
            self.authority,
            gate,
            policies=bool(policies),
            registry=capabilities is not None,
            book=book,
            strict=strict,
            seed=seed,
            ask_timeout=ask_timeout,
            start_timeout=start_timeout,
            grace=grace,
            loopback=loopback,
            events=events,
        )
        gate.desk = self._desk = DeskWay(self._kernel, self.data_dir, reviewer, reviewer_timeout, approval_lifetime)
        self.authority.guard = self._kernel.guard
        self.authority.on_revoke = gate.changed
        self.authority.on_event = book.told
        self._tracing = None if tracing is None else ready(tracing)
        self._audit = SystemAudit(self._kernel, book)
        self._watchdog = Watchdog(self._kernel, block_warning) if block_warning != math.inf else None
        self._entered = False
        self._mark: contextvars.Token[Any] | None = None
        self._body: trio.CancelScope | None = None
        self._over: trio.Event | None = None
        self._hard: trio.CancelScope | None = None
        self._interrupted = False

    @property
    def name(self) -> str:
        """The system's name."""
        return self._kernel.name

    def __repr__(self) -> str:
        return f"<ActorSystem {self.name!r}>"

    # -- entering and leaving ------------------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> NoReturn:
        raise WrongEventLoop(
            "retinue.ActorSystem is entered with `async with`, under trio; in a plain script use `from retinue.sync import ActorSystem`"
        )

    def __exit__(self, *_: object) -> None:
        """Never reached; `with` looks for it before it enters."""

    @enable_ki_protection
    async def __aenter__(self) -> Self:
        _check_loop()
        await trio.lowlevel.checkpoint_if_cancelled()  # now, while there is nothing to undo
        if self._entered:
            raise SystemClosed(f"the system {self.name!r} was entered before; a system runs once, make another")
        kernel = self._kernel
        tracer = None if self._tracing is None else self._tracing.begin(kernel, self.data_dir)  # raises where its files cannot be used
        self._entered = True
        kernel.thread = get_ident()
        kernel.inline_async = stepping.supported()
        template = contextvars.copy_context()
        template.run(current_variable.set, None)
        if tracer is not None:
            template.run(tracer.clear)
            kernel.tracer, kernel.plain = tracer, False
        kernel.roots = Roots(kernel, current_variable.get())
        started, self._over = trio.Event(), trio.Event()
        self._body = trio.CancelScope()
        kernel.on_fatal = self._body.cancel
        trio.lowlevel.spawn_system_task(self._run, started, template, name=f"retinue system {self.name}", context=template.copy())
        while not started.is_set():
            await trio.lowlevel.cancel_shielded_checkpoint()
        self._mark = current_variable.set(kernel.roots)
        kernel.portal.open(trio.lowlevel.current_trio_token())
        if self._watchdog is not None:
            self._watchdog.start()
        interrupts().add(self)
        self._body.__enter__()
        return self

    async def _run(self, started: trio.Event, template: contextvars.Context) -> None:
        """The system's own tasks. They live in a system task, so that a cancelled body still gets an orderly stop."""
        kernel = self._kernel
        assert self._over is not None
        try:
            async with trio.open_nursery() as nursery:
                kernel.begin(nursery, template)
                started.set()
                await trio.sleep_forever()
        except BaseException as error:  # nothing may leave a system task: it would end the whole trio run
            if isinstance(error, trio.Cancelled):
                raise
            kernel.crash(error.exceptions[0] if isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1 else error)
            abandon(kernel)
        finally:
            kernel.nursery = None
            started.set()
            self._over.set()

    @enable_ki_protection
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        # Not `bool`, for which type checkers would take every name that is bound in a block of a system for unbound after it.
        assert self._body is not None and self._mark is not None
        kernel = self._kernel
        try:
            swallowed = bool(self._body.__exit__(kind, error, traceback))
        finally:
            try:
                # A block that is cancelled from outside does not wait for its actors' mail; one that ends, fails or is interrupted does.
                cancelled = isinstance(error, trio.Cancelled) and kernel.fatal is None and not self._interrupted
                if error is not None and any(is_a(leaf, KeyboardInterrupt) for leaf in leaves(error)):
                    self._interrupted = True
                await self.stop(grace=0.0 if cancelled else None)
            finally:
                interrupts().discard(self)
                current_variable.reset(self._mark)
        if kernel.fatal is not None:
            raise kernel.fatal
        return swallowed

    def interrupt(self, *, hard: bool) -> None:
        """Ctrl-C: the first time the system will stop in good order although its block is cancelled, the second time (`hard`) at once."""
        self._interrupted = True
        if hard and self._hard is not None:
            self._hard.cancel()

    @enable_ki_protection
    async def stop(self, *, grace: float | None = None) -> None:
        """Stops the system; the end of its block does it too. Asked for again it waits for the same end.

        Args:
            grace: Seconds that the actors have to drain their mailboxes; then what runs is cancelled. Default: the system's (5 s).
        """
        kernel = self._kernel
        if grace is not None:
            check_timeout(grace)
        if self._over is None or self._over.is_set():
            if kernel.tracer is not None and self._over is not None:
                await kernel.tracer.close()
            return
        if acting(kernel) is not None:
            raise WrongThread("an actor cannot stop the system it runs in; stop itself (ctx.stop()), or tell whoever holds the system")
        patience = Patience(interrupted=self._interrupted)
        with trio.CancelScope(shield=True):
            with trio.CancelScope() as hard, suppress(KeyboardInterrupt):
                self._hard = hard
                await shut_down(kernel, kernel.grace if grace is None else grace, patience)
            if kernel.user.state != DEAD or not kernel.household.ended:  # interrupted a second time
                with suppress(KeyboardInterrupt):
                    await shut_down_hard(kernel)
            kernel.portal.close()
            kernel.letters.flush()
            kernel.door.flush()
            kernel.book.close()
            if self._watchdog is not None:
                self._watchdog.stop()
            if kernel.nursery is not None:
                kernel.nursery.cancel_scope.cancel()
            await patience.wait(self._over.wait)
            if kernel.tracer is not None:
                await patience.wait(kernel.tracer.close)
        if patience.interrupt is not None:
            raise patience.interrupt

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
    ) -> Coroutine[Any, Any, Ref[A]]:
        """Makes an actor under `/user` and returns once it has started.

        Args:
            cls: The actor's class; `arguments` and `keywords` go to its constructor, at each restart again. (They are not checked statically.)
            name: Its name, unique among the living; default: its class's name and a number.
            grant: Operations it may ever take part in (patterns and restrictions), whoever asks; default: all that the spawner may. `[]` is none.
            mailbox: Default: bounded, 1,024 messages, "reject".
            supervision: Default: restarted when it fails, with back-off.

        Raises:
            DefinitionError: It is no actor class, or an option is wrong.
            NameTaken: A living actor has that name.
            SystemClosed: The system is closing.
            Exception: What the constructor or `on_start` raised; nothing is left of the actor then.
        """
        kernel = self._kernel
        if kernel.thread != get_ident():
            self._check_running()
        # The kernel's coroutine itself, without one of our own around it: `await system.spawn(…)` all the same.
        return kernel.spawn(kernel.user, cls, arguments, keywords, name, grant, mailbox, supervision)

    async def adopt(
        self,
        actor: ActorRef[Any] | ActorProxy[Any],
        *,
        messages: Iterable[type[Message]] | Mapping[type[Message], str],
        requires: str | Mapping[type[Message], str] | None = None,
        approval: ApprovalRule | Mapping[type[Message], ApprovalRule] = False,
        name: str | None = None,
        grant: Sequence[Any] | None = None,
        mailbox: Mailbox | None = None,
        supervision: Supervision | None = None,
        stop: bool = False,
    ) -> Ref[Any]:
        """Gives a pykka actor that exists already an address, a gate and a mailbox under `/user`; returns once it can be asked.

        One message at a time is in the pykka actor's inbox. Its end is noticed within about 0.05 s and ends the stand-in. Its own ref stays ungated.

        Args:
            actor: Its ref or proxy.
            messages: The message classes that its `on_receive` takes (`rt.PykkaMessage` for raw payloads), or a mapping from message classes to the names of its
                methods, which get the message's fields as keyword arguments.
            requires: The operation that a message's context must permit, for all of them or by message class. Default: whoever holds the ref may send them.
            approval: Whether a person must consent, as for `@rt.handler`, for all of them or by message class. Default: False.
            name: Its name, unique among the living; default: the pykka class's name and a number.
            grant: Operations that it may ever take part in; as for `spawn`.
            mailbox: Of the stand-in. Default: bounded, 1,024 messages, "reject".
            supervision: Of the stand-in, which can do nothing for the pykka actor. Default: it resumes.
            stop: Whether the end of the stand-in ends the pykka actor too, which has 2 s for it. Default: it lives on.

        Raises:
            DefinitionError: It is no running pykka actor, or an option is wrong.
            ActorStopped: It has ended already.
            NameTaken, SystemClosed: As for `spawn`.
        """
        from retinue.actors.hosts.adopting import adopt

        self._check_running()
        options: dict[str, Any] = {"name": name, "grant": grant, "mailbox": mailbox, "supervision": supervision, "stop": stop}
        ref: Ref[Any] = await adopt(self._kernel, actor, messages=messages, requires=requires, approval=approval, **options)
        return ref

    async def spawn_pool(
        self,
        cls: type[A],
        *arguments: Any,
        pool: Pool,
        name: str | None = None,
        grant: Sequence[Any] | None = None,
        mailbox: Mailbox | None = None,
        supervision: Supervision | None = None,
        **keywords: Any,
    ) -> Ref[A]:
        """Makes several actors of a class behind one ref, and returns once all have started; see the page on pools.

        Args:
            cls: The workers' class; `arguments` and `keywords` go to the constructor of each, and of those that take the place of one that has ended.
            pool: How many, and who gets which message: `rt.Pool.round_robin(4)`, `.least_loaded(4)`, `.consistent_hash(4, key=…)`, `.broadcast(4)`,
                `.work_pulling(4)`.
            name: The pool's name; the workers are called 0, 1, … under it.
            grant, supervision: Of each worker, as for `spawn`.
            mailbox: Of each worker; of a pool whose workers pull, the one that all of them take from.

        Raises:
            DefinitionError, NameTaken, SystemClosed: As `spawn`.
            Exception: What the start of a worker raised; nothing is left of the pool then.
        """
        from retinue.actors.runtime.pools import spawn_pool

        self._check_running()
        kernel = self._kernel
        return await spawn_pool(kernel, kernel.user, cls, arguments, keywords, pool, name, grant, mailbox, supervision)

    async def spawn_group(
        self,
        members: Iterable[Ref[A]] | ServiceKey[A],
        *,
        pool: Pool,
        cls: type[A] | None = None,
        name: str | None = None,
        grant: Sequence[Any] | None = None,
    ) -> Ref[A]:
        """Puts one ref before actors that live already. It supervises nobody.

        Args:
            members: Their refs: the group ends when the last one has ended (a virtual actor: when its region has). Or an `rt.ServiceKey`:
                whoever is registered for it now and later on, as far as the group's grant may address them; while there is nobody, messages wait at the group, up to 1,024.
            pool: Who gets which message: `rt.Pool.round_robin()`, `.least_loaded()` or `.consistent_hash(key=…)`; its size does not count.
            cls: What they are; refs of others are refused. Default: the class of the first one, or of the key.
            name: The group's name.
            grant: What may go by the group, whoever sends it; default: all that the spawner may.

        Raises:
            DefinitionError: A member is of another class, or of another system; there is none; or the pool is of another kind.
            ActorStopped: A member has ended.
            NameTaken, SystemClosed: As `spawn`.
        """
        from retinue.actors.runtime.pools import spawn_group

        self._check_running()
        kernel = self._kernel
        return await spawn_group(kernel, kernel.user, members, cls, pool, name, grant)

    async def spawn_virtual(
        self,
        cls: type[A],
        *arguments: Any,
        name: str | None = None,
        idle: float = 900.0,
        capacity: int = 10_000,
        grant: Sequence[Any] | None = None,
        mailbox: Mailbox | None = None,
        supervision: Supervision | None = None,
        **keywords: Any,
    ) -> Virtual[A]:
        """Makes a region of virtual actors under `/user`: one actor a key, made by its first message and passivated when nobody has used it for a while.

        Args:
            cls: Their class; `arguments` and `keywords` go to the constructor of each. Which key it has, it finds in `self.ctx.key`.
            name: The region's name; its actors are at `/user/NAME/KEY`. Default: the class's name and a number.
            idle: Seconds without use after which an instance is passivated (a sixteenth more at most). Default 900, 15 minutes; `math.inf`: never.
            capacity: Instances at the same time, at most; beyond it the least recently used idle one is passivated. Default 10,000.
            grant, mailbox, supervision: As for `spawn`, of each actor. Whose message makes an instance says nothing about its grant.

        Raises:
            DefinitionError, NameTaken, SystemClosed: As for `spawn`.
        """
        from retinue.actors.runtime.virtual import spawn_virtual

        self._check_running()
        options: dict[str, Any] = {
            "name": name,
            "idle": idle,
            "capacity": capacity,
            "grant": grant,
            "mailbox": mailbox,
            "supervision": supervision,
        }
        return await spawn_virtual(self._kernel, self._kernel.user, cls, (arguments, keywords), **options)

    async def watch(self, ref: Ref[Any]) -> Watch:
        """Watches an actor: `(await watch.wait())` is its `Terminated`, at once if it is gone already."""
        self._check_running()
        return self._kernel.watch(cell_of(ref, self._kernel))

    # -- looking in ----------------------------------------------------------------------------------------------------------------------------------

    @property
    def registry(self) -> Names:
        """Names and paths of living actors."""
        return self._kernel.names

    @property
    def topics(self) -> SystemTopics:
        """Topics: publish to all who have subscribed, `system.topics.publish(topic, message)`, and listen."""
        return SystemTopics(self._kernel)

    @property
    def receptionist(self) -> SystemReceptionist:
        """Who offers which service: `system.receptionist.find(key)`."""
        return SystemReceptionist(self._kernel)

    @property
    def dead_letters(self) -> DeadLetters:
        """Messages that were not handled, with the reasons."""
        return self._kernel.letters

    @property
    def audit(self) -> SystemAudit:
        """What was refused, asked, allowed, minted and revoked: `await system.audit.entries()`."""
        return self._audit

    @property
    def budgets(self) -> SystemBudgets:
        """What contexts may spend and have spent: `await system.budgets.balance(context)`."""
        return SystemBudgets(self._kernel)

    @property
    def approvals(self) -> SystemApprovals:
        """What waits for a person's consent, and what was decided: `await system.approvals.pending()`, `.approve(id, reviewer=…)`. Refused inside handlers."""
        return self._desk.book

    def sealer(
        self,
        keys: KeyRing | KeyFile | str | Path | None = None,
        *,
        audience: str | None = None,
        revocations: Revocations | str | Path | None = None,
    ) -> Sealer:
        """What turns contexts of this system into sealed tokens, and tokens into contexts, for the borders between processes. Not in a handler.

        Args:
            keys: A key ring, a key file, or the path of one, which is made where there is none. Default: `tokens.key` in `data_dir`.
            audience: Who this is, where tokens are for one of several: those for others are refused.
            revocations: Which tokens are revoked, or the path of a file of them. Default: `revoked.jsonl` in `data_dir`, or in memory without one.

        Raises:
            Denied: Called inside a handler.
            DefinitionError: There are no keys: neither `keys` nor a `data_dir`.
            KeyFileError, TokenError: A file cannot be used.
        """
        self._kernel.guard()
        folder = self.data_dir
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if keys is None:
            if folder is None:
                raise DefinitionError("system.sealer() needs keys: give the path of a key file, or the system a data_dir=")
            keys = folder / "tokens.key"
        if revocations is None and folder is not None:
            revocations = folder / "revoked.jsonl"
        return Sealer(self.authority, keys, audience=audience, revocations=revocations, audit=self._kernel.book.log)

    def statistics(self) -> SystemStatistics:
        """The system's counts at this moment."""
        return statistics_of(self._kernel)

    def actors(self) -> list[ActorStatistics]:
        """The counts of each living actor, parents before children."""
        return [actor_statistics(cell) for cell in self._kernel.cells()[1:]]

    def events(self, path: str | None = None) -> list[Event]:
        """The last events, oldest first; empty unless the system was made with `events=`."""
        found = self._kernel.ring.events(path) if self._kernel.ring is not None else []
        return [event for event in found if event.path != "/system" and not event.path.startswith("/system/")]

    async def wait_quiet(self, *, timeout: float = 30.0) -> None:
        """Waits until no message is ready, being handled or suspended in a handler. Raises trio.TooSlowError after `timeout` seconds.

        A streaming or otherwise suspended handler keeps the system from being quiet; resident loops and owned tasks do not.
        """
        self._check_running()
        with trio.fail_after(timeout):
            await self._kernel.wait_quiet()

    def _check_running(self) -> None:
        if self._over is None:
            raise SystemClosed(f"the system {self.name!r} has not started: use it inside `async with ActorSystem(…) as system`")
        if self._kernel.thread != get_ident():
            raise WrongThread(f"the system {self.name!r} runs in another thread; use retinue.sync or retinue.aio there")


def _check_loop() -> None:
    try:
        library = sniffio.current_async_library()
    except sniffio.AsyncLibraryNotFoundError:
        library = "no event loop"
    if library != "trio":
        raise WrongEventLoop(
            f"retinue.ActorSystem runs on trio, and this is {library}. Under asyncio (FastAPI, notebooks) use `from retinue.aio import ActorSystem`; "
            "in a plain script use `from retinue.sync import ActorSystem`, or trio.run(main)"
        )
