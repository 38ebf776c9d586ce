"""Retinue's swarm: team, agents, their sessions and their models are actors; a conversation is forgotten by all of them before the next begins."""

from __future__ import annotations

from functools import partial

import trio

import retinue as rt
from benchmarks.harness import Block, Contender, Timer
from benchmarks.swarm.walk import SHAPES, Walk, name_of, offered
from retinue import llm

__all__ = ["CONTENDER"]


def messages(shape: str, count: int) -> float:
    """So many messages, one after the other, each in a conversation of its own."""
    return trio.run(_messages, shape, count)


def _line(walk: Walk, agent: int, request: llm.Complete) -> str | llm.Completion:
    target = walk.called(agent, "\n".join(str(message.content) for message in request.messages))
    return walk.answer if target is None else llm.tool_calls((f"transfer_to_{name_of(target)}", "{}"))


async def _messages(shape: str, count: int) -> float:
    walk = Walk("retinue", shape)
    targets = offered(shape)
    async with rt.ActorSystem("bench") as system:
        members = {}
        for agent in targets:
            model = await system.spawn(llm.Scripted, partial(_line, walk, agent), name=f"model_{agent}")
            members[name_of(agent)] = rt.Agent.spec(model=model, instructions=f"You are agent {agent}.")
        swarm = await system.spawn(
            rt.Swarm,
            members,
            handoffs={name_of(source): [name_of(target) for target in found] for source, found in targets.items()},
            guards=rt.HandoffGuards(hops=None, window=None),
            name="swarm",
        )

        async def message() -> None:
            walk.check((await swarm.ask(walk.begin())).content)
            await swarm.ask(rt.ClearMemory(recursive=True))

        await message()
        with Timer() as timer:
            for _ in range(count):
                await message()
    walk.sum_up(count + 1)
    return timer.seconds


NOTE = "`Swarm`; all actors behind the gate, `ClearMemory(recursive=True)` between conversations"
CONTENDER = Contender("retinue", "", {shape: Block(partial(messages, shape), note=NOTE) for shape in SHAPES})
