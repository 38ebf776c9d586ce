"""A system behind a gateway in a thread of its own, for the clients' tests: what it sells, and how it fails."""

from __future__ import annotations

import datetime as dt
import itertools
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs
import trio

import retinue as rt
from retinue.gateway.app import Gateway

__all__ = [
    "Blob",
    "Count",
    "Fail",
    "Halt",
    "Item",
    "Letter",
    "Note",
    "Notes",
    "Pay",
    "Price",
    "RunningShop",
    "Secret",
    "Shop",
    "Slow",
    "SoldOut",
    "Swap",
]


@attrs.frozen
class Item:
    name: str
    price: Decimal
    tags: tuple[str, ...] = ()


@rt.message(name="client-shop/Price@1")
class Price(rt.Request[int]):
    item: str


@rt.message(name="client-shop/Swap@1")
class Swap(rt.Request[tuple[dt.datetime, bytes, Item | None]]):
    at: dt.datetime
    raw: bytes
    item: Item | None


@rt.message(name="client-shop/Slow@1")
class Slow(rt.Request[str]):
    seconds: float


@rt.message(name="client-shop/Fail@1")
class Fail(rt.Request[None]):
    how: str


@rt.message(name="client-shop/Blob@1")
class Blob(rt.Request[str]):
    size: int


@rt.message(name="client-shop/Note@1")
class Note(rt.Message):
    text: str


@rt.message(name="client-shop/Notes@1")
class Notes(rt.Request[list[str]]):
    pass


@rt.message(name="client-shop/Letter@1")
class Letter(rt.Message):
    text: str


@rt.message(name="client-shop/Count@1")
class Count(rt.Stream[Item]):
    to: int
    fail: bool = False
    pause: float = 0.0


@rt.message(name="client-shop/Secret@1")
class Secret(rt.Request[str]):
    pass


@rt.message(name="client-shop/Pay@1")
class Pay(rt.Request[str]):
    to: str
    amount: int


@rt.message(name="client-shop/Halt@1")
class Halt(rt.Request[None]):
    pass


class SoldOut(Exception):
    pass


class Shop(rt.Actor):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.left_early = 0

    @rt.handler(requires="shop.read")
    def price(self, message: Price) -> int:
        return {"tea": 3}[message.item]

    @rt.handler(requires="shop.read")
    def swap(self, message: Swap) -> tuple[dt.datetime, bytes, Item | None]:
        return message.at, message.raw, message.item

    @rt.handler(requires="shop.read")
    async def slow(self, message: Slow) -> str:
        await trio.sleep(message.seconds)
        return "done"

    @rt.handler(requires="shop.read", raises=SoldOut)
    def fail(self, message: Fail) -> None:
        if message.how == "reject":
            raise rt.Reject("not today")
        if message.how == "declared":
            raise SoldOut("no tea left")
        if message.how == "nested":
            raise rt.GatewayError("another gateway", status=503, reason="closing", delivered=False)
        raise ValueError("the safe's number is 1234")

    @rt.handler(requires="shop.read")
    def blob(self, message: Blob) -> str:
        return "x" * message.size

    @rt.handler(requires="shop.read")
    def note(self, message: Note) -> None:
        self.notes.append(message.text)

    @rt.handler(requires="shop.read")
    def all_notes(self, message: Notes) -> list[str]:
        return self.notes

    @rt.handler(requires="shop.read", raises=SoldOut)
    async def count(self, message: Count) -> AsyncIterator[Item]:
        try:
            for number in range(message.to):
                await trio.sleep(message.pause)
                yield Item(str(number), Decimal(number))
            if message.fail:
                raise SoldOut("no more")
        except GeneratorExit:
            self.left_early += 1
            raise

    @rt.handler(requires="shop.secret")
    def secret(self, message: Secret) -> str:
        return "secret"

    @rt.handler(requires="shop.read", approval=True)
    def pay(self, message: Pay) -> str:
        return f"paid {message.amount} to {message.to}"

    @rt.handler(requires="shop.read")
    async def halt(self, message: Halt) -> None:
        await self.ctx.stop()


class Box(rt.Actor):
    """Takes a letter, and is busy with it until it is opened."""

    def __init__(self, opened: trio.Event) -> None:
        self.opened = opened

    @rt.handler(requires="shop.read")
    async def letter(self, message: Letter) -> None:
        await self.opened.wait()


class RunningShop:
    """The system and its gateway, for the length of a `with`; usable from other threads."""

    def __init__(self, folder: Path, **bounds: Any) -> None:
        self.folder = folder
        self.bounds = {"rate": float("inf"), **bounds}
        self.url = ""
        self._numbers = itertools.count()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="a shop behind a gateway")

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._failure is None:
            trio.from_thread.run_sync(self._end.set, trio_token=self._trio)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def call(self, function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        """Calls an async function in the system's thread, as its holder."""
        answer: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

        async def task() -> None:
            try:
                answer.put((await function(*arguments), None))
            except Exception as error:
                answer.put((None, error))

        self._trio.run_sync_soon(self._calls.send_nowait, task)
        value, error = answer.get(timeout=30)
        if error is not None:
            raise error
        return value

    def token(self, *permissions: Any, subject: str = "ada", seconds: float = 600) -> str:
        """A sealed token."""
        return self.sealer.seal(self.system.authority.mint(subject, list(permissions or ["shop.read"])), expires_seconds=seconds)

    def another(self, cls: type[rt.Actor] = Shop, *arguments: Any, **options: Any) -> str:
        """Spawns an actor for one test alone; returns its path."""
        name = f"{cls.__name__.lower()}-{next(self._numbers)}"
        path: str = self.call(lambda: self.system.spawn(cls, *arguments, name=name, **options)).path
        return path

    def box(self) -> str:
        """A mailbox with room for one message, whose actor is busy with its first one until the end; returns its path."""
        return self.another(Box, self.opened, mailbox=rt.Mailbox(capacity=1))

    def close_gateway(self) -> None:
        """Stops the gateway, while the system goes on."""
        self.call(self.gateway.stop)

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._trio = trio.lowlevel.current_trio_token()
        self._end = trio.Event()
        async with rt.ActorSystem("shop", data_dir=self.folder) as self.system:
            self.sealer = self.system.sealer()
            self.shop = await self.system.spawn(Shop, name="shop", supervision=rt.Supervision(on={Exception: "resume"}))
            self.opened = trio.Event()
            await self.system.spawn(Box, self.opened, name="box", mailbox=rt.Mailbox(capacity=1))
            self.gateway = Gateway(self.system, self.sealer, **self.bounds)
            async with trio.open_nursery() as nursery:
                self.url = await nursery.start(self.gateway.serve)
                self._calls, calls = trio.open_memory_channel[Callable[[], Awaitable[None]]](100)
                nursery.start_soon(self._serve_calls, nursery, calls)
                self._ready.set()
                await self._end.wait()
                self.opened.set()
                await self.gateway.stop()
                nursery.cancel_scope.cancel()

    async def _serve_calls(self, nursery: trio.Nursery, calls: Any) -> None:
        async for call in calls:
            nursery.start_soon(call)
