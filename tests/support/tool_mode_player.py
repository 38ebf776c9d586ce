"""A scripted model without tool calls, in the tool mode: its lines are what such a model would write."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from retinue import llm
from retinue.actors.llm.tool_mode import ToolMode

ADD = llm.ToolSpec(
    "add",
    "Adds two numbers.",
    '{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}',
)
NOW = llm.ToolSpec("now", "The time.")


class Untooled(llm.Scripted):
    """Says its lines in pieces; `asked` has the requests as the model got them."""

    def __init__(self, script, **options):
        super().__init__(script, **options)
        self.asked: list[llm.Complete] = []
        self._mode = ToolMode(where="the player")

    async def _raw(self, request: llm.Complete) -> AsyncIterator[llm.ModelEvent]:
        self.asked.append(request)
        async with aclosing(super().stream_once(request)) as events:
            async for event in events:
                yield event

    def stream_once(self, request: llm.Complete) -> AsyncIterator[llm.ModelEvent]:
        return self._mode.events(request, self._raw)

    async def complete_once(self, request: llm.Complete) -> llm.Completion:
        return await llm.Deployment.complete_once(self, request)


async def all_of(events) -> list[llm.ModelEvent]:
    async with aclosing(events) as stream:
        return [event async for event in stream]


def says(*completions_or_errors):
    """What answers requests, one after the other, with these texts, completions or errors, in pieces of three characters."""
    waiting = list(completions_or_errors)
    asked: list[llm.Complete] = []

    async def ask(request):
        asked.append(request)
        line = waiting.pop(0)
        if isinstance(line, Exception):
            raise line
        completion = line if isinstance(line, llm.Completion) else llm.Completion(line, "player", finish_reason="stop")
        for at in range(0, len(completion.text), 3):
            yield llm.TextDelta(completion.text[at : at + 3])
        yield llm.Completed(completion)

    ask.asked = asked
    return ask
