"""`self.ctx.topics` and `system.topics`."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from retinue.actors.runtime import topic_rights
from retinue.actors.runtime.asking import check_timeout, time_left
from retinue.actors.runtime.cell import DEAD
from retinue.actors.runtime.current import Delivery, current
from retinue.actors.runtime.derivation import acting, lasts, sending
from retinue.actors.runtime.errors import SystemClosed, WrongThread
from retinue.actors.runtime.names import cell_of
from retinue.actors.runtime.topic_keys import DEFAULT_CAPACITY, Topic, check_capacity, check_topic
from retinue.actors.runtime.topic_reports import DeliveryReport, Published, Report
from retinue.actors.runtime.topic_subscriptions import Listener, Subscription
from retinue.actors.runtime.topics import REPORT_TIMEOUT, TopicStatistics
from retinue.actors.runtime.tracing import sent_in
from retinue.mailbox.messages import Message
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.context import ActorContext
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.ref import Ref
    from retinue.security.context import SecurityContext

__all__ = ["ActorTopics", "SystemTopics", "check_holder"]

M = TypeVar("M", bound=Message)


class ActorTopics:
    """What an actor does with topics, `self.ctx.topics`: in handlers, hooks and owned tasks, and in the thread of a blocking actor."""

    __slots__ = ("_context",)

    def __init__(self, context: ActorContext) -> None:
        self._context = context

    def publish(self, topic: Topic[M], message: M, *, context: SecurityContext | None = None) -> Published:
        """Sends a message to all who are subscribed now. Waits for nothing: a subscriber whose room is full drops its oldest.

        Args:
            topic: The topic.
            message: A message of its class.
            context: The security context to publish under; it must descend from the current one, which is the default.

        Returns:
            How many it was sent to. Those that are stopping make a dead letter of it.

        Raises:
            Unhandled: It is no message of the topic's class.
            Denied: `context` does not descend from the current one, or the topic's operation `publish` is not permitted, or cannot be decided at once.
            DefinitionError: Another topic has that name.
        """
        turn = self._context._turn()
        kernel = turn.cell.kernel
        kernel.topics.check(topic, message)
        security = sending(kernel, turn, context, None)
        if turn.thread:
            return kernel.portal.call(_publish, kernel, turn, topic, message, security)  # type: ignore[no-any-return]
        return _publish(kernel, turn, topic, message, security)

    async def publish_and_report(
        self, topic: Topic[M], message: M, *, timeout: float = REPORT_TIMEOUT, context: SecurityContext | None = None
    ) -> DeliveryReport:
        """As `publish`, and waits until all subscribers are done with it.

        Args:
            topic, message, context: As for `publish`. Policies that take their time are waited for.
            timeout: Seconds to wait for the outcomes, default 30; never longer than what is left of the current request's deadline. Who is not done by then is
                reported with "timeout", and handles the message all the same. `math.inf`: no limit.

        Raises:
            AskCycle: A subscriber waits for this actor, or is this actor: the report would never be complete. Nothing was sent.
            Unhandled, Denied, DefinitionError: As `publish`.
        """
        turn = self._context._turn()
        if turn.thread:
            raise DefinitionError("a blocking actor lives in a thread and cannot await a report: publish, or let another actor do it")
        return await _publish_and_report(turn.cell.kernel, turn, topic, message, timeout, context)

    def subscribe(self, topic: Topic[Any], capacity: int = DEFAULT_CAPACITY) -> Subscription:
        """Subscribes this actor, which needs a handler for the topic's messages. Done again it is the same subscription, with this capacity from now on.

        Args:
            topic: The topic.
            capacity: How many of its messages may wait, 1 to 1,000,000; default 256. Beyond, the oldest is dropped, and `rt.Lagged` says so.

        Raises:
            Unhandled: The actor has no handler for the topic's messages.
            Denied: The topic's operation `subscribe` is not permitted, or cannot be decided at once; or the message came under an actor's own authority.
            DefinitionError: Another topic has that name, or the actor has too many subscriptions.
        """
        turn = self._context._turn()
        kernel = turn.cell.kernel
        check_topic(topic)
        capacity = check_capacity(capacity)
        security = lasts(kernel, turn)
        if turn.thread:
            return kernel.portal.call(_subscribe, kernel, turn.cell, turn.cell, topic, capacity, security)  # type: ignore[no-any-return]
        return _subscribe(kernel, turn.cell, turn.cell, topic, capacity, security)

    def unsubscribe(self, topic: Topic[Any]) -> bool:
        """Ends this actor's subscription; False where it has none. What still waits becomes dead letters ("unsubscribed")."""
        turn = self._context._turn()
        kernel = turn.cell.kernel
        check_topic(topic)
        if turn.thread:
            return kernel.portal.call(kernel.topics.unsubscribe, turn.cell, topic)  # type: ignore[no-any-return]
        return kernel.topics.unsubscribe(turn.cell, topic)


