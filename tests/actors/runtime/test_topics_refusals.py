"""What is no topic, no message of it, no subscriber or no room is refused at once, and nobody can pretend that something was missed."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import retinue as rt
from core_actors import Plain
from topic_actors import OTHERS, PRICES, Dear, Join, Other, Price, Reader, Say, plain_system


async def test_a_message_of_another_class_is_refused_at_once() -> None:
    async with plain_system() as system:
        log: list[Any] = []
        ref = await system.spawn(Reader, log)
        for wrong in (Other(), Price, "text", None):
            with pytest.raises(rt.Unhandled, match="the topic 'prices' takes Price, not"):
                system.topics.publish(PRICES, wrong)  # type: ignore[type-var]
        with pytest.raises(rt.Unhandled, match="takes Price, not Other"):
            await ref.ask(Say(Other()))
        with pytest.raises(rt.Unhandled, match="takes Price, not Other"):
            await system.topics.publish_and_report(PRICES, Other())  # type: ignore[type-var]
        system.topics.publish(PRICES, Dear(5))
        await system.wait_quiet()
        assert log == [5]


async def test_an_actor_without_a_handler_cannot_subscribe() -> None:
    async with plain_system() as system:
        ref = await system.spawn(Plain)
        with pytest.raises(rt.Unhandled, match=r"/user/Plain-1 \(Plain\) cannot subscribe to 'prices': it has no handler for Price"):
            system.topics.subscribe(PRICES, ref)
        reader = await system.spawn(Reader)
        with pytest.raises(rt.Unhandled, match="no handler for Other"):
            await reader.ask(Join(OTHERS))


async def test_two_topics_of_one_name_are_refused() -> None:
    async with plain_system() as system:
        ref = await system.spawn(Reader)
        for other in (rt.Topic("prices", Other), rt.Topic("prices", Dear), rt.Topic("prices", Price, publish="a.b")):
            with pytest.raises(rt.DefinitionError, match="Define each name once"):
                system.topics.publish(other, Dear(1))
            with pytest.raises(rt.DefinitionError, match="Define each name once"):
                system.topics.listen(other)
            with pytest.raises(rt.DefinitionError, match="Define each name once"):
                await ref.ask(Join(other))
        assert rt.Topic("prices", Price) == PRICES
        assert system.topics.publish(rt.Topic("prices", Price), Price(1))


async def test_what_is_declared_is_kept() -> None:
    async with plain_system() as system:
        system.topics.declare(rt.Topic("own", Price, publish="own.publish"))
        gc.collect()
        with pytest.raises(rt.DefinitionError):
            system.topics.publish(rt.Topic("own", Price), Price(1))


@pytest.mark.parametrize(
    "capacity",
    [0, -1, True, 1.5, "3", None, 1_000_001, 10**5000],
    ids=["0", "-1", "a bool", "a float", "a text", "none", "too many", "many digits"],
)
async def test_a_capacity_is_a_number_of_messages(capacity: Any) -> None:
    async with plain_system() as system:
        ref = await system.spawn(Reader)
        for call in (lambda: system.topics.subscribe(PRICES, ref, capacity), lambda: system.topics.listen(PRICES, capacity)):
            with pytest.raises(rt.DefinitionError, match="how many messages may wait for this subscriber, 1 to 1,000,000"):
                call()
        with pytest.raises(rt.DefinitionError, match="how many messages"):
            await ref.ask(Join(PRICES, capacity))


@rt.message
class Items(rt.Stream[int]):
    """No topic's."""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("", Price), "a topic's name"),
        (("a/b", Price), "a topic's name"),
        ((3, Price), "a topic's name"),
        (("a", int), "is no message class"),
        (("a", Price(1)), "is no message class"),
        (("a", rt.Message), "is no message class"),
        (("a", Items), "is a Stream"),
        (("a", Price, "NOT AN OPERATION"), "operation"),
    ],
)
def test_a_topic_is_a_name_and_a_message_class(arguments: Any, text: str) -> None:
    with pytest.raises(rt.RetinueError, match=text):
        rt.Topic(*arguments)


async def test_what_is_no_topic_is_refused() -> None:
    class Undecorated(Price): ...

    class Sly(type(PRICES)):  # type: ignore[misc]
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    async with plain_system() as system:
        ref = await system.spawn(Reader)
        with pytest.raises(rt.DefinitionError, match="not decorated"):
            system.topics.publish(PRICES, Undecorated(1))
        with pytest.raises(rt.DefinitionError, match="is no topic"):
            system.topics.publish(Sly("prices", Price), Price(1))
        assert system.statistics().sent == 0
        for call in (
            lambda: system.topics.publish("prices", Price(1)),  # type: ignore[arg-type]
            lambda: system.topics.subscribe("prices", ref),  # type: ignore[arg-type]
            lambda: system.topics.subscribers("prices"),  # type: ignore[arg-type]
            lambda: system.topics.declare(None),  # type: ignore[arg-type]
        ):
            with pytest.raises(rt.DefinitionError, match="is no topic; make one with rt.Topic"):
                call()
        with pytest.raises(rt.DefinitionError, match="a ref is wanted"):
            system.topics.subscribe(PRICES, "/user/x")  # type: ignore[arg-type]


