"""What the swarm says to its model, and what a scripted model answers. The prompts are short: a very small model has to follow them."""

from __future__ import annotations

import re
from collections.abc import Callable

import attrs

from retinue.actors.llm.messages import ChatMessage, Complete

__all__ = ["Manner", "closing", "draft", "questions", "review", "script_for", "whole_sentences"]

ONE_SENTENCE = "You answer in one short sentence."
WRITER = "You are a writer. You write two short, lively sentences."
CRITIC = "You are a critic. You answer in one short sentence."

_SENTENCES = re.compile(r".*[.!?…][\"'”’)]*(?=\s|$)", re.DOTALL)


@attrs.frozen(kw_only=True)
class Manner:
    """How completions are asked for.

    Attributes:
        generosity: What the token limits (60 at most) are multiplied with. Default 1, for the embedded model; models that think before
            they speak need more.
        temperature: See `Complete`; default None.
        seed: See `Complete`; default None.
    """

    generosity: int = 1
    temperature: float | None = None
    seed: int | None = None

    def ask(self, prompt: str, *, system: str, tokens: int, before: tuple[ChatMessage, ...] = ()) -> Complete:
        """Make the request of one prompt, with what was said before it."""
        messages = (ChatMessage("system", system), *before, ChatMessage("user", prompt))
        return Complete(messages, max_tokens=tokens * self.generosity, temperature=self.temperature, seed=self.seed)


def questions(manner: Manner, topic: str) -> tuple[Complete, ...]:
    """The researcher's questions; they do not depend on each other, and are asked at once."""
    prompts = (f"What is surprising about {topic}?", f"How did {topic} begin?", f"Why do people love {topic}?")
    return tuple(manner.ask(prompt, system=ONE_SENTENCE, tokens=36) for prompt in prompts)


def draft(manner: Manner, topic: str, notes: tuple[str, ...]) -> Complete:
    """The writer's first request."""
    return manner.ask(f"Write about {topic}. Use these notes: {' '.join(notes)}", system=WRITER, tokens=56)


def review(manner: Manner, topic: str, text: str) -> Complete:
    """The critic's request."""
    return manner.ask(f"What does this text about {topic} not tell?\n\n{text}", system=CRITIC, tokens=32)


def closing(manner: Manner, topic: str, text: str, advice: str) -> Complete:
    """The writer's second request: the model is shown the text as its own, and the critic's word as the answer to it."""
    before = (ChatMessage("user", f"Tell one thing about {topic}."), ChatMessage("assistant", text))
    return manner.ask(f"{advice} Tell one more thing about {topic}.", system=ONE_SENTENCE, tokens=40, before=before)


def whole_sentences(text: str) -> str:
    """Cut what a token limit cut off: the text up to the end of its last whole sentence, in one line; with "…" where there is none."""
    line = " ".join(text.split())
    found = _SENTENCES.match(line)
    return found[0] if found else f"{line}…"


def script_for(topic: str) -> Callable[[Complete], str]:
    """Make the function that answers the swarm's prompts where there is no model. It knows nothing, and says so."""
    title = topic[:1].upper() + topic[1:]
    manner = Manner()
    surprising, begin, love = (request.messages for request in questions(manner, topic))
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
        found = notes.get(request.messages) or by_role.get(request.messages[0].content)
        return found or "Ask a real model next time."

    return answer
