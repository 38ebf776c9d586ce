"""Options of `ask` and `stream` that there are not: what belongs to the message is said with the message that has it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import retinue as rt
from retinue import aio, sync


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"session": "a"}, r"/user/agent: ask does not take session=, which is said in the message: ask\(AgentMessage\(…, session=…\)\)"),
        ({"tools": []}, r"ask\(Run\(…, tools=…\)\)"),
        ({"limits": None, "handoffs": ()}, r"does not take limits=, handoffs=, .*ask\(Run\(…, limits=…, handoffs=…\)\)"),
        ({"time_out": 3}, r"ask does not take time_out=: did you mean timeout=\? It takes timeout, context, approvals, detached"),
    ],
)
def test_a_script_that_gives_ask_what_belongs_to_the_message_is_told_where_it_goes(options: dict[str, Any], told: str) -> None:
    with sync.ActorSystem() as system:
        agent: Any = system.spawn(rt.Agent, model="scripted:x", name="agent")
        with pytest.raises(rt.DefinitionError, match=told):
            agent.ask("hi", **options)
        assert agent.ask(rt.AgentMessage("hi", session="a")).text == "x"


def test_streams_and_asyncio_are_told_as_well() -> None:
    with sync.ActorSystem() as system:
        agent: Any = system.spawn(rt.Agent, model="scripted:x")
        with pytest.raises(rt.DefinitionError, match=r"stream\(AgentMessage\(…, session=…\)\)"):
            agent.stream("hi", session="a")

    async def by_aio() -> None:
        async with aio.ActorSystem() as system:
            agent: Any = await system.spawn(rt.Agent, model="scripted:x")
            with pytest.raises(rt.DefinitionError, match=r"ask\(AgentMessage\(…, session=…\)\)"):
                await agent.ask("hi", session="a")
            with pytest.raises(rt.DefinitionError, match=r"stream\(Run\(…, limits=…\)\)"):
                agent.stream(rt.Run("hi"), limits=None)

    async def by_trio() -> None:
        async with rt.ActorSystem() as system:
            agent: Any = await system.spawn(rt.Agent, model="scripted:x")
            with pytest.raises(rt.DefinitionError, match=r"stream\(AgentMessage\(…, session=…\)\)"):
                agent.stream("hi", session="a")

    asyncio.run(by_aio())
    rt.run(by_trio)
