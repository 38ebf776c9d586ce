"""What a tool call's span says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retinue.actors.tracing import names
from retinue.capabilities.tool_results import ToolResult

if TYPE_CHECKING:
    from retinue.actors.runtime.tracing import TurnSpan

__all__ = ["call_begins", "call_ends"]


def call_begins(actor: Any, span: TurnSpan, message: Any) -> None:
    """The call: the tool's name, and its arguments where they are exported."""
    tool = actor.tool
    if not isinstance(message, tool.message):
        return
    span.rename(f"execute_tool {tool.name}")
    span.mark({names.OPERATION: "execute_tool", names.TOOL_NAME: tool.name})
    span.content(names.CALL_ARGUMENTS, message)


def call_ends(actor: Any, span: TurnSpan, message: Any, value: object) -> None:
    """The result. One that says what went wrong is an error of the span, by its kind."""
    del actor, message
    if not isinstance(value, ToolResult):
        return
    if not value.ok:
        span.fail(value.error or "error")
    span.content(names.CALL_RESULT, value.text)
