"""Streams of teams: what each member says, in order, with one end; and what becomes of a reader that leaves or does not read."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import retinue as rt
from agent_players import Hanging, read
from retinue import llm
from team_players import Echo, Made, contents


def texts(events: list[Any]) -> dict[tuple[str, ...], str]:
    found: dict[tuple[str, ...], str] = {}
    for path, event in map(rt.innermost, events):
        if isinstance(event, rt.TextDelta):
            found[path] = found.get(path, "") + event.text
    return found


async def test_members_that_work_at_the_same_time_tell_each_its_own() -> None:
    async with rt.ActorSystem("teams") as system:
        members = {name: rt.Agent.spec(model=f"scripted:words of {name}, and more") for name in "abc"}

        async def forward(run: rt.TeamRun) -> str:
            assert run.streamed

            async def branch(name: str) -> None:
                await run.gather([(name, "once"), (name, "twice")])
                await run.emit(rt.Notice("hook", f"{name} is done"))

            await run.together([lambda name=name: branch(name) for name in run.members])
            return "over"

        team = await system.spawn(Made, members, forward)
        events = await read(team, "go")
        assert texts(events) == {(name,): f"words of {name}, and more" * 2 for name in "abc"}
        assert sorted(event.text for event in events if isinstance(event, rt.Notice)) == ["a is done", "b is done", "c is done"]
        assert [event.message.content for event in events if isinstance(event, rt.RunEnd)] == ["over"]
        assert isinstance(events[-1], rt.RunEnd)


async def test_nothing_is_emitted_where_nobody_reads() -> None:
    async def forward(run: rt.TeamRun) -> str:
        assert not run.streamed
        await run.emit(rt.Notice("hook", "unheard"))
        await run.handed_off("a", "b")
        return "over"

    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(Made, [], forward)
        assert (await team.ask("go")).content == "over"


async def test_what_a_task_of_the_authors_own_says_comes_with_the_next_event() -> None:
    async def forward(run: rt.TeamRun) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.ask, "a", "x")
            nursery.start_soon(run.emit, rt.Notice("hook", "of a task"))
        return "over"

    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(Made, {"a": rt.Agent.spec(model="scripted:words")}, forward)
        events = await read(team, "go")
        assert texts(events) == {("a",): "words"}
        assert any(isinstance(event, rt.Notice) for event in events)
        assert isinstance(events[-1], rt.RunEnd)


async def test_a_member_that_streams_nothing_is_asked() -> None:
    async with rt.ActorSystem("teams") as system:
        asked: list[Any] = []
        team = await system.spawn(rt.Sequential, {"echo": await system.spawn(Echo, asked, "e")})
        events = await read(team, "x")
        assert events[-1].message.content == "e(x)"
        assert len(asked) == 1


@pytest.mark.parametrize("how", ["sequence", "gather", "nested"])
async def test_a_reader_that_leaves_ends_what_the_members_do(how: str) -> None:
    began, ended = trio.Event(), trio.Event()
    async with rt.ActorSystem("teams") as system:
        hanging = rt.Agent.spec(model=await system.spawn(Hanging, began, ended, ("some", " words")))
        if how == "gather":
            team = await system.spawn(
                Made, {"h": hanging, "quick": rt.Agent.spec(model="scripted:x")}, lambda run: run.gather([("h", "x"), ("quick", "y")])
            )
        elif how == "nested":
            team = await system.spawn(rt.Sequential, [rt.Sequential.spec([hanging])])
        else:
            team = await system.spawn(rt.Sequential, [hanging])
        async with team.stream("go") as events:
            async for event in events:
                if rt.innermost(event)[1] == rt.TextDelta(" words"):
                    break
        with trio.fail_after(5):
            await ended.wait()
        assert await contents(team) == []
        with trio.fail_after(5):
            assert await team.ask(rt.Cancel()) is False  # the session is free again


async def test_an_error_ends_the_stream_once_and_nothing_is_remembered() -> None:
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(rt.Sequential, {"a": rt.Agent.spec(model="scripted:fail now"), "b": await system.spawn(Echo, [], "b")})
        *events, error = await read(team, "go")
        assert isinstance(error, ValueError | rt.RetinueError)
        assert not any(isinstance(event, rt.RunEnd) for event in events)
        assert await contents(team) == []


async def test_a_reader_that_does_not_read_holds_all_members_back() -> None:
    said = [0]

    class Endless(llm.Deployment):
        async def stream_once(self, request: llm.Complete) -> Any:
            while True:
                said[0] += 1
                yield llm.TextDelta("x")
                await trio.lowlevel.checkpoint()

    async with rt.ActorSystem("teams") as system:
        model = await system.spawn(Endless)
        members = {name: rt.Agent.spec(model=model) for name in "abc"}
        team = await system.spawn(Made, members, lambda run: run.gather([(name, "x") for name in "abc"]))
        async with team.stream("go") as events:
            async for _ in events:
                break
            for _ in range(2_000):
                await trio.lowlevel.checkpoint()
            before = said[0]
            for _ in range(2_000):
                await trio.lowlevel.checkpoint()
            assert said[0] == before < 2_000


async def test_cancel_of_a_streamed_run_ends_it_for_its_reader() -> None:
    began, ended = trio.Event(), trio.Event()
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(rt.Sequential, [rt.Agent.spec(model=await system.spawn(Hanging, began, ended))])
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def reader() -> None:
                assert isinstance((await read(team, "go"))[-1], rt.RunCancelled)

            await began.wait()
            assert await team.ask(rt.Cancel()) is True
            with trio.fail_after(5):
                await ended.wait()
