"""A probe: an actor that takes whatever it is sent and hands it to the test, message by message. (As Akka's TestProbe.)"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, overload

import attrs
import trio

from retinue.actors.runtime.actor import Actor, handler, handlers_of
from retinue.actors.runtime.topic_notices import Lagged, Listing
from retinue.actors.runtime.watch import Terminated
from retinue.mailbox.messages import Message, message
from retinue.security.errors import DefinitionError
from retinue.security.redaction import redact

if TYPE_CHECKING:
    from retinue.actors.runtime.deferred import Deferred
    from retinue.actors.runtime.ref import Ref
    from retinue.actors.runtime.system import ActorSystem
    from retinue.mailbox.queues import Mailbox
    from retinue.security.context import SecurityContext

__all__ = ["EXPECT_TIMEOUT", "MOST_KEPT", "Probe", "Received"]

M = TypeVar("M")

EXPECT_TIMEOUT: Final = 3.0
"""Seconds of trio's clock that `expect` and `fish` wait."""

MOST_KEPT: Final = 100_000
"""Messages that one probe takes in its life; one more is an error of the probe's, and so of its sender's ask."""

MOST_SHOWN: Final = 10
"""Messages in a text."""


@attrs.frozen
class Received:
    """One message that a probe got.

    Attributes:
        message: The message.
        sender: Who sent it; None from outside any actor.
        security: What it was handled under: its context met with the probe's grant.
        answer: Where its answer goes, if it was asked; None for one that was told.
    """

    message: Any
    sender: Ref[Any] | None
    security: SecurityContext
    answer: Deferred | None


class Probe:
    """Takes any message, and lets the test say what it expects. Made with `await Probe.spawn(system)`; used in the task of the test.

        probe = await Probe.spawn(system)
        shop.tell(Subscribe(probe.ref))
        sold = await probe.expect(Sold)
        asking = nursery.start_soon(shop.ask, Buy(1))
        await probe.expect(Charge)
        probe.reply("receipt 7")

    An ask stays unanswered until the test answers it (`reply`, `fail`) or its deadline passes. Watch notices, `rt.Lagged` and `rt.Listing` arrive as messages too. A stream
    cannot be asked of a probe.

    Attributes:
        ref: Its address, to be handed out.
        messages: Everything that it got so far, in order, whether or not it was looked at.
        last: What the last `expect` or `fish` returned, with its sender; None before.
    """

    def __init__(self, system: ActorSystem) -> None:
        self._system = system
        self._unread: deque[Received] = deque()
        self._more = trio.Event()
        self.ref: Ref[Any]
        self.messages: list[Any] = []
        self.last: Received | None = None

    @classmethod
    async def spawn(
        cls,
        system: ActorSystem,
        *,
        name: str | None = None,
        grant: Sequence[Any] | None = None,
        mailbox: Mailbox | None = None,
        requires: str | None = None,
    ) -> Self:
        """Makes a probe in a system.

        Args:
            system: The running system.
            name, grant, mailbox: As for `system.spawn`.
            requires: The operation that its senders must be permitted. None (default): open to all; a strict system wants one.

        Raises:
            NameTaken, SystemClosed, DefinitionError: As `system.spawn`.
        """
        probe = cls(system)
        probe.ref = await system.spawn(probe_class(requires), probe._take, name=name, grant=grant, mailbox=mailbox)
        return probe

    def __repr__(self) -> str:
        return f"<Probe {self.ref.path}, {len(self._unread)} unread>"

    @property
    def sender(self) -> Ref[Any] | None:
        """Who sent what was last expected or fished; None where it came from outside any actor. Raises AssertionError before that."""
        return self._latest().sender

    # -- expecting ---------------------------------------------------------------------------------------------------------------------------------

    @overload
    async def expect(self, what: type[M], *, timeout: float = ...) -> M: ...
    @overload
    async def expect(self, what: Callable[[Any], object], *, timeout: float = ...) -> Any: ...
    async def expect(self, what: type[Any] | Callable[[Any], object], *, timeout: float = EXPECT_TIMEOUT) -> Any:
        """Takes the next message, which must be a `what`; waits for it if there is none.

        Args:
            what: A type of messages, or a function of a message that says whether it is the one.
            timeout: Seconds of trio's clock. Default 3.

        Returns:
            The message.

        Raises:
            AssertionError: Another one came, or none. The text says which.
        """
        await trio.lowlevel.checkpoint()
        if not await self._is_there(timeout):
            raise AssertionError(f"{self.ref.path} expected {_name(what)} within {timeout:g} s, and nothing came{self._so_far()}")
        received = self._unread.popleft()
        if not _matches(what, received.message):
            raise AssertionError(f"{self.ref.path} expected {_name(what)}, and got {_shown(received.message)}{self._from(received)}")
        self.last = received
        return received.message

    async def expect_nothing(self, within: float = 0.1) -> None:
        """Waits, and raises AssertionError where a message is there that was not looked at, or comes in so many seconds of trio's clock (default 0.1).

        So it does for a probe that has been stopped, which gets none whatever happens.
        """
        await trio.lowlevel.checkpoint()
        if await self._is_there(within):
            others = [_shown(received.message) + self._from(received) for received in self._unread]
            raise AssertionError(f"{self.ref.path} expected nothing for {within:g} s, and got {_listed(others)}")
        if not self.ref.alive:
            raise AssertionError(
                f"{self.ref.path} expected nothing for {within:g} s, but it has been stopped, and gets nothing whatever is sent"
            )

    @overload
    async def fish(self, what: type[M], *, timeout: float = ...) -> M: ...
    @overload
    async def fish(self, what: Callable[[Any], object], *, timeout: float = ...) -> Any: ...
    async def fish(self, what: type[Any] | Callable[[Any], object], *, timeout: float = EXPECT_TIMEOUT) -> Any:
        """Takes messages until one is a `what`, and returns that one; those before it are gone. Asks among them stay unanswered.

        Args:
            what, timeout: As for `expect`; the time is for all of it.

        Raises:
            AssertionError: None was. The text says what came instead.
        """
        await trio.lowlevel.checkpoint()
        passed: list[str] = []
        deadline = trio.current_time() + timeout
        while await self._is_there(max(0.0, deadline - trio.current_time())):
            received = self._unread.popleft()
            if _matches(what, received.message):
                self.last = received
                return received.message
            passed.append(_shown(received.message))
        raise AssertionError(
            f"{self.ref.path} fished for {_name(what)} for {timeout:g} s, and got {_listed(passed) if passed else 'nothing'}"
        )

    # -- answering ---------------------------------------------------------------------------------------------------------------------------------

    def reply(self, value: object) -> bool:
        """Answers the ask that was last expected or fished. False where its asker waits no longer. Raises AssertionError where it was told, not asked."""
        return self._asked().reply(value)

    def fail(self, error: BaseException) -> bool:
        """Answers it with an error; otherwise as `reply`."""
        return self._asked().fail(error)

    async def watch(self, ref: Ref[Any]) -> None:
        """Watches an actor: its `rt.Terminated` comes as a message, at once if it is gone already."""
        await trio.lowlevel.checkpoint()
        self._system._kernel.watch(ref._cell, self.ref._cell)

    # -- inside ------------------------------------------------------------------------------------------------------------------------------------

    def _take(self, received: Received) -> None:
        if len(self.messages) >= MOST_KEPT:
            raise DefinitionError(
                f"the probe {self.ref.path} takes {MOST_KEPT:,} messages and no more; let an actor of your own count them"
            )
        self.messages.append(received.message)
        self._unread.append(received)
        self._more.set()

    async def _is_there(self, timeout: float) -> bool:
        with trio.move_on_after(timeout):
            while not self._unread:
                self._more = trio.Event()
                await self._more.wait()
        return bool(self._unread)

    def _latest(self) -> Received:
        if self.last is None:
            raise AssertionError(f"{self.ref.path} has not expected anything yet: `await probe.expect(…)` first")
        return self.last

    def _asked(self) -> Deferred:
        latest = self._latest()
        if latest.answer is None:
            raise AssertionError(f"{self.ref.path}: {_shown(latest.message)} was told, so nobody waits for an answer")
        return latest.answer

    def _from(self, received: Received) -> str:
        return f" from {received.sender.path}" if received.sender is not None else ""

    def _so_far(self) -> str:
        if not self.ref.alive:
            return "; the probe has been stopped"
        return f"; before that it got {_listed([_shown(message) for message in self.messages[-MOST_SHOWN:]])}" if self.messages else ""


