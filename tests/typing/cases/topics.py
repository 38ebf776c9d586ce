"""Topics and service keys are typed: what is published, listened to, registered and found."""

from __future__ import annotations

import retinue as rt
from retinue import aio, sync


@rt.message
class Price(rt.Message):
    cents: int


@rt.message
class Dear(Price):
    pass


@rt.message
class Other(rt.Message):
    pass


class Till(rt.Actor):
    pass


class FastTill(Till):
    pass


class Shop(rt.Actor):
    pass


PRICES = rt.Topic("prices", Price)
TILLS = rt.ServiceKey("tills", Till)
NUMBERS = rt.Topic("numbers", int)  # error
SHOPS = rt.ServiceKey("shops", int)  # error


async def publish(system: rt.ActorSystem) -> None:
    published: rt.Published = system.topics.publish(PRICES, Price(1))
    report: rt.DeliveryReport = await system.topics.publish_and_report(PRICES, Dear(1))
    system.topics.publish(PRICES, Other())  # error
    await system.topics.publish_and_report(PRICES, Other())  # error
    system.topics.publish("prices", Price(1))  # error
    print(published.lagging + report.handled)


class Reader(rt.Actor):
    def on_start(self) -> None:
        subscription: rt.Subscription = self.ctx.topics.subscribe(PRICES, capacity=10)
        self.ctx.topics.publish(PRICES, Other())  # error
        self.ctx.receptionist.register(TILLS)
        found: tuple[rt.Ref[Till], ...] = self.ctx.receptionist.find(TILLS)
        print(subscription.waiting, found)


async def listen(system: rt.ActorSystem) -> None:
    async with system.topics.listen(PRICES) as items:
        async for item in items:
            both: Price | rt.Lagged = item
            one: Price = item  # error
            print(both, one)
    async with system.receptionist.listen(TILLS) as listings:
        async for listing in listings:
            print(listing.refs)


async def find(system: rt.ActorSystem, till: rt.Ref[FastTill], shop: rt.Ref[Shop]) -> None:
    system.receptionist.register(TILLS, till)
    system.receptionist.register(TILLS, shop)  # error
    right: tuple[rt.Ref[Till], ...] = system.receptionist.find(TILLS)
    wrong: tuple[rt.Ref[Shop], ...] = system.receptionist.find(TILLS)  # error
    print(right, wrong)


def in_a_script(system: sync.ActorSystem) -> None:
    with system.topics.listen(PRICES, timeout=1) as items:
        both: Price | rt.Lagged = items.get(timeout=0.5)
        one: Price = items.get()  # error
        for item in items:
            print(item, both, one)
    tills: tuple[sync.Ref[Till], ...] = system.receptionist.find(TILLS)
    shops: tuple[sync.Ref[Shop], ...] = system.receptionist.find(TILLS)  # error
    system.topics.publish(PRICES, Other())  # error
    with system.receptionist.listen(TILLS) as listings:
        print(next(listings).refs, tills, shops)


async def under_asyncio(system: aio.ActorSystem) -> None:
    async with system.topics.listen(PRICES, capacity=2) as items:
        async for item in items:
            both: Price | rt.Lagged = item
            one: Price = await items.get()  # error
            print(both, one)
    tills: tuple[aio.Ref[Till], ...] = await system.receptionist.find(TILLS)
    async with system.receptionist.listen(TILLS) as listings:
        print((await anext(listings)).refs, tills)
