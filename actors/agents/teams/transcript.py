"""What was said in a swarm's session, and who has heard how much of it: each member is told what it has not heard yet, each line with its speaker."""

from __future__ import annotations

import unicodedata
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

MOST_LINES: Final = 2**53
"""Lines that a session can have had."""

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
        self._first, self._lines, self._heard = _kept(state.get(KEY))  # the first: the number of the first line that is kept still
        self.message = message
        self._number = self._end
        speaker = _speaker(message.sender)
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


def _kept(given: Any) -> tuple[int, list[tuple[str, str]], dict[str, int]]:
    """The talk of a state: of one that was loaded from elsewhere, what is as `keep` writes it."""
    if not isinstance(given, dict):
        return 0, [], {}
    first, lines, heard = given.get("first"), given.get("lines"), given.get("heard")
    start = first if type(first) is int and 0 <= first <= MOST_LINES else 0
    said = [(one[0], one[1]) for one in lines if _is_line(one)] if isinstance(lines, list) else []
    end = start + len(said)
    return start, said, {name: at for name, at in heard.items() if type(at) is int and 0 <= at <= end} if isinstance(heard, dict) else {}


def _is_line(given: Any) -> bool:
    return isinstance(given, list) and len(given) == 2 and isinstance(given[0], str) and isinstance(given[1], str)


def _speaker(sender: str) -> str:
    """The name of somebody from outside, as it stands before a line: without what is not seen, and without a colon, after which it would read as what another has said."""
    seen = "".join(" " if each == ":" else each for each in sender if each.isspace() or unicodedata.category(each)[0] != "C")
    return " ".join(seen.split())[:LONGEST_SPEAKER].rstrip() or "somebody"