@message
class _Anything(Message):
    """Whatever a probe gets."""


@functools.lru_cache(maxsize=64)
def probe_class(requires: str | None) -> type[Actor]:
    """The class of the actors behind probes whose senders need that operation."""

    class ProbeActor(Actor):
        _unanswered = "is at a probe, and the test has not answered it: probe.reply(value) and probe.fail(error) do"

        def __init__(self, take: Callable[[Received], None]) -> None:
            self._take = take

        @handler(requires=requires)
        def take(self, message: _Anything) -> None:
            ctx = self.ctx
            try:
                answer: Deferred | None = ctx.defer()
            except DefinitionError:
                answer = None  # it was told
            self._take(Received(message, ctx.sender, ctx.security, answer))

        @handler
        def notice(self, message: Terminated | Lagged | Listing) -> None:
            self._take(Received(message, None, self.ctx.security, None))

    ProbeActor.__name__ = ProbeActor.__qualname__ = "Probe"
    table = handlers_of(ProbeActor)
    table[Message] = table.pop(_Anything)  # no actor of a program's takes every message: there it would be a slip of the pen
    return ProbeActor


def _matches(what: type[Any] | Callable[[Any], object], message: Any) -> bool:
    if isinstance(what, type):
        return isinstance(message, what)
    return bool(what(message))


def _name(what: Any) -> str:
    if isinstance(what, type):
        return f"a {what.__qualname__}"
    name = getattr(what, "__qualname__", repr(what))
    return "a message for which the given function is true" if "<lambda>" in name else f"a message for which {name} is true"


def _shown(message: Any) -> str:
    """The message as it may be shown: secrets left out, cut to a length."""
    value = redact(message)
    name = type(message).__qualname__
    if isinstance(value, dict):
        return f"{name}({', '.join(f'{field}={shown!r}' for field, shown in value.items() if field != '(type)')})"[:200]
    return f"{name}: {value!r}"[:200]


def _listed(shown: list[str]) -> str:
    listed = ", ".join(shown[:MOST_SHOWN])
    return f"{listed} and {len(shown) - MOST_SHOWN} more" if len(shown) > MOST_SHOWN else listed
