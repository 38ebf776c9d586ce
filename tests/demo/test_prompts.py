"""What the swarm asks: short prompts, small limits; and what is made of answers that were cut off."""

from __future__ import annotations

import pytest

from retinue.demo import prompts
from retinue.demo.prompts import Manner, script_for, whole_sentences


def all_requests(manner):
    return [
        *prompts.questions(manner, "tea"),
        prompts.draft(manner, "tea", ("One.", "Two.")),
        prompts.review(manner, "tea", "A text."),
        prompts.closing(manner, "tea", "A text.", "More."),
    ]


def test_no_call_asks_for_more_than_sixty_tokens_unless_it_is_told_to_be_generous():
    assert all(1 <= request.max_tokens <= 60 for request in all_requests(Manner()))
    assert all(request.max_tokens > 60 * 10 for request in all_requests(Manner(generosity=25)))


def test_a_manner_reaches_the_request():
    for request in all_requests(Manner(temperature=0.5, seed=3)):
        assert (request.temperature, request.seed) == (0.5, 3)
    for request in all_requests(Manner()):
        assert (request.temperature, request.seed) == (None, None)


def test_every_prompt_names_the_topic_and_what_it_builds_on():
    assert all("tea" in request.messages[-1].content for request in all_requests(Manner()))
    conversation = prompts.closing(Manner(), "tea", "A text.", "More.").messages
    assert [entry.role for entry in conversation] == ["system", "user", "assistant", "user"]
    assert conversation[2].content == "A text."
    assert conversation[3].content.startswith("More.")
    assert "One. Two." in prompts.draft(Manner(), "tea", ("One.", "Two.")).messages[-1].content


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("One. Two. And thr", "One. Two."),
        ("One. Two.", "One. Two."),
        ('He said "so!" and th', 'He said "so!"'),
        ("Version 2.5 is", "Version 2.5 is…"),
        ("  no\n end  ", "no end…"),
        ("Really? Ye", "Really?"),
        ("", "…"),
    ],
)
def test_what_the_limit_cut_off_is_cut_back_to_whole_sentences(text, whole):
    assert whole_sentences(text) == whole


def test_the_script_has_an_answer_to_each_prompt_of_the_swarm_about_the_topic():
    answers = [script_for("tea")(request) for request in all_requests(Manner())]
    assert len(set(answers)) == len(answers)
    assert all("tea" in answer.lower() for answer in answers[:4])
    assert all(whole_sentences(answer) == answer for answer in answers)


def test_the_script_knows_its_prompts_whatever_the_manner():
    plain, other = (all_requests(manner) for manner in (Manner(), Manner(generosity=3, temperature=1, seed=2)))
    answer = script_for("tea")
    assert [answer(request) for request in plain] == [answer(request) for request in other]
