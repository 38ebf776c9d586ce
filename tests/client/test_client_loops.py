"""What the loops bring along: cancelling, the wrong loop, several threads."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import retinue as rt
from client_faces import Face
from client_shop import Blob, Count, Price, RunningShop, Slow
from retinue import aio, sync
from retinue.client.bearer import Bearer

SHOP = "/user/shop"


async def cut_off(face: Face, seconds: float, function: Callable[[], Any]) -> None:
    """Cancels what a function awaits, after some seconds."""
    if face.name == "trio":
        with trio.move_on_after(seconds) as scope:
            await function()
        assert scope.cancelled_caught
    else:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await function()


@pytest.fixture(params=["trio", "asyncio"])
def loop(request: pytest.FixtureRequest) -> Face:
    return Face(request.param)


def test_a_cancelled_ask_cancels_its_handler_unless_it_is_detached(loop: Face, shared_shop: RunningShop) -> None:
    path = shared_shop.another()

    async def test(client: Any) -> None:
        ref = client.ref(path)
        await cut_off(loop, 0.2, lambda: ref.ask(Slow(60)))
        assert await ref.ask(Price("tea"), timeout=10) == 3
        await cut_off(loop, 0.2, lambda: ref.ask(Slow(0.8), detached=True))
        with pytest.raises(rt.AskTimeout):
            await ref.ask(Price("tea"), timeout=0.2)
        assert await ref.ask(Price("tea"), timeout=10) == 3

    loop.talk(shared_shop.url, test, token=shared_shop.token())


def test_a_cancelled_stream_is_left(loop: Face, shared_shop: RunningShop) -> None:
    path = shared_shop.another()

    async def test(client: Any) -> None:
        ref = client.ref(path)

        async def read() -> None:
            async with ref.stream(Count(10_000, pause=0.02)) as items:
                async for _ in items:
                    pass

        await cut_off(loop, 0.3, read)
        assert await ref.ask(Price("tea"), timeout=10) == 3

    loop.talk(shared_shop.url, test, token=shared_shop.token())


def test_two_tasks_cannot_read_one_stream(loop: Face, shared_shop: RunningShop) -> None:
    async def test(client: Any) -> None:
        async with client.ref(SHOP).stream(Count(5, pause=0.1)) as items:
            await items.__anext__()
            outcomes = await loop.together(items.__anext__, items.__anext__)
            assert {type(outcome).__name__ for outcome in outcomes} == {"Item", "DefinitionError"}
            assert len([item async for item in items]) == 3

    loop.talk(shared_shop.url, test, token=shared_shop.token())


def test_each_loop_has_a_connect_of_its_own_and_the_wrong_one_names_it() -> None:
    async def enter(client: Any) -> None:
        async with client:
            raise AssertionError

    with pytest.raises(rt.WrongEventLoop, match=r"retinue\.aio"):
        asyncio.run(enter(rt.connect("http://127.0.0.1:1", token="t")))
    with pytest.raises(rt.WrongEventLoop, match=r"retinue\.connect"):
        trio.run(enter, aio.connect("http://127.0.0.1:1", token="t"))
    coroutine = enter(rt.connect("http://127.0.0.1:1", token="t"))
    with pytest.raises(rt.WrongEventLoop, match=r"retinue\.sync"):
        coroutine.send(None)


def test_a_blocking_client_may_be_used_by_several_threads(shared_shop: RunningShop) -> None:
    failures: list[BaseException] = []
    with sync.connect(shared_shop.url, token=shared_shop.token()) as client:

        def work(number: int) -> None:
            try:
                for round_ in range(4):
                    assert len(client.ref(SHOP).ask(Blob(number * 4 + round_))) == number * 4 + round_
                    with client.ref(SHOP).stream(Count(3)) as items:
                        assert len(list(items)) == 3
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert failures == []


def test_the_twins_know_connect_and_nothing_that_they_do_not() -> None:
    for module in (sync, aio):
        assert "connect" in module.__all__
        with pytest.raises(AttributeError, match="conect"):
            _ = module.conect  # type: ignore[attr-defined]


def test_a_bearer_shows_nothing_and_goes_nowhere(tmp_path: Path) -> None:
    bearer = Bearer("secret-token-0123456789")
    assert "secret" not in f"{bearer!r}{bearer}"
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            attempt(bearer)
    assert str(tmp_path) in repr(Bearer(tmp_path / "token"))
    with pytest.raises(rt.DefinitionError):
        Bearer(5)  # type: ignore[arg-type]


def test_a_token_file_that_is_a_link_or_no_token_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    for content in (b"", b"two words", b"\xff", b"x" * 70_000):
        path.write_bytes(content)
        with pytest.raises((rt.TokenError, rt.KeyFileError)):
            rt.TokenFile(path).read()
    path.write_bytes(b"abc\n")
    assert rt.TokenFile(path).read() == "abc"
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(rt.KeyFileError, match="is a link"):
        rt.TokenFile(tmp_path / "link").read()
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    with pytest.raises(rt.KeyFileError, match="cannot be read"):
        rt.TokenFile(path).read()


def test_a_type_of_ones_own_can_be_taught(shared_shop: RunningShop) -> None:
    class Money:
        def __init__(self, cents: int) -> None:
            self.cents = cents

    @rt.message(name="client-loops/Spend@1")
    class Spend(rt.Request[int]):
        money: Money

    with sync.connect(shared_shop.url, token=shared_shop.token()) as client:
        with pytest.raises(rt.WireError, match="add_type"):
            client.ref(SHOP).ask(Spend(Money(5)))
        client.wire.add_type(Money, lambda money: money.cents, Money)
        with pytest.raises(rt.RetinueError) as caught:  # the shop takes no such message
            client.ref(SHOP).ask(Spend(Money(5)))
        assert "client-loops/Spend@1" in str(caught.value)
