"""One way to write a test for all three faces of the client: an async function, which the blocking one runs without ever suspending."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio

import retinue as rt
from retinue import aio, sync

__all__ = ["FACES", "Face"]

_GIVE_AT_ONCE = frozenset({"ref", "stream", "watch", "narrow"})


class Awaitable_:
    """A blocking client, or a part of one, with the methods of the asynchronous ones."""

    def __init__(self, core: Any) -> None:
        self._core = core

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._core, name)
        if name == "approvals":
            return Awaitable_(value)
        if not callable(value):
            return value
        if name in _GIVE_AT_ONCE:
            return lambda *given, **named: Awaitable_(value(*given, **named))

        async def method(*given: Any, **named: Any) -> Any:
            return value(*given, **named)

        return method

    async def __aenter__(self) -> Any:
        self._core.__enter__()
        return self

    async def __aexit__(self, *outcome: object) -> None:
        self._core.__exit__(*outcome)

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        try:
            return next(self._core)
        except StopIteration:
            raise StopAsyncIteration from None

    def __repr__(self) -> str:
        return repr(self._core)


class Face:
    """One of the three.

    Attributes:
        name: "trio", "asyncio" or "blocking".
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def connect(self, url: str, **options: Any) -> Any:
        if self.name == "trio":
            return rt.connect(url, **options)
        return aio.connect(url, **options) if self.name == "asyncio" else Awaitable_(sync.connect(url, **options))

    def run(self, test: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        """Runs an async function."""
        if self.name == "trio":
            return trio.run(test, *arguments)
        if self.name == "asyncio":
            return asyncio.run(test(*arguments))  # type: ignore[arg-type]
        return _stepped(test(*arguments))

    def talk(self, url: str, test: Callable[[Any], Awaitable[Any]], **options: Any) -> Any:
        """Runs an async function with an open client."""

        async def with_client() -> Any:
            async with self.connect(url, **options) as client:
                return await test(client)

        return self.run(with_client)

    async def sleep(self, seconds: float) -> None:
        if self.name == "blocking":
            time.sleep(seconds)  # noqa: ASYNC251
        else:
            await (trio.sleep if self.name == "trio" else asyncio.sleep)(seconds)

    async def together(self, *functions: Callable[[], Awaitable[Any]]) -> list[Any]:
        """The results of async functions that run at the same time; of those that fail, the errors."""
        results: list[Any] = [None] * len(functions)

        async def one(number: int, function: Callable[[], Awaitable[Any]]) -> None:
            try:
                results[number] = await function()
            except Exception as error:
                results[number] = error

        if self.name == "trio":
            async with trio.open_nursery() as nursery:
                for number, function in enumerate(functions):
                    nursery.start_soon(one, number, function)
        elif self.name == "asyncio":
            await asyncio.gather(*(one(number, function) for number, function in enumerate(functions)))
        else:
            threads = [threading.Thread(target=_stepped, args=(one(number, function),)) for number, function in enumerate(functions)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return results


def _stepped(coroutine: Any) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the blocking client suspended")


FACES = [Face("trio"), Face("asyncio"), Face("blocking")]
