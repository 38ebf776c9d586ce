"""A filter gives for a text in pieces what it gives for the whole, and holds back no more than it has to."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.security.detectors import CARD, EMAIL, KEY, KINDS, SECRET, SSN, WEB_TOKEN
from retinue.security.safe_patterns import REACH, pattern_detector
from retinue.security.text_filter import Caught, Detector, TextFilter, filter_text

ALL = tuple(KINDS.values())
PATTERNS = (
    pattern_detector(r"secret-\d+"),
    pattern_detector(r"\bfoo\s*=\s*\S+"),
    pattern_detector(r"AB(?!C)"),
    pattern_detector(r"(?i)klaus|klausur"),
)
KEYS = pattern_detector(r"\bsk-[a-z0-9]{4,}")


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    return [text[left:right] for left, right in itertools.pairwise(edges)]


def in_pieces(pieces: list[str], detectors: tuple[Detector, ...], replacement: str = "#") -> str:
    stream = TextFilter(detectors, replacement)
    return "".join([*(stream.feed(piece) for piece in pieces), stream.finish()])


PARTS = st.sampled_from(
    [
        "4111 1111 1111 1111", "4111111111111111", "4111-1111-1111-1112", "123-45-6789", "123 45 6789", "1234567890", "a.b@c.org", "x@y", "@", "ada@", "b.co.uk",
        "password", "password = hunter22", "PASSWORD:", "token=[redacted]", "token=[red", "api_key: 'abc'", "api", "secret", "key", "=", ":", '"', "'", "sk-", "sk-abcdef",
        "ghp_", "abcdef123456", "eyJabcdefgh1", "AKIA", "x" * 127, "secret-", "12", "foo", "foo = bar", "AB", "C", "klaus", "ur", "KLAUS", " ", "\n", ".", "-", "word", "é", "ſ", "\u212a", "١٢٣", "😀", "\ud83d", "rest.",
    ]
)  # fmt: skip
TEXTS = st.one_of(st.lists(PARTS, max_size=14).map("".join), st.text(alphabet="0123456789- @.=:apisoken\"' []redct", max_size=60))


@settings(max_examples=60)
@given(TEXTS, st.lists(st.integers(0, 200), max_size=12))
def test_the_pieces_of_a_text_give_what_the_whole_gives(text: str, places: list[int]) -> None:
    detectors = (*PATTERNS, KEYS, KEY, WEB_TOKEN, *ALL)
    assert in_pieces(cut(text, places), detectors) == filter_text(text, detectors, "#") == in_pieces(list(text), detectors)


@settings(max_examples=60)
@given(TEXTS, st.lists(st.integers(0, 200), max_size=12))
def test_where_a_finding_is_an_error_pieces_and_whole_agree_and_nothing_of_it_was_shown(text: str, places: list[int]) -> None:
    def caught(pieces: list[str]) -> tuple[str, str | None]:
        stream, shown = TextFilter(ALL, None), []
        try:
            shown = [stream.feed(piece) for piece in pieces]
            shown.append(stream.finish())
        except Caught as error:
            return "", error.detector
        return "".join(shown), None

    assert caught(cut(text, places)) == caught([text]) == caught(list(text))


@given(st.text(max_size=80))
def test_a_text_without_findings_is_given_as_it_is(text: str) -> None:
    assert filter_text(text, (pattern_detector("never-in-it-\\d{9}"),), "#") == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("My ssn is 123-45-6789.", "My ssn is #."),
        ("123 45 6789", "#"),
        ("123-45 6789", "123-45 6789"),
        ("0123-45-67890", "0123-45-67890"),
        ("pay 4111 1111 1111 1111 now", "pay # now"),
        ("4111111111111111", "#"),
        ("4111-1111-1111-1111-", "#-"),
        ("4111111111111112", "4111111111111112"),
        ("12 4111 1111 1111 1111", "12 #"),
        ("4222222222222", "#"),  # 13 digits
        ("6304000000000000000", "#"),  # 19 digits
        ("00000000000000000000", "00000000000000000000"),
        ("41111111111111111111", "41111111111111111111"),  # 20 digits are no card
        ("write to ada.l+x@mail.example.org.", "write to #."),
        ("a@b and @c and d@ and e@f.g1", "a@b and @c and d@ and e@f.g1"),
        ("password=hunter2 next", "password=# next"),
        ('{"api_key": "abc123", "n": 1}', '{"api_key": "#", "n": 1}'),
        ("the password is long", "the password is long"),
        ("max_tokens = 5, my token = abcdef", "max_tokens = 5, my token = #"),
        ("token=[redacted]", "token=[redacted]"),
        ("x" * 128 + "@corp.example", "#"),
        ("x" * 129 + "@corp.example", "x" * 129 + "@corp.example"),
        ("secret:" + "x" * 10_000 + " end", "secret:# end"),
    ],
)
def test_what_is_found_and_what_is_not(text: str, shown: str) -> None:
    assert filter_text(text, ALL, "#") == shown
    assert in_pieces(list(text), ALL) == shown


@pytest.mark.parametrize(
    ("detector", "text", "held"),
    [
        (SSN, "It was in 2024", 0),  # 2024 is no beginning of 123-45-6789: the fourth character would be a dash
        (SSN, "It is 123-4", 5),
        (CARD, "It was in 2024", 4),
        (CARD, "It was in 2024, ", 0),
        (EMAIL, "Hello Ada", 3),
        (EMAIL, "Hello Ada ", 0),
        (SECRET, "We passed by", 0),
        (SECRET, "We pass", 4),
        (SECRET, "the password", 8),
        (SECRET, "the password is ", 0),
        (SECRET, "password = x", 12),
        (SECRET, "password = xy", 0),  # found, and what follows of it is swallowed
        (KEYS, "ask", 0),
        (KEY, "see the sea, g", 1),
        (KEY, "see the sea, gh", 2),
        (KEY, "see the sea, go", 0),
        (KEYS, "a sk", 2),
    ],
)
def test_only_what_may_still_become_a_finding_is_held_back(detector: Detector, text: str, held: int) -> None:
    stream = TextFilter((detector,), "#")
    stream.feed(text)
    assert stream.held == held


def test_a_filter_can_be_used_again_after_its_end() -> None:
    stream = TextFilter(ALL, "#")
    assert stream.feed("password=abc") + stream.finish() == "password=#"
    assert stream.feed("def") + stream.finish() == "def"


@pytest.mark.parametrize(
    "text", ["4" * 20_000, "1-" * 4_000, "a@" * 8_000, "a@a." * 4_000, "password" * 2_000, "token=" * 5_000, "p" * 20_000]
)
def test_long_texts_that_are_made_to_be_hard_are_held_and_searched_within_bounds(text: str) -> None:
    stream = TextFilter(ALL, "#")
    random.seed(7)
    most, place = 0, 0
    while place < len(text):
        step = random.randint(1, 4_000)
        stream.feed(text[place : place + step])
        place += step
        most = max(most, stream.held)
    stream.finish()
    assert most <= 1_000


def test_a_longer_finding_than_is_searched_is_taken_out_to_the_end_of_its_characters() -> None:
    detector = pattern_detector(r"key-[a-z]+")
    text = "see key-" + "a" * (3 * REACH) + " and more"
    assert filter_text(text, (detector,), "#") == "see # and more" == in_pieces(list(text), (detector,))
