"""Over HTTP: messages that are asked and streamed, and streams that are handed over."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

import retinue as rt
from gateway_shop import Open, error_of, events_of, open_shop
from talking_actors import Front, Say, Spell, Talker


async def talk(shop: Open, way: str, name: str, to: str = "/user/front", **body: object) -> httpx.Response:
    sent = {"to": to, "message": {"type": f"talking/{name}@1", "body": body}}
    return await shop.client.post(f"/v1/{way}", json=sent, headers={"Authorization": f"Bearer {shop.mint('ada', '**')}"})


async def spawn(shop: Open) -> None:
    inner = await shop.system.spawn(Talker, name="inner")
    await shop.system.spawn(Front, inner, name="front")


async def test_one_message_is_asked_and_streamed(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        await spawn(shop)
        for to in ("/user/front", "/user/inner"):
            assert (await talk(shop, "ask", "Say", to, text="hey")).json() == {"reply": "HEY"}
            answer = await talk(shop, "stream", "Say", to, text="hey")
            assert events_of(answer.text) == [("item", "h"), ("item", "e"), ("item", "y"), ("end", {})]
            assert events_of((await talk(shop, "stream", "Spell", to, text="x")).text) == [("item", "x"), ("end", {})]
            assert (await talk(shop, "ask", "Spell", to, text="x")).status_code == 404
        *_, (kind, data) = events_of((await talk(shop, "stream", "Say", text="a!b")).text)
        assert (kind, data["error"]["type"]) == ("error", "RemoteError")
        assert error_of(await talk(shop, "stream", "Heard"))["type"] == "Unhandled"


async def test_a_reader_that_leaves_ends_what_was_handed_over(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        await spawn(shop)
        inner = shop.system.registry.get("/user/inner")
        assert inner is not None
        sent = {"to": "/user/front", "message": {"type": "talking/Say@1", "body": {"text": "x" * 1_000, "pause": 0.05}}}
        headers = {"Authorization": f"Bearer {shop.mint('ada', '**')}"}
        async with shop.client.stream("POST", "/v1/stream", json=sent, headers=headers) as answer:
            async for part in answer.aiter_text():
                if "item" in part:
                    break
        await shop.until(lambda: inner._cell.actor.heard[-1:] == ["end"])  # type: ignore[union-attr]


async def test_the_description_has_both_answers(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        await spawn(shop)
        described = (
            await shop.client.get(
                "/v1/openapi.json", params={"path": "/user/front"}, headers={"Authorization": f"Bearer {shop.mint('ada', '**')}"}
            )
        ).json()
        say = described["x-retinue-messages"]["talking/Say@1"]
        assert (say["kind"], say["reply"], say["items"]) == ("request", {"type": "string"}, {"type": "string"})
        assert "items" not in described["x-retinue-messages"]["talking/Spell@1"]


async def test_the_client_streams_and_asks_it_too(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        await spawn(shop)
        async with rt.connect(shop.url, token=shop.mint("ada", "**")) as client:
            ref = client.ref("/user/front")
            assert await ref.ask(Say("hey")) == "HEY"
            async with ref.stream(Say("hey")) as items:
                assert [item async for item in items] == ["h", "e", "y"]
            async with ref.stream(Spell("hey")) as items:
                assert [item async for item in items] == ["h", "e", "y"]
            with pytest.raises(rt.Unhandled):
                await ref.ask(Spell("hey"))
