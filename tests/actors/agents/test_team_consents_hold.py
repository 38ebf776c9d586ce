"""The law of consents in teams whose models fail now and then: a session always goes on, and nothing is carried out twice, or without a person's consent."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
import trio

import retinue as rt
from agent_players import read
from retinue import llm
from team_players import Made

KINDS = ("sequential", "gather", "kept errors", "parallel", "skipping", "fallback", "swarm", "nested", "tools")
SEEDS = 2
ROUNDS = 40
SOON = 20.0


class World:
    """A team, its people, and what was done in it.

    Attributes:
        failing: How often a model fails.
        sent: What the tools of members have done; each call says something else.
        done: How often the member did its work that needs consent itself.
        approved: What people have consented to.
    """

    def __init__(self, system: rt.ActorSystem, seed: int) -> None:
        self.system = system
        self.random = random.Random(seed)
        self.failing = 0.2
        self.calls = 0
        self.sent: list[str] = []
        self.done = 0
        self.approved: list[str] = []
        self.consents = 0
        self.rejected = False
        self.team: Any = None

    def model(self, request: llm.Complete) -> llm.Completion | str:
        if self.random.random() < self.failing:
            raise llm.ModelError("down")
        if request.messages[-1].role == "tool":
            return "done"
        if self.random.random() < 0.3:
            return "nothing to do"
        self.calls += 1
        return llm.tool_calls(("send", {"to": f"u{self.calls}"}))

    async def start(self, kind: str) -> None:
        async def send(to: str) -> str:
            """Sends.

            Args:
                to: Whom.
            """
            for _ in range(self.random.randrange(3)):
                await trio.lowlevel.checkpoint()
            self.sent.append(to)
            return "sent"

        world = self

        class Careful(rt.Actor):
            @rt.handler(requires="careful.do", approval=True, raises=Exception)
            async def answer(self, message: rt.AgentMessage) -> rt.AgentMessage:
                await trio.lowlevel.checkpoint()
                world.done += 1
                if world.random.random() < world.failing:
                    raise llm.ModelError("done, and down")
                return rt.AgentMessage(f"did {message.content}")

        system, tool = self.system, rt.tool(approval=True)(send)
        model = await system.spawn(llm.Scripted, self.model)

        def agent() -> rt.AgentSpec:
            return rt.Agent.spec(model=model, tools=[tool])

        members: dict[str, Any] = {"a": agent(), "b": agent(), "c": rt.Sequential.spec({"x": agent()}), "d": await system.spawn(Careful)}

        async def gathers(run: rt.TeamRun) -> str:
            mode: Any = "raise" if kind == "gather" else "return"
            await run.gather([*((name, "go") for name in run.members), ("a", "again"), ("d", "go")], errors=mode)
            return str((await run.ask("b", "then")).content)

        if kind in ("gather", "kept errors"):
            self.team = await system.spawn(Made, members, gathers)
        elif kind == "nested":
            inner = rt.Parallel.spec({"f": rt.Fallback.spec({"a": agent(), "b": agent()}), "s": rt.Swarm.spec({"x": agent()})})
            self.team = await system.spawn(rt.Sequential, {"first": agent(), "inner": inner})
        elif kind == "tools":
            asks = llm.tool_calls(("ask_a", {"message": "1"}), ("ask_a", {"message": "2"}), ("ask_c", {"message": "3"}))
            outer = await system.spawn(llm.Scripted, lambda request: asks if request.messages[-1].role == "user" else "said")
            tools = [
                rt.agent_tool(await system.spawn(rt.Agent, model=model, tools=[tool]), name="ask_a"),
                rt.agent_tool(members["c"], name="ask_c"),
            ]
            self.team = await system.spawn(rt.Agent, model=outer, tools=tools)
        else:
            classes = {"sequential": rt.Sequential, "fallback": rt.Fallback, "swarm": rt.Swarm}
            options: Any = {"failures": "skip"} if kind == "skipping" else {}
            self.team = await system.spawn(classes.get(kind, rt.Parallel), members, **options)

    async def decide(self, waiting: rt.ApprovalRequired, consent: float) -> None:
        for request in waiting.requests:
            if self.random.random() < 0.2 and consent < 1:
                continue
            try:
                if self.random.random() < consent:
                    await self.system.approvals.approve(request.id, reviewer="carol")
                    if request.binding.operation == "careful.do":
                        self.consents += 1
                    else:
                        self.approved.append(request.arguments["to"])
                else:
                    await self.system.approvals.reject(request.id, reviewer="carol")
                    self.rejected = self.rejected or request.binding.operation == "careful.do"
            except rt.ApprovalError:  # it was decided before
                continue

    async def ask(self, message: Any) -> Any:
        """An answer or an error; now and then as a stream, or one that is left in its middle."""
        way = self.random.random()
        try:
            if way < 0.6:
                return await self.team.ask(message, timeout=SOON)
            if way < 0.8:
                return (await read(self.team, message, timeout=SOON) or [None])[-1]
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.leave, scope)
                    answer = await self.team.ask(message, timeout=SOON)
                    nursery.cancel_scope.cancel()
                    return answer
        except Exception as error:
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            return error
        return None

    async def leave(self, scope: trio.CancelScope) -> None:
        for _ in range(self.random.randrange(60)):
            await trio.lowlevel.checkpoint()
        scope.cancel()

    def holds(self) -> None:
        again = [to for to, count in Counter(self.sent).items() if count > 1]
        assert not again, f"carried out twice: {again}"
        assert set(self.sent) <= set(self.approved), "carried out without consent"
        assert self.done <= self.consents, "carried out without consent"


async def lived(world: World, kind: str) -> None:
    """Some rounds of people and failures; then a run that goes on, or is given up; then another message."""
    await world.start(kind)
    waiting: rt.ApprovalRequired | None = None
    answered = False
    for _ in range(world.random.randrange(2, 10)):
        message: Any = "hi"
        if waiting is not None and world.random.random() < 0.85:
            await world.decide(waiting, 0.8)
            message = rt.Resume(waiting.run)
        elif waiting is not None and world.random.random() < 0.5:
            await world.team.ask(rt.Cancel("0"))
            waiting = None
        outcome = await world.ask(message)
        if isinstance(outcome, rt.ApprovalRequired):
            assert outcome.run is not None
            waiting = outcome
        elif isinstance(outcome, rt.NoSuchRun | rt.AgentMessage | rt.RunEnd):
            waiting = None
        elif isinstance(outcome, rt.RunParked):
            assert not answered, f"the last run has its answer, and left somebody parked: {outcome}"
        elif outcome is not None:
            assert isinstance(outcome, llm.ModelError | rt.Denied | rt.RoutingFailed), outcome
        answered = isinstance(outcome, rt.AgentMessage | rt.RunEnd)
        world.holds()
    world.failing = 0.0
    outcome = await leads_on(world, rt.Resume(waiting.run) if waiting is not None else "further")
    world.holds()
    if not isinstance(outcome, rt.AgentMessage):
        await world.team.ask(rt.Cancel("0"))
        assert isinstance(await leads_on(world, "last"), rt.AgentMessage)
    world.holds()


async def leads_on(world: World, message: Any) -> Any:
    """What a run comes to where people consent to everything, and nothing fails any more. A session whose last run waits for somebody is told of; it can be given up."""
    given_up = failed = 0
    for _ in range(ROUNDS):
        try:
            return await world.team.ask(message, timeout=SOON)
        except rt.ApprovalRequired as waiting:
            await world.decide(waiting, 1.0)
            message = rt.Resume(waiting.run)
        except rt.NoSuchRun:
            message = "further"
        except rt.RunParked as parked:
            assert await world.team.ask(rt.Cancel("0")), "what is parked cannot be given up"
            message, given_up = "further", given_up + 1
            if given_up > 3:
                raise AssertionError("it is parked still") from parked
        except llm.ModelError as error:  # what had failed beside one that waited
            failed += 1
            if failed > 3 or not isinstance(message, rt.Resume):
                raise AssertionError("it fails for ever") from error
        except rt.Denied as no:
            if not world.rejected:
                raise AssertionError("nobody has said no") from no
            return no
    raise AssertionError(f"it comes to no end: {message}")


@pytest.mark.parametrize("kind", KINDS)
async def test_sessions_of_teams_go_on_whatever_fails_and_nothing_is_done_twice_or_without_consent(kind: str) -> None:
    for seed in range(SEEDS):
        await live_through(kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_so_it_is_with_many_more_schedules(kind: str) -> None:
    for seed in range(SEEDS, 30):
        await live_through(kind, seed)


async def live_through(kind: str, seed: int) -> None:
    try:
        async with rt.ActorSystem("teams", seed=seed) as system:
            await lived(World(system, seed), kind)
    except BaseException as error:
        error.add_note(f"kind {kind!r}, seed {seed}")
        raise
