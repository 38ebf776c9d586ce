"""A law of all patterns: whatever people decide, and in whichever order, each call that was approved is carried out once, and no other."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from pattern_players import Cast, cast
from retinue import llm

PATTERNS = ("round robin", "selector", "parallel", "debate", "map-reduce", "fallback", "supervisor")


async def team_of(pattern: str, play: Cast, draw: Random, members: dict[str, Any]) -> Any:
    """A team of a pattern, from three members."""
    a, b, c = members.values()
    spawn = play.system.spawn
    match pattern:
        case "round robin":
            return await spawn(rt.RoundRobin, members, rounds=2)
        case "selector":
            return await spawn(rt.Selector, members, choose=lambda said, names: draw.choice(list(names)) if len(said) < 5 else None)
        case "parallel":
            return await spawn(rt.Parallel, members, combine="c", failures="skip")
        case "debate":
            return await spawn(rt.Debate, members, judge="c", rounds=2)
        case "map-reduce":
            return await spawn(rt.MapReduce, mapper=a, reducer=b, split=lambda _: ["one", "two", "three"])
        case "fallback":
            return await spawn(rt.Fallback, [a, b, c])
        case _:
            lead = await play.agent("lead", llm.tool_calls(*((f"ask_{name}", {"message": "go"}) for name in "abc")), "done")
            return await spawn(rt.Supervisor, lead=lead, workers=members)


@pytest.mark.parametrize("pattern", PATTERNS, ids=[name.replace(" ", "-") for name in PATTERNS])
@settings(max_examples=4)
@given(st.randoms(use_true_random=False))
def test_each_call_that_was_approved_is_carried_out_once_and_no_other(pattern: str, draw: Random) -> None:
    done: list[str] = []

    @rt.tool(approval=True)
    def act(what: str) -> str:
        """Acts."""
        done.append(what)
        return f"did {what}"

    async def main() -> None:
        async with cast() as play:
            asked: Counter[str] = Counter()

            def player(name: str) -> Any:
                def line(request: llm.Complete) -> Any:
                    asked[name] += 1
                    if request.messages[-1].role == "tool" or draw.random() < 0.5:
                        return f"{name} says {asked[name]}"
                    return llm.tool_calls(("act", {"what": f"{name}{asked[name]}"}))

                return line

            members = {name: await play.agent(name, player(name), tools=[act]) for name in "abc"}
            team = await team_of(pattern, play, draw, members)
            approved: list[str] = []
            message: Any = "go"
            for _ in range(60):
                try:
                    answer = await team.ask(message)
                    break
                except rt.ApprovalRequired as waiting:
                    message = rt.Resume(waiting.run or "")
                    for request in draw.sample(list(waiting.requests), draw.randint(1, len(waiting.requests))):
                        if draw.random() < 0.7:
                            await play.system.approvals.approve(request.id, reviewer="carol")
                            approved.append(request.shown()[-1].split('"')[1])
                        else:
                            await play.system.approvals.reject(request.id, reviewer="carol", note="no")
            else:
                raise AssertionError("it never ends")
            assert answer.content and sorted(done) == sorted(approved) and len(set(done)) == len(done)
            assert len((await team.ask(rt.GetMemory())).messages) == 2

    trio.run(main)
