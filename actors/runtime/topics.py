"""Topics: one publishes, many get it, each in a bounded room of its own. (`system.topics` and `self.ctx.topics` stand in `topic_faces`.)

A message of a topic is sent as a tell is: under the authority of the turn that publishes, met with each subscriber's grant. No deadline and no approval token goes
with it. What a subscriber's handler raises is a failure of that subscriber alone.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from retinue.actors.runtime import topic_rights
from retinue.actors.runtime.cell import DEAD, Cell
from retinue.actors.runtime.current import Delivery
from retinue.actors.runtime.cycles import check_cycle
from retinue.actors.runtime.names import tie
from retinue.actors.runtime.topic_keys import NOTICES, Agreed, Topic, check_topic
from retinue.actors.runtime.topic_reports import Published, Report
from retinue.actors.runtime.topic_subscriptions import Listener, Subscription
from retinue.actors.runtime.virtual_refs import not_here
from retinue.mailbox.envelope import Postmark
from retinue.mailbox.errors import Unhandled
from retinue.mailbox.messages import Message, message_info
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import trio

    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.ref import Ref
    from retinue.security.context import SecurityContext

__all__ = ["REPORT_TIMEOUT", "TopicStatistics", "Topics"]

M = TypeVar("M", bound=Message)

REPORT_TIMEOUT: Final = 30.0
"""Seconds that `publish_and_report` waits for the outcomes."""

MOST_TOPICS: Final = 1024
"""Topics that one actor may subscribe to."""

_new = Delivery.__new__


@attrs.frozen
class TopicStatistics:
    """One topic at one moment; counted from its first subscriber on, while it has one.

    Attributes:
        subscribers: Actors that are subscribed.
        listeners: Listeners that are open.
        waiting: Its messages that wait, for actors and listeners.
        published: Messages that were published.
        lagged: Messages that were dropped, for actors or listeners that were too slow.
    """

    subscribers: int
    listeners: int
    waiting: int
    published: int
    lagged: int


class _Entry:
    """A topic that has subscribers or listeners.

    Attributes:
        snapshot: The subscriptions, to go through while they may change; None since they have.
    """

    __slots__ = ("lagged", "listeners", "published", "snapshot", "subscriptions", "topic")

    def __init__(self, topic: Topic[Any]) -> None:
        self.topic = topic
        self.subscriptions: dict[Cell, Subscription] = {}
        self.listeners: dict[Listener[Any], None] = {}
        self.snapshot: tuple[Subscription, ...] | None = ()
        self.published = 0
        self.lagged = 0

    def current(self) -> tuple[Subscription, ...]:
        """The subscriptions as they are now."""
        if self.snapshot is None:
            self.snapshot = tuple(self.subscriptions.values())
        return self.snapshot


class Topics:
    """The topics of one system; all of it in the system's thread."""

    __slots__ = ("_entries", "_kernel", "agreed")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._entries: dict[str, _Entry] = {}
        self.agreed: Agreed[Topic[Any]] = Agreed()

    # -- subscribers ---------------------------------------------------------------------------------------------------------------------------------

    def subscribe(self, cell: Cell, topic: Topic[M], capacity: int, security: SecurityContext) -> Subscription:
        """The actor's subscription: the one that it has, with this capacity and authority from now on, or a new one."""
        self._kernel.check_room()
        self.agreed.check(topic)
        entry = self._entries.get(topic.name)
        found = entry.subscriptions.get(cell) if entry is not None else None
        if entry is not None and found is not None:
            found.capacity, found.under = capacity, security
            entry.lagged += found.squeeze()
            return found
        if cell.state == DEAD:
            raise not_here(
                cell,
                f"is not subscribed to {topic.name!r}",
                "only an instance subscribes. Let it do so in on_start, self.ctx.topics.subscribe(…), or send it something first",
            )
        self._check_handler(cell, topic)
        extra = cell.extras()
        if len(extra.ties or ()) >= MOST_TOPICS:
            raise DefinitionError(
                f"{cell.path} is subscribed to {MOST_TOPICS:,} topics or services; unsubscribe from what it needs no longer"
            )
        if entry is None:
            entry = self._entries[topic.name] = _Entry(topic)
        subscription = Subscription(self, cell, topic, capacity, security)
        entry.subscriptions[cell] = subscription
        entry.snapshot = None
        tie(cell, subscription)
        return subscription

    def _check_handler(self, cell: Cell, topic: Topic[Any]) -> None:
        if cell.relays:
            raise DefinitionError(
                f"{cell.path} is a pool, which handles nothing itself: let its workers subscribe, or an actor that hands on to it"
            )
        if not any(base in cell.handlers for base in topic.message.__mro__):
            raise Unhandled(
                f"{cell.path} ({cell.spec.cls.__qualname__}) cannot subscribe to {topic.name!r}: it has no handler for {topic.message.__qualname__}; give it one"
            )

    def unsubscribe(self, cell: Cell, topic: Topic[Any]) -> bool:
        """Ends the actor's subscription; False where it has none."""
        self._kernel.check_room()
        entry = self._entries.get(self.agreed.check(topic).name)
        found = entry.subscriptions.get(cell) if entry is not None else None
        if found is None:
            return False
        found.end()
        return True

    def remove(self, subscription: Subscription) -> None:
        """It has ended."""
        entry = self._entries.get(subscription.topic.name)
        if entry is not None and entry.subscriptions.pop(subscription.cell, None) is not None:
            entry.snapshot = None
            self._tidy(entry)

    def add_listener(self, listener: Listener[Any]) -> None:
        """A listener has been entered."""
        topic = self.agreed.check(listener.topic)
        entry = self._entries.get(topic.name)
        if entry is None:
            entry = self._entries[topic.name] = _Entry(topic)
        entry.listeners[listener] = None

    def remove_listener(self, listener: Listener[Any]) -> None:
        """It has ended."""
        entry = self._entries.get(listener.topic.name)
        if entry is not None and entry.listeners.pop(listener, self) is None:
            self._tidy(entry)

    def _tidy(self, entry: _Entry) -> None:
        if not entry.subscriptions and not entry.listeners:
            del self._entries[entry.topic.name]

    def subscribers(self, topic: Topic[Any]) -> tuple[Ref[Any], ...]:
        """The actors that are subscribed, in the order in which they came."""
        entry = self._entries.get(self.agreed.check(topic).name)
        return tuple(subscription.cell.ref for subscription in entry.current()) if entry is not None else ()

    # -- publishing ----------------------------------------------------------------------------------------------------------------------------------

    def check(self, topic: Any, message: Any) -> None:
        """Raises DefinitionError or Unhandled for what is no topic of this system, or no message of the topic. From any thread."""
        check_topic(topic)
        self.agreed.check(topic)
        if not isinstance(message, topic.message):
            kind = message if isinstance(message, type) else type(message)
            raise Unhandled(f"the topic {topic.name!r} takes {topic.message.__qualname__}, not {kind.__qualname__}")
        if message.__class__ is not topic.message:
            message_info(message.__class__)
            if isinstance(message, NOTICES):
                raise Unhandled(f"nobody publishes {message.__class__.__qualname__}: only the runtime sends such a message")

    def publish(
        self,
        topic: Topic[Any],
        message: Any,
        security: SecurityContext,
        origin: Cell | None,
        trace: str | None,
        report: Report | None = None,
    ) -> Published:
        """Sends the message to all who are subscribed now. Everything is checked by now."""
        entry = self._entries.get(topic.name)
        if entry is None:
            return Published(topic.name, 0)
        if entry.topic is not topic and entry.topic != topic:  # two threads came at once, each with another one
            self.agreed.check(topic)
        kernel = self._kernel
        kernel.check_room()  # before the first one, so that not only some get the message
        entry.published += 1
        subscriptions = entry.current()
        count, lagging = len(subscriptions), 0
        gated, loopback, kind = topic.subscribe is not None, kernel.loopback, message.__class__
        for subscription in subscriptions:
            cell = subscription.cell
            if gated and topic_rights.has_ended(kernel, subscription.under, cell):
                subscription.end()
                count -= 1
                continue
            handler = cell.handlers.get(kind) or kernel.find_handler(cell, message)
            delivery = _new(Delivery)  # make_delivery, spelled out
            delivery.message = message if loopback is None else loopback.message(message)
            delivery.context = security
            delivery.cell = cell
            delivery.handler = handler
            delivery.source = origin
            delivery.slot = delivery.timeout = delivery.waits = delivery.suspension = delivery.received = None
            delivery.postmark = None if trace is None else Postmark((), trace)
            delivery.depth = 0
            if report is not None:
                report.expect(delivery)
            dropped = subscription.offer(delivery)
            if dropped:
                lagging += 1
                entry.lagged += dropped
        for listener in tuple(entry.listeners):
            count += 1
            if listener.offer(message if loopback is None else loopback.message(message)):
                lagging += 1
                entry.lagged += 1
        return Published(topic.name, count, lagging)

    def check_rings(self, turn: Delivery, topic: Topic[Any], message: Any, task: trio.lowlevel.Task) -> None:
        """Raises AskCycle where the turn cannot wait for all subscribers, for one of them waits for it."""
        entry = self._entries.get(topic.name)
        for subscription in entry.current() if entry is not None else ():
            check_cycle(
                turn,
                subscription.cell,
                task,
                f"the report on {type(message).__qualname__} in the topic {topic.name!r}, by {subscription.cell.path},",
            )

    def statistics(self) -> Mapping[str, TopicStatistics]:
        """By name, the topics that have subscribers or listeners."""
        return MappingProxyType(
            {
                name: TopicStatistics(
                    subscribers=len(entry.subscriptions),
                    listeners=len(entry.listeners),
                    waiting=sum(one.waiting for one in entry.subscriptions.values()) + sum(one.waiting for one in entry.listeners),
                    published=entry.published,
                    lagged=entry.lagged,
                )
                for name, entry in self._entries.items()
            }
        )
