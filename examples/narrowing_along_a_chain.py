"""Authority that shrinks on its way: a customer orders, a shop pays, a bank books, and nobody can do more than whoever asked.

Shows: `narrow` with constraints on arguments, a budget of calls and an end in time; an actor's grant; `explain`; a budget that two
orders share; and the audit, read and verified at the end.
Run:   python examples/narrowing_along_a_chain.py
"""

import retinue as rt


@rt.message
class Book(rt.Request[str]):
    """Write a payment into the books."""

    to: str
    cents: int


@rt.message
class Pay(rt.Request[str]):
    """Pay somebody."""

    to: str
    cents: int


@rt.message
class Order(rt.Request[str]):
    """Buy something."""

    item: str
    cents: int


class Books(rt.Actor):
    """Where each payment is written down."""

    @rt.handler(requires="books.write")
    def book(self, message: Book) -> str:
        return f"{message.cents} cents to {message.to}, for {self.ctx.security.subject}"


class Bank(rt.Actor):
    """Pays, and books what it paid."""

    def __init__(self, books: rt.Ref[Books]) -> None:
        self.books = books

    @rt.handler(requires="payments.send", risk="L2")  # from L2 on each single payment is on record, before it is made
    async def pay(self, message: Pay) -> str:
        return await self.books.ask(Book(message.to, message.cents))  # as whoever pays


class Shop(rt.Actor):
    """Acts for its customers. It narrows what it was lent before it passes it on: this order, this shop, this price."""

    def __init__(self, bank: rt.Ref[Bank]) -> None:
        self.bank = bank

    @rt.handler
    async def order(self, message: Order) -> str:
        just_this = self.ctx.security.narrow(rt.where("payments.send", to=rt.one_of("ACME"), cents=rt.at_most(message.cents)))
        return await self.bank.ask(Pay("ACME", message.cents), context=just_this)


class CrookedShop(Shop):
    """Tries to take more than was ordered."""

    @rt.handler
    async def order(self, message: Order) -> str:
        return await self.bank.ask(Pay("Crook & Sons", message.cents * 100))


async def attempt(shop: rt.Ref[Shop], order: Order, context: rt.SecurityContext) -> None:
    try:
        print("done:   ", await shop.ask(order, context=context))
    except rt.Denied as denied:
        print("refused:", denied.operation, f"({denied.reason})")


async def main() -> None:
    async with rt.ActorSystem("market") as system:
        books = await system.spawn(Books, name="books")
        bank = await system.spawn(Bank, books, name="bank")
        shop = await system.spawn(Shop, bank, name="shop")
        crook = await system.spawn(CrookedShop, bank, name="crook")
        florist = await system.spawn(Shop, bank, name="florist", grant=["flowers.**"])  # born without a right to payments

        ada = system.authority.mint("ada", ["payments.send", "books.write"])
        # What ada lends to shops: payments to ACME, of 50 euros at most, for a minute. (Booking them is left as it is.)
        lent = ada.narrow(
            rt.where("payments.send", to=rt.one_of("ACME"), cents=rt.at_most(5_000)),
            rt.expires(seconds=60),
        )
        await attempt(shop, Order("anvil", 4_000), lent)
        await attempt(shop, Order("rocket", 900_000), lent)
        await attempt(crook, Order("anvil", 40), lent)
        await attempt(florist, Order("rose", 300), lent)
        print(lent.explain("payments.send", {"to": "ACME", "cents": 900_000}).partition(" (added by")[0])

        # An order is two operations, the payment and its booking: four calls are two orders, whoever makes them.
        budget = lent.narrow(rt.limit(calls=4))
        for item in ("anvil", "magnet", "dynamite"):
            await attempt(shop, Order(item, 1_000), budget)

        print("the audit:")
        for entry in await system.audit.entries():
            if entry.kind == "decision":
                print(
                    f"  {entry.number:2} {'allowed' if entry.allowed else 'refused'} {entry.operation} at {entry.path} for {entry.subject}"
                )
        print("records verified:", await system.audit.verify() > 0)


if __name__ == "__main__":
    rt.run(main)
