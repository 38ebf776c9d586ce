"""Parsers of tool calls that stand in a text between two marks: Lagent's tool, interpreter, plugin and mixed parsers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from retinue.actors.agents.parsers import MAX_CALLS, Parsed, ParsedCall, Parser, fill_in, json_object
from retinue.security.errors import DefinitionError

__all__ = ["InterpreterParser", "MixedToolParser", "PluginParser", "ToolParser", "Validate"]

Validate = Callable[[str], Any]
"""Checks a block: gives what it means (a dict with a name and parameters, a str), or raises whatever it likes."""

MAX_ENDS: Final = 8
"""End marks that are tried for one block: the first ones may stand in a string of its content."""


@attrs.frozen
class _Block:
    """A block as it was found: where it begins, where the text goes on after it, what stands in it."""

    start: int
    stop: int
    content: str
    closed: bool


class ToolParser(Parser):
    """Finds blocks between a begin and an end mark: every one of them, as a call of this kind of tool.

    Args:
        tool_type: What this kind of tool is called.
        template: What the model is told, its `{name}` places filled with the fields. (`{begin}` and `{end}` are the marks.)
        begin: The mark before a block. White space at its end may be missing or other white space.
        end: The mark after it. A reply may end without it, as stop words usually cut it off, unless the reply's token limit did.
        validate: Checks each block; what it raises makes the call an error. Default: any text will do.
        tool: The tool that a block of plain text is for; without it such a block is run by none.
        parameter: The tool's parameter that takes the text.
        fields: What goes into the template.

    Raises:
        DefinitionError: An empty mark, or a place of the template without a field.
    """

    __slots__ = ("_instruction", "begin", "end", "parameter", "tool", "tool_type", "validate")

    def __init__(
        self,
        tool_type: str,
        template: str = "",
        *,
        begin: str = "<tool>\n",
        end: str = "</tool>\n",
        validate: Validate | None = None,
        tool: str | None = None,
        parameter: str = "command",
        **fields: Any,
    ) -> None:
        where = f"{type(self).__name__}({tool_type!r})"
        if not begin.strip() or not end.strip():
            raise DefinitionError(f"{where}: begin={begin!r} and end={end!r} have to be texts that can be seen")
        self.tool_type = tool_type
        self.begin = begin
        self.end = end
        self.validate = validate
        self.tool = tool
        self.parameter = parameter
        self._instruction = fill_in(template, {"begin": begin, "end": end, "tool_type": tool_type, **fields}, where)

    def parts(self) -> tuple[tuple[str | None, str], ...]:
        """The template, filled in."""
        return ((self.tool_type, self._instruction),) if self._instruction else ()

    def parse(self, text: str, *, truncated: bool = False) -> Parsed:
        """The calls of a reply."""
        return _parse(text, (self,), truncated=truncated)

    def render(self, parsed: Parsed) -> str:
        """Thought, calls between their marks, rest."""
        return parsed.thought + "".join(self.begin + call.text + self.end for call in parsed.calls) + parsed.rest

    def find(self, text: str, position: int) -> int:
        """Where the next block begins, or -1."""
        mark = self.begin.rstrip()
        spaced = len(mark) != len(self.begin)
        while True:
            position = text.find(mark, position)
            after = position + len(mark)
            if position < 0 or not spaced or after == len(text) or text[after].isspace():
                return position
            position += 1

    def take(self, text: str, start: int, *, truncated: bool) -> tuple[_Block, ParsedCall]:
        """The block that begins there, and the call that it is: the shortest block that is valid, or else the shortest."""
        inside = start + len(self.begin.rstrip())
        if len(self.begin.rstrip()) != len(self.begin):
            inside = _after_line(text, inside)
        first: tuple[_Block, ParsedCall] | None = None
        position = inside
        for _ in range(MAX_ENDS):
            block = self._block(text, start, inside, position)
            if first is not None and not block.closed:
                break
            call = self._call(block, truncated=truncated)
            first = first or (block, call)
            if call.ok:
                return block, call
            if not block.closed or self.validate is None:
                break
            position = block.stop
        assert first is not None
        return first

    def _block(self, text: str, start: int, inside: int, position: int) -> _Block:
        # An end mark that begins with a line's end may stand right after the begin mark, whose own line's end it is then.
        ahead = len(self.end) - len(self.end.lstrip("\n"))
        found = text.find(self.end, max(start, position - ahead))
        if found >= 0:
            return _Block(start, found + len(self.end), text[inside : max(found, inside)], closed=True)
        short = self.end.rstrip()
        if text.rstrip().endswith(short) and len(text.rstrip()) - len(short) >= position - ahead:
            found = len(text.rstrip()) - len(short)
            return _Block(start, len(text), text[inside : max(found, inside)], closed=True)
        return _Block(start, len(text), text[inside:], closed=False)

    def _call(self, block: _Block, *, truncated: bool) -> ParsedCall:
        content = block.content
        if truncated and not block.closed:
            return self._bad(content, "the answer's token limit cut it off before its end; write it again, shorter")
        if self.validate is None:
            return self._of(content, content)
        try:
            value = self.validate(content)
        except Exception as error:  # a validation of the user's may raise anything; its text is for the model
            return self._bad(content, str(error)[:1000] or type(error).__name__)
        return self._of(content, content if value is None or value is True else value)

    def _of(self, content: str, value: Any) -> ParsedCall:
        if isinstance(value, dict):
            name, arguments = value.get("name"), value.get("parameters", value.get("arguments", {}))
            if isinstance(name, str) and name:
                if isinstance(arguments, str):
                    return ParsedCall(self.tool_type, name, arguments, content)
                if isinstance(arguments, dict):
                    return ParsedCall(self.tool_type, name, json.dumps(arguments, ensure_ascii=False), content)
                return self._bad(content, f'"parameters" of {name!r} has to be a JSON object')
            if self.tool is not None and not {"name", "parameters"} <= value.keys():
                return ParsedCall(self.tool_type, self.tool, json.dumps(value, ensure_ascii=False), content)
            return self._bad(content, 'a JSON object with "name" (the tool) and "parameters" was expected')
        text = value if isinstance(value, str) else content
        return ParsedCall(self.tool_type, self.tool, json.dumps({self.parameter: text}, ensure_ascii=False), content)

    def _bad(self, content: str, problem: str) -> ParsedCall:
        return ParsedCall(self.tool_type, None, None, content, ok=False, error=f"the {self.tool_type} call was not run: {problem}")


class InterpreterParser(ToolParser):
    """Finds blocks of code for an interpreter, in Lagent's marks.

    Args:
        template: As for ToolParser.
        tool: The tool that runs the code; default "python.run".
        parameter: Its parameter that takes it; default "code".
        options: As for ToolParser.
    """

    __slots__ = ()

    def __init__(
        self, template: str = "", *, tool: str = "python.run", parameter: str = "code", tool_type: str = "interpreter", **options: Any
    ) -> None:
        marks = {"begin": "<|action_start|><|interpreter|>\n", "end": "<|action_end|>\n"}
        super().__init__(tool_type, template, tool=tool, parameter=parameter, **{**marks, **options})


class PluginParser(ToolParser):
    """Finds calls `{"name": …, "parameters": {…}}`, in Lagent's marks.

    Args:
        template: As for ToolParser.
        options: As for ToolParser.
    """

    __slots__ = ()

    def __init__(self, template: str = "", *, tool_type: str = "plugin", **options: Any) -> None:
        marks = {"begin": "<|action_start|><|plugin|>\n", "end": "<|action_end|>\n", "validate": json_object}
        super().__init__(tool_type, template, **{**marks, **options})


class MixedToolParser(Parser):
    """Finds the calls of several kinds of tools, in the order in which they stand in the text.

    Args:
        parsers: One for each kind of tool; no two with the same begin mark.
        template: What the model is told before what they tell it, its `{name}` places filled with the fields.
        fields: What goes into the template.

    Raises:
        DefinitionError: No parser, or two that cannot be told apart.
    """

    __slots__ = ("_text", "parsers")

    def __init__(self, parsers: Iterable[ToolParser], template: str = "", **fields: Any) -> None:
        self.parsers = tuple(parsers)
        self._text = fill_in(template, fields, "MixedToolParser")
        begins = [parser.begin.strip() for parser in self.parsers]
        if not begins or len(set(begins)) != len(begins):
            raise DefinitionError(f"MixedToolParser: give at least one parser, each with a begin mark of its own (they have {begins})")

    def parts(self) -> tuple[tuple[str | None, str], ...]:
        """The template, then each parser's."""
        own: tuple[tuple[str | None, str], ...] = ((None, self._text),) if self._text else ()
        return own + tuple(part for parser in self.parsers for part in parser.parts())

    def parse(self, text: str, *, truncated: bool = False) -> Parsed:
        """The calls of a reply."""
        return _parse(text, self.parsers, truncated=truncated)

    def render(self, parsed: Parsed) -> str:
        """Thought, calls between their marks, rest."""
        by_type = {parser.tool_type: parser for parser in self.parsers}
        calls = "".join(by_type[call.tool_type].begin + call.text + by_type[call.tool_type].end for call in parsed.calls)
        return parsed.thought + calls + parsed.rest


