"""AutoGen AgentChat: `Swarm` of `AssistantAgent`s with handoffs, and a model client of its own interface; the team is reset between conversations."""

# No `from __future__ import annotations` here: types are read when tools are registered.

import asyncio
from functools import partial
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.teams import Swarm
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, ModelInfo, RequestUsage

from benchmarks.harness import Block, Contender, Timer
from benchmarks.machine import version_of
from benchmarks.swarm.walk import SHAPES, Walk, name_of, offered

__all__ = ["CONTENDER"]

INFO = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)


class Instant(ChatCompletionClient):
    """An agent's model, which takes no time."""

    def __init__(self, walk: Walk, agent: int) -> None:
        self._walk, self._agent = walk, agent

    async def create(self, messages: Any, **keywords: Any) -> CreateResult:  # noqa: ARG002
        target = self._walk.called(self._agent, "\n".join(str(message.content) for message in messages))
        if target is None:
            return CreateResult(finish_reason="stop", content=self._walk.answer, usage=RequestUsage(1, 1), cached=False)
        call = FunctionCall(id=f"c{self._walk.calls}", name=f"transfer_to_{name_of(target)}", arguments="{}")
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


def messages(shape: str, count: int) -> float:
    """So many messages, one after the other, each in a conversation of its own."""
    return asyncio.run(_messages(shape, count))


async def _messages(shape: str, count: int) -> float:
    walk = Walk("autogen-agentchat", shape)
    agents: list[Any] = [
        AssistantAgent(
            name_of(agent),
            Instant(walk, agent),
            handoffs=[name_of(target) for target in targets],
            system_message=f"You are agent {agent}.",
        )
        for agent, targets in offered(shape).items()
    ]
    team = Swarm(agents, termination_condition=TextMentionTermination("Done with number"))

    async def message() -> None:
        result = await team.run(task=walk.begin())
        walk.check(result.messages[-1].content)  # type: ignore[union-attr]
        await team.reset()

    await message()
    with Timer() as timer:
        for _ in range(count):
            await message()
    walk.sum_up(count + 1)
    return timer.seconds


NOTE = "`Swarm.run` and `reset`; each message goes to all agents"
CONTENDER = Contender(
    "autogen-agentchat", version_of("autogen-agentchat"), {shape: Block(partial(messages, shape), note=NOTE) for shape in SHAPES}
)
