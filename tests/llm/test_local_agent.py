"""The embedded model under agents, for real: a small model, so these look at what holds it, not at how clever it is. 24 tokens a call at most."""

from __future__ import annotations

import contextlib
import json
import logging

import attrs
import pytest
import trio

import retinue as rt
from retinue import llm
from retinue.actors.llm.local import is_local_installed
from retinue.actors.llm.weights import SMOLLM2, find_weights, models_folder

pytestmark = pytest.mark.slow

BRIEF = {"max_tokens": 24, "temperature": 0}
SHORT = "Answer in one short sentence."
DEEP = '{"type":"object","properties":{"of":{"type":"array","items":{"type":"string"},"minItems":3,"maxItems":3}},"required":["of"]}'


@pytest.fixture(autouse=True)
def _installed():
    if not is_local_installed():
        pytest.skip("the extra `local` is not installed")
    if find_weights(SMOLLM2, models_folder()) is None:
        pytest.skip("the weights are not on this machine: retinue models pull smollm2")


@attrs.frozen
class City:
    name: str
    country: str


def weather(town: str) -> str:
    """The weather of a town."""
    return f"It rains in {town}."


async def test_an_agent_streams_what_the_embedded_model_says():
    async with rt.ActorSystem() as system:
        agent = await system.spawn(rt.Agent, model="local:smollm2", instructions=SHORT, **BRIEF)
        async with agent.stream("What is the capital of France?") as stream:
            events = [event async for event in stream]
    texts = [event.text for event in events if isinstance(event, rt.TextDelta)]
    assert len(texts) > 2
    assert "".join(texts) == events[-1].message.content
    assert "Paris" in events[-1].message.content
    assert 0 < events[-1].message.usage.completion_tokens <= 24


async def test_an_answer_is_an_object_of_the_type():
    async with rt.ActorSystem() as system:
        agent = await system.spawn(rt.Agent, model="local:smollm2", output=City, output_mode="native", **BRIEF)
        reply = await agent.ask("Tell me of Paris, the city, in France.")
    assert isinstance(reply.formatted, City)
    assert reply.formatted.name == "Paris"


async def test_a_model_without_tool_calls_calls_a_tool_and_it_is_carried_out():
    async with rt.ActorSystem() as system:
        limits = rt.RunLimits(repeated_calls=2)  # it does not know when it has enough
        agent = await system.spawn(rt.Agent, model="local:smollm2", tools=[weather], limits=limits, **BRIEF)
        events = []
        with contextlib.suppress(rt.RunLimitReached):
            async with agent.stream("How is the weather in Oslo?") as stream:
                async for event in stream:
                    events.append(event)
        started = next(event for event in events if isinstance(event, rt.ToolStarted))
        finished = next(event for event in events if isinstance(event, rt.ToolFinished))
        steps = (await agent.ask(rt.GetMemory())).steps
    assert (started.name, json.loads(started.arguments)) == ("weather", {"town": "Oslo"})
    assert (finished.ok, finished.text) == (True, "It rains in Oslo.")
    assert [step.kind for step in steps][:2] == ["tool_calls", "tool_result"]


async def test_the_grammar_holds_whatever_the_model_would_rather_say(caplog):
    caplog.set_level(logging.WARNING, "retinue.llm")
    tools = (
        llm.ToolSpec("colour", "", '{"type":"object","properties":{"of":{"$ref":"#/$defs/C"}},"required":["of"],"$defs":{"C":{"enum":["red","blue"]}}}'),
        llm.ToolSpec("now", "The time."),
    )  # fmt: skip
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Local, name="model")
        for tool, question in zip(tools, ("Write me a poem of love.", "What time is it?"), strict=True):
            request = llm.Complete.of(question, tools=tools, **BRIEF)
            (call,) = (await model.ask(attrs.evolve(request, tool_choice=tool.name))).tool_calls
            assert call.name == tool.name
            assert json.loads(call.arguments) in ([{"of": "red"}, {"of": "blue"}] if tool.name == "colour" else [{}])
        deep = llm.Complete.of("Three rivers.", output=llm.OutputSpec("three", DEEP), tools=tools, **BRIEF)
        answer = await model.ask(attrs.evolve(deep, tool_choice=None))
        assert answer.tool_calls or answer.text
        assert caplog.records == []


