"""OpenAI Agents: `Runner.run` with a model of its own interface, tracing off."""

# No `from __future__ import annotations` here: the tool's types are read when it is registered.

import asyncio
from typing import Any

from agents import Agent, ModelResponse, RunConfig, Runner, Usage, function_tool
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from benchmarks.agents.errand import ANSWER, ARGUMENTS, INSTRUCTIONS, QUESTION, TOOL, Tally
from benchmarks.harness import Block, Contender, Timer
from benchmarks.machine import version_of

__all__ = ["CONTENDER"]

QUIET = RunConfig(tracing_disabled=True)


class Instant(Model):
    """A model that takes no time."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **more: Any) -> ModelResponse:  # noqa: A002, ARG002
        self._tally.completions += 1
        if isinstance(input, list) and isinstance(input[-1], dict) and input[-1].get("type") == "function_call_output":
            text = ResponseOutputText(text=ANSWER, type="output_text", annotations=[])
            said: Any = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        else:
            said = ResponseFunctionToolCall(id="f", call_id="c", type="function_call", name=TOOL, arguments=ARGUMENTS)
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *arguments: Any, **keywords: Any) -> Any:
        raise NotImplementedError


def turns(count: int) -> float:
    """So many runs, one after the other, none with the history of another."""
    return asyncio.run(_turns(count))


async def _turns(count: int) -> float:
    tally = Tally()

    @function_tool
    async def get_weather(city: str, days: int = 1) -> str:
        """Forecast for a city.

        Args:
            city: Name of the city.
            days: How many days ahead.
        """
        return await tally.forecast(city, days)

    agent = Agent(name="weatherman", instructions=INSTRUCTIONS, model=Instant(tally), tools=[get_weather])
    answers = [(await Runner.run(agent, QUESTION, run_config=QUIET)).final_output]
    with Timer() as timer:
        answers += [(await Runner.run(agent, QUESTION, run_config=QUIET)).final_output for _ in range(count)]
    tally.check("openai-agents", count + 1, answers)
    return timer.seconds


CONTENDER = Contender(
    "openai-agents", version_of("openai-agents"), {"turn": Block(turns, note="`Runner.run`, tracing off, a new history each")}
)
