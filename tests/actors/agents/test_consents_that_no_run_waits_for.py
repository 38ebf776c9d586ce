"""What a run asks a person where it cannot be set aside belongs to no run: it is asked once, and its token is good when the message is sent once more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

import retinue as rt
from retinue import llm
from team_players import Made, Sender, parked_by


@rt.message(name="ask-by-oneself/Pay@1")
class Pay(rt.Request[str]):
    to: str


class Bank(rt.Actor):
    def __init__(self) -> None:
        self.paid: list[str] = []

    @rt.handler(requires="pay", approval=True)
    def pay(self, message: Pay) -> str:
        self.paid.append(message.to)
        return "paid"


class Desk(rt.Actor):
    """No agent, and may be a member all the same."""

    @rt.handler(requires="desk", approval=True)
    def answer(self, message: rt.AgentMessage) -> rt.AgentMessage:
        return rt.AgentMessage(f"served {message.content}")


async def by_forward(system: rt.ActorSystem, pay: Callable[[], Awaitable[str]]) -> rt.Ref[Any]:
    async def forward(_run: rt.TeamRun) -> str:
        return await pay()

    return await system.spawn(Made, {}, forward)


async def by_instructions(system: rt.ActorSystem, pay: Callable[[], Awaitable[str]]) -> rt.Ref[Any]:
    async def instructions(_conversation: object) -> str:
        return await pay()

    return await system.spawn(rt.Agent, model="scripted:paid", instructions=instructions)


@pytest.mark.parametrize("by", [by_forward, by_instructions])
async def test_what_a_run_asks_by_itself_is_asked_once_whoever_asks_and_done_when_it_is_sent_again_with_the_token(by: Any) -> None:
    async with rt.ActorSystem("desk") as system:
        bank, tokens = await system.spawn(Bank), list[str]()

        async def pay() -> str:
            return await bank.ask(Pay("bob"), approvals=tokens)

        front = await by(system, pay)
        first, second = await parked_by(front, "go"), await parked_by(front, rt.AgentMessage("go", session="other"))
        assert first.run is None and second.run is None
        assert [one.id for one in first.requests] == [one.id for one in second.requests] and first.requests[0].run is None
        assert len(await system.approvals.pending()) == 1
        tokens.append(await system.approvals.approve(first.requests[0].id, reviewer="carol"))
        assert (await front.ask("go")).content == "paid"
        assert not await system.approvals.pending()


async def test_a_model_that_needs_consent_is_asked_for_once_by_all_runs_of_an_agent() -> None:
    class Model(rt.Actor):
        @rt.handler(requires="model.use", approval=True)
        def complete(self, message: llm.Complete) -> llm.Completion:
            return llm.Completion("hi")

    async with rt.ActorSystem("desk") as system:
        agent = await system.spawn(rt.Agent, model=await system.spawn(Model))
        for _ in range(3):
            assert (await parked_by(agent, "go")).requests[0].run is None
        assert len(await system.approvals.pending()) == 1


async def test_a_member_that_is_asked_by_the_run_is_the_runs_question_and_the_same_actor_asked_by_forward_itself_is_not() -> None:
    async with rt.ActorSystem("desk") as system:
        desk = await system.spawn(Desk)
        itself = list[bool]()

        async def forward(run: rt.TeamRun) -> Any:
            return await (desk.ask(run.message) if itself else run.ask("desk", run.message))

        team = await system.spawn(Made, {"desk": desk}, forward)
        waiting = await parked_by(team, "go")
        assert waiting.requests[0].run == waiting.run is not None
        await team.ask(rt.Cancel("0"))
        itself.append(True)
        assert (await parked_by(team, "go")).requests[0].run is None


async def test_what_a_member_that_is_a_pool_is_asked_belongs_to_the_run() -> None:
    async with rt.ActorSystem("desk") as system:
        desk = await system.spawn_pool(Desk, pool=rt.Pool.elastic(2))

        async def forward(run: rt.TeamRun) -> Any:
            return await run.ask("desk", run.message)

        team = await system.spawn(Made, {"desk": desk}, forward)
        waiting = await parked_by(team, "go")
        assert waiting.requests[0].run == waiting.run is not None
        await system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        assert (await team.ask(rt.Resume(waiting))).content == "served go"


async def test_a_run_that_asks_by_itself_beside_a_call_that_waits_has_its_call_alone() -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        bank = await system.spawn(Bank)
        asked = trio.Event()

        async def forward(run: rt.TeamRun) -> Any:
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def _() -> None:
                    with pytest.raises(rt.ApprovalRequired) as raised:
                        await bank.ask(Pay("bob"))
                    assert raised.value.requests[0].run is None
                    asked.set()

            return await run.ask("inner", run.message)

        team = await system.spawn(Made, {"inner": await sender.agent(system, "eve")}, forward)
        waiting = await parked_by(team, "go")
        assert asked.is_set() and waiting.requests[0].run is not None
