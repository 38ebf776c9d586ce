"""Whatever an endpoint sends is a completion with text or a typed error, never another exception, and the texts of errors are printable."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from retinue.actors.llm.errors import BadReply, ModelError
from retinue.actors.llm.messages import Completion
from retinue.actors.llm.replies import completion_of, failure_of, retry_after

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
KEYS = st.sampled_from(
    ["choices", "message", "content", "text", "type", "usage", "prompt_tokens", "finish_reason", "model", "error", "detail"]
)
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


@given(body=BODIES, content_type=st.sampled_from(["", "application/json", "text/html"]))
def test_a_successful_answer_is_a_completion_with_text_or_a_bad_reply(body, content_type):
    try:
        found = completion_of(body, content_type=content_type, where="here", model="m")
    except BadReply as error:
        found = error
    if isinstance(found, BadReply):
        assert str(found).isprintable()
        assert len(str(found)) < 1000
    else:
        assert type(found) is Completion
        assert found.text.strip()
        found.text.encode()
        assert found.model
        assert all(count is None or count >= 0 for count in (found.prompt_tokens, found.completion_tokens))


@given(status=st.integers(300, 999), body=BODIES, header=st.text(max_size=20))
def test_any_other_answer_is_a_typed_error_with_its_status(status, body, header):
    error = failure_of(status, {"retry-after": header, "content-type": header}, body, where="here")
    assert isinstance(error, ModelError)
    assert error.status == status
    assert str(error).isprintable()


@given(header=st.text(max_size=40))
def test_any_retry_after_is_seconds_or_nothing(header):
    seconds = retry_after(header, now=0.0)
    assert seconds is None or 0 <= seconds <= 86400
