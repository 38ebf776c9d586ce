"""What came of a call, as the result that its asker gets."""

from __future__ import annotations

import logging
from types import CoroutineType, NoneType
from typing import TYPE_CHECKING, Any, Final

import trio

from retinue.actors.runtime.errors import WrongThread
from retinue.actors.tools.bounding import Exited
from retinue.actors.tools.rendering import Joined, error_text, text_of
from retinue.capabilities.places import level_of, raised_through
from retinue.capabilities.tool_results import ERROR_KINDS, Artifact, ToolResult
from retinue.security.errors import ApprovalRequired, AuthorityError, NoContext
from retinue.security.whole_texts import whole

if TYPE_CHECKING:
    from retinue.capabilities.tools import Tool

__all__ = ["finished", "is_not_the_tools", "late", "raised", "timed"]

_log = logging.getLogger("retinue.tools")

ASKS: Final = ". A tool asks an actor by a parameter `context: rt.ToolContext`: `await context.ask(ref, message)`, in a plain def `context.ask_from_thread(ref, message)`"

ASYNCIO: Final = '. Functions that use asyncio are tools with @rt.tool(loop="asyncio"): the system itself runs on trio'

_NO_ASYNCIO: Final = ("no running event loop", "There is no current event loop")
_NOT_TRIO: Final = "trio.run received unrecognized yield message"


def finished(tool: Tool[..., Any], value: Any, seconds: float | None) -> ToolResult:
    """The result for what a function gave, in its whole length."""
    kind = type(value)
    if kind is str:
        return ToolResult(True, value if value.isascii() else whole(value), None, value, None, seconds)
    if kind is Joined:
        text = value.text()
        return ToolResult(True, text, None, text, None, seconds)
    if kind is ToolResult:
        wrong = _wrong_with(value)
        if wrong:
            return ToolResult.failed("raised", f"the tool {tool.name!r} returned a ToolResult {wrong}", seconds=seconds)
        text = whole(value.text)
        return value if text is value.text else ToolResult(value.ok, text, value.error, value.value, value.artifact, value.seconds)
    if kind is CoroutineType:
        value.close()
        return ToolResult.failed(
            "raised", f"the tool {tool.name!r} returned a coroutine that nobody awaits: it must be written as `async def`", seconds=seconds
        )
    return ToolResult(True, text_of(value), None, value, None, seconds)


def _wrong_with(result: ToolResult) -> str:
    """What is wrong with a result that a tool has made itself; "" where nothing is."""
    if type(result.text) is not str:
        return "whose text is no str"
    if type(result.ok) is not bool or (result.error is not None and (type(result.error) is not str or result.error not in ERROR_KINDS)):
        return f"whose ok is no bool, or whose error is none of {', '.join(ERROR_KINDS)}"
    if result.ok and result.error is not None:
        return "that is ok and has an error"
    if (result.artifact is not None and type(result.artifact) is not Artifact) or type(result.seconds) not in (float, int, NoneType):
        return "whose artifact is no Artifact, or whose seconds are no number"
    return ""


def is_not_the_tools(error: BaseException, suspended: bool = True) -> bool:
    """Whether what came out of a coroutine in the loop is a cancellation, or its being closed: neither is the tool's to answer for.

    Args:
        error: What came out.
        suspended: Whether it had been waiting for something: else nobody has closed it.
    """
    kind = type(error)
    if kind is trio.Cancelled or (kind is GeneratorExit and suspended):
        return True
    group: Any = error
    return issubclass(kind, BaseExceptionGroup) and group.split(trio.Cancelled)[0] is not None


def raised(tool: Tool[..., Any], error: BaseException, seconds: float | None) -> ToolResult:
    """The result for what a function raised."""
    if type(error) is Exited:
        error = error.args[0]
    kind = type(error)  # what its `__class__` says is its own code
    if issubclass(kind, ApprovalRequired):
        return ToolResult.failed(
            "denied", f"something that the tool {tool.name!r} does needs a person's approval: {error_text(error)}", seconds=seconds
        )
    if issubclass(kind, AuthorityError):
        hint = ASKS if issubclass(kind, NoContext) else ""
        return ToolResult.failed(
            "denied", f"something that the tool {tool.name!r} does is not permitted: {error_text(error)}{hint}", seconds=seconds
        )
    if issubclass(kind, trio.Cancelled):  # of what a thread has asked for: the system ends
        return ToolResult.failed("cancelled", f"what the tool {tool.name!r} waited for was cancelled", seconds=seconds)
    text = error_text(error)
    level = level_of(error)
    if _log.isEnabledFor(level):
        _log.log(level, "the tool %r raised %s, which its caller is told as its result:\n%s", tool.name, text, raised_through(error))
    if kind is RuntimeError and any(words in text for words in _NO_ASYNCIO):
        text += ASYNCIO
    elif kind is TypeError and _NOT_TRIO in text:  # what was yielded says nothing to anybody
        text = f"TypeError: it awaits something of asyncio, or of another library that trio does not know{ASYNCIO}"
    elif issubclass(kind, WrongThread):
        text += ASKS
    return ToolResult.failed("raised", f"the tool {tool.name!r} raised {text}", seconds=seconds)


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
