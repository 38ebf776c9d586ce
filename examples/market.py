"""A market: prices come by a timer and go to all who have subscribed; the slow one costs the others nothing, and is told what it has missed.

Three traders follow the prices, each with a rule of its own. An analyst follows them too, but thinks for long about each: its room is full after four, and from then on
it gets the latest, with the number of those that it has missed. At the end a bell rings, with a report: who has heard it, and who has failed.

Shows: `rt.Topic`, timers, publishing, `rt.Lagged`, a delivery report.
Run:   python examples/market.py
"""

import random

import trio

import retinue as rt


@rt.message
class Price(rt.Message):
    """What a share costs now."""

    share: str
    cents: int


@rt.message
class Bell(rt.Message):
    """The day is over."""


PRICES = rt.Topic("prices", Price)
BELL = rt.Topic("bell", Bell)


@rt.message
class NextRound(rt.Message):
    """The exchange's own clock."""


class Exchange(rt.Actor):
    """Makes a price for each share every few milliseconds, `rounds` times, and goes home."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.prices = {"ACME": 10_000, "Globex": 2_500}
        self.dice = random.Random(1)

    def on_start(self) -> None:
        self.ctx.timers.every("round", NextRound(), 0.005)

    @rt.handler
    async def next_round(self, _: NextRound) -> None:
        for share, cents in self.prices.items():
            self.prices[share] = cents + self.dice.randint(-300, 300)
            self.ctx.topics.publish(PRICES, Price(share, self.prices[share]))  # waits for nobody
        self.rounds -= 1
        if self.rounds == 0:
            await self.ctx.stop()  # and its timer with it


class Trader(rt.Actor):
    """Buys one share below a price, and sells one above another; holds no more than `most`."""

    def __init__(self, share: str, below: int, above: int, most: int = 5) -> None:
        self.share, self.below, self.above, self.most = share, below, above, most
        self.held = self.cents = 0

    def on_start(self) -> None:
        self.ctx.topics.subscribe(PRICES)
        self.ctx.topics.subscribe(BELL)

    @rt.handler
    def price(self, price: Price) -> None:
        if price.share != self.share:
            return
        if price.cents < self.below and self.held < self.most:
            self.held, self.cents = self.held + 1, self.cents - price.cents
        elif price.cents > self.above and self.held:
            self.held, self.cents = self.held - 1, self.cents + price.cents

    @rt.handler
    def bell(self, _: Bell) -> None:
        print(f"{self.ctx.path}: {self.held} of {self.share}, and {self.cents / 100:+.2f} in cash")
        if self.held > 20:
            raise ValueError(f"nobody takes {self.held} of {self.share} off me")


class Analyst(rt.Actor):
    """Thinks about each price for so long that the next ones have come. It hears the bell in a room of its own."""

    def __init__(self) -> None:
        self.read = self.missed = 0

    def on_start(self) -> None:
        self.ctx.topics.subscribe(PRICES, capacity=4)
        self.ctx.topics.subscribe(BELL)

    @rt.handler
    async def price(self, _: Price) -> None:
        await trio.sleep(0.03)
        self.read += 1

    @rt.handler
    def lagged(self, message: rt.Lagged) -> None:
        self.missed += message.missed

    @rt.handler
    def bell(self, _: Bell) -> None:
        waiting = 2 * ROUNDS - self.read - self.missed
        print(f"{self.ctx.path}: of {2 * ROUNDS} prices I have read {self.read} and missed {self.missed}, and {waiting} wait")


ROUNDS = 60


async def main() -> None:
    async with rt.ActorSystem("market") as system:
        await system.spawn(Trader, "ACME", 9_950, 10_050, name="ada")
        await system.spawn(Trader, "Globex", 2_400, 2_600, name="grace")
        await system.spawn(Trader, "Globex", 99_999, 99_999, most=1_000, name="midas")  # buys at any price
        await system.spawn(Analyst, name="analyst")
        exchange = await system.spawn(Exchange, ROUNDS, name="exchange")
        await (await system.watch(exchange)).wait()
        topic = system.topics.statistics()["prices"]
        print(
            f"{topic.published} prices for {topic.subscribers} subscribers; the traders missed none, the analyst more than half: {topic.lagged > ROUNDS}"
        )

        report = await system.topics.publish_and_report(BELL, Bell(), timeout=10)
        for path, outcome in report.outcomes.items():
            print(f"  {path}: {outcome} {report.errors.get(path, '')}".rstrip())
        print(f"the bell: {report.handled} of {len(report.outcomes)} are done with it")


if __name__ == "__main__":
    rt.run(main)
