"""OpenAI Agents, the heir of OpenAI's Swarm: `Runner.run` with `handoffs=`, tracing off."""

# No `from __future__ import annotations` here: types are read when tools are registered.

import asyncio
import json
from functools import partial
from typing import Any

from agents import Agent, ModelResponse, RunConfig, Runner, Usage, handoff
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from benchmarks.harness import Block, Contender, Timer
from benchmarks.machine import version_of
from benchmarks.swarm.walk import AGENTS, SHAPES, Walk, name_of, offered

__all__ = ["CONTENDER"]

QUIET = RunConfig(tracing_disabled=True)


class Instant(Model):
    """An agent's model, which takes no time."""

    def __init__(self, walk: Walk, agent: int) -> None:
        self._walk, self._agent = walk, agent

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **more: Any) -> ModelResponse:  # noqa: A002, ARG002
        texts = input if isinstance(input, str) else "\n".join(str(item.get("content", "")) for item in input)
        target = self._walk.called(self._agent, texts)
        if target is None:
            text = ResponseOutputText(text=self._walk.answer, type="output_text", annotations=[])
            said: Any = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        else:
            number = str(self._walk.calls)
            name = f"transfer_to_{name_of(target)}"
            said = ResponseFunctionToolCall(
                id=f"f{number}", call_id=f"c{number}", type="function_call", name=name, arguments=json.dumps({})
            )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *arguments: Any, **keywords: Any) -> Any:
        raise NotImplementedError


def messages(shape: str, count: int) -> float:
    """So many messages, one after the other, each in a conversation of its own."""
    return asyncio.run(_messages(shape, count))


async def _messages(shape: str, count: int) -> float:
    walk = Walk("openai-agents", shape)
    targets = offered(shape)
    agents: dict[int, Agent[None]] = {
        agent: Agent(name=name_of(agent), instructions=f"You are agent {agent}.", model=Instant(walk, agent)) for agent in targets
    }
    for source, found in targets.items():
        agents[source].handoffs = [handoff(agents[target]) for target in found]

    async def message() -> None:
        result = await Runner.run(agents[0], walk.begin(), max_turns=AGENTS + 1, run_config=QUIET)
        walk.check(result.final_output)

    await message()
    with Timer() as timer:
        for _ in range(count):
            await message()
    walk.sum_up(count + 1)
    return timer.seconds


NOTE = "`Runner.run` with `handoffs=`, one history for all agents, tracing off"
CONTENDER = Contender("openai-agents", version_of("openai-agents"), {shape: Block(partial(messages, shape), note=NOTE) for shape in SHAPES})
