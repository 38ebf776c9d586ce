"""The system's holder follows a topic without an actor."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

import retinue as rt
from core_hosts import conserved
from topic_actors import PRICES, Price, plain_system


async def test_a_listener_sees_what_is_published_while_it_is_open() -> None:
    async with plain_system() as system:
        system.topics.publish(PRICES, Price(0))
        async with system.topics.listen(PRICES) as items:
            for number in (1, 2):
                assert system.topics.publish(PRICES, Price(number)) == rt.Published("prices", 1)
            assert items.waiting == 2
            assert [await anext(items), await anext(items)] == [Price(1), Price(2)]
            assert system.topics.statistics()["prices"].listeners == 1
            assert system.topics.subscribers(PRICES) == ()
        assert items.closed
        assert not system.topics.publish(PRICES, Price(3))
        assert system.topics.statistics() == {}
        assert conserved(system)


async def test_it_waits_for_what_comes() -> None:
    async with plain_system() as system:

        async def listen(got: list[Any]) -> None:
            async with system.topics.listen(PRICES) as items:
                async for item in items:
                    got.append(item.number)
                    if len(got) == 3:
                        break

        logs: list[list[Any]] = [[], []]
        async with trio.open_nursery() as nursery:
            for got in logs:
                nursery.start_soon(listen, got)
            await trio.testing.wait_all_tasks_blocked()
            for number in range(3):
                system.topics.publish(PRICES, Price(number))
                await trio.testing.wait_all_tasks_blocked()
        assert logs == [[0, 1, 2]] * 2


async def test_a_slow_one_is_told_how_many_it_missed() -> None:
    async with plain_system() as system:
        async with system.topics.listen(PRICES, 3) as items:
            lagging = [system.topics.publish(PRICES, Price(number)).lagging for number in range(7)]
            assert lagging == [0, 0, 0, 1, 1, 1, 1]
            assert items.lagged == 4
            assert [await anext(items) for _ in range(4)] == [rt.Lagged("prices", 4), Price(4), Price(5), Price(6)]
            system.topics.publish(PRICES, Price(7))
            assert await anext(items) == Price(7)
        assert conserved(system)


async def test_the_end_of_the_system_ends_the_iteration() -> None:
    got: list[Any] = []

    async def listen(system: rt.ActorSystem) -> None:
        async with system.topics.listen(PRICES) as items:
            async for item in items:
                got.append(item)
        got.append("over")

    async with trio.open_nursery() as nursery:
        async with plain_system() as system:
            nursery.start_soon(listen, system)
            await trio.testing.wait_all_tasks_blocked()
            system.topics.publish(PRICES, Price(1))
        with pytest.raises(rt.SystemClosed):
            system.topics.listen(PRICES)
    assert got == [Price(1), "over"]


async def test_a_listener_is_entered_once_and_before_it_is_read() -> None:
    async with plain_system() as system:
        items = system.topics.listen(PRICES)
        with pytest.raises(rt.DefinitionError, match="enter the listener first"):
            await anext(items)
        async with items:
            with pytest.raises(rt.DefinitionError, match="entered once"):
                async with items:
                    pass
        with pytest.raises(StopAsyncIteration):
            await anext(items)


async def test_a_cancelled_reader_leaves_nothing_behind() -> None:
    async with plain_system() as system:
        with trio.move_on_after(0):
            async with system.topics.listen(PRICES) as items:
                await anext(items)
        assert system.topics.statistics() == {}


async def test_the_loopback_copies_what_is_listened_to() -> None:
    async with plain_system(loopback=True) as system, system.topics.listen(PRICES) as items:
        price = Price(1)
        system.topics.publish(PRICES, price)
        got = await anext(items)
        assert got == price and got is not price


async def test_before_the_system_has_started_nothing_can_be_done() -> None:
    system = plain_system()
    with pytest.raises(rt.SystemClosed):
        system.topics.listen(PRICES)
