"""Whose requests somebody sees over HTTP, how many at a time, and in which form they are edited."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

import retinue as rt
from gateway_shop import Open, error_of, open_shop
from retinue.gateway import approving


@attrs.frozen
class Payee:
    name: str
    accounts: tuple[str, ...] = ()


@rt.message(name="books/Pay@1")
class Pay(rt.Request[str]):
    amount: Decimal
    at: dt.datetime
    proof: bytes
    payee: Payee
    tags: frozenset[str] = frozenset()
    rate: float = 1.0
    note: str | None = None


@rt.message(name="books/Mail@1")
class Mail(rt.Request[str]):
    to: str


class Books(rt.Actor):
    def __init__(self, done: list[object]) -> None:
        self.done = done

    @rt.handler(requires="books.pay", approval=True)
    def pay(self, message: Pay) -> str:
        self.done.append(message)
        return "paid"

    @rt.handler(requires="books.mail", approval=True)
    def mail(self, message: Mail) -> str:
        self.done.append(message)
        return "sent"


NOON = "2026-11-30T12:00:00+00:00"
PAY: dict[str, Any] = {"amount": "40.00", "at": NOON, "proof": "AP8=", "payee": {"name": "ACME", "accounts": ["1"]}, "tags": ["a"]}


@attrs.define(eq=False)
class Desk:
    shop: Open
    done: list[object]

    def mint(self, subject: str, *permissions: Any, tenant: str | None = None) -> str:
        return self.shop.sealer.seal(self.shop.system.authority.mint(subject, list(permissions), tenant=tenant))

    async def post(self, token: str, path: str, body: dict[str, Any]) -> httpx.Response:
        return await self.shop.client.post(path, json=body, headers={"Authorization": f"Bearer {token}"})

    async def get(self, token: str, path: str) -> httpx.Response:
        return await self.shop.client.get(path, headers={"Authorization": f"Bearer {token}"})

    async def ask(self, token: str, name: str, body: dict[str, Any], *approvals: str) -> httpx.Response:
        message = {"type": f"books/{name}@1", "body": body}
        return await self.post(token, "/v1/ask", {"to": "/user/books", "message": message, "approvals": list(approvals)})

    async def asked(self, token: str, name: str = "Mail", **body: Any) -> str:
        refused = await self.ask(token, name, body)
        assert refused.status_code == 428, refused.text
        return str(error_of(refused)["requests"][0]["id"])

    async def listed(self, token: str, query: str = "") -> list[str]:
        """The ids of all pages."""
        found: list[str] = []
        after = ""
        while True:
            answer = (await self.get(token, f"/v1/approvals?{query}&after={after}")).json()
            found += [one["id"] for one in answer["requests"]]
            if answer["more"] is None:
                return found
            after = answer["more"]


@asynccontextmanager
async def desk(folder: Path) -> AsyncIterator[Desk]:
    async with open_shop(folder) as shop:
        done: list[object] = []
        await shop.system.spawn(Books, done, name="books")
        yield Desk(shop, done)


# How many


async def test_a_list_comes_in_pages_oldest_first_and_says_that_there_is_more(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        ada, bob = at.mint("ada", "books.*"), at.mint("bob", "approvals.*")
        made = [await at.asked(ada, to=str(number)) for number in range(23)]
        first = (await at.get(bob, "/v1/approvals?limit=10")).json()
        assert [one["id"] for one in first["requests"]] == made[:10] and first["more"] == made[9]
        last = (await at.get(bob, f"/v1/approvals?limit=10&after={made[19]}")).json()
        assert [one["id"] for one in last["requests"]] == made[20:] and last["more"] is None
        assert (await at.get(bob, f"/v1/approvals?after={made[-1]}")).json() == {"requests": [], "more": None}
        for limit in (1, 7, 23, 50):
            assert await at.listed(bob, f"limit={limit}") == made
        for query in ("limit=0", "limit=1001", "limit=-1", "limit=x", "limit=1&limit=2", "after=apr_x", "after=x", "status=open"):
            assert (await at.get(bob, f"/v1/approvals?{query}")).status_code in (400, 422), query


async def test_a_page_of_long_arguments_ends_early(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        flood, carol, bob = at.mint("eve", "books.*"), at.mint("carol", "books.*"), at.mint("bob", "approvals.*")
        first = await at.asked(carol, to="first")
        made = [await at.asked(flood, to=f"{number}{'x' * 60_000}") for number in range(12)]
        last = await at.asked(carol, to="last")
        answer = await at.get(bob, "/v1/approvals")
        page = answer.json()
        assert page["more"] == made[4] and len(answer.content) < 4 * approving.PAGE_BYTES
        assert await at.listed(bob) == [first, *made, last]
        assert await at.listed(bob, "subject=carol") == [first, last]


async def test_a_list_can_be_asked_for_a_part(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        tokens = {(who, tenant): at.mint(who, "books.*", tenant=tenant) for who in ("ada", "eve") for tenant in (None, "acme")}
        made = {}
        for (who, tenant), token in tokens.items():
            made[who, tenant, "books.mail"] = await at.asked(token, to="x")
            made[who, tenant, "books.pay"] = await at.asked(token, "Pay", **PAY)
        bob = at.mint("bob", "approvals.*")
        for query, wanted in (
            ("subject=ada", lambda key: key[0] == "ada"),
            ("tenant=acme", lambda key: key[1] == "acme"),
            ("operation=books.pay", lambda key: key[2] == "books.pay"),
            ("operation=books.pay&subject=eve&tenant=acme", lambda key: key == ("eve", "acme", "books.pay")),
            ("status=approved", lambda key: False),
            ("status=all", lambda key: True),
        ):
            assert set(await at.listed(bob, query)) == {one for key, one in made.items() if wanted(key)}, query


# Whose


async def test_a_reviewer_of_a_tenant_sees_and_decides_what_is_of_that_tenant(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        acme = await at.asked(at.mint("ada", "books.*", tenant="acme"), to="x")
        other = await at.asked(at.mint("ada", "books.*", tenant="other"), to="x")
        none = await at.asked(at.mint("ada", "books.*"), to="x")
        bob, root = at.mint("bob", "approvals.*", tenant="acme"), at.mint("root", "approvals.*")
        assert await at.listed(bob) == [acme] and await at.listed(root) == [acme, other, none]
        assert await at.listed(bob, "tenant=other") == []
        for one in (other, none):
            assert (await at.get(bob, f"/v1/approvals/{one}")).status_code == 404
            for verdict, body in (("approve", {}), ("reject", {}), ("respond", {"text": "x"}), ("edit", {"arguments": {"to": "y"}})):
                assert (await at.post(bob, f"/v1/approvals/{one}/{verdict}", body)).status_code == 404
        assert len(await at.listed(root)) == 3
        assert (await at.get(bob, f"/v1/approvals/{acme}")).status_code == 200
        assert (await at.post(bob, f"/v1/approvals/{acme}/approve", {})).status_code == 200


async def test_reading_can_be_narrowed_to_what_the_requests_are_about(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        ada = at.mint("ada", "books.*")
        mail, pay = await at.asked(ada, to="x"), await at.asked(ada, "Pay", **PAY)
        for where in (
            rt.where("approvals.read", operation=rt.one_of("books.pay")),
            rt.where("approvals.read", id=rt.one_of(pay)),
        ):
            carl = at.mint("carl", "approvals.read", where)
            before = len(await at.shop.system.audit.entries(allowed=False))
            assert await at.listed(carl) == [pay]
            assert (await at.get(carl, f"/v1/approvals/{pay}")).status_code == 200
            assert len(await at.shop.system.audit.entries(allowed=False)) == before
            assert (await at.get(carl, f"/v1/approvals/{mail}")).status_code == 403
            assert (await at.get(carl, f"/v1/approvals/apr_{'a' * 26}")).status_code == 403
        assert await at.listed(at.mint("carl", "approvals.read", rt.where("approvals.read", subject=rt.one_of("eve")))) == []


async def test_the_approval_is_not_told_to_a_token_that_could_not_use_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        ada, bob = at.mint("ada", "books.*"), at.mint("bob", "approvals.*")
        request = await at.asked(ada, to="ACME")
        await at.post(bob, f"/v1/approvals/{request}/approve", {})
        assert (await at.get(ada, f"/v1/approvals/{request}")).json()["request"]["token"] is not None
        for restriction, status in (
            (rt.where("books.mail", to=rt.one_of("EVE")), 403),
            (rt.deny("books.mail"), 403),
            (rt.where("books.mail", to=rt.one_of("ACME", "EVE")), 200),
            (rt.needs_approval("books.mail"), 200),
        ):
            narrowed = await at.get(rt.attenuate(ada, restriction), f"/v1/approvals/{request}")
            assert narrowed.status_code == status, restriction


@pytest.mark.parametrize("path", ["", "/", "/x", f"/{'a' * 10_000}", "/apr_", f"/apr_{'1' * 26}", f"/apr_{'a' * 27}", f"/apr_{'a' * 26}"])
async def test_what_is_no_id_is_no_request(tmp_path: Path, path: str) -> None:
    async with desk(tmp_path) as at:
        bob = at.mint("bob", "approvals.*")
        if path:
            assert (await at.get(bob, f"/v1/approvals{path}")).status_code == 404
        for verdict in ("approve", "reject"):
            assert (await at.post(bob, f"/v1/approvals{path}/{verdict}", {})).status_code in (404, 405)


# Edits


EDITS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"amount": "1.50"}, {"amount": Decimal("1.50")}),
    ({"at": "2027-01-01T00:00:00Z"}, {"at": dt.datetime(2027, 1, 1, tzinfo=dt.UTC)}),
    ({"proof": "AAE="}, {"proof": b"\0\1"}),
    ({"payee": {"name": "EVE", "accounts": []}}, {"payee": Payee("EVE")}),
    ({"payee": {"name": "EVE"}}, None),
    ({"tags": ["b", "c"]}, {"tags": frozenset({"b", "c"})}),
    ({"rate": 2}, {"rate": 2.0}),
    ({"note": "hi"}, {"note": "hi"}),
    ({"note": "hi", "amount": "2"}, {"note": "hi", "amount": Decimal(2)}),
]


@pytest.mark.parametrize(("sent", "meant"), EDITS, ids=lambda value: "+".join(value) if isinstance(value, dict) else "")
async def test_an_edit_is_plain_json_and_becomes_what_the_message_has(
    tmp_path: Path, sent: dict[str, Any], meant: dict[str, Any] | None
) -> None:
    async with desk(tmp_path) as at:
        ada, bob = at.mint("ada", "books.*"), at.mint("bob", "approvals.*")
        request = await at.asked(ada, "Pay", **PAY)
        edited = await at.post(bob, f"/v1/approvals/{request}/edit", {"arguments": sent})
        assert edited.status_code == 200, edited.text
        new = edited.json()["request"]
        approval = (await at.post(bob, f"/v1/approvals/{new['id']}/approve", {})).json()["token"]
        paid = await at.ask(ada, "Pay", {**PAY, **sent}, approval)
        assert paid.json() == {"reply": "paid"}, paid.text
        original = Pay(Decimal("40.00"), dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC), b"\0\xff", Payee("ACME", ("1",)), frozenset({"a"}))
        if meant is not None:
            assert at.done == [attrs.evolve(original, **meant)]
        assert all(new["arguments"][name] == value for name, value in sent.items() if name not in ("at", "tags", "payee"))


async def test_the_arguments_that_are_shown_can_be_sent_back_changed(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        ada, bob = at.mint("ada", "books.*"), at.mint("bob", "approvals.*")
        request = await at.asked(ada, "Pay", **PAY)
        shown = (await at.get(bob, f"/v1/approvals/{request}")).json()["request"]["arguments"]
        assert shown == {
            "amount": "40.00",
            "at": NOON,
            "proof": base64.b64encode(b"\0\xff").decode(),
            "payee": {"name": "ACME", "accounts": ["1"]},
            "tags": ["a"],
            "rate": 1.0,
            "note": None,
        }
        unchanged = await at.post(bob, f"/v1/approvals/{request}/edit", {"arguments": shown})
        assert (unchanged.status_code, error_of(unchanged)["reason"]) == (422, "arguments"), "nothing would change"
        edited = await at.post(bob, f"/v1/approvals/{request}/edit", {"arguments": {**shown, "note": "less"}})
        assert edited.status_code == 200 and edited.json()["request"]["arguments"] == {**shown, "note": "less"}
