"""Every endpoint with every kind of token that is not good enough: no actor is touched, nothing is decided, the answer says as much as it should, and the audit has it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import retinue as rt
from gateway_raw import Reply, Target, ask_body, attacked, case
from retinue.security.keys import KeyRing
from retinue.security.seal import Sealer
from retinue.security.typed_data import arguments_to_text

REQUEST = "{id}"
"""Stands for the id of a request that waits for a decision."""


def _call(type_: str, **fields: object) -> bytes:
    return json.dumps({"to": "/user/probe", "message": {"type": type_, "body": fields}}).encode()


GOOD: dict[tuple[str, str], tuple[str, bytes | None]] = {
    ("POST", "/v1/ask"): ("/v1/ask", ask_body()),
    ("POST", "/v1/tell"): ("/v1/tell", _call("probe/Poke@1", what="x")),
    ("POST", "/v1/stream"): ("/v1/stream", _call("probe/Count@1", to=2)),
    ("GET", "/v1/watch"): ("/v1/watch?path=/user/mayfly", None),
    ("GET", "/v1/actors"): ("/v1/actors", None),
    ("GET", "/v1/openapi.json"): ("/v1/openapi.json", None),
    ("GET", "/v1/approvals"): ("/v1/approvals", None),
    ("GET", "/v1/approvals/{id}"): (f"/v1/approvals/{REQUEST}", None),
    ("POST", "/v1/approvals/{id}/approve"): (f"/v1/approvals/{REQUEST}/approve", b'{"note":"yes"}'),
    ("POST", "/v1/approvals/{id}/reject"): (f"/v1/approvals/{REQUEST}/reject", b"{}"),
    ("POST", "/v1/approvals/{id}/respond"): (f"/v1/approvals/{REQUEST}/respond", b'{"text":"no"}'),
    ("POST", "/v1/approvals/{id}/edit"): (
        f"/v1/approvals/{REQUEST}/edit",
        json.dumps({"arguments": arguments_to_text({"cents": 5})}).encode(),
    ),
}
"""A request for each endpoint that a good token gets answered."""


async def send(target: Target, endpoint: tuple[str, str], token: str | None, request_id: str) -> Reply:
    path, body = GOOD[endpoint]
    path = path.replace(REQUEST, request_id)
    reply = await target.once(target.get(path, token=token) if body is None else target.post(path, body, token=token))
    assert reply is not None
    return reply


def revoked(target: Target) -> str:
    token = target.sealer.seal(target.system.authority.mint("ada", ["**"]))
    target.sealer.revoke_token(token)
    return token


def revoked_root(target: Target) -> str:
    token = target.sealer.seal(target.system.authority.mint("ada", ["**"]))
    narrower = rt.attenuate(token, rt.allow("probe.*"))
    target.sealer.revoke_token(token)
    return narrower


def last_changed(target: Target) -> str:
    """The last character holds bits that a MAC of 32 bytes has no use for: a reader that ignores them would take two texts for one."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet.index(target.token[-1])
    return target.token[:-1] + alphabet[last ^ 1]


def wider(target: Target) -> str:
    """Blocks of one token with the MAC of another."""
    return ".".join([*target.token.split(".")[:-1], target.sealer.seal(target.system.authority.mint("ada", ["**"])).split(".")[-1]])


def shorter(target: Target) -> str:
    """An attenuated token without its last block, with its MAC."""
    parts = rt.attenuate(target.token, rt.allow("probe.none")).split(".")
    return ".".join([*parts[:-2], parts[-1]])


def foreign(target: Target) -> str:
    return Sealer(target.system.authority, KeyRing.generate()).seal(target.system.authority.mint("ada", ["**"]))


def of_the_same_name(target: Target) -> str:
    """Sealed with another key, which says that it is ours."""
    parts = foreign(target).split(".")
    parts[1] = target.token.split(".")[1]
    return ".".join(parts)


def for_another(target: Target) -> str:
    return target.sealer.seal(target.system.authority.mint("ada", ["**"]), audience="another")


