"""Agents from plain scripts and asyncio, in systems of other kinds, and beside other kinds of work."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import retinue as rt
from agent_players import calls, read, results
from retinue import aio, llm, sync


async def note() -> str:
    """Notes."""
    return "noted"


@pytest.mark.parametrize("kind", [{"loopback": True}, {"seed": 7}, {"events": 100}], ids=["loopback", "seed", "events"])
async def test_an_agent_is_the_same_where_every_message_is_encoded_where_a_seed_orders_them_and_where_they_are_recorded(kind: Any) -> None:
    async with rt.ActorSystem("elsewhere", **kind) as system:
        model = await system.spawn(llm.Scripted, [calls("note"), "Done.", "More.", "Again.", "Hi."], name="model")
        agent = await system.spawn(rt.Agent, model=model, tools=[note], name="agent")
        assert (await agent.ask(rt.AgentMessage("go"))).content == "Done."
        events = await read(agent, rt.AgentMessage({"parts": [1]}, session="other"))
        assert isinstance(events[-1], rt.RunEnd) and events[-1].message.content == "More."
        memory = await agent.ask(rt.GetMemory())
        assert [step.text for step in results(memory)] == ["noted"] and memory.messages[-1].usage is not None
        await agent.ask(rt.LoadState(await agent.ask(rt.GetState()), session="copy"))
        assert (await agent.ask(rt.GetMemory("copy"))).items == memory.items
        assert (await agent.ask(rt.Run("go on"))).content == "Again."
        await agent.ask(rt.AgentMessage("hi", session="hers"), context=(ada := system.authority.mint("ada", ["**"])))
        team = await system.spawn(rt.Sequential, [agent])
        assert set(await team.ask(rt.GetState("hers", subject="ada"))) == {"version", "memory", "0.memory"}
        await agent.ask(rt.ClearMemory("hers", subject="ada"))
        assert (await agent.ask(rt.GetMemory("hers"), context=ada)).items == ()


@rt.tool(approval=True)
def send(to: str) -> str:
    """Sends.

    Args:
        to: Whom.
    """
    return f"sent to {to}"


def test_from_a_plain_script_an_agent_is_asked_streamed_and_resumed() -> None:
    with sync.ActorSystem("script") as system:
        model = system.spawn(llm.Scripted, ["Hello.", llm.tool_calls(("send", {"to": "bob"})), "Done.", "Bye."], name="model")
        agent = system.spawn(rt.Agent, model=model, tools=[send], name="agent")
        assert agent.ask("hi").content == "Hello."
        with pytest.raises(rt.ApprovalRequired) as caught:
            agent.ask("Write to Bob")
        token = system.approvals.approve(caught.value.request.id, reviewer="carol")
        assert caught.value.run is not None
        assert agent.ask(rt.Resume(caught.value.run), approvals=[token]).content == "Done."
        with agent.stream("bye") as events:
            found = list(events)
        assert isinstance(found[-1], rt.RunEnd) and found[-1].message.content == "Bye."
        assert agent.ask(rt.Cancel()) is False


def test_under_asyncio_sessions_run_at_the_same_time() -> None:
    async def main() -> list[str]:
        async with aio.ActorSystem("loop") as system:
            model = await system.spawn(llm.Scripted, lambda request: f"<{request.messages[-1].content}>", name="model")
            agent = await system.spawn(rt.Agent, model=model, name="agent")
            replies = await asyncio.gather(*(agent.ask(rt.AgentMessage(str(number), session=str(number))) for number in range(50)))
            pieces = []
            async with agent.stream("streamed") as events:
                async for event in events:
                    if isinstance(event, rt.TextDelta):
                        pieces.append(event.text)
            return [*(reply.content for reply in replies), "".join(pieces)]

    assert asyncio.run(main()) == [*(f"<{number}>" for number in range(50)), "<streamed>"]


def test_an_asyncio_task_that_is_cancelled_ends_its_run() -> None:
    async def main() -> Any:
        async with aio.ActorSystem("loop") as system:
            model = await system.spawn(llm.Scripted, ["slow", "quick"], seconds=30, name="model")
            agent = await system.spawn(rt.Agent, model=model, name="agent")
            task = asyncio.create_task(agent.ask("hi"))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await asyncio.wait_for(agent.ask(rt.GetMemory()), 5)

    assert asyncio.run(main()).items == ()


async def test_an_agents_tool_may_ask_another_agent_under_the_callers_authority() -> None:
    async with rt.ActorSystem("two") as system:
        inner_model = await system.spawn(llm.Scripted, lambda request: f"inner: {request.messages[-1].content}", name="inner-model")
        inner = await system.spawn(rt.Agent, model=inner_model, name="inner")

        async def consult(question: str, context: rt.ToolContext) -> str:
            """Asks a colleague.

            Args:
                question: What.
            """
            reply = await context.ask(inner, rt.AgentMessage(question, session="from-outer"))
            return str(reply.content)

        outer_model = await system.spawn(llm.Scripted, [llm.tool_calls(("consult", {"question": "why?"})), "Because."], name="outer-model")
        outer = await system.spawn(rt.Agent, model=outer_model, tools=[consult], name="outer")
        ada = system.authority.mint("ada", ["model.complete", "tool.consult"])
        assert (await outer.ask("go", context=ada)).content == "Because."
        assert [step.text for step in results(await outer.ask(rt.GetMemory(), context=ada))] == ["inner: why?"]
        assert (await inner.ask(rt.GetMemory("from-outer"), context=ada)).messages[0].content == "why?"
