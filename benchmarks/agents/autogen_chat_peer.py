"""AutoGen AgentChat: `AssistantAgent.run` with a model client of its own interface; the agent is reset before each turn."""

# No `from __future__ import annotations` here: the tool's types are read when it is registered.

import asyncio
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, FunctionExecutionResultMessage, ModelInfo, RequestUsage

from benchmarks.agents.errand import ANSWER, ARGUMENTS, DESCRIPTION, INSTRUCTIONS, QUESTION, TOOL, Tally
from benchmarks.harness import Block, Contender, Timer
from benchmarks.machine import version_of

__all__ = ["CONTENDER"]

INFO = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)


class Instant(ChatCompletionClient):
    """A model that takes no time."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    async def create(self, messages: Any, **keywords: Any) -> CreateResult:  # noqa: ARG002
        self._tally.completions += 1
        if isinstance(messages[-1], FunctionExecutionResultMessage):
            return CreateResult(finish_reason="stop", content=ANSWER, usage=RequestUsage(1, 1), cached=False)
        call = FunctionCall(id="c", name=TOOL, arguments=ARGUMENTS)
        return CreateResult(finish_reason="function_calls", content=[call], usage=RequestUsage(1, 1), cached=False)

    def create_stream(self, *arguments: Any, **keywords: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(0, 0)

    def total_usage(self) -> RequestUsage:
        return RequestUsage(0, 0)

    def count_tokens(self, *arguments: Any, **keywords: Any) -> int:  # noqa: ARG002
        return 0

    def remaining_tokens(self, *arguments: Any, **keywords: Any) -> int:  # noqa: ARG002
        return 100_000

    @property
    def capabilities(self) -> Any:
        return INFO

    @property
    def model_info(self) -> ModelInfo:
        return INFO


def turns(count: int) -> float:
    """So many turns, one after the other, each in a conversation that was reset."""
    return asyncio.run(_turns(count))


async def _turns(count: int) -> float:
    tally = Tally()

    async def get_weather(city: str, days: int = 1) -> str:
        return await tally.forecast(city, days)

    get_weather.__doc__ = DESCRIPTION
    agent = AssistantAgent("weatherman", Instant(tally), tools=[get_weather], system_message=INSTRUCTIONS, reflect_on_tool_use=True)
    answers: list[str] = []
    token = CancellationToken()

    async def turn() -> None:
        answers.append((await agent.run(task=QUESTION)).messages[-1].content)  # type: ignore[union-attr]
        await agent.on_reset(token)

    await turn()
    with Timer() as timer:
        for _ in range(count):
            await turn()
    tally.check("autogen-agentchat", count + 1, answers)
    return timer.seconds


CONTENDER = Contender(
    "autogen-agentchat", version_of("autogen-agentchat"), {"turn": Block(turns, note="`AssistantAgent.run` and `on_reset`")}
)