async def test_nobody_else_can_tell_that_something_was_missed() -> None:
    @rt.message
    class Forged(rt.Lagged):
        pass

    async with plain_system(strict=False) as system:
        log: list[Any] = []
        ref = await system.spawn(Reader, log)
        for forged in (rt.Lagged("prices", 3), Forged("prices", 3)):
            with pytest.raises(rt.Unhandled):
                ref.tell(forged)
            with pytest.raises(rt.Unhandled):
                await ref.ask(forged)
        with pytest.raises(rt.DefinitionError, match="only the runtime sends"):
            system.topics.subscribe(rt.Topic("lag", rt.Lagged), ref)
        assert log == []


async def test_a_strict_system_takes_a_handler_for_it() -> None:
    class Strict(rt.Actor):
        @rt.handler(requires="prices.see")
        def price(self, _: Price) -> None: ...

        @rt.handler
        def lag(self, message: rt.Lagged) -> None:
            missed.append(message.missed)

    missed: list[int] = []
    async with plain_system(strict=True) as system:
        system.topics.subscribe(PRICES, await system.spawn(Strict), 1)
        for number in range(3):
            system.topics.publish(PRICES, Price(number))
        await system.wait_quiet()
        assert missed == [2]


async def test_a_pool_cannot_be_subscribed_and_its_workers_can() -> None:
    async with plain_system() as system:
        log: list[Any] = []
        pool = await system.spawn_pool(Reader, log, pool=rt.Pool.round_robin(2))
        with pytest.raises(rt.DefinitionError, match="let its workers subscribe"):
            system.topics.subscribe(rt.Topic("t", Price), pool)
        assert system.topics.publish(PRICES, Price(1)).subscribers == 2
        await system.wait_quiet()
        assert log == [1, 1]


async def test_an_actor_has_a_bounded_number_of_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.actors.runtime.topics.MOST_TOPICS", 3)
    async with plain_system() as system:
        ref = await system.spawn(Reader, None, None)
        for number in range(3):
            system.topics.subscribe(rt.Topic(f"t{number}", Price), ref)
        with pytest.raises(rt.DefinitionError, match="unsubscribe"):
            system.topics.subscribe(rt.Topic("t3", Price), ref)


async def test_an_actor_that_has_ended_cannot_be_subscribed() -> None:
    async with plain_system() as system:
        ref = await system.spawn(Reader, None, None)
        await ref.stop()
        with pytest.raises(rt.ActorStopped):
            system.topics.subscribe(PRICES, ref)


@rt.message
class MyLagged(rt.Lagged):
    more: int = 0


@rt.message
class MyListing(rt.Listing):
    more: int = 0


@rt.message
class MyTerminated(rt.Terminated):
    more: int = 0


@pytest.mark.parametrize("cls", [rt.Lagged, rt.Listing, rt.Terminated, MyLagged, MyListing, MyTerminated])
def test_what_only_the_runtime_sends_and_what_derives_from_it_is_no_topics_message(cls: type[rt.Message]) -> None:
    with pytest.raises(rt.DefinitionError, match="only the runtime sends"):
        rt.Topic("notices", cls)


@rt.message
class News(rt.Message):
    """Without a field, so that a class may derive from it and from another one."""


@rt.message
class FalseNews(News, rt.Lagged):
    """News, and what only the runtime sends."""


async def test_what_is_both_is_published_by_nobody_either() -> None:
    class Anybody(rt.Actor):
        def __init__(self, log: list[Any]) -> None:
            self.log = log

        @rt.handler
        def news(self, message: News) -> None:
            self.log.append(message)

    news = rt.Topic("news", News)
    async with plain_system() as system:
        log: list[Any] = []
        system.topics.subscribe(news, await system.spawn(Anybody, log))
        async with system.topics.listen(news) as items:
            with pytest.raises(rt.Unhandled, match="nobody publishes FalseNews"):
                system.topics.publish(news, FalseNews("prices", 10**6))
            assert system.topics.publish(news, News()).subscribers == 2
            assert await anext(items) == News()
        await system.wait_quiet()
        assert log == [News()]
