"""A shop behind a gateway on a real socket, in the test's own trio run, and a client that is httpx and nothing of ours."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import trio

import retinue as rt
from retinue.gateway import Gateway


@rt.message(name="shop/Price@1")
class Price(rt.Request[int]):
    item: str


@rt.message(name="shop/Slow@1", timeout=0.2)
class Slow(rt.Request[str]):
    seconds: float


@rt.message(name="shop/Greet@1")
class Greet(rt.Request[str]):
    name: str = "you"


@rt.message(name="shop/Note@1")
class Note(rt.Message):
    text: str


@rt.message(name="shop/Lie@1")
class Lie(rt.Request[int]):
    pass


@rt.message(name="shop/Large@1")
class Large(rt.Request[str]):
    size: int


@rt.message(name="shop/Count@1")
class Count(rt.Stream[int]):
    to: int
    pause: float = 0.0
    breaks: bool = False


@rt.message(name="shop/Bytes@1")
class Bytes(rt.Stream[str]):
    """Items of 64 KiB, without end."""


@rt.message(name="shop/Private@1")
class Private(rt.Request[int]):
    pass


class SoldOut(Exception):
    pass


class Shop(rt.Actor):
    """Attributes: `done` holds what has come to its end, `begun` what has begun."""

    def __init__(self, begun: list[object], done: list[object]) -> None:
        self.begun = begun
        self.done = done

    @rt.handler(requires="shop.read", raises=SoldOut)
    def price(self, message: Price) -> int:
        self.begun.append(message)
        if message.item == "milk":
            raise SoldOut("milk comes on Monday")
        return {"tea": 3}[message.item]

    @rt.handler(requires="shop.read")
    async def slow(self, message: Slow) -> str:
        self.begun.append(message)
        try:
            await trio.sleep(message.seconds)
        except trio.Cancelled:
            self.done.append("cancelled")
            raise
        self.done.append("slept")
        return "slept"

    @rt.handler
    def greet(self, message: Greet) -> str:
        self.begun.append(message)
        return f"{message.name}, as {self.ctx.security.subject}"

    @rt.handler(requires="shop.write")
    def note(self, message: Note) -> None:
        self.begun.append(message)

    @rt.handler(requires="shop.read")
    def lie(self, message: Lie) -> Any:
        self.begun.append(message)
        return "no number"

    @rt.handler(requires="shop.read")
    def large(self, message: Large) -> str:
        return "x" * message.size

    @rt.handler(requires="shop.read")
    async def count(self, message: Count) -> AsyncIterator[int]:
        self.begun.append(message)
        try:
            for number in range(message.to):
                await trio.sleep(message.pause)
                self.done.append(number)
                yield number
            if message.breaks:
                raise ValueError("secret text")
        except (GeneratorExit, trio.Cancelled):
            self.done.append("left")
            raise
        self.done.append("end")

    @rt.handler(requires="shop.read")
    async def stream_bytes(self, message: Bytes) -> AsyncIterator[str]:
        try:
            while True:
                self.done.append("item")
                yield "x" * 65536
        finally:
            self.done.append("left")

    @rt.handler(requires="shop.owner")
    def private(self, message: Private) -> int:
        self.begun.append(message)
        return 1


def call(name: str, to: str = "/user/shop", /, *, more: dict[str, Any] | None = None, **body: Any) -> dict[str, Any]:
    """The JSON of a call: `call("Price", item="tea")`."""
    return {"to": to, "message": {"type": f"shop/{name}@1", "body": body}, **(more or {})}


@attrs.define(eq=False)
class Open:
    """A shop that is open.

    Attributes:
        client: httpx with the token of ada, who may `shop.read`, `shop.write` and whatever the test gives her.
    """

    system: rt.ActorSystem
    gateway: Gateway
    url: str
    sealer: rt.Sealer
    token: str
    client: httpx.AsyncClient
    begun: list[object]
    done: list[object]
    nursery: trio.Nursery

    def mint(self, subject: str, *permissions: str) -> str:
        """Another token."""
        return self.sealer.seal(self.system.authority.mint(subject, list(permissions)))

    async def ask(self, name: str, /, *, more: dict[str, Any] | None = None, **body: Any) -> httpx.Response:
        return await self.client.post("/v1/ask", json=call(name, more=more, **body))

    async def until(self, holds: Any, seconds: float = 60.0) -> None:
        """Waits until something holds, and fails after some seconds."""
        with trio.fail_after(seconds):
            while not holds():
                await trio.sleep(0.005)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@asynccontextmanager
async def open_shop(
    folder: Path, *, permissions: tuple[str, ...] = ("shop.read", "shop.write"), system: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[Open]:
    """An open shop; `options` are the gateway's."""
    async with rt.ActorSystem("town", data_dir=folder, **(system or {})) as town, trio.open_nursery() as nursery:
        begun: list[object] = []
        done: list[object] = []
        await town.spawn(Shop, begun, done, name="shop")
        sealer = town.sealer()
        gateway = Gateway(town, sealer, **{"rate": math.inf, **options})
        url = await nursery.start(gateway.serve)
        token = sealer.seal(town.authority.mint("ada", list(permissions)))
        async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=10, trust_env=False) as client:
            yield Open(town, gateway, url, sealer, token, client, begun, done, nursery)
        await gateway.stop(grace=0)
        nursery.cancel_scope.cancel()


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The typed error that a response is."""
    data = response.json()
    assert data.keys() == {"error"} and data["error"]["status"] == response.status_code, data
    found: dict[str, Any] = data["error"]
    return found


def events_of(text: str) -> list[tuple[str, Any]]:
    """The events of a whole stream: kind and JSON."""
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            assert lines[0].startswith("event: ") and lines[1].startswith("data: ") and len(lines) == 2, block
            found.append((lines[0][7:], json.loads(lines[1][6:])))
    return found
