"""What was said in a swarm's session, and who has heard how much of it: each member is told what it has not heard yet, each line with its speaker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.message import AgentMessage
from retinue.actors.agents.teams.outcomes import line

__all__ = ["Transcript"]

LINES: Final = 200
"""Lines that are kept for members who have not heard them."""

CHARACTERS: Final = 100_000
"""Characters of them."""

LONGEST_SPEAKER: Final = 128

KEY: Final = "transcript"


class Transcript:
    """The talk of one session, during one run.

    Attributes:
        message: The message of this run.

    Args:
        state: The session's state, as the last run has left it. It is not changed before `keep`.
        message: The message of this run: the next line.
        members: Who the members are; nobody else speaks under their names, nor under those of others who have spoken here.
    """

    __slots__ = ("_first", "_heard", "_lines", "_number", "message")

    def __init__(self, state: dict[str, Any], message: AgentMessage, members: Iterable[str]) -> None:
        kept = state.get(KEY) or {}
        self._lines: list[tuple[str, str]] = [(speaker, text) for speaker, text in kept.get("lines", ())]
        self._first: int = kept.get("first", 0)  # the number of the first line that is kept still
        self._heard: dict[str, int] = dict(kept.get("heard", {}))
        self.message = message
        self._number = self._end
        speaker = " ".join(message.sender.split())[:LONGEST_SPEAKER]
        self._lines.append(
            (f"{speaker} (another)" if speaker in members or speaker in self._heard else speaker, content_text(message.content))
        )

    @property
    def _end(self) -> int:
        return self._first + len(self._lines)

    def reword(self, text: str) -> None:
        """Something else is said in the place of the run's message."""
        self.message = attrs.evolve(self.message, content=text)  # type: ignore[misc]  # mypy does not know that a message is an attrs class
        at = self._number - self._first
        self._lines[at] = (self._lines[at][0], text)

    def say(self, member: str, text: str) -> None:
        """A member has said something; it has heard that itself."""
        if self._heard.get(member) == self._end:
            self._heard[member] = self._end + 1
        self._lines.append((member, text))

    def told(self, member: str, sender: str) -> AgentMessage:
        """What a member is told: all that it has not heard. Where that is nothing but the message that has just come, it is that very message.

        Args:
            member: Who is asked.
            sender: Who has handed over, as the sender of a text of several lines.
        """
        heard = self._heard.get(member, 0)
        self._heard[member] = self._end
        if heard == self._number == self._end - 1:
            return self.message
        new = self._lines[max(0, heard - self._first) :]
        texts = [line(speaker, text) for speaker, text in new if speaker != member]
        left_out = self._first - heard
        if left_out > 0:
            texts.insert(0, f"({left_out} earlier lines are left out)")
        return AgentMessage("\n".join(texts), sender)

    def latest(self, count: int) -> str:
        """The last lines before this run's message, for whoever is to choose."""
        end = self._number - self._first
        return "\n".join(line(speaker, text) for speaker, text in self._lines[max(0, end - count) : end])

    def keep(self, state: dict[str, Any], members: Iterable[str]) -> None:
        """Puts the talk into the state, without what all members have heard, what is too long, and who is no member any more."""
        known = list(members)
        heard = {name: self._heard[name] for name in known if name in self._heard}
        first = max(self._first, min((heard.get(name, 0) for name in known), default=self._end), self._end - LINES)
        lines = self._lines[first - self._first :]
        size = sum(len(text) for _, text in lines)
        while lines and size > CHARACTERS:
            size -= len(lines.pop(0)[1])
            first += 1
        state[KEY] = {"first": first, "lines": [[speaker, text] for speaker, text in lines], "heard": heard}
