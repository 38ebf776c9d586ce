"""Output parsers: what a model said, taken apart. For models without tool calling of their own, which write their calls into the text.

A parser is a pure function with a face: it never runs anything. It finds *every* call of a reply, says of each whether it may be run, and keeps what stands before,
between and after them. The names and statuses are Lagent's.
"""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar, Final, Literal, TypeAlias

import attrs

from retinue.actors.llm.messages import ToolCall
from retinue.security.errors import DefinitionError

__all__ = ["MAX_CALLS", "Parsed", "ParsedCall", "Parser", "Status", "StrParser", "fill_in", "json_object"]

Status: TypeAlias = Literal["no_tool", "valid", "error"]
"""What a reply is: text alone; with calls, all of which may be run; with at least one that may not, or not what it had to be."""

NUMBER_OF: Final[dict[Status, int]] = {"no_tool": 0, "valid": 1, "error": -1}
"""Lagent's numbers for the statuses: NO_TOOL, VALID_TOOL, PARSING_ERROR."""

MAX_CALLS: Final = 64
"""Calls of one reply that are looked at; a reply with more is an error, so that none of it is run by half."""


@attrs.frozen
class ParsedCall:
    """A tool call found in a text.

    Attributes:
        tool_type: The parser's word for the kind of tool ("interpreter", "plugin").
        name: The tool's name; None where the text names none. Such a call is nobody's: it is never given to some other tool.
        arguments: The arguments as the text of a JSON object; None where they could not be read.
        text: The block as the model wrote it.
        ok: Whether it passed its validation. One that did not is never run.
        error: What is wrong, for the model; None where `ok`.
    """

    __immutable__: ClassVar[bool] = True

    tool_type: str
    name: str | None
    arguments: str | None
    text: str
    ok: bool = True
    error: str | None = None

    def as_tool_call(self, call_id: str) -> ToolCall:
        """The same call as a model with tool calling of its own makes it.

        Raises:
            ValueError: The call may not be run.
        """
        if not self.ok or self.name is None or self.arguments is None:
            raise ValueError(f"the {self.tool_type} call may not be run: {self.error or 'it names no tool'}")
        return ToolCall(call_id, self.name, self.arguments)


@attrs.frozen
class Parsed:
    """A reply, taken apart.

    Attributes:
        thought: What stands before the first call; the whole text where there is none.
        calls: Every call, in order.
        status: See `Status`.
        rest: What stands after the first call, outside of the calls.
        value: What a parser made of the text for programs; None for those that look for calls.
        error: What is wrong with the reply, for the model; None where nothing is.
        said: The answer in words, where it is a part of the text; None where the text is the answer as it is.
    """

    thought: str
    calls: tuple[ParsedCall, ...] = ()
    status: Status = "no_tool"
    rest: str = ""
    value: Any = None
    error: str | None = None
    said: str | None = None

    @property
    def formatted(self) -> Any:
        """What stands in `AgentMessage.formatted`: the parser's value; of calls a dict in Lagent's form (of the first), with all of them under "calls"."""
        if self.value is not None or not self.calls:
            return self.value
        first = self.calls[0]
        return {
            "tool_type": first.tool_type,
            "thought": self.thought,
            "action": first.text
            if first.arguments is None or first.name is None
            else {"name": first.name, "parameters": json.loads(first.arguments)},
            "status": NUMBER_OF[self.status],
            "calls": [
                {"tool_type": call.tool_type, "name": call.name, "text": call.text, "ok": call.ok, "error": call.error}
                for call in self.calls
            ],
        }


class Parser:
    """What takes a model's replies apart. Derive from it and override `parse`; the others have defaults."""

    __slots__ = ()

    thinks: ClassVar[bool] = False
    """Whether `Parsed.thought` is what the model thinks, and nothing that it says: a reader is told it as `ReasoningDelta` then."""

    def parse(self, text: str, *, truncated: bool = False) -> Parsed:
        """The reply, taken apart.

        Args:
            text: What the model said.
            truncated: Whether its token limit cut it off: then a call without its end is an error.
        """
        raise NotImplementedError

    def instruction(self) -> str | None:
        """What the model is told about the form of its answers; None: nothing."""
        parts = [text for _, text in self.parts()]
        return "\n\n".join(parts) if parts else None

    def parts(self) -> tuple[tuple[str | None, str], ...]:
        """The instruction in parts: the kind of tool that each is about (None: all), and its text."""
        return ()

    def render(self, parsed: Parsed) -> str:
        """A reply as the parser would have liked to read it."""
        return parsed.thought + parsed.rest


_PLACE = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|\{([A-Za-z_]\w*)\}")


def fill_in(template: str, fields: dict[str, Any], where: str) -> str:
    """A template with its `{name}` places filled in. `{{name}}` becomes `{name}`; all other braces stay as they are, JSON's above all.

    Raises:
        DefinitionError: A place without a field.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[0][1:-1]
        name = match[2]
        if name not in fields:
            raise DefinitionError(
                f"{where}: the template's {{{name}}} has no field: give {name}=…, or write {{{{{name}}}}} for the word in braces"
            )
        return str(fields[name])

    return _PLACE.sub(value, template)


class StrParser(Parser):
    """Leaves replies as they are.

    Args:
        template: What the model is told; its `{name}` places are filled with the fields.
        fields: What goes into them.

    Raises:
        DefinitionError: A place without a field.
    """

    __slots__ = ("_text",)

    def __init__(self, template: str = "", **fields: Any) -> None:
        self._text = fill_in(template, fields, "StrParser")

    def parse(self, text: str, *, truncated: bool = False) -> Parsed:  # noqa: ARG002 -- text is text, cut off or not
        """The text, as value too."""
        return Parsed(text, value=text)

    def parts(self) -> tuple[tuple[str | None, str], ...]:
        """The template, filled in."""
        return ((None, self._text),) if self._text else ()


_FENCE = re.compile(r"\s*```[ \t]*[A-Za-z0-9_+-]{0,20}[ \t]*\r?\n(.*?)(?:\r?\n)?[ \t]*```\s*", re.DOTALL)


def json_object(text: str, *, any_value: bool = False) -> Any:
    """The JSON object that a text is, in a code fence or not.

    Raises:
        ValueError: It is none; the text says where and why, for the model.
    """
    fenced = _FENCE.fullmatch(text)
    source = (fenced[1] if fenced else text).strip()
    if not source:
        raise ValueError("there is nothing where a JSON object was expected")
    try:
        value = json.loads(source, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError("no JSON that can be read: it is nested too deeply") from None
    if not any_value and type(value) is not dict:
        raise ValueError(f"a JSON object was expected, and a JSON {_JSON_NAME.get(type(value), 'value')} came")
    return value


_JSON_NAME: Final[dict[type, str]] = {list: "array", str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def _no_constant(name: str) -> Any:
    raise ValueError(f"no JSON: {name} is no JSON number")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"no JSON that can be taken: {twice!r} stands in one object twice")
    return found
