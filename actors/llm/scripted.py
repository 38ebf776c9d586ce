"""A model that says what it was told to say: for tests, and for examples that run offline. It never pretends to be clever."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from retinue.actors.llm.completion import Completion, ToolCall
from retinue.actors.llm.errors import ModelError, ScriptEnded
from retinue.actors.llm.events import Completed, ModelEvent, ReasoningDelta, TextDelta, ToolCallDelta
from retinue.actors.llm.messages import Complete

__all__ = ["SCRIPTED", "Line", "Script", "pieces_of", "tool_calls"]

SCRIPTED = "scripted"
"""The name that completions of a script give as their model."""

Line: TypeAlias = str | Completion | Callable[[Complete], str | Completion] | ModelError
"""One answer: a text, a whole completion (see `tool_calls`), a function that makes one of these from the request, or an error of a model's
that is raised instead."""

_FIRST_ID = "call-1"


def tool_calls(*calls: tuple[str, Mapping[str, Any] | str], text: str = "", reasoning: str = "") -> Completion:
    """Make a line of a script with which the model calls tools.

    Args:
        calls: For each call the tool's name and its arguments: a mapping of JSON values, or the text that the model is to write, broken or not.
        text: What it says beside them; default nothing.
        reasoning: What it thinks before; default nothing.

    Raises TypeError or ValueError for what is no call. The calls' ids are "call-1", "call-2" …; a script goes on counting from line to line.
    """
    if not calls:
        raise ValueError('tool_calls() is given no call: give pairs such as ("get_weather", {"city": "Paris"})')
    return Completion(
        text,
        SCRIPTED,
        finish_reason="tool_calls",
        tool_calls=tuple(_call(call, number) for number, call in enumerate(calls, 1)),
        reasoning=reasoning,
    )


def _call(call: object, number: int) -> ToolCall:
    if not isinstance(call, tuple) or len(call) != 2 or not isinstance(call[0], str) or not isinstance(call[1], Mapping | str):
        raise TypeError(
            f'call {number} of tool_calls() is {call!r:.80}: give a pair of name and arguments, such as ("get_weather", {{"city": "Paris"}})'
        )
    name, arguments = call
    if isinstance(arguments, str):
        return ToolCall(f"call-{number}", name, arguments)
    try:
        return ToolCall(f"call-{number}", name, json.dumps(dict(arguments), ensure_ascii=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the arguments of call {number} of tool_calls(), to {name!r}, are no JSON values: {error}") from None


class Script:
    """What a scripted model answers.

    Args:
        lines: A line that is the answer to every request (a text, a completion, or a function). Or a sequence of lines: one for each request,
            in order.

    Raises TypeError for what is none of these.
    """

    __slots__ = ("_always", "_called", "_lines", "_told")

    def __init__(self, lines: str | Completion | Callable[[Complete], str | Completion] | Iterable[Line]) -> None:
        self._always: Line | None = None
        self._lines: list[Line] = []
        self._told = 0
        self._called = 0
        if isinstance(lines, str | Completion) or callable(lines):
            self._always = _checked(lines)
        elif isinstance(lines, Iterable):
            self._lines = [_checked(line) for line in lines]
        else:
            raise TypeError(f"a script is a {type(lines).__name__}: give a text, a function of the request, or a sequence of lines")

    @property
    def unused(self) -> int:
        """How many of its lines were not said yet; 0 for a script that answers every request alike."""
        return len(self._lines) - self._told

    @property
    def rest(self) -> tuple[Line, ...]:
        """The lines that were not said yet."""
        return tuple(self._lines[self._told :])

    def answer(self, request: Complete) -> Completion:
        """Return the next answer. Raises ScriptEnded when there is none left, and the line itself where it is an error."""
        line = self._always
        if line is None:
            if self._told == len(self._lines):
                raise ScriptEnded(
                    f"the script of the model has {len(self._lines)} line{'' if len(self._lines) == 1 else 's'} and was asked for one more: "
                    f"give it more lines, or a function that answers every request"
                )
            line = self._lines[self._told]
            self._told += 1
        if isinstance(line, str):
            return Completion(line, SCRIPTED, finish_reason="stop")
        if isinstance(line, ModelError):
            raise _anew(line)
        said = line(request) if callable(line) else line
        if isinstance(said, Completion):
            return self._numbered(said) if said.tool_calls else said
        if not isinstance(said, str):
            raise TypeError(
                f"a function in the script of a model returned a {type(said).__name__}: return the text of the answer, or a Completion"
            )
        return Completion(said, SCRIPTED, finish_reason="stop")

    def _numbered(self, said: Completion) -> Completion:
        """With ids that no earlier call of the script has, where they are those of `tool_calls`."""
        calls = said.tool_calls
        before, self._called = self._called, self._called + len(calls)
        if before == 0 or calls[0].id != _FIRST_ID:
            return said
        if len(calls) == 1:
            numbered: tuple[ToolCall, ...] = (ToolCall(f"call-{before + 1}", calls[0].name, calls[0].arguments),)
        else:
            numbered = tuple(ToolCall(f"call-{before + number}", call.name, call.arguments) for number, call in enumerate(calls, 1))
        return Completion(said.text, said.model, said.usage, said.finish_reason, numbered, said.reasoning, said.refusal, said.annotations)


def _anew(error: ModelError) -> ModelError:
    """The same error as another object: what is noted on the way of one does not stand on the next."""
    try:
        other = copy.copy(error)
    except Exception:  # its class cannot be made like that
        return error.with_traceback(None)
    return other if type(other) is type(error) else error.with_traceback(None)


def _checked(line: object) -> Line:
    if isinstance(line, str | Completion | ModelError) or callable(line):
        return cast("Line", line)
    raise TypeError(
        f"a line of a model's script is a {type(line).__name__}: give a text, tool_calls(…), a Completion, a function of the request, or a ModelError"
    )


_PIECES = 4


def pieces_of(completion: Completion) -> Iterator[ModelEvent]:
    """The events of a stream that folds to a completion: its text in up to four pieces, cut before a blank where there is one."""
    if completion.reasoning:
        yield ReasoningDelta(completion.reasoning)
    for piece in _cut(completion.text):
        yield TextDelta(piece)
    for index, call in enumerate(completion.tool_calls):
        yield ToolCallDelta(index, call.id, call.name, call.arguments)
    yield Completed(completion)


def _cut(text: str) -> Iterator[str]:
    step = max(1, -(-len(text) // _PIECES))
    start = 0
    while start < len(text):
        end = start + step
        blank = text.find(" ", end, end + step)
        end = blank if blank > 0 else end if len(text) - end > step // 2 else len(text)
        yield text[start:end]
        start = end
