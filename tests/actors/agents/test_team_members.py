"""Members that come and go while the team works, and who may see to that."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import retinue as rt
from agent_players import Hanging
from retinue import llm
from team_players import Echo, Made, Waiting, contents


async def everybody(run: rt.TeamRun) -> str:
    return ";".join([str((await run.ask(name, run.message)).content) for name in run.members])


def scripted(words: str, **options: Any) -> rt.AgentSpec:
    return rt.Agent.spec(model=f"scripted:{words}", **options)


async def test_members_are_added_paused_and_removed_and_the_next_run_finds_it_so() -> None:
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(Made, {"a": scripted("one"), "b": scripted("two")}, everybody, name="team")
        assert (await team.ask("x")).content == "one;two"
        await team.ask(rt.AddMember("c", scripted("three"), "the third"))
        await team.ask(rt.AddMember("d", await system.spawn(Echo, [], "d")))
        assert (await team.ask("x")).content == "one;two;three;d(x)"
        await team.ask(rt.PauseMember("a"))
        await team.ask(rt.PauseMember("a"))
        assert (await team.ask("x")).content == "two;three;d(x)"
        await team.ask(rt.UnpauseMember("a"))
        await team.ask(rt.RemoveMember("b"))
        assert (await team.ask("x")).content == "one;three;d(x)"
        found = await team.ask(rt.GetMembers())
        assert [(member.name, member.description, member.paused) for member in found] == [
            ("a", "", False),
            ("c", "the third", False),
            ("d", "", False),
        ]
        await team.ask(rt.AddMember("b", scripted("two again")))
        assert (await team.ask("x")).content == "one;three;d(x);two again"
        assert await contents(team, path="b") == ["x", "two again"]  # one of the same name, and nothing of the former's memory


async def test_a_paused_member_is_not_asked() -> None:
    async with rt.ActorSystem("teams") as system:
        asked: list[Any] = []
        team = await system.spawn(Made, {"a": await system.spawn(Echo, asked, "a")}, lambda run: run.ask("a", "x"), name="team")
        await team.ask(rt.PauseMember("a"))
        with pytest.raises(rt.MemberPaused, match=r"UnpauseMember\('a'\)") as caught:
            await team.ask("x")
        assert (caught.value.name, asked) == ("a", [])


@pytest.mark.parametrize("change", ["pause", "remove", "edit"])
async def test_what_a_member_is_doing_goes_on(change: str) -> None:
    async with rt.ActorSystem("teams") as system:
        began, gate = trio.Event(), trio.Event()

        class Slow(llm.Deployment):
            async def stream_once(self, request: llm.Complete) -> Any:
                began.set()
                await gate.wait()
                yield llm.TextDelta("finished")
                yield llm.Completed(llm.Completion("finished", "slow", finish_reason="stop"))

        team = await system.spawn(
            Made, {"a": rt.Agent.spec(model=await system.spawn(Slow))}, lambda run: run.ask("a", run.message), name="team"
        )
        answers: list[Any] = []
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def ask() -> None:
                answers.append((await team.ask("go")).content)

            await began.wait()
            with trio.fail_after(20):
                if change == "pause":
                    await team.ask(rt.PauseMember("a"))
                elif change == "remove":
                    await team.ask(rt.RemoveMember("a"))
                else:
                    await team.ask(rt.EditMember("a", options={"instructions": "Be brief."}))
            await wait_all_tasks_blocked()
            assert answers == []
            gate.set()
        assert answers == ["finished"]


async def test_an_edited_member_has_other_options_the_same_name_and_the_same_memory() -> None:
    seen: list[llm.Complete] = []

    def model(request: llm.Complete) -> str:
        seen.append(request)
        return f"answer {len(seen)}"

    async with rt.ActorSystem("teams") as system:
        spec = rt.Agent.spec(model=await system.spawn(llm.Scripted, model), instructions="Be long.", description="writes")
        team = await system.spawn(Made, {"writer": spec}, lambda run: run.ask("writer", run.message), name="team")
        ada = system.authority.mint("ada", ["**"])
        await team.ask("one")
        await team.ask("of Ada", context=ada)
        for number in range(3):
            await team.ask(rt.EditMember("writer", "writes well", {"instructions": f"Be brief {number}."}))
        answer = await team.ask("two")
        assert answer.sender == "writer"
        assert [(message.role, message.content) for message in seen[-1].messages] == [
            ("system", "Be brief 2."), ("user", "one"), ("assistant", "answer 1"), ("user", "two"),
        ]  # fmt: skip
        assert await contents(team, path="writer", context=ada) == ["of Ada", "answer 2"]
        (member,) = await team.ask(rt.GetMembers())
        assert (member.name, member.description) == ("writer", "writes well")
        memory = await team.ask(rt.GetMemory(path="writer"))
        assert {message.sender for message in memory.messages} == {"user", "writer"}
        await team.ask(rt.EditMember("writer", ""))
        (member,) = await team.ask(rt.GetMembers())
        assert member.description == ""


async def test_a_session_that_the_former_actor_works_for_is_not_worked_for_by_the_new_one_at_the_same_time() -> None:
    began, gate = trio.Event(), trio.Event()

    class Slow(llm.Deployment):
        async def stream_once(self, request: llm.Complete) -> Any:
            began.set()
            await gate.wait()
            text = " | ".join(message.content for message in request.messages)
            yield llm.TextDelta(text)
            yield llm.Completed(llm.Completion(text, "slow", finish_reason="stop"))

    async with rt.ActorSystem("teams") as system:
        spec = rt.Agent.spec(model=await system.spawn(Slow))

        async def forward(run: rt.TeamRun) -> str:
            async def second() -> Any:
                await began.wait()
                await team.ask(rt.EditMember("a", options={"instructions": "new"}))
                gate.set()
                return await run.ask("a", "second")

            return ";".join([str(one.content) for one in await run.together([lambda: run.ask("a", "first"), second])])

        team = await system.spawn(Made, {"a": spec}, forward)
        with trio.fail_after(10):
            answer = await team.ask("go")
        assert answer.content == "first;first | first | second"
        assert await contents(team, path="a") == ["first", "first", "second", "first | first | second"]
        assert (await team.ask("again")).content.startswith("new | first")


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        (rt.AddMember("a", rt.Agent.spec(model="scripted:x")), rt.DefinitionError, "has a member 'a' already"),
        (rt.AddMember("a.b", rt.Agent.spec(model="scripted:x")), rt.DefinitionError, "no dot"),
        (rt.AddMember("", rt.Agent.spec(model="scripted:x")), rt.DefinitionError, "is no name"),
        (rt.AddMember("b", "scripted:x"), rt.DefinitionError, "give a ref that spawn returned"),
        (rt.AddMember("b", rt.Agent), rt.DefinitionError, r"Agent\.spec"),
        (rt.AddMember("b", rt.Agent.spec(model="nowhere:x")), rt.RetinueError, "."),
        (rt.PauseMember("b"), rt.NoSuchMember, "there is 'a'"),
        (rt.UnpauseMember("b"), rt.NoSuchMember, "."),
        (rt.RemoveMember("b"), rt.NoSuchMember, "."),
        (rt.EditMember("b"), rt.NoSuchMember, "."),
        (rt.EditMember("a", 3), rt.DefinitionError, "give a text"),  # type: ignore[arg-type]
        (rt.EditMember("a", options={"instrctions": "x"}), rt.DefinitionError, "does not take instrctions="),
        (rt.EditMember("a", options={"max_tokens": -1}), rt.DefinitionError, "max_tokens"),
        (rt.EditMember("a", options={"sessions": 5}), rt.DefinitionError, "sessions="),
        (rt.EditMember("a", options=["x"]), rt.DefinitionError, "is a dict"),  # type: ignore[arg-type]
        (rt.EditMember("ref", options={"instructions": "x"}), rt.DefinitionError, "was not spawned by the team"),
        (rt.EditMember("inner", options={"exit_at": 0}), rt.DefinitionError, "is a team itself"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, rt.Request) else "",
)  # fmt: skip
async def test_a_change_that_cannot_be_is_refused_and_changes_nothing(message: Any, error: Any, text: str) -> None:
    async with rt.ActorSystem("teams") as system:
        members = {"a": scripted("one"), "ref": await system.spawn(Echo, [], "ref"), "inner": rt.Sequential.spec([scripted("inner")])}
        team = await system.spawn(Made, members, everybody, name="team")
        before = await team.ask(rt.GetMembers())
        with pytest.raises(error, match=text):
            await team.ask(message)
        assert await team.ask(rt.GetMembers()) == before
        assert (await team.ask("x")).content == "one;ref(x);inner"


async def test_members_may_be_called_as_what_a_team_has_besides_them() -> None:
    async with rt.ActorSystem("teams") as system:
        members = {name: scripted(name) for name in ("sessions", "router", "model")}
        swarm = await system.spawn(rt.Swarm, members, route=rt.ModelRouter("scripted:router"))
        selector = await system.spawn(rt.Selector, members, model="scripted:model", until=rt.MaxMessages(1))
        assert ((await swarm.ask("x")).sender, (await selector.ask("x")).content) == ("router", "model")
        await swarm.ask(rt.RemoveMember("sessions"))
        await swarm.ask(rt.AddMember("sessions", scripted("anew")))
        assert (await swarm.ask(rt.AgentMessage("x", receiver="sessions"))).content == "anew"


async def test_a_team_has_so_many_members_and_no_more() -> None:
    async with rt.ActorSystem("teams") as system:
        ref = await system.spawn(Echo, [], "echo")
        team = await system.spawn(rt.AgentDict, {str(number): ref for number in range(1000)})
        with pytest.raises(rt.DefinitionError, match="has 1,000 members, and no team has more"):
            await team.ask(rt.AddMember("x", ref))
        await team.ask(rt.RemoveMember("7"))
        await team.ask(rt.AddMember("x", ref))
        assert len(await team.ask(rt.GetMembers())) == 1000


async def test_who_may_not_manage_changes_nothing_and_may_look() -> None:
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(Made, {"a": scripted("one")}, everybody, name="team")
        eve = system.authority.mint("eve", ["model.*", "tool.*"])
        for message in (
            rt.AddMember("b", scripted("x")),
            rt.PauseMember("a"),
            rt.UnpauseMember("a"),
            rt.RemoveMember("a"),
            rt.EditMember("a", "x"),
        ):
            with pytest.raises(rt.Denied, match=r"agents\.manage"):
                await team.ask(message, context=eve)
        assert [member.name for member in await team.ask(rt.GetMembers(), context=eve)] == ["a"]
        admin = system.authority.mint("admin", ["agents.manage"])
        await team.ask(rt.PauseMember("a"), context=admin)
        assert (await team.ask(rt.GetMembers()))[0].paused


async def test_a_member_that_somebody_adds_can_do_no_more_than_they() -> None:
    async with rt.ActorSystem("teams") as system:
        model = await system.spawn(llm.Scripted, "x")
        team = await system.spawn(Made, {}, lambda run: run.ask("new", "x"), name="team")
        admin = system.authority.mint("admin", ["agents.manage"])
        await team.ask(rt.AddMember("new", rt.Agent.spec(model=model)), context=admin)
        with pytest.raises(rt.Denied, match=r"model\.complete"):
            await team.ask("x")


async def test_a_member_that_was_removed_is_stopped_and_a_ref_that_was_given_is_not() -> None:
    async with rt.ActorSystem("teams") as system:
        ref = await system.spawn(Echo, [], "ref")
        team = await system.spawn(Made, {"made": scripted("x"), "given": ref}, everybody, name="team")
        made = system.registry.get("/user/team/made")
        assert made is not None
        await team.ask(rt.RemoveMember("made"))
        await team.ask(rt.RemoveMember("given"))
        with trio.fail_after(20):
            while made.alive:
                await trio.sleep(0.001)
        assert ref.alive


async def test_a_member_that_is_removed_ends_what_others_have_asked_of_it_first() -> None:
    began, gate = trio.Event(), trio.Event()

    class Slow(llm.Deployment):
        async def stream_once(self, request: llm.Complete) -> Any:
            began.set()
            await gate.wait()
            yield llm.TextDelta("finished")
            yield llm.Completed(llm.Completion("finished", "slow", finish_reason="stop"))

    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(Made, {"a": rt.Agent.spec(model=await system.spawn(Slow))}, everybody, name="team")
        member = system.registry.get("/user/team/a")
        assert member is not None
        answers: list[Any] = []
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def ask() -> None:
                answers.append((await member.ask(rt.AgentMessage("go"))).content)

            await began.wait()
            await team.ask(rt.RemoveMember("a"))
            await wait_all_tasks_blocked()
            gate.set()
        assert answers == ["finished"]


async def test_members_end_with_their_team() -> None:
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(rt.Sequential, [rt.Sequential.spec([scripted("x")])], name="team")
        inner = system.registry.get("/user/team/0/0")
        assert inner is not None
        await team.stop()
        assert not inner.alive


async def test_a_team_says_what_it_is_made_of() -> None:
    async with rt.ActorSystem("teams") as system:
        kids = rt.AgentList.spec([scripted("x"), await system.spawn(Echo, [], "e")])
        members = {"writer": scripted("x"), "kids": kids, "empty": rt.AgentDict.spec()}
        team = await system.spawn(rt.Sequential, members, description="Writes\nposts.", name="team")
        await team.ask(rt.PauseMember("writer"))
        assert await team.ask(rt.Describe()) == (
            "Sequential(  # Writes posts.\n  (writer): Agent (paused)\n  (kids): AgentList(\n    (0): Agent\n    (1): actor\n  )\n  (empty): AgentDict()\n)"
        )


async def test_a_team_that_is_its_own_member_is_not_looked_into_once_more() -> None:
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(Made, {}, everybody, name="team")
        for number in range(4):
            await team.ask(rt.AddMember(f"again{number}", team))
        with trio.fail_after(20):
            told = await team.ask(rt.Describe(levels=32))
        assert told == "Made(\n" + "".join(f"  (again{number}): Made(…)\n" for number in range(4)) + ")"
        for number in range(1, 4):
            await team.ask(rt.RemoveMember(f"again{number}"))
        other = await system.spawn(Made, {"a": team, "b": team}, everybody)
        await team.ask(rt.AddMember("other", other))
        assert (await team.ask(rt.Describe())) == (
            "Made(\n  (again0): Made(…)\n  (other): Made(\n    (a): Made(…)\n    (b): Made(…)\n  )\n)"
        )
        await team.ask(rt.RemoveMember("other"))
        for levels in (-1, 33, True, "1"):
            with pytest.raises(rt.BadInput, match="levels"):
                await team.ask(rt.Describe(levels))  # type: ignore[arg-type]
        for message in (rt.GetState(), rt.ClearMemory(recursive=True), rt.AgentMessage("x")):
            with trio.fail_after(20), pytest.raises(rt.AskCycle):
                await team.ask(message)


async def test_looking_at_a_team_does_not_wait_for_what_it_is_doing() -> None:
    began, ended = trio.Event(), trio.Event()
    async with rt.ActorSystem("teams") as system:
        model = await system.spawn(Hanging, began, ended)
        team = await system.spawn(rt.Sequential, {"a": rt.Agent.spec(model=model)}, name="team")
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def ask() -> None:
                with pytest.raises(rt.RunCancelled):
                    await team.ask("go")

            await began.wait()
            with trio.fail_after(20):
                assert len(await team.ask(rt.GetMembers())) == 1
                assert "(a): Agent" in await team.ask(rt.Describe())
                await team.ask(rt.AddMember("b", await system.spawn(Waiting, [], [])))
                await team.ask(rt.Cancel())


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ("ab", r"members=…\) is a str"), (3, r"members=…\) is a int"), ([3], "'0' is a int"), ({"a.b": rt.Agent.spec(model="scripted:x")}, "no dot"),
        ({"": rt.Agent.spec(model="scripted:x")}, "is no name"), ({"x" * 65: rt.Agent.spec(model="scripted:x")}, "1 to 64"), ({3: rt.Agent.spec(model="scripted:x")}, "is a int"),
        ({"a": rt.Agent}, r"give Agent\.spec"), ({"a": "scripted:x"}, "rt.Agent.spec"), ([("a", rt.Agent.spec(model="scripted:x")), ("a", rt.Agent.spec(model="scripted:x"))], "two are named 'a'"),
        ([("1", rt.Agent.spec(model="scripted:x")), rt.Agent.spec(model="scripted:x")], "two are named '1'"), ([rt.Agent.spec(model="scripted:x")] * 1001, "1,000 at most"),
        ({"a": rt.Member("b", rt.Agent.spec(model="scripted:x"))}, "Member of the name 'b'"),
    ],
    ids=lambda one: "" if not isinstance(one, str) else one[:12],
)  # fmt: skip
async def test_what_cannot_be_members_is_refused_when_the_team_is_made(members: Any, text: str) -> None:
    async with rt.ActorSystem("teams") as system:
        with pytest.raises(rt.DefinitionError, match=text):
            await system.spawn(rt.Sequential, members)


@pytest.mark.parametrize(
    "make",
    [
        lambda: rt.Agent.spec(modle="x"), lambda: rt.Agent.spec("x"), lambda: rt.Agent.spec(model="x", name="n"), lambda: rt.Agent.spec(model="x", description=3),
        lambda: rt.Member("a", None, 3), lambda: rt.Member("a.b", None), lambda: rt.Sequential.spec(),
    ],
)  # fmt: skip
def test_a_slip_in_a_spec_is_found_where_it_is_written(make: Any) -> None:
    with pytest.raises(rt.DefinitionError):
        make()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"limits": rt.RunLimits()}, "TreeLimits"),
        ({"description": 3}, "a text"),
        ({"sessions": 0}, "sessions=0"),
        ({"nonsense": 1}, "nonsense"),
    ],
    ids=str,
)
async def test_options_that_are_no_teams_are_refused(options: Any, text: str) -> None:
    async with rt.ActorSystem("teams") as system:
        with pytest.raises((rt.DefinitionError, TypeError), match=text):
            await system.spawn(rt.Sequential, [scripted("x")], **options)


async def test_a_member_that_cannot_start_says_so_to_whoever_spawns_the_team() -> None:
    async with rt.ActorSystem("teams") as system:
        with pytest.raises(rt.DefinitionError, match="instructions"):
            await system.spawn(rt.Sequential, [rt.Sequential.spec([rt.Agent.spec(model="scripted:x", instructions=3)])])
