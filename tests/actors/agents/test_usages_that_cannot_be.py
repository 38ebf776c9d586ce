"""What a model or a member says that it used may be anything: it is counted where it can be true, and gives nothing back where it cannot."""

from __future__ import annotations

from typing import Any

import pytest

import retinue as rt
from retinue import llm
from retinue.actors.llm.usage import MOST_USED, sound

ODD: tuple[Any, ...] = (-1_000_000_000, -1, float("nan"), float("-inf"), 1.5, True, "5", MOST_USED + 1)


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_numbers_that_cannot_be_are_not_known(odd: Any) -> None:
    assert sound(llm.Usage(1, odd, 2, cost_micro_usd=3)) == llm.Usage(1, None, 2, cost_micro_usd=3)
    assert sound(llm.Usage(1, 1, odd, cost_micro_usd=odd)) == llm.Usage(1, 1, None)


def test_what_can_be_is_left_as_it_is() -> None:
    usage = llm.Usage(3, 0, MOST_USED, 1, 1, 0)
    assert sound(usage) is usage
    assert sound(None) is None
    assert sound("nothing of the kind") == llm.Usage()


@pytest.mark.parametrize("odd", ODD, ids=repr)
async def test_an_agent_within_gives_nothing_back_to_a_run(odd: Any) -> None:
    class Member(rt.Actor):
        @rt.handler
        def answer(self, message: rt.AgentMessage) -> rt.AgentMessage:
            return rt.AgentMessage("r", usage=llm.Usage(1, odd, odd, cost_micro_usd=odd))

    asked: list[Any] = []

    def model(request: llm.Complete) -> Any:
        asked.append(request)
        call = llm.ToolCall(str(len(asked)), "ask_r", '{"message": "go on"}')
        return llm.Completion("", "demo", llm.Usage(1, 300, 300), "tool_calls", (call,))

    async with rt.ActorSystem("desk") as system:
        member, deployment = await system.spawn(Member), await system.spawn(llm.Scripted, model)
        agent = await system.spawn(
            rt.Agent, model=deployment, tools=[rt.agent_tool(member, name="ask_r")], limits=rt.RunLimits(tokens=1_000, repeated_calls=None)
        )
        with pytest.raises(rt.RunLimitReached) as caught:
            await agent.ask("hi")
        assert caught.value.limit == "tokens"
        assert len(asked) == 1


async def test_a_model_gives_nothing_back_to_a_run_and_a_member_nothing_to_a_teams_sum() -> None:
    def model(request: llm.Complete) -> Any:
        return llm.Completion("ok", "demo", llm.Usage(1, -600, -600), "stop")

    async with rt.ActorSystem("desk") as system:
        deployment = await system.spawn(llm.Scripted, model)
        team = await system.spawn(rt.Sequential, {"w": rt.Agent.spec(model=deployment)})
        assert (await team.ask("hi")).usage == llm.Usage(1)
