"""An agent that thinks, acts and concludes in JSON (ReAct, Yao et al. 2022): for models without tool calling of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar, Final

import attrs

from retinue.actors.agents.agent import Agent
from retinue.actors.agents.aggregators import Conversation, default_aggregator
from retinue.actors.agents.definition import READ, spec_of, tools_of
from retinue.actors.agents.message import AgentMessage, RunLimits
from retinue.actors.agents.parsers import Parsed, ParsedCall, Parser, fill_in, json_object
from retinue.actors.llm.messages import ChatMessage
from retinue.security.errors import DefinitionError

__all__ = ["ReAct", "ReActParser"]

MAX_TURNS: Final = 5
"""Requests to the model in one run, unless it is told otherwise."""

TEMPLATE: Final = """Work in steps. Answer each time with exactly one JSON object, and without any other words.
To use a tool:
{"thought": "what you think", "action": {"name": "the tool's name", "parameters": {…}}}
Its result comes in the next message. When you know the answer, or no tool can help:
{"thought": "what you think", "conclusion": "the answer"}

{tools}"""
"""What the model is told; `{tools}` stands for the tools."""


class ReActParser(Parser):
    """Reads replies that are one JSON object each: a `thought`, and either an `action` (a tool's `name` and its `parameters`) or a `conclusion`.

    Words around the object, or a code fence, are left aside. What has both, neither, or what cannot be read is an error for the model, and nothing is run.

    Args:
        tools: The tools that the model is told of: functions, tools and toolkits, as an agent takes them.
        template: What the model is told, with `{tools}` where the tools are to stand; other braces stay as they are.

    Raises:
        DefinitionError: What is no tool, or a place of the template that has no value.
    """

    __slots__ = ("_instruction",)

    thinks: ClassVar[bool] = True

    def __init__(self, tools: Iterable[object] = (), template: str = TEMPLATE) -> None:
        if not isinstance(template, str):
            raise DefinitionError(f"ReActParser(template=…) is a {type(template).__name__}: give a str with {{tools}} in it")
        listed = [_told(tool) for tool in tools_of(tools)]
        told = "The tools:\n" + "\n".join(listed) if listed else "There are no tools: conclude."
        self._instruction = fill_in(template, {"tools": told}, "ReActParser")

    def parts(self) -> tuple[tuple[str | None, str], ...]:
        """The template, filled in."""
        return ((None, self._instruction),)

    def parse(self, text: str, *, truncated: bool = False) -> Parsed:
        """The call that the reply makes, or its conclusion: `said`, with thought and conclusion as `value`."""
        try:
            step = _object_in(text)
        except ValueError as error:
            cut = "it was cut off at its greatest length: write less. " if truncated else ""
            return _refused(text, f"{cut}{error}")
        thought = step.get("thought")
        if thought is not None and not isinstance(thought, str):
            return _refused(text, f'"thought" is to be a text, and is {_kind(thought)}')
        action, conclusion = step.get("action"), step.get("conclusion")
        concludes = conclusion is not None and conclusion != ""
        if action and concludes:
            return _refused(text, 'it has an "action" and a "conclusion": give the one or the other. Nothing was run')
        if action:
            return _acting(text, thought or "", action)
        if not concludes:
            return _refused(text, f'it has neither an "action" nor a "conclusion", but {_named(step)}')
        said = conclusion if isinstance(conclusion, str) else json.dumps(conclusion, ensure_ascii=False)
        if not said.strip():
            return _refused(text, 'its "conclusion" is empty')
        return Parsed(thought or "", status="valid", value={"thought": thought or "", "conclusion": conclusion}, said=said)


class ReAct(Agent):
    """An agent that thinks, acts and concludes in JSON, for models that cannot call tools by themselves. (For those that can, `Agent` is the better one.)

    A run ends with a conclusion: it is the answer's content, and `formatted` has it with the thought before it. Turns that are used up without one end the run
    with `RunLimitReached` (limit "model_calls").

    Args:
        model: As of `Agent`.
        tools: Functions, tools and toolkits; those given for one run only (`Run.tools`) can be called, and the model is not told of them.
        max_turns: Requests to the model in one run, 1 or more; default 5, or those of `limits` where these are given.
        template: What the model is told of the form of its answers, with `{tools}` where the tools are to stand.
        limits: As of `Agent`; where `max_turns` is given too, the lower number holds.
        options: The others of `Agent`, except `parser`, `output` and `output_mode`.

    Raises:
        DefinitionError: To the spawner, for what cannot be such an agent.
    """

    def __init__(
        self,
        *,
        model: Any,
        tools: Iterable[object] = (),
        max_turns: int | None = None,
        template: str = TEMPLATE,
        limits: RunLimits | None = None,
        **options: Any,
    ) -> None:
        for name in ("parser", "output", "output_mode"):
            if name in options:
                raise DefinitionError(f"ReAct({name}=…): a ReAct agent has its own form of answers; rt.Agent takes {name}=")
        if max_turns is not None and (isinstance(max_turns, bool) or not isinstance(max_turns, int) or not 1 <= max_turns < 2**63):
            raise DefinitionError(f"ReAct(max_turns={max_turns!r:.80}): give how often the model may be asked in one run, 1 or more")
        if limits is not None and not isinstance(limits, RunLimits):
            raise DefinitionError(f"ReAct(limits=…) is a {type(limits).__name__}: give rt.RunLimits(seconds=60)")
        most: int | None
        if limits is None:
            limits, most = RunLimits(), max_turns or MAX_TURNS
        else:
            most = min((number for number in (max_turns, limits.model_calls) if number is not None), default=None)
        given = tools_of(tools, (READ,))
        options.setdefault("aggregator", _as_it_was_written)
        own = limits.model_calls
        super().__init__(
            model=model, tools=given, parser=ReActParser(given, template), limits=attrs.evolve(limits, model_calls=most), **options
        )
        if most != own or most == max_turns:
            self._definition.max_turns = most


def _as_it_was_written(conversation: Conversation) -> list[ChatMessage]:
    """The conversation with the agent's answers as the model wrote them: seeing them without their form, it would leave the form, too."""
    name = conversation.name
    if not any(_concluded(item, name) for item in conversation.items):
        return default_aggregator(conversation)
    items = tuple(
        attrs.evolve(item, content=json.dumps(item.formatted, ensure_ascii=False)) if _concluded(item, name) else item  # type: ignore[misc,union-attr]
        for item in conversation.items
    )
    return default_aggregator(attrs.evolve(conversation, items=items))


def _concluded(item: object, name: str) -> bool:
    return isinstance(item, AgentMessage) and item.sender == name and isinstance(item.formatted, dict) and "conclusion" in item.formatted


def _told(tool: Any) -> str:
    spec = spec_of(tool)
    return json.dumps({"name": spec.name, "description": spec.description, "parameters": json.loads(spec.parameters)}, ensure_ascii=False)


def _object_in(text: str) -> dict[str, Any]:
    """The one JSON object of a reply. Raises ValueError, for the model."""
    try:
        found = json_object(text)
    except ValueError as first:
        start, end = text.find("{"), text.rfind("}")
        if not 0 <= start < end or text[start : end + 1] == text:
            raise
        try:
            found = json_object(text[start : end + 1])
        except ValueError:
            raise first from None
    return dict(found)


def _acting(text: str, thought: str, action: object) -> Parsed:
    if not isinstance(action, dict):
        return _refused(text, f'"action" is to be an object with "name" and "parameters", and is {_kind(action)}. Nothing was run')
    name, parameters = action.get("name"), action.get("parameters")
    if not isinstance(name, str) or not name:
        return _refused(text, f'the "action" names no tool: it has {_named(action)}. Nothing was run')
    unknown = sorted(set(action) - {"name", "parameters"})
    if unknown:
        return _refused(
            text, f'the "action" has {", ".join(unknown)[:200]}: what the tool is given stands in "parameters". Nothing was run'
        )
    if isinstance(parameters, str):  # some models write the object as a text
        try:
            parameters = json_object(parameters) if parameters.strip() else {}
        except ValueError as error:
            return _refused(text, f'its "parameters" are {error}. Nothing was run')
    if parameters is not None and not isinstance(parameters, dict):
        return _refused(text, f'"parameters" is to be an object, and is {_kind(parameters)}. Nothing was run')
    arguments = json.dumps(parameters or {}, ensure_ascii=False)
    return Parsed(thought, (ParsedCall("action", name, arguments, text),), "valid")


def _refused(text: str, problem: str) -> Parsed:
    return Parsed(
        text,
        status="error",
        error=f'Your answer is not taken: {problem}. Answer with one JSON object: "thought", and either "action" or "conclusion".',
    )


def _kind(value: object) -> str:
    names = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "true or false", dict: "an object"}
    return names.get(type(value), "null")


def _named(found: dict[str, Any]) -> str:
    return ", ".join(repr(name[:40]) for name in list(found)[:10]) or "nothing"
