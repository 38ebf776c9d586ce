"""Hooks and guardrails in runs: where they stand, what they may change, and what is remembered."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

import retinue as rt
from agent_players import agent_system, read, results, said_to
from retinue import llm


async def note(text: str) -> str:
    """Notes.

    Args:
        text: What.
    """
    return f"noted {text}"


def noting(text: str = "x") -> llm.Completion:
    return llm.tool_calls(("note", {"text": text}))


async def test_hooks_are_called_in_the_order_of_the_run() -> None:
    seen: list[str] = []

    def watch(context: rt.HookContext) -> None:
        seen.append(context.phase)

    async with agent_system([noting(), "done"], tools=[note], hooks=[watch]) as (_, agent):
        await agent.ask("go")
    assert seen == [
        "before_run",
        "before_model_request",
        "after_model_response",
        "before_tool_call",
        "after_tool_result",
        "before_model_request",
        "after_model_response",
        "after_run",
    ]


async def test_a_hook_after_the_run_changes_what_the_caller_sees_and_not_what_memory_holds() -> None:
    @rt.hook("after_run")
    def shout(context: rt.HookContext) -> rt.Replace:
        return rt.Replace(rt.AgentMessage(context.payload.content.upper(), sender="agent"))

    async with agent_system(["hello", "hello"], hooks=[shout]) as (_, agent):
        assert (await agent.ask("hi")).content == "HELLO"
        assert (await read(agent, "hi"))[-1].message.content == "HELLO"
        assert [message.content for message in (await agent.ask(rt.GetMemory())).messages] == ["hi", "hello"] * 2


async def test_a_hook_before_the_run_changes_what_is_remembered_and_told() -> None:
    told: list[llm.Complete] = []

    @rt.hook("before_run")
    def prefix(context: rt.HookContext) -> rt.Replace:
        return rt.Replace(attrs.evolve(context.payload, content=f"Criticise: {context.payload.content}"))

    async with agent_system(said_to(told, "ok"), hooks=[prefix]) as (_, agent):
        await agent.ask("a draft")
        assert (await agent.ask(rt.GetMemory())).messages[0].content == "Criticise: a draft"
    assert told[0].messages[0].content == "Criticise: a draft"


@pytest.mark.parametrize("phase", ["before_run", "before_model_request", "after_model_response", "after_run"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_hook_that_blocks_ends_the_run_and_nothing_of_it_is_remembered(phase: str, streamed: bool) -> None:
    @rt.hook(phase)
    def block(context: rt.HookContext) -> rt.Block:
        return rt.Block("not today")

    async with agent_system(["hello"] * 2, hooks=[block]) as (_, agent):
        error: Any = None
        if streamed:
            error = (await read(agent, "hi"))[-1]
        else:
            with pytest.raises(rt.HookBlocked) as caught:
                await agent.ask("hi")
            error = caught.value
        assert isinstance(error, rt.HookBlocked) and (error.phase, error.reason) == (phase, "not today")
        assert (await agent.ask(rt.GetMemory())).items == ()


async def test_a_hook_that_blocks_a_tool_call_is_a_result_and_the_run_goes_on() -> None:
    @rt.hook("before_tool_call")
    def block(context: rt.HookContext) -> rt.Block | None:
        return rt.Block("not that") if context.arguments.get("text") == "x" else None

    async with agent_system([llm.tool_calls(("note", {"text": "x"}), ("note", {"text": "y"})), "done"], tools=[note], hooks=[block]) as (
        _,
        agent,
    ):
        assert (await agent.ask("go")).content == "done"
        steps = results(await agent.ask(rt.GetMemory()))
    assert [(step.ok, step.error) for step in steps] == [(False, "denied"), (True, None)] and "not that" in steps[0].text


async def test_what_a_hook_makes_of_a_call_is_validated_and_gated_anew() -> None:
    @rt.hook("before_tool_call")
    def change(context: rt.HookContext) -> rt.Replace:
        return rt.Replace({"text": context.arguments["text"] * 2} if context.arguments["text"] == "ok" else {"txt": 7})

    script = [llm.tool_calls(("note", {"text": "ok"}), ("note", {"text": "bad"})), "done"]
    async with agent_system(script, tools=[note], hooks=[change]) as (_, agent):
        await agent.ask("go")
        good, bad = results(await agent.ask(rt.GetMemory()))
    assert good.text == "noted okok" and (bad.ok, bad.error) == (False, "arguments")


async def test_a_hook_changes_the_result_that_the_model_is_told() -> None:
    told: list[llm.Complete] = []

    @rt.hook("after_tool_result")
    def change(context: rt.HookContext) -> rt.Replace:
        return rt.Replace(attrs.evolve(context.payload, text="[kept back]"))

    async with agent_system(said_to(told, noting(), "done"), tools=[note], hooks=[change]) as (_, agent):
        await agent.ask("go")
    assert told[1].messages[-1].content == "[kept back]"


async def test_a_hook_sees_the_error_of_a_run_and_may_put_another_in_its_place() -> None:
    class Friendly(Exception):
        pass

    @rt.hook("on_error")
    def kinder(context: rt.HookContext) -> rt.Replace:
        return rt.Replace(Friendly(f"sorry: {type(context.payload).__name__}"))

    async with agent_system([llm.ModelFailed("overloaded", status=503)], hooks=[kinder]) as (_, agent):
        with pytest.raises(Friendly, match="sorry: ModelFailed"):
            await agent.ask("hi")


async def test_a_policy_hook_that_fails_blocks_and_a_plain_one_does_not() -> None:
    def broken(context: rt.HookContext) -> None:
        raise KeyError("secret")

    async with agent_system(["ok", "never"], hooks=[rt.hook("before_run")(broken)]) as (_, agent):
        events = await read(agent, "hi")
        assert isinstance(events[-1], rt.RunEnd)
        notices = [event for event in events if isinstance(event, rt.Notice)]
        assert [notice.kind for notice in notices] == ["hook.failed"] and "secret" not in notices[0].text
    async with agent_system(["never"], hooks=[rt.PolicyHook(broken, ["before_run"])]) as (_, agent):
        with pytest.raises(rt.HookBlocked):
            await agent.ask("hi")


async def test_an_input_that_a_guardrail_blocks_is_never_remembered_and_one_that_it_changes_is_remembered_changed() -> None:
    told: list[llm.Complete] = []
    async with agent_system(said_to(told, "ok"), guardrails=[rt.privacy_input()]) as (_, agent):
        await agent.ask("mail me at ada@example.com")
        memory = await agent.ask(rt.GetMemory())
    assert "ada@example.com" not in memory.messages[0].content
    assert "ada@example.com" not in told[0].messages[-1].content


async def test_an_output_guardrail_holds_on_answers_and_on_streams_alike() -> None:
    secret = "the key is sk-abcdefghijklmnopqrstuvwx, keep it"
    async with agent_system([secret] * 2, guardrails=[rt.output_redaction([r"sk-[a-z]+"])]) as (_, agent):
        asked = await agent.ask("hi")
        events = await read(agent, "hi")
        memory = await agent.ask(rt.GetMemory())
    streamed = "".join(event.text for event in events if isinstance(event, rt.TextDelta))
    assert "sk-abc" not in asked.content and asked.content == streamed == events[-1].message.content
    assert all("sk-abc" not in str(message.content) for message in memory.messages)


async def test_a_sensitive_tool_needs_a_person_whatever_its_own_options_say() -> None:
    async with agent_system([noting(), "done"], tools=[note], guardrails=[rt.sensitive_tool_confirmation(["note"])]) as (system, agent):
        with pytest.raises(rt.ApprovalRequired) as caught:
            await agent.ask("go")
        await system.approvals.approve(caught.value.request.id, reviewer="carol")
        assert (await agent.ask(rt.Resume(caught.value.run or ""))).content == "done"
