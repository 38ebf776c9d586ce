"""Scripted answers: in order, or made from the request, and an error when the script is over."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.actors.llm.completion import Completion, ToolCall
from retinue.actors.llm.errors import RateLimited, ScriptEnded
from retinue.actors.llm.events import ReasoningDelta, TextDelta, fold
from retinue.actors.llm.messages import Complete
from retinue.actors.llm.scripted import Script, pieces_of, tool_calls

HELLO = Complete.of("hello")


def test_lines_are_said_in_order_and_then_the_script_is_over():
    script = Script(["one", lambda request: request.messages[0].content.upper(), "three"])
    assert [script.answer(HELLO).text for _ in range(3)] == ["one", "HELLO", "three"]
    for _ in range(2):
        with pytest.raises(ScriptEnded, match="3 lines"):
            script.answer(HELLO)


@pytest.mark.parametrize("script", ["always", lambda _request: "always"])
def test_a_text_or_a_function_answers_every_request(script):
    made = Script(script)
    assert [made.answer(HELLO).text for _ in range(3)] == ["always"] * 3


def test_an_answer_says_that_it_is_scripted_and_counts_no_tokens():
    assert Script("x").answer(HELLO) == Completion("x", "scripted", finish_reason="stop")


def test_an_error_in_the_script_is_raised_in_its_turn():
    error = RateLimited("slow down", retry_after=1.0)
    script = Script(["one", error, "three"])
    assert script.answer(HELLO).text == "one"
    with pytest.raises(RateLimited, match="slow down"):
        script.answer(HELLO)
    assert script.answer(HELLO).text == "three"


def test_changing_the_list_later_does_not_change_the_script():
    lines = ["one"]
    script = Script(lines)
    lines[0] = "two"
    assert script.answer(HELLO).text == "one"


@pytest.mark.parametrize("lines", [None, 5, [5], ["x", None], [ValueError("no error of a model's")], b"bytes"])
def test_what_is_no_script_is_refused_when_it_is_given(lines):
    with pytest.raises(TypeError, match="script"):
        Script(lines)


def test_a_function_that_returns_no_text_is_told_so():
    with pytest.raises(TypeError, match="NoneType"):
        Script(lambda _request: None).answer(HELLO)


def test_a_line_may_call_tools():
    said = Script([tool_calls(("weather", {"city": "Zürich"}), ("now", "{broken"), text="Let me see.")]).answer(HELLO)
    assert [(call.id, call.name, call.arguments) for call in said.tool_calls] == [
        ("call-1", "weather", '{"city": "Zürich"}'),
        ("call-2", "now", "{broken"),
    ]
    assert (said.text, said.finish_reason, said.model) == ("Let me see.", "tool_calls", "scripted")


def test_the_calls_of_a_script_have_ids_that_no_other_call_of_it_has():
    line = tool_calls(("a", {}), ("b", {}))
    script = Script([line, line, lambda _request: line, "text", line])
    ids = [call.id for _ in range(5) for call in script.answer(HELLO).tool_calls]
    assert ids == [f"call-{number}" for number in range(1, 9)]


def test_ids_that_are_not_those_of_tool_calls_stay_as_they_are():
    line = Completion(tool_calls=(ToolCall("mine", "a"),))
    assert [call.id for call in Script(line).answer(HELLO).tool_calls] == ["mine"]


@pytest.mark.parametrize(
    "call", ["weather", ("weather",), (5, {}), ("weather", [1]), ("weather", {"city": object()}), ("weather", {"n": {1, 2}})]
)
def test_what_is_no_call_is_told_where_the_line_is_made(call):
    with pytest.raises(TypeError, match=r"call 2"):
        tool_calls(("ok", {}), call)


def test_a_line_of_no_calls_is_refused():
    with pytest.raises(ValueError, match="no call"):
        tool_calls()


def test_a_script_counts_what_it_did_not_say():
    script = Script(["one", "two"])
    assert script.unused == 2
    script.answer(HELLO)
    assert (script.unused, script.rest) == (1, ("two",))
    assert Script("always").unused == 0


@settings(max_examples=30)
@given(st.text(max_size=200), st.text(max_size=5), st.integers(0, 3))
def test_the_pieces_of_an_answer_fold_to_it(text, reasoning, calls):
    said = Completion(text, "m", reasoning=reasoning, tool_calls=tuple(ToolCall(f"c{n}", "t") for n in range(calls)))
    events = list(pieces_of(said))
    assert fold(events) == said
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text
    assert all(event.text for event in events if isinstance(event, TextDelta | ReasoningDelta))
    assert sum(isinstance(event, TextDelta) for event in events) <= 4
