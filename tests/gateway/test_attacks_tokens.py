"""Who holds one genuine token and makes many of it: it takes its own share and nobody else's, and is counted before anything that it made is read."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import trio

import retinue as rt
import retinue.gateway.guard
import retinue.security.seal
from gateway_raw import Target, ask_body, attacked
from gateway_shop import events_of, open_shop
from retinue.gateway.bounds import Bounds
from retinue.gateway.guard import LOOPBACK, Guard
from retinue.gateway.visit import Headers
from retinue.security.accounts import AccountTable
from retinue.security.limits import Limits
from retinue.security.seal import attenuate
from sealed import Bench

BODY = ask_body()


def tower(token: str, blocks: int, first: int = 10**6) -> str:
    """The token attenuated so many times, with a lower limit each time: an account each."""
    for number in range(blocks):
        token = attenuate(token, rt.limit(calls=first - number))
    return token


def long(token: str, number: int) -> str:
    """A token that takes long to be read for the first time, other for each number."""
    for block in range(12):
        token = attenuate(
            token, *[rt.where(f"shop.x{block}", a=rt.one_of(*[f"{index}{more}" for more in range(3)])) for index in range(14)]
        )
    return attenuate(token, rt.where("shop.y", a=rt.one_of(str(number))))


async def answer(target: Target, token: str) -> tuple[int, str]:
    reply = await target.once(target.post("/v1/ask", BODY, token=token))
    assert reply is not None
    return reply.status, reply.error.get("reason", "") if reply.status >= 400 else ""


# -- accounts ------------------------------------------------------------------------------------------------------------------------------------------


async def test_limits_of_one_token_take_no_room_from_others(tmp_path):
    async with attacked(tmp_path) as target:
        target.system.authority._token_accounts._most_of_root = 40
        for number in range(3):
            told = await answer(target, tower(target.token, 20, 10**6 - 40 * number))
            assert told == ((200, "") if number < 2 else (429, "rate"))
        mine = target.system.authority.mint("bob", ["probe.*"]).narrow(rt.limit(calls=5))
        assert await answer(target, target.sealer.seal(mine)) == (200, "")
        assert await answer(target, tower(target.sealer.seal(target.system.authority.mint("carol", ["probe.*"])), 20)) == (200, "")
        assert await answer(target, target.token) == (200, ""), "without limits of its own it is as it was"


async def test_a_full_table_is_no_fault_of_the_token(tmp_path):
    async with attacked(tmp_path) as target:
        target.system.authority._token_accounts._most = 3
        assert await answer(target, tower(target.token, 3)) == (200, "")
        assert await answer(target, tower(target.token, 1, 50)) == (503, "rate")
        with pytest.raises(rt.TokenError) as caught:
            target.sealer.unseal(tower(target.token, 1, 50))
        assert caught.value.reason == "full"


async def test_what_is_beyond_the_rate_makes_no_account_and_is_not_read(tmp_path, monkeypatch):
    async with attacked(tmp_path, rate=0.001, burst=1) as target:
        bob = target.sealer.seal(target.system.authority.mint("bob", ["probe.*"]))
        assert await answer(target, bob) == (200, "")
        before = target.system.authority.statistics()
        with monkeypatch.context() as patch:
            patch.setattr(retinue.security.seal, "content_of", lambda frame: pytest.fail("it was read"))
            for number in range(20):
                assert await answer(target, tower(bob, 31, 10**6 - 40 * number)) == (429, "rate")
        assert target.system.authority.statistics() == before
        async with target.client() as client:  # the target's own look at the end is another token's, and counted by itself
            await client.send(target.post("/v1/ask", BODY, token=bob))
            reply = await client.reply()
            assert reply is not None and reply.status == 429
        target.gateway._guard._rates._rate = math.inf


def test_expired_accounts_of_a_root_make_room_for_its_own():
    now = [1_000]
    table = AccountTable(lambda: now[0], most=10, most_of_root=2)
    table.account("a", (), Limits(calls=1, deadline_ms=2_000), "x")
    table.account("b", (), Limits(calls=1, deadline_ms=3_000), "x")
    with pytest.raises(rt.TokenError) as caught:
        table.account("c", (), Limits(calls=1), "x")
    assert caught.value.reason == "too_many"
    table.account("c", (), Limits(calls=1, deadline_ms=2_000), "y")
    now[0] = 2_000
    table.account("d", (), Limits(calls=1), "x")
    assert set(table._accounts) == {"b", "d"} | ({"c"} & set(table._accounts))
    with pytest.raises(rt.TokenError):
        table.account("e", (), Limits(calls=1), "x")
    assert table.account("d", (), Limits(calls=9), "x").caps.calls == 1


# -- what a first opening counts as --------------------------------------------------------------------------------------------------------------------


async def test_a_long_token_counts_as_many_requests_once():
    bench = Bench()
    guard = Guard(bench.sealer, LOOPBACK, (), Bounds(rate=0.001, burst=30))
    token = long(bench.sealer.seal(bench.authority.mint("ada", ["**"])), 0)
    first = 1 + len(token) // retinue.gateway.guard.CHARACTERS
    assert 10 < first < 30
    headers = Headers([(b"authorization", b"Bearer " + token.encode("ascii"))])
    known: list[Any] = []
    for _ in range(1 + 30 - first):
        guard.caller(headers, known.append)
    assert len(known) == 30 - first and {caller.context.subject for caller in known} == {"ada"}
    with pytest.raises(rt.GatewayError) as caught:
        guard.caller(headers, known.append)
    assert caught.value.reason == "rate"
    assert guard.caller(headers).token_id == known[0].token_id, "a look at an open stream's token is not counted"


async def test_even_a_token_that_counts_for_more_than_a_bucket_is_let_in_when_the_bucket_is_full():
    bench = Bench()
    guard = Guard(bench.sealer, LOOPBACK, (), Bounds(rate=0.001, burst=2))
    token = long(bench.sealer.seal(bench.authority.mint("ada", ["**"])), 0)
    headers = Headers([(b"authorization", b"Bearer " + token.encode("ascii"))])
    assert guard.caller(headers, lambda caller: None).context.subject == "ada"


async def test_a_token_that_is_not_genuine_counts_for_nobody():
    bench = Bench()
    guard = Guard(bench.sealer, LOOPBACK, (), Bounds(rate=0.001, burst=1))
    token = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    forged = token[:-43] + "A" * 43
    for _ in range(5):
        with pytest.raises(rt.TokenError):
            guard.caller(Headers([(b"authorization", b"Bearer " + forged.encode("ascii"))]), lambda caller: None)
    guard.caller(Headers([(b"authorization", b"Bearer " + token.encode("ascii"))]), lambda caller: None)


# -- what is remembered --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "value"), [("KEPT_OF_ROOT", 3), ("KEPT_CHARACTERS", 1_300)])
def test_opened_tokens_of_one_root_put_out_their_own_and_nobody_elses(monkeypatch, name, value):
    monkeypatch.setattr(retinue.security.seal, name, value)
    bench = Bench()
    bob = bench.sealer.seal(bench.authority.mint("bob", ["**"]))
    bench.sealer.unseal(bob)
    ada = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    many = [attenuate(ada, rt.deny(f"x{number}")) for number in range(20)]
    for token in many:
        bench.sealer.unseal(token)
    told: list[bool] = []
    bench.sealer.unseal(bob, admit=lambda root, context: told.append(context is not None))
    assert told == [True]
    assert 2 <= len(bench.sealer._opened) <= 5
    bench.sealer.unseal(many[-1], admit=lambda root, context: told.append(context is not None))
    bench.sealer.unseal(many[0], admit=lambda root, context: told.append(context is not None))
    assert told == [True, True, False]
    bench.sealer.revoke_token(ada)
    assert len(bench.sealer._opened) == 1 and len(bench.sealer._roots) == 1
    with pytest.raises(rt.TokenError):
        bench.sealer.unseal(many[0])


def test_whoever_refuses_a_token_before_it_is_read_is_told_its_root():
    bench = Bench()
    ada = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    roots: list[str] = []

    class Enough(Exception):
        pass

    def admit(root: str, context: object) -> None:
        roots.append(root)
        assert context is None
        raise Enough

    for token in (ada, attenuate(ada, "x"), tower(ada, 5), bench.sealer.seal(bench.authority.mint("ada", ["**"]))):
        with pytest.raises(Enough):
            bench.sealer.unseal(token, admit=admit)
    assert roots[0] == roots[1] == roots[2] != roots[3]
    assert len(bench.sealer._opened) == 0 and bench.authority.statistics().token_accounts == 0


# -- watching ------------------------------------------------------------------------------------------------------------------------------------------


@rt.message(name="vault/Break@1")
class Break(rt.Message):
    pass


class Vault(rt.Actor):
    @rt.handler(requires="vault.break")
    def break_(self, message: Break) -> None:
        raise rt.StoreUnavailable("cannot open /srv/secret/hunter2.db", reason="failed")


async def test_only_who_may_send_it_something_or_look_into_the_system_watches_an_actor(tmp_path):
    async with open_shop(tmp_path) as shop:
        told = {}

        async def watch(who: str, token: str) -> None:
            answer = await shop.client.get("/v1/watch?path=/user/vault", headers={"Authorization": f"Bearer {token}"})
            told[who] = answer.status_code, answer.text

        vault = await shop.system.spawn(Vault, name="vault", supervision=rt.Supervision(restart="temporary"))
        async with trio.open_nursery() as nursery:
            for who, operations in {"stranger": ["shop.*"], "holder": ["vault.*"], "inspector": ["system.inspect"], "both": ["**"]}.items():
                nursery.start_soon(watch, who, shop.mint(who, *operations))
            await shop.until(lambda: shop.gateway.streams == 3 and "stranger" in told)
            vault.tell(Break())
        status, text = told.pop("stranger")
        assert status == 403 and json.loads(text)["error"]["operation"] == "system.inspect"
        for who, (status, text) in told.items():
            [(event, data)] = events_of(text)
            assert (status, event, data["reason"]) == (200, "terminated", "failed"), (who, data)
            assert ("hunter2" in data["error"]["message"]) is (who != "holder"), (who, data)
            assert "StoreUnavailable" in json.dumps(data["error"])
