"""What the gateway refuses by itself is in the audit before it is answered, and a flood of it is few records; rates."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import trio
import trio.testing

import retinue as rt
from gateway_shop import Price, call, error_of, open_shop
from retinue.errors import GatewayError, TokenError
from retinue.gateway.app import _retry_after
from retinue.gateway.rates import MOST_BUCKETS, Rates
from retinue.gateway.refusals import MOST_KINDS, Refusals
from retinue.remote import error_to_data
from retinue.security.audit import AuditLog


async def test_without_a_token_there_is_one_answer_for_everything_and_it_is_recorded(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        texts = set()
        for method, path in (
            ("GET", "/v1/actors"),
            ("POST", "/v1/actors"),
            ("GET", "/nothing"),
            ("DELETE", "/v1/ask"),
            ("HEAD", "/v1/watch"),
        ):
            for value in ("", "Bearer", "Bearer x", "Basic abc", f"Bearer {shop.token[:-2]}AA"):
                answer = await shop.client.request(method, path, headers={"Authorization": value})
                assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
                texts.add(answer.text)
        assert len(texts - {""}) == 1
        entries = await shop.system.audit.entries(allowed=False)
        assert {entry.reason for entry in entries} >= {"token"} and shop.begun == []


async def test_a_flood_is_one_record_a_second_and_nobody_is_forgotten_in_the_count() -> None:
    log = AuditLog()
    refusals = Refusals(log)
    error = TokenError("no", reason="mac")
    with trio.fail_after(30):
        began = trio.current_time()
        while trio.current_time() - began < 1.5:
            for _ in range(100):
                assert refusals.note(error) is error
            await trio.sleep(0.01)
    refusals.flush(everything=True)
    entries = log.entries()
    assert len(entries) <= 4 and sum(entry.count for entry in entries) == refusals.count >= 1000
    assert {(entry.kind, entry.allowed, entry.reason) for entry in entries} == {("decision", False, "token")}


async def test_kinds_are_told_apart_up_to_a_bound() -> None:
    log = AuditLog()
    refusals = Refusals(log)
    for number in range(MOST_KINDS + 50):
        refusals.note(GatewayError("no", reason=f"r{number % (MOST_KINDS + 20)}"))
    refusals.flush(everything=True)
    assert len(log.entries()) <= MOST_KINDS + 70 and sum(entry.count for entry in log.entries()) == MOST_KINDS + 50


async def test_what_cannot_be_recorded_is_refused_as_that(tmp_path: Path) -> None:
    log = AuditLog()
    refusals = Refusals(log)
    log.close()
    refused = refusals.note(GatewayError("no", reason="rate"))
    assert isinstance(refused, rt.AuditUnavailable) and isinstance(refused.__cause__, GatewayError)
    assert Refusals(None).note(refused) is refused


async def test_requests_beyond_the_rate_are_told_when_to_come_back_and_attenuated_tokens_share_it(tmp_path: Path) -> None:
    async with open_shop(tmp_path, rate=0.2, burst=3) as shop:
        narrowed = rt.attenuate(shop.token, ["shop.read"])
        bob = shop.mint("bob", "shop.read")
        codes = []
        for token in (shop.token, narrowed, rt.attenuate(narrowed, ["shop.*"]), shop.token, narrowed, bob):
            answer = await shop.client.post("/v1/ask", json=call("Price", item="tea"), headers={"Authorization": f"Bearer {token}"})
            codes.append(answer.status_code)
            if answer.status_code == 429:
                wait = int(answer.headers["retry-after"])
                assert error_of(answer)["reason"] == "rate" and 0 < error_of(answer)["retry_after"] <= wait <= 5
        assert codes == [200, 200, 200, 429, 429, 200]
        assert shop.begun == [Price("tea")] * 4
        await trio.sleep(wait)
        assert (await shop.ask("Price", item="tea")).status_code == 200
        entries = await shop.system.audit.entries(allowed=False)
        assert {entry.reason for entry in entries} == {"rate"} and sum(entry.count for entry in entries) == 2


def test_a_limit_of_a_run_does_not_ask_to_be_tried_again() -> None:
    errors: list[rt.RetinueError] = [
        rt.RunLimitReached("too much", limit="tokens"),
        rt.HandoffLimit("too far", limit="hops", way=("a", "b")),
    ]
    assert [error_to_data(error)[0] for error in errors] == [429, 429]
    assert [_retry_after(error) for error in errors] == [0, 0]
    assert [_retry_after(GatewayError("later", reason="rate", retry_after=seconds)) for seconds in (0.2, 4.01, None, math.inf)] == [
        1,
        5,
        1,
        1,
    ]


def test_a_bucket_fills_steadily_up_to_its_size() -> None:
    rates = Rates(10.0, 5)
    assert [rates.take("a", 0.0) == 0.0 for _ in range(7)] == [True] * 5 + [False] * 2
    assert rates.take("a", 0.0) == pytest.approx(0.1)
    assert rates.take("a", 0.05) == pytest.approx(0.05)
    assert rates.take("b", 0.0) == 0.0
    assert rates.take("a", 0.1) == 0.0 and rates.take("a", 0.1) > 0
    assert [rates.take("a", 1000.0) == 0.0 for _ in range(6)] == [True] * 5 + [False]
    for number in range(MOST_BUCKETS + 10):
        rates.take(str(number), 1000.0)
    assert len(rates._buckets) == MOST_BUCKETS


async def test_hosts_and_origins_are_those_that_were_given(tmp_path: Path) -> None:
    async with open_shop(tmp_path, hosts=["shop.example", "127.0.0.1"], origins=["http://127.0.0.1:3000"]) as shop:
        for headers, code in (
            ({"Host": "shop.example"}, 200),
            ({"Host": "SHOP.example:1234"}, 200),
            ({"Host": "localhost"}, 421),
            ({"Host": "shop.example."}, 421),
            ({"Host": "shop.example@evil"}, 421),
            ({"Origin": "http://127.0.0.1:3000"}, 200),
            ({"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "cross-site"}, 200),
            ({"Origin": "http://127.0.0.1:3001"}, 421),
            ({"Origin": "null"}, 421),
            ({"Sec-Fetch-Site": "cross-site"}, 421),
            ({"Sec-Fetch-Site": "same-origin"}, 200),
        ):
            answer = await shop.client.post("/v1/ask", json=call("Price", item="tea"), headers=headers)
            assert answer.status_code == code, headers


def test_what_costs_more_is_owed_and_no_more_than_a_bucket_holds() -> None:
    rates = Rates(10.0, 5)
    assert rates.take("a", 0.0) == 0.0
    rates.owe("a", 0.0, 9.0)
    assert rates.take("a", 0.0) == pytest.approx(0.6)
    assert rates.take("a", 0.5) > 0 and rates.take("a", 0.6001) == 0.0
    rates.owe("a", 0.6, 1_000.0)
    assert rates.take("a", 0.7) == pytest.approx(0.5, abs=0.01)
    assert rates.take("b", 0.7) == 0.0
    Rates(math.inf, 5).owe("a", 0.0, 9.0)


async def test_denials_by_the_gate_count_more_since_each_is_a_record(tmp_path: Path) -> None:
    async with open_shop(tmp_path, permissions=("shop.read",), rate=0.001, burst=30) as shop:
        assert [(await shop.ask("Private")).status_code for _ in range(4)] == [403, 403, 403, 429]
        bob = {"Authorization": f"Bearer {shop.mint('bob', 'shop.read')}"}
        told = [(await shop.client.get("/v1/actors", headers=bob)).status_code for _ in range(4)]
        assert told == [403, 403, 403, 429], "a list that is denied counts as both"
        records = [entry for entry in await shop.system.audit.entries(allowed=False) if entry.reason != "rate"]
        assert sum(entry.count for entry in records) == 6


async def test_lists_count_more(tmp_path: Path) -> None:
    async with open_shop(tmp_path, permissions=("**",), rate=0.001, burst=11) as shop:
        codes = [(await shop.client.get(path)).status_code for path in ("/v1/openapi.json", "/v1/actors", "/v1/approvals", "/v1/actors")]
        assert codes == [200, 200, 200, 429]
