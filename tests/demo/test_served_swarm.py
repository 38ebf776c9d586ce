"""The swarm as it is served: its script answers whatever topic it is asked about."""

from __future__ import annotations

import pytest

import retinue as rt
from retinue.actors.llm.messages import Complete
from retinue.demo import prompts
from retinue.demo.prompts import script_for
from retinue.demo.served import _answer, swarm
from retinue.demo.swarm import Compose, Review


@pytest.mark.parametrize("topic", ["tea", "Dr. Who", "love?", "what begins. Use it", "how things begin", "a\nb"])
def test_the_script_finds_the_topic_in_every_prompt(topic: str) -> None:
    asked = {
        prompts.ONE_SENTENCE: (*prompts.questions(topic), prompts.closing(topic, "Say more about it.")),
        prompts.WRITER: (prompts.draft(topic, ("One.", "Two.")),),
        prompts.CRITIC: (prompts.review(topic, "A text about this."),),
    }
    requests = [Complete.of(text, system=system) for system, texts in asked.items() for text in texts]
    assert [_answer(request) for request in requests] == [script_for(topic)(request) for request in requests]


async def test_the_served_swarm_answers_about_several_topics() -> None:
    async with rt.ActorSystem("served") as system:
        await swarm(system)
        writer, critic = system.registry.get("/user/writer"), system.registry.get("/user/critic")
        assert writer is not None
        assert critic is not None
        for topic in ("tea", "lighthouses"):
            article = await writer.ask(Compose(topic))
            assert article.topic == topic
            assert len(article.notes) == 3
            assert all(topic in note.lower() for note in article.notes)
            assert article.text.startswith(f"Ask three people about {topic}")
            assert await critic.ask(Review(topic, "Tea is old.")) == "It does not tell what to do next."
