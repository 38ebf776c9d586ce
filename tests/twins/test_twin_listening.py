"""Following topics and services without an actor, through the twins."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import retinue as rt
from retinue import aio, sync


@rt.message
class Price(rt.Message):
    cents: int


@rt.message
class Listen(rt.Request[str]):
    pass


PRICES = rt.Topic("prices", Price)


class Till(rt.Actor):
    pass


TILLS = rt.ServiceKey("tills", Till)


def publish(system: sync.ActorSystem, *cents: int) -> None:
    for one in cents:
        system.topics.publish(PRICES, Price(one))


def test_a_script_reads_what_is_published_in_its_order() -> None:
    with sync.ActorSystem() as system, system.topics.listen(PRICES) as items:
        publish(system, *range(100))
        assert [items.get() for _ in range(100)] == [Price(cents) for cents in range(100)]
        publish(system, 100, 101)
        assert [next(items), next(items)] == [Price(100), Price(101)]
        assert system.topics.statistics()["prices"].published == 102


def test_a_slow_script_is_told_how_many_it_has_missed() -> None:
    with sync.ActorSystem() as system, system.topics.listen(PRICES, capacity=2) as items:
        publish(system, 1, 2, 3, 4, 5)
        assert [items.get(timeout=60) for _ in range(3)] == [rt.Lagged("prices", 3), Price(4), Price(5)]


def test_a_script_waits_for_as_long_as_it_said_and_may_go_on() -> None:
    with sync.ActorSystem() as system, system.topics.listen(PRICES, timeout=0.01) as items:
        for _ in range(2):
            with pytest.raises(TimeoutError, match=r"'prices'.*within 0\.01 s"):
                next(items)
        with pytest.raises(TimeoutError):
            items.get(timeout=0)
        publish(system, 1, 2)
        assert items.get(timeout=0) == Price(1)
        assert items.get(timeout=0) == Price(2)


def test_a_thread_that_waits_is_woken_by_what_comes_and_by_the_end_of_the_block() -> None:
    seen: list[Any] = []
    first = threading.Event()

    def read() -> None:
        for item in items:
            seen.append(item)
            first.set()

    with sync.ActorSystem() as system:
        with system.topics.listen(PRICES) as items:
            reader = threading.Thread(target=read)
            reader.start()
            time.sleep(0.02)
            publish(system, 1)
            assert first.wait(60)
        reader.join(60)
        assert not reader.is_alive()
        assert seen == [Price(1)]
        assert "prices" not in system.topics.statistics()


def test_what_came_before_the_systems_end_is_read_after_it_and_then_it_is_over() -> None:
    system = sync.ActorSystem()
    with system:
        items = system.topics.listen(PRICES)
        items.__enter__()
        publish(system, *range(40))
        assert items.get() == Price(0)
    assert [item.cents for item in items if isinstance(item, Price)] == list(range(1, 40))
    with pytest.raises(rt.StreamClosed, match="has ended"):
        items.get()
    items.close()


def test_a_reader_does_not_hold_up_the_end_of_its_system() -> None:
    class Slow(rt.Actor):
        @rt.handler
        async def listen(self, _: Listen) -> str:
            import trio

            await trio.sleep(0.3)
            return "done"

    system = sync.ActorSystem(grace=5)
    turns: list[Any] = []

    def read() -> None:
        turns.extend(items)

    with system:
        items = system.topics.listen(PRICES).__enter__()
        reader = threading.Thread(target=read)
        reader.start()
        publish(system, 7)
        future = system.spawn(Slow).ask(Listen(), block=False)  # drains after the block's end, when the system runs nothing else for us
    reader.join(60)
    assert not reader.is_alive()
    assert turns == [Price(7)]
    assert future.get() == "done"


def test_listeners_are_entered_once_and_before_they_are_read() -> None:
    with sync.ActorSystem() as system:
        items = system.topics.listen(PRICES)
        with pytest.raises(rt.DefinitionError, match="enter it first"):
            items.get()
        with items, pytest.raises(rt.DefinitionError, match="once"):
            items.__enter__()
        with pytest.raises(rt.StreamClosed, match="its block has ended"):
            items.get()
        for bad in (-1, float("nan"), True, "1"):
            with pytest.raises(rt.DefinitionError):
                system.topics.listen(PRICES, timeout=bad)  # type: ignore[arg-type]
        with pytest.raises(rt.DefinitionError):
            system.topics.listen(PRICES, capacity=0)
        with pytest.raises(rt.DefinitionError):
            system.topics.listen("prices")  # type: ignore[arg-type]
        other = system.topics.listen(rt.Topic("prices", Listen))
        system.topics.declare(PRICES)
        with pytest.raises(rt.DefinitionError, match="prices"), other:
            pass
    with pytest.raises(rt.SystemClosed), system.topics.listen(PRICES):
        pass


def test_a_topic_that_is_not_everybodys_is_not_heard_by_a_system_without_the_operation() -> None:
    secret = rt.Topic("secret", Price, subscribe="prices.hear")
    with sync.ActorSystem(permissions=["other.*"]) as system:
        with pytest.raises(rt.Denied), system.topics.listen(secret):
            pass
        assert "secret" not in system.topics.statistics()


def test_a_handler_cannot_read_through_the_twin() -> None:
    class Sly(rt.Actor, blocking=True):
        @rt.handler
        def listen(self, _: Listen) -> str:
            texts = []
            for deed in (lambda: items.get(timeout=1), lambda: system.topics.listen(PRICES).__enter__()):
                try:
                    deed()
                except rt.WrongThread as error:
                    texts.append(str(error))
            return " ".join(texts)

    with sync.ActorSystem() as system, system.topics.listen(PRICES) as items:
        publish(system, 1)
        text = system.spawn(Sly).ask(Listen())
        assert "listen('prices') was called in a handler" in text
        assert "use self.ctx.topics" in text
        assert items.get() == Price(1)


def test_a_script_follows_a_service() -> None:
    with sync.ActorSystem() as system, system.receptionist.listen(TILLS, timeout=5) as listings:
        assert listings.get() == rt.Listing("tills", ())
        till = system.spawn(Till)
        system.receptionist.register(TILLS, till)
        refs: tuple[Any, ...] = listings.get().refs
        assert refs == (till,)
        assert isinstance(refs[0], sync.Ref)
        till.stop()
        assert next(iter(listings)).refs == ()


def test_asyncio_reads_and_waits_too() -> None:
    async def main() -> None:
        async with aio.ActorSystem() as system:
            async with system.topics.listen(PRICES, capacity=50, timeout=5) as items:
                await asyncio.gather(*(system.topics.publish(PRICES, Price(cents)) for cents in range(60)))
                assert await items.get() == rt.Lagged("prices", 10)
                seen = [await anext(items) for _ in range(50)]
                assert sorted(item.cents for item in seen if isinstance(item, Price)) == sorted(
                    {item.cents for item in seen if isinstance(item, Price)}
                )
                with pytest.raises(TimeoutError):
                    await items.get(timeout=0.01)
            with pytest.raises(rt.StreamClosed):
                await items.get()
            assert [item async for item in items] == []
            async with system.receptionist.listen(TILLS) as listings:
                assert (await listings.get(timeout=60)).refs == ()
                till = await system.spawn(Till)
                await system.receptionist.register(TILLS, till)
                refs: tuple[Any, ...] = (await listings.get(timeout=60)).refs
                assert refs == (till,)
                assert isinstance(refs[0], aio.Ref)

    asyncio.run(main())


def test_who_is_cancelled_while_waiting_has_lost_nothing() -> None:
    async def main() -> None:
        got: list[int] = []
        async with aio.ActorSystem() as system, system.topics.listen(PRICES) as items:

            async def feed() -> None:
                for cents in range(200):
                    await system.topics.publish(PRICES, Price(cents))

            feeding = asyncio.create_task(feed())
            waits = 0.0
            while len(got) < 200:
                waits = (waits + 0.00007) % 0.002
                try:
                    item = await asyncio.wait_for(items.get(timeout=5), waits)
                except TimeoutError:
                    continue
                assert isinstance(item, Price)
                got.append(item.cents)
            await feeding
        assert got == list(range(200))

    asyncio.run(main())
