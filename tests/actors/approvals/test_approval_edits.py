"""Edited arguments keep the types of what was asked, nested messages and members of enums included, and what is approved then can be asked."""

from __future__ import annotations

import datetime as dt
import enum
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import retinue as rt
from approval_bank import alice_of, request_for, system_on
from retinue.actors.approvals.editing import edited_arguments
from retinue.security.approvals import ApprovalRequest, Binding, arguments_digest


class Speed(enum.Enum):
    """How fast."""

    SLOW = "slow"
    FAST = "fast"


@rt.message(name="approvals-edit/Address@1")
class Address(rt.Message):
    """Where to."""

    street: str
    number: int


@rt.message(name="approvals-edit/Order@1")
class Order(rt.Request[str]):
    """Something with many types."""

    to: Address
    speed: Speed = Speed.SLOW
    price: Decimal = Decimal("1.50")
    weight: float = 2.0
    items: tuple[str, ...] = ("tea",)
    notes: list[str] | None = None
    when: dt.date = dt.date(2026, 11, 30)


class Shop(rt.Actor):
    """Ships what is approved."""

    @rt.handler(requires="shop.order", approval=True)
    def order(self, message: Order) -> str:
        return f"{message.price} {message.to.street} {message.to.number} {message.speed.name} {message.items} {message.notes}"


def request_of(arguments: dict[str, Any]) -> ApprovalRequest:
    binding = Binding("shop.order", arguments_digest(arguments), "alice", None, None, "/user/shop", "0" * 64, "1")
    return ApprovalRequest.new(binding, arguments, message_type="x", reasons=[], context_id="c", now_ms=1)


WHOLE = {name: getattr(Order(Address("Main", 1)), name) for name in ("to", "speed", "price", "weight", "items", "notes", "when")}


@pytest.mark.parametrize(
    ("name", "given", "made"),
    [
        ("price", "2.00", Decimal("2.00")),
        ("price", 3, Decimal(3)),
        ("weight", 3, 3.0),
        ("items", ["tea", "milk"], ("tea", "milk")),
        ("notes", ["slowly"], ["slowly"]),
        ("when", "2026-12-01", dt.date(2026, 12, 1)),
    ],
)
def test_what_json_can_say_becomes_what_the_message_has(name: str, given: Any, made: Any) -> None:
    found = edited_arguments(request_of(WHOLE), {name: given})
    assert found[name] == made and type(found[name]) is type(made)
    assert list(found) == list(WHOLE)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("price", "a lot"),
        ("price", True),
        ("weight", "2"),
        ("weight", True),
        ("items", "tea"),
        ("items", [1]),
        ("when", "soon"),
        ("to", "Main 1"),
        ("to", {"street": "Main", "house": 1}),
        ("to", {"number": "1"}),
        ("speed", 1),
        ("nothing", 1),
    ],
)
def test_what_does_not_fit_is_refused(name: str, given: Any) -> None:
    with pytest.raises(rt.ApprovalError) as caught:
        edited_arguments(request_of(WHOLE), {name: given})
    assert caught.value.reason == "arguments"


@pytest.mark.parametrize("alive", [True, False])
async def test_an_edited_order_is_asked_and_done(tmp_path: Path, alive: bool) -> None:
    async with system_on(tmp_path) as system:
        shop = await system.spawn(Shop, name="shop")
        alice = alice_of(system, permissions=["shop.order"])
        request = await request_for(shop, Order(Address("Main", 1)), alice)
        if not alive:
            await shop.stop()
        edited = await system.approvals.edit(
            request.id, {"to": {"number": 7}, "speed": "FAST", "price": "2.00", "items": ["milk"], "notes": ["x"]}, reviewer="bob"
        )
        token = await system.approvals.approve(edited.id, reviewer="bob")
        if not alive:
            shop = await system.spawn(Shop, name="shop")
        order = Order(Address("Main", 7), Speed.FAST, Decimal("2.00"), 2.0, ("milk",), ["x"])
        assert await shop.ask(order, context=alice, approvals=[token]) == "2.00 Main 7 FAST ('milk',) ['x']"


async def test_where_the_actor_lives_the_messages_own_types_count(tmp_path: Path) -> None:
    async with system_on(tmp_path) as system:
        shop = await system.spawn(Shop, name="shop")
        request = await request_for(shop, Order(Address("Main", 1)), alice_of(system, permissions=["shop.order"]))
        with pytest.raises(rt.ApprovalError, match="notes"):
            await system.approvals.edit(request.id, {"notes": 7}, reviewer="bob")
        edited = await system.approvals.edit(request.id, {"to": Address("Side", 2), "speed": Speed.FAST}, reviewer="bob")
        assert dict(edited.arguments["to"].fields) == {"street": "Side", "number": 2}
        with pytest.raises(rt.ApprovalError):
            await system.approvals.edit(edited.id, {"to": Order(Address("Main", 1))}, reviewer="bob")