class SystemTopics:
    """The topics of a system, for its holder: `system.topics`."""

    __slots__ = ("_kernel",)

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def publish(self, topic: Topic[M], message: M, *, context: SecurityContext | None = None) -> Published:
        """As `self.ctx.topics.publish`, under the system's root context or the one that is given. From any thread; elsewhere than in the system's own it needs
        `context=`, and waits for the loop.

        Raises:
            Unhandled, Denied, DefinitionError: As there.
            NoContext: Nobody's authority is in force, and there is no `context=`.
            SystemClosed: Called from another thread after the system's end.
        """
        kernel = self._kernel
        kernel.topics.check(topic, message)
        turn = current()
        security = sending(kernel, turn, context, None)
        acts = turn if turn.__class__ is Delivery and turn.cell.kernel is kernel else None
        if get_ident() != kernel.thread:
            return kernel.portal.call(_publish, kernel, acts, topic, message, security)  # type: ignore[no-any-return]
        return _publish(kernel, acts, topic, message, security)

    async def publish_and_report(
        self, topic: Topic[M], message: M, *, timeout: float = REPORT_TIMEOUT, context: SecurityContext | None = None
    ) -> DeliveryReport:
        """As `self.ctx.topics.publish_and_report`. In the system's own thread only (`WrongThread`)."""
        kernel = self._kernel
        _check_thread(kernel)
        turn = current()
        acts = turn if turn.__class__ is Delivery and turn.cell.kernel is kernel else None
        return await _publish_and_report(kernel, acts, topic, message, timeout, context)

    def subscribe(self, topic: Topic[Any], ref: Ref[Any], capacity: int = DEFAULT_CAPACITY) -> Subscription:
        """Subscribes an actor, as it may do itself with `self.ctx.topics.subscribe`; arguments and errors as there, and ActorStopped for one that has ended.

        Raises:
            DefinitionError: Called inside a handler, too.
        """
        kernel = check_holder(self._kernel, "self.ctx.topics")
        check_topic(topic)
        return _subscribe(kernel, kernel.user, cell_of(ref, kernel), topic, check_capacity(capacity), kernel.root)

    def unsubscribe(self, topic: Topic[Any], ref: Ref[Any]) -> bool:
        """Ends the subscription of an actor; False where it has none."""
        kernel = check_holder(self._kernel, "self.ctx.topics")
        check_topic(topic)
        return kernel.topics.unsubscribe(cell_of(ref, kernel), topic)

    def listen(self, topic: Topic[M], capacity: int = DEFAULT_CAPACITY) -> Listener[M]:
        """Follows a topic without an actor: `async with system.topics.listen(topic) as items: async for item in items: …`.

        Args:
            topic: The topic.
            capacity: How many messages may wait, 1 to 1,000,000; default 256. Beyond, the oldest is dropped, and an `rt.Lagged` comes before the next one.

        Raises:
            Denied, DefinitionError: As `subscribe`.
            SystemClosed: When it is entered after the system's end.
        """
        kernel = check_holder(self._kernel, "self.ctx.topics")
        check_topic(topic)
        check_capacity(capacity)
        kernel.topics.agreed.check(topic)
        _admit_subscriber(kernel, kernel.user, topic, kernel.root)
        return Listener(kernel, kernel.topics, topic, capacity)

    def subscribers(self, topic: Topic[Any]) -> tuple[Ref[Any], ...]:
        """The actors that are subscribed, in the order in which they came. (Not the listeners.)"""
        kernel = check_holder(self._kernel, "self.ctx.topics")
        check_topic(topic)
        return kernel.topics.subscribers(topic)

    def declare(self, *topics: Topic[Any]) -> None:
        """Keeps what these names mean for as long as the system lives: nobody can use another topic under one of them, with other operations, say.

        Raises:
            DefinitionError: One of the names means something else already.
        """
        kernel = check_holder(self._kernel, "self.ctx.topics")
        for topic in topics:
            check_topic(topic)
            kernel.topics.agreed.declare(topic)

    def statistics(self) -> Mapping[str, TopicStatistics]:
        """The counts of each topic that has subscribers or listeners, by its name."""
        return self._kernel.topics.statistics()


