"""Options and names that nobody can mean."""

from __future__ import annotations

import math

import pytest

import retinue as rt
from retinue import llm

IDLES = {"none": None, "negative": -1, "no number": math.nan, "a text": "x", "zero": 0, "true": True}


@pytest.mark.parametrize("name", list(IDLES))
@pytest.mark.parametrize("kind", ["Team", "RoundRobin", "AgentDict"])
def test_a_time_after_which_no_session_could_rest_is_refused_where_it_is_written(kind: str, name: str) -> None:
    with pytest.raises(rt.DefinitionError, match="session_idle="):
        getattr(rt, kind)({"a": rt.Agent.spec(model="openai:gpt-4.1")}, session_idle=IDLES[name])


@pytest.mark.parametrize("odd", [{}, [], 7, b"x"], ids=["dict", "list", "int", "bytes"])
async def test_a_subject_and_a_tenant_are_texts(odd: object) -> None:
    async with rt.ActorSystem("texts") as system:
        agent = await system.spawn(rt.Agent, model=await system.spawn(llm.Scripted, []))
        for message in (rt.GetState, rt.GetMemory, rt.ClearMemory):
            for what in ("subject", "tenant"):
                with pytest.raises(rt.BadInput, match=f"{what}= is a {type(odd).__name__}"):
                    await agent.ask(message(**{what: odd}))
        with pytest.raises(rt.BadInput, match="subject= is a"):
            await agent.ask(rt.LoadState({}, subject=odd))  # type: ignore[arg-type]
