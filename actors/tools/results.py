"""What came of a call, as the result that its asker gets."""

from __future__ import annotations

from types import CoroutineType
from typing import TYPE_CHECKING, Any

import trio

from retinue.actors.tools.rendering import Joined, clean, error_text, text_of
from retinue.capabilities.tool_results import ToolResult
from retinue.security.errors import ApprovalRequired, AuthorityError

if TYPE_CHECKING:
    from retinue.capabilities.tools import Tool

__all__ = ["finished", "is_not_the_tools", "late", "raised", "timed"]


def finished(tool: Tool[..., Any], value: Any, seconds: float | None) -> ToolResult:
    """The result for what a function gave, in its whole length."""
    kind = value.__class__
    if kind is str:
        return ToolResult(True, value if value.isascii() else clean(value), None, value, None, seconds)
    if kind is Joined:
        text = value.text()
        return ToolResult(True, text, None, text, None, seconds)
    if kind is ToolResult:
        text = clean(value.text)
        return value if text is value.text else ToolResult(value.ok, text, value.error, value.value, value.artifact, value.seconds)
    if kind is CoroutineType:
        value.close()
        return ToolResult.failed(
            "raised", f"the tool {tool.name!r} returned a coroutine that nobody awaits: it must be written as `async def`", seconds=seconds
        )
    return ToolResult(True, text_of(value), None, value, None, seconds)


def is_not_the_tools(error: BaseException) -> bool:
    """Whether what came out of a coroutine in the loop is a cancellation, or its being closed: neither is the tool's to answer for."""
    kind = error.__class__
    if kind is trio.Cancelled or kind is GeneratorExit:
        return True
    return isinstance(error, BaseExceptionGroup) and error.split(trio.Cancelled)[0] is not None


def raised(tool: Tool[..., Any], error: BaseException, seconds: float | None) -> ToolResult:
    """The result for what a function raised."""
    if isinstance(error, ApprovalRequired):
        return ToolResult.failed(
            "denied", f"something that the tool {tool.name!r} does needs a person's approval: {error_text(error)}", seconds=seconds
        )
    if isinstance(error, AuthorityError):
        return ToolResult.failed(
            "denied", f"something that the tool {tool.name!r} does is not permitted: {error_text(error)}", seconds=seconds
        )
    if isinstance(error, trio.Cancelled):  # of what a thread has asked for: the system ends
        return ToolResult.failed("cancelled", f"what the tool {tool.name!r} waited for was cancelled", seconds=seconds)
    return ToolResult.failed("raised", f"the tool {tool.name!r} raised {error_text(error)}", seconds=seconds)


def late(tool: Tool[..., Any], what: str) -> ToolResult:
    """The result of a call that came to its time-out."""
    return ToolResult.failed(
        "timeout", f"the tool {tool.name!r} did not end within {tool.timeout:g} s{f'; {what}' if what else ''}", seconds=tool.timeout
    )


def timed(result: ToolResult, seconds: float) -> ToolResult:
    """The result with the time that it took."""
    if result.seconds is not None:
        return result
    return ToolResult(result.ok, result.text, result.error, result.value, result.artifact, seconds)
