"""Parallel: the same question to all at the same time, and their answers put together."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import retinue as rt
from agent_players import Hanging, read
from pattern_players import cast, echo, parked
from retinue import llm
from three_faces import FACES, on_face


async def test_all_are_asked_the_same_and_their_answers_come_in_the_members_order() -> None:
    async with cast() as play:
        team = await play.system.spawn(rt.Parallel, await play.agents(b=echo("b"), a=["two\nlines"]), name="team")
        answer = await team.ask("go")
        assert (answer.content, answer.sender, answer.usage.requests) == ("b: b(go)\na: two\n    lines", "team", 2)
        assert play.heard("a") == ["go"]


async def test_they_are_at_work_at_the_same_time_and_never_more_than_were_allowed() -> None:
    at_work, most = 0, 0

    async def work() -> str:
        """Works."""
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        await trio.sleep(0.02)
        at_work -= 1
        return "done"

    async with cast() as play:
        members = [await play.agent(str(number), llm.tool_calls(("work", {})), "ok", tools=[work]) for number in range(6)]
        team = await play.system.spawn(rt.Parallel, members, at_once=3)
        await team.ask("go")
    assert most == 3


async def test_a_member_puts_the_others_answers_together() -> None:
    async with cast() as play:
        team = await play.system.spawn(rt.Parallel, await play.agents(a=["yes"], b=["no"], editor=["maybe"]), combine="editor")
        assert (await team.ask("Shall we?")).content == "maybe"
        assert play.heard("editor") == ["Shall we?\n\nThe answers:\na: yes\nb: no"]


async def test_a_function_puts_them_together_plain_or_async() -> None:
    async def longest(answers: Any) -> rt.AgentMessage:
        name = max(answers, key=lambda name: len(answers[name].content))
        return rt.AgentMessage(answers[name].content, extra={"by": name})

    async with cast() as play:
        team = await play.system.spawn(rt.Parallel, await play.agents(a=["x"], b=["xyz"]), combine=longest)
        answer = await team.ask("go")
        assert (answer.content, answer.extra) == ("xyz", {"by": "b"})
        team = await play.system.spawn(rt.Parallel, await play.agents(c=["x"]), combine=lambda _: 3)
        with pytest.raises(rt.DefinitionError, match="gave a int"):
            await team.ask("go")


async def test_an_error_of_one_ends_the_run_or_is_told_of_as_was_asked_for() -> None:
    async with cast() as play:
        scripts = {"a": ["yes"] * 2, "b": [llm.ModelFailed("503")] * 2, "editor": ["so"]}
        members = await play.agents(**scripts)
        team = await play.system.spawn(rt.Parallel, members, combine="editor", failures="skip")
        answer = await team.ask("go")
        assert answer.content == "so" and list(answer.extra["failed"]) == ["b"] and "503" in answer.extra["failed"]["b"]
        assert play.heard("editor")[0].endswith("a: yes\n\nNo answer came of b.")
        again = await play.system.spawn(rt.Parallel, await play.agents(c=["yes"], d=[llm.ModelFailed("503")]))
        with pytest.raises(llm.ModelFailed):
            await again.ask("go")
        assert (await again.ask(rt.GetMemory())).items == ()


async def test_where_all_fail_nothing_passes_for_an_answer() -> None:
    async with cast() as play:
        team = await play.system.spawn(rt.Parallel, await play.agents(a=[llm.ModelFailed("1")], b=[llm.ModelFailed("2")]), failures="skip")
        with pytest.raises(llm.ModelFailed, match="1"):
            await team.ask("go")


async def test_a_budget_that_is_used_up_is_no_failure_to_be_skipped_and_is_never_exceeded() -> None:
    async with cast() as play:
        team = await play.system.spawn(
            rt.Parallel,
            [await play.agent("m", lambda _: "x")] + [await play.agent(f"m{n}", lambda _: "x") for n in range(5)],
            failures="skip",
            limits=rt.TreeLimits(calls=3),
        )
        with pytest.raises((rt.RunLimitReached, rt.BudgetExceeded)):
            await team.ask("go")
        assert sum(map(len, play.told.values())) == 3


async def test_several_members_that_need_a_person_are_asked_about_together_and_nobody_works_twice() -> None:
    done: list[str] = []

    @rt.tool(approval=True)
    def do(what: str) -> str:
        """Does."""
        done.append(what)
        return f"did {what}"

    async with cast() as play:
        members = {name: await play.agent(name, llm.tool_calls(("do", {"what": name})), f"{name} ok", tools=[do]) for name in "ab"}
        members["c"] = await play.agent("c", "c ok")
        team = await play.system.spawn(rt.Parallel, members)
        waiting = await parked(team)
        assert len(waiting.requests) == 2 and len(play.told["c"]) == 1
        tokens = [await play.system.approvals.approve(request.id, reviewer="carol") for request in waiting.requests[:1]]
        await play.system.approvals.reject(waiting.requests[1].id, reviewer="carol", note="not b")
        answer = await team.ask(rt.Resume(waiting.run or ""), approvals=tokens)
        assert answer.content == "a: a ok\nb: b ok\nc: c ok" and done == ["a"] and len(play.told["c"]) == 1


async def test_a_reader_that_leaves_stops_all_of_them() -> None:
    async with cast() as play:
        marks = [(trio.Event(), trio.Event()) for _ in range(2)]
        models = [await play.system.spawn(Hanging, *mark, ("word",), name=f"hanging{number}") for number, mark in enumerate(marks)]
        team = await play.system.spawn(rt.Parallel, [rt.Agent.spec(model=model) for model in models])
        async with team.stream("go") as events:
            async for event in events:
                assert isinstance(event, rt.FromMember)
                if all(began.is_set() for began, _ in marks):
                    break
        with trio.fail_after(20):
            for _, ended in marks:
                await ended.wait()


async def test_streamed_the_words_of_each_come_under_its_name() -> None:
    async with cast() as play:
        events = await read(await play.system.spawn(rt.Parallel, await play.agents(a=["one two"], b=["three four"])), "go")
    told = [(path, event.text) for path, event in map(rt.innermost, events) if isinstance(event, rt.TextDelta)]
    assert "".join(text for path, text in told if path == ("b",)) == "three four" and isinstance(events[-1], rt.RunEnd)


async def test_without_anybody_to_ask_it_says_so() -> None:
    async with cast() as play:
        team = await play.system.spawn(rt.Parallel, await play.agents(editor=["x"]), combine="editor")
        with pytest.raises(rt.RoutingFailed, match="no member"):
            await team.ask("go")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"combine": "b"}, "no member has that name; there is 'a'"),
        ({"combine": 3}, "a member's name, or a function"),
        ({"at_once": 0}, "at_once=0"),
        ({"failures": "ignore"}, '"raise" or "skip"'),
    ],
    ids=["combine", "number", "at once", "failures"],
)
async def test_what_cannot_be_one_is_refused_to_the_spawner(options: dict[str, Any], told: str) -> None:
    async with cast() as play:
        with pytest.raises(rt.DefinitionError, match=told):
            await play.system.spawn(rt.Parallel, {"a": rt.Agent.spec(model="scripted:x")}, **options)


@pytest.mark.parametrize("face", FACES)
def test_it_is_the_same_from_every_face(face: str) -> None:
    def body(it: Any) -> None:
        team = it.spawn(rt.Parallel, {"a": rt.Agent.spec(model="scripted:one"), "b": rt.Agent.spec(model="scripted:two")})
        assert it.ask(team, "go").content == "a: one\nb: two"

    on_face(face, body)
