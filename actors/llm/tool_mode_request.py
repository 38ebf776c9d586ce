"""How a request with tools is put to a model that knows no tools: its text, and the form that the reply is held to."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import attrs

from retinue.actors.llm.calls import is_object
from retinue.actors.llm.completion import ToolCall
from retinue.actors.llm.messages import ChatMessage, Complete, OutputSpec, ToolSpec

__all__ = ["Firmness", "has_tools", "reply_schema", "rewritten"]

Firmness: TypeAlias = Literal["grammar", "exact", "loose", "told"]
"""What a reply is held to: the tools' own schemas, by a grammar of llguidance or by a schema; any object as arguments; nothing but the instructions."""

_TIGHT = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":", "coerce_one_of": True, "lenient": True}
"""What llguidance is told beside the schema: no blanks, for which small models spend half of their tokens; and to take what it can."""

_ANY_OBJECT = {"type": "object"}
_MOST_REPEATED = 100  # grammars unroll bounds; a larger one is checked afterwards only
_BOUNDS = frozenset(("minLength", "maxLength", "minItems", "maxItems"))
_SCHEMA_MAPS = frozenset(("properties", "$defs", "definitions"))
_SCHEMA_LISTS = frozenset(("anyOf", "oneOf", "allOf", "prefixItems"))
_ADDING = frozenset(("$ref", "anyOf", "oneOf", "allOf"))  # which may bring properties from elsewhere
_KEPT = frozenset(("type", "enum", "const", "required", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"))


def has_tools(request: Complete) -> bool:
    """Whether a request has anything that a model without tools does not understand."""
    return bool(request.tools) or any(entry.role == "tool" or entry.tool_calls for entry in request.messages)


def rewritten(request: Complete, firmness: Firmness) -> Complete:
    """Return the same request, without tools: for a model that is told of them in words.

    Args:
        request: What is asked.
        firmness: What the reply is held to.
    """
    tools = _callable(request)
    output, stop, extra = request.output, request.stop, request.extra
    if tools:
        may_answer = request.tool_choice in (None, "auto")
        messages = _spoken(request.messages, "text in JSON" if output is None else "JSON in JSON")
        messages = _with_instructions(messages, _told(tools, may_answer, output))
        form = None if firmness == "told" else reply_schema(tools, may_answer, output, firmness)
        output = None
        if form is not None and firmness == "grammar":
            extra = _json(
                {"grammar": f'%llguidance {{}}\nstart: %json {{"x-guidance":{_json(_TIGHT)},{form[1:]}', **json.loads(extra or "{}")}
            )
        elif form is not None:
            output = OutputSpec("reply", form)
        stop = tuple(_json(text)[1:-1] for text in stop)  # they stand within a JSON string by now
    else:
        messages = _spoken(request.messages, "text")
    return Complete(
        messages, request.max_tokens, request.temperature, stop, request.seed, output=output, reasoning_effort=request.reasoning_effort,
        extra=extra,
    )  # fmt: skip


def _callable(request: Complete) -> tuple[ToolSpec, ...]:
    """The tools that may be called now."""
    choice = request.tool_choice
    if choice == "none":
        return ()
    if choice in (None, "auto", "required"):
        return request.tools
    return tuple(tool for tool in request.tools if tool.name == choice)


def _told(tools: tuple[ToolSpec, ...], may_answer: bool, output: OutputSpec | None) -> str:
    # Tried with SmolLM2-135M: small models call where a tool is shown as the line that calls it, and answer else.
    lines = ['Reply with one line of JSON: {"tool":"NAME","arguments":{}} to call a tool']
    if not may_answer:
        lines[0] += "."
    elif output is None:
        lines[0] += ', or {"answer":"..."} when you know the answer.'
    else:
        lines[0] += f', or {{"answer":VALUE}} when you know the answer. The VALUE has to fit this JSON Schema: {output.schema.strip()}'
    lines.append("\nTools, with the JSON Schemas of their arguments:")
    lines += [
        f'{{"tool":{_json(tool.name)},"arguments":{tool.parameters.strip()}}} {" ".join(tool.description.split())}'.rstrip()
        for tool in tools
    ]
    return "\n".join(lines)


def reply_schema(tools: tuple[ToolSpec, ...], may_answer: bool, output: OutputSpec | None, firmness: Firmness) -> str:
    """Return the JSON Schema of a reply, as JSON text: a call of one of the tools, or an answer.

    The keys stand in the order in which the model is to write them: the tool's name before its arguments.

    Args:
        tools: Those that may be called.
        may_answer: Whether there may be an answer in place of a call.
        output: The form of that answer; None for a text.
        firmness: Any but "told".
    """
    definitions: dict[str, Any] = {}
    forms = []
    for number, tool in enumerate(tools):
        arguments = _placed(tool.parameters, f"tool_{number}", definitions) if firmness != "loose" else _ANY_OBJECT
        forms.append(_object({"tool": {"const": tool.name}, "arguments": arguments}))
    if may_answer:
        answer: Any = {"type": "string", "minLength": 1}
        if output is not None:
            answer = _placed(output.schema, "answer", definitions)
        forms.append(_object({"answer": answer}))
    schema: dict[str, Any] = {"anyOf": forms} if len(forms) > 1 else forms[0]
    if definitions:
        schema = {**schema, "$defs": definitions}
    return _json(schema)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _placed(schema: str, name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """A schema, given as its text, as a part of a larger one: itself, or where it has references within itself a reference to it among the definitions."""
    refers: list[str] = []
    try:
        kept: dict[str, Any] = _kept(json.loads(schema), f"#/$defs/{name}", refers)
    except RecursionError:
        return _ANY_OBJECT
    if not refers:
        return kept
    definitions[name] = kept
    return {"$ref": f"#/$defs/{name}"}


def _kept(schema: Any, root: str, refers: list[str], *, is_part: bool = False) -> Any:
    """What of a schema a grammar can hold a model to. The rest is checked when the arguments are read, and would only make a grammar fail."""
    if not isinstance(schema, dict):
        return {}  # true and false
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str):
            refers.append(value)
            found[key] = root + value[1:] if value.startswith("#") else value
        elif key in _KEPT or (key in _BOUNDS and isinstance(value, int) and value <= _MOST_REPEATED):
            found[key] = value
        elif key in _SCHEMA_MAPS and isinstance(value, dict):
            found[key] = {name: _kept(each, root, refers) for name, each in value.items()}
        elif key in _SCHEMA_LISTS and isinstance(value, list):
            found[key] = [_kept(each, root, refers, is_part=key == "allOf" or "properties" in schema) for each in value]
        elif key == "items" and isinstance(value, dict):
            found[key] = _kept(value, root, refers)
        elif key == "additionalProperties":
            found[key] = value if isinstance(value, bool) else _kept(value, root, refers)
    if "properties" in found and not is_part and found.keys().isdisjoint(_ADDING):
        found.setdefault("additionalProperties", False)  # else a small model goes on to invent names
    return found


# -- the conversation ------------------------------------------------------------------------------------------------------------------------------------


def _with_instructions(messages: tuple[ChatMessage, ...], told: str) -> tuple[ChatMessage, ...]:
    first = messages[0]
    if first.role == "system":
        return (attrs.evolve(first, content=f"{first.content}\n\n{told}" if first.content else told), *messages[1:])
    return (ChatMessage("system", told), *messages)


_Answers: TypeAlias = Literal["text", "text in JSON", "JSON in JSON"]


def _spoken(messages: Iterable[ChatMessage], answers: _Answers) -> tuple[ChatMessage, ...]:
    """The conversation as the model would have had it: its calls are what it wrote, their results come from the user.

    Args:
        messages: The conversation.
        answers: How its earlier answers are written: in the form in which it is told to answer now.
    """
    found: list[ChatMessage] = []
    names: dict[str, str] = {}
    results: list[str] = []
    for entry in messages:
        if entry.role == "tool":
            assert entry.tool_call_id is not None
            results.append(
                f"Result of the tool {entry.name or names.get(entry.tool_call_id, 'that you called')}:\n{_result(entry.content)}"
            )
            continue
        if results:
            found.append(ChatMessage("user", "\n\n".join(results)))
            results = []
        if entry.role == "assistant":
            names.update((call.id, call.name) for call in entry.tool_calls)
            found.append(attrs.evolve(entry, content=_said(entry, answers), tool_calls=()))
        else:
            found.append(entry)
    if results:
        found.append(ChatMessage("user", "\n\n".join(results)))
    return tuple(found)


def _said(entry: ChatMessage, answers: _Answers) -> str:
    if entry.tool_calls:
        return "\n".join([*([entry.content] if entry.content else []), *(_call(call) for call in entry.tool_calls)])
    if answers == "text":
        return entry.content
    in_json = entry.content.strip() if answers == "JSON in JSON" and is_object(entry.content) else _json(entry.content)
    return f'{{"answer":{in_json}}}'


def _result(text: str) -> str:
    """What a tool gave back, on one line: a page that a search found may have lines that look like the result of another tool."""
    if len(text.splitlines()) < 2:
        return text
    return _json(text).translate({0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"})  # ends of lines that JSON leaves as they are


def _call(call: ToolCall) -> str:
    arguments = json.loads(call.arguments) if is_object(call.arguments) else {"INVALID_JSON": call.arguments}
    return _json({"tool": call.name, "arguments": arguments})


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
