"""Agents with scripted models, for the tests of agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

import retinue as rt
from retinue import llm

__all__ = ["Hanging", "agent_system", "calls", "read", "results", "said_to"]


class Hanging(llm.Deployment):
    """A model that says a few words and then nothing more, for ever.

    Attributes:
        began: Set when it is asked.
        ended: Set when whoever asked has left.
    """

    def __init__(self, began: trio.Event, ended: trio.Event, words: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.began = began
        self.ended = ended
        self.words = words

    async def stream_once(self, request: llm.Complete) -> AsyncIterator[llm.ModelEvent]:
        self.began.set()
        try:
            for word in self.words:
                yield llm.TextDelta(word)
            await trio.sleep_forever()
        finally:
            self.ended.set()


@asynccontextmanager
async def agent_system(script: Any, **options: Any) -> AsyncIterator[tuple[rt.ActorSystem, Any]]:
    """A system with an agent on a scripted model, both under `/user`."""
    async with rt.ActorSystem("agents") as system:
        model = await system.spawn(llm.Scripted, script, name="model")
        yield system, await system.spawn(rt.Agent, model=model, name="agent", **options)


async def read(agent: Any, message: Any, **options: Any) -> list[Any]:
    """All events of a streamed run; the error last, where it ended with one."""
    found: list[Any] = []
    try:
        async with agent.stream(message, **options) as events:
            async for event in events:
                found.append(event)
    except Exception as error:
        found.append(error)
    return found


def results(memory: rt.Memory) -> list[rt.Step]:
    """The results of tool calls in a memory."""
    return [step for step in memory.steps if step.kind == "tool_result"]


def calls(*names: str) -> llm.Completion:
    """A reply that calls tools without arguments."""
    return llm.tool_calls(*((name, {}) for name in names))


def said_to(told: list[llm.Complete], *lines: Any) -> list[Callable[[llm.Complete], Any]]:
    """Lines of a script that note what the model was asked."""

    def line(answer: Any) -> Callable[[llm.Complete], Any]:
        def say(request: llm.Complete) -> Any:
            told.append(request)
            return answer

        return say

    return [line(answer) for answer in lines]
