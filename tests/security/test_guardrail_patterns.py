"""Expressions of users: those that could run away are refused where they are given, the others mean what `re` means by them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.security.errors import DefinitionError
from retinue.security.safe_patterns import pattern_detector
from retinue.security.text_filter import TextFilter, filter_text

TAKEN = (
    r"\d{3}-\d{4}", r"(?:[a-z0-9]+\.)+com", r"key=.*", r"[A-Z]{2}\d{6}[A-Z]?", r"https?://\S+", r"\b\d{3}[- ]?\d{3}[- ]?\d{4}\b", r"ab|abc", r"a[^b]{1,3}b",
    r"x(?=y)", r"x(?!y)", r"end$", r"é+", r"a++b",
)  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a+)+b", "split in several ways"),
        (r"(a|a)*b", "split in several ways"),
        (r"(a|ab)*c", "split in several ways"),
        (r"(a*)*", "split in several ways"),
        (r"(?:x?){30}y", "split in several ways"),
        (r"(\w+\s?)+$", "split in several ways"),
        (r"a.*b.*c", "several repetitions"),
        (r"\d*\d*\d*x", "several repetitions"),
        (r"(?<=x)y", "looks back"),
        (r"^a", "beginning"),
        (r"\Aa", "beginning"),
        (r"a*", "empty text"),
        (r"(a)\1", "refers to what"),
        (r"a(?=b*)", "looks ahead without bound"),
        (r"(?i:a)b", "flags inside"),
        (r"(", "no regular expression"),
        ("a" * 3000, "are the most"),
    ],
)
def test_an_expression_that_cannot_be_bounded_is_refused_with_the_reason(pattern: str, why: str) -> None:
    with pytest.raises(DefinitionError, match=why) as caught:
        pattern_detector(pattern)
    assert "the pattern" in str(caught.value)


def test_bytes_are_no_pattern() -> None:
    with pytest.raises(DefinitionError, match="bytes"):
        pattern_detector(re.compile(rb"a"))  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", TAKEN)
@settings(max_examples=25)
@given(
    text=st.one_of(
        st.text(alphabet="abcxy =-.:/1234AZéhtpsnd\n", max_size=40),
        st.lists(
            st.sampled_from(["123-4567", "a.b.com", "key=1 2", "AB123456C", "http://x", "end", "xy", "abc", "éé", "\n"]), max_size=6
        ).map("".join),
    )
)
def test_it_finds_what_re_finds_whole_and_in_pieces(pattern: str, text: str) -> None:
    detector = pattern_detector(pattern)
    expected = re.sub(pattern, "#", text)
    assert filter_text(text, (detector,), "#") == expected
    stream = TextFilter((detector,), "#")
    assert "".join([*(stream.feed(character) for character in text), stream.finish()]) == expected


def test_flags_are_those_of_the_compiled_expression() -> None:
    assert filter_text("ABC\nb", (pattern_detector(re.compile("a.c.b", re.IGNORECASE | re.DOTALL)),), "#") == "#"


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        ("LITERAL", "a"), ("NOT_LITERAL", "[^a]"), ("ANY", "."), ("IN", "[ab]"), ("SUBPATTERN", "(a)"), ("BRANCH", "aa|bb"), ("MAX_REPEAT", "a+"),
        ("MIN_REPEAT", "a+?"), ("POSSESSIVE_REPEAT", "a++"), ("ATOMIC_GROUP", "(?>a)"), ("AT", r"\b"), ("ASSERT", "(?=a)"), ("ASSERT_NOT", "(?!a)"),
        ("GROUPREF", r"(a)\1"),
    ],
)  # fmt: skip
def test_re_reads_expressions_as_this_module_expects(kind: str, pattern: str) -> None:
    from retinue.security import safe_patterns

    assert kind in {str(part[0]) for part in safe_patterns._sre.parse(pattern)}