NO_TOKEN: dict[str, Callable[[Target], str | None]] = {
    "none": lambda _: None,
    "nonsense": lambda _: "nonsense",
    "a word too many": lambda target: f"{target.token} x",
    "the last character changed": last_changed,
    "cut": lambda target: target.token[:-1],
    "longer": lambda target: f"{target.token}A",
    "very long": lambda _: "rt1." + "A" * 65_000,
    "with the MAC of another": wider,
    "a block less": shorter,
    "of a foreign key": foreign,
    "of a foreign key with our name": of_the_same_name,
    "revoked": revoked,
    "narrowed from a revoked one": revoked_root,
    "for another": for_another,
    "an approval": lambda _: "rta1.e30.AAAA",
    "a key": lambda target: json.loads((Path(str(target.system.data_dir)) / "tokens.key").read_text(encoding="utf-8"))["keys"][0]["secret"],
}
"""What is no token here (the expired one has a test of its own)."""

TOLD = {"revoked", "narrowed from a revoked one", "for another"}
"""Kinds whose holder is told what is wrong: the token is genuine."""


@rt.message(name="mayfly/Pay@1")
class Pay(rt.Request[int]):
    cents: int


class Mayfly(rt.Actor):
    """Asks for consent, and is what is watched."""

    @rt.handler(requires="probe.pay", approval=True)
    def pay(self, message: Pay) -> int:
        raise AssertionError("nobody has consented")


async def waiting(target: Target, cents: int = 1) -> str:
    """A request that waits for a decision."""
    body = {"to": "/user/mayfly", "message": {"type": "mayfly/Pay@1", "body": {"cents": cents}}}
    reply = await target.once(target.post("/v1/ask", json.dumps(body).encode()))
    assert reply is not None and reply.status == 428, reply
    return str(reply.error["requests"][0]["id"])


async def refused(target: Target) -> int:
    """How many refusals the audit has."""
    target.gateway.refusals.flush(everything=True)
    return sum(entry.count for entry in await target.system.audit.entries(allowed=False) if entry.reason != "approval_required")


def endpoints(target: Target) -> list[tuple[str, str]]:
    """Every endpoint that the gateway has."""
    routes: list[Any] = list(target.gateway._router.routes)
    return [(method, route.path) for route in routes for method in sorted(route.methods)]


class TestMatrix:
    async def test_the_table_has_every_endpoint_and_a_good_token_is_answered_by_each(self, tmp_path):
        async with attacked(tmp_path) as target:
            assert set(endpoints(target)) == set(GOOD)
            for number, endpoint in enumerate(GOOD):
                mayfly = await target.system.spawn(Mayfly, name="mayfly")
                request_id = await waiting(target, 100 + number)
                if endpoint == ("GET", "/v1/watch"):
                    async with target.client() as client:
                        await client.send(target.get(GOOD[endpoint][0]))
                        data = await client.stream.receive_some(4096)
                        assert data.startswith(b"HTTP/1.1 200 ")
                else:
                    reply = await send(target, endpoint, "", request_id)
                    assert reply.status in (200, 202), (endpoint, reply)
                await mayfly.stop()

    async def test_what_is_no_token_gets_no_further_than_that(self, tmp_path):
        async with attacked(tmp_path) as target:
            await target.system.spawn(Mayfly, name="mayfly")
            request_id = await waiting(target)
            sent, before, tries = target.system.statistics().sent, await refused(target), 0
            answers = set()
            for kind, make in NO_TOKEN.items():
                token = make(target)
                for endpoint in endpoints(target):
                    with case((kind, endpoint), target):
                        reply = await send(target, endpoint, token, request_id)
                        tries += 1
                        assert reply.status == 401 and reply.error["type"] == "TokenError", reply
                        assert reply.headers["www-authenticate"] == "Bearer"
                        if kind not in TOLD:
                            answers.add(reply.body)
            assert len(answers) == 1, "how a token fails is told to who has no genuine one"
            assert target.system.statistics().sent == sent
            assert await refused(target) == before + tries
            assert [request.id for request in await target.system.approvals.pending()] == [request_id]
            assert await target.system.audit.verify() > 0
            records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text(encoding="utf-8").splitlines()]
            assert sum(record["count"] for record in records if record["reason"] == "token" and not record["allowed"]) == tries

    async def test_an_expired_token_gets_no_further_than_that(self, tmp_path):
        async with attacked(tmp_path) as target:
            await target.system.spawn(Mayfly, name="mayfly")
            request_id = await waiting(target)
            token = target.sealer.seal(target.system.authority.mint("ada", ["**"]), expires_seconds=60)
            sent, before, tries = target.system.statistics().sent, await refused(target), 0
            target.system.authority._clock._clock = lambda: time.time_ns() // 10**6 + 61_000
            for endpoint in endpoints(target):
                with case(endpoint, target):
                    reply = await send(target, endpoint, token, request_id)
                    tries += 1
                    assert reply.status == 401 and reply.error["reason"] == "expired", reply
            assert target.system.statistics().sent == sent
            assert await refused(target) == before + tries
            assert (await target.system.approvals.get(request_id)).status == "pending"

    async def test_a_path_or_a_method_that_is_not_there_is_no_answer_to_who_has_no_token(self, tmp_path):
        async with attacked(tmp_path) as target:
            known = await target.once(target.get("/v1/actors", token=None))
            assert known is not None
            for request in (
                target.get("/v1/nowhere", token=None),
                target.get("/", token=None),
                target.get("/v1/ask", token=None),
                target.post("/v1/actors", b"{}", token=None),
                target.post("/v1/ask", ask_body(), token=None),
                target.post("/v1/ask", ask_body(to="/user/nobody"), token=None),
                target.post("/v1/ask", b"no json", token=None),
                target.get("/v1/approvals/apr_none", token=None),
            ):
                reply = await target.once(request)
                assert reply is not None and (reply.status, reply.body) == (401, known.body), reply


