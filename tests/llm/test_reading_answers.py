"""Each answer that other clients fell over is read right: as the completion that it is, or as a typed error that says what came."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.actors.llm.errors import BadReply, ModelError
from retinue.actors.llm.events import Completed, ReasoningDelta, TextDelta, ToolCallDelta, fold
from retinue.actors.llm.profiles.catalogue import PROFILES
from retinue.actors.llm.profiles.generic import GENERIC
from retinue.actors.llm.reading import LONGEST_BODY, AnswerReader
from torture_cases import CASES


def reader(case):
    return AnswerReader(PROFILES[case.profile], model="asked", where="model 'm' at here", content_type=case.content_type)


def read(case, cuts=()):
    """The events of an answer whose bytes come in pieces that are cut at `cuts`; what goes wrong comes last."""
    found = reader(case)
    events = []
    ends = [*sorted(cuts), len(case.sent)]
    try:
        for start, end in zip([0, *ends], ends, strict=False):
            events += found.feed(case.sent[start:end])
        events += found.close()
    except ModelError as error:
        events.append(error)
    return events


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_answer_is_read_as_what_it_is(case):
    *_, last = events = read(case)
    if case.error is not None:
        assert type(last) is case.error, last
        assert case.said in str(last)
        assert str(last).isprintable() and "here" in str(last)
        assert case.status is None or last.status == case.status
        return
    assert isinstance(last, Completed), last
    completion = fold(events)
    if case.text is not None:
        assert completion.text == case.text
    if case.reasoning is not None:
        assert completion.reasoning == case.reasoning
    assert completion.refusal == case.refusal
    assert [(call.name, json.loads(call.arguments)) for call in completion.tool_calls] == (case.calls or [])
    ids = [call.id for call in completion.tool_calls]
    assert all(ids) and len(set(ids)) == len(ids)
    assert not any(call.truncated for call in completion.tool_calls)
    if case.ids is not None:
        assert ids == case.ids
    if case.finish is not None:
        assert completion.finish_reason == case.finish
    if case.usage is not None:
        assert (completion.prompt_tokens, completion.completion_tokens) == case.usage
    str(completion).encode()  # no lone surrogate anywhere


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_byte_by_byte_it_is_the_same(case):
    same(case, range(1, len(case.sent)))


@settings(max_examples=25)
@given(st.data())
def test_however_it_is_cut_it_is_the_same(data):
    case = data.draw(st.sampled_from(CASES))
    same(case, data.draw(st.sets(st.integers(0, len(case.sent)), max_size=12)))


def same(case, cuts):
    expected, found = read(case), read(case, cuts)
    if case.error is not None:  # events that come in one piece with the error are not passed on any more: nobody has seen them
        assert (type(found[-1]), str(found[-1])) == (type(expected[-1]), str(expected[-1]))
        return
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
        if isinstance(left, ToolCallDelta):
            assert (left.index, left.name, left.arguments) == (right.index, right.name, right.arguments)
        elif isinstance(left, Completed):
            assert plain_of(left.completion) == plain_of(right.completion)
        else:
            assert left == right


def plain_of(completion):
    return (completion.text, completion.reasoning, completion.usage, [(call.name, call.arguments) for call in completion.tool_calls])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_pieces_are_the_whole(case):
    *events, last = read(case)
    if not isinstance(last, Completed):
        return
    completion = last.completion
    said = "".join(event.text for event in events if isinstance(event, TextDelta))
    thought = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    if case.name == "only the closing tag":  # what was passed on as text turned out to be reasoning
        assert said.endswith(completion.text)
        return
    assert said == completion.text
    assert thought in (completion.reasoning, completion.text)  # the latter where the answer came in the place of the reasoning
    for event in events:
        if isinstance(event, ToolCallDelta):
            assert event.id == completion.tool_calls[event.index].id
        else:
            assert event.text


def test_a_plain_answer_has_an_end_of_its_own_and_a_bound():
    found = AnswerReader(GENERIC, model="m", where="here")
    assert found.feed(b'  {"choices": [{"message": {"content": "' + b"x" * 1000) == []
    assert not found.ended
    with pytest.raises(BadReply, match="16,777,216 bytes"):
        found.feed(b"x" * LONGEST_BODY)


def test_the_end_is_known_before_the_bytes_are_over():
    case = CASES[0]
    found = reader(case)
    head, tail = case.sent.split(b"data: [DONE]")
    found.feed(head)
    assert found.ended and not found.done
    found.feed(b"data: [DONE]" + tail)
    assert found.done


def test_what_was_said_before_it_broke_off_is_known():
    found = AnswerReader(GENERIC, model="m", where="here")
    found.feed(
        b'data: {"choices": [{"delta": {"content": "Hel", "tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{\\"a"}}]}}]}\n\n'
    )
    said = found.partial()
    assert (said.text, said.tool_calls[0].name, said.tool_calls[0].truncated) == ("Hel", "f", True)
    with pytest.raises(ModelError) as caught:
        found.close()
    assert caught.value.partial.text == "Hel"
