"""A person's consent over the gateway: asked for, given, refused, changed and waited for, with all three clients."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import retinue as rt
from client_faces import Face
from client_impostor import Impostor, answer
from client_shop import Pay, RunningShop

SHOP = "/user/shop"
PERSON = ("approvals.approve", "approvals.read")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningShop]:
    with RunningShop(tmp_path_factory.mktemp("approvals")) as running:
        yield running


@pytest.fixture
def amount() -> int:
    """Another one for each test, as the desk asks the same question once."""
    return time.time_ns() % 10**9


async def required(client: Any, message: Pay) -> Any:
    with pytest.raises(rt.ApprovalRequired) as caught:
        await client.ref(SHOP).ask(message)
    assert caught.value.path == SHOP
    return caught.value.request


def both(face: Face, shop: RunningShop, test: Any) -> None:
    """Runs a test with the client of a script, and that of a person."""

    async def run() -> None:
        async with face.connect(shop.url, token=shop.token()) as ada:
            async with face.connect(shop.url, token=shop.token(*PERSON, subject="bob")) as bob:
                await test(ada, bob)

    face.run(run)


def test_what_needs_consent_is_done_once_it_is_there_and_only_once(face: Face, shop: RunningShop, amount: int) -> None:
    async def test(ada: Any, bob: Any) -> None:
        request = await required(ada, Pay("ACME", amount))
        assert request.arguments == {"to": "ACME", "amount": amount}
        assert request.id in {pending.id for pending in await bob.approvals.pending()}
        assert (await ada.approvals.get(request.id)).status == "pending"
        token = await bob.approvals.approve(request.id, note="fine")
        assert await ada.approvals.wait(request.id, timeout=5) == token
        with pytest.raises((rt.ApprovalRequired, rt.Denied)):
            await ada.ref(SHOP).ask(Pay("Eve", amount), approvals=[token])
        assert await ada.ref(SHOP).ask(Pay("ACME", amount), approvals=[token]) == f"paid {amount} to ACME"
        with pytest.raises((rt.ApprovalRequired, rt.Denied)):
            await ada.ref(SHOP).ask(Pay("ACME", amount), approvals=[token])

    both(face, shop, test)


def test_a_refusal_says_why(face: Face, shop: RunningShop, amount: int) -> None:
    async def test(ada: Any, bob: Any) -> None:
        request = await required(ada, Pay("ACME", amount))
        assert (await bob.approvals.reject(request.id, note="too much")).status == "rejected"
        with pytest.raises(rt.ApprovalError, match="too much") as caught:
            await ada.approvals.wait(request.id, timeout=5)
        assert caught.value.reason == "rejected"
        with pytest.raises(rt.ApprovalError) as again:
            await bob.approvals.approve(request.id)
        assert again.value.reason == "decided"
        other = await required(ada, Pay("Other", amount))
        assert (await bob.approvals.respond(other.id, "pay by card")).status == "rejected"
        with pytest.raises(rt.ApprovalError, match="pay by card"):
            await ada.approvals.wait(other.id, timeout=5)

    both(face, shop, test)


def test_a_changed_request_is_another_one(face: Face, shop: RunningShop, amount: int) -> None:
    async def test(ada: Any, bob: Any) -> None:
        request = await required(ada, Pay("ACME", amount))
        edited = await bob.approvals.edit(request.id, {"to": "ACME", "amount": 1})
        assert edited.edit_of == request.id
        assert edited.arguments == {"to": "ACME", "amount": 1}
        with pytest.raises(rt.ApprovalError, match=edited.id):
            await ada.approvals.wait(request.id, timeout=5)
        token = await bob.approvals.approve(edited.id)
        assert await ada.ref(SHOP).ask(Pay("ACME", 1), approvals=[token]) == "paid 1 to ACME"

    both(face, shop, test)


def test_nobody_decides_in_time(face: Face, shop: RunningShop, amount: int) -> None:
    async def test(ada: Any, bob: Any) -> None:
        request = await required(ada, Pay("ACME", amount))
        began = time.monotonic()
        with pytest.raises(rt.AskTimeout, match="still waits"):
            await ada.approvals.wait(request.id, timeout=0.3)
        assert 0.25 < time.monotonic() - began < 20
        assert request in await bob.approvals.find(status="pending")

    both(face, shop, test)


def test_who_may_not_decide_or_see_does_not(face: Face, shop: RunningShop, amount: int) -> None:
    async def test(ada: Any, bob: Any) -> None:
        request = await required(ada, Pay("ACME", amount))
        for call in (
            lambda: ada.approvals.approve(request.id),
            lambda: ada.approvals.reject(request.id),
            lambda: ada.approvals.pending(),
        ):
            with pytest.raises(rt.Denied):
                await call()
        await bob.approvals.approve(request.id)
        with pytest.raises(rt.ApprovalError, match="another subject"):
            await bob.approvals.wait(request.id, timeout=1)
        with pytest.raises(rt.ApprovalError) as unknown:
            await bob.approvals.get("apr_" + "a" * 26)
        assert unknown.value.reason == "unknown"
        for odd in ("", "../actors", "apr_1/approve", "a?b", "é", 5):
            with pytest.raises(rt.DefinitionError):
                await bob.approvals.get(odd)
        with pytest.raises(rt.DefinitionError):
            await bob.approvals.reject(request.id, note=5)

    both(face, shop, test)


def test_answers_about_approvals_that_are_none_are_malformed(face: Face) -> None:
    async def calls(client: Any) -> None:
        for call in (
            lambda: client.approvals.get("apr_1"),
            lambda: client.approvals.pending(),
            lambda: client.approvals.approve("apr_1"),
            lambda: client.approvals.reject("apr_1"),
        ):
            with pytest.raises(rt.GatewayError) as caught:
                await call()
            assert caught.value.reason == "malformed"

    for body in (
        b"{}",
        b"[]",
        b'{"request":{},"requests":[{}]}',
        b'{"request":null,"requests":{}}',
        b'{"request":{},"token":5,"requests":5}',
    ):
        with Impostor(answer(body)) as server:
            face.talk(server.url, calls, token="t")


def test_a_token_file_of_the_person_is_enough(face: Face, shop: RunningShop, amount: int, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(shop.token(*PERSON, subject="bob"), encoding="ascii")

    async def test(bob: Any) -> None:
        assert isinstance(await bob.approvals.find(), tuple)

    face.talk(shop.url, test, token=rt.TokenFile(path))