NOTHING = {
    "narrowed to nothing": lambda target: rt.attenuate(target.token, rt.allow()),
    "minted for nothing": lambda target: target.sealer.seal(target.system.authority.mint("ada", [])),
}

ELSEWHERE = {
    "narrowed to another operation": lambda target: rt.attenuate(target.token, rt.allow("another.thing")),
    "minted for another operation": lambda target: target.sealer.seal(target.system.authority.mint("ada", ["another.thing"])),
    "all denied": lambda target: rt.attenuate(target.token, rt.deny("**")),
}

HARMLESS = {("GET", "/v1/openapi.json"), ("GET", "/v1/watch")}
"""What a token gets whatever it permits, if only it permits something: a description of what it may reach, and word of an actor's end."""


@pytest.mark.parametrize("kind", NOTHING)
async def test_a_token_that_permits_nothing_gets_nothing(kind, tmp_path):
    async with attacked(tmp_path) as target:
        await target.system.spawn(Mayfly, name="mayfly")
        request_id = await waiting(target)
        sent, before, tries = target.system.statistics().sent, await refused(target), 0
        token = NOTHING[kind](target)
        for endpoint in endpoints(target):
            with case(endpoint, target):
                reply = await send(target, endpoint, token, request_id)
                tries += 1
                assert reply.status == 403 and reply.error["type"] == "Denied", reply
        assert target.system.statistics().sent == sent
        assert await refused(target) == before + tries
        assert (await target.system.approvals.get(request_id)).status == "pending"


@pytest.mark.parametrize("kind", ELSEWHERE)
async def test_a_token_for_something_else_gets_nothing_that_needs_permission(kind, tmp_path):
    async with attacked(tmp_path) as target:
        await target.system.spawn(Mayfly, name="mayfly")
        request_id = await waiting(target)
        before, tries = await refused(target), 0
        token = ELSEWHERE[kind](target)
        for endpoint in endpoints(target):
            if endpoint in HARMLESS:
                continue
            with case(endpoint, target):
                reply = await send(target, endpoint, token, request_id)
                tries += 1
                assert reply.status == 403 and reply.error["type"] == "Denied", reply
        reply = await send(target, ("GET", "/v1/openapi.json"), token, request_id)
        assert reply.status in (200, 403)
        if reply.status == 200:
            assert reply.json()["x-retinue-messages"] == {} and "probe" not in reply.body.decode()
        assert await refused(target) >= before + tries
        assert (await target.system.approvals.get(request_id)).status == "pending"
