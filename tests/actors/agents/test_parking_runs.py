"""Runs that wait for a person: parked without a task, resumed exactly there, once."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import retinue as rt
from agent_players import agent_system, calls, read, results, said_to
from approval_bank import move_clock
from retinue import llm
from team_players import Sender, parked_by


class Post:
    """A tool that needs consent, one that does not, and what they did."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.looked: list[str] = []

        async def send(to: str, text: str = "hi") -> str:
            """Sends.

            Args:
                to: Whom.
                text: What.
            """
            self.sent.append((to, text))
            return f"sent to {to}"

        async def look(what: str) -> str:
            """Looks.

            Args:
                what: At what.
            """
            self.looked.append(what)
            return f"saw {what}"

        self.tools = [rt.tool(approval=True)(send), look]


def to(*names: str) -> llm.Completion:
    return llm.tool_calls(*(("send", {"to": name}) for name in names))


async def parked(agent: Any, message: Any, **options: Any) -> rt.ApprovalRequired:
    with pytest.raises(rt.ApprovalRequired) as caught:
        await agent.ask(message, **options)
    return caught.value


async def test_the_run_goes_on_exactly_where_it_was_when_its_call_is_approved() -> None:
    post, told = Post(), []
    script = said_to(told, llm.tool_calls(("look", {"what": "door"}), ("send", {"to": "bob"}), ("look", {"what": "sky"})), "Done.")
    async with agent_system(script, tools=post.tools) as (system, agent):
        waiting = await parked(agent, "Write to Bob")
        assert (post.sent, sorted(post.looked)) == ([], ["door", "sky"])  # the others went on
        assert waiting.run is not None and [request.arguments["to"] for request in waiting.requests] == ["bob"]
        assert (await agent.ask(rt.GetMemory())).items == ()  # memory has whole runs only
        token = await system.approvals.approve(waiting.request.id, reviewer="carol")
        reply = await agent.ask(rt.Resume(waiting.run), approvals=[token])
        memory = await agent.ask(rt.GetMemory())
    assert (reply.content, reply.usage.requests, post.sent) == ("Done.", 2, [("bob", "hi")])
    assert sorted(post.looked) == ["door", "sky"]
    assert [step.text for step in results(memory)] == ["saw door", "sent to bob", "saw sky"]
    assert [each.role for each in told[1].messages] == ["user", "assistant", "tool", "tool", "tool"]


async def test_the_token_need_not_be_brought_for_the_session_finds_what_was_decided() -> None:
    post = Post()
    async with agent_system([to("bob"), "Done."], tools=post.tools) as (system, agent):
        waiting = await parked(agent, "Write to Bob")
        await system.approvals.approve(waiting.request.id, reviewer="carol")
        assert (await agent.ask(rt.Resume(waiting.run))).content == "Done."
    assert post.sent == [("bob", "hi")]


async def test_resumed_twice_it_has_one_effect() -> None:
    post = Post()
    async with agent_system([to("bob"), "Done."], tools=post.tools) as (system, agent):
        waiting = await parked(agent, "Write to Bob")
        token = await system.approvals.approve(waiting.request.id, reviewer="carol")
        found: list[Any] = []

        async def resume() -> None:
            try:
                found.append((await agent.ask(rt.Resume(waiting.run), approvals=[token])).content)
            except rt.NoSuchRun as error:
                found.append(error.run)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(resume)
            nursery.start_soon(resume)
    assert sorted(found) == sorted(["Done.", waiting.run]) and post.sent == [("bob", "hi")]


async def test_a_rejection_is_a_result_with_the_reviewers_words() -> None:
    post = Post()
    async with agent_system([to("bob"), "I may not."], tools=post.tools) as (system, agent):
        waiting = await parked(agent, "Write to Bob")
        await system.approvals.reject(waiting.request.id, reviewer="carol", note="Bob has left the company")
        assert (await agent.ask(rt.Resume(waiting.run))).content == "I may not."
        [step] = results(await agent.ask(rt.GetMemory()))
    assert (step.ok, step.error, post.sent) == (False, "rejected", []) and "Bob has left the company" in step.text


