"""Who may do what with agents and teams: nobody gets what root has vouched for, and whoever changes a member gives and takes nobody's authority."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import trio
import trio.testing

import retinue as rt
from agent_players import agent_system
from retinue import llm
from team_players import Made, Waiting


async def outcome(waited: Any) -> Any:
    try:
        return await waited
    except rt.RetinueError as error:
        return error


async def at_once_behind(blocked: Any, gate: trio.Event, *asks: Any) -> list[Any]:
    """What comes of asks that stand in a mailbox one behind the other, while its actor is at something else."""
    found: list[Any] = [None] * len(asks)

    async def note(place: int, waited: Any) -> None:
        found[place] = await outcome(waited)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(outcome, blocked)
        await trio.testing.wait_all_tasks_blocked()
        for place, waited in enumerate(asks):
            nursery.start_soon(note, place, waited)
            await trio.testing.wait_all_tasks_blocked()
        gate.set()
    return found


async def test_what_root_reads_of_a_team_is_not_read_by_who_asks_the_same_before_it() -> None:
    gate = trio.Event()
    async with rt.ActorSystem("desk") as system:
        waiting = await system.spawn(Waiting, [], [], gate)

        async def forward(run: rt.TeamRun) -> Any:
            return await run.ask("w", run.message) if run.message.content == "wait" else "noted"

        team = await system.spawn(Made, {"w": waiting}, forward, name="team")
        ada, eve = system.authority.mint("ada", ["**"]), system.authority.mint("eve", ["nothing.at.all"])
        await team.ask("a secret", context=ada)
        await team.ask("hello")
        roots = system.registry.get("/user/team/sessions/0:root")
        eves, root = await at_once_behind(
            team.ask("wait"), gate, roots.ask(rt.GetState("0", "ada"), context=eve), team.ask(rt.GetState("0", "ada"))
        )
        assert isinstance(eves, rt.Denied)
        assert [item["content"] for item in root["memory"]] == ["a secret", "noted"]


@pytest.mark.parametrize("again", [rt.ClearMemory("0", "ada"), rt.LoadState({"memory": []}, "0", "ada"), rt.Cancel("0", "0/5f", "ada")])
async def test_what_root_changes_of_an_agent_is_not_changed_by_who_asks_the_same_before_it(again: Any) -> None:
    gate = trio.Event()

    async def hold() -> str:
        """Waits."""
        await gate.wait()
        return "done"

    def model(request: llm.Complete) -> Any:
        return llm.tool_calls(("hold", {})) if request.messages[-1].content == "wait" else "noted"

    async with agent_system(model, tools=[hold]) as (system, agent):
        ada, eve = system.authority.mint("ada", ["**"]), system.authority.mint("eve", ["**"])
        await agent.ask("a secret", context=ada)
        adas = system.registry.get("/user/agent/sessions/0:ada")
        eves, root = await at_once_behind(agent.ask("wait", context=ada), gate, adas.ask(copy.copy(again), context=eve), agent.ask(again))
        assert isinstance(eves, rt.Denied)
        assert not isinstance(root, rt.Denied)


async def test_whoever_names_himself_reads_his_own_state_of_a_team() -> None:
    async def forward(run: rt.TeamRun) -> str:
        return "noted"

    async with rt.ActorSystem("desk") as system:
        team = await system.spawn(Made, {}, forward)
        ada = system.authority.mint("ada", ["**"], tenant="acme")
        await team.ask("hello", context=ada)
        for asked in (rt.GetState(), rt.GetState("0", "ada"), rt.GetState("0", "ada", "acme"), rt.GetState("0", None, "acme")):
            assert [item["content"] for item in (await team.ask(asked, context=ada))["memory"]] == ["hello", "noted"]
        with pytest.raises(rt.Denied):
            await team.ask(rt.GetState("0", "bob"), context=ada)


async def test_a_member_that_is_edited_keeps_its_authority_whoever_edits_it() -> None:
    async with rt.ActorSystem("desk") as system:
        model = await system.spawn(llm.Scripted, "ok")
        team = await system.spawn(rt.Sequential, {"w": rt.Agent.spec(model=model)})
        ada, boss = (
            system.authority.mint("ada", ["**"]),
            system.authority.mint("boss", ["agents.manage", rt.limit(tokens=5_000), rt.label("edited")]),
        )
        await team.ask(rt.EditMember("w", options={"instructions": "Be brief."}), context=boss)
        assert (await team.ask("hi", context=ada)).content == "ok"
        [balance] = await system.budgets.balance(boss)
        assert not balance.spent.tokens
        system.authority.revoke(boss)
        assert (await team.ask("hi", context=ada)).content == "ok"
        assert (await team.ask("hi")).content == "ok"


@rt.message
class Relayed(rt.Request[list[str]]):
    """Asks a team, and says what the turn that did has touched by then."""

    team: rt.Ref[Any]


class Relay(rt.Actor):
    @rt.handler
    async def relayed(self, message: Relayed) -> list[str]:
        await message.team.ask("hi")
        return sorted(self.ctx.security.labels)


@pytest.mark.parametrize("change", ["add", "edit"])
async def test_what_a_member_is_made_with_brings_the_labels_of_who_has_said_it(change: str) -> None:
    async with rt.ActorSystem("desk") as system:
        model = await system.spawn(llm.Scripted, "ok")
        spec = rt.Agent.spec(model=model)
        team = await system.spawn(rt.Sequential, {"w": spec})
        relay = await system.spawn(Relay)
        assert await relay.ask(Relayed(team)) == []
        boss = system.authority.mint("boss", ["**", rt.label("web")])
        what = rt.AddMember("x", spec) if change == "add" else rt.EditMember("w", options={"instructions": "Ignore all others."})
        await team.ask(what, context=boss)
        assert await relay.ask(Relayed(team)) == ["web"]
        await team.ask(rt.EditMember("x" if change == "add" else "w", options={"instructions": "Be brief."}))
        assert await relay.ask(Relayed(team)) == ["web"]  # labels are only ever added


async def test_a_member_that_is_edited_has_no_more_authority_than_before() -> None:
    paid: list[str] = []

    @rt.tool(requires="bank.pay")
    def pay() -> str:
        """Pays."""
        paid.append("paid")
        return "paid"

    async with rt.ActorSystem("desk") as system:
        model = await system.spawn(
            llm.Scripted, lambda request: llm.tool_calls(("pay", {})) if request.messages[-1].role == "user" else "ok"
        )
        spec = rt.Agent.spec(model=model, grant=["model.**"])
        team = await system.spawn(rt.Sequential, {"w": spec})
        for _ in range(2):  # it is the grant of the first that the third has
            await team.ask(rt.EditMember("w", options={"tools": [pay]}))
        await team.ask("hi")
        assert not paid


async def test_a_member_whose_authority_has_ended_cannot_be_edited() -> None:
    async with rt.ActorSystem("desk") as system:
        model = await system.spawn(llm.Scripted, "ok")
        team = await system.spawn(rt.AgentDict, {})
        boss = system.authority.mint("boss", ["**"])
        await team.ask(rt.AddMember("w", rt.Agent.spec(model=model)), context=boss)
        system.authority.revoke(boss)
        with pytest.raises(rt.Revoked):
            await team.ask(rt.EditMember("w", options={"instructions": "x"}))


async def test_hooks_see_whom_a_message_names_and_may_refuse() -> None:
    seen: list[Any] = []

    @rt.hook("on_handoff")
    def closed(context: rt.HookContext) -> Any:
        over = context.payload
        seen.append((over.source, over.target, over.reason))
        return rt.Block("the lawyer sleeps") if over.target == "lawyer" else None

    async with rt.ActorSystem("desk") as system:
        members = {name: rt.Agent.spec(model=f"scripted:{name}") for name in ("desk", "lawyer", "shop")}
        swarm = await system.spawn(rt.Swarm, members, handoffs={}, hooks=[closed])
        with pytest.raises(rt.HookBlocked, match="sleeps"):
            await swarm.ask(rt.AgentMessage("hi", receiver="lawyer"))
        assert (await swarm.ask("hi")).sender == "desk"
        assert (await swarm.ask(rt.AgentMessage("hi", receiver="shop"))).sender == "shop"
        assert (await swarm.ask(rt.AgentMessage("hi", receiver="shop"))).sender == "shop"
        assert seen == [("", "lawyer", "named"), ("desk", "shop", "named")]


@pytest.mark.parametrize("outer", [rt.Swarm, rt.AgentDict])
@pytest.mark.parametrize("inner", [rt.Swarm, rt.AgentDict])
async def test_a_receiver_is_used_up_and_leads_on_within_by_key_path(outer: Any, inner: Any) -> None:
    async with rt.ActorSystem("desk") as system:
        members = {name: rt.Agent.spec(model=f"scripted:{name}") for name in ("x", "y")}
        team = await system.spawn(outer, {"sales": inner.spec(members), "shop": rt.Agent.spec(model="scripted:shop")})
        assert (await team.ask(rt.AgentMessage("hi", receiver="sales.y"))).content == "y"
        assert (await team.ask(rt.AgentMessage("hi", receiver="shop"))).content == "shop"
        assert (await team.ask(rt.AgentMessage("hi", receiver="sales.x"))).content == "x"
        if inner is rt.Swarm:
            assert (await team.ask(rt.AgentMessage("hi", receiver="sales"))).content == "x"
        with pytest.raises(rt.NoSuchMember):
            await team.ask(rt.AgentMessage("hi", receiver="sales.z"))


@pytest.mark.parametrize(
    "talk",
    [
        "abc",
        {"lines": "abcd"},
        {"lines": [["x"], ["a", 5], "ab", ["a", "b", "c"]]},
        {"first": "x"},
        {"first": -(10**9)},
        {"first": 10**30},
        {"heard": {"desk": 10**30}},
        {"heard": ["desk"]},
        {"heard": {"desk": -1, "lawyer": True}},
    ],
    ids=str,
)
async def test_a_talk_that_was_loaded_and_is_none_leaves_a_swarm_that_answers(talk: Any) -> None:
    async with rt.ActorSystem("desk") as system:
        swarm = await system.spawn(rt.Swarm, {name: rt.Agent.spec(model=f"scripted:{name}") for name in ("desk", "lawyer")})
        state = await swarm.ask(rt.GetState())
        await swarm.ask(rt.LoadState({**state, "state": {"transcript": talk}}))
        assert (await swarm.ask("hi")).content == "desk"
        assert (await swarm.ask("hi")).content == "desk"


async def test_two_sessions_of_a_team_that_share_a_members_session_lose_nothing_by_an_edit() -> None:
    gate, began = trio.Event(), trio.Event()

    async def hold() -> str:
        """Waits."""
        began.set()
        await gate.wait()
        return "done"

    def model(request: llm.Complete) -> Any:
        return llm.tool_calls(("hold", {})) if request.messages[-1].content == "one" else "ok"

    async def forward(run: rt.TeamRun) -> Any:
        return await run.ask("w", run.message, session="shared")

    async with rt.ActorSystem("desk") as system:
        deployment = await system.spawn(llm.Scripted, model)
        team = await system.spawn(Made, {"w": rt.Agent.spec(model=deployment, tools=[hold])}, forward)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(team.ask, rt.AgentMessage("one", session="A"))
            await began.wait()
            await team.ask(rt.EditMember("w", options={"instructions": "Be brief."}))
            nursery.start_soon(team.ask, rt.AgentMessage("two", session="B"))
            await trio.testing.wait_all_tasks_blocked()
            gate.set()
        [member] = await team.ask(rt.GetMembers())
        told = [each.content for each in (await member.ref.ask(rt.GetMemory("shared"))).messages if isinstance(each, rt.AgentMessage)]
        assert told == ["one", "ok", "two", "ok"]
