"""A tell has no answer: what is certain to be refused is refused at the gateway, and what is accepted may still be refused later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

import retinue as rt
from gateway_shop import Open, call, error_of, events_of, open_shop


@rt.message(name="shop/Move@1")
class Move(rt.Message):
    amount: int


@rt.message(name="shop/Order@1")
class Order(rt.Message):
    amount: int


@rt.message(name="shop/Large@2")
class OrderLarge(rt.Message):
    amount: int


@rt.message(name="shop/Held@1")
class Held(rt.Message):
    amount: int


class Till(rt.Actor):
    def __init__(self, moved: list[object]) -> None:
        self.moved = moved

    @rt.handler(requires="till.move", risk="L2")
    def move(self, message: Move) -> None:
        self.moved.append(message)

    @rt.handler(requires="till.order", approval=True)
    def order(self, message: Order) -> None:
        self.moved.append(message)

    @rt.handler(requires="till.order", approval=lambda message: message.amount > 100)
    def order_large(self, message: OrderLarge) -> None:
        self.moved.append(message)

    @rt.handler(requires="held.move")
    def held(self, message: Held) -> None:
        self.moved.append(message)


def body(name: str, amount: int = 5, **more: Any) -> dict[str, Any]:
    return {"to": "/user/till", "message": {"type": name, "body": {"amount": amount}}, **more}


async def tell(at: Open, token: str, sent: dict[str, Any]) -> httpx.Response:
    return await at.client.post("/v1/tell", json=sent, headers={"Authorization": f"Bearer {token}"})


REFUSED = [
    ((), "permission"),
    (("other.**",), "permission"),
    (("**", rt.deny("till.move")), "permission"),
    (("till.*", rt.allow("till.move", amount=rt.at_most(4))), "arguments"),
    (("**", rt.where("till.move", amount=rt.at_most(4))), "arguments"),
    (("**", rt.max_risk("L1")), "risk"),
]


@pytest.mark.parametrize(("permissions", "reason"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
async def test_what_the_token_can_never_do_is_refused_before_it_is_sent(tmp_path: Path, permissions: tuple[Any, ...], reason: str) -> None:
    async with open_shop(tmp_path) as at:
        moved: list[object] = []
        await at.system.spawn(Till, moved, name="till")
        token = at.sealer.seal(at.system.authority.mint("eve", ["nothing.**", *permissions]))
        for more in ({}, {"wait": 1}):
            answer = await tell(at, token, body("shop/Move@1", **more))
            error = error_of(answer)
            assert (answer.status_code, error["type"], error["reason"], error["subject"]) == (403, "Denied", reason, "eve")
            assert (error["operation"], error["path"]) == ("till.move", "/user/till")
        entries = await at.system.audit.entries(allowed=False, operation="till.move")
        assert [(entry.reason, entry.path) for entry in entries] == [(reason, "/user/till")] * 2
        assert moved == [] and at.system.statistics().sent == 0


async def test_a_spent_limit_of_calls_is_seen_and_looking_costs_none(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as at:
        moved: list[object] = []
        await at.system.spawn(Till, moved, name="till")
        token = at.sealer.seal(at.system.authority.mint("eve", ["till.*", rt.limit(calls=2)]))
        for number in (1, 2):
            assert (await tell(at, token, body("shop/Move@1"))).status_code == 202
            await at.until(lambda number=number: len(moved) == number)
        answer = await tell(at, token, body("shop/Move@1"))
        assert (answer.status_code, error_of(answer)["type"]) == (403, "BudgetExceeded") and len(moved) == 2


async def test_a_person_is_asked_and_the_same_tell_with_the_approval_is_handled_once(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as at:
        moved: list[object] = []
        await at.system.spawn(Till, moved, name="till")
        token = at.mint("eve", "till.*")
        for name, amount in (("shop/Order@1", 5), ("shop/Large@2", 500)):
            moved.clear()
            answer = await tell(at, token, body(name, amount))
            [request] = error_of(answer)["requests"]
            assert answer.status_code == 428
            assert [one.id for one in await at.system.approvals.pending()] == [request["id"]]
            approval = await at.system.approvals.approve(request["id"], reviewer="bob")
            other = await tell(at, token, body(name, amount + 1, approvals=[approval]))
            assert other.status_code == 428 and moved == []
            await at.system.approvals.reject(error_of(other)["requests"][0]["id"], reviewer="bob")
            assert (await tell(at, token, body(name, amount, approvals=[approval]))).status_code == 202
            await at.until(lambda: len(moved) == 1)
            spent = await tell(at, token, body(name, amount, approvals=[approval]))
            assert (spent.status_code, error_of(spent)["reason"]) == (403, "spent") and len(moved) == 1
        assert (await tell(at, token, body("shop/Large@2", 100))).status_code == 202


async def test_a_layer_that_asks_for_consent_asks_for_it_of_a_tell_too(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as at:
        moved: list[object] = []
        await at.system.spawn(Till, moved, name="till")
        token = at.sealer.seal(at.system.authority.mint("eve", ["till.*", rt.needs_approval("till.move")]))
        answer = await tell(at, token, body("shop/Move@1"))
        assert answer.status_code == 428 and len(await at.system.approvals.pending()) == 1 and moved == []


@pytest.mark.parametrize("consents", [True, False])
async def test_what_a_reviewer_hook_has_just_consented_to_goes_along_with_the_tell(tmp_path: Path, consents: bool) -> None:
    asked: list[object] = []

    def reviewer(request: rt.ApprovalRequest) -> rt.Review:
        asked.append(request.id)
        return rt.Review.approve("fine") if consents else rt.Review.reject("no")

    async with open_shop(tmp_path, system={"reviewer": reviewer}) as at:
        moved: list[object] = []
        await at.system.spawn(Till, moved, name="till")
        answer = await tell(at, at.mint("eve", "till.*"), body("shop/Order@1"))
        assert answer.status_code == (202 if consents else 403), answer.text
        if consents:
            await at.until(lambda: len(moved) == 1)
        assert len(asked) == 1


async def test_the_receivers_own_grant_counts_as_it_does_when_the_message_is_handled(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as at:
        moved: list[object] = []
        await at.system.spawn(Till, moved, name="till", grant=["till.*"])
        answer = await tell(at, at.mint("eve", "**"), body("shop/Held@1"))
        assert (answer.status_code, error_of(answer)["operation"]) == (403, "held.move")


async def test_a_policy_is_asked_once_and_when_the_message_is_handled(tmp_path: Path) -> None:
    seen: list[object] = []

    class OnlySmall:
        name = "only small"
        operations = ("till.*",)

        def decide(self, call: Any) -> rt.Verdict:
            seen.append(call.arguments["amount"])
            return rt.Verdict.allow() if call.arguments["amount"] < 10 else rt.Verdict.refuse("too much")

    async with open_shop(tmp_path, system={"policies": [OnlySmall()]}) as at:
        moved: list[object] = []
        await at.system.spawn(Till, moved, name="till")
        token = at.mint("eve", "till.*")
        for amount in (5, 50):
            assert (await tell(at, token, body("shop/Move@1", amount))).status_code == 202, "202: it was sent, and no more"
        await at.until(lambda: len(seen) == 2)
        assert seen == [5, 50] and moved == [Move(5)]
        refused = await tell(at, at.mint("eve", "other.**"), body("shop/Move@1"))
        assert refused.status_code == 403 and len(seen) == 2, "what no policy could permit is certain"


async def test_an_actor_that_has_ended_is_told_from_one_that_never_was(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as at:
        ref = await at.system.spawn(Till, [], name="till")
        token = at.mint("eve", "till.*")
        assert (await tell(at, token, body("shop/Move@1"))).status_code == 202
        await ref.stop()
        for path, sent in (("/v1/tell", body("shop/Move@1")), ("/v1/ask", body("shop/Move@1")), ("/v1/stream", body("shop/Move@1"))):
            answer = await at.client.post(path, json=sent, headers={"Authorization": f"Bearer {token}"})
            error = error_of(answer)
            assert (answer.status_code, error["type"], error["begun"]) == (410, "ActorStopped", False)
        watched = await at.client.get("/v1/watch?path=/user/till", headers={"Authorization": f"Bearer {token}"})
        assert events_of(watched.text) == [("terminated", {"path": "/user/till", "reason": "stopped", "error": None})]
        assert (await at.client.post("/v1/tell", json=call("Note", "/user/never", text="x"))).status_code == 404
        await at.system.spawn(Till, [], name="till")
        assert (await tell(at, token, body("shop/Move@1"))).status_code == 202


async def test_one_message_is_described_or_is_told_to_be_missing_or_not_permitted(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as at:
        await at.system.spawn(Till, [], name="till")

        async def describe(token: str, query: str) -> httpx.Response:
            return await at.client.get(f"/v1/openapi.json?{query}", headers={"Authorization": f"Bearer {token}"})

        token = at.mint("eve", "till.*")
        found = await describe(token, "path=/user/till&message=shop/Move@1")
        assert list(found.json()["x-retinue-messages"]) == ["shop/Move@1"]
        denied = await describe(token, "path=/user/till&message=shop/Held@1")
        error = error_of(denied)
        assert (denied.status_code, error["operation"], error["path"], error["subject"]) == (403, "held.move", "/user/till", "eve")
        assert [entry.operation for entry in await at.system.audit.entries(allowed=False)] == ["held.move"]
        for query, status in (
            ("path=/user/till&message=shop/None@1", 404),
            ("path=/user/none&message=shop/Move@1", 404),
            ("message=shop/Move@1", 400),
        ):
            assert (await describe(token, query)).status_code == status
