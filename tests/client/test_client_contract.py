"""What all three clients do, against a real gateway on a real socket."""

from __future__ import annotations

import datetime as dt
import math
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio

import retinue as rt
from client_faces import Face
from client_shop import Blob, Count, Fail, Halt, Item, Letter, Note, Notes, Pay, Price, RunningShop, Secret, Slow, Swap
from retinue.actors.runtime.watch import StopReason

SHOP = "/user/shop"


def talk(face: Face, shop: RunningShop, test: Any, *, token: Any = None, **options: Any) -> Any:
    return face.talk(shop.url, test, token=shop.token() if token is None else token, **options)


# Asks


def test_an_ask_is_answered_with_the_type_that_the_request_promises(face: Face, shared_shop: RunningShop) -> None:
    at = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
    tea = Item("tea", Decimal("3.50"), ("hot", "green"))

    async def test(client: Any) -> None:
        assert await client.ref(SHOP).ask(Price("tea")) == 3
        assert await client.ref(SHOP).ask(Swap(at, b"\x00\xff", tea)) == (at, b"\x00\xff", tea)
        assert await client.ref(SHOP).ask(Swap(at, b"", None)) == (at, b"", None)

    talk(face, shared_shop, test)


def test_many_asks_at_one_time_each_get_their_own_answer(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        ref = client.ref(SHOP)
        answers = await face.together(*(lambda size=size: ref.ask(Blob(size)) for size in range(40)))
        assert [len(answer) for answer in answers] == list(range(40))

    talk(face, shared_shop, test)


def test_what_the_gate_refuses_comes_back_as_it_was_raised(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        with pytest.raises(rt.Denied) as caught:
            await client.ref(SHOP).ask(Secret())
        denied = caught.value
        assert type(denied) is rt.Denied
        assert (denied.operation, denied.path, denied.subject, denied.reason) == ("shop.secret", SHOP, "ada", "permission")

    talk(face, shared_shop, test)


def test_a_handlers_errors_come_back_with_no_more_text_than_was_meant_for_others(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        ref = client.ref(SHOP)
        with pytest.raises(rt.Reject, match="not today"):
            await ref.ask(Fail("reject"))
        with pytest.raises(rt.RemoteError, match="no tea left") as declared:
            await ref.ask(Fail("declared"))
        assert declared.value.type == "SoldOut"
        with pytest.raises(rt.RemoteError) as hidden:
            await ref.ask(Fail("failed"))
        assert hidden.value.type == "ValueError"
        assert "1234" not in str(hidden.value)
        with pytest.raises(rt.RemoteError, match="another gateway"):
            await ref.ask(Fail("nested"))

    talk(face, shared_shop, test)


def test_the_systems_time_out_is_the_askers(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        began = time.monotonic()
        with pytest.raises(rt.AskTimeout) as caught:
            await client.ref(SHOP).ask(Slow(30), timeout=0.2)
        assert 0.15 < time.monotonic() - began < 20
        assert caught.value.path == SHOP
        assert caught.value.begun is True

    talk(face, shared_shop, test)


def test_the_clients_own_time_out_counts_where_neither_the_call_nor_the_message_says(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        with pytest.raises(rt.AskTimeout):
            await client.ref(SHOP).ask(Slow(30))

    talk(face, shared_shop, test, timeout=0.2)


def test_where_no_actor_is_nothing_was_delivered(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        with pytest.raises(rt.GatewayError) as caught:
            await client.ref("/user/nobody").ask(Price("tea"))
        assert (caught.value.reason, caught.value.status, caught.value.delivered) == ("not_found", 404, False)

    talk(face, shared_shop, test)


def test_what_cannot_be_sent_is_refused_before_anything_is(face: Face, shared_shop: RunningShop) -> None:
    @rt.message
    class Local(rt.Request[int]):
        pass

    async def test(client: Any) -> None:
        ref = client.ref(SHOP)
        for wrong in (5, Price, b"Price"):
            with pytest.raises(rt.Unhandled):
                await ref.ask(wrong)
        with pytest.raises(rt.Unhandled, match="stream"):
            await ref.ask(Count(3))
        with pytest.raises(rt.Unhandled, match="no Stream"):
            ref.stream(Price("tea"))
        with pytest.raises(rt.DefinitionError, match="timeout"):
            await ref.ask(Price("tea"), timeout=-1)
        with pytest.raises(rt.DefinitionError, match=r"approvals=\[token\]"):
            await ref.ask(Price("tea"), approvals="rta1.token")
        with pytest.raises(rt.DefinitionError, match="window"):
            ref.stream(Count(3), window=0)
        for path in ("", "user/shop", "/user/a b", "/user/\ud800", 5):
            with pytest.raises(rt.DefinitionError, match="path"):
                client.ref(path)
        for send in (lambda: ref.ask(Local()), lambda: ref.tell(Local())):
            with pytest.raises(rt.WireError, match="Local has no wire name") as caught:
                await send()
            assert caught.value.problem == "unknown_type"

    talk(face, shared_shop, test)


# Tokens


def test_without_a_true_token_nothing_is_answered(face: Face, shared_shop: RunningShop) -> None:
    token = shared_shop.token()

    async def test(client: Any) -> None:
        with pytest.raises(rt.TokenError):
            await client.ref(SHOP).ask(Price("tea"))
        with pytest.raises(rt.TokenError):
            async with client.ref(SHOP).stream(Count(3)):
                raise AssertionError
        with pytest.raises(rt.TokenError):
            await client.actors()

    expired = shared_shop.token(seconds=0.001)
    time.sleep(0.01)
    for wrong in ("nonsense", token[:-2] + ("AA" if not token.endswith("AA") else "BB"), expired):
        talk(face, shared_shop, test, token=wrong)


@pytest.mark.parametrize("token", ["", "  ", "two words", "line\nbreak", "x" * 70_000, "é"])
def test_what_can_be_no_token_is_refused_at_once_and_not_quoted(face: Face, token: str) -> None:
    with pytest.raises(rt.TokenError) as caught:
        face.connect("http://127.0.0.1:1", token=token)
    assert not token.strip() or token not in str(caught.value)


def test_a_token_in_a_file_is_looked_at_each_time(face: Face, shared_shop: RunningShop, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(shared_shop.token("shop.other") + "\n", encoding="ascii")

    async def test(client: Any) -> None:
        with pytest.raises(rt.Denied):
            await client.ref(SHOP).ask(Price("tea"))
        path.write_text(shared_shop.token(), encoding="ascii")
        assert await client.ref(SHOP).ask(Price("tea")) == 3
        path.chmod(0o644)
        with pytest.raises(rt.KeyFileError, match="chmod 600"):
            await client.ref(SHOP).ask(Price("tea"))
        path.unlink()
        with pytest.raises(rt.KeyFileError, match="token mint"):
            await client.ref(SHOP).ask(Price("tea"))

    for token in (rt.TokenFile(path), path):
        path.touch(mode=0o600)
        path.chmod(0o600)
        path.write_text(shared_shop.token("shop.other") + "\n", encoding="ascii")
        talk(face, shared_shop, test, token=token)


def test_the_token_is_in_no_text(face: Face, shared_shop: RunningShop, caplog: pytest.LogCaptureFixture) -> None:
    token = shared_shop.token()
    texts = []
    caplog.set_level(0)

    async def test(client: Any) -> None:
        ref = client.ref(SHOP)
        texts.extend([repr(client), repr(ref), repr(client.narrow("shop.read")), repr(ref.stream(Count(1))), str(ref)])
        for message in (Secret(), Fail("failed")):
            try:
                await ref.ask(message)
            except rt.RetinueError as error:
                texts.extend([str(error), repr(error), repr(vars(error))])

    talk(face, shared_shop, test, token=token)
    assert len(texts) == 11
    texts += [record.getMessage() for record in caplog.records]
    assert not any(token[:40] in text for text in texts)


def test_a_client_can_be_narrowed_without_a_key_and_cannot_be_widened(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        narrow = client.narrow(rt.where("shop.read", item=rt.one_of("tea")))
        assert await narrow.ref(SHOP).ask(Price("tea")) == 3
        with pytest.raises(rt.Denied, match="one_of"):
            await narrow.ref(SHOP).ask(Price("milk"))
        with pytest.raises(rt.Denied):
            await client.narrow("shop.secret").ref(SHOP).ask(Secret())

    talk(face, shared_shop, test)


# Tells


def test_a_tell_gives_a_receipt(face: Face, shared_shop: RunningShop) -> None:
    path = shared_shop.another()

    async def test(client: Any) -> None:
        ref = client.ref(path)
        receipt = await ref.tell(Note("one"))
        assert receipt
        assert receipt.reason is None
        assert await ref.send(Note("two"))
        assert await ref.ask(Notes()) == ["one", "two"]
        assert await ref.ask(Note("three")) is None

    talk(face, shared_shop, test)


def test_a_full_mailbox_is_told(face: Face, shared_shop: RunningShop) -> None:
    path = shared_shop.box()

    async def test(client: Any) -> None:
        box = client.ref(path)
        receipts = [await box.tell(Letter(str(number))) for number in range(4)]
        assert [bool(receipt) for receipt in receipts[-2:]] == [False, False]
        assert receipts[-1].reason == "mailbox_full"
        with pytest.raises(rt.MailboxFull):
            await box.send(Letter("late"), timeout=0.1)

    talk(face, shared_shop, test)


# Streams


def test_a_stream_gives_its_items_and_ends(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        async with client.ref(SHOP).stream(Count(100), window=3) as items:
            assert [item.name async for item in items] == [str(number) for number in range(100)]
            assert [item async for item in items] == []  # an end stays one

    talk(face, shared_shop, test)


def test_a_stream_that_fails_gives_what_came_before_and_then_the_error_each_time(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        got = []
        async with client.ref(SHOP).stream(Count(3, fail=True)) as items:
            for _ in range(2):
                with pytest.raises(rt.RemoteError, match="no more") as caught:
                    async for item in items:
                        got.append(item.name)
                assert caught.value.type == "SoldOut"
        assert got == ["0", "1", "2"]

    talk(face, shared_shop, test)


def test_leaving_a_stream_early_ends_its_handler_and_the_client_goes_on(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        ref = client.ref(SHOP)
        async with ref.stream(Count(1000, pause=0.01)) as items:
            async for item in items:
                if item.name == "2":
                    break
        assert await ref.ask(Price("tea"), timeout=10) == 3  # the actor streams no longer
        with pytest.raises(rt.StreamClosed, match="not open"):
            await items.__anext__()

    talk(face, shared_shop, test)


def test_a_refused_stream_raises_at_its_beginning(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        with pytest.raises(rt.Denied):
            async with client.ref(SHOP).stream(Count(3)) as items:
                raise AssertionError([item async for item in items])

    talk(face, shared_shop, test, token=shared_shop.token("shop.other"))


def test_a_stream_is_entered_once_and_read_inside_its_block(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        items = client.ref(SHOP).stream(Count(1))
        with pytest.raises(rt.StreamClosed, match="inside its block"):
            await items.__anext__()
        async with items:
            with pytest.raises(rt.DefinitionError, match="entered before"):
                await items.__aenter__()
            assert (await items.__anext__()).name == "0"

    talk(face, shared_shop, test)


def test_a_stream_keeps_to_its_time_out(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        with pytest.raises(rt.AskTimeout):
            async with client.ref(SHOP).stream(Count(1000, pause=0.05), timeout=0.3) as items:
                async for _ in items:
                    pass

    talk(face, shared_shop, test)


def test_several_streams_at_one_time(face: Face, shared_shop: RunningShop) -> None:
    paths = [shared_shop.another() for _ in range(5)]

    async def test(client: Any) -> None:
        async def read(number: int) -> int:
            async with client.ref(paths[number]).stream(Count(20, pause=0.005)) as items:
                return len([item async for item in items])

        assert await face.together(*(lambda number=number: read(number) for number in range(5))) == [20] * 5

    talk(face, shared_shop, test)


# Watches, and looking at the system


def test_a_watch_tells_of_the_end(face: Face, shared_shop: RunningShop) -> None:
    path = shared_shop.another()

    async def test(client: Any) -> None:
        ref = client.ref(path)
        async with ref.watch() as watch:
            assert watch.terminated is None
            await ref.tell(Halt())
            terminated = await watch.wait()
            assert (terminated.path, terminated.reason, terminated.error) == (path, StopReason.STOPPED, None)
            assert await watch.wait() is terminated is watch.terminated
        assert (await ref.watch().wait(timeout=5)).reason is StopReason.STOPPED, "one that was seen here is known for a while"
        with pytest.raises(rt.GatewayError) as caught:
            await client.ref("/user/never").watch().wait()
        assert caught.value.reason == "not_found"

    talk(face, shared_shop, test)


def test_a_watch_can_be_given_up_and_taken_up_again(face: Face, shared_shop: RunningShop) -> None:
    path = shared_shop.another()

    async def test(client: Any) -> None:
        ref = client.ref(path)
        for watch in (ref.watch(), ref.watch()):
            began = time.monotonic()
            with pytest.raises(rt.AskTimeout, match="has not ended within 0.2 s"):
                await watch.wait(timeout=0.2)
            assert 0.15 < time.monotonic() - began < 20
        async with ref.watch() as watch:
            for seconds in (0, 0.1, 0.2):
                with pytest.raises(rt.AskTimeout):
                    await watch.wait(timeout=seconds)
            assert watch.terminated is None
            await ref.tell(Halt())  # nothing is missed between two waits
            assert (await watch.wait(timeout=10)).reason is StopReason.STOPPED
            assert (await watch.wait(timeout=0)).path == path
        for wrong in (-1, math.nan, "1", True):
            with pytest.raises(rt.DefinitionError):
                await ref.watch().wait(timeout=wrong)

    talk(face, shared_shop, test)
    assert not shared_shop.gateway.streams or shared_shop.call(_closed, shared_shop)


async def _closed(shop: RunningShop) -> bool:
    with trio.move_on_after(5):
        while shop.gateway.streams:
            await trio.sleep(0.01)
    return shop.gateway.streams == 0


def test_a_tell_raises_what_is_certain_to_be_refused(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        ref = client.ref(SHOP)
        with pytest.raises(rt.Denied, match=r"shop\.secret"):
            await ref.tell(Secret())
        with pytest.raises(rt.Denied):
            await ref.send(Secret(), timeout=1)
        with pytest.raises(rt.ApprovalRequired) as caught:
            await ref.tell(Pay("ACME", 77))
        assert dict(caught.value.request.arguments) == {"to": "ACME", "amount": 77}

    talk(face, shared_shop, test)


def test_the_actors_are_listed_to_who_may_inspect(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        found = {actor.path: actor for actor in await client.actors()}
        assert {SHOP, "/user/box"} <= set(found)
        assert found[SHOP].cls == "Shop"
        assert "client-shop/Price@1" in found[SHOP].messages
        assert found[SHOP].depth == 0

    async def refused(client: Any) -> None:
        with pytest.raises(rt.Denied, match=r"system\.inspect"):
            await client.actors()

    talk(face, shared_shop, test, token=shared_shop.token("shop.*", "system.inspect"))
    talk(face, shared_shop, refused)


def test_the_messages_are_described(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        described = (await client.describe())["x-retinue-messages"]["client-shop/Price@1"]
        assert described["kind"] == "request"
        assert described["schema"]["properties"]["item"] == {"type": "string"}
        assert described["reply"] == {"type": "integer"}

    talk(face, shared_shop, test)


# Ends


def test_where_no_gateway_is_nothing_was_delivered(face: Face, own_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        ref = client.ref(SHOP)
        assert await ref.ask(Price("tea")) == 3
        own_shop.close_gateway()
        with pytest.raises(rt.GatewayError) as caught:
            await ref.ask(Price("tea"))
        assert (caught.value.reason, caught.value.delivered, caught.value.status) == ("unreachable", False, None)
        assert "retinue serve" in str(caught.value)

    talk(face, own_shop, test)


def test_a_stream_that_is_open_while_the_gateway_closes_says_so(face: Face, own_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        async with client.ref(SHOP).stream(Count(1000, pause=0.05)) as items:
            await items.__anext__()
            own_shop.close_gateway()
            with pytest.raises((rt.SystemClosed, rt.StreamClosed)):
                async for _ in items:
                    pass

    talk(face, own_shop, test)


def test_a_client_is_used_inside_its_block_and_once(face: Face, shared_shop: RunningShop) -> None:
    client = face.connect(shared_shop.url, token=shared_shop.token())

    async def test() -> None:
        with pytest.raises(rt.DefinitionError, match="inside its block"):
            await client.ref(SHOP).ask(Price("tea"))
        async with client:
            assert await client.ref(SHOP).ask(Price("tea")) == 3
        with pytest.raises(rt.DefinitionError, match="inside its block"):
            await client.ref(SHOP).ask(Price("tea"))
        with pytest.raises(rt.DefinitionError, match="in use already"):
            await client.__aenter__()

    face.run(test)


def test_an_answer_beyond_the_limit_is_not_read_and_the_client_goes_on(face: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        ref = client.ref(SHOP)
        with pytest.raises(rt.GatewayError) as caught:
            await ref.ask(Blob(200_000))
        assert caught.value.reason == "too_large"
        assert "max_answer" in str(caught.value)
        assert await ref.ask(Price("tea")) == 3

    talk(face, shared_shop, test, max_answer=1000)


def test_the_environment_names_no_proxy(face: Face, shared_shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    async def test(client: Any) -> None:
        assert await client.ref(SHOP).ask(Price("tea")) == 3

    talk(face, shared_shop, test)


def test_refs_are_equal_where_they_are_the_same(shared_shop: RunningShop) -> None:
    client = rt.connect(shared_shop.url, token="t")
    assert client.ref(SHOP) == client.ref(SHOP)
    assert hash(client.ref(SHOP)) == hash(client.ref(SHOP))
    assert client.ref(SHOP) != client.ref("/user/box")
    assert client.ref(SHOP) != rt.connect(shared_shop.url, token="t").ref(SHOP)
    assert client.ref(SHOP) != SHOP
    assert client.url == shared_shop.url
