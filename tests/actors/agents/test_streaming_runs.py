"""Streamed runs: the same run, told of while it goes on, with one end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.lowlevel

import retinue as rt
from agent_players import Hanging, agent_system, calls, read, results
from retinue import llm


async def note() -> str:
    """Notes."""
    return "noted"


async def test_a_stream_has_text_tools_usage_and_one_end() -> None:
    script = [llm.tool_calls(("note", {}), text="Let me see. ", reasoning="hm"), "All is well."]
    async with agent_system(script, tools=[note]) as (_, agent):
        events = await read(agent, "go")
        memory = await agent.ask(rt.GetMemory())
    kinds = [type(event) for event in events]
    assert kinds.count(rt.RunEnd) == 1 and kinds[-1] is rt.RunEnd
    assert "".join(event.text for event in events if isinstance(event, rt.TextDelta)) == "Let me see. All is well."
    assert "".join(event.text for event in events if isinstance(event, rt.ReasoningDelta)) == "hm"
    assert [(event.name, event.arguments) for event in events if isinstance(event, rt.ToolStarted)] == [("note", "{}")]
    assert [(event.name, event.ok, event.text) for event in events if isinstance(event, rt.ToolFinished)] == [("note", True, "noted")]
    assert [event.usage.requests for event in events if isinstance(event, rt.UsageSoFar)] == [1, 2]
    assert events[-1].message.content == "All is well." and memory.messages[-1] == events[-1].message
    assert memory.steps[0].reasoning == "hm"


async def test_asked_and_streamed_a_run_remembers_the_same() -> None:
    def script() -> list[Any]:
        return [calls("note", "note"), llm.tool_calls(("note", "{")), "Done."]

    memories = []
    for streamed in (False, True):
        async with agent_system(script(), tools=[note]) as (_, agent):
            if streamed:
                await read(agent, "go")
            else:
                await agent.ask("go")
            memories.append(await agent.ask(rt.GetMemory()))
    assert memories[0] == memories[1]


async def test_tools_of_one_reply_are_told_of_as_they_finish() -> None:
    gate = trio.Event()

    async def slow() -> str:
        """Slow."""
        await gate.wait()
        return "slow"

    async def quick() -> str:
        """Quick."""
        return "quick"

    async with agent_system([calls("slow", "quick"), "Done."], tools=[slow, quick]) as (_, agent):
        order: list[str] = []
        async with agent.stream("go") as events:
            async for event in events:
                if isinstance(event, rt.ToolFinished):
                    order.append(event.name)
                    gate.set()
        assert order == ["quick", "slow"]
        assert [step.tool for step in results(await agent.ask(rt.GetMemory()))] == ["slow", "quick"]


async def test_closed_early_it_keeps_what_was_said_marked_partial() -> None:
    began, ended = trio.Event(), trio.Event()
    async with rt.ActorSystem("streams") as system:
        model = await system.spawn(Hanging, began, ended, ("Once ", "upon "), name="model")
        agent = await system.spawn(rt.Agent, model=model, name="agent")
        async with agent.stream("tell me") as events:
            async for event in events:
                if event.text == "upon ":
                    break
        with trio.fail_after(20):
            await ended.wait()
            while not (memory := await agent.ask(rt.GetMemory())).items:
                await trio.lowlevel.checkpoint()
    assert [(message.content, message.partial) for message in memory.messages] == [("tell me", False), ("Once upon ", True)]


async def test_closed_before_anything_was_said_it_leaves_nothing() -> None:
    began, ended = trio.Event(), trio.Event()
    async with rt.ActorSystem("streams") as system:
        model = await system.spawn(Hanging, began, ended, name="model")
        agent = await system.spawn(rt.Agent, model=model, name="agent")
        async with agent.stream("tell me"):
            await began.wait()
        with trio.fail_after(20):
            await ended.wait()
        assert (await agent.ask(rt.GetMemory())).items == ()


async def test_closed_while_tools_run_each_call_has_a_result_and_the_next_request_is_valid() -> None:
    began = trio.Event()
    told: list[llm.Complete] = []

    async def hang() -> str:
        """Hangs."""
        began.set()
        await trio.sleep_forever()
        return ""

    def script(request: llm.Complete) -> str | llm.Completion:
        told.append(request)
        return calls("hang", "note") if len(told) == 1 else "ok"

    async with agent_system(script, tools=[hang, note]) as (_, agent):
        async with agent.stream("go") as events:
            async for event in events:
                if isinstance(event, rt.ToolFinished):
                    break
        await agent.ask("and?")
        memory = await agent.ask(rt.GetMemory())
    assert [(step.tool, step.ok) for step in results(memory)] == [("hang", False), ("note", True)]
    assert [each.role for each in told[-1].messages] == ["user", "assistant", "tool", "tool", "user"]


async def test_a_slow_reader_holds_the_model_back() -> None:
    made: list[int] = []

    class Chatty(llm.Deployment):
        async def stream_once(self, request: llm.Complete) -> AsyncIterator[llm.ModelEvent]:
            for number in range(10_000):
                made.append(number)
                yield llm.TextDelta("x")
            yield llm.Completed(llm.Completion("x" * 10_000, "m"))

    async with rt.ActorSystem("streams") as system:
        model = await system.spawn(Chatty, name="model")
        agent = await system.spawn(rt.Agent, model=model, name="agent")
        async with agent.stream("go", window=4) as events:
            await anext(aiter(events))
            await trio.testing.wait_all_tasks_blocked()
            assert len(made) < 200


async def test_a_model_that_ends_its_stream_without_an_answer_is_an_error_and_leaves_nothing() -> None:
    class Broken(llm.Deployment):
        async def stream_once(self, request: llm.Complete) -> AsyncIterator[llm.ModelEvent]:
            yield llm.TextDelta("half")

    async with rt.ActorSystem("streams") as system:
        model = await system.spawn(Broken, name="model")
        agent = await system.spawn(rt.Agent, model=model, name="agent")
        *events, error = await read(agent, "go")
        assert isinstance(error, llm.ModelError) and [event.text for event in events] == ["half"]
        assert (await agent.ask(rt.GetMemory())).items == ()


async def test_a_retry_of_the_deployment_is_a_notice() -> None:
    class Retries(llm.Deployment):
        async def stream_once(self, request: llm.Complete) -> AsyncIterator[llm.ModelEvent]:
            yield llm.Retrying("status 503", 2, 0.1)
            yield llm.TextDelta("ok")
            yield llm.Completed(llm.Completion("ok", "m"))

    async with rt.ActorSystem("streams") as system:
        model = await system.spawn(Retries, name="model")
        agent = await system.spawn(rt.Agent, model=model, name="agent")
        events = await read(agent, "go")
    assert [(event.kind, event.text) for event in events if isinstance(event, rt.Notice)] == [
        ("retrying", "asked again in 0.1 s (attempt 2): status 503")
    ]


async def test_many_streams_at_once_do_not_mix() -> None:
    def script(request: llm.Complete) -> str:
        return request.messages[-1].content * 5

    async with agent_system(script) as (_, agent):
        wrong: list[str] = []

        async def one(number: int) -> None:
            text = f"<{number}>"
            events = await read(agent, rt.AgentMessage(text, session=str(number)))
            said = "".join(event.text for event in events if isinstance(event, rt.TextDelta))
            if said != text * 5:
                wrong.append(said)

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(one, number)
    assert wrong == []


@pytest.mark.parametrize("message", [rt.GetMemory(), rt.Cancel()])
async def test_what_has_no_stream_says_so(message: Any) -> None:
    async with agent_system("x") as (_, agent):
        [error] = await read(agent, message)
        assert isinstance(error, rt.Unhandled)


@pytest.mark.parametrize("window", [1, 2, 3])
async def test_a_reader_who_leaves_at_the_end_leaves_one_whole_answer_or_what_was_said(window: int) -> None:
    async with agent_system(["It is noon."]) as (_, agent):
        async with agent.stream("go", window=window) as events:
            async for event in events:
                if isinstance(event, rt.UsageSoFar):
                    break
        memory = await agent.ask(rt.GetMemory())
    assert [message.content for message in memory.messages] == ["go", "It is noon."]
