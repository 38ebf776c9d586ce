"""What a subject may spend on models: whoever leaves a run in its middle, or is refused its end, has had what was said until then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

import retinue as rt
from agent_players import Hanging, agent_system, read
from retinue import llm

BUDGET = 1_000


class Breaking(llm.Deployment):
    """A model that breaks off after a few words."""

    async def stream_once(self, request: llm.Complete) -> AsyncIterator[llm.ModelEvent]:
        yield llm.TextDelta("word " * 60)
        raise llm.ModelFailed("broken off", status=502)


async def spent(system: rt.ActorSystem, who: Any) -> tuple[int, int]:
    """Tokens that are spent, and those that are reserved still when everything has had the time to end."""
    with trio.move_on_after(5):
        while True:
            [balance] = await system.budgets.balance(who)
            if not balance.reserved.tokens:
                break
            await trio.sleep(0.001)
    return balance.spent.tokens, balance.reserved.tokens


async def test_who_leaves_a_stream_in_its_middle_pays_for_the_prompt_and_for_what_was_said() -> None:
    async with rt.ActorSystem("agents") as system:
        model = await system.spawn(Hanging, trio.Event(), trio.Event(), ("word " * 60,), name="model")
        agent = await system.spawn(rt.Agent, model=model, name="agent")
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=BUDGET)])
        async with agent.stream("go", context=ada) as events:
            async for _ in events:
                break
        used, reserved = await spent(system, ada)
        assert reserved == 0 and 100 <= used < BUDGET / 2  # three hundred characters, a low guess of three to a token
        with pytest.raises(rt.BudgetExceeded):
            for _ in range(20):
                async with agent.stream("go", context=ada) as events:
                    async for _ in events:
                        break
                await spent(system, ada)


async def test_a_stream_that_breaks_off_is_paid_as_far_as_it_came() -> None:
    async with rt.ActorSystem("agents") as system:
        model = await system.spawn(Breaking, name="model")
        agent = await system.spawn(rt.Agent, model=model, name="agent")
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=BUDGET)])
        [*_, error] = await read(agent, "go", context=ada)
        assert isinstance(error, llm.ModelFailed)
        used, reserved = await spent(system, ada)
    assert reserved == 0 and 100 <= used < BUDGET / 2


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_that_a_guardrail_keeps_back_is_paid_for(streamed: bool) -> None:
    answer = llm.Completion("the secret", "m", llm.Usage(1, 100, 50), "stop")
    never = rt.guardrail("output")(lambda _: rt.Block("no"))
    async with agent_system([answer], guardrails=[never]) as (system, agent):
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=BUDGET)])
        if streamed:
            [*_, error] = await read(agent, "go", context=ada)
            assert isinstance(error, rt.GuardrailBlocked)
        else:
            with pytest.raises(rt.GuardrailBlocked):
                await agent.ask("go", context=ada)
        assert await spent(system, ada) == (150, 0)
