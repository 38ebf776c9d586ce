"""What an author's own code raises comes with the author's own lines: how its message got there fills no screen."""

from __future__ import annotations

import asyncio
import json
import traceback
from typing import Any

import pytest

import retinue as rt
from retinue import aio, sync


class Broken(rt.Actor):
    """A member with a mistake in it."""

    @rt.handler(open_to_all=True)
    def work(self, message: rt.AgentMessage) -> rt.AgentMessage:
        return self.look(message.text)

    def look(self, text: str) -> Any:
        return json.loads(text)


def between(error: Exception) -> tuple[list[str], int]:
    """The functions of the error's lines from the member on, and how many lines of the framework's lead there from whoever asked."""
    calls = traceback.extract_tb(error.__traceback__)
    names = [call.name for call in calls]
    work = names.index("work")
    asked = max(number for number, call in enumerate(calls[:work]) if call.filename == __file__)
    return names[work:], work - asked - 1


def deep() -> rt.AgentSpec:
    return rt.Sequential.spec({"inner": rt.Agent.spec(model="scripted:no JSON")})


@pytest.mark.parametrize("face", ["sync", "aio", "trio"])
def test_an_error_out_of_a_teams_member_shows_the_members_lines_and_few_of_the_frameworks(face: str) -> None:
    async def by_trio() -> None:
        async with rt.ActorSystem() as system:
            team = await system.spawn(rt.Sequential, {"a": deep(), "b": await system.spawn(Broken)})
            await ask(team)

    async def ask(team: Any) -> None:
        try:
            await team.ask("hi")
        except json.JSONDecodeError as error:
            found.append(error)

    async def by_aio() -> None:
        async with aio.ActorSystem() as system:
            await ask(await system.spawn(rt.Sequential, {"a": deep(), "b": await system.spawn(Broken)}))

    found: list[Exception] = []
    if face == "sync":
        with sync.ActorSystem() as system:
            team = system.spawn(rt.Sequential, {"a": deep(), "b": system.spawn(Broken)})
            with pytest.raises(json.JSONDecodeError) as caught:
                team.ask("hi")
            found.append(caught.value)
    elif face == "aio":
        asyncio.run(by_aio())
    else:
        rt.run(by_trio)
    names, few = between(found[0])
    assert names == ["work", "look", "loads", "decode", "raw_decode"] and few <= 8
    assert "of the member 'b'" in found[0].__notes__[0]


def test_what_no_authors_code_has_raised_keeps_all_its_lines() -> None:
    with sync.ActorSystem() as system:
        agent = system.spawn(rt.Agent, model="scripted:x")
        with pytest.raises(rt.NoSuchRun) as caught:
            agent.ask(rt.Resume("0/none"))
    assert len(traceback.extract_tb(caught.value.__traceback__)) > 6
