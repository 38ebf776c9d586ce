"""The gateway's application on a server that is not ours."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import httpx
import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from gateway_shop import call, events_of, open_shop


async def test_the_application_serves_on_a_plain_hypercorn_and_notices_who_leaves(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop, trio.open_nursery() as nursery:
        config = Config()
        config.bind = ["127.0.0.1:0"]
        config.errorlog = None
        over = trio.Event()
        [url] = await nursery.start(partial(serve, shop.gateway.app, config, shutdown_trigger=over.wait))
        async with httpx.AsyncClient(base_url=url, headers=shop.client.headers, trust_env=False) as client:
            assert (await client.post("/v1/ask", json=call("Price", item="tea"))).json() == {"reply": 3}
            assert (await client.post("/v1/ask", json=call("Price", item="tea"), headers={"Authorization": ""})).status_code == 401
            assert events_of((await client.post("/v1/stream", json=call("Count", to=2))).text) == [("item", 0), ("item", 1), ("end", {})]
            shop.begun.clear()
            async with trio.open_nursery() as leaving:
                leaving.start_soon(partial(client.post, "/v1/ask", json=call("Slow", more={"timeout": 50}, seconds=100.0)))
                await shop.until(lambda: shop.begun)
                leaving.cancel_scope.cancel()
            await shop.until(lambda: shop.done[-1] == "cancelled")
            async with client.stream("POST", "/v1/stream", json=call("Count", to=10**6, pause=0.01)) as answer:
                async for _ in answer.aiter_text():
                    break
            await shop.until(lambda: shop.done[-1] == "left" and shop.gateway.streams == 0)
        over.set()
