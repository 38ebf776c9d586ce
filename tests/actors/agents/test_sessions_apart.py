"""Sessions: in order within one, concurrent between them, and nothing passes from one to another."""

from __future__ import annotations

import json

import pytest
import trio
import trio.lowlevel

import retinue as rt
from agent_players import agent_system
from retinue import llm


def echo(request: llm.Complete) -> str:
    return " | ".join(each.content for each in request.messages if each.role == "user")


async def test_another_subjects_session_of_the_same_name_is_another_session() -> None:
    async with agent_system(echo) as (system, agent):
        ada, eve = (system.authority.mint(name, ["**"]) for name in ("ada", "eve"))
        far = system.authority.mint("ada", ["**"], tenant="north")
        await agent.ask(rt.AgentMessage("secret", session="s"), context=ada)
        for other in (eve, far):
            assert (await agent.ask(rt.GetMemory("s"), context=other)).items == ()
            assert (await agent.ask(rt.AgentMessage("hello", session="s"), context=other)).content == "hello"
        assert (await agent.ask(rt.AgentMessage("more", session="s"), context=ada)).content == "secret | more"


@pytest.mark.parametrize(("left", "right"), [(("a:b", "c"), ("a", "b:c")), (("a~cb", "c"), ("a:b", "c")), (("s", "a:b"), ("s", "a~cb"))])
async def test_no_two_pairs_of_session_and_subject_have_one_key(left: tuple[str, str], right: tuple[str, str]) -> None:
    async with agent_system(echo) as (system, agent):
        one, two = (system.authority.mint(subject, ["**"]) for _, subject in (left, right))
        await agent.ask(rt.AgentMessage("mine", session=left[0]), context=one)
        assert (await agent.ask(rt.GetMemory(right[0]), context=two)).items == ()


async def test_the_root_may_look_into_a_subjects_session_and_nobody_else_may() -> None:
    async with agent_system(echo) as (system, agent):
        ada, eve = (system.authority.mint(name, ["**"]) for name in ("ada", "eve"))
        await agent.ask(rt.AgentMessage("mine", session="s"), context=ada)
        seen = await agent.ask(rt.GetMemory("s", subject="ada"))
        assert [message.content for message in seen.messages] == ["mine", "mine"]
        for message in (
            rt.GetMemory("s", subject="ada"),
            rt.ClearMemory("s", subject="ada"),
            rt.GetState("s", subject="ada"),
            rt.Cancel("s", subject="ada"),
        ):
            with pytest.raises(rt.Denied, match="root"):
                await agent.ask(message, context=eve)
        assert len((await agent.ask(rt.GetMemory("s", subject="ada"), context=ada)).items) == 2  # one's own name may be said
        await agent.ask(rt.ClearMemory("s", subject="ada"))
        assert (await agent.ask(rt.GetMemory("s"), context=ada)).items == ()


async def test_the_second_message_of_a_session_waits_for_the_first_and_another_session_does_not() -> None:
    gate, asked = trio.Event(), []

    async def wait(word: str) -> str:
        """Waits.

        Args:
            word: Which.
        """
        asked.append(word)
        if word == "first":
            await gate.wait()
        return word

    def script(request: llm.Complete) -> str | llm.Completion:
        last = request.messages[-1]
        return echo(request) if last.role == "tool" else llm.tool_calls(("wait", {"word": last.content}))

    async with agent_system(script, tools=[wait]) as (_, agent), trio.open_nursery() as nursery:
        answers: list[str] = []

        async def ask(text: str, session: str) -> None:
            answers.append((await agent.ask(rt.AgentMessage(text, session=session))).content)

        nursery.start_soon(ask, "first", "a")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, "second", "a")
        nursery.start_soon(ask, "other", "b")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert answers == ["other"] and sorted(asked) == ["first", "other"]
        gate.set()
    assert answers == ["other", "first", "first | second"]


