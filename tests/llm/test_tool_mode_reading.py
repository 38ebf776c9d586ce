"""Laws of reading the tool mode's replies, and what a model writes that nobody holds to the form."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue import llm
from retinue.actors.llm.tool_mode_reading import ReplyReader

ODD = st.text(st.sampled_from('ab "\\{}[],:`\n\t/uuéß😀\ud83d\ude00'), max_size=20)
TEXTS = st.text(max_size=20) | ODD
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)
STYLES = st.builds(dict, ensure_ascii=st.booleans(), indent=st.sampled_from([None, 2]))


def read(pieces, **options):
    reader = ReplyReader(salt="s", **options)
    events = [event for piece in pieces for event in reader.feed(piece)]
    events += reader.finish()
    assert "".join(event.text for event in events if isinstance(event, llm.TextDelta)) == reader.text()
    for number, call in enumerate(reader.calls()):
        told = [event for event in events if isinstance(event, llm.ToolCallDelta) and event.index == number]
        assert {(event.id, event.name) for event in told} == {(call.id, call.name)}
        growing = "".join(event.arguments for event in told).strip()
        assert growing == call.arguments or "\\u" in growing  # half a character that is written so is mended in the whole
    return reader


def cut(text, places):
    places = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(places)]


PLACES = st.lists(st.integers(0, 10_000), max_size=12)


def whole(value):
    """Without lone halves of characters."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [whole(each) for each in value]
    return {whole(key): whole(each) for key, each in value.items()} if isinstance(value, dict) else value


@settings(max_examples=60)
@given(TEXTS, STYLES, PLACES)
def test_an_answer_is_its_text_wherever_its_pieces_are_cut(text, style, places):
    reader = read(cut(json.dumps({"answer": text}, **style), places))
    assert reader.text() == whole(text)
    assert reader.calls() == ()


@settings(max_examples=60)
@given(st.sampled_from(["add", "the other", 'a "b"']), st.dictionaries(TEXTS, VALUES, max_size=3), STYLES, PLACES)
def test_a_call_is_its_name_and_arguments_wherever_its_pieces_are_cut(name, arguments, style, places):
    reader = read(cut(json.dumps({"tool": name, "arguments": arguments}, **style), places))
    (call,) = reader.calls()
    assert (call.name, call.truncated, reader.text()) == (name, False, "")
    assert whole(json.loads(call.arguments)) == whole(arguments)


@settings(max_examples=60)
@given(VALUES, STYLES, PLACES)
def test_an_answer_in_json_is_the_json(value, style, places):
    reader = read(cut(json.dumps({"answer": value}, **style), places), is_json=True)
    assert whole(json.loads(reader.text())) == whole(value)


@settings(max_examples=60)
@given(st.text(st.sampled_from('{}[]":,`\\ \n`tolanswerg1'), max_size=40) | TEXTS, PLACES, st.booleans())
def test_whatever_a_model_writes_is_read_to_its_end_and_no_pieces_change_what_it_is(text, places, is_json):
    once, cut_up = read([text], is_json=is_json), read(cut(text, places), is_json=is_json)
    assert cut_up.fed == text
    assert cut_up.calls() == once.calls()
    assert cut_up.text() == once.text()


@settings(max_examples=60)
@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=3), STYLES, st.integers(1, 1000))
def test_a_call_that_is_cut_off_anywhere_is_never_whole_before_its_arguments_are(arguments, style, place):
    text = json.dumps({"tool": "pay", "arguments": arguments}, **style)
    length = 1 + place % len(text)
    for call in read([text[:length]]).calls():
        if not call.truncated:
            assert length >= len(text.rstrip().removesuffix("}").rstrip())
            assert whole(json.loads(call.arguments)) == whole(arguments)


@pytest.mark.parametrize(
    ("written", "calls", "said"),
    [
        ("It is 7.", [], "It is 7."),
        ("  It is\n7. ", [], "  It is\n7. "),
        ("{a} is a set", [], "{a} is a set"),
        ("[1] says so", [], "[1] says so"),
        ('{"a": 7}', [], '{"a": 7}'),
        ("```python\nprint(7)\n```", [], "```python\nprint(7)\n```"),
        ('```json\n{"answer": "7"}\n```', [], "7"),
        ('```json\n{"tool": "now", "arguments": {}}\n```', [("now", "{}")], ""),
        ('{"arguments": {"a": 3}, "tool": "add"}', [("add", '{"a": 3}')], ""),
        ('{"tool": "now"}', [("now", "{}")], ""),
        ('{"tool": "add", "args": {"a": 3}}', [("add", '{"args": {"a": 3}}')], ""),
        ('{"tool": "add", "arguments": "7"}', [("add", '"7"')], ""),
        ('{"tool": "a", "arguments": {}}\n{"tool": "b", "arguments": {}}', [("a", "{}"), ("b", "{}")], ""),
        ('[{"tool": "a", "arguments": {}}, {"tool": "b", "arguments": {}}]', [("a", "{}"), ("b", "{}")], ""),
        ('{"tool": "a", "arguments": {}} That will tell.', [("a", "{}")], "That will tell."),
        ('{"answer": "7"}\n{"tool": "a", "arguments": {}}', [("a", "{}")], "7"),
        ('{"answer": 7}', [], "7"),
        ('{"answer": {"b": 1}}', [], '{"b": 1}'),
        ('{"answer": "a\\q\\u12zz\n"}', [], "aqu12zz\n"),
    ],
)
def test_what_is_written_without_the_form_is_read_as_far_as_it_can_be(written, calls, said):
    for pieces in ([written], list(written)):
        reader = read(pieces)
        assert [(call.name, call.arguments) for call in reader.calls()] == calls
        assert not any(call.truncated for call in reader.calls())
        assert reader.text() == said


def test_an_answer_without_an_end_costs_no_more_than_its_length():
    reader = ReplyReader()
    for _ in range(200_000):
        reader.feed("[")
    assert reader.finish() == [llm.TextDelta("[" * 200_000)]


def test_more_calls_than_anyone_needs_are_a_bad_reply():
    reader = ReplyReader()
    reader.feed('{"tool": "now", "arguments": {}}' * 300)
    with pytest.raises(llm.BadReply, match="in circles"):
        reader.finish()


def test_of_objects_without_end_the_first_are_read_and_the_rest_are_words():
    reader = ReplyReader()
    reader.feed('{"answer":"1"}' * 200_000)
    assert len(reader.finish()) < 2_000
    assert reader.text().startswith("1\n1\n1") and reader.text().endswith('{"answer":"1"}')
