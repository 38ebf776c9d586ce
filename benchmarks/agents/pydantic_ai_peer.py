"""Pydantic AI: `Agent.run` with a `FunctionModel`, and a tool registered by `tool_plain`."""

# No `from __future__ import annotations` here: the tool's types are read when it is registered.

import asyncio

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from benchmarks.agents.errand import ANSWER, ARGUMENTS, INSTRUCTIONS, QUESTION, TOOL, Tally
from benchmarks.harness import Block, Contender, Timer
from benchmarks.machine import version_of

__all__ = ["CONTENDER"]


def turns(count: int) -> float:
    """So many runs, one after the other, none with the history of another."""
    return asyncio.run(_turns(count))


async def _turns(count: int) -> float:
    tally = Tally()

    async def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:  # noqa: ARG001 - what it is given, and async for all alike
        tally.completions += 1
        if any(part.part_kind == "tool-return" for part in messages[-1].parts):
            return ModelResponse(parts=[TextPart(ANSWER)])
        return ModelResponse(parts=[ToolCallPart(TOOL, ARGUMENTS)])

    agent = Agent(FunctionModel(model), instructions=INSTRUCTIONS)

    @agent.tool_plain
    async def get_weather(city: str, days: int = 1) -> str:
        """Forecast for a city.

        Args:
            city: Name of the city.
            days: How many days ahead.
        """
        return await tally.forecast(city, days)

    answers = [(await agent.run(QUESTION)).output]
    with Timer() as timer:
        answers += [(await agent.run(QUESTION)).output for _ in range(count)]
    tally.check("pydantic-ai", count + 1, answers)
    return timer.seconds


CONTENDER = Contender("pydantic-ai", version_of("pydantic-ai-slim"), {"turn": Block(turns, note="`Agent.run`, a new history each")})
