"""Two runs that come to the same call are two questions: a person consents to one of them, and the other waits on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import retinue as rt
from retinue import llm
from retinue.actors.approvals.tables import SCHEMA
from retinue.actors.store.database import open_database
from retinue.actors.store.schema import Schema
from team_players import Sender, parked_by


def in_session(name: str) -> rt.AgentMessage:
    return rt.AgentMessage("go", session=name)


async def fronts(system: rt.ActorSystem, sender: Sender, of: str) -> rt.Ref[Any]:
    spec = await sender.agent(system, "bob")
    if of == "agent":
        return await system.spawn(rt.Agent, **spec.options)
    if of == "team":
        return await system.spawn(rt.Sequential, {"inner": spec})

    def says(request: llm.Complete) -> Any:
        last = request.messages[-1]
        return last.content if last.role == "tool" else llm.tool_calls(("ask_inner", {"message": "go"}))

    tool = rt.agent_tool(spec, name="ask_inner")
    return await system.spawn(rt.Agent, model=await system.spawn(llm.Scripted, says), tools=[tool])


@pytest.mark.parametrize("of", ["agent", "team", "tool"])
async def test_two_sessions_that_want_the_same_are_two_questions_and_each_is_answered_for_itself(of: str) -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        front = await fronts(system, sender, of)
        ann, ben = await parked_by(front, in_session("ann")), await parked_by(front, in_session("ben"))
        [first], [second] = ann.requests, ben.requests
        assert first.id != second.id and first.arguments == second.arguments
        assert (first.run or "").startswith("ann/") and (second.run or "").startswith("ben/")
        assert [line for line in second.shown() if line.startswith("run: ")] == [f'run: "{second.run}"']
        await system.approvals.approve(first.id, reviewer="carol")
        still = await parked_by(front, rt.Resume(ben.run or ""))
        assert [one.id for one in still.requests] == [second.id] and not sender.sent
        await front.ask(rt.Resume(ann.run or ""))
        assert sender.sent == ["bob"]
        await system.approvals.reject(second.id, reviewer="carol")
        await front.ask(rt.Resume(ben.run or ""))
        assert sender.sent == ["bob"]


async def test_the_token_of_one_run_is_none_for_another_and_stays_unspent() -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        agent = await fronts(system, sender, "agent")
        ann, ben = await parked_by(agent, in_session("ann")), await parked_by(agent, in_session("ben"))
        token = await system.approvals.approve(ann.requests[0].id, reviewer="carol")
        still = await parked_by(agent, rt.Resume(ben.run or ""), approvals=[token])
        assert still.requests[0].id == ben.requests[0].id and not sender.sent
        assert (await agent.ask(rt.Resume(ann.run or ""), approvals=[token])).content and sender.sent == ["bob"]


async def test_a_consent_that_nobody_used_is_not_found_by_a_later_run_of_the_same_session() -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        agent = await fronts(system, sender, "agent")
        waiting = await parked_by(agent, "go")
        await system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        await agent.ask(rt.Cancel("0"))
        again = await parked_by(agent, "go")
        assert again.requests[0].status == "pending" and again.requests[0].id != waiting.requests[0].id and not sender.sent


async def test_a_run_that_asks_once_more_what_waits_makes_no_second_question() -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        agent = await fronts(system, sender, "agent")
        waiting = await parked_by(agent, "go")
        again = await parked_by(agent, rt.Resume(waiting.run or ""))
        assert again.requests[0].id == waiting.requests[0].id and len(await system.approvals.pending()) == 1


async def test_a_person_is_told_that_the_same_was_rejected_for_another_run() -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        agent = await fronts(system, sender, "agent")
        ann = await parked_by(agent, in_session("ann"))
        await system.approvals.reject(ann.requests[0].id, reviewer="carol")
        ben = await parked_by(agent, in_session("ben"))
        assert "the same was rejected by" in ben.requests[0].reasons[-1]


@pytest.mark.parametrize("of", ["agent", "team", "tool"])
async def test_a_session_whose_name_no_file_takes_can_be_asked_for_consent(of: str) -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        front = await fronts(system, sender, of)
        waiting = await parked_by(front, in_session("half \udc80"))
        assert (waiting.requests[0].run or "").startswith("half \ufffd/")
        await system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        await front.ask(rt.Resume(waiting))
        assert sender.sent == ["bob"]


async def test_calls_by_an_action_executor_are_of_the_run_that_has_them_made() -> None:
    paid: list[int] = []

    @rt.tool(approval=True)
    def pay(cents: int) -> str:
        """Pays."""
        paid.append(cents)
        return "paid"

    class Payers(rt.Team):
        async def forward(self, run: rt.TeamRun) -> str:
            call = {"name": "pay", "parameters": {"cents": 5}}
            return str((await run.ask("acts", rt.AgentMessage(call, session=run.message.session))).content)

    async with rt.ActorSystem("desk") as system:
        team = await system.spawn(Payers, {"acts": await system.spawn(rt.ActionExecutor, [pay])})
        ann, ben = await parked_by(team, in_session("ann")), await parked_by(team, in_session("ben"))
        assert ann.requests[0].id != ben.requests[0].id and ann.requests[0].run == ann.run
        await system.approvals.approve(ann.requests[0].id, reviewer="carol")
        await parked_by(team, rt.Resume(ben.run or ""))
        assert not paid
        await team.ask(rt.Resume(ann.run or ""))
        assert paid == [5]


async def test_calls_that_are_alike_and_made_at_once_by_an_action_executor_need_a_consent_each() -> None:
    paid: list[int] = []

    @rt.tool(approval=True)
    def pay(cents: int) -> str:
        """Pays."""
        paid.append(cents)
        return "paid"

    class Payers(rt.Team):
        async def forward(self, run: rt.TeamRun) -> str:
            call = {"name": "pay", "parameters": {"cents": 5}}
            answers = await run.gather([("acts", rt.AgentMessage(call, session=run.message.session))] * 3)
            return "|".join(one.content.state for one in answers)

    async with rt.ActorSystem("desk") as system:
        team = await system.spawn(Payers, {"acts": await system.spawn(rt.ActionExecutor, [pay])})
        message: Any = "go"
        for consents in range(1, 4):
            waiting = await parked_by(team, message)
            [wanted] = [one for one in await system.approvals.pending() if one.run == waiting.run]
            await system.approvals.approve(wanted.id, reviewer="carol")
            message = rt.Resume(waiting)
            assert len(paid) == consents - 1
        assert (await team.ask(message)).content == "SUCCESS|SUCCESS|SUCCESS" and paid == [5, 5, 5]


async def test_messages_that_one_sends_oneself_are_one_question_as_ever() -> None:
    async with rt.ActorSystem("desk") as system:
        acts = await system.spawn(rt.ActionExecutor, [refund])
        call = rt.AgentMessage({"name": "refund", "parameters": {"cents": 5}})
        first, second = await parked_by(acts, call), await parked_by(acts, call)
        assert first.requests[0].id == second.requests[0].id and first.requests[0].run is None


@rt.tool(approval=True)
def refund(cents: int) -> str:
    """Pays back."""
    return f"{cents}"


def test_a_file_from_before_there_were_runs_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "approvals.db"
    open_database(path, Schema("approvals", SCHEMA.migrations[:2])).conn.close()
    database = open_database(path, SCHEMA)
    assert "run" in database["requests"].columns_dict
    database.conn.close()
