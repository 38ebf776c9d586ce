"""Retinue's swarm: team, agents, their sessions and their models are actors. Either all of them forget a conversation before the next begins, or each has a session of its own."""

from __future__ import annotations

from functools import partial

import trio

import retinue as rt
from benchmarks.harness import Block, Contender, Timer
from benchmarks.swarm.walk import SHAPES, Walk, name_of, offered
from retinue import llm

__all__ = ["CONTENDER", "KEPT"]


def messages(shape: str, kept: bool, count: int) -> float:
    """So many messages, one after the other, each in a conversation of its own, which is kept or forgotten."""
    return trio.run(_messages, shape, kept, count)


def _line(walk: Walk, agent: int, request: llm.Complete) -> str | llm.Completion:
    target = walk.called(agent, "\n".join(str(message.content) for message in request.messages))
    return walk.answer if target is None else llm.tool_calls((f"transfer_to_{name_of(target)}", "{}"))


async def _messages(shape: str, kept: bool, count: int) -> float:
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

        async def message(number: int) -> None:
            said = rt.AgentMessage(walk.begin(), session=f"s{number}" if kept else "0")
            walk.check((await swarm.ask(said)).content)
            if not kept:
                await swarm.ask(rt.ClearMemory(recursive=True))

        await message(count)
        with Timer() as timer:
            for number in range(count):
                await message(number)
    walk.sum_up(count + 1)
    return timer.seconds


FORGETS = "`Swarm`, all actors behind the gate; all members are told to forget the last conversation"
KEEPS = "the same, each conversation in a session of its own; all are kept"

CONTENDER = Contender("retinue", "", {shape: Block(partial(messages, shape, False), note=FORGETS) for shape in SHAPES})
KEPT = Contender("retinue, sessions", "", {shape: Block(partial(messages, shape, True), note=KEEPS) for shape in SHAPES})
