"""Consent over HTTP: an ask is told what a person has to decide, a person with a token of their own decides, and the ask is made again with the approval."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

import retinue as rt
from gateway_shop import Open, error_of, open_shop
from retinue.security.typed_data import arguments_to_text


@rt.message(name="bank/Pay@1")
class Pay(rt.Request[str]):
    to: str
    amount: int


@rt.message(name="bank/Drip@1")
class Drip(rt.Stream[int]):
    amount: int


class Bank(rt.Actor):
    def __init__(self, paid: list[object]) -> None:
        self.paid = paid

    @rt.handler(requires="payments.send", approval=True)
    async def pay(self, message: Pay) -> str:
        self.paid.append(message)
        return f"paid {message.amount} to {message.to}"

    @rt.handler(requires="payments.drip", approval=True)
    async def drip(self, message: Drip) -> AsyncIterator[int]:
        self.paid.append(message)
        for _ in range(message.amount):
            yield 1


class Desk:
    """Ada, who pays; Bob, who may consent; Eve, who may pay and consent to nothing."""

    def __init__(self, shop: Open, paid: list[object]) -> None:
        self.paid = paid
        self.shop = shop
        self.tokens = {
            "ada": shop.mint("ada", "payments.*"),
            "bob": shop.mint("bob", "approvals.*"),
            "eve": shop.mint("eve", "payments.*"),
            "carl": shop.mint("carl", "approvals.read"),
        }

    async def post(self, who: str, path: str, body: dict[str, Any]) -> httpx.Response:
        return await self.shop.client.post(path, json=body, headers={"Authorization": f"Bearer {self.tokens[who]}"})

    async def get(self, who: str, path: str) -> httpx.Response:
        return await self.shop.client.get(path, headers={"Authorization": f"Bearer {self.tokens[who]}"})

    async def pay(self, who: str, amount: int = 40, *approvals: str) -> httpx.Response:
        message = {"type": "bank/Pay@1", "body": {"to": "ACME", "amount": amount}}
        return await self.post(who, "/v1/ask", {"to": "/user/bank", "message": message, "approvals": list(approvals)})

    async def asked(self, who: str = "ada", amount: int = 40) -> str:
        """Asks, is told to wait for a person, and returns the request's id."""
        refused = await self.pay(who, amount)
        error = error_of(refused)
        assert (refused.status_code, error["type"], error["operation"]) == (428, "ApprovalRequired", "payments.send")
        [request] = error["requests"]
        return str(request["id"])


@asynccontextmanager
async def desk(folder: Path) -> AsyncIterator[Desk]:
    async with open_shop(folder) as shop:
        paid: list[object] = []
        await shop.system.spawn(Bank, paid, name="bank")
        yield Desk(shop, paid)


