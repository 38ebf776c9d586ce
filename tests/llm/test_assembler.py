"""A plain answer is the fold of the stream, and a call that was cut off says so."""

from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.actors.llm import assembler
from retinue.actors.llm.assembler import Assembler
from retinue.actors.llm.calls import MOST_CALLS, CallPieces
from retinue.actors.llm.errors import BadReply, EmptyReply, StreamTruncated
from retinue.actors.llm.events import Completed, TextDelta, fold
from retinue.actors.llm.messages import ToolCall
from retinue.actors.llm.profiles.catalogue import PROFILES
from retinue.actors.llm.profiles.generic import GENERIC
from retinue.actors.llm.profiles.openai import OPENAI
from retinue.actors.llm.usage import Usage

TEXTS = st.text(max_size=30) | st.sampled_from(["Hello", "a <b> c", "\U0001f600", "x\ud83dy"])
ARGUMENTS = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=6) | st.none(), max_size=3).map(json.dumps)
CALLS = st.lists(st.tuples(st.sampled_from(["add", "sub"]), ARGUMENTS), max_size=3)


def made(**more):
    return Assembler(more.pop("profile", OPENAI), model="asked", where="here", salt="s", **more)


def chunk(delta=None, finish=None, **more):
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}


def pieces_of(text, data):
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=4)))
    ends = [*cuts, len(text)]
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def deltas_of_call(index, name, arguments, style, data):
    """The pieces of a call in one of the ways that providers have."""
    call_id = {} if "no id" in style else {"id": f"c{index}"}
    place = {} if "no index" in style else {"index": index}
    so_far = ""
    pieces = pieces_of(arguments, data)
    yield {**place, **call_id, "function": {"name": name, "arguments": ""}}
    for piece in pieces:
        so_far += piece
        function = {"arguments": so_far if "again" in style else piece}
        if "names" in style:
            function["name"] = name
        yield {**place, **(call_id if "ids" in style else {}), "function": function}


@settings(max_examples=20)
@given(
    text=TEXTS, thought=TEXTS, calls=CALLS, style=st.sets(st.sampled_from(["no id", "no index", "again", "names", "ids"])), data=st.data()
)
def test_a_plain_answer_is_the_fold_of_the_stream(text, thought, calls, style, data):
    message = {
        "content": text,
        "reasoning_content": thought,
        "tool_calls": [
            {**({} if "no id" in style else {"id": f"c{n}"}), "function": {"name": name, "arguments": args}}
            for n, (name, args) in enumerate(calls)
        ],
    }
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    plain = made()
    streamed = made()
    try:
        expected = fold(
            [
                *plain.body(
                    json.dumps({"model": "m", "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}).encode()
                ),
                *plain.finish(),
            ]
        )
    except EmptyReply:
        expected = None
    events = []
    for piece in pieces_of(thought, data):
        events += streamed.feed(chunk({"reasoning_content": piece}, model="m"))
    for piece in pieces_of(text, data):
        events += streamed.feed(chunk({"content": piece}))
    for number, (name, args) in enumerate(calls):
        for piece in deltas_of_call(number, name, args, style, data):
            events += streamed.feed(chunk({"tool_calls": [piece]}))
    events += streamed.feed(chunk(finish="stop"))
    events += streamed.feed({"choices": [], "usage": usage})
    if expected is None:
        with pytest.raises(EmptyReply):
            streamed.finish()
    else:
        assert fold([*events, *streamed.finish()]) == expected


@pytest.mark.parametrize(
    ("arguments", "truncated"), [('{"a": 1', True), ('{"a": "x', True), ("", True), ("{", True), ('{"a": 1}', False), ('{"a": 1}\n', False)]
)
@pytest.mark.parametrize("finish", ["length", "max_tokens"])
def test_a_call_that_the_token_limit_cut_off_is_marked_and_not_mended(arguments, truncated, finish):
    it = made()
    it.feed(chunk({"tool_calls": [{"index": 0, "id": "c0", "function": {"name": "add", "arguments": "{}"}}]}))
    it.feed(chunk({"tool_calls": [{"index": 1, "id": "c1", "function": {"name": "add", "arguments": arguments}}]}, finish))
    completion = fold(it.finish())
    assert completion.finish_reason == "length"
    assert completion.tool_calls == (ToolCall("c0", "add", "{}"), ToolCall("c1", "add", arguments, truncated=truncated))


@pytest.mark.parametrize("arguments", ['{"a": 1,}', "{'a': 1}", "add 1", '"{}"', "[1]", "nul"])
def test_broken_arguments_stay_as_they_are(arguments):
    it = made()
    it.feed(chunk({"tool_calls": [{"index": 0, "id": "c0", "function": {"name": "add", "arguments": arguments}}]}, "tool_calls"))
    assert fold(it.finish()).tool_calls == (ToolCall("c0", "add", arguments),)


def test_made_up_ids_differ_between_answers_and_are_the_same_within_one():
    ids = set()
    for _ in range(2):
        it = Assembler(OPENAI, where="here")
        deltas = it.feed(chunk({"tool_calls": [{"index": 0, "function": {"name": "add", "arguments": "{"}}]}))
        deltas += it.feed(chunk({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}, "stop"))
        call = fold(it.finish()).tool_calls[0]
        assert {delta.id for delta in deltas} == {call.id}
        assert call.provider_id is None
        ids.add(call.id)
    assert len(ids) == 2


def test_an_endpoints_own_id_is_kept_beside_the_one_that_was_made_up():
    it = made()
    it.feed(
        chunk({"tool_calls": [{"index": index, "id": "dup", "function": {"name": "add", "arguments": "{}"}} for index in (0, 1)]}, "stop")
    )
    assert fold(it.finish()).tool_calls == (ToolCall("dup", "add", "{}"), ToolCall("call_s1", "add", "{}", "dup"))


def test_tools_are_called_by_our_names():
    it = made(names={"Tool_read": "Tool.read"})
    events = it.feed(chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "Tool_read", "arguments": "{}"}}]}, "stop"))
    assert events[0].name == fold(it.finish()).tool_calls[0].name == "Tool.read"


