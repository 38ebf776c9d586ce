"""Agents as tools: asked in the run's own session, their events and consents the run's own."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import trio

import retinue as rt
from agent_players import Hanging, read, results
from retinue import llm
from team_players import Echo, Sender, contents, echo, parked_by


def asking(*messages: str, tool: str = "ask_helper", then: str = "done") -> Any:
    """A script: one reply that asks the helper all of these, then an answer; again and again."""

    def model(request: llm.Complete) -> llm.Completion | str:
        if request.messages[-1].role == "tool":
            told = []
            for message in reversed(request.messages):
                if message.role != "tool":
                    break
                told.insert(0, message.content)
            return f"{then}: {'; '.join(told)}"
        return llm.tool_calls(*((tool, {"message": message}) for message in messages))

    return model


async def boss_of(system: rt.ActorSystem, tool: Any, *messages: str, **options: Any) -> Any:
    name = tool.name
    model = await system.spawn(llm.Scripted, asking(*messages, tool=name))
    return await system.spawn(rt.Agent, model=model, tools=[tool], name="boss", **options)


async def test_an_agent_is_asked_in_the_session_of_the_same_name_and_its_answer_is_the_result() -> None:
    async with rt.ActorSystem("tools") as system:
        model = await system.spawn(llm.Scripted, echo)
        helper = await system.spawn(rt.Agent, model=model, name="helper")
        boss = await boss_of(system, rt.agent_tool(helper), "who?")
        answer = await boss.ask(rt.AgentMessage("go", session="s"))
        assert answer.content == "done: who?"
        assert answer.usage is not None
        assert answer.usage.requests == 3  # what the helper has used is in it
        (first, _) = (await helper.ask(rt.GetMemory("s"))).messages
        assert (first.content, first.sender) == ("who?", "boss")
        assert await contents(helper) == []
        ada = system.authority.mint("ada", ["**"])
        await boss.ask("go", context=ada)
        assert await contents(helper, context=ada) == ["who?", "who?"]
        assert await contents(helper) == []


async def test_a_spec_is_spawned_by_the_agent_that_has_the_tool() -> None:
    async with rt.ActorSystem("tools") as system:
        tool = rt.agent_tool(rt.Agent.spec(model="scripted:yes", description="Knows everything."), name="ask_oracle")
        assert tool.spec[1] == "Knows everything."
        one = await boss_of(system, tool, "x")
        other = await system.spawn(rt.Agent, model="scripted:x", tools=[tool], name="other")
        assert (await one.ask("go")).content == "done: yes"
        inner = [system.registry.get(f"/user/{name}/oracle") for name in ("boss", "other")]
        assert all(inner)
        await other.stop()
        assert [one is not None and one.alive for one in inner] == [True, False]


async def test_tools_for_specs_may_be_called_as_they_like() -> None:
    async with rt.ActorSystem("tools") as system:
        spec = rt.Agent.spec(model="scripted:yes")
        names = ("ask_model", "model", "ask_sessions", "ask_a", "a", "ask_")
        model = await system.spawn(llm.Scripted, [llm.tool_calls(*((name, {"message": "x"}) for name in names)), "done"])
        boss = await system.spawn(rt.Agent, model=model, tools=[rt.agent_tool(spec, name=name) for name in names])
        await boss.ask("go")
        assert [step.text for step in results(await boss.ask(rt.GetMemory()))] == ["yes"] * len(names)


async def test_a_team_is_asked_as_an_agent_is_and_so_is_any_actor_that_answers() -> None:
    async with rt.ActorSystem("tools") as system:
        team = await system.spawn(rt.Sequential, [await system.spawn(Echo, [], "a"), await system.spawn(Echo, [], "b")], name="pipeline")
        plain = await system.spawn(Echo, [], "plain", name="plain")
        model = await system.spawn(
            llm.Scripted, [llm.tool_calls(("ask_pipeline", {"message": "x"}), ("ask_plain", {"message": "y"})), "done"]
        )
        boss = await system.spawn(rt.Agent, model=model, tools=[rt.agent_tool(team), rt.agent_tool(plain)])
        events = await read(boss, "go")
        assert isinstance(events[-1], rt.RunEnd)
        assert sorted(step.text for step in results(await boss.ask(rt.GetMemory()))) == ["b(a(x))", "plain(y)"]


async def test_its_consents_park_the_outer_run_and_resume_goes_on_with_both() -> None:
    sender = Sender()
    async with rt.ActorSystem("tools") as system:
        tool = rt.agent_tool(await sender.agent(system, "bob", "eve"), name="ask_helper")
        boss = await boss_of(system, tool, "write to them")
        waiting = await parked_by(boss, "go")
        assert waiting.path == "/user/boss"
        assert len(waiting.requests) == 2
        await system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        again = await parked_by(boss, rt.Resume(waiting.run))
        assert (again.run, [one.id for one in again.requests]) == (waiting.run, [waiting.requests[1].id])
        await system.approvals.reject(waiting.requests[1].id, reviewer="carol", note="no")
        assert (await boss.ask(rt.Resume(waiting.run))).content == "done: yes,no"
        assert sender.sent == ["bob"]
        with pytest.raises(rt.NoSuchRun):
            await boss.ask(rt.Resume(waiting.run))


@pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])
async def test_several_calls_of_one_agent_in_one_reply_wait_one_behind_the_other(streamed: bool) -> None:
    sender = Sender()
    async with rt.ActorSystem("tools") as system:
        boss = await boss_of(system, rt.agent_tool(await sender.agent(system, "bob"), name="ask_helper"), "1", "2", "3")
        waiting = await parked_by(boss, "go")
        answer = None
        for number in range(1, 4):
            assert len(waiting.requests) == 1
            await system.approvals.approve(waiting.requests[0].id, reviewer="carol")
            try:
                if streamed:
                    last = (await read(boss, rt.Resume(waiting.run)))[-1]
                    if isinstance(last, Exception):
                        raise last
                    answer = last.message
                else:
                    answer = await boss.ask(rt.Resume(waiting.run))
            except rt.ApprovalRequired as error:
                waiting = error
            assert len(sender.sent) == number
        assert answer is not None
        assert answer.content == "done: yes; yes; yes"


@pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])
async def test_a_run_within_that_fails_after_a_decision_is_given_up_and_who_waited_behind_it_is_asked(streamed: bool) -> None:
    sender, calls = Sender(), 0

    def model(request: llm.Complete) -> llm.Completion | str:
        nonlocal calls
        calls += 1
        if calls == 1:
            return llm.tool_calls(("send", {"to": "bob"}))
        if calls == 2:
            raise llm.ModelError("down")
        return "answered"

    async with rt.ActorSystem("tools") as system:
        helper = await system.spawn(rt.Agent, model=await system.spawn(llm.Scripted, model), tools=[sender.tool], name="helper")
        boss = await boss_of(system, rt.agent_tool(helper), "1", "2")
        waiting = await parked_by(boss, "go")
        await system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        with trio.fail_after(5):
            answer = (await read(boss, rt.Resume(waiting.run)))[-1].message if streamed else await boss.ask(rt.Resume(waiting.run))
        assert sender.sent == ["bob"]
        assert sorted(answer.content.removeprefix("done: ").split("; ")) == ["answered", "ask_helper failed: ModelError: down"]
        assert (await helper.ask("and now?")).content == "answered"  # nobody could have gone on with the run that has failed


@pytest.mark.parametrize(
    "given_up", [rt.Cancel(), rt.ClearMemory(), rt.LoadState({"memory": []}), rt.Cancel(subject="ada"), rt.ClearMemory(subject="ada")],
    ids=["cancel", "clear", "load", "cancel by root", "clear by root"],
)  # fmt: skip
async def test_who_gives_the_outer_run_up_gives_up_what_is_parked_within(given_up: Any) -> None:
    sender = Sender()
    async with rt.ActorSystem("tools") as system:
        boss = await boss_of(system, rt.agent_tool(await sender.agent(system, "bob"), name="ask_helper"), "1")
        whose = {} if given_up.subject is None else {"context": system.authority.mint("ada", ["**"])}
        first = await parked_by(boss, "go", **whose)
        assert await boss.ask(given_up) in (True, None)
        again = await parked_by(boss, "go", **whose)  # the helper is asked anew, and not refused because somebody is waited for
        await system.approvals.approve(again.requests[0].id, reviewer="carol")
        assert (await boss.ask(rt.Resume(again.run), **whose)).content == "done: yes"
        assert again.run != first.run and sender.sent == ["bob"]


@pytest.mark.parametrize("how", ["fails", "cancelled", "left"])
async def test_a_run_that_ends_beside_a_call_that_waits_gives_up_what_is_parked_within(how: str) -> None:
    sender, began, ended = Sender(), trio.Event(), trio.Event()

    async def other() -> str:
        """Does something else."""
        await began.wait()
        if how != "fails":
            await trio.sleep_forever()
        return "over"

    @rt.hook("after_tool_result")
    def look(context: rt.HookContext) -> object:
        return rt.Block("enough") if context.payload.text == "over" else rt.Continue()

    def model(request: llm.Complete) -> llm.Completion | str:
        if request.messages[-1].content == "both":
            return llm.tool_calls(("ask_helper", {"message": "x"}), ("other", {}))
        return llm.tool_calls(("ask_helper", {"message": "y"})) if request.messages[-1].role == "user" else request.messages[-1].content

    async with rt.ActorSystem("tools") as system:
        helper = await system.spawn(
            llm.Scripted, lambda request: llm.tool_calls(("send", {"to": "bob"})) if "x" in request.messages[-1].content else "free"
        )
        tool = rt.agent_tool(rt.Agent.spec(model=helper, tools=[sender.tool]), name="ask_helper")
        scripted = await system.spawn(llm.Scripted, model)
        boss = await system.spawn(rt.Agent, model=scripted, tools=[tool, other], hooks=[look], name="boss")

        async def go() -> None:
            with trio.CancelScope() as scope:
                scopes.append(scope)
                with pytest.raises((rt.HookBlocked, rt.RunCancelled)) if how != "left" else contextlib.nullcontext():
                    await boss.ask("both")
            ended.set()

        scopes: list[trio.CancelScope] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(go)
            while not await system.approvals.pending():
                await trio.sleep(0.01)
            began.set()
            if how == "cancelled":
                assert await boss.ask(rt.Cancel())
            elif how == "left":
                scopes[0].cancel()
            await ended.wait()
        assert (await boss.ask("and now?")).content == "free"
        assert sender.sent == []


async def test_an_actor_that_knows_messages_alone_is_asked_by_an_agent_that_waits_for_people_too() -> None:
    async with rt.ActorSystem("tools") as system:
        boss = await boss_of(system, rt.agent_tool(await system.spawn(Echo), name="ask_echo"), "x", wait_for_approvals=True)
        assert (await boss.ask("go")).content == "done: (x)"


async def test_a_tool_for_an_agent_may_need_consent_itself() -> None:
    async with rt.ActorSystem("tools") as system:
        asked: list[Any] = []
        tool = rt.agent_tool(await system.spawn(Echo, asked, "e", name="helper"), approval=True, risk="L2")
        boss = await boss_of(system, tool, "x")
        waiting = await parked_by(boss, "go")
        assert (waiting.operation, asked) == ("tool.ask_helper", [])
        await system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        assert (await boss.ask(rt.Resume(waiting.run))).content == "done: e(x)"


async def test_who_may_not_use_the_tool_does_not_reach_the_agent() -> None:
    async with rt.ActorSystem("tools") as system:
        asked: list[Any] = []
        boss = await boss_of(system, rt.agent_tool(await system.spawn(Echo, asked, "e", name="helper")), "x")
        eve = system.authority.mint("eve", ["model.complete"])
        assert "not permitted: ask_helper needs 'tool.ask_helper'" in (await boss.ask("go", context=eve)).content
        assert asked == []


async def test_the_agent_can_do_no_more_than_whoever_asked_the_first_one() -> None:
    sender = Sender()
    async with rt.ActorSystem("tools") as system:
        boss = await boss_of(system, rt.agent_tool(await sender.agent(system, "bob"), name="ask_helper"), "x")
        eve = system.authority.mint("eve", ["model.complete", "tool.ask_helper"])
        assert (await boss.ask("go", context=eve)).content == "done: no"
        assert sender.sent == []


async def test_its_events_are_told_with_its_name_and_nest() -> None:
    async with rt.ActorSystem("tools") as system:
        inner = rt.Agent.spec(model="scripted:deep down")
        middle_model = await system.spawn(llm.Scripted, asking("b", tool="ask_inner", then="middle"))
        middle = rt.Agent.spec(model=middle_model, tools=[rt.agent_tool(inner, name="ask_inner")])
        boss = await boss_of(system, rt.agent_tool(middle, name="ask_middle"), "a")
        events = [rt.innermost(event) for event in await read(boss, "go")]
        ends = [(path, event.message.content) for path, event in events if isinstance(event, rt.RunEnd)]
        assert ends == [(("ask_middle", "ask_inner"), "deep down"), (("ask_middle",), "middle: deep down"), ((), "done: middle: deep down")]
        assert (
            "".join(event.text for path, event in events if path == ("ask_middle", "ask_inner") and isinstance(event, rt.TextDelta))
            == "deep down"
        )


async def test_nothing_of_the_agent_goes_round_the_output_guardrails_of_the_outer_one() -> None:
    @rt.guardrail("output")
    def secret(guarded: rt.Guarded) -> Any:
        return rt.Replace(guarded.text.replace("SECRET", "***"))

    async with rt.ActorSystem("tools") as system:
        tool = rt.agent_tool(rt.Agent.spec(model="scripted:a SECRET word"), name="ask_helper")
        boss = await boss_of(system, tool, "x", guardrails=[secret])
        events = await read(boss, "go")
        assert isinstance(events[-1], rt.RunEnd)
        assert "SECRET" not in str(events)


async def test_a_reader_that_does_not_read_holds_the_agent_back() -> None:
    said = [0]

    class Endless(llm.Deployment):
        async def stream_once(self, request: llm.Complete) -> Any:
            while True:
                said[0] += 1
                yield llm.TextDelta("x")
                await trio.lowlevel.checkpoint()

    async with rt.ActorSystem("tools") as system:
        helper = rt.Agent.spec(model=await system.spawn(Endless))
        boss = await boss_of(system, rt.agent_tool(helper, name="ask_helper"), "x")
        async with boss.stream("go") as events:
            async for event in events:
                if isinstance(event, rt.FromMember):
                    break
            for _ in range(2_000):
                await trio.lowlevel.checkpoint()
            before = said[0]
            for _ in range(2_000):
                await trio.lowlevel.checkpoint()
            assert said[0] == before < 1_000


async def test_what_goes_wrong_within_is_a_result_that_says_so() -> None:
    async with rt.ActorSystem("tools") as system:
        fails = rt.agent_tool(await system.spawn(Echo, [], "e", name="helper"))
        boss = await boss_of(system, fails, "fail")
        assert (await boss.ask("go")).content == "done: ask_helper failed: ValueError: e fails"
        (step,) = results(await boss.ask(rt.GetMemory()))
        assert (step.ok, step.error) == (False, "raised")


async def test_an_agent_that_takes_too_long_is_left_and_the_model_is_told(autojump_clock: Any) -> None:
    began, ended = trio.Event(), trio.Event()
    async with rt.ActorSystem("tools") as system:
        hanging = await system.spawn(Hanging, began, ended)
        boss = await boss_of(system, rt.agent_tool(rt.Agent.spec(model=hanging), name="ask_helper", timeout=5), "x")
        assert "did not answer in time" in (await boss.ask("go")).content
        assert ended.is_set()


@pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])
async def test_cancel_reaches_the_agent_within(streamed: bool) -> None:
    began, ended = trio.Event(), trio.Event()
    async with rt.ActorSystem("tools") as system:
        hanging = await system.spawn(Hanging, began, ended)
        boss = await boss_of(system, rt.agent_tool(rt.Agent.spec(model=hanging), name="ask_helper"), "x")
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def ask() -> None:
                if streamed:
                    assert isinstance((await read(boss, "go"))[-1], rt.RunCancelled)
                else:
                    with pytest.raises(rt.RunCancelled):
                        await boss.ask("go")

            await began.wait()
            assert await boss.ask(rt.Cancel()) is True
            with trio.fail_after(5):
                await ended.wait()


async def test_agents_that_have_each_other_as_tools_are_told_of_the_ring() -> None:
    async with rt.ActorSystem("tools") as system:
        one_model = await system.spawn(llm.Scripted, asking("x", tool="ask_two"))
        two_model = await system.spawn(llm.Scripted, asking("x", tool="ask_one"))
        one = await system.spawn(rt.Agent, model=one_model, name="one")
        two = await system.spawn(rt.Agent, model=two_model, tools=[rt.agent_tool(one)], name="two")
        with trio.fail_after(10):
            assert "AskCycle" in (await one.ask(rt.Run("go", tools=[rt.agent_tool(two)]))).content


async def test_an_answer_that_is_too_long_is_kept_for_reading_on() -> None:
    async with rt.ActorSystem("tools") as system:
        long = await system.spawn(llm.Scripted, "x" * 5_000)
        boss = await boss_of(system, rt.agent_tool(rt.Agent.spec(model=long), name="ask_helper", output_limit=1_000), "x")
        await boss.ask("go")
        (step,) = results(await boss.ask(rt.GetMemory()))
        assert len(step.text) < 1_500
        assert "read_result" in step.text


async def test_it_is_a_tool_of_one_run_too_where_the_agent_lives_already() -> None:
    async with rt.ActorSystem("tools") as system:
        helper = await system.spawn(rt.Agent, model="scripted:yes", name="helper")
        boss = await system.spawn(rt.Agent, model=await system.spawn(llm.Scripted, asking("x")))
        assert (await boss.ask(rt.Run("go", tools=[rt.agent_tool(helper)]))).content == "done: yes"
        spec = rt.agent_tool(rt.Agent.spec(model="scripted:yes"), name="ask_helper")
        with pytest.raises(rt.DefinitionError, match="spawn it, and give its ref"):
            await boss.ask(rt.Run("go", tools=[spec]))


async def test_it_works_outside_an_agent_as_any_tool_does() -> None:
    from retinue.actors.tools.executor import spawn_executor

    async with rt.ActorSystem("tools") as system:
        tool = rt.agent_tool(await system.spawn(Echo, [], "e", name="helper"))
        executor = await spawn_executor(system, tool)
        result = await executor.ask(tool.decode('{"message": "x"}'))
        assert (result.ok, result.text) == (True, "e(x)")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: rt.agent_tool("x"), "agent's ref, or a spec"), (lambda: rt.agent_tool(None), "NoneType"), (lambda: rt.agent_tool(rt.Agent), r"the class Agent: Agent\.spec"),
        (lambda: rt.agent_tool(rt.Agent.spec(model="x")), "a spec has no name"), (lambda: rt.agent_tool(rt.Agent.spec(model="x"), name="a b"), "name"),
        (lambda: rt.agent_tool(rt.Agent.spec(model="x"), name="a", timeout=-1), "timeout"),
    ],
)  # fmt: skip
def test_what_cannot_be_such_a_tool_is_refused(make: Any, text: str) -> None:
    with pytest.raises(rt.DefinitionError, match=text):
        make()


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("inner_asks", [True, False], ids=["the agent asks too", "only the tool asks"])
async def test_several_calls_of_an_agent_in_one_reply_are_each_asked_for_once(count: int, inner_asks: bool) -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        helper = await sender.agent(system, "bob") if inner_asks else rt.Agent.spec(model=await system.spawn(llm.Scripted, echo))
        names = [f"m{number}" for number in range(count)]
        model = await system.spawn(llm.Scripted, asking(*names))
        boss = await system.spawn(rt.Agent, model=model, tools=[rt.agent_tool(helper, name="ask_helper", approval=True)])
        asked: list[str] = []
        waiting = await parked_by(boss, "go")
        while True:
            pending = [request for request in waiting.requests if request.id not in asked]
            assert pending and len(pending) == len(waiting.requests)  # nobody is shown what is decided
            asked += [request.id for request in pending]
            for request in pending:
                await system.approvals.approve(request.id, reviewer="carol")
            try:
                answer = await boss.ask(rt.Resume(waiting.run or ""))
                break
            except rt.ApprovalRequired as error:
                waiting = error
        assert len(asked) == (2 * count if inner_asks else count)  # one for each call, and for each run one
        assert len(sender.sent) == (count if inner_asks else 0) and answer.content.count(";") == count - 1
        assert not await system.approvals.find(status="pending")


async def test_a_call_that_waits_with_its_consent_goes_on_after_one_that_is_rejected() -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        model = await system.spawn(llm.Scripted, asking("one", "two"))
        tool = rt.agent_tool(await sender.agent(system, "bob"), name="ask_helper", approval=True)
        boss = await system.spawn(rt.Agent, model=model, tools=[tool])
        waiting = await parked_by(boss, "go")
        for request in waiting.requests:
            await system.approvals.approve(request.id, reviewer="carol")
        waiting = await parked_by(boss, rt.Resume(waiting.run or ""))
        await system.approvals.reject(waiting.requests[0].id, reviewer="carol", note="no")
        waiting = await parked_by(boss, rt.Resume(waiting.run or ""))
        await system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        assert (await boss.ask(rt.Resume(waiting.run or ""))).content.count("yes") == 1 and sender.sent == ["bob"]
