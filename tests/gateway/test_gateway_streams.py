"""Streams and watches over HTTP: every one has a last event, and nothing goes on for a reader that has gone."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
import trio

import retinue as rt
from gateway_shop import Open, call, error_of, events_of, open_shop


async def whole(shop: Open, name: str, /, *, more: dict[str, object] | None = None, **body: object) -> httpx.Response:
    return await shop.client.post("/v1/stream", json=call(name, more=more, **body))


async def test_a_stream_is_its_items_and_an_end(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        answer = await whole(shop, "Count", to=3)
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8" and answer.headers["cache-control"] == "no-store"
        assert events_of(answer.text) == [("item", 0), ("item", 1), ("item", 2), ("end", {})]
        assert events_of((await whole(shop, "Count", to=0)).text) == [("end", {})]
        assert shop.gateway.streams == 0


async def test_what_refuses_a_stream_before_its_first_item_is_an_answer_with_a_status(tmp_path: Path) -> None:
    async with open_shop(tmp_path, permissions=("shop.write",)) as shop:
        answer = await whole(shop, "Count", to=3)
        assert (answer.status_code, error_of(answer)["type"]) == (403, "Denied")
        assert (await whole(shop, "Price", item="tea")).status_code == 404
        assert shop.begun == [] and shop.gateway.streams == 0


async def test_an_error_after_items_is_the_last_event(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        *items, (kind, data) = events_of((await whole(shop, "Count", to=2, breaks=True)).text)
        assert items == [("item", 0), ("item", 1)] and kind == "error"
        assert (data["error"]["type"], data["error"]["raised"]) == ("RemoteError", "ValueError") and "secret" not in str(data)
        *_, (kind, data) = events_of((await whole(shop, "Count", to=9, pause=0.05, more={"timeout": 0.12})).text)
        assert (kind, data["error"]["type"]) == ("error", "AskTimeout")


async def test_a_stream_lasts_no_longer_than_the_gateway_lets_it(tmp_path: Path) -> None:
    async with open_shop(tmp_path, stream_timeout=0.2) as shop:
        *_, (kind, data) = events_of((await whole(shop, "Count", to=90, pause=0.05, more={"timeout": 60})).text)
        assert (kind, data["error"]["type"]) == ("error", "AskTimeout")
        [(kind, data)] = events_of((await shop.client.get("/v1/watch", params={"path": "/user/shop"})).text)
        assert (kind, data["error"]["type"]) == ("error", "AskTimeout")


async def test_items_come_one_by_one_and_silence_is_broken_by_comments(tmp_path: Path) -> None:
    async with open_shop(tmp_path, heartbeat=0.1) as shop:
        begun = trio.current_time()
        seen: list[tuple[str, float]] = []
        async with shop.client.stream("POST", "/v1/stream", json=call("Count", to=2, pause=1.4)) as answer:
            async for part in answer.aiter_text():
                seen.append((part, trio.current_time() - begun))
        headers_at = seen[0][1]
        assert seen[0][0].startswith(":") and 0.9 <= headers_at <= 1.3, "the headers do not wait for the first item for ever"
        first_item = next(at for text, at in seen if "item" in text)
        assert 1.3 <= first_item <= 1.9
        assert sum(text.startswith(":") for text, at in seen if first_item < at) >= 5


async def test_a_reader_that_leaves_ends_the_handler(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        for name, body in (("Count", {"to": 1000, "pause": 0.01}), ("Bytes", {})):
            shop.done.clear()
            async with httpx.AsyncClient(base_url=shop.url, headers=shop.client.headers) as client:
                async with client.stream("POST", "/v1/stream", json=call(name, **body)) as answer:
                    async for _ in answer.aiter_text():
                        break
            await shop.until(lambda: shop.done[-1] == "left")
            await shop.until(lambda: shop.gateway.streams == 0)


async def test_a_slow_reader_holds_its_handler_back_and_one_that_takes_nothing_is_cut_off(tmp_path: Path) -> None:
    async with open_shop(tmp_path, write_timeout=1.0) as shop:
        async with shop.client.stream("POST", "/v1/stream", json=call("Bytes", more={"window": 4})) as answer:
            assert answer.status_code == 200
            with trio.move_on_after(0.5):
                await shop.until(lambda: False)
            held = len(shop.done)
            assert held < 200, "12 MB and more are on their way to a reader that reads nothing"
            await shop.until(lambda: shop.done[-1] == "left")
            assert len(shop.done) <= held + 3
        assert shop.gateway.streams == 0


@pytest.mark.parametrize(("bound", "least"), [("max_streams", 2), ("max_streams_per_token", 2)])
async def test_streams_are_bounded_in_all_and_for_each_token(tmp_path: Path, bound: str, least: int) -> None:
    async with open_shop(tmp_path, **{bound: least}) as shop:
        await shop.system.spawn(type(shop.system.registry.get("/user/shop")._cell.actor), shop.begun, shop.done, name="other")
        narrowed = rt.attenuate(shop.token, ["shop.read"])
        bob = shop.mint("bob", "shop.read")
        async with (
            shop.client.stream("GET", "/v1/watch", params={"path": "/user/shop"}),
            shop.client.stream("GET", "/v1/watch", params={"path": "/user/other"}),
        ):
            for token in (shop.token, narrowed, bob):
                answer = await shop.client.post("/v1/stream", json=call("Count", to=1), headers={"Authorization": f"Bearer {token}"})
                free = bound == "max_streams_per_token" and token == bob
                assert answer.status_code == (200 if free else 429)
        await shop.until(lambda: shop.gateway.streams == 0)
        assert (await whole(shop, "Count", to=1)).status_code == 200


async def test_a_watch_tells_the_end_of_an_actor_once(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        ref = shop.system.registry.get("/user/shop")
        assert ref is not None
        async with shop.client.stream("GET", "/v1/watch", params={"path": "/user/shop"}) as answer:
            await ref.stop()
            text = "".join([part async for part in answer.aiter_text()])
        ended = [("terminated", {"path": "/user/shop", "reason": "stopped", "error": None})]
        assert events_of(text) == ended
        again = await shop.client.get("/v1/watch", params={"path": "/user/shop"})
        assert events_of(again.text) == ended, "an actor that was asked for here is known after its end"
        assert (await shop.client.get("/v1/watch", params={"path": "/user/never"})).status_code == 404
        for query in ({}, {"path": ["/user/a", "/user/b"]}):
            assert (await shop.client.get("/v1/watch", params=query)).status_code == 400


async def test_a_watch_that_is_left_leaves_nothing_behind(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        ref = shop.system.registry.get("/user/shop")
        assert ref is not None
        for _ in range(3):
            async with shop.client.stream("GET", "/v1/watch", params={"path": "/user/shop"}):
                pass
        await shop.until(lambda: shop.gateway.streams == 0 and not ref._cell.extras().watchers)