def test_too_many_calls_are_refused():
    it = made()
    with pytest.raises(BadReply, match="running in circles"):
        for index in range(MOST_CALLS + 1):
            it.feed(chunk({"tool_calls": [{"index": index, "function": {"name": "add"}}]}))


@pytest.mark.parametrize(
    "delta_of",
    [
        lambda text: {"content": text},
        lambda text: {"reasoning_content": text},
        lambda text: {"refusal": text},
        lambda text: {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": text}}]},
    ],
)
def test_an_answer_without_end_is_refused(monkeypatch, delta_of):
    monkeypatch.setattr(assembler, "LONGEST_ANSWER", 100)
    it = made()
    it.feed(chunk(delta_of("x" * 60)))
    with pytest.raises(BadReply, match="more than 100 characters"):
        it.feed(chunk(delta_of("y" * 60)))


def test_the_endpoints_marks_are_kept_once_and_not_without_bound():
    it = made()
    marks = {"hate": {"filtered": False}}
    for n in range(40):
        it.feed({"choices": [{"index": 0, "delta": {"content": "x"}, "content_filter_results": marks}]})
        if n > 20:
            it.feed({"choices": [{"index": 0, "content_filter_results": {"n": n}}]})
    it.feed(chunk({"annotations": [{"url": "x" * 5000}]}, "stop"))
    found = fold(it.finish()).annotations
    assert json.loads(found[0]) == {"content_filter_results": marks}
    assert len(found) == 16


def test_usage_and_price_are_read_under_all_their_names():
    full = {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 1},
        "cost": 0.0000125,
    }
    for usage, expected in (
        (full, Usage(1, 7, 3, 2, 1, 12)),
        ({"prompt_tokens": 7, "completion_tokens": 3, "prompt_cache_hit_tokens": 4}, Usage(1, 7, 3, 4)),
        ({"prompt_tokens": True, "completion_tokens": -1, "cost": "free"}, Usage()),
        ({"prompt_tokens": None}, Usage()),
        ([7, 3], Usage()),
    ):
        it = made()
        it.feed(chunk({"content": "x"}, "stop", usage=usage))
        assert fold(it.finish()).usage == expected


def test_a_provider_that_gives_no_finish_reason_can_be_described():
    lenient = attrs.evolve(GENERIC, needs_finish_reason=False)
    it = made(profile=lenient)
    it.feed(chunk({"content": "x"}))
    with pytest.raises(StreamTruncated):
        it.finish()
    it = made(profile=lenient)
    it.feed(chunk({"content": "x"}))
    it.data("[DONE]")
    assert it.finish() == [Completed(fold(it.finish()))]


def test_white_space_is_held_back_until_there_is_a_text():
    it = made(profile=PROFILES["qwen"])
    assert it.feed(chunk({"content": "\n\n"})) == []
    assert it.feed(chunk({"content": "Hi"})) == [TextDelta("\n\nHi")]


def test_arguments_that_seem_to_end_again_and_again_are_not_read_each_time(monkeypatch):
    read = []
    monkeypatch.setattr("retinue.actors.llm.calls.is_object", lambda text: read.append(len(text)) or False)
    pieces = CallPieces({}, "x")
    pieces.feed([{"index": 0, "function": {"name": "f", "arguments": '{"x": "' + "y" * 1_000_000}}])
    for _ in range(1_000):
        pieces.feed([{"index": 0, "function": {"name": "f", "arguments": "}"}}])
    assert sum(read) < 20_000_000
