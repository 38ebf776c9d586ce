"""Answers of a type, and tool calls that stand in texts."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

import retinue as rt
from agent_players import agent_system, read, results, said_to
from retinue import llm


@attrs.frozen
class City:
    name: str
    people: int


PARIS = {"name": "Paris", "people": 2_000_000}


def answer(value: Any = PARIS) -> llm.Completion:
    return llm.tool_calls(("final_result", value))


async def test_an_answer_of_a_type_is_given_by_a_tool_call_and_found_in_formatted() -> None:
    told: list[llm.Complete] = []
    async with agent_system(said_to(told, answer(), "more"), output=City) as (_, agent):
        reply = await agent.ask("Which?")
        assert reply.formatted == City("Paris", 2_000_000) and json.loads(reply.content) == PARIS
        assert [spec.name for spec in told[0].tools] == ["final_result"]
        memory = await agent.ask(rt.GetMemory())
    assert [step.kind for step in memory.steps] == ["tool_calls", "tool_result"] and memory.messages[-1].formatted == reply.formatted


async def test_an_answer_that_does_not_fit_is_corrected_and_the_model_is_told_what_is_wrong() -> None:
    told: list[llm.Complete] = []
    async with agent_system(said_to(told, answer({"name": "Paris", "people": "many"}), answer()), output=City) as (_, agent):
        events = await read(agent, "Which?")
    assert events[-1].message.formatted == City("Paris", 2_000_000)
    assert "people" in told[1].messages[-1].content and told[1].messages[-1].role == "tool"
    assert [event.kind for event in events if isinstance(event, rt.Notice)] == ["correction"]


async def test_words_instead_of_a_call_are_taken_where_they_fit_and_corrected_where_they_do_not() -> None:
    told: list[llm.Complete] = []
    async with agent_system(said_to(told, "It is Paris.", json.dumps(PARIS)), output=City) as (_, agent):
        assert (await agent.ask("Which?")).formatted == City("Paris", 2_000_000)
        memory = await agent.ask(rt.GetMemory())
    assert [each.role for each in told[1].messages] == ["user", "assistant", "user"] and "final_result" in told[1].messages[-1].content
    assert [step.kind for step in memory.steps] == ["attempt", "correction"]


async def test_corrections_are_bounded_and_nothing_is_remembered_then() -> None:
    async with agent_system([answer({})] * 3 + ["hi"], output=City) as (_, agent):
        with pytest.raises(rt.OutputInvalid) as caught:
            await agent.ask("Which?")
        assert caught.value.attempts == 3 and "people" in caught.value.problem
        assert (await agent.ask(rt.GetMemory())).items == ()


async def test_a_refusal_is_an_error_of_its_own() -> None:
    async with agent_system([llm.Completion("", "m", refusal="I will not.")], output=City) as (_, agent):
        with pytest.raises(rt.OutputRefused) as caught:
            await agent.ask("Which?")
        assert caught.value.refusal == "I will not."


async def test_tools_come_before_the_answer_and_calls_beside_it_are_not_carried_out() -> None:
    ran: list[str] = []

    async def count(city: str) -> str:
        """Counts.

        Args:
            city: Which.
        """
        ran.append(city)
        return "2000000"

    script = [llm.tool_calls(("count", {"city": "Paris"})), llm.tool_calls(("final_result", PARIS), ("count", {"city": "Rome"}))]
    async with agent_system(script, tools=[count], output=City) as (_, agent):
        assert (await agent.ask("Which?")).formatted == City("Paris", 2_000_000)
        steps = results(await agent.ask(rt.GetMemory()))
    assert ran == ["Paris"] and [(step.tool, step.ok) for step in steps] == [("count", True), ("final_result", True), ("count", False)]


@pytest.mark.parametrize(("mode", "told_by"), [("native", "output"), ("prompted", "messages")])
async def test_other_modes_tell_the_model_in_other_ways(mode: str, told_by: str) -> None:
    told: list[llm.Complete] = []
    async with agent_system(said_to(told, json.dumps(PARIS)), output=City, output_mode=mode) as (_, agent):
        assert (await agent.ask("Which?")).formatted == City("Paris", 2_000_000)
    assert told[0].tools == () and "people" in str(getattr(told[0], told_by))


async def test_an_answer_that_was_cut_off_is_not_decoded() -> None:
    cut = llm.Completion('{"name": "Paris", "people": 2', "m", finish_reason="length")
    async with agent_system([cut, json.dumps(PARIS)], output=City, output_mode="native") as (_, agent):
        assert (await agent.ask("Which?")).formatted == City("Paris", 2_000_000)


async def test_text_that_the_token_limit_cut_off_is_marked_partial() -> None:
    async with agent_system([llm.Completion("Once upon", "m", finish_reason="length")]) as (_, agent):
        assert (await agent.ask("Tell")).partial


# -- calls in texts --------------------------------------------------------------------------------------------------------------------------------------


async def add(left: int, right: int) -> int:
    """Adds.

    Args:
        left: One.
        right: Another.
    """
    return left + right


async def interpreter(command: str) -> str:
    """Runs code.

    Args:
        command: The code.
    """
    return f"ran {command.strip()}"


def plugin(name: str, **arguments: Any) -> str:
    return f"<|action_start|><|plugin|>\n{json.dumps({'name': name, 'parameters': arguments})}<|action_end|>\n"


async def test_every_call_of_a_text_is_carried_out_and_no_tools_are_sent_to_the_endpoint() -> None:
    told: list[llm.Complete] = []
    script = said_to(told, f"Let me see.\n{plugin('add', left=1, right=2)}{plugin('add', left=3, right=4)}", "3 and 7.")
    async with agent_system(script, tools=[add], parser=rt.PluginParser()) as (_, agent):
        assert (await agent.ask("go")).content == "3 and 7."
        assert [step.text for step in results(await agent.ask(rt.GetMemory()))] == ["3", "7"]
    assert all(request.tools == () for request in told)
    assert told[1].messages[-1].role == "user" and "3" in told[1].messages[-1].content


async def test_a_block_that_cannot_be_read_is_never_run_by_another_tool() -> None:
    script = ["<|action_start|><|plugin|>\n{broken<|action_end|>\n", "sorry"]
    async with agent_system(script, tools=[interpreter, add], parser=rt.PluginParser()) as (_, agent):
        assert (await agent.ask("go")).content == "sorry"
        [step] = results(await agent.ask(rt.GetMemory()))
    assert (step.ok, step.error) == (False, "parsing") and "ran" not in step.text


async def test_a_text_protocol_streams_the_words_and_not_the_marks() -> None:
    script = [f"Let me see.\n{plugin('add', left=1, right=2)}", "It is 3."]
    async with agent_system(script, tools=[add], parser=rt.PluginParser()) as (_, agent):
        events = await read(agent, "go")
    said = "".join(event.text for event in events if isinstance(event, rt.TextDelta))
    assert "Let me see." in said and "It is 3." in said and "action_start" not in said
