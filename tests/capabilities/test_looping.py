"""The loop detector: the same call with the same output, again and again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from retinue.capabilities.looping import MOST_CALLS, LoopDetector


def play(detector: LoopDetector, calls: list[tuple[str, str, str]]) -> list[str]:
    """What becomes of each call: its verdict before, and after where it was run."""
    found = []
    for tool, arguments, output in calls:
        verdict = detector.about_to(tool, arguments)
        if verdict.action == "go":
            verdict = detector.done(tool, arguments, output)
        found.append(verdict.action)
    return found


def test_the_same_call_with_the_same_output_is_told_and_then_stopped() -> None:
    assert play(LoopDetector(), [("search", '{"q": "x"}', "nothing")] * 6) == ["go", "go", "go", "tell", "tell", "stop"]


def test_the_text_says_what_to_do_and_none_of_the_arguments() -> None:
    detector = LoopDetector(repeats=2)
    play(detector, [("search", '{"q": "my secret"}', "nothing")] * 2)
    text = detector.about_to("search", '{"q":"my secret"}').text
    assert "'search' was called 2 times with these very arguments" in text and "answer with what is known" in text
    assert "secret" not in text


def test_arguments_are_the_same_as_values_and_not_as_texts() -> None:
    ways = ['{"a": 1, "b": [2]}', '{"b":[2],"a":1}', '{ "a":1 ,"b":[ 2 ] }', '{"\\u0061": 1, "b": [2]}']
    assert play(LoopDetector(), [("t", way, "same") for way in ways]) == ["go", "go", "go", "tell"]
    assert (
        play(LoopDetector(outputs=99), [("t", json.dumps({"a": value}), "same") for value in (1, 1.5, "1", True, None, [1], 2)])
        == ["go"] * 7
    )


def test_polling_is_no_loop() -> None:
    assert play(LoopDetector(), [("status", "{}", f"{percent} %") for percent in range(50)]) == ["go"] * 50


def test_a_call_that_gives_something_new_begins_anew() -> None:
    same, other = ("t", "{}", "a"), ("t", "{}", "b")
    assert play(LoopDetector(), [same, same, other, same, same, same, same]) == ["go"] * 6 + ["tell"]


def test_calls_in_between_do_not_hide_a_loop() -> None:
    a, b = ("t", '{"x": 1}', "one"), ("u", '{"x": 1}', "two")
    assert play(LoopDetector(), [a, b, a, b, a, b, a, b]) == ["go"] * 6 + ["tell", "tell"]


def test_the_same_output_whatever_the_arguments_is_told() -> None:
    calls = [("fetch", json.dumps({"page": page}), "404") for page in range(13)]
    assert play(LoopDetector(outputs=4), calls) == ["go", "go", "go", "tell"] * 3 + ["go"]
    verdict = LoopDetector(outputs=2)
    verdict.done("fetch", "{}", "404")
    assert "gave the same output 2 times in a row" in verdict.done("fetch", '{"page": 2}', "404").text


def test_arguments_that_are_no_json_are_taken_as_they_are() -> None:
    broken = "[" * 100_000
    assert play(LoopDetector(), [("t", text, "error") for text in ("{", "{", "{", "{")]) == ["go", "go", "go", "tell"]
    assert play(LoopDetector(), [("t", text, f"{n}") for n, text in enumerate(("{", broken, '{"a": \ud800}', ""))]) == ["go"] * 4


def test_what_is_remembered_is_bounded() -> None:
    detector = LoopDetector(outputs=10**9)
    for number in range(3 * MOST_CALLS):
        play(detector, [("t", json.dumps({"n": number}), "x")])
        play(detector, [(f"tool {number}", "{}", "x")])
    assert len(detector._calls) <= MOST_CALLS and len(detector._first) <= MOST_CALLS


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["{}", '{"x": 1}']), st.sampled_from("yz")), max_size=40), st.integers(2, 4)
)
def test_only_what_was_repeated_so_often_is_refused(calls: list[tuple[str, str, str]], repeats: int) -> None:
    detector = LoopDetector(repeats=repeats, grace=10**6)
    outputs: dict[tuple[str, str], list[str]] = {}
    for tool, arguments, output in calls:
        made = outputs.setdefault((tool, arguments), [])
        looped = len(made) >= repeats and len(set(made[-repeats:])) == 1
        assert detector.about_to(tool, arguments).action == ("tell" if looped else "go")
        if not looped:
            detector.done(tool, arguments, output)
            made.append(output)


def test_numbers_that_make_no_sense_are_refused() -> None:
    for options in ({"repeats": 1}, {"outputs": 0}, {"grace": -1}, {"repeats": True}, {"grace": 1.5}):
        with pytest.raises(rt.DefinitionError, match=f"LoopDetector\\({next(iter(options))}="):
            LoopDetector(**options)  # type: ignore[arg-type]
