"""Systems and streams that are entered with the wrong keyword, and refs that are asked from another system: the text says what is right."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import retinue as rt
from retinue import aio, llm, sync
from retinue.client.asynchronous import RemoteStream
from retinue.client.blocking import RemoteStream as BlockingStream


async def enter(block: Any) -> None:
    async with block:
        raise AssertionError


async def test_a_blocking_system_is_not_entered_with_async_with() -> None:
    with pytest.raises(
        rt.DefinitionError, match=r"retinue\.sync\.ActorSystem is entered with `with`, not with `async with`: .*retinue\.aio"
    ):
        await enter(sync.ActorSystem())


def test_a_system_of_asyncio_is_not_entered_with_with() -> None:
    block: Any = aio.ActorSystem()
    with pytest.raises(rt.DefinitionError, match=r"retinue\.aio\.ActorSystem is entered with `async with`, not with `with`"), block:
        raise AssertionError


async def test_streams_that_are_awaited_are_not_entered_with_with(actor_system: rt.ActorSystem) -> None:
    agent = await actor_system.spawn(rt.Agent, model="scripted:hi")
    block: Any = agent.stream("hi")
    with pytest.raises(rt.DefinitionError, match="this StreamReader is entered with `async with`"), block:
        raise AssertionError


async def test_streams_of_a_blocking_system_are_not_entered_with_async_with() -> None:
    def body() -> Any:
        with sync.ActorSystem("streams") as system:
            block = system.spawn(rt.Agent, model="scripted:hi").stream("hi")
            with pytest.raises(rt.DefinitionError, match="this SyncStreamReader is entered with `with`"):
                trio.run(enter, block)

    await trio.to_thread.run_sync(body)


@pytest.mark.parametrize("kind", [RemoteStream, BlockingStream])
def test_streams_of_clients_are_no_exception(kind: Any) -> None:
    wrong = "__enter__" if kind is RemoteStream else "__aenter__"
    assert callable(getattr(kind, wrong)), "it says which keyword is right"


def test_a_member_or_a_model_of_another_system_is_told_as_one() -> None:
    with sync.ActorSystem("main") as system, sync.ActorSystem("other") as other:
        member = other.spawn(rt.Agent, model="scripted:hi", name="foreign")
        team = system.spawn(rt.Sequential, {"a": member})
        with pytest.raises(
            rt.WrongThread, match=r"/user/foreign belongs to the system 'other', and is asked by /user/.* of the system 'main'"
        ):
            team.ask("hi")
        model: Any = other.spawn(llm.Scripted, lambda request: "hi")
        with pytest.raises(rt.WrongThread, match=r"belongs to the system 'other'.*spawn it in that one"):
            system.spawn(rt.Agent, model=model).ask("hi")
