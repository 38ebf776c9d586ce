"""Cancelling: what a run does ends at once, and memory is as it was."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import trio

import retinue as rt
from agent_players import Hanging, agent_system, calls, read, said_to
from retinue import llm


class Hung:
    """An agent whose model hangs until it is cancelled."""

    def __init__(self) -> None:
        self.began = trio.Event()
        self.ended = trio.Event()

    async def agent(self, system: rt.ActorSystem, *words: str, **options: Any) -> Any:
        model = await system.spawn(Hanging, self.began, self.ended, words, name="model")
        return await system.spawn(rt.Agent, model=model, name="agent", **options)


async def test_an_asker_that_gives_up_ends_the_model_call_and_leaves_nothing_in_memory() -> None:
    hung = Hung()
    async with rt.ActorSystem("cancel") as system:
        agent = await hung.agent(system)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.ask, "hi")
            await hung.began.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(20):
            await hung.ended.wait()
        assert (await agent.ask(rt.GetMemory())).items == ()


async def test_a_deadline_ends_it_too() -> None:
    hung = Hung()
    async with rt.ActorSystem("cancel") as system:
        agent = await hung.agent(system)
        with pytest.raises(rt.AskTimeout):
            await agent.ask("hi", timeout=0.05)
        with trio.fail_after(20):
            await hung.ended.wait()
        assert (await agent.ask(rt.GetMemory())).items == ()


async def test_a_cancel_message_reaches_a_busy_session_and_its_asker_is_told() -> None:
    hung = Hung()
    async with rt.ActorSystem("cancel") as system:
        agent = await hung.agent(system)
        caught: list[Exception] = []

        async def ask() -> None:
            try:
                await agent.ask("hi")
            except rt.RunCancelled as error:
                caught.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await hung.began.wait()
            with trio.fail_after(20):
                assert await agent.ask(rt.Cancel()) is True
                await hung.ended.wait()
        assert len(caught) == 1 and "session '0'" in str(caught[0])
        assert (await agent.ask(rt.GetMemory())).items == ()
        assert await agent.ask(rt.Cancel()) is False


async def test_a_cancelled_stream_ends_with_the_error_and_memory_is_as_it_was() -> None:
    hung = Hung()
    async with rt.ActorSystem("cancel") as system:
        agent = await hung.agent(system, "once ", "upon ")
        found: list[Any] = []

        async def look() -> None:
            found.extend(await read(agent, "hi"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            await hung.began.wait()
            await trio.testing.wait_all_tasks_blocked()
            with trio.fail_after(20):
                assert await agent.ask(rt.Cancel()) is True
                await hung.ended.wait()
        assert [event.text for event in found[:-1]] == ["once ", "upon "] and isinstance(found[-1], rt.RunCancelled)
        assert (await agent.ask(rt.GetMemory())).items == ()


async def test_another_subject_cannot_cancel_it() -> None:
    hung = Hung()
    async with rt.ActorSystem("cancel") as system:
        agent = await hung.agent(system)
        ada, eve = (system.authority.mint(name, ["**"]) for name in ("ada", "eve"))
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                await agent.ask("hi", context=ada)

            nursery.start_soon(ask)
            await hung.began.wait()
            assert await agent.ask(rt.Cancel(), context=eve) is False
            assert not hung.ended.is_set()
            nursery.cancel_scope.cancel()


async def test_the_tools_of_a_cancelled_run_end_with_it() -> None:
    began, ended = trio.Event(), trio.Event()

    async def hang() -> str:
        """Hangs."""
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()
        return ""

    async def quick() -> str:
        """Is quick."""
        return "quick"

    async with agent_system([calls("hang", "quick"), "fine"], tools=[hang, quick]) as (_, agent):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.ask, "hi")
            await began.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(20):
            await ended.wait()
        assert (await agent.ask(rt.GetMemory())).items == ()
        assert (await agent.ask("hi")).content == "fine"


async def test_a_run_that_was_only_told_can_be_cancelled_as_well() -> None:
    hung = Hung()
    async with rt.ActorSystem("cancel") as system:
        agent = await hung.agent(system)
        agent.tell("hi")
        await hung.began.wait()
        with trio.fail_after(20):
            assert await agent.ask(rt.Cancel()) is True
            await hung.ended.wait()
        assert (await agent.ask(rt.GetMemory())).items == ()


async def test_the_messages_behind_a_cancelled_run_go_on() -> None:
    hung = Hung()
    async with rt.ActorSystem("cancel") as system:
        agent = await hung.agent(system)
        async with trio.open_nursery() as nursery:
            errors: list[str] = []

            async def ask() -> None:
                try:
                    await agent.ask("hi")
                except rt.RunCancelled as error:
                    errors.append(type(error).__name__)

            nursery.start_soon(ask)
            nursery.start_soon(ask)
            await hung.began.wait()
            await trio.testing.wait_all_tasks_blocked()
            assert await agent.ask(rt.Cancel())
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert errors == ["RunCancelled"]
            assert await agent.ask(rt.Cancel())
        assert errors == ["RunCancelled"] * 2


async def test_stopping_the_agent_ends_what_it_does() -> None:
    hung = Hung()
    async with rt.ActorSystem("cancel") as system:
        agent = await hung.agent(system)
        caught: list[Exception] = []

        async def ask() -> None:
            try:
                await agent.ask("hi")
            except rt.ActorStopped as error:
                caught.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await hung.began.wait()
            with trio.fail_after(20):
                await agent.stop(grace=0)
                await hung.ended.wait()
        assert len(caught) == 1


async def test_after_a_cancelled_turn_the_history_is_one_that_a_model_takes() -> None:
    told: list[llm.Complete] = []
    gate = trio.Event()

    async def hang() -> str:
        """Hangs."""
        gate.set()
        await trio.sleep_forever()
        return ""

    def script(request: llm.Complete) -> str | llm.Completion:
        told.append(request)
        return calls("hang") if request.messages[-1].content == "hang" else "ok"

    async with agent_system(script, tools=[hang]) as (_, agent):
        await agent.ask("one")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, agent, "hang")
            await gate.wait()
            nursery.cancel_scope.cancel()
        await agent.ask("two")
    last = told[-1].messages
    assert [(each.role, each.content) for each in last[:2]] == [("user", "one"), ("assistant", "ok")]
    open_calls: set[str] = set()
    for each in last:
        if each.role == "tool":
            open_calls.remove(each.tool_call_id or "")
        else:
            assert not open_calls
            open_calls = {call.id for call in each.tool_calls}
    assert last[-1].content == "two" or last[-1].content.endswith("two")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("how", ["cancel", "left"])
async def test_a_run_whose_tool_shields_itself_ends_after_it_and_remembers_nothing(how: str, streamed: bool) -> None:
    began, gate = trio.Event(), trio.Event()
    told: list[llm.Complete] = []

    async def stubborn() -> str:
        """Does not listen."""
        with trio.CancelScope(shield=True):
            began.set()
            await gate.wait()
        return "done anyway"

    async with agent_system(said_to(told, calls("stubborn"), "never", "next"), tools=[stubborn]) as (_, agent):
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                if streamed:
                    await read(agent, "go")
                else:
                    with suppress(rt.RunCancelled):
                        await agent.ask("go")

            nursery.start_soon(ask)
            await began.wait()
            if how == "cancel":
                assert await agent.ask(rt.Cancel())
            else:
                nursery.cancel_scope.cancel()
            gate.set()
        memory = await agent.ask(rt.GetMemory())
        if not (streamed and how == "left"):  # then what was said and done is kept
            assert memory.items == ()
        assert [message.partial for message in memory.messages[1:]] in ([], [True])
    assert len(told) == 1
