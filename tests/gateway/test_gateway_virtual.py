"""Virtual actors through the gateway: a path makes an instance, for whoever may use it."""

from __future__ import annotations

from pathlib import Path

from gateway_shop import Price, Shop, call, error_of, events_of, open_shop


async def test_an_ask_a_tell_and_a_stream_to_a_path_make_an_instance(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        shops = await shop.system.spawn_virtual(Shop, shop.begun, shop.done, name="shops")
        answer = await shop.client.post("/v1/ask", json=call("Price", shops["a"].path, item="tea"))
        assert answer.json() == {"reply": 3}
        odd = shops["Jörg / ../=2F"]
        assert (await shop.client.post("/v1/ask", json=call("Price", odd.path, item="tea"))).json() == {"reply": 3}
        assert (await shop.client.post("/v1/tell", json=call("Note", "/user/shops/b", text="x"))).status_code in (200, 202)
        streamed = await shop.client.post("/v1/stream", json=call("Count", "/user/shops/c", to=2))
        assert [data for kind, data in events_of(streamed.text) if kind == "item"] == [0, 1]
        await shop.system.wait_quiet()
        assert shops.active() == ("a", odd.key, "b", "c")
        await shops.passivate("a")
        assert (await shop.client.post("/v1/ask", json=call("Price", "/user/shops/a", item="tea"))).json() == {"reply": 3}


async def test_who_may_not_wakes_none(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        shops = await shop.system.spawn_virtual(Shop, shop.begun, shop.done, name="shops")
        for name, path in (("Private", "/v1/ask"), ("Private", "/v1/tell")):
            refused = await shop.client.post(path, json=call(name, "/user/shops/a"))
            assert (refused.status_code, error_of(refused)["type"]) == (403, "Denied")
        assert shops.active() == ()
        assert shop.begun == []
        assert {entry.operation for entry in await shop.system.audit.entries(allowed=False)} == {"shop.owner"}


async def test_what_stands_for_no_key_and_a_region_that_was_stopped_are_not_found(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        shops = await shop.system.spawn_virtual(Shop, shop.begun, shop.done, name="shops")
        for path in ("/user/shops/=61", "/user/shops/=FF", "/user/shops/a/b", "/user/shop/a", "/user/shops/é"):
            refused = await shop.client.post("/v1/ask", json=call("Price", path, item="tea"))
            assert (refused.status_code, error_of(refused)["reason"]) == (404, "not_found"), path
        assert (await shop.client.post("/v1/ask", json=call("Price", "/user/shops/a", item="tea"))).status_code == 200
        await shops.stop()
        gone = await shop.client.post("/v1/ask", json=call("Price", "/user/shops/a", item="tea"))
        assert error_of(gone)["type"] == "ActorStopped"
        assert shop.begun == [Price("tea")]
