"""A pool of deployments: the one with the least to do is asked, and those that cool are left alone."""

from __future__ import annotations

from collections import Counter

import pytest
import trio

import retinue as rt
from failing_models import Puppet, events_of, text_of
from retinue import llm

DOWN = llm.ModelFailed("overloaded", status=503)


async def pool_of(system, *acts, **options):
    refs = [await system.spawn(Puppet, *act, name=name) for act, name in zip(acts, "abcdef", strict=False)]
    return await system.spawn(llm.Pool, refs, name="model", **options)


async def test_requests_one_after_the_other_go_round():
    async with rt.ActorSystem() as system:
        model = await pool_of(system, ["A"], ["B"], ["C"])
        assert Counter([await text_of(model) for _ in range(9)]) == {"A": 3, "B": 3, "C": 3}


async def test_the_member_with_the_fewest_requests_gets_the_next(autojump_clock):
    async def slowly():
        await trio.sleep(100)
        return "slow"

    async with rt.ActorSystem() as system, trio.open_nursery() as nursery:
        model = await pool_of(system, [slowly], ["quick"])
        nursery.start_soon(text_of, model)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(text_of, model)
        await trio.testing.wait_all_tasks_blocked()
        assert [await text_of(model) for _ in range(5)] == ["quick"] * 5
        busy, idle = await model.ask(llm.GetMembers())
        assert (busy.outstanding, idle.outstanding) == (1, 0)


async def test_many_at_once_are_shared_evenly(autojump_clock):
    async def slowly():
        await trio.sleep(1)
        return "done"

    async with rt.ActorSystem() as system:
        model = await pool_of(system, [slowly], [slowly], [slowly])
        async with trio.open_nursery() as nursery:
            for _ in range(60):
                nursery.start_soon(text_of, model)
        assert [one.asked for one in await model.ask(llm.GetMembers())] == [20, 20, 20]


async def test_a_member_that_fails_is_left_alone_and_comes_back(autojump_clock):
    async with rt.ActorSystem() as system:
        model = await pool_of(system, [DOWN, "A"], ["B"], cooldown=10)
        assert {await text_of(model) for _ in range(6)} == {"B"}
        await trio.sleep(10)
        assert {await text_of(model) for _ in range(4)} == {"A", "B"}


async def test_a_stream_of_a_pool_is_one_members_answer():
    async with rt.ActorSystem() as system:
        model = await pool_of(system, [DOWN], [DOWN], ["C"])
        events = await events_of(model)
        assert events[-1].completion.text == "C"
        assert "".join(event.text for event in events if isinstance(event, llm.TextDelta)) == "C"


async def test_members_of_a_pool_are_checked_as_those_of_a_failover():
    async with rt.ActorSystem() as system:
        with pytest.raises(TypeError, match="a member of a Pool is a int"):
            await system.spawn(llm.Pool, [1])
