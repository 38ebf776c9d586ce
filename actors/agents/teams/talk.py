"""What was said in a swarm's session, and who has heard how much of it: each member is told what it has not heard yet, each line with its speaker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.message import AgentMessage

__all__ = ["Talk"]

LINES: Final = 200
"""Lines that are kept for members who have not heard them."""

CHARACTERS: Final = 100_000
"""Characters of them."""

KEY: Final = "talk"


class Talk:
    """The talk of one session, during one run.

    Args:
        state: The session's state, as the last run has left it. It is not changed before `keep`.
    """

    __slots__ = ("_first", "_heard", "_lines")

    def __init__(self, state: dict[str, Any]) -> None:
        kept = state.get(KEY) or {}
        self._lines: list[tuple[str, str]] = [(speaker, text) for speaker, text in kept.get("lines", ())]
        self._first: int = kept.get("first", 0)  # the number of the first line that is kept still
        self._heard: dict[str, int] = dict(kept.get("heard", {}))

    def say(self, speaker: str, content: Any) -> None:
        """Somebody has said something; who speaks has heard it."""
        end = self._first + len(self._lines)
        if self._heard.get(speaker) == end:
            self._heard[speaker] = end + 1
        self._lines.append((speaker, content_text(content)))

    def told(self, member: str, message: AgentMessage, sender: str) -> AgentMessage:
        """What a member is told: all that it has not heard. Where that is nothing but the message that has just come, it is that very message.

        Args:
            member: Who is asked.
            message: The message of this run.
            sender: Who has handed over, for a text of several lines.
        """
        end = self._first + len(self._lines)
        heard = self._heard.get(member, 0)
        self._heard[member] = end
        new = self._lines[max(0, heard - self._first) :]
        if len(new) == 1 and heard >= self._first and new[0][1] == content_text(message.content) and new[0][0] == message.sender:
            return message
        texts = [_line(speaker, text) for speaker, text in new if speaker != member]
        left_out = self._first - heard
        if left_out > 0:
            texts.insert(0, f"({left_out} earlier lines are left out)")
        return AgentMessage("\n".join(texts), sender)

    def keep(self, state: dict[str, Any], members: Iterable[str]) -> None:
        """Puts the talk into the state, without what all members have heard, what is too long, and who is no member any more."""
        known = list(members)
        heard = {name: self._heard[name] for name in known if name in self._heard}
        end = self._first + len(self._lines)
        first = max(self._first, min((heard.get(name, 0) for name in known), default=end), end - LINES)
        lines = self._lines[first - self._first :]
        size = sum(len(text) for _, text in lines)
        while lines and size > CHARACTERS:
            size -= len(lines.pop(0)[1])
            first += 1
        state[KEY] = {"first": first, "lines": [[speaker, text] for speaker, text in lines], "heard": heard}


def _line(speaker: str, text: str) -> str:
    """One line of the talk. Those of a text that has several are indented, so that none of them reads as another speaker's."""
    return f"{speaker}: " + "\n    ".join(text.splitlines())