@pytest.mark.parametrize("sessions", [25, pytest.param(250, marks=pytest.mark.slow)])
async def test_many_interleaved_sessions_never_bleed(sessions: int) -> None:
    async def mirror(word: str) -> str:
        """Gives it back.

        Args:
            word: What.
        """
        await trio.lowlevel.checkpoint()
        return f"<{word}>"

    def script(request: llm.Complete) -> str | llm.Completion:
        last = request.messages[-1]
        if last.role == "tool":
            return last.content
        return llm.tool_calls(("mirror", {"word": last.content}))

    rounds = 2  # and two subjects: up to a thousand runs
    wrong: list[str] = []
    async with agent_system(script, tools=[mirror]) as (system, agent):

        async def talk(subject: str, context: rt.SecurityContext, number: int) -> None:
            for turn in range(rounds):
                text = f"{subject}-{number}-{turn}"
                reply = await agent.ask(rt.AgentMessage(text, session=f"s{number}"), context=context)
                if reply.content != f"<{text}>":
                    wrong.append(reply.content)
            memory = await agent.ask(rt.GetMemory(f"s{number}"), context=context)
            if {message.content.strip("<>").rpartition("-")[0] for message in memory.messages} != {f"{subject}-{number}"} or len(
                memory.items
            ) != 4 * rounds:
                wrong.append(str(memory))

        async with trio.open_nursery() as nursery:
            for subject in ("ada", "eve"):
                context = system.authority.mint(subject, ["model.complete", "tool.mirror"])
                for number in range(sessions):
                    nursery.start_soon(talk, subject, context, number)
    assert wrong == []


async def test_a_session_that_rests_remembers_when_it_is_needed_again() -> None:
    async with agent_system(echo, session_idle=0.05) as (_, agent):
        await agent.ask("one")
        await trio.sleep(0.3)
        assert (await agent.ask("two")).content == "one | two"


async def test_more_sessions_than_are_remembered_forget_the_one_that_was_unused_longest() -> None:
    async with agent_system(echo, sessions=2) as (_, agent):
        for session in ("a", "b"):
            await agent.ask(rt.AgentMessage("mine", session=session))
        await agent.ask(rt.AgentMessage("again", session="a"))
        await trio.lowlevel.checkpoint()
        await agent.ask(rt.AgentMessage("mine", session="c"))
        found = {session: len((await agent.ask(rt.GetMemory(session))).items) for session in ("a", "c", "b")}
    assert found == {"a": 4, "c": 2, "b": 0}


async def test_memory_has_two_views_and_the_plain_one_loads_back_all_or_nothing() -> None:
    told: list[str] = []

    def script(request: llm.Complete) -> str:
        told.append(echo(request))
        return "héllo 🎉"

    async with agent_system(script) as (_, agent):
        await agent.ask("one")
        state = json.loads(json.dumps(await agent.ask(rt.GetState())))
        assert [entry["content"] for entry in state["memory"]] == ["one", "héllo 🎉"]
        await agent.ask(rt.LoadState(state, session="copy"))
        await agent.ask(rt.AgentMessage("two", session="copy"))
        assert told[-1] == "one | two"
        broken = {**state, "memory": [state["memory"][0], {"nonsense": 1}]}
        with pytest.raises(rt.BadState):
            await agent.ask(rt.LoadState(broken, session="copy"))
        with pytest.raises(rt.UnknownStateKey):
            await agent.ask(rt.LoadState({"writer.memory": []}, session="copy"))
        assert len((await agent.ask(rt.GetMemory("copy"))).items) == 4
        assert [message.content for message in (await agent.ask(rt.GetMemory("copy", recent=2))).messages] == ["two", "héllo 🎉"]
        assert (await agent.ask(rt.GetMemory("copy", recent=0))).items == ()
        assert len((await agent.ask(rt.GetMemory("copy", recent=99))).items) == 4


async def test_who_says_their_own_name_looks_into_their_own_tenants_session() -> None:
    async with agent_system(echo) as (system, agent):
        near, far = system.authority.mint("ada", ["**"]), system.authority.mint("ada", ["**"], tenant="north")
        await agent.ask("near", context=near)
        await agent.ask("far", context=far)
        for said in ({"subject": "ada"}, {"tenant": "north"}, {"subject": "ada", "tenant": "north"}):
            memory = await agent.ask(rt.GetMemory(**said), context=far)
            assert [message.content for message in memory.messages] == ["far", "far"]
        await agent.ask(rt.ClearMemory(subject="ada"), context=far)
        assert len((await agent.ask(rt.GetMemory(), context=near)).items) == 2


async def test_more_sessions_than_are_remembered_may_be_at_work_at_once() -> None:
    gate, told = trio.Event(), []

    async def wait() -> str:
        """Waits."""
        told.append(1)
        await gate.wait()
        return "on"

    def script(request: llm.Complete) -> str | llm.Completion:
        return "done" if request.messages[-1].role == "tool" else llm.tool_calls(("wait", {}))

    answers: list[str] = []
    async with agent_system(script, tools=[wait], sessions=1) as (_, agent), trio.open_nursery() as nursery:

        async def ask(session: str) -> None:
            answers.append((await agent.ask(rt.AgentMessage("go", session=session))).content)

        for number in range(5):
            nursery.start_soon(ask, str(number))
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(told) == 5
        gate.set()
    assert answers == ["done"] * 5
