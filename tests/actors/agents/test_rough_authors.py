"""What an agent was made with may do anything, and what is asked of it may be anything: one run ends, with an error that says so, and nothing else does."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest
import trio

import retinue as rt
from agent_players import agent_system, read
from retinue import llm


class Odd(BaseException):
    """What nobody expects."""


@attrs.frozen
class Box:
    """Something in something."""

    content: Any


ODD = [asyncio.CancelledError, Odd, SystemExit, lambda: BaseExceptionGroup("several", [Odd()])]


def raising(error: Any) -> Any:
    def one(_: Any) -> Any:
        raise error()

    return one


def raising_later(error: Any) -> Any:
    async def one(_: Any) -> Any:
        await trio.lowlevel.checkpoint()
        raise error()

    return one


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("error", ODD, ids=["asyncio", "odd", "exit", "group"])
@pytest.mark.parametrize("make", [raising, raising_later])
async def test_instructions_that_raise_what_is_no_exception_end_the_run_alone(make: Any, error: Any, streamed: bool) -> None:
    async with agent_system(["fine"], instructions=make(error)) as (system, agent):
        other = await system.spawn(rt.Agent, model="scripted:Hello!", name="other")
        [*_, found] = await read(agent, "go") if streamed else [await asked(agent)]
        assert isinstance(found, rt.AgentError) and "made with" in str(found)
        assert (await other.ask("hi")).content == "Hello!"
        assert (await agent.ask(rt.GetMemory())).items == ()


async def asked(agent: Any) -> Any:
    try:
        return await agent.ask("go")
    except Exception as error:
        return error


@pytest.mark.parametrize("error", ODD, ids=["asyncio", "odd", "exit", "group"])
@pytest.mark.parametrize("make", [raising, raising_later])
async def test_hooks_and_guardrails_that_raise_what_is_no_exception_fail_as_with_any_other(make: Any, error: Any) -> None:
    plain = rt.hook("before_run")(make(error))
    async with agent_system(["fine"], hooks=[plain]) as (_, agent):
        assert (await agent.ask("go")).content == "fine"
    async with agent_system(["fine"], hooks=[rt.PolicyHook(make(error), ["before_run"])]) as (_, agent):
        assert isinstance(await asked(agent), rt.HookBlocked)
    for stage in ("input", "output"):
        async with agent_system(["fine"], guardrails=[rt.guardrail(stage)(make(error))]) as (_, agent):
            assert isinstance(await asked(agent), rt.GuardrailBlocked)


async def test_an_aggregator_that_exits_ends_the_run_alone() -> None:
    async with agent_system(["fine"], aggregator=raising(SystemExit)) as (_, agent):
        assert isinstance(await asked(agent), rt.AgentError)
        assert (await agent.ask(rt.GetMemory())).items == ()


@pytest.mark.parametrize("recent", ["x", 1.5, -1, True, [1]])
async def test_how_much_of_a_memory_is_wanted_has_to_be_a_number(recent: Any) -> None:
    async with agent_system(["fine"] * 2) as (_, agent):
        await agent.ask("one")
        for _ in range(12):
            with pytest.raises(rt.BadInput, match="recent"):
                await agent.ask(rt.GetMemory(recent=recent))
        assert len((await agent.ask(rt.GetMemory(recent=1))).messages) == 1


class Fickle:
    """What can be copied until it cannot."""

    def __init__(self, broken: list[bool]) -> None:
        self.broken = broken

    def __deepcopy__(self, memo: dict[int, Any]) -> Fickle:
        if self.broken:
            raise ValueError("not any more")
        return Fickle(self.broken)


async def test_a_memory_that_cannot_be_read_is_an_error_and_restarts_nothing() -> None:
    broken: list[bool] = []
    async with agent_system(["fine", "still here"]) as (_, agent):
        await agent.ask(rt.AgentMessage(Fickle(broken)))
        broken.append(True)
        for _ in range(12):
            with pytest.raises(rt.BadInput, match="copied"):
                await agent.ask(rt.GetMemory())
        assert (await agent.ask("and now?")).content == "still here"


async def test_a_hook_that_empties_the_message_ends_the_run_before_memory_has_it() -> None:
    async with agent_system(["fine"], hooks=[rt.hook("before_run")(lambda _: rt.Replace(""))]) as (_, agent):
        with pytest.raises(rt.BadInput, match="empty"):
            await agent.ask("go")
        assert (await agent.ask(rt.GetMemory())).items == ()


async def test_time_that_is_over_before_the_model_is_asked_gives_the_budget_back() -> None:
    async def slow(_: Any) -> str:
        await trio.sleep(0.05)
        return "Be brief."

    async with agent_system(["fine"], instructions=slow, limits=rt.RunLimits(seconds=0.02)) as (system, agent):
        context = system.authority.mint("ada", ["**", rt.limit(tokens=1_000)])
        with pytest.raises(rt.RunLimitReached, match="seconds"):
            await agent.ask("go", context=context)
        balances = await system.budgets.balance(context)
    assert [(each.reserved.tokens, each.remaining.tokens) for each in balances] == [(0, 1_000)]


async def test_a_park_does_not_let_a_model_repeat_itself_for_ever() -> None:
    ran: list[int] = []

    @rt.tool(approval=True)
    async def send() -> str:
        """Sends."""
        return "sent"

    async def look() -> str:
        """Looks."""
        ran.append(1)
        return "nothing"

    script = [llm.tool_calls(("look", {}), ("send", {})) for _ in range(5)]
    async with agent_system([*script, "Done."], tools=[send, look], limits=rt.RunLimits(repeated_calls=2)) as (system, agent):
        run, ends = None, 0
        for _ in range(5):
            try:
                await agent.ask("go" if run is None else rt.Resume(run))
            except rt.ApprovalRequired as required:
                run = required.run
                await system.approvals.approve(required.request.id, reviewer="carol")
            except rt.RunLimitReached:
                ends += 1
                break
    assert len(ran) == 2
