"""Refs of actors that cannot be what they are given as: that is said where they are given, and not at the first message."""

from __future__ import annotations

from typing import Any

import pytest

import retinue as rt
from retinue import llm


class Shelf(rt.Actor):
    """Takes nothing."""


class Parrot(rt.Actor):
    """A model of one's own."""

    @rt.handler(open_to_all=True)
    def complete(self, message: llm.Complete) -> llm.Completion:
        return llm.Completion(message.messages[-1].content)


class Echo(rt.Actor):
    """A member of one's own."""

    @rt.handler(open_to_all=True)
    def answer(self, message: rt.AgentMessage) -> rt.AgentMessage:
        return rt.AgentMessage(message.content, sender="echo")


@pytest.mark.parametrize("cls", [rt.Agent, rt.Selector, llm.Failover])
async def test_an_agents_ref_is_no_model_and_what_to_do_with_it_is_said(cls: Any) -> None:
    async with rt.ActorSystem("shop") as system:
        agent = await system.spawn(rt.Agent, model="scripted:x", name="historian")
        options: dict[str, Any] = {"model": agent}
        if cls is rt.Selector:
            options |= {"members": {"a": agent}, "until": rt.MaxMessages(1)}
        elif cls is llm.Failover:
            options = {"members": [agent]}
        with pytest.raises(
            rt.DefinitionError, match=r"is the ref of /user/historian \(Agent\), which takes no llm\.Complete.*rt\.agent_tool\(ref\)"
        ):
            await system.spawn(cls, **options)


async def test_an_actor_that_takes_no_message_of_agents_is_no_member_and_no_agents_tool() -> None:
    async with rt.ActorSystem("shop") as system:
        shelf = await system.spawn(Shelf, name="shelf")
        with pytest.raises(rt.DefinitionError, match=r"'a' is the ref of /user/shelf \(Shelf\), which takes no rt\.AgentMessage"):
            await system.spawn(rt.Sequential, {"a": shelf})
        team = await system.spawn(rt.Sequential, {"a": rt.Agent.spec(model="scripted:x")})
        with pytest.raises(rt.DefinitionError, match=r"takes no rt\.AgentMessage"):
            await team.ask(rt.AddMember("b", shelf))
        with pytest.raises(rt.DefinitionError, match=r"/user/shelf \(Shelf\) takes no rt\.AgentMessage"):
            rt.agent_tool(shelf)


async def test_models_and_members_of_ones_own_are_taken() -> None:
    async with rt.ActorSystem("shop") as system:
        agent = await system.spawn(rt.Agent, model=await system.spawn(Parrot))
        team = await system.spawn(rt.Sequential, {"a": await system.spawn(Echo), "b": agent})
        assert (await team.ask("hello")).text == "hello"
