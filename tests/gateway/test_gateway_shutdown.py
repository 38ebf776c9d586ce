"""The end of a gateway: streams say goodbye, asks in progress may finish, and what hangs is cut off."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx
import pytest
import trio

import retinue as rt
from gateway_shop import Open, Shop, call, events_of, open_shop
from retinue.gateway import Gateway


async def read(shop: Open, texts: dict[str, str], name: str, method: str, path: str, **options: object) -> None:
    """Reads a stream to its end."""
    async with httpx.AsyncClient(base_url=shop.url, headers=shop.client.headers, timeout=20) as client:
        async with client.stream(method, path, **options) as answer:
            assert answer.status_code == 200
            async for part in answer.aiter_text():
                texts[name] = texts.get(name, "") + part


async def test_streams_and_watches_end_with_an_error_event_and_asks_with_their_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_shop(tmp_path) as shop:
        texts: dict[str, str] = {}
        answers: list[httpx.Response] = []

        async def ask() -> None:
            async with httpx.AsyncClient(base_url=shop.url, headers=shop.client.headers, timeout=20) as client:
                answers.append(await client.post("/v1/ask", json=call("Slow", more={"timeout": 20}, seconds=1.5)))

        async with trio.open_nursery() as nursery:
            other = await shop.system.spawn(Shop, [], [], name="other")
            nursery.start_soon(
                lambda: read(shop, texts, "count", "POST", "/v1/stream", json=call("Count", "/user/other", to=10**6, pause=0.01))
            )
            nursery.start_soon(lambda: read(shop, texts, "watch", "GET", "/v1/watch", params={"path": "/user/other"}))
            await shop.until(lambda: "event: item" in texts.get("count", "") and "watch" in texts)
            nursery.start_soon(ask)
            await shop.until(lambda: shop.begun)
            assert not answers
            await shop.gateway.stop(grace=20)
        for text in texts.values():
            kind, data = events_of(text)[-1]
            assert (kind, data["error"]["type"]) == ("error", "SystemClosed")
        assert [answer.json() for answer in answers] == [{"reply": "slept"}]
        with pytest.raises(httpx.ConnectError):
            await httpx.AsyncClient().post(f"{shop.url}/v1/ask", json=call("Price", item="tea"))
        assert await other.ask(_price()) == 3, "the system goes on"
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def _price() -> rt.Request[int]:
    from gateway_shop import Price

    return Price("tea")


async def test_what_hangs_is_cut_off_when_the_grace_is_over(tmp_path: Path) -> None:
    async with open_shop(tmp_path, write_timeout=60) as shop:
        failures: list[BaseException] = []

        async def hang() -> None:
            try:
                await shop.client.post("/v1/ask", json=call("Slow", more={"timeout": 50}, seconds=1000))
            except httpx.TransportError as error:
                failures.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(hang)
            await shop.until(lambda: shop.begun)
            await shop.system.spawn(Shop, shop.begun, shop.done, name="other")
            deaf = await trio.open_tcp_stream("127.0.0.1", shop.port)
            await deaf.send_all(_request(shop, call("Bytes", "/user/other")))
            await shop.until(lambda: shop.done.count("item") > 5)
            begun = trio.current_time()
            await shop.gateway.stop(grace=0.3)
            assert trio.current_time() - begun < 20, "not even a reader that takes nothing holds it up"
        assert len(failures) == 1
        await shop.until(lambda: "cancelled" in shop.done and "left" in shop.done)
        await deaf.aclose()


def _request(shop: Open, body: dict[str, object], path: str = "/v1/stream") -> bytes:
    import json

    data = json.dumps(body).encode("utf-8")
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {shop.token}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode("ascii") + data


async def test_the_end_of_the_system_is_the_end_of_its_streams(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        texts: dict[str, str] = {}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: read(shop, texts, "count", "POST", "/v1/stream", json=call("Count", to=10**6, pause=0.01)))
            await shop.until(lambda: "event: item" in texts.get("count", ""))
            begun = trio.current_time()
            await shop.system.stop(grace=0)
        assert trio.current_time() - begun < 20
        kind, data = events_of(texts["count"])[-1]
        assert kind == "error" and data["error"]["type"] in ("ActorStopped", "SystemClosed", "AskCancelled")


async def test_the_task_that_serves_can_be_cancelled(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        gateway = Gateway(shop.system, shop.sealer)
        texts: dict[str, str] = {}
        async with trio.open_nursery() as outer:
            async with trio.open_nursery() as nursery:
                shop.url = await nursery.start(gateway.serve)
                outer.start_soon(lambda: read(shop, texts, "count", "POST", "/v1/stream", json=call("Count", to=10**6, pause=0.01)))
                await shop.until(lambda: "event: item" in texts.get("count", ""))
                begun = trio.current_time()
                nursery.cancel_scope.cancel()
            assert trio.current_time() - begun < 20
        assert events_of(texts["count"])[-1][0] == "error"
        await gateway.stop()  # which has ended already
        with pytest.raises(rt.DefinitionError, match="has served"):
            await gateway.serve()


async def test_a_request_that_comes_while_it_closes_is_told_so(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        assert (await shop.ask("Price", item="tea")).status_code == 200
        shop.gateway.close()
        answer = await shop.ask("Price", item="tea")
        assert (answer.status_code, answer.json()["error"]["reason"]) == (503, "closing")
        assert len(shop.begun) == 1
