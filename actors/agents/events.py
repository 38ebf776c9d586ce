"""What a streamed run says while it goes on. Every event is plain data; each stream has one end: `RunEnd` (in `message`), or a typed error."""

from __future__ import annotations

import attrs

from retinue.actors.llm.events import ReasoningDelta, TextDelta
from retinue.actors.llm.usage import Usage
from retinue.security.approvals import ApprovalRequest

__all__ = [
    "ApprovalNeeded",
    "HandedOff",
    "Notice",
    "ReasoningDelta",
    "TextDelta",
    "ToolFinished",
    "ToolStarted",
    "UsageSoFar",
]


@attrs.frozen
class ToolStarted:
    """A tool call begins.

    Attributes:
        call_id: Its id.
        name: The tool.
        arguments: Its arguments as JSON text, as the model wrote them; where guardrails stand at the output, what they let through.
    """

    __immutable__ = True

    call_id: str
    name: str
    arguments: str


@attrs.frozen
class ToolFinished:
    """A tool call has a result.

    Attributes:
        call_id: Its id.
        name: The tool.
        ok: Whether it was carried out.
        text: What the model is told; where guardrails stand at the output, what they let through.
    """

    __immutable__ = True

    call_id: str
    name: str
    ok: bool
    text: str


@attrs.frozen
class ApprovalNeeded:
    """Tool calls need a person's approval. The run waits, or the stream ends with `ApprovalRequired` next.

    Attributes:
        requests: What has to be decided.
        run: The run, for `Resume`.
    """

    __immutable__ = True

    requests: tuple[ApprovalRequest, ...]
    run: str


@attrs.frozen
class UsageSoFar:
    """What the run has used until now.

    Attributes:
        usage: All of it.
    """

    __immutable__ = True

    usage: Usage


@attrs.frozen
class Notice:
    """Something that the reader may want to know.

    Attributes:
        kind: "retrying", "hook", "loop", "repair" or "correction".
        text: What.
    """

    __immutable__ = True

    kind: str
    text: str


@attrs.frozen
class HandedOff:
    """A member of a team hands the conversation to another.

    Attributes:
        source: Who had it; "" at the beginning.
        target: Who has it now.
        reason: Why, in the words of whoever decided; "" where nothing was said.
    """

    __immutable__ = True

    source: str
    target: str
    reason: str = ""
