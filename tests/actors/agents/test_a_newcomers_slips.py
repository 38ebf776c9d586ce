"""What somebody does who is new to agents, and what is said of it."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import attrs
import pytest

import retinue as rt
from agent_players import agent_system, results
from retinue import aio, llm, sync
from retinue.actors.llm.deployment import _in_words
from retinue.actors.tools.executor import executor_class


async def refused(**options: Any) -> str:
    with pytest.raises(rt.DefinitionError) as caught:
        async with agent_system(["Hello!"], **options):
            pass
    return str(caught.value)


async def test_an_agents_ref_among_the_tools_is_answered_by_the_way_to_ask_an_agent() -> None:
    async with agent_system(["Hello!"]) as (system, agent):
        with pytest.raises(
            rt.DefinitionError, match=r"is an actor's address, and no tool: .*context: rt\.ToolContext.*context\.ask\(ref, question\)"
        ):
            await system.spawn(rt.Agent, model="scripted:x", tools=[agent])


async def test_a_tool_asks_another_agent_by_its_context() -> None:
    async with rt.ActorSystem("team") as system:
        expert = await system.spawn(rt.Agent, model="scripted:Four.", name="expert")

        async def ask_expert(question: str, context: rt.ToolContext) -> str:
            """Asks an expert in numbers."""
            return str((await context.ask(expert, question)).content)

        model = await system.spawn(llm.Scripted, [llm.tool_calls(("ask_expert", {"question": "2+2?"})), "It is four."])
        agent = await system.spawn(rt.Agent, model=model, tools=[ask_expert], name="agent")
        assert (await agent.ask("How much is 2+2?")).content == "It is four."
        assert [(step.tool, step.ok, step.text) for step in results(await agent.ask(rt.GetMemory()))] == [("ask_expert", True, "Four.")]


@pytest.mark.parametrize("written", ["async", "def"])
def test_in_a_script_a_tools_context_takes_the_refs_that_the_script_has(written: str) -> None:
    with sync.ActorSystem("team") as system:
        expert = system.spawn(rt.Agent, model="scripted:Four.")

        async def ask_expert(question: str, context: rt.ToolContext) -> str:
            return str((await context.ask(expert, question)).content)

        def ask_from_thread(question: str, context: rt.ToolContext) -> str:
            return str(context.ask_from_thread(expert, question).content)

        tool = rt.tool(ask_expert if written == "async" else ask_from_thread, name="ask", description="Asks.")
        model = system.spawn(llm.Scripted, [llm.tool_calls(("ask", {"question": "2+2?"})), "It is four."])
        agent = system.spawn(rt.Agent, model=model, tools=[tool])
        agent.ask("2+2?")
        assert [step.text for step in agent.ask(rt.GetMemory()).steps if step.kind == "tool_result"] == ["Four."]


def test_under_asyncio_a_tools_context_takes_the_refs_that_the_program_has() -> None:
    async def main() -> list[str]:
        async with aio.ActorSystem("team") as system:
            expert = await system.spawn(rt.Agent, model="scripted:Four.")

            async def ask(question: str, context: rt.ToolContext) -> str:
                return str((await context.ask(expert, question)).content)

            model = await system.spawn(llm.Scripted, [llm.tool_calls(("ask", {"question": "2+2?"})), "It is four."])
            agent = await system.spawn(rt.Agent, model=model, tools=[ask])
            await agent.ask("2+2?")
            return [step.text for step in (await agent.ask(rt.GetMemory())).steps if step.kind == "tool_result"]

    assert asyncio.run(main()) == ["Four."]


@pytest.mark.parametrize("written", ["async", "def"])
def test_a_tool_that_asks_a_scripts_ref_itself_is_told_of_the_context(written: str) -> None:
    with sync.ActorSystem("team") as system:
        expert = system.spawn(rt.Agent, model="scripted:Four.")

        async def ask_expert(question: str) -> str:
            return str(expert.ask(question).content)

        def ask_from_thread(question: str) -> str:
            return str(expert.ask(question).content)

        tool = rt.tool(ask_expert if written == "async" else ask_from_thread, name="ask", description="Asks.")
        model = system.spawn(llm.Scripted, [llm.tool_calls(("ask", {"question": "2+2?"})), "No idea."])
        agent = system.spawn(rt.Agent, model=model, tools=[tool])
        agent.ask("2+2?")
        (told,) = [step.text for step in agent.ask(rt.GetMemory()).steps if step.kind == "tool_result"]
    assert (
        "by a parameter `context: rt.ToolContext`: `await context.ask(ref, message)`, in a plain def `context.ask_from_thread(ref, message)`"
        in told
    )


@pytest.mark.parametrize("seconds", [0, 0.01])
async def test_a_tool_that_uses_asyncio_is_told_how_it_can(seconds: float) -> None:
    async def nap(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "awake"

    async with agent_system([llm.tool_calls(("nap", {"seconds": seconds})), "Done."], tools=[nap]) as (_, agent):
        await agent.ask("Sleep")
        (result,) = results(await agent.ask(rt.GetMemory()))
    assert not result.ok
    assert '@rt.tool(loop="asyncio")' in result.text


async def test_what_a_tool_raises_is_in_the_log_with_the_line_that_raised_it(caplog: pytest.LogCaptureFixture) -> None:
    def find(name: str) -> str:
        return {"a": "b"}[name]

    caplog.set_level(logging.INFO, logger="retinue.tools")
    async with agent_system([llm.tool_calls(("find", {"name": "k"})), "Done."], tools=[find]) as (_, agent):
        await agent.ask("Find k")
    (record,) = (each for each in caplog.records if each.name == "retinue.tools")
    assert record.levelno == logging.WARNING
    assert "the tool 'find' raised KeyError: 'k'" in record.getMessage()
    assert 'return {"a": "b"}[name]' in record.getMessage()


async def test_a_typed_error_that_a_tool_raises_is_logged_at_info(caplog: pytest.LogCaptureFixture) -> None:
    def find(name: str) -> str:
        raise rt.BadInput(f"no {name}")

    caplog.set_level(logging.INFO, logger="retinue.tools")
    async with agent_system([llm.tool_calls(("find", {"name": "k"})), "Done."], tools=[find]) as (_, agent):
        await agent.ask("Find k")
    (record,) = (each for each in caplog.records if each.name == "retinue.tools")
    assert record.levelno == logging.INFO


async def test_of_a_hook_that_raises_the_log_says_where(caplog: pytest.LogCaptureFixture) -> None:
    @rt.hook("before_run")
    def watch(_: rt.HookContext) -> None:
        raise ValueError("a secret")

    async with agent_system(["Hello!"], hooks=[watch]) as (_, agent):
        await agent.ask("Hi")
    (record,) = (each for each in caplog.records if each.name == "retinue.hooks" and each.levelno == logging.WARNING)
    line = watch.handler.__code__.co_firstlineno + 2
    assert (
        f"it raised ValueError (test_a_newcomers_slips.py:{line}; what it says is logged at DEBUG); the run goes on" in record.getMessage()
    )
    assert "a secret" not in record.getMessage()


@pytest.mark.parametrize("given", [{"name": "str"}, [int], "City", 5], ids=["dict", "list", "text", "number"])
async def test_an_output_that_is_no_type_is_refused_by_what_it_is(given: object) -> None:
    assert f"output= is a {type(given).__name__}" in await refused(output=given)


@pytest.mark.parametrize("said", [None, 5, b"hi", [{"role": "user", "content": "hi"}]], ids=["None", "int", "bytes", "list"])
async def test_what_is_no_message_for_an_agent_is_bad_input_that_names_what_is_one(said: object) -> None:
    async with agent_system(["Hello!"]) as (_, agent):
        with pytest.raises(rt.BadInput, match=f"of type {type(said).__name__}: give a str, or rt.AgentMessage"):
            await agent.ask(said)
        with pytest.raises(rt.BadInput, match="give a str, or rt.AgentMessage"):
            async with agent.stream(said):
                pass


async def test_a_message_class_instead_of_a_message_is_told_as_with_any_actor() -> None:
    async with agent_system(["Hello!"]) as (_, agent):
        with pytest.raises(rt.Unhandled, match=r"was sent the class GetMemory itself"):
            await agent.ask(rt.GetMemory)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temperature": "hot"}, "Agent.temperature is a str: give a number or None"),
        ({"max_tokens": -1}, "Agent.max_tokens is -1"),
        ({"tool_choice": "nope"}, "Agent.tool_choice is 'nope', and no tool of the agent has that name"),
        ({"stop": 5}, "int"),
        ({"extra": {"a": object()}}, "object"),
    ],
    ids=["temperature", "max_tokens", "tool_choice", "stop", "extra"],
)
async def test_options_of_an_agent_are_looked_at_when_it_is_made_and_by_their_own_name(options: dict[str, Any], said: str) -> None:
    assert said in await refused(**options)


async def test_no_tool_takes_the_place_of_the_one_that_reads_long_results() -> None:
    def read_result(handle: str) -> str:
        return handle

    assert "two tools are named 'read_result': the agent's own" in await refused(tools=[read_result])


async def test_an_answer_that_does_not_fit_is_in_the_error() -> None:
    async with agent_system(["one", "two", "three"], output=list[int], output_mode="prompted") as (_, agent):
        with pytest.raises(rt.OutputInvalid, match="does not fit the output type after 3 attempts") as caught:
            await agent.ask("Numbers?")
    assert caught.value.answer == "three"


async def test_an_answer_that_an_output_guardrail_changes_is_in_the_error_as_it_lets_it_through() -> None:
    @attrs.frozen
    class Count:
        n: int

    async with agent_system(["a secret"] * 3, output=Count, output_mode="prompted", guardrails=[rt.output_redaction("secret")]) as (
        _,
        agent,
    ):
        with pytest.raises(rt.OutputInvalid) as caught:
            await agent.ask("Numbers?")
    assert caught.value.answer.startswith("a ")
    assert "secret" not in caught.value.answer


def test_the_watchdogs_advice_for_a_tool_is_one_for_tools() -> None:
    tool = rt.tool(lambda: "x", name="idle", description="Idles.")
    assert "plain `def`" in executor_class(tool)._instead_of_blocking


async def test_what_a_tool_gave_among_the_tools_is_told_by_the_brackets_that_are_too_many() -> None:
    def get_weather() -> str:
        return "sunny"

    assert "tools=[get_weather] and not tools=[get_weather()]" in await refused(tools=[get_weather()])


async def test_the_method_of_a_class_among_the_tools_is_told_to_be_one_of_an_object() -> None:
    class Thing:
        def go(self, where: str) -> str:
            return where

    assert "tools=[thing.method] and not tools=[Thing.method]" in await refused(tools=[Thing.go])


async def test_a_model_that_is_sent_a_text_names_the_request_that_it_should_be() -> None:
    async with rt.ActorSystem("model") as system:
        model: Any = await system.spawn(llm.Scripted, "Hello!")
        with pytest.raises(rt.Unhandled, match=r"send llm\.Complete\.of\(text\)"):
            await model.ask("hi")
        with pytest.raises(rt.Unhandled, match=r"send llm\.CompleteStream\.of\(text\)"):
            async with model.stream("hi"):
                pass
        with pytest.raises(rt.Unhandled, match="is no message; derive its class"):
            await model.ask(5)


async def test_what_was_chosen_for_a_model_is_a_member_of_a_failover() -> None:
    async with rt.ActorSystem("model") as system:
        model = await system.spawn(llm.Failover, [llm.model("scripted:Hello!")])
        assert (await model.ask(llm.Complete.of("hi"))).text == "Hello!"


async def test_a_script_that_was_not_used_up_names_the_tools_that_its_next_line_calls() -> None:
    async with rt.ActorSystem("model") as system:
        model = await system.spawn(llm.Scripted, [llm.tool_calls(("go", {})), "x" * 1_000])
        with pytest.raises(llm.ScriptUnused, match="2 lines"):
            await llm.assert_used_up(model)
        assert _in_words(llm.tool_calls(("go", {}), ("come", {}))) == "calls go, come"
        assert _in_words("x" * 1_000) == "'" + "x" * 98 + "…"
        assert _in_words(llm.Completion("Hello!")) == "'Hello!'"
        await model.ask(llm.Complete.of("a"))
        await model.ask(llm.Complete.of("b"))


async def test_a_part_of_a_parameters_type_that_no_model_can_give_is_told_with_the_whole_type() -> None:
    def send(over: list[socket.socket]) -> str:
        return str(over)

    assert "its parameter 'over' is of type list[socket.socket], in which is " in await refused(tools=[send])
