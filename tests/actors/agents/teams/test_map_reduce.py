"""Map-reduce: pieces that know nothing of each other, at the same time, and what comes of them put together in order."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import trio

import retinue as rt
from agent_players import Hanging, read
from pattern_players import Cast, cast, last_said, parked
from retinue import llm
from retinue.actors.agents.keeping import Keeper
from team_players import Sender, parked_by


def lines(message: rt.AgentMessage) -> list[str]:
    return str(message.content).splitlines()


async def mapper_and_reducer(play: Cast, mapper: Any = lambda request: last_said(request).upper(), **options: Any) -> Any:
    return await play.system.spawn(
        rt.MapReduce,
        mapper=await play.agent("mapper", *(mapper if isinstance(mapper, list) else [mapper])),
        reducer=await play.agent("reducer", lambda request: f"[{last_said(request)}]"),
        name="team",
        **options,
    )


async def test_each_piece_is_worked_on_by_itself_and_the_results_come_in_order() -> None:
    async with cast() as play:
        team = await mapper_and_reducer(play, split=lines)
        answer = await team.ask("one\ntwo\nthree")
        assert answer.content == "[The results of the pieces, in their order:\n1: ONE\n2: TWO\n3: THREE]"
        assert answer.extra == {"pieces": 3} and answer.usage.requests == 4
        assert all([message.role for message in request.messages] == ["user"] for request in play.told["mapper"])


async def test_a_message_that_is_a_list_is_cut_into_its_things_and_a_function_may_reduce() -> None:
    async with cast() as play:
        mapper = await play.agent("mapper", lambda request: str(len(last_said(request))))
        team = await play.system.spawn(rt.MapReduce, mapper=mapper, reducer=lambda results: str(sum(int(each.content) for each in results)))
        assert (await team.ask(rt.AgentMessage(["a", "bb", "ccc"]))).content == "6"
        with pytest.raises(rt.BadInput, match="give a list"):
            await team.ask("a text")


async def test_the_pieces_sessions_are_forgotten_after_a_run_whatever_became_of_it() -> None:
    async with cast() as play:
        script = ["one", "two", "three", llm.ModelFailed("503"), "four", "five"]
        mapper = await play.system.spawn(rt.Agent, model=await play.model("mapper", *script), name="mapper")
        seen: list[str] = []
        team = await play.system.spawn(rt.MapReduce, mapper=mapper, reducer=lambda _: "done", split=lines, at_once=1)
        async with team.stream("a\nb") as events:
            async for event in events:
                path, inner = rt.innermost(event)
                if path and isinstance(inner, rt.RunEnd):
                    seen.append(inner.message.session)
        assert len(set(seen)) == 2 and all(session.startswith("0:piece-") for session in seen)
        with pytest.raises(llm.ModelFailed):
            await team.ask("c\nd")
        assert (await team.ask("e\nf")).content == "done"
        for session in seen:
            assert (await mapper.ask(rt.GetMemory(session))).items == ()
        assert len(play.told["mapper"]) == 5  # and the one that failed


async def test_a_piece_that_fails_ends_the_run_or_is_told_of_as_was_asked_for() -> None:
    async with cast() as play:
        script = ["A", llm.ModelFailed("503"), "C"]
        team = await mapper_and_reducer(play, script, split=lines, at_once=1, failures="skip")
        answer = await team.ask("a\nb\nc")
        assert answer.extra["pieces"] == 3 and list(answer.extra["failed"]) == ["2"]
        assert play.heard("reducer") == ["The results of the pieces, in their order:\n1: A\n3: C\nNo result came of 2."]
    async with cast() as play:
        team = await mapper_and_reducer(play, [llm.ModelFailed("1"), llm.ModelFailed("2")], split=lines, at_once=1, failures="skip")
        with pytest.raises(llm.ModelFailed, match="1"):
            await team.ask("a\nb")
        assert not play.told.get("reducer")


async def test_after_a_failure_that_ends_the_run_no_more_pieces_are_begun() -> None:
    async with cast() as play:
        team = await mapper_and_reducer(play, [llm.ModelFailed("503"), *["x"] * 9], split=lines, at_once=1)
        with pytest.raises(llm.ModelFailed):
            await team.ask("a\nb\nc")
        assert not play.told["mapper"]


async def test_no_more_pieces_are_worked_on_at_once_than_were_allowed() -> None:
    at_work = most = 0

    async def work() -> str:
        """Works."""
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await trio.sleep(0.02)
        at_work -= 1
        return "done"

    async with cast() as play:
        model = await play.model("mapper", lambda request: "ok" if request.messages[-1].role == "tool" else llm.tool_calls(("work", {})))
        mapper = rt.Agent.spec(model=model, tools=[work])
        team = await play.system.spawn(rt.MapReduce, mapper=mapper, reducer=lambda _: "done", split=lines, at_once=4)
        await team.ask("\n".join("abcdefghij"))
    assert most == 4


async def test_pieces_that_need_a_person_are_asked_about_together_and_no_piece_is_done_twice() -> None:
    done: list[str] = []

    @rt.tool(approval=True)
    def do(what: str) -> str:
        """Does."""
        done.append(what)
        return f"did {what}"

    def model(request: llm.Complete) -> Any:
        said = last_said(request)
        return said if request.messages[-1].role == "tool" or said == "easy" else llm.tool_calls(("do", {"what": said}))

    async with cast() as play:
        mapper = await play.agent("mapper", model, tools=[do])
        team = await play.system.spawn(
            rt.MapReduce, mapper=mapper, reducer=lambda results: " ".join(each.content for each in results), split=lines
        )
        waiting = await parked(team, "a\neasy\nb")
        assert len(waiting.requests) == 2
        tokens = [await play.system.approvals.approve(request.id, reviewer="carol") for request in waiting.requests]
        answer = await team.ask(rt.Resume(waiting.run or ""), approvals=tokens)
        assert answer.content == "did a easy did b" and sorted(done) == ["a", "b"] and len(play.told["mapper"]) == 5


async def test_a_cancel_stops_the_pieces_and_a_run_after_it_begins_anew() -> None:
    async with cast() as play:
        began, ended = trio.Event(), trio.Event()
        hanging = await play.system.spawn(Hanging, began, ended, name="hanging")
        team = await play.system.spawn(rt.MapReduce, mapper=rt.Agent.spec(model=hanging), reducer=lambda _: "done", split=lines)
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                with pytest.raises(rt.RunCancelled):
                    await team.ask("a\nb")

            nursery.start_soon(run)
            await began.wait()
            await team.ask(rt.Cancel())
            with trio.fail_after(20):
                await ended.wait()


async def test_sessions_at_once_never_mix() -> None:
    async with cast() as play:
        team = await mapper_and_reducer(play, split=lines)
        found: dict[int, str] = {}

        async def run(number: int) -> None:
            found[number] = (await team.ask(rt.AgentMessage(f"x{number}\ny{number}", session=f"s{number}"))).content

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(run, number)
        assert all(text.endswith(f"1: X{number}\n2: Y{number}]") for number, text in found.items())


async def test_the_pieces_are_under_one_budget_which_they_never_exceed() -> None:
    async with cast() as play:
        team = await mapper_and_reducer(play, split=lines, failures="skip", limits=rt.TreeLimits(calls=4))
        with pytest.raises((rt.RunLimitReached, rt.BudgetExceeded)):
            await team.ask("\n".join("abcdefgh"))
        assert sum(map(len, play.told.values())) == 4


async def test_streamed_it_has_one_end() -> None:
    async with cast() as play:
        events = await read(await mapper_and_reducer(play, split=lines), "a\nb")
    assert [type(event) for event in events].count(rt.RunEnd) == 1 and events[-1].message.extra == {"pieces": 2}


@pytest.mark.parametrize(
    ("split", "told"),
    [
        (lambda _: "text", "gave a str"),
        (lambda _: 3, "gave a int"),
        (lambda _: [], "no pieces"),
        (lambda _: map(str, range(10**9)), "more than max_pieces=5"),
    ],
    ids=["text", "number", "none", "endless"],
)
async def test_what_a_split_gives_is_looked_at(split: Any, told: str) -> None:
    async with cast() as play:
        team = await mapper_and_reducer(play, split=split, max_pieces=5)
        with pytest.raises((rt.DefinitionError, rt.BadInput), match=told):
            await team.ask("go")


@pytest.mark.parametrize(
    "options", [{"mapper": 3}, {"reducer": None}, {"split": "x"}, {"at_once": 0}, {"failures": None}, {"max_pieces": 0}], ids=range(6)
)
async def test_what_cannot_be_one_is_refused_to_the_spawner(options: dict[str, Any]) -> None:
    async with cast() as play:
        spec = rt.Agent.spec(model="scripted:x")
        with pytest.raises(rt.DefinitionError, match="give"):
            await play.system.spawn(rt.MapReduce, **{"mapper": spec, "reducer": spec, **options})


@pytest.mark.parametrize("given_up", [rt.Cancel("0"), rt.ClearMemory("0"), rt.ClearMemory("0", recursive=True)], ids=repr)
async def test_the_pieces_of_a_parked_run_that_is_given_up_are_forgotten(given_up: Any) -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        mapper = await sender.agent(system, "bob")
        team = await system.spawn(rt.MapReduce, mapper=mapper, reducer=lambda results: "|".join(str(one.content) for one in results))
        waiting = await parked_by(team, rt.AgentMessage(["a", "b"]))
        await system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        with pytest.raises(rt.ApprovalRequired):
            await team.ask(rt.Resume(waiting.run))
        keepers = [each for each in gc.get_objects() if isinstance(each, Keeper) and any("piece-" in key for key in each._states)]
        assert keepers
        await team.ask(given_up)
        await system.wait_quiet()
        assert not [key for keeper in keepers for key in (*keeper._states, *keeper._parked) if "piece-" in key]
