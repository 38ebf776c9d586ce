"""Telling a model's reasoning from its answer where both stand in one text, with tags between them.

The opening tag counts only at the very beginning: later it is something that the model talks about. Some prompt templates write it themselves,
so that the text begins within the reasoning; then the closing tag, alone on its line, comes as news, and makes what was taken for
the answer reasoning after all. What may still become a tag is held back, so that no piece of one is ever passed on.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["Piece", "Splitter"]

Piece: TypeAlias = tuple[Literal["text", "reasoning", "all_was_reasoning"], str]
"""A piece of the answer, or of the reasoning; or the news that all pieces of the answer so far were reasoning."""

_START, _THOUGHT, _AFTER, _TEXT, _PLAIN = range(5)


class Splitter:
    """Splits a text that comes in pieces into answer and reasoning. White space that begins either is dropped with a tag, else kept.

    Args:
        tags: The opening and the closing tag, or None: then everything is the answer.
        in_thought: Whether the text begins within the reasoning.
    """

    __slots__ = ("_begun", "_blanks", "_close", "_held", "_line_start", "_open", "_state")

    def __init__(self, tags: tuple[str, str] | None, *, in_thought: bool = False) -> None:
        self._open, self._close = tags or ("", "")
        self._state = _THOUGHT if tags and in_thought else _START
        self._held = ""
        self._blanks: list[str] = []  # white space that the text begins with, before what is held
        self._begun = False  # the reasoning has begun with something else than white space
        self._line_start = True

    def plain(self) -> None:
        """The reasoning comes apart from the text: from now on tags in it are the model's words."""
        if self._state == _START:
            self._open = self._close = ""

    def feed(self, piece: str) -> list[Piece]:
        """Take the next piece of the text, and return what it makes certain."""
        if self._state == _PLAIN:
            return [("text", piece)]
        if self._state == _TEXT and not self._held and "<" not in piece and self._close[:1] == "<":
            self._line_start = piece.endswith("\n")
            return [("text", piece)]
        if self._state == _START and not self._held:
            self._blanks.append(piece)
            if not piece.strip():
                return []
            piece = "".join(self._blanks)
            self._blanks.clear()
        self._held += piece
        found: list[Piece] = []
        while self._step(found):
            pass
        return found

    def end(self) -> list[Piece]:
        """The text is over: return what was held back. A text of white space alone is none."""
        held, self._held = "".join(self._blanks) + self._held, ""
        if self._state == _START:
            return [("text", held)] if held.strip() else []
        if self._state == _THOUGHT:
            return [("reasoning", held)] if held.strip() else []
        if self._state == _TEXT and self._close and held.strip() == self._close:
            return [("all_was_reasoning", "")]
        return [("text", held)] if held and self._state != _AFTER else []

    def _step(self, found: list[Piece]) -> bool:
        """Do what one state can do with what is held; return whether another state has to go on."""
        if not self._held:
            return False
        if self._state == _START:
            return self._begin()
        if self._state == _THOUGHT:
            return self._think(found)
        if self._state == _AFTER:
            self._held = self._held.lstrip()
            if self._held:
                self._state = _PLAIN
            return bool(self._held)
        if self._state == _TEXT:
            return self._speak(found)
        found.append(("text", self._held))
        self._held = ""
        return False

    def _begin(self) -> bool:
        begin = self._held.lstrip()
        if not begin:
            return False
        if self._open:
            for tag, state in ((self._open, _THOUGHT), (self._close, _AFTER)):
                if begin.startswith(tag):
                    self._held = begin[len(tag) :]
                    self._state = state
                    return True
                if tag.startswith(begin):
                    return False
        self._state = _TEXT if self._open else _PLAIN
        return True

    def _think(self, found: list[Piece]) -> bool:
        if not self._begun:
            self._held = self._held.lstrip()
            if not self._held or (len(self._held) < len(self._open) and self._open.startswith(self._held)):
                return False
            self._held = self._held.removeprefix(self._open)  # in_thought, and the model wrote the tag all the same
            self._begun = True
        thought, tag, rest = self._held.partition(self._close)
        if not tag:
            kept = _beginning_of(self._close, thought)
            rest = thought[len(thought) - kept :]
            thought = thought[: len(thought) - kept]
        if thought:
            found.append(("reasoning", thought))
        self._held = rest
        if tag:
            self._state = _AFTER
        return bool(tag)

    def _speak(self, found: list[Piece]) -> bool:
        text = self._held
        at = text.find(self._close)
        while at >= 0:
            end = at + len(self._close)
            alone = text[at - 1] == "\n" if at else self._line_start
            if alone and end == len(text):
                break  # the next piece tells whether the tag is alone on its line
            if alone and text[end] in "\r\n":
                found.append(("all_was_reasoning", text[:at]))
                self._held = text[end:]
                self._state = _AFTER
                return True
            at = text.find(self._close, end)
        if at < 0:
            line = text.rfind("\n") + 1
            tail = text[line:]
            at = line if (line or self._line_start) and tail and self._close.startswith(tail) else len(text)
        if at:
            found.append(("text", text[:at]))
            self._line_start = text[at - 1] == "\n"
        self._held = text[at:]
        return False


def _beginning_of(tag: str, text: str) -> int:
    """How many of the text's last characters may be the beginning of the tag."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:length]):
            return length
    return 0
