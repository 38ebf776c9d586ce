"""What a tool call comes to: a text for the model, apart from it whether it went well, and the kind of what went wrong."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

import attrs

from retinue.mailbox.constructors import quicken

__all__ = ["ERROR_KINDS", "ActionState", "Artifact", "ToolErrorKind", "ToolResult", "action_state"]

ToolErrorKind: TypeAlias = Literal[
    "arguments", "unknown", "denied", "rejected", "timeout", "raised", "cancelled", "exit", "parsing", "outcome_unknown"
]
"""What went wrong, as a stable word.

"arguments": they do not fit the tool's schema, or are no JSON; nothing was run. "unknown": there is no such tool. "denied": authority does not permit it.
"rejected": a person said no. "timeout": it was not done in time. "raised": the tool raised an exception. "cancelled": the run was. "exit": its process ended
with another code than 0. "parsing": the model's text was no call. "outcome_unknown": it may or may not have been done.
"""

ERROR_KINDS: Final[tuple[ToolErrorKind, ...]] = get_args(ToolErrorKind)

ActionState: TypeAlias = Literal["SUCCESS", "ARGS_ERROR", "API_ERROR", "HTTP_ERROR"]
"""The states that Lagent's action contract has for a call that is over."""


@attrs.frozen
class Artifact:
    """A long output that is kept apart; the model gets a preview of it and the handle.

    Attributes:
        handle: By which it is read: `read_result(handle, start, length)`.
        characters: How long the whole text is.
        preview: What the model was given of it: head and tail.
    """

    __immutable__: ClassVar[bool] = True

    handle: str
    characters: int
    preview: str = ""


@attrs.frozen
class ToolResult:
    """The answer of a tool's executor. It is immutable: whoever holds one holds what everybody sees.

    Attributes:
        ok: Whether the call did what it was for. A text that speaks of an error is no error, and an error is none of the text's business.
        text: What the model gets: the output, or what went wrong and what would be right.
        error: The kind of what went wrong; None where `ok`.
        value: What the function returned, for programs; None where nothing, or not kept (a subprocess, an error).
        artifact: Where the whole output is, if `text` is only a preview of it.
        seconds: How long the function ran; None where it did not, or nobody measured.
    """

    __immutable__: ClassVar[bool] = True

    ok: bool
    text: str
    error: ToolErrorKind | None = None
    value: Any = None
    artifact: Artifact | None = None
    seconds: float | None = None

    @classmethod
    def failed(cls, error: ToolErrorKind, text: str, *, seconds: float | None = None) -> ToolResult:
        """The result of a call that did not do what it was for."""
        return cls(False, text, error, None, None, seconds)


quicken(Artifact)
quicken(ToolResult)


def action_state(result: ToolResult) -> ActionState:
    """The state of Lagent's action contract that says the same: what is no success is "ARGS_ERROR" where the arguments were wrong, else "API_ERROR"."""
    if result.ok:
        return "SUCCESS"
    return "ARGS_ERROR" if result.error in ("arguments", "parsing") else "API_ERROR"