def _publish(kernel: Kernel, turn: Delivery | None, topic: Topic[Any], message: Any, security: SecurityContext) -> Published:
    if topic.publish is not None:
        message = topic_rights.admit(kernel, security, _actor(kernel, turn), topic.publish, message, topic.path)
    return kernel.topics.publish(topic, message, security, turn.cell if turn is not None else None, sent_in(kernel, turn))


async def _publish_and_report(
    kernel: Kernel, turn: Delivery | None, topic: Topic[Any], message: Any, timeout: float, context: SecurityContext | None
) -> DeliveryReport:
    limit = min(check_timeout(timeout), time_left(turn))
    kernel.topics.check(topic, message)
    security = sending(kernel, turn if turn is not None else current(), context, None)
    await trio.lowlevel.checkpoint_if_cancelled()
    if topic.publish is not None:
        message = await topic_rights.admit_async(kernel, security, _actor(kernel, turn), topic.publish, message, topic.path)
    if turn is not None:
        kernel.topics.check_rings(turn, topic, message, trio.lowlevel.current_task())
    report = Report(kernel, turn)
    kernel.topics.publish(topic, message, security, turn.cell if turn is not None else None, sent_in(kernel, turn), report)
    return await report.wait(topic.name, limit)


def _subscribe(kernel: Kernel, by: Cell, cell: Cell, topic: Topic[Any], capacity: int, security: SecurityContext) -> Subscription:
    kernel.topics.agreed.check(topic)
    _admit_subscriber(kernel, by, topic, security)
    return kernel.topics.subscribe(cell, topic, capacity, security)


def _admit_subscriber(kernel: Kernel, by: Cell, topic: Topic[Any], security: SecurityContext) -> None:
    if topic.subscribe is not None:
        topic_rights.admit(kernel, security, by, topic.subscribe, topic_rights.Subscribe(topic.name), topic.path)


def _actor(kernel: Kernel, turn: Delivery | None) -> Cell:
    return turn.cell if turn is not None else kernel.user


def _check_thread(kernel: Kernel) -> None:
    if not kernel.thread:
        raise SystemClosed(f"the system {kernel.name!r} has not started: use it inside `async with ActorSystem(…) as system`")
    if get_ident() != kernel.thread:
        raise WrongThread(f"the system {kernel.name!r} runs in another thread; there, only `publish(…, context=…)` may be called")


def check_holder(kernel: Kernel, instead: str) -> Kernel:
    """The system, for what only its holder does. Raises DefinitionError inside a handler, NoContext for anybody else, WrongThread, and SystemClosed."""
    _check_thread(kernel)
    turn = acting(kernel)
    if turn is not None:
        raise DefinitionError(
            f"inside a handler (of {turn.cell.path}) this is {instead}'s to do, under the authority of the message; the system is its holder's"
        )
    if kernel.user.state == DEAD:
        raise SystemClosed(f"the system {kernel.name!r} has ended")
    return kernel
