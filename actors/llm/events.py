"""What a streamed answer consists of: pieces of text and of tool calls, and at last the whole.

    TextDelta | ReasoningDelta | ToolCallDelta | Retrying … Completed

A stream that does not fail ends with exactly one `Completed`; nothing comes after it. A plain answer is the `fold` of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import attrs

from retinue.actors.llm.completion import Completion
from retinue.mailbox.constructors import quicken

__all__ = ["Completed", "ModelEvent", "ReasoningDelta", "Retrying", "TextDelta", "ToolCallDelta", "fold"]


@attrs.frozen
class TextDelta:
    """The next piece of the answer's text.

    Attributes:
        text: The piece, never empty, never half a character.
    """

    __immutable__ = True

    text: str


@attrs.frozen
class ReasoningDelta:
    """The next piece of what the model thinks before it speaks.

    Attributes:
        text: The piece, never empty, never half a character.
    """

    __immutable__ = True

    text: str


@attrs.frozen
class ToolCallDelta:
    """The next piece of a tool call, to show it while it grows. The calls to be run are those of `Completed`.

    Attributes:
        index: Which call of the answer, from 0.
        id: The call's id; the same in all its pieces, and in `Completed`.
        name: The tool's name as far as it is known.
        arguments: The next piece of the arguments' JSON text, maybe "".
    """

    __immutable__ = True

    index: int
    id: str
    name: str
    arguments: str


@attrs.frozen
class Retrying:
    """The deployment asks again. Comes only before the first piece of an answer.

    Attributes:
        reason: What went wrong, in one line.
        attempt: Which attempt comes next; 2 for the first retry.
        seconds: How long it waits before.
        code: The code of what went wrong, such as "model.timeout"; None where it has none.
    """

    __immutable__ = True

    reason: str
    attempt: int
    seconds: float
    code: str | None = None


@attrs.frozen
class Completed:
    """The whole answer; always the last event.

    Attributes:
        completion: What a plain request would have been answered with.
    """

    __immutable__ = True

    completion: Completion


for _each in (TextDelta, ReasoningDelta, ToolCallDelta, Retrying, Completed):  # one is made for every piece of every answer
    quicken(_each)


ModelEvent: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta | Retrying | Completed
"""One event of a streamed answer."""


def fold(events: Iterable[ModelEvent]) -> Completion:
    """Make a plain answer of a stream's events.

    Raises ValueError for events that do not end with the one `Completed`.
    """
    found: Completion | None = None
    for event in events:
        if found is not None:
            raise ValueError(f"a {type(event).__name__} comes after Completed: a stream of a model ends with it")
        if type(event) is Completed:
            found = event.completion
    if found is None:
        raise ValueError("the events of a model end without Completed: the answer is not whole")
    return found
