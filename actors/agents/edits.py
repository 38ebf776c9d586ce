"""Calls whose arguments a person has changed: what is sent is decoded anew, by the tool's own types, as if the model had written it."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from retinue.actors.agents.calling import plain_argument
from retinue.actors.agents.errors import HookBlocked
from retinue.security.canonical import canonical_of_stored
from retinue.security.errors import CanonicalError
from retinue.security.records import FlagValue, Member, Record

if TYPE_CHECKING:
    from retinue.actors.agents.run import Turn
    from retinue.actors.llm.messages import ToolCall
    from retinue.capabilities.tools import Tool

__all__ = ["edited", "hooked", "plain_stored", "same_as_stored"]


def edited(tool: Tool[Any, Any], call: ToolCall, arguments: Mapping[str, Any]) -> tuple[Any, str]:
    """The message of a call with the arguments that a person has put there, and those as JSON text.

    Args:
        tool: The tool.
        call: The call as it was before.
        arguments: As the desk keeps them: messages and enums among them are records of what they were.

    Raises:
        BadArguments: They do not fit the tool's types, its bounds among them.
    """
    before = tool.call(tool.decode(call.arguments))
    plain: dict[str, Any] = {}
    for name, value in arguments.items():
        old = before.get(name)
        plain[name] = old if name in before and same_as_stored(old, value) else plain_stored(value, old)
    text = json.dumps(plain, ensure_ascii=False, default=plain_argument)
    return tool.decode(text), text


def same_as_stored(value: Any, stored: Any) -> bool:
    """Whether a value is the one that the desk keeps."""
    try:
        return canonical_of_stored(value) == canonical_of_stored(stored)
    except CanonicalError:
        return False


def plain_stored(value: Any, old: Any) -> Any:
    """A stored value as JSON has it; `old` is what stood in its place, whose class knows the values of an enum."""
    if isinstance(value, Record):
        return {name: plain_stored(field, getattr(old, name, None)) for name, field in value.fields}
    if isinstance(value, Member):
        kind = type(old)
        member = kind.__members__.get(value.name) if isinstance(old, enum.Enum) else None
        return value.name if member is None else member.value
    if isinstance(value, FlagValue):
        return value.number
    if isinstance(value, Mapping):
        return {name: plain_stored(item, old.get(name) if isinstance(old, Mapping) else None) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [
            plain_stored(item, old[index] if isinstance(old, list | tuple) and index < len(old) else None)
            for index, item in enumerate(value)
        ]
    return value


async def hooked(turn: Turn, tool: Tool[Any, Any], call: ToolCall, message: Any, text: str) -> tuple[Any, str]:
    """The message of a call that a person has changed, and its arguments' text, after the hooks have seen it. What they put there nobody has approved: it is asked anew.

    Raises:
        HookBlocked: They block it.
        BadArguments: They have put something there that does not fit.
    """
    shown: ToolCall = await turn.run_hooks("before_tool_call", attrs.evolve(call, arguments=text))
    if shown.name != call.name:
        raise HookBlocked(
            f"{turn.d.path}: a hook has put a call of another tool in the place of one that a person has changed",
            phase="before_tool_call",
            hook="",
            reason="a hook has put another tool in its place after a person had changed it",
        )
    return (message if shown.arguments == text else tool.decode(shown.arguments)), shown.arguments
