"""The swarm's actors: three agents, their model, and a chronicle.

The writer is asked for an article. It asks the researcher for notes, its model for a draft, the critic for a word on it, and its model
again for an end. The researcher asks the model all its questions at once, each in a session of its own; they wait in the model's mailbox.
Hooks of the agents tell the chronicle what they say and hear, and whoever watches asks the chronicle.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeVar

import attrs
import trio

import retinue as rt
from retinue.actors.llm.choose import Choice
from retinue.actors.llm.deployment import Deployment
from retinue.actors.llm.errors import ModelError
from retinue.actors.llm.messages import Completion
from retinue.actors.runtime.context import Deferred
from retinue.demo import prompts
from retinue.demo.prompts import Manner, whole_sentences

__all__ = [
    "Article",
    "Chronicle",
    "Compose",
    "Critic",
    "Desk",
    "Line",
    "Member",
    "Research",
    "Researcher",
    "Review",
    "Said",
    "Since",
    "Swarm",
    "Writer",
]

T = TypeVar("T")

_SESSIONS = 256  # that an agent of the swarm remembers
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


class Desk(rt.Actor):
    """Where an agent does what takes more than one message: it asks the agents, each time in a session of its own, and the agents ask the model.

    Args:
        own: The agent whose desk it is.
        chronicle: Whom to tell what is said from agent to agent.
        others: The agents that it works with, by name.
    """

    def __init__(self, own: rt.Ref[rt.Agent], chronicle: rt.Ref[Chronicle], others: Mapping[str, rt.Ref[rt.Agent]]) -> None:
        self.own = own
        self.chronicle = chronicle
        self.others = others
        self._count = count()

    @rt.handler(requires="swarm.work", raises=ModelError)
    async def research(self, message: Research) -> tuple[str, ...]:
        """Ask all questions at once, each in a session; the answers come back in the order of the questions."""
        asks = [partial(self._answer, self.own, question, self._session()) for question in prompts.questions(message.topic)]
        return tuple(await together(asks))

    @rt.handler(requires="swarm.work", raises=ModelError)
    async def review(self, message: Review) -> str:
        """Say what a text lacks."""
        return await self._answer(self.own, prompts.review(message.topic, message.text), self._session())

    @rt.handler(requires="swarm.work", raises=ModelError)
    async def compose(self, message: Compose) -> Article:
        """Write an article: notes, a draft, a review, and an end that answers it."""
        topic, session = message.topic, self._session()
        self._note("researcher", f"Find out about {topic}.")
        notes = await self.others["researcher"].ask(Research(topic))
        draft = await self._answer(self.own, prompts.draft(topic, notes), session)
        self._note("critic", draft)
        advice = await self.others["critic"].ask(Review(topic, draft))
        end = await self._answer(self.own, prompts.closing(topic, advice), session)
        return Article(topic, notes, draft, advice, f"{draft} {end}")

    def _session(self) -> str:
        return f"desk-{next(self._count)}"

    async def _answer(self, agent: rt.Ref[rt.Agent], text: str, session: str) -> str:
        answer = await agent.ask(rt.AgentMessage(text, session=session), timeout=_PATIENCE)
        return str(answer.content)

    def _note(self, listener: str, text: str) -> None:
        self.chronicle.tell(Said(Line(_name(self.own), listener, text)))


class Member(rt.Agent):
    """An agent of the swarm: it has a desk, and its model's words are told to the chronicle, cut back to whole sentences.

    Args:
        model: The model to talk to.
        chronicle: Whom to tell what was said.
        options: As for `rt.Agent`.
        others: The agents that its desk works with, by name.
    """

    def __init__(
        self, model: rt.Ref[Deployment], chronicle: rt.Ref[Chronicle], options: dict[str, Any], **others: rt.Ref[rt.Agent]
    ) -> None:
        super().__init__(model=model, hooks=minutes(chronicle, _name(model)), sessions=_SESSIONS, **options)
        self.chronicle = chronicle
        self.others = others

    async def on_start(self) -> None:
        """Starts what an agent has, and the desk."""
        await super().on_start()
        self.desk = await self.ctx.spawn(Desk, self.ctx.ref, self.chronicle, self.others, name="desk")


class Researcher(Member):
    """Finds out about a topic."""

    @rt.handler(requires="swarm.work", raises=ModelError)
    def research(self, message: Research) -> Any:
        """Notes on a topic."""
        self.ctx.forward(self.desk, message)


class Critic(Member):
    """Has a word to say on every text."""

    @rt.handler(requires="swarm.work", raises=ModelError)
    def review(self, message: Review) -> Any:
        """A word on a text."""
        self.ctx.forward(self.desk, message)


class Writer(Member):
    """Makes an article, with the help of the others."""

    @rt.handler(requires="swarm.work", raises=ModelError)
    def compose(self, message: Compose) -> Any:
        """An article on a topic."""
        self.ctx.forward(self.desk, message)


def minutes(chronicle: rt.Ref[Chronicle], model: str) -> list[Any]:
    """Hooks that tell the chronicle what an agent asks its model and what the model says."""

    def name(about: rt.HookContext) -> str:
        return about.agent.rpartition("/")[2]

    @rt.hook("before_model_request")
    def asked(about: rt.HookContext) -> None:
        chronicle.tell(Said(Line(name(about), model, about.payload.messages[-1].content)))

    @rt.hook("after_model_response")
    def answered(about: rt.HookContext) -> rt.Replace[Completion]:
        completion: Completion = about.payload
        text = whole_sentences(completion.text)
        chronicle.tell(Said(Line(model, name(about), text, completion.completion_tokens)))
        return rt.Replace(attrs.evolve(completion, text=text))

    return [asked, answered]


def instructions(conversation: rt.Conversation) -> str:
    """The writer's: two sentences at first, and then one more."""
    return prompts.WRITER if len(conversation.items) == 1 else prompts.ONE_SENTENCE


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
        work: dict[str, Any] = {"grant": ["swarm.work", "model.complete", "chronicle.write"]}
        short = {"instructions": prompts.ONE_SENTENCE, **manner.options(36)}
        strict = {"instructions": prompts.CRITIC, **manner.options(32)}
        lively = {"instructions": instructions, **manner.options(56)}
        researcher = await system.spawn(Researcher, model, chronicle, short, name="researcher", **work)
        critic = await system.spawn(Critic, model, chronicle, strict, name="critic", **work)
        writer = await system.spawn(Writer, model, chronicle, lively, researcher=researcher, critic=critic, name="writer", **work)
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
