"""Teams: a forward that asks members; what is remembered, what is told, and what goes wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

import retinue as rt
from agent_players import Hanging, read
from retinue import llm
from team_players import Echo, Made, Waiting, contents, echo, said


@asynccontextmanager
async def team_of(function: Any, members: Any = None, **options: Any) -> AsyncIterator[tuple[rt.ActorSystem, Any, list[Any]]]:
    """A team of two echoes, "a" and "b", and what they were told."""
    async with rt.ActorSystem("teams") as system:
        asked: list[Any] = []
        if members is None:
            members = {label: await system.spawn(Echo, asked, label) for label in ("a", "b")}
        yield system, await system.spawn(Made, members, function, name="team", **options), asked


async def both(run: rt.TeamRun) -> rt.AgentMessage:
    return await run.ask("b", await run.ask("a", run.message))


async def test_a_forward_asks_members_one_after_the_other_in_the_runs_session() -> None:
    async with team_of(both) as (_, team, asked):
        assert said(await team.ask("hi")) == ("b(a(hi))", "b")
        assert said(await team.ask(rt.AgentMessage("ho", session="s"))) == ("b(a(ho))", "b")
        assert asked == [("a", "0", "hi"), ("b", "0", "a(hi)"), ("a", "s", "ho"), ("b", "s", "a(ho)")]


async def test_a_member_hears_who_says_what() -> None:
    heard: list[tuple[str, str]] = []

    class Ear(rt.Actor):
        @rt.handler
        async def answer(self, message: rt.AgentMessage) -> Any:
            heard.append((message.sender, message.content))
            return "yes"

    async def forward(run: rt.TeamRun) -> str:
        answer = await run.ask("ear", run.message)
        assert said(answer) == ("yes", "ear")  # a str is an answer, too; its sender is the member's name
        await run.ask("ear", "the team's own words")
        await run.ask("ear", answer)
        return "over"

    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(Made, {"ear": await system.spawn(Ear, name="other")}, forward, name="team")
        assert said(await team.ask(rt.AgentMessage("hi", "eve"))) == ("over", "team")
        assert heard == [("eve", "hi"), ("team", "the team's own words"), ("ear", "yes")]


async def test_a_team_remembers_what_it_was_told_and_answered_and_its_members_what_they_were() -> None:
    async def forward(run: rt.TeamRun) -> rt.AgentMessage:
        draft = await run.ask("writer", f"{len(run.history)} before; {run.message.content}")
        return await run.ask("critic", draft)

    async with rt.ActorSystem("teams") as system:
        model = await system.spawn(llm.Scripted, lambda request: f"v{len(request.messages)}")
        spec = rt.Agent.spec(model=model)
        team = await system.spawn(Made, {"writer": spec, "critic": spec}, forward, name="team")
        await team.ask("one")
        await team.ask("two")
        assert await contents(team) == ["one", "v1", "two", "v3"]
        assert await contents(team, path="writer") == ["0 before; one", "v1", "2 before; two", "v3"]
        assert await contents(team, path="critic") == ["v1", "v1", "v3", "v3"]
        assert await contents(team, "other") == []


async def test_the_answer_says_what_the_run_used_in_all() -> None:
    async def forward(run: rt.TeamRun) -> str:
        await run.gather([("a", "x"), ("a", "y"), ("b", "z")])
        await run.complete(model, llm.Complete((llm.ChatMessage("user", "choose"),)))
        return "done"

    async with rt.ActorSystem("teams") as system:
        model = await system.spawn(llm.Scripted, "yes")
        team = await system.spawn(Made, {name: rt.Agent.spec(model=model) for name in "ab"}, forward)
        answer = await team.ask("go")
        assert answer.usage is not None
        assert answer.usage.requests == 4


async def test_state_is_kept_from_run_to_run_in_its_session_alone_and_only_by_runs_that_succeed() -> None:
    async def forward(run: rt.TeamRun) -> str:
        run.state["runs"] = run.state.get("runs", 0) + 1
        run.state.setdefault("said", []).append(run.message.content)
        await run.ask("a", run.message)
        return f"{run.state['runs']}: {','.join(run.state['said'])}"

    async with team_of(forward) as (_, team, _asked):
        assert (await team.ask("x")).content == "1: x"
        with pytest.raises(ValueError, match="a fails"):
            await team.ask("fail")
        assert (await team.ask("y")).content == "2: x,y"
        assert (await team.ask(rt.AgentMessage("z", session="s"))).content == "1: z"
        assert (await team.ask(rt.GetState()))["state"] == {"runs": 2, "said": ["x", "y"]}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (object(), "no plain data"), ({1, 2}, "no plain data"), (float("nan"), "no plain data"), ("x" * 1_000_001, "keep less"),
        ([{"a": {1: "x"}}], "the key 1, which is a int: keys are texts, '1'"), ({None: 1}, "the key None"),
    ],
    ids=["object", "set", "nan", "long", "number", "none"],
)  # fmt: skip
async def test_state_that_is_no_plain_data_ends_the_run_and_is_not_kept(value: Any, text: str) -> None:
    async def forward(run: rt.TeamRun) -> str:
        run.state["value"] = value
        return "done"

    async with team_of(forward) as (_, team, _asked):
        with pytest.raises(rt.BadState, match=text):
            await team.ask("x")
        assert (await team.ask(rt.GetState())) == {"version": 1, "memory": []}


async def test_a_run_that_fails_leaves_nothing_in_the_teams_memory_and_asking_again_repeats_nothing() -> None:
    async with team_of(both) as (_, team, _asked):
        with pytest.raises(ValueError, match="a fails"):
            await team.ask("fail")
        assert await contents(team) == []
        assert (await team.ask("again")).content == "b(a(again))"
        assert await contents(team) == ["again", "b(a(again))"]


@pytest.mark.parametrize("value", [None, 3, ["a"], b"x"], ids=["None", "int", "list", "bytes"])
async def test_a_forward_that_returns_what_is_no_answer_is_told_so(value: Any) -> None:
    async def forward(run: rt.TeamRun) -> Any:
        return value

    async with team_of(forward) as (_, team, _asked):
        with pytest.raises(rt.TeamError, match="return an rt.AgentMessage, or a str"):
            await team.ask("x")


async def test_a_member_that_answers_what_is_no_answer_is_named() -> None:
    class Odd(rt.Actor):
        @rt.handler
        async def answer(self, message: rt.AgentMessage) -> Any:
            return 7

    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(Made, {"odd": await system.spawn(Odd)}, lambda run: run.ask("odd", "x"))
        with pytest.raises(rt.TeamError, match="'odd' has answered with a int"):
            await team.ask("x")


async def test_a_team_without_a_forward_is_refused() -> None:
    async with rt.ActorSystem("teams") as system:
        with pytest.raises(rt.DefinitionError, match="Team has no forward: override `async def forward"):
            await system.spawn(rt.Team, [])


@pytest.mark.parametrize("name", ["c", "", "A", "a.b", None, 3], ids=repr)
async def test_asking_whom_there_is_not_is_an_error_that_names_those_there_are(name: Any) -> None:
    async with team_of(lambda run: run.ask(name, "x")) as (_, team, asked):
        with pytest.raises(rt.NoSuchMember, match="has no member" if isinstance(name, str) else "for a member: give its name") as caught:
            await team.ask("x")
        assert caught.value.name == (name if isinstance(name, str) else "")
        assert asked == []


async def test_a_name_that_is_nearly_right_is_guessed() -> None:
    async with team_of(
        lambda run: run.ask("writr", "x"), {"writer": rt.Agent.spec(model="scripted:x"), "critic": rt.Agent.spec(model="scripted:y")}
    ) as (_, team, _a):
        with pytest.raises(rt.NoSuchMember, match="did you mean 'writer'"):
            await team.ask("x")


@pytest.mark.parametrize("message", [3, None, b"x", rt.GetMemory()], ids=lambda one: type(one).__name__)
async def test_what_a_member_cannot_be_told_is_refused_before_it_is_asked(message: Any) -> None:
    async with team_of(lambda run: run.ask("a", message)) as (_, team, asked):
        with pytest.raises(rt.BadInput, match="run.ask was given a"):
            await team.ask("x")
        assert asked == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tools": [print]}, "tools"),
        ({"limits": rt.RunLimits(tokens=3)}, "TreeLimits"),
        ({"handoffs": ["a"]}, "handoffs"),
        ({"exit_at": 1}, "Sequential"),
    ],
    ids=["tools", "limits", "handoffs", "exit_at"],
)
async def test_options_of_a_run_that_are_no_teams_are_refused(options: Any, text: str) -> None:
    async with team_of(both) as (_, team, _asked):
        with pytest.raises(rt.BadInput, match=text):
            await team.ask(rt.Run("x", **options))


@pytest.mark.parametrize(
    "message",
    ["", "   ", rt.AgentMessage(None), rt.AgentMessage("x", session=""), rt.AgentMessage("x", "")],
    ids=["empty", "blank", "none", "session", "sender"],
)
async def test_a_team_is_told_what_an_agent_can_be_told(message: Any) -> None:
    async with team_of(both) as (_, team, asked):
        with pytest.raises(rt.BadInput):
            await team.ask(message)
        assert asked == []


async def test_gather_asks_at_the_same_time_and_answers_in_order() -> None:
    began: list[str] = []
    gate = trio.Event()

    async with rt.ActorSystem("teams") as system:
        members = {f"m{number}": await system.spawn(Waiting, began, [], gate) for number in range(5)}

        async def forward(run: rt.TeamRun) -> str:
            answers = await run.gather([(name, name) for name in run.members], at_once=3)
            return ",".join(answer.sender for answer in answers)

        team = await system.spawn(Made, members, forward)
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def ask() -> None:
                assert (await team.ask("go")).content == "m0,m1,m2,m3,m4"

            await wait_all_tasks_blocked()
            assert sorted(began) == ["m0", "m1", "m2"]
            gate.set()
        assert sorted(began) == ["m0", "m1", "m2", "m3", "m4"]


async def test_the_first_error_of_a_gather_is_raised_when_all_have_ended_or_stands_in_its_place() -> None:
    async def forward(run: rt.TeamRun) -> str:
        asks = [("a", "fail 1"), ("b", "x"), ("b", "fail 2")]
        found = await run.gather(asks, errors="return")
        assert [type(each).__name__ for each in found] == ["ValueError", "AgentMessage", "ValueError"]
        with pytest.raises(ValueError, match="a fails"):
            await run.gather(asks)
        return "done"

    async with team_of(forward) as (_, team, asked):
        assert (await team.ask("go")).content == "done"
        assert len(asked) == 6


@pytest.mark.parametrize("options", [{"at_once": 0}, {"at_once": True}, {"at_once": 2.0}, {"errors": "ignore"}], ids=str)
async def test_gather_refuses_options_that_make_no_sense(options: Any) -> None:
    async with team_of(lambda run: run.gather([("a", "x")], **options)) as (_, team, asked):
        with pytest.raises(rt.BadInput):
            await team.ask("go")
        assert asked == []


@pytest.mark.parametrize("asks", [["a"], [("a",)], [("a", "x", "y")], 3], ids=str)
async def test_gather_takes_pairs(asks: Any) -> None:
    async with team_of(lambda run: run.gather(asks)) as (_, team, asked):
        with pytest.raises(rt.BadInput, match="pairs of a member and a message"):
            await team.ask("go")
        assert asked == []


async def test_branches_make_several_steps_each() -> None:
    async def forward(run: rt.TeamRun) -> str:
        async def branch(word: str) -> str:
            first = await run.ask("a", word)
            return str((await run.ask("b", first)).content)

        return ",".join(await run.together([lambda word=word: branch(word) for word in ("x", "y", "z")], at_once=2))

    async with team_of(forward) as (_, team, _asked):
        assert (await team.ask("go")).content == "b(a(x)),b(a(y)),b(a(z))"


async def test_a_session_works_on_one_message_at_a_time_and_another_session_does_not_wait() -> None:
    began: list[str] = []
    gate = trio.Event()
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(
            Made,
            [await system.spawn(Waiting, began, [], gate, supervision=None), rt.Agent.spec(model="scripted:x")],
            lambda run: run.ask("0" if run.message.content != "quick" else "1", run.message),
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(team.ask, "first")
            await wait_all_tasks_blocked()
            nursery.start_soon(team.ask, "second")
            await wait_all_tasks_blocked()
            assert (await team.ask(rt.AgentMessage("quick", session="other"))).content == "x"
            assert began == ["first"]
            gate.set()
        assert await contents(team) == ["first", "waited for first", "second", "waited for second"]


async def test_cancel_ends_what_the_members_do_and_nothing_is_remembered() -> None:
    began, ended = trio.Event(), trio.Event()
    async with rt.ActorSystem("teams") as system:
        model = await system.spawn(Hanging, began, ended)
        inner = rt.Sequential.spec([rt.Agent.spec(model=model)])
        team = await system.spawn(rt.Sequential, {"quick": rt.Agent.spec(model="scripted:x"), "inner": inner}, name="team")
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def ask() -> None:
                with pytest.raises(rt.RunCancelled, match="/user/team"):
                    await team.ask("go")

            await began.wait()
            with trio.fail_after(5):
                assert await team.ask(rt.Cancel()) is True
                await ended.wait()
        assert await team.ask(rt.Cancel()) is False
        assert await contents(team) == []
        assert await contents(team, path="quick") == ["go", "x"]  # what a member has answered stays in its memory
        assert await contents(team, path="inner.0") == []


async def test_an_asker_that_gives_up_ends_what_the_members_do() -> None:
    began, ended = [], []
    async with rt.ActorSystem("teams") as system:
        members = {name: await system.spawn(Waiting, began, ended) for name in "abc"}
        team = await system.spawn(Made, members, lambda run: run.gather([(name, name) for name in "abc"]))
        with trio.move_on_after(0.05):
            await team.ask("go")
        with trio.fail_after(5):
            await system.wait_quiet()
        assert sorted(began) == sorted(ended) == ["a", "b", "c"]
        assert await contents(team) == []


async def test_a_member_has_the_time_that_it_is_given(autojump_clock: Any) -> None:
    async with rt.ActorSystem("teams") as system:
        ended: list[str] = []
        team = await system.spawn(Made, [await system.spawn(Waiting, [], ended)], lambda run: run.ask("0", "x", timeout=3.0))
        began = trio.current_time()
        with pytest.raises(rt.AskTimeout):
            await team.ask("go")
        assert trio.current_time() - began == pytest.approx(3.0, abs=0.1)
        assert ended == ["x"]


async def test_a_member_has_as_long_as_the_run_where_nothing_is_said(autojump_clock: Any) -> None:
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(Made, [await system.spawn(Waiting, [], [])], lambda run: run.ask("0", "x"))
        for seconds in (700.0, 30.0):
            began = trio.current_time()
            with pytest.raises(rt.AskTimeout):
                await team.ask("go", timeout=seconds)
            assert trio.current_time() - began == pytest.approx(seconds, abs=0.1)


async def test_teams_that_ask_each_other_in_a_ring_are_told_so() -> None:
    async with rt.ActorSystem("teams") as system:
        one = await system.spawn(Made, [], lambda run: run.ask("other", run.message), name="one")
        two = await system.spawn(Made, {"other": one}, lambda run: run.ask("other", run.message), name="two")
        await one.ask(rt.AddMember("other", two))
        with trio.fail_after(5), pytest.raises(rt.AskCycle):
            await one.ask("go")


async def test_a_run_is_no_use_outside_its_forward() -> None:
    kept: list[rt.TeamRun] = []

    async def forward(run: rt.TeamRun) -> str:
        kept.append(run)
        return "done"

    async with team_of(forward) as (_, team, _asked):
        await team.ask("x")
        with pytest.raises(rt.TeamError, match="in its own `forward`"):
            await kept[0].ask("a", "x")


async def test_another_subjects_session_of_the_same_name_is_another_session_of_each_member_too() -> None:
    async with rt.ActorSystem("teams") as system:
        model = await system.spawn(llm.Scripted, echo)
        team = await system.spawn(rt.Sequential, [rt.Agent.spec(model=model)], name="team")
        ada, eve = (system.authority.mint(name, ["**"]) for name in ("ada", "eve"))
        await team.ask("secret", context=ada)
        assert (await team.ask("hello", context=eve)).content == "hello"
        assert await contents(team, context=eve) == ["hello", "hello"]
        assert await contents(team, path="0", context=eve) == ["hello", "hello"]
        seen = await team.ask(rt.GetMemory(subject="ada", path="0"))
        assert [message.content for message in seen.messages] == ["secret", "secret"]
        whole = await team.ask(rt.GetState(subject="ada"))
        assert [entry["content"] for entry in whole["0.memory"]] == ["secret", "secret"]
        for message in (
            rt.GetMemory(subject="ada"),
            rt.GetMemory(subject="ada", path="0"),
            rt.GetState(subject="ada"),
            rt.ClearMemory(subject="ada", recursive=True),
            rt.LoadState(whole, subject="ada"),
            rt.Cancel(subject="ada"),
        ):
            with pytest.raises(rt.Denied, match="root"):
                await team.ask(message, context=eve)
        await team.ask(rt.ClearMemory(subject="ada", recursive=True))
        assert await contents(team, context=ada) == await contents(team, path="0", context=ada) == []
        await team.ask(rt.LoadState(whole, subject="ada"))
        assert await contents(team, path="0", context=ada) == ["secret", "secret"]


async def test_nobody_reads_a_session_at_its_own_address() -> None:
    async with team_of(both) as (system, team, _asked):
        ada, eve = (system.authority.mint(name, ["**"]) for name in ("ada", "eve"))
        await team.ask("secret", context=ada)
        session = system.registry.address("/user/team/sessions/0:ada")
        for message in (
            rt.GetMemory(),
            rt.GetState(),
            rt.ClearMemory(),
            rt.LoadState({}),
            rt.Cancel(),
            rt.AgentMessage("x"),
            rt.GetState(subject="ada"),
        ):
            with pytest.raises(rt.Denied):
                await session.ask(message, context=eve)
        assert len(await contents(team, context=ada)) == 2


async def test_a_member_works_within_its_own_grant_whoever_asks_and_within_the_askers_whatever_its_grant() -> None:
    async with rt.ActorSystem("teams") as system:
        model = await system.spawn(llm.Scripted, "x")
        narrow = rt.Agent.spec(model=model, grant=["nothing.at.all"])
        wide = rt.Agent.spec(model=model, grant=["**"])
        team = await system.spawn(Made, {"narrow": narrow, "wide": wide}, lambda run: run.ask(run.message.content, "x"))
        with pytest.raises(rt.Denied):
            await team.ask("narrow")
        assert (await team.ask("wide")).content == "x"
        nobody = system.authority.mint("eve", ["tool.look"])
        with pytest.raises(rt.Denied):
            await team.ask("wide", context=nobody)


@pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])
async def test_a_forward_that_raises_what_is_no_exception_ends_its_run_and_nothing_else(streamed: bool) -> None:
    class Odd(BaseException):
        pass

    async def forward(run: rt.TeamRun) -> str:
        if run.message.content == "odd":
            raise Odd
        return "fine"

    async with team_of(forward) as (_, team, _asked):
        if streamed:
            assert isinstance((await read(team, "odd"))[-1], rt.AgentError)
        else:
            with pytest.raises(rt.AgentError, match="Odd came out"):
                await team.ask("odd")
        assert (await team.ask("x")).content == "fine"


async def test_errors_of_a_nursery_of_the_authors_own_come_out_as_themselves() -> None:
    async def forward(run: rt.TeamRun) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.ask, "a", "fail")
        return "never"

    async with team_of(forward) as (_, team, _asked):
        with pytest.raises(ValueError, match="a fails"):
            await team.ask("x")


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 49), min_size=50, max_size=120), st.booleans())
def test_fifty_sessions_at_the_same_time_never_mix(order: list[int], streamed: bool) -> None:
    async def main() -> None:
        async with rt.ActorSystem("teams") as system:
            model = await system.spawn(llm.Scripted, echo)

            async def forward(run: rt.TeamRun) -> str:
                run.state["seen"] = [*run.state.get("seen", ()), run.message.content]
                await run.gather([("a", run.message), ("b", run.message)])
                answer = await run.ask("a", f"again {run.message.content}")
                return f"{answer.content} / {','.join(run.state['seen'])}"

            team = await system.spawn(Made, {name: rt.Agent.spec(model=model) for name in "ab"}, forward)
            expected: dict[int, list[str]] = {}

            async def ask(number: int, words: str) -> None:
                message = rt.AgentMessage(words, session=f"s{number}")
                answer = (await read(team, message))[-1].message if streamed else await team.ask(message)
                assert answer.session == f"s{number}"

            async with trio.open_nursery() as nursery:
                for place, number in enumerate(order):
                    words = f"<{number}.{place}>"
                    expected.setdefault(number, []).append(words)
                    nursery.start_soon(ask, number, words)
            for number, words in expected.items():
                seen = (await team.ask(rt.GetState(f"s{number}")))["state"]["seen"]
                assert sorted(seen) == sorted(words)
                heard = " | ".join(part for one in seen for part in (one, f"again {one}"))
                assert (await contents(team, f"s{number}"))[-1] == f"{heard} / {','.join(seen)}"
                assert (await contents(team, f"s{number}", "b"))[::2] == seen

    rt.run(main)
