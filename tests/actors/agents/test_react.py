"""ReAct: thought, action and conclusion in JSON."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from agent_players import read, results, said_to
from retinue import llm


def add(a: int, b: int) -> int:
    """Adds.

    Args:
        a: One.
        b: Another.
    """
    return a + b


@rt.guardrail("output")
def hiding(seen: rt.Guarded) -> Any:
    """Takes keys out."""
    return rt.Replace(str(seen.text).replace("sk-1", "[key]"))


ACT = '{"thought": "a sum", "action": {"name": "add", "parameters": {"a": 1, "b": 2}}}'
END = '{"thought": "it is known", "conclusion": "three"}'


@asynccontextmanager
async def react(script: Any, **options: Any) -> Any:
    async with rt.ActorSystem("react") as system:
        model = await system.spawn(llm.Scripted, script, name="model")
        yield await system.spawn(rt.ReAct, model=model, name="agent", **{"tools": [add], **options})


async def test_a_run_thinks_acts_and_concludes() -> None:
    told: list[llm.Complete] = []
    async with react(said_to(told, ACT, END)) as agent:
        answer = await agent.ask("1 + 2?")
        assert (answer.content, answer.formatted) == ("three", {"thought": "it is known", "conclusion": "three"})
        assert [(step.tool, step.text) for step in results(await agent.ask(rt.GetMemory()))] == [("add", "3")]
    system = told[0].messages[0].content
    assert '"name": "add"' in system and '"conclusion"' in system and told[0].tools == ()
    assert told[1].messages[-1].content == "Result of add:\n3"


async def test_with_its_defaults_it_works_and_is_told_that_there_are_no_tools() -> None:
    told: list[llm.Complete] = []
    async with react(said_to(told, END), tools=()) as agent:
        assert (await agent.ask("go")).content == "three" and "There are no tools" in told[0].messages[0].content


async def test_later_turns_see_the_answers_in_the_form_in_which_they_were_written() -> None:
    told: list[llm.Complete] = []
    async with react(said_to(told, END, END)) as agent:
        await agent.ask("one")
        await agent.ask("two")
        assert [item.content for item in (await agent.ask(rt.GetMemory())).messages] == ["one", "three", "two", "three"]
    assert json.loads(told[1].messages[2].content) == {"thought": "it is known", "conclusion": "three"}


async def test_turns_that_are_used_up_end_the_run_with_a_limit_and_never_with_the_last_result_as_answer() -> None:
    for options, most in (
        ({}, 5),
        ({"max_turns": 2}, 2),
        ({"limits": rt.RunLimits(model_calls=3)}, 3),
        ({"max_turns": 2, "limits": rt.RunLimits()}, 2),
    ):
        script = [ACT.replace('"b": 2', f'"b": {number}') for number in range(9)]
        async with react(script, **options) as agent:
            with pytest.raises(rt.RunLimitReached) as caught:
                await agent.ask("go")
            assert (caught.value.limit, caught.value.usage.requests) == ("model_calls", most)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ("Let me see", "no JSON"),
        ("", "nothing where"),
        ("[1]", "array"),
        ('{"thought": "hm"}', "neither"),
        ('{"conclusion": ""}', "neither"),
        ('{"conclusion": " "}', "empty"),
        ('{"thought": 3, "conclusion": "x"}', '"thought" is to be a text'),
        ('{"action": {"name": "add"}, "conclusion": "x"}', "the one or the other"),
        ('{"action": "add"}', "is a string"),
        ('{"action": {"parameters": {}}}', "names no tool"),
        ('{"action": {"name": "add", "a": 1}}', 'stands in "parameters"'),
        ('{"action": {"name": "add", "parameters": [1]}}', "is an array"),
        ('{"action": {"name": "add", "parameters": "{"}}', "are no JSON"),
        (f"{ACT} {END}", "no JSON"),
        ('{"conclusion": NaN}', "NaN"),
    ],
    ids=range(15),
)
async def test_a_reply_that_is_neither_is_told_to_the_model_and_nothing_is_run(reply: str, told: str) -> None:
    asked: list[llm.Complete] = []
    async with react(
        said_to(
            asked,
            llm.Completion(reply, "m", finish_reason="stop") if reply else llm.Completion("", "m", finish_reason="stop", reasoning="hm"),
            END,
        )
    ) as agent:
        assert (await agent.ask("go")).content == "three"
        assert results(await agent.ask(rt.GetMemory())) == []
    assert told in asked[1].messages[-1].content


async def test_an_unknown_tool_and_bad_arguments_are_results_that_say_what_would_be_right() -> None:
    script = [
        '{"action": {"name": "ad", "parameters": {}}}',
        '{"action": {"name": "add", "parameters": {"a": "x"}}}',
        '{"action": {"name": "add", "parameters": "{\\"a\\": 2, \\"b\\": 2}"}}',
        END,
    ]
    async with react(script) as agent:
        await agent.ask("go")
        found = [(step.error, step.text) for step in results(await agent.ask(rt.GetMemory()))]
    assert [error for error, _ in found] == ["unknown", "arguments", None]
    assert "Did you mean add" in found[0][1] and found[2][1] == "4"


@pytest.mark.parametrize(("value", "content"), [(42, "42"), (["a", 1], '["a", 1]'), (False, "false")], ids=["number", "array", "false"])
async def test_a_conclusion_that_is_no_text_is_written_as_json_and_kept_as_it_is(value: Any, content: str) -> None:
    async with react([json.dumps({"conclusion": value})]) as agent:
        answer = await agent.ask("go")
        assert (answer.content, answer.formatted["conclusion"]) == (content, value)


async def test_words_around_the_object_and_a_fence_are_left_aside() -> None:
    async with react([f"I think:\n```json\n{ACT}\n```", f"Well. {END} So."]) as agent:
        assert (await agent.ask("go")).content == "three"


async def test_the_reader_of_a_stream_sees_thoughts_calls_and_the_conclusion_and_no_json() -> None:
    async with react([ACT, END]) as agent:
        events = await read(agent, "go")
    assert [each.text for each in events if isinstance(each, rt.TextDelta)] == ["three"]
    assert [each.text for each in events if isinstance(each, rt.ReasoningDelta)] == ["a sum", "it is known"]
    assert any(isinstance(each, rt.ToolFinished) and each.text == "3" for each in events) and isinstance(events[-1], rt.RunEnd)


async def test_what_a_guardrail_takes_out_is_in_the_value_neither() -> None:
    async with react(['{"thought": "of sk-1", "conclusion": "it is sk-1"}'], guardrails=[hiding]) as agent:
        answer = await agent.ask("go")
        memory = await agent.ask(rt.GetMemory())
    assert answer.content == "it is [key]" and "sk-1" not in repr(answer) and "sk-1" not in repr(memory)


async def test_a_call_that_needs_a_person_parks_the_run_and_resumes_it_there() -> None:
    async with rt.ActorSystem("react") as system:
        model = await system.spawn(llm.Scripted, [ACT, END], name="model")
        agent = await system.spawn(rt.ReAct, model=model, tools=[rt.tool(approval=True)(add)], name="agent")
        with pytest.raises(rt.ApprovalRequired) as waiting:
            await agent.ask("go")
        token = await system.approvals.approve(waiting.value.requests[0].id, reviewer="carol")
        assert (await agent.ask(rt.Resume(waiting.value.run or ""), approvals=[token])).content == "three"


@pytest.mark.parametrize(
    "options",
    [
        {"max_turns": 0},
        {"max_turns": "5"},
        {"parser": rt.ReActParser()},
        {"output": int},
        {"template": "{nothing}"},
        {"template": 3},
        {"limits": 3},
        {"tools": "add"},
    ],
    ids=["no turns", "text", "parser", "output", "place", "template", "limits", "tools"],
)
async def test_what_cannot_be_such_an_agent_is_refused_to_the_spawner(options: dict[str, Any]) -> None:
    async with rt.ActorSystem("react") as system:
        with pytest.raises(rt.DefinitionError, match="give|own form|list"):
            await system.spawn(rt.ReAct, **{"model": "scripted:x", **options})


PARSER = rt.ReActParser([add])


@settings(max_examples=60)
@given(
    st.text(alphabet='{}":,[]ab \nnthougacislpremx1', max_size=60)
    | st.recursive(
        st.none() | st.text(max_size=5) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["thought", "action", "conclusion", "name", "parameters"]), inner, max_size=4)
        ),
    ).map(json.dumps),
    st.booleans(),
)
def test_whatever_a_model_writes_is_a_call_that_may_be_run_a_conclusion_or_an_error(text: str, truncated: bool) -> None:
    parsed = PARSER.parse(text, truncated=truncated)
    if parsed.status == "error":
        assert parsed.error and not parsed.calls and parsed.said is None
    elif parsed.calls:
        (call,) = parsed.calls
        assert call.ok and call.name and isinstance(json.loads(call.arguments or ""), dict) and parsed.said is None
    else:
        assert parsed.said and parsed.said.strip() and "conclusion" in parsed.value
