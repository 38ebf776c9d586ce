"""What people write who have not made a team before: each slip is told what would be right."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import retinue as rt
from retinue import llm
from team_players import Made, contents

SPEC = rt.Agent.spec(model="scripted:hi")


@pytest.mark.parametrize("kind", [set, frozenset])
async def test_a_set_of_members_is_refused_for_it_has_no_order(kind: Any) -> None:
    async with rt.ActorSystem("slips") as system:
        with pytest.raises(rt.DefinitionError, match=rf"Sequential\(members=…\) is a {kind.__name__}, which has no order: give a list"):
            await system.spawn(rt.Sequential, kind([SPEC]))
        with pytest.raises(rt.DefinitionError, match="no order"):
            await system.spawn(rt.Supervisor, lead=SPEC, workers=kind([SPEC]))


class Plain(rt.Team):
    def forward(self, run: rt.TeamRun) -> str:  # type: ignore[override]
        return "x"


class Forgetful(rt.Team):
    def __init__(self, members: Any) -> None:
        self.members = members

    async def forward(self, run: rt.TeamRun) -> str:
        return "x"


class ForgetfulAgent(rt.Agent):
    def __init__(self, model: str) -> None:
        self.named = model


async def test_a_forward_that_is_no_async_def_says_so() -> None:
    async with rt.ActorSystem("slips") as system:
        team = await system.spawn(Plain, [SPEC], name="team")
        with pytest.raises(rt.TeamError, match="/user/team: its forward is no `async def`, and returned a str"):
            await team.ask("x")


@pytest.mark.parametrize(("cls", "given", "call"), [(Forgetful, [], r"\(members\)"), (ForgetfulAgent, "scripted:x", r"\(model=…\)")])
async def test_a_constructor_that_calls_no_other_says_so(cls: Any, given: Any, call: str) -> None:
    async with rt.ActorSystem("slips") as system:
        with pytest.raises(
            rt.DefinitionError, match=rf"{cls.__name__}.__init__ does not call that of its base: begin it with super\(\).__init__{call}"
        ):
            await system.spawn(cls, given)


async def test_a_gather_of_asks_that_were_called_already_is_refused_and_warns_of_nothing() -> None:
    async def called(run: rt.TeamRun) -> Any:
        return await run.gather([run.ask("0", "one"), run.ask("0", "two")])  # type: ignore[list-item]

    async with rt.ActorSystem("slips") as system:
        team = await system.spawn(Made, [SPEC], called)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(rt.BadInput, match="pairs of a member and a message"):
                await team.ask("x")


async def test_what_is_an_agent_and_no_tool_is_told_of_agent_tool() -> None:
    async with rt.ActorSystem("slips") as system:
        ref = await system.spawn(rt.Agent, model="scripted:hi", name="historian")
        for given, fix in ((ref, r"rt\.agent_tool\(ref\)"), (SPEC, r"rt\.agent_tool\(spec, name=")):
            with pytest.raises(rt.DefinitionError, match=fix):
                await system.spawn(rt.Agent, model="scripted:hi", tools=[given])
        tools = [rt.agent_tool(ref), rt.agent_tool(SPEC, name="ask_historian")]
        with pytest.raises(
            rt.DefinitionError, match=r"that for the agent /user/historian, and that for Agent\.spec\(…\).*rt\.agent_tool\(agent, name=…\)"
        ):
            await system.spawn(rt.Agent, model="scripted:hi", tools=tools)


async def test_a_state_from_before_a_member_came_says_how_to_begin_with_that() -> None:
    async with rt.ActorSystem("slips") as system:
        team = await system.spawn(rt.Sequential, {"a": SPEC})
        await team.ask("x")
        state = await team.ask(rt.GetState())
        other = await system.spawn(rt.Sequential, {"a": SPEC, "b": SPEC})
        with pytest.raises(rt.UnknownStateKey, match=r"begin it with state\['b\.memory'\] = \[\]"):
            await other.ask(rt.LoadState(state))
        state["b.memory"] = []
        await other.ask(rt.LoadState(state))
        assert await contents(other, path="a") == ["x", "hi"]


async def test_a_handoff_to_a_paused_member_is_not_taken_for_one_to_another() -> None:
    script = [llm.tool_calls(("transfer_to_refunds", {})), "one", llm.tool_calls(("transfer_to_sale", {})), "two"]
    async with rt.ActorSystem("slips") as system:
        triage = rt.Agent.spec(model=await system.spawn(llm.Scripted, script))
        desk = await system.spawn(rt.Swarm, {"triage": triage, "sales": SPEC, "refunds": SPEC})
        await desk.ask(rt.PauseMember("refunds"))
        assert [(await desk.ask(text)).content for text in ("x", "y")] == ["one", "two"]
        told = [step.text for step in (await desk.ask(rt.GetMemory(path="triage"))).steps if step.kind == "tool_result"]
    assert told == [
        "there is no tool 'transfer_to_refunds' now: nobody of that name is at work to whom you may hand over. The tools are: transfer_to_sales; or go on yourself",
        "there is no tool 'transfer_to_sale' now: nobody of that name is at work to whom you may hand over. Did you mean transfer_to_sales? The tools are: transfer_to_sales; or go on yourself",
    ]


async def test_the_pieces_of_map_reduce_are_told_apart_in_a_stream() -> None:
    async with rt.ActorSystem("slips") as system:
        mapper = rt.Agent.spec(model=await system.spawn(llm.Scripted, lambda request: request.messages[-1].content))
        team = await system.spawn(rt.MapReduce, mapper=mapper, reducer=SPEC)
        async with team.stream(rt.AgentMessage(["one", "two", "three"])) as events:
            told = [rt.innermost(event) async for event in events]
    ends = {path: event.message.content for path, event in told if isinstance(event, rt.RunEnd)}
    assert ends == {("mapper", "1"): "one", ("mapper", "2"): "two", ("mapper", "3"): "three", ("reducer",): "hi", (): "hi"}
    assert {path for path, _ in told} == set(ends)


async def test_the_run_of_a_member_is_resumed_by_the_teams_and_the_error_says_so() -> None:
    @rt.tool(approval=True)
    def pay(to: str) -> str:
        """Pays."""
        return f"paid {to}"

    async with rt.ActorSystem("slips") as system:
        model = await system.spawn(llm.Scripted, [llm.tool_calls(("pay", {"to": "bob"})), "done"])
        team = await system.spawn(rt.Sequential, {"bank": rt.Agent.spec(model=model, tools=[pay])}, name="team")
        told: list[Any] = []
        with pytest.raises(rt.ApprovalRequired) as caught:
            async with team.stream("pay bob") as events:
                async for event in events:
                    told.append(rt.innermost(event))
        runs = {path: event.run for path, event in told if isinstance(event, rt.ApprovalNeeded)}
        assert set(runs) == {("bank",), ()}
        with pytest.raises(
            rt.NoSuchRun,
            match=f"is the run of 'bank', which is a part of the team's own: go on with that one, rt.Resume\\('{caught.value.run}'\\)",
        ):
            await team.ask(rt.Resume(str(runs[("bank",)])))
        token = await system.approvals.approve(caught.value.requests[0].id, reviewer="carol")
        assert (await team.ask(rt.Resume(str(runs[()])), approvals=[token])).content == "done"
