"""Debate: the first answers are each one's own, later ones know the others', and a decision is a decision or a typed error."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import retinue as rt
from agent_players import read
from pattern_players import cast, echo, parked
from retinue import llm


async def test_in_the_first_round_nobody_hears_the_others_and_later_each_hears_all_others_and_not_itself() -> None:
    async with cast() as play:
        members = await play.agents(a=["a1", "a2"], b=["b1", "b2"], c=["c1", "c2"], judge=["so be it"])
        team = await play.system.spawn(rt.Debate, members, judge="judge", rounds=2, name="debate")
        answer = await team.ask("Why?")
        assert (answer.content, answer.sender) == ("so be it", "debate")
        assert answer.extra == {"rounds": 2, "said": [["a", "a2"], ["b", "b2"], ["c", "c2"]], "ended_by": "judge"}
        first, second = play.heard("b")
        assert first == "Why?" and "a: a1\nc: c1\n" in second and "b1" not in second
        judged = play.heard("judge")
        assert len(judged) == 1 and judged[0].startswith("Why?\n\n") and "a: a2\nb: b2\nc: c2" in judged[0] and answer.usage.requests == 7


async def test_a_vote_is_for_the_answer_that_most_have_come_to_in_whatever_case_and_costs_no_call() -> None:
    async with cast() as play:
        members = await play.agents(a=["41", "42."], b=["42", "  42"], c=["43", "43"])
        answer = await (await play.system.spawn(rt.Debate, members, vote=True, rounds=2)).ask("What is it?")
        assert (answer.content, answer.extra["ended_by"], answer.extra["votes"]) == ("42.", "vote", [["42.", 2], ["43", 1]])
        assert sum(map(len, play.told.values())) == 6


async def test_where_all_agree_before_the_rounds_are_over_no_more_is_asked() -> None:
    async with cast() as play:
        members = await play.agents(a=["no", "Yes"], b=["yes", "yes"])
        answer = await (await play.system.spawn(rt.Debate, members, vote=True, rounds=5)).ask("Is it?")
        assert (answer.content, answer.extra["ended_by"], answer.extra["rounds"]) == ("Yes", "agreed", 2)


async def test_a_tie_is_a_typed_error_and_nobodys_answer() -> None:
    async with cast() as play:
        team = await play.system.spawn(rt.Debate, await play.agents(a=["x"], b=["y"], c=["z"], d=["x"], e=["y"]), vote=True, rounds=1)
        with pytest.raises(rt.VoteUndecided, match=r"'x' \(2\); 'y' \(2\); 'z' \(1\)") as caught:
            await team.ask("go")
        assert isinstance(caught.value, rt.TeamError) and caught.value.votes == (("x", 2), ("y", 2), ("z", 1))
        assert (await team.ask(rt.GetMemory())).items == ()


async def test_a_function_says_what_is_compared() -> None:
    async with cast() as play:
        members = await play.agents(a=["I think: 7"], b=["Surely: 7"], c=["8"])
        team = await play.system.spawn(rt.Debate, members, vote=lambda message: message.content[-1], rounds=1)
        assert (await team.ask("go")).content == "I think: 7"
        members = await play.agents(d=["1"], e=["2"])
        team = await play.system.spawn(rt.Debate, members, vote=lambda message: [message.content], rounds=1)
        with pytest.raises(rt.DefinitionError, match="cannot be compared"):
            await team.ask("go")


async def test_it_takes_two_to_debate() -> None:
    async with cast() as play:
        team = await play.system.spawn(rt.Debate, await play.agents(a=echo("a"), b=echo("b"), judge=echo("j")), judge="judge")
        await team.ask(rt.PauseMember("b"))
        with pytest.raises(rt.RoutingFailed, match="takes two"):
            await team.ask("go")


async def test_a_debater_that_needs_a_person_parks_it_and_the_others_are_not_asked_again() -> None:
    @rt.tool(approval=True)
    def look(what: str) -> str:
        """Looks something up."""
        return what

    async with cast() as play:
        members = {
            "a": await play.agent("a", "a1", llm.tool_calls(("look", {"what": "it"})), "it", tools=[look]),
            "b": await play.agent("b", "b1", "it"),
        }
        team = await play.system.spawn(rt.Debate, members, vote=True, rounds=2)
        waiting = await parked(team)
        token = await play.system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        assert (await team.ask(rt.Resume(waiting.run or ""), approvals=[token])).content == "it"
        assert (len(play.told["a"]), len(play.told["b"])) == (3, 2)


async def test_an_error_of_a_debater_ends_it() -> None:
    async with cast() as play:
        team = await play.system.spawn(rt.Debate, await play.agents(a=["x"], b=[llm.ModelFailed("503")]), vote=True)
        with pytest.raises(llm.ModelFailed):
            await team.ask("go")


async def test_streamed_there_is_one_end_with_the_judges_answer() -> None:
    async with cast() as play:
        team = await play.system.spawn(rt.Debate, await play.agents(a=["x"], b=["y"], j=["z"]), judge="j", rounds=1)
        events = await read(team, "go")
    assert {path for path, _ in map(rt.innermost, events)} == {("a",), ("b",), ("j",), ()} and events[-1].message.content == "z"


async def test_the_calls_of_a_debate_are_under_one_budget() -> None:
    async with cast() as play:
        members = await play.agents(a=lambda _: "x", b=lambda _: "y")
        team = await play.system.spawn(rt.Debate, members, vote=True, rounds=9, limits=rt.TreeLimits(calls=5))
        with pytest.raises((rt.RunLimitReached, rt.BudgetExceeded)):
            await team.ask("go")
        assert sum(map(len, play.told.values())) == 5


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "who decides"),
        ({"judge": "a", "vote": True}, "not both"),
        ({"judge": "c"}, "no member has that name"),
        ({"judge": 3}, "the name of a member"),
        ({"vote": "yes"}, "give True, or a function"),
        ({"vote": trio.sleep}, "an async function: give a plain one"),
        ({"vote": True, "rounds": 0}, "rounds=0"),
    ],
    ids=range(7),
)
async def test_what_cannot_be_one_is_refused_to_the_spawner(options: dict[str, Any], told: str) -> None:
    async with cast() as play:
        with pytest.raises(rt.DefinitionError, match=told):
            await play.system.spawn(rt.Debate, {name: rt.Agent.spec(model="scripted:x") for name in "ab"}, **options)
