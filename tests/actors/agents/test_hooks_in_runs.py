"""Hooks in an agent's runs: every phase, asked and streamed alike."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import retinue as rt
from agent_players import agent_system, read, results, said_to
from retinue import llm

SCRIPT = [llm.tool_calls(("send", {"amount": 10})), "Done."]
sent: list[int] = []


def send(amount: int) -> str:
    """Sends money."""
    sent.append(amount)
    return f"sent {amount}"


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    sent.clear()


async def asked(agent: Any, streamed: bool, message: Any = "Send 10") -> Any:
    """The answer, or the error."""
    if streamed:
        last = (await read(agent, message))[-1]
        return last.message if isinstance(last, rt.RunEnd) else last
    try:
        return await agent.ask(message)
    except rt.AgentError as error:
        return error


BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])


@BOTH
async def test_each_phase_of_a_run_is_told_in_order_with_its_payload(streamed: bool) -> None:
    told: list[tuple[str, str]] = []

    def watch(context: rt.HookContext) -> None:
        told.append((context.phase, type(context.payload).__name__))

    async with agent_system(SCRIPT, tools=[send], hooks=[watch]) as (_, agent):
        await asked(agent, streamed)
    assert told == [
        ("before_run", "AgentMessage"),
        ("before_model_request", "Complete"),
        ("after_model_response", "Completion"),
        ("before_tool_call", "ToolCall"),
        ("after_tool_result", "ToolResult"),
        ("before_model_request", "Complete"),
        ("after_model_response", "Completion"),
        ("after_run", "AgentMessage"),
    ]


@BOTH
async def test_what_after_run_puts_in_place_is_seen_by_the_caller_and_not_by_memory(streamed: bool) -> None:
    @rt.hook("after_run")
    def signed(context: rt.HookContext) -> Any:
        return rt.Replace(context.payload.content + " -- checked")

    async with agent_system(["Hello."], hooks=[signed]) as (_, agent):
        reply = await asked(agent, streamed)
        memory = await agent.ask(rt.GetMemory())
    assert reply.content == "Hello. -- checked"
    assert memory.messages[-1].content == "Hello."


@BOTH
async def test_what_before_run_puts_in_place_is_what_is_remembered_and_said_to_the_model(streamed: bool) -> None:
    told: list[llm.Complete] = []
    hook = rt.hook("before_run")(lambda context: rt.Replace(context.payload.content.upper()))
    async with agent_system(said_to(told, "ok"), hooks=[hook]) as (_, agent):
        await asked(agent, streamed, "hi")
        memory = await agent.ask(rt.GetMemory())
    assert told[0].messages[-1].content == "HI" == memory.messages[0].content


@BOTH
@pytest.mark.parametrize("phase", ["before_run", "before_model_request", "after_model_response", "after_run"])
async def test_a_block_ends_the_run_and_leaves_nothing_of_it(phase: Any, streamed: bool) -> None:
    async with agent_system(["Hello.", "Again."], hooks=[rt.PolicyHook(lambda _: rt.Block("closed"), [phase])]) as (_, agent):
        error = await asked(agent, streamed)
        memory = await agent.ask(rt.GetMemory())
    assert isinstance(error, rt.HookBlocked) and (error.phase, error.reason) == (phase, "closed")
    assert memory.items == ()


@BOTH
async def test_a_blocked_tool_call_is_a_result_for_the_model(streamed: bool) -> None:
    async with agent_system(SCRIPT, tools=[send], hooks=[rt.hook("before_tool_call")(lambda _: rt.Block("not on Sundays"))]) as (_, agent):
        reply = await asked(agent, streamed)
        (result,) = results(await agent.ask(rt.GetMemory()))
    assert reply.content == "Done." and sent == []
    assert (result.ok, result.error) == (False, "denied") and "not on Sundays" in result.text


@BOTH
@pytest.mark.parametrize("handler", [lambda _: "retry"[:0] or 0, lambda _: {"allowed": True}, lambda _: 1 / 0], ids=["0", "dict", "raises"])
async def test_a_policy_hook_that_fails_lets_no_tool_run(handler: Any, streamed: bool) -> None:
    """LightAgent B7 and B8."""
    later: list[str] = []
    hooks = [rt.PolicyHook(handler, ["before_tool_call"]), rt.hook("before_tool_call")(lambda _: later.append("called"))]
    async with agent_system(SCRIPT, tools=[send], hooks=hooks) as (_, agent):
        await asked(agent, streamed)
    assert sent == [] and later == []


@BOTH
async def test_a_plain_hook_that_fails_is_told_of_and_a_policy_hook_behind_it_is_still_asked(streamed: bool) -> None:
    hooks = [rt.hook("before_tool_call")(lambda _: {"typo": 1}), rt.PolicyHook(lambda _: False, ["before_tool_call"])]
    async with agent_system(SCRIPT, tools=[send], hooks=hooks) as (_, agent):
        if streamed:
            events = await read(agent, "Send 10")
            assert any(isinstance(event, rt.Notice) and event.kind == "hook.failed" for event in events)
        else:
            await asked(agent, streamed)
    assert sent == []


@BOTH
async def test_arguments_that_a_hook_has_changed_are_checked_guarded_and_judged_anew(streamed: bool) -> None:
    """LightAgent B12: limit 10, executed 99,999."""
    hook = rt.hook("before_tool_call")(lambda context: rt.Replace({**context.arguments, "amount": 99_999}))
    guard = rt.high_risk_parameter({"amount": lambda value: value > 100})
    async with agent_system(SCRIPT, tools=[send], hooks=[hook], guardrails=[guard]) as (_, agent):
        await asked(agent, streamed)
        (result,) = results(await agent.ask(rt.GetMemory()))
    assert sent == [] and result.error == "denied" and "high risk" in result.text


async def test_the_gate_judges_what_a_hook_has_made_of_the_arguments() -> None:
    hook = rt.hook("before_tool_call")(lambda _: rt.Replace({"amount": 99_999}))
    async with agent_system(SCRIPT, tools=[send], hooks=[hook]) as (system, agent):
        caller = system.authority.mint(
            subject="ada", permissions=["model.complete", "tool.send", rt.where("tool.send", amount=rt.at_most(10))]
        )
        await agent.ask("Send 10", context=caller)
        (result,) = results(await agent.ask(rt.GetMemory(), context=caller))
    assert sent == [] and result.error == "denied"


async def test_arguments_of_another_type_are_an_error_for_the_model() -> None:
    hook = rt.hook("before_tool_call")(lambda _: rt.Replace({"amount": "many"}))
    async with agent_system(SCRIPT, tools=[send], hooks=[hook]) as (_, agent):
        await agent.ask("Send 10")
        (result,) = results(await agent.ask(rt.GetMemory()))
    assert sent == [] and result.error == "arguments" and "amount" in result.text


@BOTH
async def test_a_tool_result_may_be_replaced_before_the_model_and_memory_see_it(streamed: bool) -> None:
    told: list[llm.Complete] = []
    hook = rt.hook("after_tool_result")(lambda _: rt.Replace("[cut]"))
    async with agent_system(said_to(told, *SCRIPT), tools=[send], hooks=[hook]) as (_, agent):
        await asked(agent, streamed)
        (result,) = results(await agent.ask(rt.GetMemory()))
    assert sent == [10] and result.text == "[cut]" == told[1].messages[-1].content


@BOTH
async def test_on_error_sees_the_error_and_may_put_another_in_its_place(streamed: bool) -> None:
    class Kinder(rt.AgentError):
        """Said politely."""

    seen: list[Any] = []

    @rt.hook("on_error")
    def kinder(context: rt.HookContext) -> Any:
        seen.append(context.payload)
        return rt.Replace(Kinder("please try again"))

    def broken(_: llm.Complete) -> Any:
        raise llm.ModelFailed("down", status=500)

    async with agent_system([broken], hooks=[kinder]) as (_, agent):
        error = await asked(agent, streamed)
    assert isinstance(seen[0], llm.ModelError) and type(error).__name__ == "Kinder"


async def test_a_slow_policy_hook_of_one_session_does_not_hold_another() -> None:
    gate = trio.Event()

    async def slow(context: rt.HookContext) -> None:
        if context.session == "slow":
            await gate.wait()

    def answers(_: llm.Complete) -> str:
        return "ok"

    async with (
        agent_system([answers, answers], hooks=[rt.PolicyHook(slow, ["before_run"], timeout=30)]) as (_, agent),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(agent.ask, rt.AgentMessage("a", session="slow"))
        with trio.fail_after(5):
            await agent.ask(rt.AgentMessage("b", session="fast"))
        gate.set()


async def test_a_run_that_waits_for_a_person_has_phases_of_its_own() -> None:
    told: list[tuple[str, Any]] = []

    @rt.hook("on_approval_required", "on_resume")
    def watch(context: rt.HookContext) -> None:
        told.append((context.phase, context.payload))

    tool = rt.tool(approval=True)(send)
    async with agent_system(SCRIPT, tools=[tool], hooks=[watch]) as (system, agent):
        with pytest.raises(rt.ApprovalRequired) as caught:
            await agent.ask("Send 10")
        token = await system.approvals.approve(caught.value.requests[0].id, reviewer="carol")
        await agent.ask(rt.Resume(caught.value.run), approvals=[token])
    assert [phase for phase, _ in told] == ["on_approval_required", "on_resume"]
    assert told[0][1][0].arguments == {"amount": 10} and told[1][1].run == caught.value.run and sent == [10]


@pytest.mark.parametrize("phase", ["on_approval_required", "on_resume"])
async def test_a_block_there_ends_the_run_and_nothing_is_sent(phase: Any) -> None:
    tool = rt.tool(approval=True)(send)
    async with agent_system(SCRIPT, tools=[tool], hooks=[rt.PolicyHook(lambda _: False, [phase])]) as (system, agent):
        if phase == "on_approval_required":
            with pytest.raises(rt.HookBlocked):
                await agent.ask("Send 10")
        else:
            with pytest.raises(rt.ApprovalRequired) as caught:
                await agent.ask("Send 10")
            token = await system.approvals.approve(caught.value.requests[0].id, reviewer="carol")
            with pytest.raises(rt.HookBlocked):
                await agent.ask(rt.Resume(caught.value.run), approvals=[token])
    assert sent == []
