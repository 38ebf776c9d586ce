"""The servers: `python -m benchmarks.border.server gateway|starlette|streams COUNT`.

A server writes one line of JSON when it listens, one for each line of its input, and a last one, with what it has counted, when its input ends.
"""

# No `from __future__ import annotations` here: what users type is measured, and so are the annotations as they type them.

import json
import math
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import trio

import retinue as rt

Words = Callable[[str], dict[str, Any]]


@rt.message(name="bench/Price@1")
class Price(rt.Request[int]):
    item: str
    amount: int


@rt.message(name="bench/Feed@1")
class Feed(rt.Stream[int]):
    """Items are the time at which they were made, in nanoseconds of the machine's monotonic clock.

    Attributes:
        items: How many.
        every: Seconds between two.
        after: Seconds from "go" to the first.
    """

    items: int
    every: float
    after: float


PRICES = {"tea": 1, "coffee": 2}


class Shop(rt.Actor):
    def __init__(self) -> None:
        self.total = 0

    @rt.handler(requires="shop.read")
    def price(self, message: Price) -> int:
        self.total += PRICES[message.item] * message.amount
        return self.total


class Feeder(rt.Actor):
    """One stream; all of them wait for the same word."""

    def __init__(self, go: trio.Event, counted: dict[str, int]) -> None:
        self.go = go
        self.counted = counted

    @rt.handler(requires="feed.read")
    async def feed(self, message: Feed) -> AsyncIterator[int]:
        self.counted["open"] += 1
        await self.go.wait()
        begun = trio.current_time() + message.after
        for number in range(message.items):
            await trio.sleep_until(begun + number * message.every)
            self.counted["items"] += 1
            yield time.monotonic_ns()
        self.counted["ended"] += 1


def say(**said: Any) -> None:
    print(json.dumps(said), flush=True)


async def listen(words: Words) -> None:
    """Answers each line of the input, until it ends."""
    while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        say(**words(line.strip()))


async def through_gateway(actors: Callable[[rt.ActorSystem], Awaitable[None]], words: Words) -> None:
    from retinue.gateway import Gateway

    with tempfile.TemporaryDirectory() as folder:
        async with rt.ActorSystem("bench", data_dir=folder) as system, trio.open_nursery() as nursery:
            await actors(system)
            token = system.sealer().seal(system.authority.mint("bench", ["shop.*", "feed.*"]))
            gateway = Gateway(system, rate=math.inf, max_streams=4096, max_streams_per_token=4096, max_connections=4096)
            url = await nursery.start(gateway.serve)
            say(port=int(url.rpartition(":")[2]), token=token)
            await listen(words)
            nursery.cancel_scope.cancel()


async def gateway() -> None:
    """The shop behind the gateway."""
    refs = []

    async def actors(system: rt.ActorSystem) -> None:
        refs.append(await system.spawn(Shop, name="shop"))
        refs.append(system)

    await through_gateway(actors, lambda _: {})
    # The actor's own count went to the clients, who looked for gaps; this is the system's.
    say(handled=refs[1].statistics().handled)


async def streams(count: int) -> None:
    """So many feeds behind the gateway."""
    go, counted = trio.Event(), {"open": 0, "items": 0, "ended": 0}
    events = [go]

    async def actors(system: rt.ActorSystem) -> None:
        for number in range(count):
            await system.spawn(Feeder, go, counted, name=f"feed-{number}")

    def words(word: str) -> dict[str, Any]:
        if word == "go":
            events[0].set()
        return dict(counted)

    await through_gateway(actors, words)
    say(**counted)


async def starlette() -> None:
    """The same work without us, on the same server."""
    from hypercorn.config import Config
    from hypercorn.trio import serve
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    shop = {"total": 0, "handled": 0}

    async def ask(request: Request) -> JSONResponse:
        asked = json.loads(await request.body())
        body = asked["message"]["body"]
        shop["handled"] += 1
        shop["total"] += PRICES[body["item"]] * body["amount"]
        return JSONResponse({"reply": shop["total"]})

    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.errorlog = None
    config.keep_alive_timeout = 75
    config.keep_alive_max_requests = sys.maxsize
    app: Any = Starlette(routes=[Route("/v1/ask", ask, methods=["POST"])])
    async with trio.open_nursery() as nursery:
        binds = await nursery.start(serve, app, config)
        say(port=int(binds[0].rpartition(":")[2]), token="")
        await listen(lambda _: {})
        nursery.cancel_scope.cancel()
    say(handled=shop["handled"])


def main(kind: str, *arguments: str) -> None:
    """Runs one of them."""
    if kind == "streams":
        trio.run(streams, int(arguments[0]))
    else:
        trio.run({"gateway": gateway, "starlette": starlette}[kind])


if __name__ == "__main__":
    main(*sys.argv[1:])
