"""Tools that ask the agent that called them: in another session that is fine, in their own it would wait for ever, and is refused at once."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import retinue as rt
from agent_players import read, results
from retinue import llm


def say(request: llm.Complete) -> llm.Completion | str:
    last = request.messages[-1]
    if last.role == "tool":
        return "outer done"
    return "inner" if last.content == "inner" else llm.tool_calls(*[("back", {})] * int(last.content))


async def asked(agent: Any, calls: int, *, streamed: bool) -> Any:
    if not streamed:
        return await agent.ask(str(calls))
    return (await read(agent, str(calls)))[-1].message


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("inner_streamed", [False, True])
async def test_a_tool_that_asks_its_own_session_is_told_so_at_once(streamed: bool, inner_streamed: bool) -> None:
    async with rt.ActorSystem("ring") as system:
        model = await system.spawn(llm.Scripted, [say] * 10, name="model")
        agents: list[Any] = []

        async def back(context: rt.ToolContext, session: str = "0") -> str:
            """Asks back."""
            message = rt.AgentMessage("inner", session=session)
            if not inner_streamed:
                return str((await agents[0].ask(message)).content)
            async with agents[0].stream(message) as events:
                return "".join([event.text async for event in events if isinstance(event, rt.TextDelta)])

        agents.append(await system.spawn(rt.Agent, model=model, tools=[back], name="agent"))
        with trio.fail_after(5):
            assert (await asked(agents[0], 1, streamed=streamed)).content == "outer done"
        found = results(await agents[0].ask(rt.GetMemory()))
    assert [step.ok for step in found] == [False]
    assert all("AskCycle" in step.text or "would wait for ever" in step.text for step in found)


async def test_two_tools_of_a_reply_of_which_one_asks_another_session_are_no_ring() -> None:
    async with rt.ActorSystem("ring") as system:
        model = await system.spawn(llm.Scripted, [say] * 10, name="model")
        agents: list[Any] = []

        async def back() -> str:
            """Asks back."""
            return str((await agents[0].ask(rt.AgentMessage("inner", session="1"))).content)

        agents.append(await system.spawn(rt.Agent, model=model, tools=[back], name="agent"))
        for streamed in (False, True):
            assert (await asked(agents[0], 2, streamed=streamed)).content == "outer done"
        assert [step.text for step in results(await agents[0].ask(rt.GetMemory()))] == ["inner"] * 4