def _parse(text: str, parsers: tuple[ToolParser, ...], *, truncated: bool) -> Parsed:
    calls: list[ParsedCall] = []
    outside: list[str] = []
    position = 0
    ahead = [parser.find(text, 0) for parser in parsers]
    while len(calls) <= MAX_CALLS:
        # Of two marks at the same place the longer one is meant.
        places = [
            (start, -len(parser.begin), index) for index, (parser, start) in enumerate(zip(parsers, ahead, strict=True)) if start >= 0
        ]
        if not places:
            break
        start, _, index = min(places)
        outside.append(text[position:start])
        block, call = parsers[index].take(text, start, truncated=truncated)
        calls.append(call)
        position = block.stop
        ahead = [
            start if start < 0 or start >= position else parser.find(text, position) for parser, start in zip(parsers, ahead, strict=True)
        ]
    if not calls:
        return Parsed(text)
    thought, rest = outside[0], "".join([*outside[1:], text[position:]])
    errors = [call.error for call in calls if call.error]
    if len(calls) > MAX_CALLS:
        errors.append(f"the answer has more than {MAX_CALLS} calls; none of them was run")
    return Parsed(thought, tuple(calls), "error" if errors else "valid", rest, error="\n".join(errors[:10]) or None)


def _after_line(text: str, position: int) -> int:
    """Past the blanks of a line and its end."""
    while position < len(text) and text[position] in " \t\r":
        position += 1
    return position + 1 if position < len(text) and text[position] == "\n" else position
