"""The way that every contender's conversations go: from agent to agent, by one model call each. The model takes no time, and checks who asks it, in which order."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Final

from benchmarks.harness import BrokenBlock

__all__ = ["AGENTS", "SHAPES", "Walk", "name_of", "offered", "ring", "star"]

AGENTS: Final = 100

_MESSAGE: Final = re.compile(r"message (\d+)\b")


def ring(agents: int, number: int) -> list[int]:  # noqa: ARG001 - all ways are asked alike
    """Each hands over to the next, and the last answers: as many model calls as agents."""
    return list(range(agents))


def star(agents: int, number: int) -> list[int]:
    """The first hands over to one of the others, to another with each message, and that one answers: two model calls."""
    return [0, 1 + number % (agents - 1)]


SHAPES: Final[dict[str, Callable[[int, int], list[int]]]] = {"ring": ring, "star": star}


def name_of(agent: int) -> str:
    """An agent's name, one that every framework takes."""
    return f"agent_{agent}"


def offered(shape: str, agents: int = AGENTS) -> dict[int, list[int]]:
    """To whom each agent may hand over: whoever follows it on the way of some message."""
    found: dict[int, list[int]] = {agent: [] for agent in range(agents)}
    for number in range(agents):
        way = SHAPES[shape](agents, number)
        for source, target in itertools.pairwise(way):
            if target not in found[source]:
                found[source].append(target)
    return found


class Walk:
    """One conversation after the other along a way.

    Args:
        who: The contender, for errors.
        shape: A key of SHAPES.
        agents: How many.

    Attributes:
        way: The agents in the order of this conversation.
        calls: Model calls in all.
        due: How many there have to be.
    """

    __slots__ = ("_agents", "_at", "_number", "_shape", "calls", "due", "way", "who")

    def __init__(self, who: str, shape: str, agents: int = AGENTS) -> None:
        self.who = who
        self.way: list[int] = []
        self.calls = self.due = 0
        self._shape, self._agents = SHAPES[shape], agents
        self._at = self._number = 0

    def begin(self) -> str:
        """The next conversation's message."""
        self._at = 0
        self._number += 1
        self.way = self._shape(self._agents, self._number)
        self.due += len(self.way)
        return f"This is message {self._number}. Pass it on."

    def called(self, agent: int, texts: str) -> int | None:
        """A model call: to whom the conversation is handed over, or None where this agent is to answer.

        Args:
            agent: Who asks the model.
            texts: All that it was told in this conversation: must hold this message's number and no other.
        """
        at = self._at
        if at >= len(self.way) or self.way[at] != agent:
            due = self.way[at] if at < len(self.way) else "nobody"
            raise BrokenBlock(f"{self.who}: step {at} is {due}'s, and the model was asked by {agent}")
        if set(_MESSAGE.findall(texts)) != {str(self._number)}:
            raise BrokenBlock(f"{self.who}: agent {agent} was told of other messages than {self._number}: {texts[:300]!r}")
        self._at = at + 1
        self.calls += 1
        return self.way[at + 1] if at + 1 < len(self.way) else None

    @property
    def answer(self) -> str:
        """What the last agent says."""
        return f"Done with number {self._number}."

    def check(self, answer: object) -> None:
        """A conversation has ended: the last agent's answer must have come, after all others had been asked."""
        if answer != self.answer or self._at != len(self.way):
            raise BrokenBlock(f"{self.who}: {self._at} of {len(self.way)} model calls, and the answer was {answer!r:.200}")

    def sum_up(self, messages: int) -> None:
        """All have ended."""
        if self.calls != self.due or self._number != messages:
            raise BrokenBlock(
                f"{self.who}: {messages} messages were due, {self._number} came, with {self.calls} model calls and not {self.due}"
            )