async def test_a_payment_waits_for_a_person_and_is_made_once(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        request = await at.asked()
        assert [one["id"] for one in (await at.get("bob", "/v1/approvals")).json()["requests"]] == [request]
        assert (await at.get("ada", f"/v1/approvals/{request}")).json()["request"]["status"] == "pending"
        approved = await at.post("bob", f"/v1/approvals/{request}/approve", {"note": "fine", "expires_seconds": 60})
        assert approved.status_code == 200 and approved.json()["request"]["status"] == "approved"
        own = (await at.get("ada", f"/v1/approvals/{request}")).json()["request"]
        assert own["token"] == approved.json()["token"] and (own["reviewer"], own["reviewer_asserted"], own["note"]) == (
            "bob",
            False,
            "fine",
        )
        token = own["token"]
        assert (await at.pay("ada", 41, token)).status_code in (403, 428) and (await at.pay("eve", 40, token)).status_code in (403, 428)
        assert at.paid == []
        assert (await at.pay("ada", 40, token)).json() == {"reply": "paid 40 to ACME"}
        assert (await at.pay("ada", 40, token)).status_code in (403, 428)
        assert at.paid == [Pay("ACME", 40)]


async def test_nobody_decides_or_reads_without_the_operation(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        request = await at.asked()
        for who in ("ada", "eve", "carl"):
            for verdict, body in (
                ("approve", {}),
                ("reject", {}),
                ("respond", {"text": "no"}),
                ("edit", {"arguments": arguments_to_text({"amount": 1})}),
            ):
                refused = await at.post(who, f"/v1/approvals/{request}/{verdict}", body)
                assert (refused.status_code, error_of(refused)["operation"]) == (403, "approvals.approve")
        assert (await at.get("eve", "/v1/approvals")).status_code == 403
        assert (await at.get("eve", f"/v1/approvals/{request}")).status_code == 403
        unknown = "apr_" + "a" * 26
        assert (await at.get("eve", f"/v1/approvals/{unknown}")).status_code == 403, "not even whether there is one"
        assert (await at.get("bob", f"/v1/approvals/{unknown}")).status_code == 404
        assert (await at.post("bob", f"/v1/approvals/{unknown}/approve", {})).status_code == 404
        assert (await at.post("eve", f"/v1/approvals/{unknown}/approve", {})).status_code == 403
        assert (await at.get("carl", f"/v1/approvals/{request}")).json()["request"]["token"] is None
        assert (await at.get("ada", f"/v1/approvals/{request}")).json()["request"]["status"] == "pending" and at.paid == []


async def test_a_consent_can_be_narrowed_to_what_it_may_be_about(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        only = at.shop.system.authority.mint("dora", ["approvals.approve"]).narrow(
            rt.where("approvals.approve", operation=rt.one_of("mail.send"))
        )
        at.tokens["dora"] = at.shop.sealer.seal(only)
        request = await at.asked()
        refused = await at.post("dora", f"/v1/approvals/{request}/approve", {})
        assert (refused.status_code, error_of(refused)["reason"]) == (403, "arguments")


async def test_a_rejection_a_response_and_an_edit_are_told_to_whoever_asked(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        for verdict, body in (("reject", {"note": "too much"}), ("respond", {"text": "too much"})):
            request = await at.asked()
            assert (await at.post("bob", f"/v1/approvals/{request}/{verdict}", body)).json()["request"]["status"] == "rejected"
            own = (await at.get("ada", f"/v1/approvals/{request}")).json()["request"]
            assert (own["status"], own["note"]) == ("rejected", "too much")
            again = await at.post("bob", f"/v1/approvals/{request}/approve", {})
            assert (again.status_code, error_of(again)["reason"]) == (409, "decided")
        request = await at.asked()
        edited = await at.post("bob", f"/v1/approvals/{request}/edit", {"arguments": arguments_to_text({"amount": 4})})
        new = edited.json()["request"]
        assert new["edit_of"] == request and new["status"] == "pending"
        assert (await at.get("ada", f"/v1/approvals/{request}")).json()["request"]["edited_to"] == new["id"]
        token = (await at.post("bob", f"/v1/approvals/{new['id']}/approve", {})).json()["token"]
        assert (await at.pay("ada", 40, token)).status_code in (403, 428)
        assert (await at.pay("ada", 4, token)).status_code == 200 and at.paid == [Pay("ACME", 4)]


async def test_a_decision_of_which_nothing_need_be_said_needs_no_body(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        headers = {"Authorization": f"Bearer {at.tokens['bob']}"}
        for verdict, status in (("approve", "approved"), ("reject", "rejected")):
            request = await at.asked(amount=len(verdict))
            answer = await at.shop.client.post(f"/v1/approvals/{request}/{verdict}", headers=headers)
            assert (answer.status_code, answer.json()["request"]["status"]) == (200, status), answer.text
        request = await at.asked()
        for verdict in ("respond", "edit"):
            answer = await at.shop.client.post(f"/v1/approvals/{request}/{verdict}", headers=headers)
            assert answer.status_code == 415
        for content in (b"x", b"{"):
            answer = await at.shop.client.post(f"/v1/approvals/{request}/approve", headers=headers, content=content)
            assert answer.status_code == 415, "a body that is sent is read"


async def test_a_request_is_read_without_any_knowledge_of_how_it_is_stored(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        request = await at.asked()
        shown = error_of(await at.pay("ada"))["requests"][0]
        listed = (await at.get("bob", "/v1/approvals")).json()["requests"][0]
        own = (await at.get("ada", f"/v1/approvals/{request}")).json()["request"]
        assert shown == listed == own
        assert {name: own[name] for name in ("id", "status", "operation", "subject", "tenant", "session", "audience", "message_type")} == {
            "id": request,
            "status": "pending",
            "operation": "payments.send",
            "subject": "ada",
            "tenant": None,
            "session": None,
            "audience": "/user/bank",
            "message_type": "bank/Pay@1",
        }
        assert own["arguments"] == {"to": "ACME", "amount": 40}
        assert own["shown"] == ['to = "ACME"', "amount = 40"]


async def test_what_is_no_decision_is_refused(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        request = await at.asked()
        for verdict, body in (
            ("approve", {"expires_seconds": 3601}),
            ("approve", {"expires_seconds": "1"}),
            ("approve", {"reviewer": "ada"}),
            ("respond", {}),
            ("edit", {}),
            ("edit", {"arguments": {"amount": "4"}}),
            ("edit", {"arguments": {"amount": 4.5}}),
            ("edit", {"arguments": {"amount": None}}),
            ("edit", {"arguments": {"nothing": 4}}),
            ("edit", {"arguments": {}}),
            ("edit", {"arguments": ["amount", 4]}),
            ("edit", {"arguments": "{"}),
            ("edit", {"arguments": arguments_to_text({"nothing": 4})}),
            ("edit", {"arguments": arguments_to_text({"amount": "much"})}),
        ):
            answer = await at.post("bob", f"/v1/approvals/{request}/{verdict}", body)
            assert answer.status_code == 422, (verdict, body, answer.text)
        assert (await at.get("bob", "/v1/approvals?status=open")).status_code == 422
        assert len((await at.get("bob", "/v1/approvals?status=all")).json()["requests"]) == 1


async def test_a_stream_waits_for_a_person_too(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        body: dict[str, Any] = {"to": "/user/bank", "message": {"type": "bank/Drip@1", "body": {"amount": 2}}}
        refused = await at.post("ada", "/v1/stream", body)
        [request] = error_of(refused)["requests"]
        token = (await at.post("bob", f"/v1/approvals/{request['id']}/approve", {})).json()["token"]
        answer = await at.post("ada", "/v1/stream", {**body, "approvals": [token]})
        assert answer.text.count("event: item") == 2 and answer.text.rstrip().endswith("event: end\ndata: {}")
        assert at.paid == [Drip(2)]
