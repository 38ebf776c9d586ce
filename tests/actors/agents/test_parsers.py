"""Parsers find every call of a reply, and none that failed its validation may be run."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from retinue.actors.agents.parsers import MAX_CALLS, json_object

PLUGIN = rt.PluginParser()
CODE = rt.InterpreterParser()
MIXED = rt.MixedToolParser([CODE, PLUGIN])
PYTHON = rt.ToolParser("python", begin="```python\n", end="\n```\n", tool="run", parameter="code")


def plugin(name: str, **parameters: Any) -> str:
    return f"<|action_start|><|plugin|>\n{json.dumps({'name': name, 'parameters': parameters})}<|action_end|>\n"


def test_text_without_a_call_is_a_thought() -> None:
    assert PLUGIN.parse("Just words.") == rt.Parsed("Just words.")
    assert PLUGIN.parse("").status == "no_tool"


def test_every_call_of_a_reply_is_found_and_the_text_between_and_after_is_kept() -> None:
    """Lagent A13.8: the second call and the text after the first were lost."""
    parsed = PLUGIN.parse(f"Think. {plugin('a', x=1)}then {plugin('b')}done.")
    assert (parsed.thought, parsed.rest, parsed.status) == ("Think. ", "then done.", "valid")
    assert [(call.name, call.arguments) for call in parsed.calls] == [("a", '{"x": 1}'), ("b", "{}")]
    assert parsed.calls[0].as_tool_call("7").id == "7"


def test_a_begin_mark_inside_a_block_is_part_of_it() -> None:
    code = 'print("<|action_start|><|interpreter|>\\n")'
    parsed = CODE.parse(f"<|action_start|><|interpreter|>\n{code}<|action_end|>\n")
    assert [json.loads(call.arguments or "")["code"] for call in parsed.calls] == [code]
    inside = "<|action_start|><|interpreter|>\nx"
    assert len(CODE.parse(f"{inside}\n{inside}<|action_end|>\n").calls) == 1


def test_an_end_mark_inside_a_string_of_a_checked_block_does_not_end_it() -> None:
    (call,) = PLUGIN.parse(plugin("say", text="<|action_end|>")).calls
    assert call.ok and json.loads(call.arguments or "") == {"text": "<|action_end|>"}


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)\n```\n",
        "```python\nprint(1)\n```",
        "```python\nprint(1)",  # a stop word cut the mark off
        "```python \r\nprint(1)\n```\nmore",
    ],
)
def test_marks_may_lack_the_white_space_around_them(text: str) -> None:
    (call,) = PYTHON.parse(text).calls
    assert json.loads(call.arguments or "") == {"code": "print(1)"} and call.name == "run"


def test_an_empty_block_and_another_language_are_what_they_are() -> None:
    (call,) = PYTHON.parse("```python\n```\n").calls
    assert call.arguments == '{"code": ""}'
    assert PYTHON.parse("```python3\nprint(1)\n```\n").calls == ()


def test_a_block_that_the_token_limit_cut_off_is_no_call() -> None:
    (call,) = CODE.parse("<|action_start|><|interpreter|>\nrm -rf bui", truncated=True).calls
    assert not call.ok and "cut it off" in (call.error or "")
    (call,) = CODE.parse("<|action_start|><|interpreter|>\nls<|action_end|>", truncated=True).calls
    assert call.ok


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "no JSON"),
        ("[1]", "JSON array"),
        ("", "nothing where"),
        ('{"name": "a", "name": "b"}', "twice"),
        ('{"name": "a", "parameters": NaN}', "NaN"),
        ('{"name": "a", "parameters": [1]}', "JSON object"),
        ('{"x": 1}', '"name"'),
        ("[" * 5000, "nested too deeply|no JSON"),
    ],
)
def test_a_block_that_fails_its_validation_is_an_error_with_its_reason_and_never_a_call(content: str, why: str) -> None:
    parsed = PLUGIN.parse(f"Hm. <|action_start|><|plugin|>\n{content}<|action_end|>\n")
    (call,) = parsed.calls
    assert parsed.status == "error" and not call.ok and call.name is None
    assert re.search(why, call.error or "") and parsed.error
    with pytest.raises(ValueError, match="may not be run"):
        call.as_tool_call("1")


def test_a_broken_call_of_one_kind_is_never_given_to_another_kind_of_tool() -> None:
    """Lagent A13.25: a malformed browser call was run as Python."""
    parsed = MIXED.parse(f"<|action_start|><|plugin|>\nimport os<|action_end|>\n{plugin('ok')}")
    assert [(call.tool_type, call.ok, call.name) for call in parsed.calls] == [("plugin", False, None), ("plugin", True, "ok")]
    assert parsed.status == "error"
    (call,) = rt.ToolParser("browser").parse("<tool>\nimport os</tool>\n").calls
    with pytest.raises(ValueError, match="names no tool"):
        call.as_tool_call("1")


def test_a_mixed_parser_finds_the_calls_of_all_kinds_in_the_order_of_the_text() -> None:
    parsed = MIXED.parse(f"{plugin('a')}<|action_start|><|interpreter|>\n1 + 1<|action_end|>\n{plugin('b')}")
    assert [(call.tool_type, call.name) for call in parsed.calls] == [("plugin", "a"), ("interpreter", "python.run"), ("plugin", "b")]


def test_fenced_json_is_json() -> None:
    assert json_object('```json\n{"a": 1}\n```') == {"a": 1} == json_object(' {"a": 1} ')
    (call,) = PLUGIN.parse('<|action_start|><|plugin|>\n```json\n{"name": "a"}\n```<|action_end|>\n').calls
    assert call.ok and call.arguments == "{}"


def test_what_a_validation_raises_is_the_models_to_read_and_what_it_gives_is_the_call() -> None:
    def check(text: str) -> Any:
        if "x" in text:
            raise KeyError("no x")
        return {"name": "t", "parameters": {"n": int(text)}}

    parser = rt.ToolParser("n", validate=check)
    good, bad, worse = parser.parse("<tool>\n3</tool>\n<tool>\nx</tool>\n<tool>\n?</tool>\n").calls
    assert good.arguments == '{"n": 3}' and not bad.ok and "no x" in (bad.error or "") and not worse.ok


def test_more_calls_than_are_looked_at_are_an_error_so_that_none_is_run_by_half() -> None:
    parsed = PLUGIN.parse(plugin("a") * (MAX_CALLS + 5))
    assert parsed.status == "error" and f"more than {MAX_CALLS}" in (parsed.error or "")


def test_formatted_is_lagents_dict_with_all_calls() -> None:
    formatted = PLUGIN.parse(f"Hm. {plugin('a', x=1)}{plugin('b')}").formatted
    assert {key: formatted[key] for key in ("tool_type", "thought", "action", "status")} == {
        "tool_type": "plugin",
        "thought": "Hm. ",
        "action": {"name": "a", "parameters": {"x": 1}},
        "status": 1,
    }
    assert [call["name"] for call in formatted["calls"]] == ["a", "b"]
    assert PLUGIN.parse("<|action_start|><|plugin|>\n{").formatted["status"] == -1
    assert PLUGIN.parse("text").formatted is None and rt.StrParser().parse("text").formatted == "text"


WORDS = st.text(alphabet="abc \n{}\"'", max_size=12)


@settings(max_examples=12)
@given(
    WORDS,
    st.lists(st.dictionaries(st.text(max_size=4), st.one_of(st.text(max_size=8), st.integers(), st.none()), max_size=3), max_size=4),
    WORDS,
)
def test_what_is_rendered_is_parsed_as_what_it_was(thought: str, arguments: list[dict[str, Any]], rest: str) -> None:
    text = thought + "".join(plugin("t").replace("{}", json.dumps(each), 1) for each in arguments) + rest
    parsed = PLUGIN.parse(text)
    if arguments:
        assert [json.loads(call.arguments or "") for call in parsed.calls] == arguments
        assert (parsed.thought, parsed.rest) == (thought, rest)
    again = PLUGIN.parse(PLUGIN.render(parsed))
    assert [call.arguments for call in again.calls] == [call.arguments for call in parsed.calls]


@settings(max_examples=12)
@given(st.text(max_size=60), st.booleans())
def test_whatever_a_model_writes_is_taken_apart_and_nothing_is_lost_where_there_is_no_call(text: str, truncated: bool) -> None:
    for parser in (PLUGIN, CODE, MIXED, PYTHON, rt.StrParser()):
        parsed = parser.parse(text, truncated=truncated)
        if not parsed.calls:
            assert parsed.thought == text


def test_instructions_have_their_places_filled_and_json_in_them_left_alone() -> None:
    parser = rt.PluginParser('Tools: {tools}. Write {begin}{"name": "…", "parameters": {}}{end} or {{x}}', tools="a, b")
    assert parser.instruction() == 'Tools: a, b. Write <|action_start|><|plugin|>\n{"name": "…", "parameters": {}}<|action_end|>\n or {x}'
    assert rt.StrParser("Be {how}.", how="brief").instruction() == "Be brief."
    assert rt.StrParser().instruction() is None
    mixed = rt.MixedToolParser([rt.InterpreterParser("Code."), rt.PluginParser("Calls.")], "First.")
    assert mixed.instruction() == "First.\n\nCode.\n\nCalls." and mixed.parts()[1] == ("interpreter", "Code.")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: rt.StrParser("Be {how}."), "how"),
        (lambda: rt.ToolParser("t", "{missing}"), "missing"),
        (lambda: rt.ToolParser("t", begin=" \n"), "begin="),
        (lambda: rt.MixedToolParser([]), "at least one"),
        (lambda: rt.MixedToolParser([rt.PluginParser(), rt.PluginParser()]), "of its own"),
        (lambda: rt.JSONParser(), "by name"),
    ],
)
def test_a_parser_that_cannot_work_is_refused_where_it_is_made(make: Any, why: str) -> None:
    with pytest.raises(rt.DefinitionError, match=why):
        make()
