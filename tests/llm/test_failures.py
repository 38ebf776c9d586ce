"""A failure is judged by its status and its codes, and says what the endpoint said."""

from __future__ import annotations

import json

import pytest

from retinue.actors.llm.errors import (
    BadReply,
    ContentFiltered,
    ContextOverflow,
    KeyRefused,
    ModelFailed,
    ModelRefused,
    QuotaExceeded,
    RateLimited,
    WrongEndpoint,
)
from retinue.actors.llm.profiles.catalogue import PROFILES
from retinue.actors.llm.profiles.generic import GENERIC
from retinue.actors.llm.replies import embedded_failure, failure_of, refused_parameter


def failed(status, body=b"", headers=None, profile="generic"):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return failure_of(status, headers or {}, body, where="model 'm' at here", profile=PROFILES[profile])


def error(**facts):
    return {"error": {"message": "so it is", **facts}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (301, b"", WrongEndpoint),
        (404, b"<html>not here</html>", WrongEndpoint),
        (405, b"<!DOCTYPE html>", WrongEndpoint),
        (404, error(code="model_not_found"), ModelRefused),
        (400, error(), ModelRefused),
        (408, b"", ModelRefused),
        (409, b"", ModelRefused),
        (425, b"", ModelRefused),
        (401, error(), KeyRefused),
        (403, error(), KeyRefused),
        (403, error(metadata={"reasons": ["harassment"], "flagged_input": "x"}), ContentFiltered),
        (400, error(code="content_filter"), ContentFiltered),
        (400, error(code="content_filter", innererror={"code": "ResponsibleAIPolicyViolation"}), ContentFiltered),
        (402, error(), QuotaExceeded),
        (429, error(), RateLimited),
        (429, error(code="insufficient_quota"), QuotaExceeded),
        (429, error(type="insufficient_quota", code=None), QuotaExceeded),
        (429, error(code="context_length_exceeded"), RateLimited),
        (400, error(code="context_length_exceeded"), ContextOverflow),
        (400, error(type="exceed_context_size_error"), ContextOverflow),
        (413, error(code="context_length_exceeded"), ContextOverflow),
        (500, b"", ModelFailed),
        (500, error(code="context_length_exceeded"), ModelFailed),
        (502, b"<html>bad gateway</html>", ModelFailed),
        (529, error(type="overloaded_error"), ModelFailed),
    ],
)
def test_a_failure_has_the_type_of_what_happened(status, body, kind):
    found = failed(status, body)
    assert type(found) is kind
    assert found.status == status
    assert "model 'm' at here" in str(found)
    assert "<" not in str(found)
    if isinstance(body, dict):
        assert "so it is" in str(found)


@pytest.mark.parametrize(
    ("profile", "status", "body", "kind"),
    [
        ("glm", 429, {"error": {"code": "1113", "message": "x"}}, QuotaExceeded),
        ("glm", 400, {"error": {"code": "1261", "message": "x"}}, ContextOverflow),
        ("glm", 400, {"error": {"code": "1301", "message": "x"}}, ContentFiltered),
        ("qwen", 400, {"code": "DataInspectionFailed", "message": "x"}, ContentFiltered),
        ("qwen", 400, {"code": "Arrearage", "message": "x"}, QuotaExceeded),
        ("mistral", 400, {"object": "error", "code": "3051", "message": "x"}, ContextOverflow),
    ],
)
def test_codes_of_a_providers_own_are_data_of_its_profile(profile, status, body, kind):
    assert type(failed(status, body, profile=profile)) is kind
    assert type(failed(status, body)) in (ModelRefused, RateLimited)


