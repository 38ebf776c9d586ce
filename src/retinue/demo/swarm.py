"""The swarm's actors.

The writer is asked for an article. It asks the researcher for notes, the model for a draft, the critic for a word on it, and the model
again for an end. The researcher asks the model all its questions at once; they wait in the model's mailbox. Each of them tells the
chronicle what it says and hears, and whoever watches asks the chronicle.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import attrs
import trio

import retinue as rt
from retinue.actors.llm.choose import Choice
from retinue.actors.llm.deployment import Deployment
from retinue.actors.llm.errors import ModelError
from retinue.actors.llm.messages import Complete
from retinue.actors.runtime.context import Deferred
from retinue.demo import prompts
from retinue.demo.prompts import Manner, whole_sentences

__all__ = ["Article", "Chronicle", "Compose", "Critic", "Line", "Research", "Researcher", "Review", "Said", "Since", "Swarm", "Writer"]

T = TypeVar("T")

_PATIENCE = 600.0  # seconds: a small model on a busy machine is slow, and an endpoint may be


@attrs.frozen
class Line:
    """One thing that was said.

    Attributes:
        speaker: Who said it.
        listener: To whom.
        text: What.
        tokens: How many tokens it took, where it is a model's answer and its endpoint counts.
    """

    speaker: str
    listener: str
    text: str
    tokens: int | None = None


@attrs.frozen
class Article:
    """What the swarm made.

    Attributes:
        topic: What it is about.
        notes: What the researcher found.
        draft: The writer's first text.
        advice: What the critic said of it.
        text: The text in the end.
    """

    topic: str
    notes: tuple[str, ...]
    draft: str
    advice: str
    text: str


@rt.message(name="demo/Research@1", timeout=_PATIENCE)
class Research(rt.Request[tuple[str, ...]]):
    """Ask the researcher for notes on a topic."""

    topic: str


@rt.message(name="demo/Review@1", timeout=_PATIENCE)
class Review(rt.Request[str]):
    """Ask the critic what it thinks of a text."""

    topic: str
    text: str


@rt.message(name="demo/Compose@1", timeout=_PATIENCE)
class Compose(rt.Request[Article]):
    """Ask the writer for an article on a topic."""

    topic: str


@rt.message
class Said(rt.Message):
    """Tell the chronicle what was said."""

    line: Line


@rt.message(timeout=math.inf)
class Since(rt.Request[tuple[Line, ...]]):
    """Ask the chronicle for all lines but the first `seen`; with `wait`, for at least one: the answer may take its time."""

    seen: int
    wait: bool = False


class Chronicle(rt.Actor):
    """Remembers what was said, at most `most` lines of it (default 1,000)."""

    def __init__(self, most: int = 1000) -> None:
        self._lines: deque[Line] = deque(maxlen=most)
        self._forgotten = 0
        self._waiting: list[tuple[int, Deferred]] = []

    @rt.handler(requires="chronicle.write")
    def said(self, message: Said) -> None:
        """Remember a line, and answer who waits for it."""
        self._forgotten += len(self._lines) == self._lines.maxlen
        self._lines.append(message.line)
        waiting, self._waiting = self._waiting, []
        for seen, slot in waiting:
            fresh = self._after(seen)
            if fresh:
                slot.reply(fresh)
            else:
                self._waiting.append((seen, slot))

    @rt.handler(requires="chronicle.read")
    def since(self, message: Since) -> tuple[Line, ...]:
        """Return the lines that the asker has not seen; where there are none and it waits, later."""
        fresh = self._after(message.seen)
        if message.wait and not fresh:
            self._waiting.append((message.seen, self.ctx.defer()))
        return fresh

    def _after(self, seen: int) -> tuple[Line, ...]:
        return tuple(self._lines)[max(0, seen - self._forgotten) :]


class Member(rt.Actor):
    """What the members of the swarm share.

    Args:
        model: The model to talk to.
        chronicle: Whom to tell what was said.
        manner: How completions are asked for.
    """

    def __init__(self, model: rt.Ref[Deployment], chronicle: rt.Ref[Chronicle], manner: Manner) -> None:
        self.model = model
        self.chronicle = chronicle
        self.manner = manner

    async def think(self, request: Complete) -> str:
        """Ask the model, and return what it said in whole sentences."""
        self.note(self.model, request.messages[-1].content)
        answer = await self.model.ask(request)
        text = whole_sentences(answer.text)
        self.chronicle.tell(Said(Line(_name(self.model), _name(self.ctx.ref), text, answer.completion_tokens)))
        return text

    def note(self, listener: rt.Ref[Any], text: str) -> None:
        """Tell the chronicle what this actor says to another."""
        self.chronicle.tell(Said(Line(_name(self.ctx.ref), _name(listener), text)))


class Researcher(Member):
    """Finds out about a topic."""

    @rt.handler(requires="swarm.work", raises=ModelError)
    async def research(self, message: Research) -> tuple[str, ...]:
        """Ask all questions at once; the answers come back in the order of the questions."""
        return tuple(await together([partial(self.think, question) for question in prompts.questions(self.manner, message.topic)]))


class Critic(Member):
    """Has a word to say on every text."""

    @rt.handler(requires="swarm.work", raises=ModelError)
    async def review(self, message: Review) -> str:
        """Say what a text lacks."""
        return await self.think(prompts.review(self.manner, message.topic, message.text))


class Writer(Member):
    """Makes an article, with the help of the others."""

    def __init__(
        self,
        model: rt.Ref[Deployment],
        chronicle: rt.Ref[Chronicle],
        manner: Manner,
        researcher: rt.Ref[Researcher],
        critic: rt.Ref[Critic],
    ) -> None:
        super().__init__(model, chronicle, manner)
        self.researcher = researcher
        self.critic = critic

    @rt.handler(requires="swarm.work", raises=ModelError)
    async def compose(self, message: Compose) -> Article:
        """Write an article: notes, a draft, a review, and an end that answers it."""
        topic = message.topic
        self.note(self.researcher, f"Find out about {topic}.")
        notes = await self.researcher.ask(Research(topic))
        draft = await self.think(prompts.draft(self.manner, topic, notes))
        self.note(self.critic, draft)
        advice = await self.critic.ask(Review(topic, draft))
        end = await self.think(prompts.closing(self.manner, topic, draft, advice))
        return Article(topic, notes, draft, advice, f"{draft} {end}")


@attrs.frozen
class Swarm:
    """The refs of a swarm that has started.

    Attributes:
        model: The model's deployment.
        chronicle: Who remembers what was said.
        writer: Whom to ask for an article.
    """

    model: rt.Ref[Deployment]
    chronicle: rt.Ref[Chronicle]
    writer: rt.Ref[Writer]

    @classmethod
    async def start(cls, system: rt.ActorSystem, choice: Choice, manner: Manner) -> Swarm:
        """Spawn the swarm, the model first. The members may ask the model and write the chronicle, and nothing else."""
        model = await choice.spawn(system)
        chronicle = await system.spawn(Chronicle, name="chronicle")
        grant = ["swarm.work", "model.complete", "chronicle.write"]
        researcher = await system.spawn(Researcher, model, chronicle, manner, name="researcher", grant=grant)
        critic = await system.spawn(Critic, model, chronicle, manner, name="critic", grant=grant)
        writer = await system.spawn(Writer, model, chronicle, manner, researcher, critic, name="writer", grant=grant)
        return cls(model, chronicle, writer)


async def together(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Run calls at once and return their results in order. The first error cancels the others, and is raised as it is."""
    results: dict[int, T] = {}
    errors: list[Exception] = []

    async def run(index: int, call: Callable[[], Awaitable[T]]) -> None:
        try:
            results[index] = await call()
        except Exception as error:
            errors.append(error)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for index, call in enumerate(calls):
            nursery.start_soon(run, index, call)
    if errors:
        raise errors[0]
    return [results[index] for index in range(len(calls))]


def _name(ref: rt.Ref[Any]) -> str:
    return ref.path.rpartition("/")[2]
