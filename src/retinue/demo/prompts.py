"""What the swarm's agents are told and asked, and what a scripted model answers. The prompts are short: a very small model has to follow them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from retinue.actors.llm.messages import Complete

__all__ = ["Manner", "closing", "draft", "questions", "review", "script_for", "whole_sentences"]

ONE_SENTENCE = "You answer in one short sentence."
WRITER = "You are a writer. You write two short, lively sentences."
CRITIC = "You are a critic. You answer in one short sentence."

_SENTENCES = re.compile(r".*[.!?…][\"'”’)]*(?=\s|$)", re.DOTALL)


@attrs.frozen(kw_only=True)
class Manner:
    """How the agents ask their model.

    Attributes:
        generosity: What the token limits (60 at most) are multiplied with. Default 1, for the embedded model; models that think before
            they speak need more.
        temperature: See `Complete`; default None.
        seed: See `Complete`; default None.
    """

    generosity: int = 1
    temperature: float | None = None
    seed: int | None = None

    def options(self, tokens: int) -> dict[str, Any]:
        """An agent's options, where an answer is to have so many tokens."""
        return {"max_tokens": tokens * self.generosity, "temperature": self.temperature, "seed": self.seed}


def questions(topic: str) -> tuple[str, ...]:
    """What the researcher asks; the questions do not depend on each other, and are asked at once."""
    return f"What is surprising about {topic}?", f"How did {topic} begin?", f"Why do people love {topic}?"


def draft(topic: str, notes: Sequence[str]) -> str:
    """What the writer is told first."""
    return f"Write about {topic}. Use these notes: {' '.join(notes)}"


def review(topic: str, text: str) -> str:
    """What the critic is asked."""
    return f"What does this text about {topic} not tell?\n\n{text}"


def closing(topic: str, advice: str) -> str:
    """What the writer is told then; its draft stands before it, as its own words."""
    return f"{advice} Tell one more thing about {topic}."


def whole_sentences(text: str) -> str:
    """Cut what a token limit cut off: the text up to the end of its last whole sentence, in one line; with "…" where there is none."""
    line = " ".join(text.split())
    found = _SENTENCES.match(line)
    return found[0] if found else f"{line}…"


def script_for(topic: str) -> Callable[[Complete], str]:
    """Make the function that answers the swarm's prompts where there is no model. It knows nothing, and says so."""
    title = topic[:1].upper() + topic[1:]
    surprising, begin, love = questions(topic)
    notes = {
        surprising: f"The most surprising thing about {topic} is how little a script knows of it.",
        begin: f"{title}: it all began long before this script was written.",
        love: f"Whoever loves {topic} has reasons that no script can give.",
    }
    by_role = {
        WRITER: f"Ask three people about {topic}, and you get three stories. The best of them begins where this script ends.",
        CRITIC: "It does not tell what to do next.",
    }

    def answer(request: Complete) -> str:
        found = notes.get(request.messages[-1].content) or by_role.get(request.messages[0].content)
        return found or "Ask a real model next time."

    return answer
