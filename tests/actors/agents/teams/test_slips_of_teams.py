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


@pytest.mark.parametrize(
    ("cls", "options", "text"),
    [
        (rt.MapReduce, {"mapper": len, "reducer": SPEC}, r"^MapReduce\(mapper=…\) is a builtin_function_or_method: give a ref"),
        (rt.MapReduce, {"mapper": SPEC, "reducer": "scripted:x"}, r"^MapReduce\(reducer=…\) is a str: give a ref"),
        (rt.Supervisor, {"lead": rt.Agent, "workers": [SPEC]}, r"^Supervisor\(lead=…\) is the class Agent: give Agent\.spec"),
    ],
    ids=["mapper", "reducer", "lead"],
)
async def test_what_cannot_be_a_member_is_told_by_the_option_that_gave_it(cls: Any, options: dict[str, Any], text: str) -> None:
    async with rt.ActorSystem("slips") as system:
        with pytest.raises(rt.DefinitionError, match=text):
            await system.spawn(cls, **options)


async def test_an_edit_that_changes_nothing_is_refused() -> None:
    async with rt.ActorSystem("slips") as system:
        team = await system.spawn(rt.Sequential, {"a": SPEC})
        with pytest.raises(rt.BadInput, match=r"EditMember\('a'\) changes nothing: give description=, or options="):
            await team.ask(rt.EditMember("a"))


async def test_a_limit_of_a_tree_says_what_was_taken() -> None:
    async with rt.ActorSystem("slips") as system:
        team = await system.spawn(rt.Sequential, {"a": SPEC, "b": SPEC})
        with pytest.raises(rt.RunLimitReached, match=r"the limit calls=1 of its TreeLimits, after 1 calls, \d+ tokens; it stopped"):
            await team.ask(rt.Run("x", limits=rt.TreeLimits(calls=1)))


@pytest.mark.parametrize("name", ["ask", "tell", "send"])
def test_an_agent_that_was_made_by_hand_is_told_to_be_spawned(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"an instance of Agent that was made by hand has no '{name}': spawn it"):
        getattr(rt.Agent(model="scripted:x"), name)
    with pytest.raises(AttributeError, match="'Agent' object has no attribute 'bogus'"):
        _ = rt.Agent(model="scripted:x").bogus  # type: ignore[attr-defined]


def test_a_name_that_the_package_has_not_is_told_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'Sequentil'\. Did you mean: 'Sequential'\?"):
        _ = rt.Sequentil  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"has no attribute '__wrapped__'$"):
        _ = rt.__wrapped__  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "slip",
    [
        lambda run: run.ask("w", "x", handoffs=5),
        lambda run: run.ask("w", "x", tools="abc"),
        lambda run: run.together(5),
        lambda run: run.together("ab"),
        lambda run: run.together([5]),
        lambda run: run.together([run.ask("w", "x")]),
        lambda run: run.complete(5, llm.Complete.of("x")),
        lambda run: run.decide(5),
    ],
)
async def test_what_a_run_cannot_take_is_named_where_it_is_given(slip: Any) -> None:
    async with rt.ActorSystem("desk") as system:
        team = await system.spawn(Made, {"w": rt.Agent.spec(model="scripted:x")}, slip)
        with pytest.raises(rt.BadInput, match="run\\.(ask|together|complete|decide)"):
            await team.ask("hi")
