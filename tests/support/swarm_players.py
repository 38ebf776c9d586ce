"""Swarms with scripted members, for their tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio

import retinue as rt
from retinue import llm

__all__ = ["Stalling", "over", "seen_by", "swarm_system"]


def over(target: str, reason: str = "", message: str = "", text: str = "") -> llm.Completion:
    """A reply that hands over."""
    return llm.tool_calls((f"transfer_to_{target}", {"reason": reason, "message": message}), text=text)


class Stalling(rt.Actor):
    """A member that is no agent: it begins, and never answers.

    Attributes:
        began: Set when it is asked.
        ended: Set when whoever asked has left.
    """

    def __init__(self, began: trio.Event, ended: trio.Event) -> None:
        self.began = began
        self.ended = ended

    @rt.handler(open_to_all=True)
    async def answer(self, message: rt.AgentMessage) -> rt.AgentMessage:
        self.began.set()
        try:
            await trio.sleep_forever()
        finally:
            self.ended.set()
        return message


@asynccontextmanager
async def swarm_system(
    scripts: Mapping[str, Any], told: list[tuple[str, llm.Complete]] | None = None, **options: Any
) -> AsyncIterator[tuple[rt.ActorSystem, Any]]:
    """A system with a swarm of scripted agents; `told` takes who was asked what. `agents` are options of single members, by name."""
    agents: Mapping[str, Mapping[str, Any]] = options.pop("agents", {})
    async with rt.ActorSystem("swarm") as system:
        members: dict[str, Any] = {}
        for name, script in scripts.items():
            model = await system.spawn(llm.Scripted, seen_by(name, told, script), name=f"model-{name}")
            members[name] = rt.Agent.spec(model=model, **{"description": f"Does {name}.", **agents.get(name, {})})
        yield system, await system.spawn(rt.Swarm, members, name="desk", **options)


def seen_by(name: str, told: list[tuple[str, llm.Complete]] | None, script: Any) -> Any:
    """A script that notes who was asked what."""
    if told is None or callable(script):
        return script

    def line(answer: Any) -> Any:
        def say(request: llm.Complete) -> Any:
            told.append((name, request))
            return answer(request) if callable(answer) else answer

        return say

    return [line(answer) for answer in script]
