"""Whatever an endpoint sends is a completion or a typed error, never another exception, and the texts of errors are printable."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.actors.llm.errors import ModelError
from retinue.actors.llm.profiles.catalogue import PROFILES
from retinue.actors.llm.profiles.generic import GENERIC
from retinue.actors.llm.reading import AnswerReader
from retinue.actors.llm.replies import failure_of, refused_parameter

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
KEYS = st.sampled_from(
    ["choices", "message", "content", "text", "type", "usage", "prompt_tokens", "finish_reason", "model", "error", "detail"]
)
CHUNK_KEYS = st.sampled_from(
    ["choices", "delta", "content", "text", "tool_calls", "function_call", "function", "name", "arguments", "index", "id", "reasoning_content",
     "refusal", "usage", "finish_reason", "error", "code", "annotations", "thinking"]
)  # fmt: skip
ANYTHING = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=4))
NEARLY = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries({"message": st.fixed_dictionaries({"content": ANYTHING}), "finish_reason": ANYTHING}), max_size=2
        )
    },
    optional={"usage": ANYTHING, "model": ANYTHING, "error": ANYTHING},
)
BODIES = (
    st.binary(max_size=200) | ANYTHING.map(lambda value: json.dumps(value).encode()) | NEARLY.map(lambda value: json.dumps(value).encode())
)


CHUNKS = st.recursive(
    SCALARS | st.sampled_from(["{", '{"a"', "stop", "length", "<think>", "\ud83d"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(CHUNK_KEYS, inner, max_size=5),
)
NEARLY_CHUNKS = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries({"delta": st.dictionaries(CHUNK_KEYS, CHUNKS, max_size=4)}, optional={"finish_reason": CHUNKS}),
            max_size=2,
        )
    },
    optional={"usage": CHUNKS, "model": CHUNKS, "error": CHUNKS},
)


def is_a_completion_or_an_error(sent, content_type, profile="generic"):
    reader = AnswerReader(PROFILES[profile], model="m", where="here", content_type=content_type)
    try:
        *_, last = [*reader.feed(sent), *reader.close()]
    except ModelError as error:
        last = error
    if isinstance(last, ModelError):
        assert str(last).isprintable()
        assert len(str(last)) < 1000
        return
    completion = last.completion
    assert completion.text.strip() or completion.tool_calls or completion.refusal
    str(completion).encode()
    assert completion.model
    assert all(count is None or count >= 0 for count in (completion.prompt_tokens, completion.completion_tokens))


@settings(max_examples=20)
@given(body=BODIES, content_type=st.sampled_from(["", "application/json", "text/html", "text/event-stream"]))
def test_a_successful_answer_is_a_completion_or_a_typed_error(body, content_type):
    is_a_completion_or_an_error(body, content_type)


@settings(max_examples=8)
@given(chunks=st.lists(NEARLY_CHUNKS | CHUNKS, max_size=5), profile=st.sampled_from(sorted(PROFILES)))
def test_a_stream_of_anything_is_a_completion_or_a_typed_error(chunks, profile):
    sent = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    is_a_completion_or_an_error(sent, "text/event-stream", profile)


@settings(max_examples=20)
@given(body=ANYTHING | CHUNKS, status=st.sampled_from([400, 422]))
def test_the_parameter_that_is_refused_is_one_that_may_be_left_out(body, status):
    found = refused_parameter(status, json.dumps(body).encode(), GENERIC.optional)
    assert found is None or found in GENERIC.optional


@settings(max_examples=20)
@given(status=st.integers(300, 999), body=BODIES, header=st.text(max_size=20))
def test_any_other_answer_is_a_typed_error_with_its_status(status, body, header):
    error = failure_of(status, {"retry-after": header, "content-type": header}, body, where="here")
    assert isinstance(error, ModelError)
    assert error.status == status
    assert str(error).isprintable()