@pytest.mark.parametrize(
    ("body", "limit", "used"),
    [
        ({"error": {"type": "exceed_context_size_error", "message": "x", "n_prompt_tokens": 90, "n_ctx": 64}}, 64, 90),
        (error(code="context_length_exceeded"), None, None),
        (
            {"error": {"code": "context_length_exceeded", "message": "This model's maximum context length is 4,097 tokens. However, your messages resulted in 5000 tokens."}},
            4097,
            5000,
        ),
        (
            {"object": "error", "code": 400, "message": "This model's maximum context length is 2048 tokens. However, you requested 2100 tokens (2000 in the messages)."},
            2048,
            2100,
        ),
        ({"error": {"message": "You passed 3000 input tokens and requested 100 output tokens. However, the model's context length is only 2048 tokens"}}, 2048, 3000),
        ({"error": {"message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"}}, 32768, 40000),
        ({"error": {"message": "the request exceeds the available context size. try increasing it"}}, None, None),
    ],
)  # fmt: skip
def test_an_overflow_says_how_much_fits_where_the_endpoint_does(body, limit, used):
    found = failed(400, body)
    assert isinstance(found, ContextOverflow)
    assert (found.limit, found.used) == (limit, used)
    assert "send less" in str(found)


def test_what_a_prompt_says_of_contexts_is_no_overflow():
    quoted = {"error": {"message": "messages[0].content is refused: " + "x" * 300 + " maximum context length is 5 tokens"}}
    assert type(failed(400, quoted)) is ModelRefused


def test_the_wait_that_is_asked_for_is_known():
    assert failed(429, headers={"retry-after": "7"}).retry_after == 7.0
    assert failed(429).retry_after is None
    assert failed(503, headers={"retry-after-ms": "250"}).retry_after == 0.25


def test_a_key_in_a_failure_is_hidden_and_its_text_is_one_line():
    found = failure_of(400, {}, b"no\n\x1b[2J sk-secret", where="here", hide=lambda text: text.replace("sk-secret", "[key]"))
    assert str(found) == "here refused the request (400: no [2J [key])"


def test_an_error_inside_of_an_answer_is_judged_by_the_status_that_it_names():
    def found(answer):
        return embedded_failure(answer, where="here")

    limited = found({"error": {"code": 429, "message": "x", "metadata": {"headers": {"Retry-After": "9"}}}})
    assert (type(limited), limited.status, limited.retry_after) == (RateLimited, 429, 9.0)
    assert type(found({"error": {"code": "502", "message": "x"}})) is ModelFailed
    assert type(found({"error": {"message": "x"}, "status_code": 503})) is ModelFailed
    assert type(found({"error": "throttling"})) is RateLimited
    assert type(found({"detail": "no"})) is BadReply
    assert found({"choices": [], "usage": {}}) is None
    assert found({"error": None, "choices": [1]}) is None
    assert found({"id": "x", "object": "chat.completion.chunk", "message": "x"}) is None


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, error(param="stream_options", code="unknown_parameter"), "stream_options"),
        (400, {"error": {"message": "Unrecognized request argument supplied: parallel_tool_calls"}}, "parallel_tool_calls"),
        (
            400,
            {"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "param": "max_tokens"}},
            "max_tokens",
        ),
        (400, {"error": {"message": "'max_tokens' is not supported, use 'max_completion_tokens'"}}, "max_tokens"),
        (400, {"error": {"message": "'max_completion_tokens' is not supported, use 'max_tokens'"}}, "max_completion_tokens"),
        (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]}, "stream_options"),
        (400, {"error": {"message": "Unknown parameter: 'tools[0].function.strict'.", "param": "tools[0].function.strict"}}, "strict"),
        (400, {"error": {"message": "role 'developer' is not supported"}}, "developer"),
        (400, b"unknown field reasoning_effort", "reasoning_effort"),
        (400, {"error": {"message": "max_tokens is too large: 99999", "param": "max_tokens", "code": "invalid_value"}}, None),
        (400, {"error": {"message": "unsupported temperature"}}, None),
        (400, {"error": {"message": "unknown field strictness"}}, None),
        (500, error(param="stream_options", code="unknown_parameter"), None),
        (400, b"", None),
        (400, b"[]", None),
    ],
)  # fmt: skip
def test_an_optional_parameter_that_is_refused_is_found(status, body, expected):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    assert refused_parameter(status, body, GENERIC.optional) == expected
    assert refused_parameter(status, body, ()) is None
