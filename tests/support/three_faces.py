"""One body of a test for the three faces of a system: trio, `retinue.sync`, `retinue.aio`. The body is plain and runs in a thread of its own where the face has a loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import trio

import retinue as rt
import retinue.aio
import retinue.sync

__all__ = ["FACES", "Face", "on_face"]

FACES: Final = ("trio", "sync", "aio")

PATIENCE: Final = 60.0
"""Seconds after which a call counts as hanging."""


class Face:
    """A system, seen from plain code.

    Attributes:
        system: The system of this face.
    """

    def __init__(self, system: Any, call: Callable[..., Any]) -> None:
        self.system = system
        self._call = call

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What a method of the system or of a ref returns, awaited where it has to be."""
        return self._call(partial(function, *arguments, **options))

    def spawn(self, cls: Any, *arguments: Any, **options: Any) -> Any:
        return self.call(self.system.spawn, cls, *arguments, **options)

    def ask(self, ref: Any, message: Any, **options: Any) -> Any:
        return self.call(ref.ask, message, **options)

    @contextmanager
    def stream(self, ref: Any, message: Any, **options: Any) -> Iterator[Iterator[Any]]:
        """The items of a stream; leaving the block early closes it."""
        reader = ref.stream(message, **options)
        if isinstance(reader, retinue.sync.StreamReader):
            with reader as items:
                yield items
            return
        self.call(reader.__aenter__)
        try:
            yield self._items(reader)
        finally:
            self.call(reader.__aexit__, None, None, None)

    def _items(self, reader: Any) -> Iterator[Any]:
        while True:
            item = self.call(_next, reader)
            if item is _END:
                return
            yield item

    def read(self, ref: Any, message: Any, **options: Any) -> list[Any]:
        """All items of a stream; the error last, where it ended with one."""
        found: list[Any] = []
        try:
            with self.stream(ref, message, **options) as items:
                found.extend(items)
        except rt.RetinueError as error:
            found.append(error)
        return found


_END: Final = object()


async def _next(reader: Any) -> Any:
    try:
        return await anext(reader)
    except StopAsyncIteration:
        return _END


def on_face(face: str, body: Callable[[Face], None], **options: Any) -> None:
    """Runs a body with a system of that face that has started."""
    {"trio": _on_trio, "sync": _on_sync, "aio": _on_aio}[face](body, options)


def _on_sync(body: Callable[[Face], None], options: dict[str, Any]) -> None:
    with retinue.sync.ActorSystem("faces", **options) as system:
        body(Face(system, lambda call: call()))


def _on_trio(body: Callable[[Face], None], options: dict[str, Any]) -> None:
    async def main() -> None:
        async with rt.ActorSystem("faces", **options) as system, trio.open_nursery() as nursery:
            token, context = trio.lowlevel.current_trio_token(), contextvars.copy_context()  # the context says who holds the system

            async def made(call: Callable[[], Any], outcome: Future[Any]) -> None:
                try:
                    with trio.fail_after(PATIENCE):
                        found = call()
                        outcome.set_result(await found if hasattr(found, "__await__") else found)
                except Exception as error:
                    outcome.set_exception(error)

            def carried_out(call: Callable[[], Any]) -> Any:
                outcome: Future[Any] = Future()
                token.run_sync_soon(context.run, nursery.start_soon, made, call, outcome)
                return outcome.result(PATIENCE + 5)

            await trio.to_thread.run_sync(body, Face(system, carried_out))

    trio.run(main)


def _on_aio(body: Callable[[Face], None], options: dict[str, Any]) -> None:
    async def main() -> None:
        async with retinue.aio.ActorSystem("faces", **options) as system:
            loop = asyncio.get_running_loop()

            async def made(call: Callable[[], Any]) -> Any:
                found = call()
                return await asyncio.wait_for(found, PATIENCE) if hasattr(found, "__await__") else found

            face = Face(system, lambda call: asyncio.run_coroutine_threadsafe(made(call), loop).result(PATIENCE + 5))
            await asyncio.to_thread(body, face)

    asyncio.run(main())
