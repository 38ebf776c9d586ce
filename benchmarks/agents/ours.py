"""Retinue's agent: an actor with a session, a scripted model and a tool executor, each an actor behind the gate."""

from __future__ import annotations

import trio

import retinue as rt
from benchmarks.agents.errand import ANSWER, ARGUMENTS, INSTRUCTIONS, QUESTION, TOOL, Tally
from benchmarks.harness import Block, Contender, Timer
from retinue import llm

__all__ = ["CONTENDER"]

AGENT = "weatherman"


def turns(count: int) -> float:
    """So many turns, one after the other, each in a conversation that was cleared."""
    return trio.run(_turns, count)


async def _turns(count: int) -> float:
    tally = Tally()
    called = llm.tool_calls((TOOL, ARGUMENTS))

    def model(request: llm.Complete) -> str | llm.Completion:
        tally.completions += 1
        return ANSWER if request.messages[-1].role == "tool" else called

    async def get_weather(city: str, days: int = 1) -> str:
        """Forecast for a city.

        Args:
            city: Name of the city.
            days: How many days ahead.
        """
        return await tally.forecast(city, days)

    answers: list[str] = []
    async with rt.ActorSystem("bench") as system:
        ref = await system.spawn(llm.Scripted, model, name="model")
        agent = await system.spawn(rt.Agent, model=ref, tools=[get_weather], instructions=INSTRUCTIONS, name=AGENT)

        async def turn() -> None:
            answers.append((await agent.ask(rt.AgentMessage(QUESTION))).content)
            await agent.ask(rt.ClearMemory())

        await turn()
        with Timer() as timer:
            for _ in range(count):
                await turn()
    tally.check("retinue", count + 1, answers)
    return timer.seconds


CONTENDER = Contender("retinue", "", {"turn": Block(turns, note="model, agent, session and tool are actors; each hop passes the gate")})
