"""A handler that returns a coroutine, having forgotten to await it: a failure that says so, never an answer."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import trio.lowlevel

import retinue as rt


@rt.message
class Fetch(rt.Request[Any]):
    pass


@rt.message
class FetchLater(rt.Request[Any]):
    pass


@rt.message
class FetchRated(rt.Request[Any]):
    pass


@rt.message
class Half(rt.Request[Any]):
    pass


async def fetched() -> str:
    return "fetched"


class Careless(rt.Actor):
    def __init__(self, born: list[int]) -> None:
        born.append(1)

    @rt.handler
    def fetch(self, _: Fetch) -> Any:
        return fetched()

    @rt.handler
    async def fetch_later(self, _: FetchLater) -> Any:
        await trio.lowlevel.checkpoint()
        return fetched()

    @rt.handler(requires="web.get", risk="L2")
    def fetch_rated(self, _: FetchRated) -> Any:
        return fetched()


@pytest.mark.parametrize("message", [Fetch(), FetchLater(), FetchRated()], ids=lambda message: type(message).__name__)
async def test_it_is_a_failure_that_says_what_to_write_whichever_way_the_message_went(turn_system: rt.ActorSystem, message: Any) -> None:
    async with turn_system as system:
        born: list[int] = []
        ref = await system.spawn(Careless, born, name="careless")
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # that nobody awaited the coroutine is told once
            with pytest.raises(
                rt.DefinitionError, match=r"Careless\.fetch\w* of /user/careless returned the coroutine fetched\(…\)"
            ) as caught:
                await ref.ask(message)
        assert "make it `async def`, and `return await …`" in str(caught.value)
        await system.wait_quiet()
        assert len(born) == 2, "it was restarted"
        assert [entry.detail.split()[-1] for entry in await system.audit.entries(kind="outcome")] == (
            ["DefinitionError"] if isinstance(message, FetchRated) else []
        )


async def test_one_that_has_begun_already_is_left_alone() -> None:
    class Begun(rt.Actor):
        @rt.handler
        def half(self, _: Half) -> Any:
            made = begun()
            made.send(None)
            kept.append(made)
            return made

    async def begun() -> None:
        await trio.lowlevel.checkpoint()

    kept: list[Any] = []
    async with rt.ActorSystem() as system:
        ref = await system.spawn(Begun)
        with pytest.raises(rt.DefinitionError, match="begun"):
            await ref.ask(Half())
        kept.pop().close()
