"""Authors who go on although somebody has come to a limit: nothing of what was answered is lost, nothing more is spent, and an answer says that it is not whole."""

from __future__ import annotations

from typing import Any

import pytest

import retinue as rt
from team_players import Made, Waiting, parked_by

SPEC = rt.Agent.spec(model="scripted:hi")


class Careful(rt.Actor):
    """A member that is asked with a person's consent."""

    @rt.handler(approval=True, raises=Exception)
    async def answer(self, message: rt.AgentMessage) -> rt.AgentMessage:
        return rt.AgentMessage("done")


def count(found: list[Any]) -> str:
    return f"{sum(isinstance(each, rt.AgentMessage) for each in found)} of {len(found)}"


async def gathered(run: rt.TeamRun) -> str:
    return count(await run.gather([(name, "x") for name in run.members], errors="return"))


async def caught(run: rt.TeamRun) -> rt.AgentMessage:
    found: list[Any] = []
    for name in run.members:
        try:
            found.append(await run.ask(name, "x"))
        except (rt.BudgetExceeded, rt.Expired, rt.AskTimeout) as error:
            found.append(error)
    return rt.AgentMessage(count(found))


@pytest.mark.parametrize("forward", [gathered, caught])
@pytest.mark.parametrize("whose", ["run", "team"])
async def test_an_answer_in_spite_of_the_runs_own_limits_has_what_there_is_and_is_partial(whose: str, forward: Any) -> None:
    limits = rt.TreeLimits(calls=1)
    async with rt.ActorSystem("limits") as system:
        team = await system.spawn(Made, [SPEC, SPEC, SPEC], forward, limits=limits if whose == "team" else None)
        answer = await team.ask("x" if whose == "team" else rt.Run("x", limits=limits))
        assert (answer.content, answer.partial) == ("1 of 3", True)
        if whose == "run":
            whole = await team.ask("x")
            assert (whole.content, whole.partial) == ("3 of 3", False)


@pytest.mark.parametrize("forward", [gathered, caught])
async def test_so_it_is_with_the_seconds_of_the_run_itself(forward: Any) -> None:
    async with rt.ActorSystem("limits") as system:
        team = await system.spawn(Made, [SPEC, await system.spawn(Waiting, [], [])], forward)
        answer = await team.ask(rt.Run("x", limits=rt.TreeLimits(seconds=1)))
        assert (answer.content, answer.partial) == ("1 of 2", True)


async def test_the_limits_of_others_are_errors_in_the_list_and_the_answer_is_whole() -> None:
    async with rt.ActorSystem("limits") as system:
        poor = rt.Agent.spec(model="scripted:hi", grant=["**", rt.limit(calls=0)])
        small = rt.Sequential.spec([SPEC], limits=rt.TreeLimits(calls=0))
        team = await system.spawn(Made, [poor, small, SPEC], gathered)
        answer = await team.ask("x")
        assert (answer.content, answer.partial) == ("1 of 3", False)
        ann = system.authority.mint("ann", ["**"]).narrow(rt.limit(calls=1))
        other = await system.spawn(Made, [SPEC, SPEC, SPEC], gathered)
        assert (await other.ask("x", context=ann)).content == "1 of 3"


async def test_it_is_partial_too_where_the_run_waits_for_a_person_after_that() -> None:
    async def forward(run: rt.TeamRun) -> str:
        found = await run.gather([("a", "x"), ("a", "y"), ("a", "z")], errors="return")
        await run.ask("b", "x")
        return count(found)

    async with rt.ActorSystem("limits") as system:
        team = await system.spawn(Made, {"a": SPEC, "b": await system.spawn(Careful)}, forward)
        waiting = await parked_by(team, rt.Run("x", limits=rt.TreeLimits(tokens=1)))
        token = await system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        answer = await team.ask(rt.Resume(waiting.run or ""), approvals=[token])
        assert (answer.content, answer.partial) == ("0 of 3", True)


async def test_it_stays_partial_where_another_step_has_failed_and_is_asked_once_more() -> None:
    class Once(rt.Actor):
        """Fails the first time."""

        def __init__(self) -> None:
            self.asked = 0

        @rt.handler(raises=Exception)
        async def answer(self, message: rt.AgentMessage) -> rt.AgentMessage:
            self.asked += 1
            if self.asked == 1:
                raise ValueError("not yet")
            return rt.AgentMessage("done")

    async def forward(run: rt.TeamRun) -> str:
        found = await run.gather([("a", "x"), ("a", "y")], errors="return")
        await run.ask("b", "x")
        await run.ask("c", "x")
        return count(found)

    async with rt.ActorSystem("limits") as system:
        members = {"a": SPEC, "b": await system.spawn(Careful), "c": await system.spawn(Once)}
        team = await system.spawn(Made, members, forward)
        waiting = await parked_by(team, rt.Run("x", limits=rt.TreeLimits(tokens=1)))
        token = await system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        with pytest.raises(ValueError, match="not yet"):
            await team.ask(rt.Resume(waiting), approvals=[token])
        answer = await team.ask(rt.Resume(waiting))
        assert (answer.content, answer.partial) == ("0 of 2", True)