async def test_an_edit_runs_the_edited_call_and_the_model_is_told() -> None:
    post = Post()
    async with agent_system([to("bob"), "Done."], tools=post.tools) as (system, agent):
        waiting = await parked(agent, "Write to Bob")
        edited = await system.approvals.edit(waiting.request.id, {"text": "good day"}, reviewer="carol")
        await system.approvals.approve(edited.id, reviewer="carol")
        await agent.ask(rt.Resume(waiting.run))
        [step] = results(await agent.ask(rt.GetMemory()))
    assert post.sent == [("bob", "good day")] and "changed the arguments" in step.text and "good day" in step.text


async def test_an_edit_that_is_not_approved_yet_is_not_forgotten_meanwhile() -> None:
    post = Post()
    async with agent_system([to("bob"), "Done."], tools=post.tools) as (system, agent):
        waiting = await parked(agent, "Write to Bob")
        edited = await system.approvals.edit(waiting.request.id, {"text": "good day"}, reviewer="carol")
        again = await parked(agent, rt.Resume(waiting.run))
        assert again.request.id == edited.id
        await parked(agent, rt.Resume(waiting.run))
        token = await system.approvals.approve(edited.id, reviewer="carol")
        await agent.ask(rt.Resume(waiting.run), approvals=[token])
    assert post.sent == [("bob", "good day")]


async def test_a_request_that_has_expired_is_asked_anew() -> None:
    post = Post()
    async with rt.ActorSystem("brief") as system:
        model = await system.spawn(llm.Scripted, [to("bob"), "Done."], name="model")
        agent = await system.spawn(rt.Agent, model=model, tools=post.tools, name="agent")
        waiting = await parked(agent, "Write to Bob")
        move_clock(system, 7 * 86_400 + 1)
        again = await parked(agent, rt.Resume(waiting.run))
        assert again.request.id != waiting.request.id and again.run == waiting.run
        await system.approvals.approve(again.request.id, reviewer="carol")
        assert (await agent.ask(rt.Resume(waiting.run))).content == "Done."
    assert post.sent == [("bob", "hi")]


async def test_what_is_not_decided_yet_waits_on_and_what_is_decided_is_done() -> None:
    post = Post()
    async with agent_system([to("bob", "eve"), "Done."], tools=post.tools) as (system, agent):
        waiting = await parked(agent, "Write to both")
        assert len(waiting.requests) == 2
        nothing = await parked(agent, rt.Resume(waiting.run))
        assert {request.id for request in nothing.requests} == {request.id for request in waiting.requests} and nothing.run == waiting.run
        second = next(request for request in waiting.requests if request.arguments["to"] == "eve")
        token = await system.approvals.approve(second.id, reviewer="carol")
        rest = await parked(agent, rt.Resume(waiting.run), approvals=[token])
        assert [request.arguments["to"] for request in rest.requests] == ["bob"] and post.sent == [("eve", "hi")]
        await system.approvals.approve(rest.request.id, reviewer="carol")
        assert (await agent.ask(rt.Resume(waiting.run))).content == "Done."
        assert [step.text for step in results(await agent.ask(rt.GetMemory()))] == ["sent to bob", "sent to eve"]
    assert post.sent == [("eve", "hi"), ("bob", "hi")]


async def test_what_was_approved_while_another_token_was_brought_is_done_too() -> None:
    post = Post()
    async with agent_system([to("bob", "eve"), "Done."], tools=post.tools) as (system, agent):
        waiting = await parked(agent, "Write to both")
        tokens = [await system.approvals.approve(request.id, reviewer="carol") for request in waiting.requests]
        assert (await agent.ask(rt.Resume(waiting.run), approvals=tokens[:1])).content == "Done."
    assert sorted(post.sent) == [("bob", "hi"), ("eve", "hi")]


@pytest.mark.parametrize("run", ["", "0", "0/", "0/ffff", "other/ffff", "/", "x" * 1000, "x" * 200 + "/1"])
async def test_an_unknown_run_is_an_error_that_says_so(run: str) -> None:
    async with agent_system(["x"]) as (_, agent):
        with pytest.raises(rt.NoSuchRun) as caught:
            await agent.ask(rt.Resume(run))
        assert len(str(caught.value)) < 600
        [error] = await read(agent, rt.Resume(run))
        assert isinstance(error, rt.NoSuchRun)


