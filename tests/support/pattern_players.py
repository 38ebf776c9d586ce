"""Members with scripted models, for the tests of team patterns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import retinue as rt
from agent_players import said_to
from retinue import llm

__all__ = ["Cast", "cast", "echo", "last_said", "parked", "speakers"]


def last_said(request: llm.Complete) -> str:
    """What a model was told last."""
    return request.messages[-1].content


def echo(name: str) -> Callable[[llm.Complete], str]:
    """A script: says its name and what it was told."""
    return lambda request: f"{name}({last_said(request)})"


def speakers(answer: rt.AgentMessage) -> list[str]:
    """Who has spoken in a talk."""
    return [name for name, _ in (answer.extra or {})["said"]]


class Cast:
    """A system in which members are made of scripts.

    Attributes:
        system: The system.
        told: What each scripted model was asked, by the name given to it.
    """

    def __init__(self, system: rt.ActorSystem) -> None:
        self.system = system
        self.told: dict[str, list[llm.Complete]] = {}

    async def model(self, name: str, *script: Any) -> Any:
        """A model that says these lines; a single function is asked for each."""
        told = self.told.setdefault(name, [])
        lines: Any = [line if isinstance(line, llm.ModelError) else said_to(told, line)[0] for line in script]
        if len(script) == 1 and callable(script[0]):

            def always(request: llm.Complete) -> Any:
                told.append(request)
                return script[0](request)

            lines = always
        return await self.system.spawn(llm.Scripted, lines, name=f"model-{name}")

    async def agent(self, name: str, *script: Any, cls: Any = rt.Agent, **options: Any) -> Any:
        """An agent that is not spawned yet."""
        return cls.spec(model=await self.model(name, *script), **options)

    async def agents(self, **scripts: Any) -> dict[str, Any]:
        """Several: a script is a function, or a list of lines."""
        return {name: await self.agent(name, *(script if isinstance(script, list) else [script])) for name, script in scripts.items()}

    def heard(self, name: str) -> list[str]:
        """What a member was told, in order."""
        return [last_said(request) for request in self.told[name]]


@asynccontextmanager
async def cast(**options: Any) -> AsyncIterator[Cast]:
    """A system for a play."""
    async with rt.ActorSystem("play", **options) as system:
        yield Cast(system)


async def parked(team: Any, message: Any = "go", **options: Any) -> rt.ApprovalRequired:
    """The error of a run that waits for a person."""
    with pytest.raises(rt.ApprovalRequired) as waiting:
        await team.ask(message, **options)
    return waiting.value
