"""Who hands over, and who does not: nothing is done twice for it, nobody speaks under another's name, and no history says of a handoff that it was when it was not."""

from __future__ import annotations

from typing import Any

import pytest

import retinue as rt
from agent_players import agent_system
from retinue import llm
from swarm_players import over
from team_players import Made, Sender, parked_by


def transfers(*calls: tuple[str, Any]) -> llm.Completion:
    return llm.tool_calls(*calls)


@pytest.mark.parametrize("other", ["unknown tool", "bad handoff before", "bad handoff after"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_handoff_in_a_reply_with_one_bad_call_too_many_is_not_carried_out_and_memory_says_so(other: str, streamed: bool) -> None:
    good, bad = ("transfer_to_a", {"reason": "r"}), ("transfer_to_b", '{"reason": ')
    reply = {
        "unknown tool": transfers(good, ("nothing", {})),
        "bad handoff before": transfers(bad, good),
        "bad handoff after": transfers(good, bad),
    }[other]
    wanted = rt.Run("Hello", handoffs=["a", "b"], limits=rt.RunLimits(bad_calls=0))
    async with agent_system([reply]) as (_, agent):
        if other == "bad handoff after":  # what comes after the one that counts is not looked at
            assert (await agent.ask(wanted)).receiver == "a"
            return
        with pytest.raises(rt.RunLimitReached) as caught:
            if streamed:
                async with agent.stream(wanted) as events:
                    async for _ in events:
                        pass
            else:
                await agent.ask(wanted)
        assert caught.value.limit == "bad_calls"
        steps = (await agent.ask(rt.GetMemory())).steps
        assert not any("handed over" in step.text for step in steps)
        assert [step.text for step in steps if step.tool == "transfer_to_a"] == ["not carried out: the run has reached its limit bad_calls"]


async def test_a_handoff_whose_reply_is_cut_off_after_it_is_not_said_to_be_carried_out() -> None:
    made = transfers(("transfer_to_a", {}), ("transfer_to_b", '{"rea'))
    cut = llm.Completion(finish_reason="length", tool_calls=(made.tool_calls[0], _truncated(made.tool_calls[1])))
    async with agent_system([cut]) as (_, agent):
        with pytest.raises(rt.RunLimitReached):
            await agent.ask(rt.Run("Hello", handoffs=["a", "b"], limits=rt.RunLimits(bad_calls=0)))
        assert not any("handed over" in step.text for step in (await agent.ask(rt.GetMemory())).steps)


def _truncated(call: llm.ToolCall) -> llm.ToolCall:
    return llm.ToolCall(call.id, call.name, call.arguments, truncated=True)


class Careless(rt.Actor):
    """A member that does something, and then finds that it cannot go on."""

    def __init__(self, done: list[str], error: Exception) -> None:
        self.done = done
        self.error = error

    @rt.handler(raises=Exception)
    async def answer(self, message: rt.AgentMessage) -> rt.AgentMessage:
        self.done.append(str(message.content))
        raise self.error

    @rt.handler(raises=Exception)
    async def run_with(self, message: rt.Run) -> rt.AgentMessage:
        self.done.append("with options")
        raise self.error


@pytest.mark.parametrize("error", [rt.BadInput("no"), rt.Unhandled("no")], ids=["bad input", "unhandled"])
@pytest.mark.parametrize("within", ["itself", "team"])
async def test_a_member_that_fails_after_it_has_done_something_is_not_asked_again_without_handoffs(error: Exception, within: str) -> None:
    done: list[str] = []
    async with rt.ActorSystem("desk") as system:
        careless = await system.spawn(Careless, done, error)
        member = careless if within == "itself" else await system.spawn(rt.Sequential, [careless])
        for kind in (rt.Swarm, rt.RoundRobin):
            options: Any = {} if kind is rt.Swarm else {"until": rt.HandedTo("user") | rt.MaxMessages(2)}
            team: Any = await system.spawn(kind, {"a": member, "b": member}, **options)
            done.clear()
            with pytest.raises(type(error)):
                await team.ask("go")
            assert len(done) == 1


async def test_who_takes_no_handoffs_is_found_out_once_and_not_anew_in_each_turn() -> None:
    asked: list[str] = []

    async def forward(run: rt.TeamRun) -> rt.AgentMessage:
        asked.append(str(run.message.content))
        return rt.AgentMessage("x")

    async with rt.ActorSystem("desk") as system:
        team = await system.spawn(rt.RoundRobin, {"a": Made.spec({}, forward)}, until=rt.HandedTo("user") | rt.MaxMessages(3))
        assert (await team.ask("go")).content == "x" and len(asked) == 3


async def test_a_run_that_is_resumed_finds_who_takes_no_handoffs_as_it_was() -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        inner = rt.Sequential.spec([await sender.agent(system, "bob")])
        swarm = await system.spawn(rt.Swarm, {"team": inner, "other": rt.Agent.spec(model="scripted:x")})
        waiting = await parked_by(swarm, "go")
        await system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        assert (await swarm.ask(rt.Resume(waiting.run or ""))).content == "yes" and sender.sent == ["bob"]


async def test_a_paused_member_that_has_not_spoken_is_not_spoken_for() -> None:
    told: list[str] = []

    def hear(request: llm.Complete) -> Any:
        told.append(request.messages[-1].content)
        return over("c") if len(told) == 1 else "done"

    async with rt.ActorSystem("desk") as system:
        model = await system.spawn(llm.Scripted, hear)
        members = {"a": rt.Agent.spec(model=model), "b": rt.Agent.spec(model="scripted:x"), "c": rt.Agent.spec(model=model)}
        swarm = await system.spawn(rt.Swarm, members)
        await swarm.ask(rt.PauseMember("b"))
        await swarm.ask(rt.AgentMessage("Give them all.", sender="b"))
        assert told[1].startswith("b (another): Give them all.")


@pytest.mark.parametrize("kind", [rt.Swarm, rt.RoundRobin])
async def test_a_member_that_is_added_under_the_askers_name_while_a_run_waits_makes_no_other_run_of_it(kind: Any) -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        members = {"a": await sender.agent(system, "bob"), "c": await sender.agent(system, "eve")}
        options: dict[str, Any] = {"handoffs": {}} if kind is rt.Swarm else {"rounds": 2}
        team = await system.spawn(kind, members, **options)
        waiting = await parked_by(team, rt.AgentMessage("go", sender="ann"))
        await team.ask(rt.AddMember("ann", rt.Agent.spec(model="scripted:x")))
        for _ in range(4):
            for request in waiting.requests:
                await system.approvals.approve(request.id, reviewer="carol")
            try:
                answer = await team.ask(rt.Resume(waiting.run or ""))
                break
            except rt.ApprovalRequired as error:
                waiting = error
        assert answer.content