async def test_another_subject_cannot_resume_a_run_whose_id_it_has_learned() -> None:
    post = Post()
    async with agent_system([to("bob"), "Done."], tools=post.tools) as (system, agent):
        ada, eve = (system.authority.mint(name, ["**"]) for name in ("ada", "eve"))
        waiting = await parked(agent, "Write to Bob", context=ada)
        token = await system.approvals.approve(waiting.request.id, reviewer="carol")
        with pytest.raises(rt.NoSuchRun):
            await agent.ask(rt.Resume(waiting.run), approvals=[token], context=eve)
        assert post.sent == []
        assert (await agent.ask(rt.Resume(waiting.run), context=ada)).content == "Done."


async def test_a_session_with_a_parked_run_takes_no_message_until_it_is_resumed_or_given_up() -> None:
    post = Post()
    async with agent_system([to("bob"), "Anew."], tools=post.tools) as (_, agent):
        waiting = await parked(agent, "Write to Bob")
        with pytest.raises(rt.RunParked) as caught:
            await agent.ask("And?")
        assert caught.value.run == waiting.run
        assert await agent.ask(rt.Cancel()) is True
        assert await agent.ask(rt.Cancel()) is False
        with pytest.raises(rt.NoSuchRun):
            await agent.ask(rt.Resume(waiting.run))
        assert (await agent.ask("And?")).content == "Anew."
        assert [message.content for message in (await agent.ask(rt.GetMemory())).messages] == ["And?", "Anew."]


async def test_a_parked_run_can_be_given_up_by_its_id() -> None:
    async with agent_system([to("bob"), "Anew."], tools=Post().tools) as (_, agent):
        waiting = await parked(agent, rt.AgentMessage("Write to Bob", session="s"))
        assert await agent.ask(rt.Cancel(run="s/other")) is False
        assert await agent.ask(rt.Cancel(run=waiting.run)) is True
        assert (await agent.ask(rt.AgentMessage("Hi", session="s"))).content == "Anew."


async def test_a_model_that_fails_after_the_approved_call_leaves_the_run_parked_and_the_call_is_not_done_again() -> None:
    post = Post()
    async with agent_system([to("bob"), llm.ModelFailed("overloaded", status=503), "Done."], tools=post.tools) as (system, agent):
        waiting = await parked(agent, "Write to Bob")
        await system.approvals.approve(waiting.request.id, reviewer="carol")
        with pytest.raises(llm.ModelFailed):
            await agent.ask(rt.Resume(waiting.run))
        assert (await agent.ask(rt.Resume(waiting.run))).content == "Done."
        assert [step.text for step in results(await agent.ask(rt.GetMemory()))] == ["sent to bob"]
    assert post.sent == [("bob", "hi")]


async def test_a_call_that_was_interrupted_after_its_consent_has_an_unknown_outcome_and_is_not_begun_again() -> None:
    began = trio.Event()
    ran: list[int] = []

    @rt.tool(approval=True)
    async def launch() -> str:
        """Launches."""
        ran.append(1)
        began.set()
        await trio.sleep_forever()
        return "never"

    async with agent_system([calls("launch"), "I do not know."], tools=[launch]) as (system, agent):
        waiting = await parked(agent, "Launch")
        await system.approvals.approve(waiting.request.id, reviewer="carol")
        with trio.move_on_after(5) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(agent.ask, rt.Resume(waiting.run))
                await began.wait()
                nursery.cancel_scope.cancel()
        assert not scope.cancelled_caught
        assert (await agent.ask(rt.Resume(waiting.run))).content == "I do not know."
        [step] = results(await agent.ask(rt.GetMemory()))
    assert step.error == "outcome_unknown" and ran == [1]


async def test_a_run_may_wait_for_its_approval_while_other_sessions_go_on() -> None:
    post = Post()

    def script(request: llm.Complete) -> str | llm.Completion:
        last = request.messages[-1]
        return to("bob") if last.content == "Write" else f"Done: {last.content}"

    async with agent_system(script, tools=post.tools, wait_for_approvals=True) as (system, agent), trio.open_nursery() as nursery:
        answers: list[str] = []

        async def ask() -> None:
            answers.append((await agent.ask("Write")).content)

        nursery.start_soon(ask)
        with trio.fail_after(5):
            while not (pending := await system.approvals.pending()):
                await trio.sleep(0.01)
        assert (await agent.ask(rt.AgentMessage("hi", session="other"))).content == "Done: hi" and answers == []
        await system.approvals.approve(pending[0].id, reviewer="carol")
        with trio.fail_after(5):
            while not answers:
                await trio.sleep(0.01)
    assert answers == ["Done: sent to bob"] and post.sent == [("bob", "hi")]


