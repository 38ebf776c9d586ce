"""Scripted answers: in order, or made from the request, and an error when the script is over."""

from __future__ import annotations

import pytest

from retinue.actors.llm.errors import RateLimited, ScriptEnded
from retinue.actors.llm.messages import Complete, Completion
from retinue.actors.llm.scripted import Script

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
