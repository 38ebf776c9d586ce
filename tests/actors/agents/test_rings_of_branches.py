"""Rings of asks that close in branches which go on at the same time: whoever is left when the others have ended is told so, too."""

from __future__ import annotations

import pytest
import trio

import retinue as rt
from retinue import llm
from team_players import Echo, Made

SOON = 5.0


async def kinds_of_failures(run: rt.TeamRun) -> str:
    found = await run.gather([(name, "x") for name in run.members], errors="return")
    return ", ".join(type(each).__name__ for each in found)


@pytest.mark.parametrize("times", [1, 2, 5])
async def test_a_team_that_is_its_own_member_several_times_is_told_so_in_each_branch(times: int) -> None:
    async with rt.ActorSystem("s") as system:
        team = await system.spawn(Made, {}, kinds_of_failures, name="team")
        for number in range(times):
            await team.ask(rt.AddMember(f"me{number}", team))
        answer = await team.ask("hi", timeout=SOON)
        assert answer.content == ", ".join(["AskCycle"] * times)


async def test_a_ring_is_told_of_when_the_branch_beside_it_has_ended() -> None:
    class Slow(rt.Actor):
        @rt.handler
        async def answer(self, message: rt.AgentMessage) -> rt.AgentMessage:
            await trio.sleep(0.05)
            return rt.AgentMessage("slowly")

    async with rt.ActorSystem("s") as system:
        team = await system.spawn(rt.Parallel, {"slow": await system.spawn(Slow)}, failures="skip", name="team")
        within = await system.spawn(rt.Sequential, {"team": team}, name="within")
        await team.ask(rt.AddMember("within", within))
        answer = await team.ask("hi", timeout=SOON)
        assert answer.content == "slow: slowly"
        assert "AskCycle" in answer.extra["failed"]["within"] or "ask.cycle" in answer.extra["failed"]["within"]


async def test_branches_that_wait_for_somebody_who_is_only_slow_are_left_alone() -> None:
    gate = trio.Event()

    class Gated(rt.Actor):
        @rt.handler
        async def answer(self, message: rt.AgentMessage) -> rt.AgentMessage:
            await gate.wait()
            return rt.AgentMessage("let through")

    async with rt.ActorSystem("s") as system:
        gated = await system.spawn(Gated)
        members = {"quick": await system.spawn(Echo, [], "quick"), "a": gated, "b": await system.spawn(rt.Sequential, {"x": gated})}
        team = await system.spawn(rt.Parallel, members, name="team")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(later, gate)
            answer = await team.ask("hi", timeout=SOON)
        assert answer.content == "quick: quick(hi)\na: let through\nb: let through"


async def later(gate: trio.Event) -> None:
    await trio.sleep(0.05)
    gate.set()


async def test_two_calls_of_one_reply_that_lead_back_to_their_agent_are_both_told_so() -> None:
    def model(request: llm.Complete) -> llm.Completion | str:
        results = [each.content for each in request.messages if each.role == "tool"]
        return " ".join(str("AskCycle" in each) for each in results) or llm.tool_calls(
            ("ask_b", {"message": "x"}), ("ask_b", {"message": "y"})
        )

    async with rt.ActorSystem("s") as system:
        back = await system.spawn(rt.Sequential, {"echo": await system.spawn(Echo, [], "e")}, name="back")
        agent = await system.spawn(
            rt.Agent, model=await system.spawn(llm.Scripted, model), tools=[rt.agent_tool(back, name="ask_b")], name="a"
        )
        await back.ask(rt.AddMember("agent", agent))
        answer = await agent.ask("hi", timeout=SOON)
        assert answer.content == "True True"
