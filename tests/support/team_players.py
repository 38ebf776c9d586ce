"""Members of teams whose answers tell what they were told, and teams made of a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

import retinue as rt
from retinue import llm

__all__ = ["Echo", "Made", "Sender", "Waiting", "contents", "echo", "parked_by", "said"]


def echo(request: llm.Complete) -> str:
    """A model that answers with everything that users have said to it."""
    return " | ".join(each.content for each in request.messages if each.role == "user")


class Echo(rt.Actor):
    """No agent: an actor that answers messages, and notes them. It remembers nothing and streams nothing."""

    def __init__(self, asked: list[Any] | None = None, label: str = "") -> None:
        self.asked = asked if asked is not None else []
        self.label = label

    @rt.handler(raises=Exception)
    async def answer(self, message: rt.AgentMessage) -> rt.AgentMessage:
        self.asked.append((self.label, message.session, message.content))
        await trio.lowlevel.checkpoint()
        if isinstance(message.content, str) and message.content.startswith("fail"):
            raise ValueError(f"{self.label} fails")
        return rt.AgentMessage(f"{self.label}({message.content})", self.label)


class Waiting(rt.Actor):
    """Answers when it may, and notes who was left."""

    def __init__(self, began: list[Any], ended: list[Any], gate: trio.Event | None = None) -> None:
        self.began = began
        self.ended = ended
        self.gate = gate

    @rt.handler(raises=Exception)
    async def answer(self, message: rt.AgentMessage) -> rt.AgentMessage:
        self.began.append(message.content)
        try:
            if self.gate is None:
                await trio.sleep_forever()
            else:
                await self.gate.wait()
        finally:
            self.ended.append(message.content)
        return rt.AgentMessage(f"waited for {message.content}")


class Made(rt.Team):
    """A team whose forward is the function that it is given."""

    def __init__(self, members: Any, function: Callable[[rt.TeamRun], Awaitable[Any]], **options: Any) -> None:
        super().__init__(members, **options)
        self.function = function

    async def forward(self, run: rt.TeamRun) -> Any:
        return await self.function(run)


class Sender:
    """A tool that needs consent, and what it did.

    Attributes:
        sent: To whom.
    """

    def __init__(self) -> None:
        self.sent: list[str] = []

        async def send(to: str) -> str:
            """Sends.

            Args:
                to: Whom.
            """
            self.sent.append(to)
            return f"sent to {to}"

        self.tool = rt.tool(approval=True)(send)

    async def agent(self, system: rt.ActorSystem, *to: str) -> rt.AgentSpec:
        """An agent that sends to each of them, in one reply, for each message that it gets; then it says what became of that: "yes,no"."""

        def model(request: llm.Complete) -> llm.Completion | str:
            results: list[str] = []
            for message in reversed(request.messages):
                if message.role != "tool":
                    break
                results.insert(0, "yes" if message.content.startswith("sent") else "no")
            return ",".join(results) if results else llm.tool_calls(*(("send", {"to": name}) for name in to))

        return rt.Agent.spec(model=await system.spawn(llm.Scripted, model), tools=[self.tool])


async def parked_by(agent: Any, message: Any, **options: Any) -> rt.ApprovalRequired:
    """The error of a run that waits for people."""
    try:
        answer = await agent.ask(message, **options)
    except rt.ApprovalRequired as error:
        return error
    raise AssertionError(f"it does not wait: {answer}")


async def contents(agent: Any, session: str = "0", path: str = "", **options: Any) -> list[Any]:
    """What the messages say that an agent remembers."""
    memory = await agent.ask(rt.GetMemory(session, path=path), **options)
    return [message.content for message in memory.messages]


def said(answer: rt.AgentMessage) -> tuple[Any, str]:
    """Content and sender."""
    return answer.content, answer.sender
