"""The pattern of OpenAI's Swarm on Pydantic AI: one history, and a loop that runs whichever agent is active; a handoff is a function that ends an agent's run."""

# No `from __future__ import annotations` here: types are read when functions are registered.

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_ai import Agent, ToolOutput
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from benchmarks.harness import Block, Contender, Timer
from benchmarks.machine import version_of
from benchmarks.swarm.walk import SHAPES, Walk, name_of, offered

__all__ = ["CONTENDER"]


@dataclass(frozen=True)
class Over:
    """The next one."""

    target: int


def _model(walk: Walk, agent: int) -> FunctionModel:
    async def complete(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:  # noqa: ARG001 - what it is given
        texts = "\n".join(str(getattr(part, "content", "")) for message in messages for part in message.parts)
        target = walk.called(agent, texts)
        if target is None:
            return ModelResponse(parts=[TextPart(walk.answer)])
        return ModelResponse(parts=[ToolCallPart(f"transfer_to_{name_of(target)}", "{}")])

    return FunctionModel(complete)


def _over(target: int) -> Callable[[], Over]:
    def transfer() -> Over:
        return Over(target)

    return transfer


def messages(shape: str, count: int) -> float:
    """So many messages, one after the other, each in a conversation of its own."""
    return asyncio.run(_messages(shape, count))


async def _messages(shape: str, count: int) -> float:
    walk = Walk("pydantic-ai", shape)
    agents: dict[int, Agent[None, Any]] = {}
    for agent, targets in offered(shape).items():
        outputs: list[Any] = [
            str,
            *(
                ToolOutput(_over(target), name=f"transfer_to_{name_of(target)}", description=f"Hand over to {name_of(target)}.")
                for target in targets
            ),
        ]
        agents[agent] = Agent(_model(walk, agent), output_type=outputs, instructions=f"You are agent {agent}.")

    async def message() -> None:
        active, said, history = 0, walk.begin(), list[ModelMessage]()
        while True:
            result = await agents[active].run(said or None, message_history=history)
            history = result.all_messages()
            if not isinstance(result.output, Over):
                break
            active, said = result.output.target, ""
        walk.check(result.output)

    await message()
    with Timer() as timer:
        for _ in range(count):
            await message()
    walk.sum_up(count + 1)
    return timer.seconds


NOTE = "OpenAI Swarm's loop over `Agent.run`, one history for all agents"
CONTENDER = Contender(
    "pydantic-ai", version_of("pydantic-ai-slim"), {shape: Block(partial(messages, shape), note=NOTE) for shape in SHAPES}
)
