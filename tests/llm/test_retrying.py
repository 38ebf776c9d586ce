"""Whether and when an endpoint is asked again: what its headers ask for, and the waits of our own."""

from __future__ import annotations

import email.utils
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue import llm
from retinue.actors.llm.retrying import LONGEST_WAIT, Retries, asked_wait, is_retryable

NOW = 1_800_000_000.0


def date(seconds):
    return email.utils.formatdate(NOW + seconds, usegmt=True)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": date(30)}, 30),
        ({"retry-after": date(-30)}, 0),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e9"}, 86_400),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "later", "retry-after": "2"}, 2),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360),
        ({"x-ratelimit-reset-requests": "250ms"}, 0.25),
        ({"x-ratelimit-reset-requests": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset-requests": "1d"}, 86_400),
        ({"x-ratelimit-reset-requests": "12"}, 12),
        ({"x-ratelimit-reset-requests": "6 minutes"}, None),
        ({"x-ratelimit-reset-requests": ""}, None),
        ({"x-ratelimit-reset-requests": "9" * 500 + "s"}, None),
        ({"x-ratelimit-reset": str(int(NOW) + 9)}, 9),
        ({"x-ratelimit-reset": str((int(NOW) + 9) * 1000)}, 9),
        ({"x-ratelimit-reset": "2027-01-01T00:00:00Z"}, None),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}, 1),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "0"}, 360),
        ({"retry-after": "2", "x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "0"}, 2),
    ],
)
def test_what_an_answers_headers_ask_for(headers, expected):
    assert asked_wait(headers, now=NOW) == expected


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset", "x-ratelimit-reset-tokens"]), st.text(max_size=40)
    )
)
def test_whatever_the_headers_are_the_wait_is_none_or_within_a_day(headers):
    wait = asked_wait(headers, now=NOW)
    assert wait is None or 0 <= wait <= 86_400


@settings(max_examples=40)
@given(st.integers(1, 200), st.none() | st.floats(0, 86_400), st.floats(0, 1))
def test_no_wait_is_shorter_than_what_was_asked_for_nor_much_longer(retry, asked, chance):
    wait = Retries(chance=lambda: chance).wait(retry, asked)
    own = min(0.5 * 2.0 ** (retry - 1), 8)
    assert wait >= (0 if asked is None else asked)
    assert wait <= max(own, (asked or 0) + own / 4)
    assert math.isfinite(wait)


def test_each_wait_of_our_own_is_longer_than_the_one_before_whatever_the_chance():
    longest = [Retries(chance=lambda: 0.0).wait(retry, None) for retry in range(1, 6)]
    shortest = [Retries(chance=lambda: 1.0).wait(retry, None) for retry in range(1, 6)]
    assert longest == [0.5, 1, 2, 4, 8]
    assert all(short > 1.1 * long for short, long in zip(shortest[1:], longest, strict=False))
    assert longest[-1] <= LONGEST_WAIT


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_these_statuses_may_pass(status):
    assert is_retryable(llm.ModelError("x", status=status))
    assert is_retryable(llm.ModelRefused("x", status=status))


@pytest.mark.parametrize("status", [None, 200, 301, 400, 401, 402, 403, 404, 413, 422, 451, 600])
def test_these_do_not(status):
    assert not is_retryable(llm.ModelError("x", status=status))


@pytest.mark.parametrize("kind", ["ModelUnreachable", "ModelTimeout", "ModelFailed", "RateLimited", "StreamTruncated", "BadStreamEvent"])
def test_these_errors_may_pass_without_a_status_too(kind):
    assert is_retryable(getattr(llm, kind)("x"))


@pytest.mark.parametrize("kind", ["KeyRefused", "QuotaExceeded", "ContextOverflow", "ContentFiltered"])
def test_these_do_not_whatever_their_status(kind):
    assert not is_retryable(getattr(llm, kind)("x", status=429))


@pytest.mark.parametrize(
    "kind", ["BadReply", "WrongEndpoint", "EmptyReply", "BadEndpoint", "ScriptEnded", "ModelInterrupted", "ModelNotInstalled"]
)
def test_nor_do_these(kind):
    assert not is_retryable(getattr(llm, kind)("x"))


def test_the_words_of_an_error_do_not_matter():
    assert not is_retryable(llm.ModelRefused("rate limit reached, 429, timed out, please retry", status=400))
    assert is_retryable(llm.ModelFailed("invalid api key", status=500))