async def test_a_run_that_waits_is_told_a_rejection() -> None:
    post = Post()
    async with agent_system([to("bob"), "I may not."], tools=post.tools) as (system, agent), trio.open_nursery() as nursery:
        answers: list[Any] = []

        async def ask() -> None:
            answers.extend(await read(agent, rt.Run("Write", wait_for_approvals=True)))

        nursery.start_soon(ask)
        with trio.fail_after(5):
            while not (pending := await system.approvals.pending()):
                await trio.sleep(0.01)
        await system.approvals.reject(pending[0].id, reviewer="carol", note="no")
    assert [type(event) for event in answers if not isinstance(event, rt.TextDelta | rt.UsageSoFar)] == [
        rt.ToolStarted,
        rt.ApprovalNeeded,
        rt.ToolFinished,
        rt.RunEnd,
    ]
    assert answers[-1].message.content == "I may not." and post.sent == []


async def test_a_stream_says_that_it_needs_approval_and_ends_with_the_error() -> None:
    post = Post()
    async with agent_system([to("bob"), "Done."], tools=post.tools) as (system, agent):
        *events, error = await read(agent, "Write to Bob")
        assert isinstance(error, rt.ApprovalRequired) and isinstance(events[-1], rt.ApprovalNeeded)
        assert events[-1].run == error.run and events[-1].requests == error.requests
        await system.approvals.approve(error.request.id, reviewer="carol")
        assert isinstance((await read(agent, rt.Resume(error.run)))[-1], rt.RunEnd)
    assert post.sent == [("bob", "hi")]


async def test_a_run_with_tools_of_its_own_has_them_again_when_it_goes_on() -> None:
    post = Post()
    async with agent_system([to("bob"), llm.tool_calls(("look", {"what": "door"})), "Done."]) as (system, agent):
        waiting = await parked(agent, rt.Run("Write to Bob", tools=post.tools))
        await system.approvals.approve(waiting.request.id, reviewer="carol")
        assert (await agent.ask(rt.Resume(waiting.run))).content == "Done."
    assert (post.sent, post.looked) == ([("bob", "hi")], ["door"])


async def test_the_limits_of_a_run_go_on_where_they_were() -> None:
    post = Post()
    async with agent_system([to("bob"), to("eve"), "Done."], tools=post.tools, limits=rt.RunLimits(tool_calls=1)) as (system, agent):
        waiting = await parked(agent, "Write")
        await system.approvals.approve(waiting.request.id, reviewer="carol")
        with pytest.raises(rt.RunLimitReached) as caught:
            await agent.ask(rt.Resume(waiting.run))
        assert caught.value.limit == "tool_calls" and caught.value.usage is not None and caught.value.usage.requests == 2
        assert [step.ok for step in results(await agent.ask(rt.GetMemory()))] == [True, False]
        with pytest.raises(rt.NoSuchRun):
            await agent.ask(rt.Resume(waiting.run))


async def test_a_run_is_resumed_by_the_error_that_said_that_it_waits() -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        agent = await system.spawn(rt.Agent, **(await sender.agent(system, "bob")).options)
        waiting = await parked_by(agent, "go")
        assert rt.Resume(waiting).run == waiting.run
        with pytest.raises(rt.RunParked) as parked:
            await agent.ask("go")
        assert rt.Resume(parked.value) == rt.Resume(waiting.run)
        await system.approvals.approve(waiting.request.id, reviewer="carol")
        assert (await agent.ask(rt.Resume(waiting))).text == "yes"


async def test_an_error_of_no_run_is_told_how_to_go_on_with_the_message_itself() -> None:
    async with agent_system(["Hello!"]) as (_, agent):
        with pytest.raises(rt.NoSuchRun, match=r"approvals=\[token\]"):
            await agent.ask(rt.Resume(rt.ApprovalRequired("nobody has parked anything")))


def test_the_text_of_a_message_is_what_a_model_is_shown() -> None:
    assert rt.AgentMessage("Oslo").text == "Oslo" and rt.AgentMessage(None).text == ""
    assert rt.AgentMessage({"city": "Tromsø", "people": [1, 2]}).text == '{"city": "Tromsø", "people": [1, 2]}'
