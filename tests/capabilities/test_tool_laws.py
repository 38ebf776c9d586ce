"""Laws about any tool: what a model writes by the schema arrives as the function's types, and no mending makes anything up."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from retinue.capabilities.json_reading import BrokenJson, read
from retinue.capabilities.repair import repair
from retinue.capabilities.tools import tool_of
from tool_types import Case, signatures


@settings(max_examples=6, deadline=None)
@given(signatures())
def test_whatever_a_function_takes_arrives_as_it_was_meant(example: tuple[Any, list[tuple[str, Case, bool]]]) -> None:
    arrives_as_it_was_meant(example)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(signatures())
def test_whatever_a_function_takes_arrives_as_it_was_meant_often(example: tuple[Any, list[tuple[str, Case, bool]]]) -> None:
    arrives_as_it_was_meant(example)


def arrives_as_it_was_meant(example: tuple[Any, list[tuple[str, Case, bool]]]) -> None:
    function, taken = example
    (tool,) = tool_of(function)
    text = json.dumps({name: case.written for name, case, left_out in taken if not left_out})
    message = tool.decode(text)
    assert tool.invoke(message) == {name: case.value for name, case, _ in taken}
    for name, case, _ in taken:
        assert type(getattr(message, name)) is type(case.value)
    assert tool.decode(json.loads(text)) == message


@settings(max_examples=6, deadline=None)
@given(signatures())
def test_the_schema_says_of_each_parameter_whether_it_is_required_and_nothing_else_may_be_given(example: tuple[Any, list[Any]]) -> None:
    function, taken = example
    (tool,) = tool_of(function)
    schema = json.loads(tool.parameters)
    assert list(schema["properties"]) == [name for name, _, _ in taken]
    assert schema["additionalProperties"] is False
    for name in schema["required"]:
        given_all_but_one = {other: case.written for other, case, _ in taken if other != name}
        with pytest.raises(rt.BadArguments) as caught:
            tool.decode(given_all_but_one)
        assert name in [problem.where for problem in caught.value.problems]


@settings(max_examples=30, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=6),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=4), inner),
        max_leaves=8,
    ),
    st.sampled_from([None, 1]),
)
def test_mending_leaves_json_as_it_is(value: object, indent: int | None) -> None:
    for ascii_only in (True, False):
        text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
        if "\ufeff" not in text and "```" not in text:
            assert repair(text) == text


def values_in(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, one in value.items() for text in (key, *values_in(one))]
    if isinstance(value, list):
        return [text for one in value for text in values_in(one)]
    return (
        [value]
        if isinstance(value, str)
        else []
        if value is None or isinstance(value, bool)
        else [str(value)]
        if isinstance(value, int)
        else []
    )


PIECES = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        "'",
        "a",
        "b",
        "1",
        "-2",
        " ",
        "\n",
        "\\",
        "\\'",
        '\\"',
        "None",
        "True",
        "null",
        "```json\n",
        "\n```",
        '{"a": ',
        "'x'",
        '"y"',
    ]
)


@settings(max_examples=80, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_what_was_mended_is_json_and_holds_no_value_that_was_not_in_the_text(text: str) -> None:
    mended = repair(text)
    if mended is None:
        return
    try:
        value = read(mended)
    except BrokenJson as error:
        syntax = error.syntax
        value = None
    else:
        syntax = False
    assert not syntax, mended  # a key twice is none
    said = re.sub(r"\\(.)", lambda match: {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}.get(match[1], match[1]), text)
    for one in values_in(value):
        assert one in text or one in said
    assert mended.count("{") == text.count("{") and mended.count("[") == text.count("[")  # nothing was closed that was open


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers() | st.text("xyz ", max_size=5) | st.booleans(), min_size=1),
    st.data(),
)
def test_a_text_that_was_cut_off_is_never_read_as_something(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    assert repair(cut) is None
