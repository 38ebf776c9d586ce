"""What is not known is not zero, also not in a sum."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.actors.llm.completion import Completion
from retinue.actors.llm.events import Completed, Retrying, TextDelta, fold
from retinue.actors.llm.usage import NO_USAGE, Usage

COUNTS = st.none() | st.integers(0, 10**9)
USAGES = st.builds(Usage, st.integers(0, 9), COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)


@settings(max_examples=30)
@given(a=USAGES, b=USAGES, c=USAGES)
def test_sums_do_not_depend_on_the_order(a, b, c):
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + NO_USAGE == a == NO_USAGE + a


def test_a_sum_with_the_unknown_is_unknown():
    known = Usage(1, 5, 3, 0, 0, 10)
    assert (known.total_tokens, known.is_complete) == (8, True)
    total = known + Usage(1, 4, None)
    assert total == Usage(2, 9, None, None, None, None)
    assert (total.total_tokens, total.is_complete) == (None, False)
    assert sum([known, known], NO_USAGE) == Usage(2, 10, 6, 0, 0, 20)


def test_usage_is_added_to_usage_only():
    with pytest.raises(TypeError):
        Usage() + 5


def test_a_completion_counts_by_its_usage():
    assert (Completion("x").prompt_tokens, Completion("x").completion_tokens) == (None, None)
    assert Completion("x", usage=Usage(1, 7, 3)).completion_tokens == 3


def test_events_fold_to_the_completion_at_their_end():
    completion = Completion("Hi", "m")
    assert fold([Retrying("busy", 2, 0.5), TextDelta("Hi"), Completed(completion)]) is completion
    with pytest.raises(ValueError, match="without Completed"):
        fold([TextDelta("Hi")])
    with pytest.raises(ValueError, match="TextDelta comes after Completed"):
        fold([Completed(completion), TextDelta("Hi")])
