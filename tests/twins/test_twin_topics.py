"""Topics and the receptionist through the twins."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import retinue as rt
from retinue import aio, sync


@rt.message
class Price(rt.Message):
    cents: int


@rt.message
class Owner(Price):
    ref: Any


@rt.message
class Seen(rt.Request[list[Any]]):
    pass


@rt.message
class Bad(Price):
    pass


PRICES = rt.Topic("prices", Price)


class Reader(rt.Actor):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    @rt.handler
    def price(self, message: Price) -> None:
        if isinstance(message, Bad):
            raise ValueError("bad")
        self.seen.append(message.ref.path if isinstance(message, Owner) else message.cents)

    @rt.handler
    def tell(self, _: Seen) -> list[Any]:
        return self.seen


READERS = rt.ServiceKey("readers", Reader)


def test_a_script_publishes_and_finds() -> None:
    with sync.ActorSystem() as system:
        ref = system.spawn(Reader, name="reader")
        system.topics.declare(PRICES)
        system.topics.subscribe(PRICES, ref)
        assert system.topics.subscribers(PRICES) == (ref,)
        assert system.topics.publish(PRICES, Price(1)) == rt.Published("prices", 1)
        ada = system.authority.mint("ada", ["**"])
        assert system.topics.publish_and_report(PRICES, Owner(2, ref), context=ada).handled == 1
        assert ref.ask(Seen()) == [1, "/user/reader"]
        assert system.topics.publish_and_report(PRICES, Bad(3), timeout=5).failed == 1
        assert system.topics.statistics()["prices"].published == 3
        with pytest.raises(rt.Unhandled):
            system.topics.publish(PRICES, Seen())  # type: ignore[type-var]
        assert system.topics.unsubscribe(PRICES, ref) is True
        system.receptionist.declare(READERS)
        system.receptionist.register(READERS, ref)
        assert system.receptionist.find(READERS) == (ref,)
        assert system.receptionist.keys() == ["readers"]
        assert system.receptionist.unregister(READERS, ref) is True


def test_asyncio_does_too() -> None:
    async def main() -> None:
        async with aio.ActorSystem() as system:
            ref = await system.spawn(Reader, name="reader")
            await system.topics.declare(PRICES)
            await system.topics.subscribe(PRICES, ref)
            assert await system.topics.subscribers(PRICES) == (ref,)
            assert await system.topics.publish(PRICES, Price(1)) == rt.Published("prices", 1)
            report = await system.topics.publish_and_report(PRICES, Owner(2, ref))
            assert report.outcomes == {"/user/reader": "handled"}
            assert await ref.ask(Seen()) == [1, "/user/reader"]
            assert (await system.topics.statistics())["prices"].subscribers == 1
            assert await system.topics.unsubscribe(PRICES, ref) is True
            await system.receptionist.declare(READERS)
            await system.receptionist.register(READERS, ref)
            assert await system.receptionist.find(READERS) == (ref,)
            assert await system.receptionist.keys() == ["readers"]
            assert await system.receptionist.unregister(READERS, ref) is True

    asyncio.run(main())


def test_in_a_handler_the_twin_is_refused() -> None:
    class Sly(rt.Actor, blocking=True):
        @rt.handler
        def publish(self, _: Seen) -> list[Any]:
            try:
                system.topics.publish(PRICES, Price(1))
            except rt.WrongThread as error:
                return [str(error)]
            return []

    with sync.ActorSystem() as system:
        (text,) = system.spawn(Sly).ask(Seen())
    assert "self.ctx.topics" in text
