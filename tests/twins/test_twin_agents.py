"""Agents, tools and models from all three faces: one contract for trio, `retinue.sync` and `retinue.aio`."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import pytest
import trio

import retinue as rt
import retinue.aio
import retinue.sync
from retinue import llm
from three_faces import FACES, Face, on_face

every_face = pytest.mark.parametrize("face", FACES)


def get_weather(city: str) -> str:
    """Forecast for a city.

    Args:
        city: Name of the city.
    """
    return f"{city}: sunny"


def untyped(city):  # type: ignore[no-untyped-def]
    """Says nothing of its parameter."""
    return city


@rt.tool(approval=True)
def send_email(to: str) -> str:
    """Sends an e-mail.

    Args:
        to: Recipient.
    """
    return f"sent to {to}"


class Stuck(llm.Deployment):
    """A model that says some words and then nothing more; notes from which moments on it was asked, and left."""

    def __init__(self, began: threading.Event, left: threading.Event, words: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.began, self.left, self.words = began, left, words

    async def stream_once(self, request: llm.Complete) -> AsyncIterator[llm.ModelEvent]:
        self.began.set()
        try:
            for word in self.words:
                yield llm.TextDelta(word)
            await trio.sleep_forever()
        finally:
            self.left.set()


def scripted_agent(face: Face, script: Any, **options: Any) -> Any:
    return face.spawn(rt.Agent, model=face.spawn(llm.Scripted, script, name="model"), name="agent", **options)


def stuck_agent(face: Face, *words: str) -> tuple[Any, threading.Event, threading.Event]:
    began, left = threading.Event(), threading.Event()
    return face.spawn(rt.Agent, model=face.spawn(Stuck, began, left, words), name="agent"), began, left


@every_face
def test_a_text_is_answered_and_remembered_and_forgotten(face: str) -> None:
    def body(face: Face) -> None:
        agent = scripted_agent(face, ["Hello!", "Again!"])
        reply = face.ask(agent, "hi")
        assert isinstance(reply, rt.AgentMessage)
        assert (reply.content, reply.sender, reply.usage.requests) == ("Hello!", "agent", 1)
        assert face.ask(agent, rt.AgentMessage("hi", session="other")).content == "Again!"
        memory = face.ask(agent, rt.GetMemory())
        assert [message.content for message in memory.messages] == ["hi", "Hello!"]
        face.ask(agent, rt.ClearMemory())
        assert face.ask(agent, rt.GetMemory()).messages == ()
        assert len(face.ask(agent, rt.GetMemory(session="other")).messages) == 2

    on_face(face, body)


@every_face
def test_a_state_goes_from_one_agent_to_another_as_plain_data(face: str) -> None:
    def body(face: Face) -> None:
        first = scripted_agent(face, [llm.tool_calls(("get_weather", {"city": "Rome"})), "Sunny."], tools=[get_weather])
        face.ask(first, "Rome?")
        state = face.ask(first, rt.GetState())
        assert set(state) >= {"memory"}
        second = face.spawn(rt.Agent, model="scripted:x", name="second")
        face.ask(second, rt.LoadState(state))
        assert face.ask(second, rt.GetState()) == state
        assert face.ask(second, rt.GetMemory()) == face.ask(first, rt.GetMemory())
        with pytest.raises(rt.BadState):
            face.ask(second, rt.LoadState({"memory": [{"kind": "nonsense"}]}))
        assert face.ask(second, rt.GetState()) == state

    on_face(face, body)


@every_face
def test_a_stream_has_typed_events_and_one_end(face: str) -> None:
    def body(face: Face) -> None:
        script = [llm.tool_calls(("get_weather", {"city": "Oslo"}), reasoning="think"), "Sunny in Oslo."]
        agent = scripted_agent(face, script, tools=[get_weather])
        events = face.read(agent, "Oslo?")
        kinds = [type(event) for event in events]
        assert rt.ReasoningDelta in kinds
        assert kinds.index(rt.ToolStarted) < kinds.index(rt.ToolFinished) < kinds.index(rt.TextDelta)
        assert kinds.count(rt.RunEnd) == 1
        assert kinds[-1] is rt.RunEnd
        assert "".join(event.text for event in events if isinstance(event, rt.TextDelta)) == events[-1].message.content
        finished = next(event for event in events if isinstance(event, rt.ToolFinished))
        assert (finished.name, finished.ok, finished.text) == ("get_weather", True, "Oslo: sunny")

    on_face(face, body)


def test_the_events_of_a_run_are_the_same_on_every_face() -> None:
    found: dict[str, list[Any]] = {}
    for face in FACES:

        def body(side: Face, face: str = face) -> None:
            script = [llm.tool_calls(("get_weather", {"city": "Oslo"})), llm.tool_calls(("nothing", {})), "Sunny."]
            agent = scripted_agent(side, script, tools=[get_weather])
            found[face] = [_without_ids(event) for event in side.read(agent, rt.Run("Oslo?", tools=[send_email]))]

        on_face(face, body)
    assert len(found["trio"]) > 5
    assert found["sync"] == found["trio"]
    assert found["aio"] == found["trio"]


def _without_ids(event: Any) -> Any:
    return attrs.evolve(event, call_id="") if hasattr(event, "call_id") else event


@every_face
def test_a_stream_that_is_closed_early_leaves_the_model_and_keeps_what_was_said_as_partial(face: str) -> None:
    def body(face: Face) -> None:
        agent, _, left = stuck_agent(face, "One ", "two ")
        with face.stream(agent, "count") as events:
            assert next(events) == rt.TextDelta("One ")
            assert next(events) == rt.TextDelta("two ")
        assert left.wait(10)
        memory = face.ask(agent, rt.GetMemory())
        assert [(message.sender, message.partial) for message in memory.messages] == [("user", False), ("agent", True)]
        assert memory.messages[-1].content == "One two "

    on_face(face, body)


@every_face
def test_a_run_has_tools_and_limits_of_its_own(face: str) -> None:
    def body(face: Face) -> None:
        again = llm.tool_calls(("get_weather", {"city": "Rome"}))
        agent = scripted_agent(face, [again, "Sunny.", again, again, "never"])
        assert face.ask(agent, rt.Run("Rome?", tools=[get_weather])).content == "Sunny."
        steps = face.ask(agent, rt.GetMemory()).steps
        assert [step.text for step in steps if step.kind == "tool_result"] == ["Rome: sunny"]
        with pytest.raises(rt.RunLimitReached) as caught:
            face.ask(agent, rt.Run(rt.AgentMessage("Rome?", session="b"), tools=[get_weather], limits=rt.RunLimits(model_calls=2)))
        assert caught.value.limit == "model_calls"

    on_face(face, body)


@every_face
def test_a_parked_run_is_decided_upon_and_goes_on(face: str) -> None:
    def body(face: Face) -> None:
        mail = llm.tool_calls(("send_email", {"to": "bob"}))
        agent = scripted_agent(face, [mail, "Done.", mail, "Not done."], tools=[send_email])
        with pytest.raises(rt.ApprovalRequired) as caught:
            face.ask(agent, "mail Bob")
        (request,) = caught.value.requests
        assert request.arguments["to"] == "bob"
        token = face.call(face.system.approvals.approve, request.id, reviewer="carol")
        assert face.ask(agent, rt.Resume(caught.value.run), approvals=[token]).content == "Done."
        with pytest.raises(rt.NoSuchRun):
            face.ask(agent, rt.Resume(caught.value.run))

        *_, needed, error = face.read(agent, rt.AgentMessage("mail Bob", session="b"))
        assert isinstance(needed, rt.ApprovalNeeded)
        assert isinstance(error, rt.ApprovalRequired)
        assert needed.run == error.run
        face.call(face.system.approvals.reject, needed.requests[0].id, reviewer="carol", note="not today")
        events = face.read(agent, rt.Resume(needed.run))
        assert events[-1].message.content == "Not done."
        result = face.ask(agent, rt.GetMemory(session="b")).steps[-1]
        assert (result.ok, result.error) == (False, "rejected")
        assert "not today" in result.text

    on_face(face, body)


@every_face
def test_a_run_that_waits_for_a_person_goes_on_when_the_decision_comes(face: str) -> None:
    def body(face: Face) -> None:
        agent = scripted_agent(face, [llm.tool_calls(("send_email", {"to": "bob"})), "Done."], tools=[send_email], wait_for_approvals=True)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(face.ask, agent, "mail Bob")
            request = _first(lambda: face.call(face.system.approvals.pending))
            face.call(face.system.approvals.approve, request.id, reviewer="carol")
            assert asked.result(30).content == "Done."

    on_face(face, body)


def _first(look: Any) -> Any:
    for _ in range(3000):
        found = look()
        if found:
            return found[0]
        time.sleep(0.01)
    raise AssertionError("nothing came")


@every_face
def test_a_time_out_leaves_the_model_and_memory_as_it_was(face: str) -> None:
    def body(face: Face) -> None:
        agent, began, left = stuck_agent(face, "half")
        with pytest.raises(rt.AskTimeout):
            face.ask(agent, "hi", timeout=0.3)
        assert began.is_set()
        assert left.wait(10)
        assert face.ask(agent, rt.GetMemory()).items == ()

    on_face(face, body)


@every_face
def test_a_run_is_cancelled_from_elsewhere(face: str) -> None:
    def body(face: Face) -> None:
        agent, began, left = stuck_agent(face)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(face.ask, agent, "hi")
            assert began.wait(10)
            assert face.ask(agent, rt.Cancel()) is True
            with pytest.raises(rt.RunCancelled):
                asked.result(30)
        assert left.wait(10)
        assert face.ask(agent, rt.Cancel()) is False

    on_face(face, body)


@every_face
def test_many_sessions_at_once_bleed_into_none(face: str) -> None:
    def body(face: Face) -> None:
        agent = scripted_agent(face, lambda request: f"You said {request.messages[-1].content}.")
        with ThreadPoolExecutor(16) as pool:
            replies = list(pool.map(lambda n: face.ask(agent, rt.AgentMessage(f"m{n}", session=f"s{n}")), range(100)))
        assert [reply.content for reply in replies] == [f"You said m{n}." for n in range(100)]
        assert [message.content for message in face.ask(agent, rt.GetMemory(session="s7")).messages] == ["m7", "You said m7."]

    on_face(face, body)


@every_face
def test_a_caller_has_no_more_than_its_context_and_its_own_sessions(face: str) -> None:
    def body(face: Face) -> None:
        agent = scripted_agent(face, [llm.tool_calls(("get_weather", {"city": "Rome"})), "Hm."], tools=[get_weather])
        ada = face.system.authority.mint("ada", ["model.complete"])
        assert face.ask(agent, "Rome?", context=ada).content == "Hm."
        memory = face.ask(agent, rt.GetMemory(), context=ada)
        assert [step.error for step in memory.steps if step.kind == "tool_result"] == ["denied"]
        assert face.ask(agent, rt.GetMemory()).items == ()
        assert face.ask(agent, rt.GetMemory(subject="ada")) == memory
        with pytest.raises(rt.Denied):
            face.ask(agent, "hi", context=face.system.authority.mint("eve", ["tool.*"]))

    on_face(face, body)


@every_face
def test_an_error_of_the_model_and_wrong_input_are_typed_and_leave_no_trace(face: str) -> None:
    def body(face: Face) -> None:
        agent = scripted_agent(face, [llm.RateLimited("slow down"), "Hello!"])
        with pytest.raises(llm.RateLimited, match="slow down"):
            face.ask(agent, "hi")
        assert face.ask(agent, rt.GetMemory()).items == ()
        with pytest.raises(rt.BadInput):
            face.ask(agent, "")
        assert face.ask(agent, "hi").content == "Hello!"
        with pytest.raises(rt.DefinitionError, match="city"):
            face.spawn(rt.Agent, model="scripted:x", tools=[untyped])
        with pytest.raises(llm.BadEndpoint, match="openai"):
            face.spawn(rt.Agent, model="opnai:gpt-4.1")

    on_face(face, body)


@every_face
def test_members_of_a_failover_may_be_refs_of_the_face(face: str) -> None:
    def body(face: Face) -> None:
        members = [face.spawn(llm.Scripted, [llm.ModelFailed("down")]), face.spawn(llm.Scripted, ["Up."])]
        agent = face.spawn(rt.Agent, model=face.spawn(llm.Failover, members))
        assert face.ask(agent, "hi").content == "Up."

    on_face(face, body)


@pytest.mark.parametrize("face", ["sync", "aio"])
def test_a_tool_that_has_got_hold_of_a_twin_can_neither_wait_for_itself_nor_act_as_root(face: str) -> None:
    def body(face: Face) -> None:
        held: list[Any] = []

        def ask_yourself() -> str:
            """Asks the agent that called it."""
            return str(face.ask(held[0], rt.GetMemory(subject="root")))

        agent = scripted_agent(face, [llm.tool_calls(("ask_yourself", {})), "Hm."], tools=[ask_yourself])
        held.append(agent)
        ada = face.system.authority.mint("ada", ["model.complete", "tool.*"])
        assert face.ask(agent, "go", context=ada, timeout=20).content == "Hm."
        (result,) = (step for step in face.ask(agent, rt.GetMemory(subject="ada")).steps if step.kind == "tool_result")
        assert (result.ok, result.error) == (False, "denied")
        assert "NoContext" in result.text

    on_face(face, body)


def test_a_cancelled_task_leaves_the_model() -> None:
    async def main() -> None:
        began, left = threading.Event(), threading.Event()
        async with retinue.aio.ActorSystem() as system:
            agent = await system.spawn(rt.Agent, model=await system.spawn(Stuck, began, left))
            task = asyncio.create_task(agent.ask("hi"))
            assert await asyncio.to_thread(began.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(left.wait, 10)
            assert (await agent.ask(rt.GetMemory())).items == ()

    asyncio.run(main())


def test_a_future_of_an_agents_answer_can_be_mapped() -> None:
    with retinue.sync.ActorSystem() as system:
        agent = system.spawn(rt.Agent, model="scripted:Hello!")
        future = agent.ask("hi", block=False)
        assert future.map(lambda reply: reply.content).get(timeout=10) == "Hello!"


@pytest.mark.parametrize("streamed", [False, True])
def test_ctrl_c_ends_the_turn_that_one_waits_for_and_the_agent_goes_on(streamed: bool) -> None:
    began, left = threading.Event(), threading.Event()

    def interrupt() -> None:
        began.wait(10)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with retinue.sync.ActorSystem() as system:
        agent = system.spawn(rt.Agent, model=system.spawn(Stuck, began, left))
        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            if streamed:
                with agent.stream("hi") as events:
                    list(events)
            else:
                agent.ask("hi")
        interrupting.join()
        assert left.wait(10)
        assert agent.ask(rt.GetMemory()).items == ()
        assert agent.ask(rt.Cancel()) is False
