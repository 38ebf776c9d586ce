"""What the swarm asks: short prompts, small limits; and what is made of answers that were cut off."""

from __future__ import annotations

import pytest

import retinue as rt
from retinue import llm
from retinue.demo import prompts
from retinue.demo.prompts import Manner, script_for, whole_sentences
from retinue.demo.swarm import Compose, Swarm


async def requests_of(manner):
    """What the model is asked for an article about tea."""
    asked = []

    def answer(request):
        asked.append(request)
        return script_for("tea")(request)

    async with rt.ActorSystem() as system:
        swarm = await Swarm.start(system, llm.Choice(kind="scripted", model="scripted", script=answer), manner)
        await swarm.writer.ask(Compose("tea"))
    return asked


async def test_no_call_asks_for_more_than_sixty_tokens_unless_it_is_told_to_be_generous():
    assert all(1 <= request.max_tokens <= 60 for request in await requests_of(Manner()))
    assert all(request.max_tokens > 60 * 10 for request in await requests_of(Manner(generosity=25)))


@pytest.mark.parametrize("manner", [Manner(), Manner(temperature=0.5, seed=3)])
async def test_a_manner_reaches_the_request(manner):
    requests = await requests_of(manner)
    assert len(requests) == 6
    assert {(request.temperature, request.seed) for request in requests} == {(manner.temperature, manner.seed)}


def test_every_prompt_names_the_topic_and_what_it_builds_on():
    texts = [
        *prompts.questions("tea"),
        prompts.draft("tea", ("One.", "Two.")),
        prompts.review("tea", "A text."),
        prompts.closing("tea", "More."),
    ]
    assert all("tea" in text for text in texts)
    assert "One. Two." in texts[3]
    assert texts[4].endswith("A text.")
    assert texts[5].startswith("More.")


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


async def test_the_script_has_an_answer_to_each_prompt_of_the_swarm_about_the_topic():
    answers = [script_for("tea")(request) for request in await requests_of(Manner())]
    assert len(set(answers)) == len(answers)
    assert all("tea" in answer.lower() for answer in answers[:4])
    assert all(whole_sentences(answer) == answer for answer in answers)


async def test_the_script_knows_its_prompts_whatever_the_manner():
    answer = script_for("tea")
    plain, other = [
        sorted(answer(request) for request in await requests_of(manner))
        for manner in (Manner(), Manner(generosity=3, temperature=1.0, seed=2))
    ]
    assert plain == other
