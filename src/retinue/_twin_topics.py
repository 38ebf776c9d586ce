"""The topics and the receptionist of a system, for both twins. What each method takes and raises is said where it is done: `actors.runtime.topic_faces` and
`receptionist_faces`.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from retinue._twin import unwrap
from retinue._twin_listening import AioItems, SyncItems
from retinue.actors.runtime.topic_keys import DEFAULT_CAPACITY, check_capacity, check_topic
from retinue.actors.runtime.topics import REPORT_TIMEOUT
from retinue.mailbox.messages import Message

if TYPE_CHECKING:
    from retinue import aio, sync
    from retinue._twin import Twin
    from retinue.actors.runtime.actor import Actor
    from retinue.actors.runtime.receptionist import ServiceKey
    from retinue.actors.runtime.topic_keys import Topic
    from retinue.actors.runtime.topic_notices import Lagged, Listing
    from retinue.actors.runtime.topic_reports import DeliveryReport, Published
    from retinue.actors.runtime.topics import TopicStatistics
    from retinue.security.context import SecurityContext

__all__ = ["AioReceptionist", "AioTopics", "SyncReceptionist", "SyncTopics"]

A = TypeVar("A", bound="Actor")
M = TypeVar("M", bound=Message)


class _Way:
    """How a twin gets something done in the system's loop: `run` takes an async function, and blocks or is awaited."""

    def __init__(
        self,
        twin: Twin,
        run: Callable[[Callable[[], Awaitable[Any]]], Any],
        wrap: Callable[[Any], Any],
        call: Callable[[str, Callable[[], Any]], Any],
    ) -> None:
        twin.check_place("system.topics or system.receptionist", "use self.ctx.topics or self.ctx.receptionist")
        self._twin = twin
        self._core = twin.core
        self._run = run
        self._wrap = wrap
        self._call = call

    def _do(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        return self._run(partial(_plain, function, self._wrap, arguments, keywords))


async def _plain(function: Callable[..., Any], wrap: Callable[[Any], Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    value = function(*arguments, **keywords)
    return tuple(map(wrap, value)) if type(value) is tuple else value


class SyncTopics(_Way):
    """Publishing, for a plain script: everything here blocks until the loop has done it."""

    def publish(self, topic: Topic[M], message: M, *, context: SecurityContext | None = None) -> Published:
        """Sends a message to all who are subscribed now."""
        found: Published = self._do(self._core.topics.publish, topic, unwrap(message), context=context)
        return found

    def publish_and_report(
        self, topic: Topic[M], message: M, *, timeout: float = REPORT_TIMEOUT, context: SecurityContext | None = None
    ) -> DeliveryReport:
        """As `publish`, and waits until all subscribers are done with it, at most `timeout` seconds."""
        report: DeliveryReport = self._run(
            partial(self._core.topics.publish_and_report, topic, unwrap(message), timeout=timeout, context=context)
        )
        return report

    def subscribe(self, topic: Topic[Any], ref: Any, capacity: int = DEFAULT_CAPACITY) -> None:
        """Subscribes an actor, with room for so many messages."""
        self._do(self._core.topics.subscribe, topic, self._twin.own(ref), capacity)

    def unsubscribe(self, topic: Topic[Any], ref: Any) -> bool:
        """Ends the subscription of an actor; False where it has none."""
        found: bool = self._do(self._core.topics.unsubscribe, topic, self._twin.own(ref))
        return found

    def listen(self, topic: Topic[M], capacity: int = DEFAULT_CAPACITY, *, timeout: float = math.inf) -> SyncItems[M | Lagged]:
        """Follows a topic without an actor: `with system.topics.listen(topic) as items: for item in items: …`. What comes is as for `retinue`'s own.

        Args:
            topic: The topic.
            capacity: How many messages may wait in the system, default 256. (Up to 32 more have been fetched already.)
            timeout: Seconds that each item is waited for; then TimeoutError, and one may go on. Default: no limit.
        """
        check_topic(topic)
        check_capacity(capacity)
        make = partial(self._core.topics.listen, topic, capacity)
        return SyncItems(self._twin, self._run, self._wrap, self._call, f"system.topics.listen({topic.name!r})", make, timeout)

    def subscribers(self, topic: Topic[Any]) -> tuple[sync.Ref[Any], ...]:
        """The actors that are subscribed."""
        found: tuple[sync.Ref[Any], ...] = self._do(self._core.topics.subscribers, topic)
        return found

    def declare(self, *topics: Topic[Any]) -> None:
        """Keeps what these names mean for as long as the system lives."""
        self._do(self._core.topics.declare, *topics)

    def statistics(self) -> Mapping[str, TopicStatistics]:
        """The counts of each topic that has subscribers, by its name."""
        found: Mapping[str, TopicStatistics] = self._do(self._core.topics.statistics)
        return found


class AioTopics(_Way):
    """Publishing, under asyncio."""

    async def publish(self, topic: Topic[M], message: M, *, context: SecurityContext | None = None) -> Published:
        """Sends a message to all who are subscribed now."""
        found: Published = await self._do(self._core.topics.publish, topic, unwrap(message), context=context)
        return found

    async def publish_and_report(
        self, topic: Topic[M], message: M, *, timeout: float = REPORT_TIMEOUT, context: SecurityContext | None = None
    ) -> DeliveryReport:
        """As `publish`, and waits until all subscribers are done with it, at most `timeout` seconds."""
        report: DeliveryReport = await self._run(
            partial(self._core.topics.publish_and_report, topic, unwrap(message), timeout=timeout, context=context)
        )
        return report

    async def subscribe(self, topic: Topic[Any], ref: Any, capacity: int = DEFAULT_CAPACITY) -> None:
        """Subscribes an actor, with room for so many messages."""
        await self._do(self._core.topics.subscribe, topic, self._twin.own(ref), capacity)

    async def unsubscribe(self, topic: Topic[Any], ref: Any) -> bool:
        """Ends the subscription of an actor; False where it has none."""
        found: bool = await self._do(self._core.topics.unsubscribe, topic, self._twin.own(ref))
        return found

    def listen(self, topic: Topic[M], capacity: int = DEFAULT_CAPACITY, *, timeout: float = math.inf) -> AioItems[M | Lagged]:
        """Follows a topic without an actor: `async with system.topics.listen(topic) as items: async for item in items: …`. What comes is as for `retinue`'s own.

        Args:
            topic: The topic.
            capacity: How many messages may wait in the system, default 256. (Up to 32 more have been fetched already.)
            timeout: Seconds that each item is waited for; then TimeoutError, and one may go on. Default: no limit.
        """
        check_topic(topic)
        check_capacity(capacity)
        make = partial(self._core.topics.listen, topic, capacity)
        return AioItems(self._twin, self._run, self._wrap, self._call, f"system.topics.listen({topic.name!r})", make, timeout)

    async def subscribers(self, topic: Topic[Any]) -> tuple[aio.Ref[Any], ...]:
        """The actors that are subscribed."""
        found: tuple[aio.Ref[Any], ...] = await self._do(self._core.topics.subscribers, topic)
        return found

    async def declare(self, *topics: Topic[Any]) -> None:
        """Keeps what these names mean for as long as the system lives."""
        await self._do(self._core.topics.declare, *topics)

    async def statistics(self) -> Mapping[str, TopicStatistics]:
        """The counts of each topic that has subscribers, by its name."""
        found: Mapping[str, TopicStatistics] = await self._do(self._core.topics.statistics)
        return found


class SyncReceptionist(_Way):
    """Who offers which service, for a plain script."""

    def register(self, key: ServiceKey[Any], ref: Any) -> None:
        """Makes an actor known as one that offers a service."""
        self._do(self._core.receptionist.register, key, self._twin.own(ref))

    def unregister(self, key: ServiceKey[Any], ref: Any) -> bool:
        """Gives that up; False where it was not registered."""
        found: bool = self._do(self._core.receptionist.unregister, key, self._twin.own(ref))
        return found

    def find(self, key: ServiceKey[A]) -> tuple[sync.Ref[A], ...]:
        """The living actors that offer it."""
        found: tuple[sync.Ref[A], ...] = self._do(self._core.receptionist.find, key)
        return found

    def listen(self, key: ServiceKey[Any], *, timeout: float = math.inf) -> SyncItems[Listing]:
        """Follows a service without an actor: `with system.receptionist.listen(key) as listings: for listing in listings: …`. The refs are this twin's.

        Args:
            key: The service's key.
            timeout: Seconds that each listing is waited for; then TimeoutError, and one may go on. Default: no limit.
        """
        make = partial(self._core.receptionist.listen, key)
        return SyncItems(
            self._twin, self._run, self._wrap, self._call, f"system.receptionist.listen({getattr(key, 'name', key)!r})", make, timeout
        )

    def keys(self) -> list[str]:
        """The names of the services that somebody offers, sorted."""
        found: list[str] = self._do(self._core.receptionist.keys)
        return found

    def declare(self, *keys: ServiceKey[Any]) -> None:
        """Keeps what these names mean for as long as the system lives."""
        self._do(self._core.receptionist.declare, *keys)


class AioReceptionist(_Way):
    """Who offers which service, under asyncio."""

    async def register(self, key: ServiceKey[Any], ref: Any) -> None:
        """Makes an actor known as one that offers a service."""
        await self._do(self._core.receptionist.register, key, self._twin.own(ref))

    async def unregister(self, key: ServiceKey[Any], ref: Any) -> bool:
        """Gives that up; False where it was not registered."""
        found: bool = await self._do(self._core.receptionist.unregister, key, self._twin.own(ref))
        return found

    async def find(self, key: ServiceKey[A]) -> tuple[aio.Ref[A], ...]:
        """The living actors that offer it."""
        found: tuple[aio.Ref[A], ...] = await self._do(self._core.receptionist.find, key)
        return found

    def listen(self, key: ServiceKey[Any], *, timeout: float = math.inf) -> AioItems[Listing]:
        """Follows a service without an actor: `async with system.receptionist.listen(key) as listings: async for listing in listings: …`. The refs are this twin's.

        Args:
            key: The service's key.
            timeout: Seconds that each listing is waited for; then TimeoutError, and one may go on. Default: no limit.
        """
        make = partial(self._core.receptionist.listen, key)
        return AioItems(
            self._twin, self._run, self._wrap, self._call, f"system.receptionist.listen({getattr(key, 'name', key)!r})", make, timeout
        )

    async def keys(self) -> list[str]:
        """The names of the services that somebody offers, sorted."""
        found: list[str] = await self._do(self._core.receptionist.keys)
        return found

    async def declare(self, *keys: ServiceKey[Any]) -> None:
        """Keeps what these names mean for as long as the system lives."""
        await self._do(self._core.receptionist.declare, *keys)
