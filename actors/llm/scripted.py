"""A model that says what it was told to say: for tests, and for examples that run offline. It never pretends to be clever."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from retinue.actors.llm.errors import ModelError, ScriptEnded
from retinue.actors.llm.messages import Complete, Completion

__all__ = ["SCRIPTED", "Line", "Script"]

SCRIPTED = "scripted"
"""The name that completions of a script give as their model."""

Line = str | Callable[[Complete], str] | ModelError
"""One answer: a text, a function that makes it from the request, or an error of a model's that is raised instead."""


class Script:
    """What a scripted model answers.

    Args:
        lines: A text or a function: the answer to every request. Or a sequence of lines: one for each request, in order.

    Raises TypeError for what is none of these.
    """

    __slots__ = ("_always", "_lines", "_told")

    def __init__(self, lines: str | Callable[[Complete], str] | Iterable[Line]) -> None:
        self._always: Line | None = None
        self._lines: list[Line] = []
        self._told = 0
        if isinstance(lines, str) or callable(lines):
            self._always = _checked(lines)
        elif isinstance(lines, Iterable):
            self._lines = [_checked(line) for line in lines]
        else:
            raise TypeError(f"a script is a {type(lines).__name__}: give a text, a function of the request, or a sequence of lines")

    def answer(self, request: Complete) -> Completion:
        """Return the next answer. Raises ScriptEnded when there is none left, and the line itself where it is an error."""
        line = self._always
        if line is None:
            if self._told == len(self._lines):
                raise ScriptEnded(
                    f"the script of the model has {len(self._lines)} lines and was asked for one more: "
                    f"give it more lines, or a function that answers every request"
                )
            line = self._lines[self._told]
            self._told += 1
        if isinstance(line, ModelError):
            raise line
        text = line if isinstance(line, str) else line(request)
        if not isinstance(text, str):
            raise TypeError(f"a function in the script of a model returned a {type(text).__name__}: return the text of the answer")
        return Completion(text, SCRIPTED, finish_reason="stop")


def _checked(line: object) -> Line:
    if isinstance(line, str | ModelError) or callable(line):
        return cast("Line", line)
    raise TypeError(f"a line of a model's script is a {type(line).__name__}: give a text, a function of the request, or a ModelError")
