"""Reasoning and answer in one text are told apart, and no piece of a tag is ever passed on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.actors.llm.texts import Mender, whole
from retinue.actors.llm.thinking import Splitter

TAGS = ("<think>", "</think>")


def split(text, cuts=(), **options):
    splitter = Splitter(options.pop("tags", TAGS), **options)
    ends = [*sorted(cuts), len(text)]
    said, thought = [], []
    pieces = [splitter.feed(text[start:end]) for start, end in zip([0, *ends], ends, strict=False) if start < end]
    for kind, piece in [one for some in [*pieces, splitter.end()] for one in some]:
        if kind == "all_was_reasoning":
            thought, said = [*thought, *said], []
        (said if kind == "text" else thought).append(piece)
    return "".join(thought), "".join(said)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello", ("", "Hello")),
        ("<think>Hm.</think>Hello", ("Hm.", "Hello")),
        ("  \n<think>\nHm.\n</think>\n\nHello", ("Hm.\n", "Hello")),
        ("<think>Hm.", ("Hm.", "")),
        ("<think>Hm.</thi", ("Hm.</thi", "")),
        ("<think></think>Hello", ("", "Hello")),
        ("Hm.\n</think>\n\nHello", ("Hm.\n", "Hello")),
        ("Hm.\n</think>", ("Hm.\n", "")),
        ("</think>Hello", ("", "Hello")),
        ("Hm. </think> Hello", ("", "Hm. </think> Hello")),
        ("a\n</think>b\nc", ("", "a\n</think>b\nc")),
        ("<thinker> a", ("", "<thinker> a")),
        ("say <think>", ("", "say <think>")),
        ("<think>a</think>b<think>c</think>", ("a", "b<think>c</think>")),
        ("   ", ("", "")),
        (" <", ("", " <")),
    ],
)
def test_tags_count_where_they_are_the_models_own(text, expected):
    assert split(text) == expected
    assert split(text, range(1, len(text))) == expected


def test_a_text_may_begin_within_the_reasoning():
    assert split("Hm.</think>Hello", in_thought=True) == ("Hm.", "Hello")
    assert split("\n<think>Hm.</think>Hello", in_thought=True) == ("Hm.", "Hello")
    assert split("Hm.", in_thought=True) == ("Hm.", "")


def test_without_tags_everything_is_the_answer():
    assert split("<think>Hm.</think>\n</think>\n", tags=None) == ("", "<think>Hm.</think>\n</think>\n")


def test_reasoning_that_comes_apart_makes_tags_the_models_words():
    splitter = Splitter(TAGS)
    splitter.plain()
    assert splitter.feed("<think>a") == [("text", "<think>a")]


@settings(max_examples=30)
@given(
    parts=st.lists(st.sampled_from(["<think>", "</think>", "\n", " ", "<", "a", "</th", "ink>", ">", "Hm."]), max_size=10),
    in_thought=st.booleans(),
    data=st.data(),
)
def test_however_a_text_is_cut_it_is_split_the_same(parts, in_thought, data):
    text = "".join(parts)
    cuts = data.draw(st.sets(st.integers(0, len(text))))
    assert split(text, cuts, in_thought=in_thought) == split(text, in_thought=in_thought)


@settings(max_examples=40)
@given(text=st.text(st.characters() | st.sampled_from("\ud83d\ude00"), max_size=12), data=st.data())
def test_half_characters_are_joined_or_replaced_wherever_a_text_is_cut(text, data):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    mender = Mender()
    ends = [*cuts, len(text)]
    pieces = [mender.feed(text[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
    assert "".join([*pieces, mender.end()]) == whole(text)
    assert all(piece.encode() is not None for piece in pieces)


def test_white_space_before_a_text_is_looked_at_once(monkeypatch):
    looked = []

    class Blank(str):
        __slots__ = ()

        def strip(self, *given):
            looked.append(len(self))
            return super().strip(*given)

    found = Splitter(("<think>", "</think>"))
    for _ in range(1_000):
        assert found.feed(Blank(" " * 100)) == []
    assert sum(looked) == 100_000
    assert found.feed("x") == [("text", " " * 100_000 + "x")]
    found = Splitter(("<think>", "</think>"))
    assert [found.feed(piece) for piece in (" ", "\n", "<thi", "nk>a</think>b")][-1] == [("reasoning", "a"), ("text", "b")]
    found = Splitter(("<think>", "</think>"))
    assert found.feed("  ") == found.end() == []
