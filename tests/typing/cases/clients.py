"""Checked by mypy and pyright, never run: both must report an error on exactly the lines that end in `# error`."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import retinue as rt
from retinue import aio, sync


@rt.message(name="shop/Price@1")
class Price(rt.Request[int]):
    item: str


@rt.message(name="shop/Note@1")
class Note(rt.Message):
    text: str


@rt.message(name="shop/Words@1")
class Words(rt.Stream[str]):
    limit: int = 1


async def on_trio() -> None:
    async with rt.connect("http://127.0.0.1:8420", token="t") as client:
        assert_type(client, rt.Client)
        ref = client.ref("/user/shop")
        assert_type(ref, rt.RemoteRef)
        assert_type(await ref.ask(Price("tea")), int)
        assert_type(await ref.ask(Price("tea"), timeout=5, approvals=["a"]), int)
        assert_type(await ref.ask(Note("x")), object)
        assert_type(await ref.tell(Note("x")), rt.Receipt)
        assert_type(await ref.send(Note("x"), timeout=1), rt.Receipt)
        async with ref.stream(Words()) as words:
            async for word in words:
                assert_type(word, str)
        assert_type((await ref.watch().wait()).reason, rt.StopReason)
        assert_type(await client.approvals.approve("apr_x"), str)
        assert_type((await client.approvals.pending())[0], rt.ApprovalRequest)
        assert_type(client.narrow("shop.read"), rt.Client)
        wrong: str = await ref.ask(Price("tea"))  # error
        await ref.ask(5)  # error
        ref.stream(Price("tea"))  # error
        await ref.ask(Price("tea"), timeout="5")  # error
        print(wrong)


async def under_asyncio() -> None:
    async with aio.connect("http://127.0.0.1:8420", token=rt.TokenFile("token")) as client:
        assert_type(await client.ref("/user/shop").ask(Price("tea")), int)


def without_async() -> None:
    with sync.connect("http://127.0.0.1:8420", token=Path("token"), timeout=5.0) as client:
        ref = client.ref("/user/shop")
        assert_type(ref.ask(Price("tea")), int)
        assert_type(ref.tell(Note("x")), rt.Receipt)
        with ref.stream(Words()) as words:
            for word in words:
                assert_type(word, str)
        assert_type(client.approvals.wait("apr_x", timeout=5), str)
        wrong: str = ref.ask(Price("tea"))  # error
        print(wrong)
    sync.connect("http://127.0.0.1:8420")  # error
    sync.connect("http://127.0.0.1:8420", token=5)  # error
