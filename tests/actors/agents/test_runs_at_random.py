"""Readers that leave, cancels, time-outs, models that fail, people who decide, in any order: no call is carried out twice, and memory stays whole."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
import trio

import retinue as rt
from agent_players import agent_system
from retinue import llm
from retinue.actors.agents.aggregators import repairs

STEPS = 25


class Game:
    """An agent at play: a model that says anything, tools that note what they did, and one who asks and leaves as it comes.

    Attributes:
        done: How often each call was carried out.
        wrong: What must not be.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.numbers = itertools.count()
        self.done: Counter[int] = Counter()
        self.wrong: list[Any] = []
        self.run: str | None = None

        async def quick(n: int) -> str:
            """Is quick.

            Args:
                n: Which call.
            """
            return await self.did(n, 0)

        async def slow(n: int) -> str:
            """Is slow.

            Args:
                n: Which call.
            """
            return await self.did(n, 0.01)

        @rt.tool(approval=True)
        async def send(n: int) -> str:
            """Needs a person.

            Args:
                n: Which call.
            """
            return await self.did(n, 0.005)

        @rt.hook("on_resume", "before_run", "after_run", "before_tool_call", "after_tool_result")
        async def waits(_: rt.HookContext) -> None:
            await trio.sleep(self.chance.random() * 0.002)

        self.tools = [quick, slow, send]
        self.hooks = [waits] if seed % 2 else []

    async def did(self, n: int, most: float) -> str:
        self.done[n] += 1
        await trio.sleep(self.chance.random() * most)
        return f"r{n}"

    def say(self, request: llm.Complete) -> Any:
        self.look_at(request)
        chance = self.chance.random()
        if chance < 0.1:
            raise llm.ModelFailed("down", status=503)
        if chance < 0.6:
            names = [self.chance.choice(["quick", "slow", "slow", "send", "nothing"]) for _ in range(self.chance.randint(1, 4))]
            return llm.tool_calls(*((name, {"n": next(self.numbers)}) for name in names))
        return "words for an answer"

    def look_at(self, request: llm.Complete) -> None:
        """The history is one that an endpoint takes."""
        waiting: list[str] = []
        for before, each in itertools.pairwise((None, *request.messages)):
            if each is None:
                continue
            if each.role == "tool":
                if not waiting or waiting.pop(0) != each.tool_call_id:
                    self.wrong.append("a result without a call")
                continue
            if waiting or (before is not None and before.role == each.role == "assistant"):
                self.wrong.append(f"before {each.content!r}")
            waiting = [call.id for call in each.tool_calls]
        if waiting or request.messages[-1].role not in ("user", "tool"):
            self.wrong.append("an end that is none")

    async def decide(self, system: rt.ActorSystem) -> None:
        for request in await system.approvals.pending():
            if self.chance.random() < 0.7:
                await system.approvals.approve(request.id, reviewer="carol")
            else:
                await system.approvals.reject(request.id, reviewer="carol")

    async def step(self, agent: Any, message: Any, how: str) -> None:
        if how == "ask":
            await agent.ask(message)
        elif how == "timeout":
            await agent.ask(message, timeout=self.chance.random() * 0.02 + 0.0005)
        elif how == "cancel":
            with trio.move_on_after(self.chance.random() * 0.015):
                await agent.ask(message)
            await agent.ask(rt.Cancel("another"))
        else:
            most = self.chance.randint(1, 8) if how == "leave" else 1_000
            async with agent.stream(message, window=self.chance.choice([1, 2, 32])) as events:
                async for event in events:
                    if isinstance(event, rt.ApprovalNeeded):
                        self.run = event.run
                    most -= 1
                    if not most:
                        return
        self.run = None

    async def play(self) -> None:
        async with agent_system(
            lambda request: self.say(request), tools=self.tools, hooks=self.hooks, limits=rt.RunLimits(model_calls=4, bad_calls=3)
        ) as (system, agent):
            for number in range(STEPS):
                if self.run is not None and self.chance.random() < 0.7:
                    await self.decide(system)
                before = (await agent.ask(rt.GetMemory())).items
                message = f"m{number}" if self.run is None else rt.Resume(self.run)
                try:
                    await self.step(agent, message, self.chance.choice(["ask", "stream", "leave", "cancel", "timeout"]))
                except (rt.ApprovalRequired, rt.RunParked) as waits:
                    self.run = waits.run
                except rt.NoSuchRun:
                    self.run = None
                except (rt.AgentError, llm.ModelError, rt.AskTimeout):
                    pass
                after = (await agent.ask(rt.GetMemory())).items
                if after[: len(before)] != before or repairs(after):
                    self.wrong.append((number, message))


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))])
async def test_whatever_happens_to_runs_no_call_is_carried_out_twice_and_memory_is_whole(seed: int) -> None:
    game = Game(seed)
    with trio.fail_after(60):
        await game.play()
    assert game.wrong == [] and max(game.done.values(), default=0) <= 1
    assert game.done  # it was no empty game
