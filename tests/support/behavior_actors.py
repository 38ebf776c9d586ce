"""Actors that `BehaviorTest` plays."""

from __future__ import annotations

from typing import Any

import retinue as rt
import retinue.testing as rtt


@rt.message
class Order(rt.Request[str]):
    item: str
    cents: int = 100


@rt.message
class Pay(rt.Request[str]):
    cents: int


@rt.message
class Note(rt.Message):
    text: str


@rt.message
class Do(rt.Request[Any]):
    what: Any


@rt.message
class Lines(rt.Stream[str]):
    count: int = 2


class Puppet(rt.Actor):
    """Does what the message says."""

    internal_operations = ("memory.write",)

    @rt.handler(raises=ValueError)
    async def do(self, message: Do) -> Any:
        value = message.what(self)
        return await value if hasattr(value, "__await__") else value

    @rt.handler
    def note(self, message: Note) -> None: ...


def played(what: Any, **options: Any) -> tuple[Any, list[rtt.Effect], rtt.BehaviorTest[Puppet]]:
    """What came of one deed: the answer, the effects without that, and the test."""
    test = rtt.BehaviorTest(Puppet, **options)
    value = test.ask(Do(what))
    *effects, replied = test.effects
    assert isinstance(replied, rtt.Replied)
    return value, effects, test


class Shop(rt.Actor):
    def __init__(self, bank: rt.Ref[Any], log: rt.Ref[Any], *, opened: bool = True) -> None:
        self.bank = bank
        self.log = log
        self.sold: list[str] = []
        self.opened = opened

    @rt.handler(raises=LookupError)
    async def order(self, message: Order) -> str:
        receipt = await self.bank.ask(Pay(message.cents), timeout=5)
        self.sold.append(message.item)
        self.log.tell(Note(f"sold {message.item}"))
        return receipt


class Bank(rt.Actor):
    @rt.handler(requires="payments.send")
    def pay(self, message: Pay) -> str:
        return f"paid {message.cents} for {self.ctx.security.subject}"


def shop() -> tuple[rtt.BehaviorTest[Shop], rt.Ref[Any], rt.Ref[Any]]:
    """A shop between stand-ins."""
    test = rtt.BehaviorTest(Shop, rtt.StandIn("bank", Bank), log=rtt.StandIn("log"))
    return test, test.ref("bank"), test.ref("log")
