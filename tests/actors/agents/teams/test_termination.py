"""Conditions that end a talk: they hold no state, and say which of them it was."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from retinue import llm

ASKED = rt.AgentMessage("Write, and say DONE when it is done")


def talk(*said: Any, tokens: int | None = 0, seconds: float = 0.0) -> rt.Talk:
    messages = tuple(rt.AgentMessage(text, sender) for sender, text in said)
    return rt.Talk(ASKED, messages, llm.Usage(1, tokens, 0), seconds)


def test_each_condition_is_met_by_what_it_names_and_by_nothing_less() -> None:
    two = talk(("writer", "a draft"), ("critic", "DONE."), tokens=10, seconds=2.0)
    handed = rt.Talk(ASKED, (rt.AgentMessage("to you", "writer", type="handoff", receiver="user"),))
    for met, unmet, told in (
        (rt.MaxMessages(2), rt.MaxMessages(3), two),
        (rt.TextMention("DONE"), rt.TextMention("done"), two),
        (rt.TextMention("DONE", sender="critic"), rt.TextMention("DONE", sender="writer"), two),
        (rt.SaidBy("critic"), rt.SaidBy("crit"), two),
        (rt.TokensUsed(10), rt.TokensUsed(11), two),
        (rt.SecondsPassed(2), rt.SecondsPassed(2.5), two),
        (rt.HandedTo("user"), rt.HandedTo("bob"), handed),
        (rt.When(lambda it: len(it.said) == 2), rt.When(lambda it: it.asked.content == ""), two),
    ):
        assert met.met(told) == repr(met) and unmet.met(told) is None
        assert met.met(rt.Talk(ASKED)) is None


def test_what_was_asked_does_not_end_the_talk_though_it_names_the_word() -> None:
    assert "DONE" in ASKED.content and rt.TextMention("DONE").met(talk()) is None


@pytest.mark.parametrize(
    ("wanted", "text", "found"),
    [
        ("APPROVE", "I DISAPPROVE", False),
        ("APPROVE", "APPROVED", False),
        ("APPROVE", "I APPROVE.", True),
        ("[end]", "so[end]", True),
        ("fin", "finance, and then: fin", True),
        ("ende", "am_ende", False),
        (".*", "anything", False),
        ("完成", "我完成了", True),
        ("é", "été", False),
    ],
    ids=["within", "longer", "word", "signs", "second place", "underscore", "no pattern", "no blanks", "accents"],
)
def test_a_text_is_found_as_words_of_its_own(wanted: str, text: str, *, found: bool) -> None:
    assert (rt.TextMention(wanted).met(talk(("a", text))) is not None) is found


def test_text_in_data_is_found_too() -> None:
    assert rt.TextMention("DONE").met(talk(("a", {"state": "DONE"}))) is not None


def test_a_union_names_the_condition_that_was_met_and_an_intersection_all_of_them() -> None:
    either = rt.MaxMessages(5) | rt.TextMention("DONE") | rt.SaidBy("critic")
    assert either.met(talk(("critic", "DONE"))) == "TextMention('DONE')"
    both = (rt.MaxMessages(5) | rt.SaidBy("critic")) & rt.TextMention("DONE")
    assert both.met(talk(("critic", "no"))) is None
    assert both.met(talk(("critic", "no"), ("writer", "DONE"))) == "SaidBy('critic') & TextMention('DONE')"
    assert repr(both) == "(MaxMessages(5) | SaidBy('critic')) & TextMention('DONE')"


def test_tokens_that_nobody_knows_are_not_none() -> None:
    assert "does not say" in (rt.TokensUsed(10).met(talk(("a", "x"), tokens=None)) or "")


def test_a_condition_is_immutable_and_can_be_used_by_many_talks() -> None:
    condition = rt.MaxMessages(1) | rt.TextMention("DONE")
    assert condition.met(talk(("a", "x"))) is not None
    assert condition.met(talk()) is None  # nothing of the talk before is left in it
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        rt.MaxMessages(1).count = 2  # type: ignore[misc]


def test_and_and_or_in_words_would_drop_a_condition_and_are_refused() -> None:
    with pytest.raises(rt.DefinitionError, match="join them with & and |"):
        rt.MaxMessages(1) or rt.TextMention("DONE")
    for slip in (
        lambda: rt.MaxMessages(1) | "DONE",
        lambda: "DONE" | rt.MaxMessages(1),
        lambda: rt.MaxMessages(1) & 3,
        lambda: 3 & rt.MaxMessages(1),
    ):
        with pytest.raises(rt.DefinitionError, match="give another condition"):
            slip()


@pytest.mark.parametrize(
    "slip",
    [
        lambda: rt.MaxMessages(0),
        lambda: rt.MaxMessages(True),
        lambda: rt.MaxMessages(2.5),  # type: ignore[arg-type]
        lambda: rt.TokensUsed("10"),  # type: ignore[arg-type]
        lambda: rt.TextMention(""),
        lambda: rt.TextMention("x", sender=""),
        lambda: rt.SaidBy(None),  # type: ignore[arg-type]
        lambda: rt.HandedTo(" "),
        lambda: rt.SecondsPassed(float("nan")),
        lambda: rt.SecondsPassed(-1),
        lambda: rt.When("x"),  # type: ignore[arg-type]
        lambda: rt.AnyOf(()),
        lambda: rt.AllOf((rt.MaxMessages(1), "x")),  # type: ignore[arg-type]
    ],
    ids=range(13),
)
def test_what_is_no_condition_is_refused_where_it_is_made(slip: Any) -> None:
    with pytest.raises(rt.DefinitionError, match="give|conditions"):
        slip()


def test_a_function_that_does_not_say_true_or_false_is_refused() -> None:
    async def later(_: rt.Talk) -> bool:
        return True

    with pytest.raises(rt.DefinitionError, match="async"):
        rt.When(later)  # type: ignore[arg-type]
    with pytest.raises(rt.DefinitionError, match="coroutine"):
        rt.When(lambda it: later(it)).met(talk())  # type: ignore[arg-type,return-value]
    with pytest.raises(rt.DefinitionError, match="NoneType"):
        rt.When(lambda _: None).met(talk())  # type: ignore[arg-type,return-value]


leaves = st.one_of(
    st.integers(1, 6).map(rt.MaxMessages), st.sampled_from("abc").map(rt.SaidBy), st.sampled_from(["x", "y"]).map(rt.TextMention)
)
conditions = st.recursive(
    leaves, lambda inner: st.tuples(inner, inner, st.booleans()).map(lambda it: it[0] | it[1] if it[2] else it[0] & it[1])
)
talks = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y", "z"])), max_size=6)


@settings(max_examples=60)
@given(conditions, conditions, talks)
def test_the_signs_are_what_they_are_in_logic(one: rt.Termination, other: rt.Termination, said: list[tuple[str, str]]) -> None:
    it = talk(*said)
    a, b = one.met(it) is not None, other.met(it) is not None
    assert ((one | other).met(it) is not None, (one & other).met(it) is not None) == (a or b, a and b)
    assert (one | other).met(it) == (one.met(it) if a else other.met(it))


@settings(max_examples=60)
@given(conditions, talks)
def test_a_condition_that_is_met_stays_met_as_more_is_said(one: rt.Termination, said: list[tuple[str, str]]) -> None:
    met = [one.met(talk(*said[:count])) is not None for count in range(len(said) + 1)]
    assert met == sorted(met)