async def test_a_schema_that_no_grammar_takes_is_weakened_and_that_is_told(caplog):
    caplog.set_level(logging.WARNING, "retinue.llm")
    odd = llm.ToolSpec("odd", "Says hello.", '{"type":"object","properties":{"to":{"type":"person"}},"required":["to"]}')
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Local, name="model")
        for _ in range(2):
            request = llm.CompleteStream.of("Say hello to Ada.", tools=(odd,), **BRIEF)
            async with model.stream(attrs.evolve(request, tool_choice="odd")) as stream:
                events = [event async for event in stream]
            assert [call.name for call in events[-1].completion.tool_calls] == ["odd"]
    assert len(caplog.records) == 1
    assert "without the schemas of the arguments" in caplog.text


async def test_a_conversation_that_does_not_fit_is_a_typed_error_and_leaves_nothing_behind():
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Local, context=256, name="model")
        agent = await system.spawn(rt.Agent, model=model, tools=[weather], **BRIEF)
        with pytest.raises(llm.ContextOverflow) as caught:
            await agent.ask("word " * 1_000)
        assert caught.value.limit == 256
        memory = await agent.ask(rt.GetMemory())
        assert memory.messages == ()
        assert (await model.ask(llm.Complete.of("Hello.", **BRIEF))).text


async def test_a_run_that_is_cancelled_in_the_middle_ends_the_model_and_the_next_is_answered():
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Local, name="model")
        agent = await system.spawn(rt.Agent, model=model, temperature=0)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:

                async def read():
                    async with agent.stream("Tell me a very long story.") as stream:
                        async for event in stream:
                            if isinstance(event, rt.TextDelta):
                                nursery.cancel_scope.cancel()

                nursery.start_soon(read)
            answer = await model.ask(
                llm.Complete.of("What is the capital of France?", system=SHORT, **BRIEF)
            )  # it has one slot: free again
        assert "Paris" in answer.text


async def test_two_sessions_at_once_share_the_model_and_no_memory():
    async with rt.ActorSystem() as system:
        agent = await system.spawn(rt.Agent, model="local:smollm2", instructions=SHORT, **BRIEF)
        answers = {}

        async def ask(session, question):
            answers[session] = (await agent.ask(rt.AgentMessage(question, session=session))).content

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "a", "What is the capital of France?")
            nursery.start_soon(ask, "b", "What is the capital of Italy?")
        assert "Paris" in answers["a"]
        assert "Rome" in answers["b"]
        for session in "ab":
            memory = await agent.ask(rt.GetMemory(session=session))
            assert [message.content for message in memory.messages][1:] == [answers[session]]
            assert len(memory.messages) == 2


async def test_a_swarm_of_two_shares_the_model_and_the_conversation_stays_with_who_has_it():
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Local, name="model")
        members = {
            "countries": rt.Agent.spec(model=model, instructions=SHORT, **BRIEF),
            "sums": rt.Agent.spec(model=model, instructions=SHORT, **BRIEF),
        }
        rules = rt.Rules(("capital", "countries"), ("plus", "sums"))
        swarm = await system.spawn(rt.Swarm, members, route=rules, handoffs={}, start="sums", name="desk")
        answers = [await swarm.ask(text) for text in ("What is the capital of France?", "Thank you.", "What is 1 plus 1?")]
        assert [answer.sender for answer in answers] == ["countries", "countries", "sums"]
        assert "Paris" in answers[0].content
        assert all(answer.content and answer.usage.completion_tokens <= 24 for answer in answers)
