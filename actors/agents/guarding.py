"""An agent's guardrails, made ready: what its runs ask before the input is remembered, before a tool is called and before anything goes out."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, cast, final

import attrs
import trio

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.errors import GuardrailBlocked
from retinue.actors.agents.isolation import ends_all, isolated
from retinue.actors.agents.message import AgentMessage
from retinue.capabilities.tools import Tool
from retinue.security.choices import Block, Replace, choice_of
from retinue.security.errors import DefinitionError
from retinue.security.guardrails import STAGES, Guarded, Guardrail, Stage
from retinue.security.text_filter import Caught, TextFilter, filter_text

__all__ = ["NO_GUARDS", "Guards", "StreamingOutput", "compile_guardrails"]

MAX_DEPTH: Final = 64
"""Levels of a message's content that are looked at; one that is nested deeper is blocked."""

Notify = Callable[[str, str], None]

_log = logging.getLogger("retinue.guardrails")


@final
class Guards:
    """The guardrails of an agent, by stage. Made once, by `compile_guardrails`."""

    __slots__ = ("_by_stage", "_confirm", "_needed")

    def __init__(self, guardrails: Iterable[Guardrail]) -> None:
        found = tuple(guardrails)
        self._by_stage: dict[Stage, tuple[Guardrail, ...]] = {
            stage: tuple(one for one in found if one.stage == stage and (one.check is not None or one.detectors)) for stage in STAGES
        }
        self._confirm: frozenset[str] = frozenset().union(*(one.confirm for one in found))
        self._needed: frozenset[str] = frozenset().union(*(one.confirm for one in found if not one.may_be_missing)) - {"*"}

    def has(self, stage: Stage) -> bool:
        """Whether anything stands at the stage."""
        return bool(self._by_stage[stage])

    async def input(self, message: AgentMessage, notice: Notify | None = None) -> AgentMessage:
        """The message as it may be remembered and shown to a model.

        Raises:
            GuardrailBlocked: It may not; nothing may remember it.
        """
        content = message.content
        for one in self._by_stage["input"]:
            content = await _through_content(one, content, 0)
        if content is message.content:
            return message
        if notice is not None:
            notice("guardrail", "a guardrail has changed the message before it was remembered")
        return cast("AgentMessage", attrs.evolve(cast("Any", message), content=content))

    async def tool(self, name: str, arguments: Mapping[str, Any], notice: Notify | None = None) -> dict[str, Any]:
        """The arguments that the tool may be called with: those that were given, or what a guardrail has put in their place.

        Raises:
            GuardrailBlocked: It may not be called with them.
        """
        found = dict(arguments)
        for one in self._by_stage["tool"]:
            if one.check is None:
                continue
            put = await _decision(one, Guarded("tool", tool=name, arguments=isolated(found)), Mapping)
            if put is not None:
                found = isolated(dict(put))
                if notice is not None:
                    notice("guardrail", f"guardrail {one.name} has changed the arguments of a call of {name}")
        return found

    async def output(self, text: str, notice: Notify | None = None) -> str:
        """The text as it may go out.

        Raises:
            GuardrailBlocked: It may not.
        """
        shown = text
        for one in self._by_stage["output"]:
            shown = await _through(one, shown)
        if notice is not None and shown != text:
            notice("guardrail", "a guardrail has changed the answer")
        return shown

    def stream(self) -> StreamingOutput | None:
        """What an answer in pieces goes through; None where nothing stands at the output."""
        guardrails = self._by_stage["output"]
        return StreamingOutput(guardrails) if guardrails else None

    def confirmed(self, tools: Iterable[Tool[Any, Any]]) -> tuple[Tool[Any, Any], ...]:
        """The tools, those that a guardrail names with the option that a person has to approve each call."""
        if not self._confirm:
            return tuple(tools)
        return tuple(tool.with_options(approval=True) if self._is_sensitive(tool) else tool for tool in tools)

    def check_names(self, names: Iterable[str]) -> None:
        """Raises DefinitionError where a guardrail names a tool that is not among the agent's: the slip would leave a tool unguarded."""
        known = sorted(names)
        for name in sorted(self._needed.difference(known)):
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"they are {', '.join(known) or 'none'}."
            raise DefinitionError(
                f"sensitive_tool_confirmation names {name!r}, which is none of the agent's tools: {hint} For a tool that comes with a run, give may_be_missing=True"
            )

    def _is_sensitive(self, tool: Tool[Any, Any]) -> bool:
        return tool.approval is not True and ("*" in self._confirm or tool.name in self._confirm or tool.wire_name in self._confirm)


NO_GUARDS: Final = Guards(())


@final
class StreamingOutput:
    """An answer in pieces on its way out. What `feed` and `finish` give, joined, is what `Guards.output` gives for the whole.

    Guardrails that look for patterns hold back only what may still become a finding; one that is a function has to see the whole, so that nothing goes out before
    the end.
    """

    __slots__ = ("_filters", "_guardrails", "_whole")

    def __init__(self, guardrails: tuple[Guardrail, ...]) -> None:
        self._guardrails = guardrails
        self._whole: list[str] | None = [] if any(one.check is not None for one in guardrails) else None
        self._filters = [(one, TextFilter(one.detectors, one.replacement)) for one in guardrails] if self._whole is None else []

    def feed(self, text: str) -> str:
        """One more piece; gives what may go out now.

        Raises:
            GuardrailBlocked: No more of it may.
        """
        if self._whole is not None:
            self._whole.append(text)
            return ""
        for one, each in self._filters:
            if not text:
                break
            try:
                text = each.feed(text)
            except Caught as caught:
                raise _caught(one, caught) from None
        return text

    async def finish(self) -> str:
        """No more pieces; gives the rest.

        Raises:
            GuardrailBlocked: It may not go out.
        """
        if self._whole is not None:
            text = "".join(self._whole)
            self._whole = []
            for one in self._guardrails:
                text = await _through(one, text)
            return text
        rest = ""
        for one, each in self._filters:
            try:
                rest = each.feed(rest) + each.finish()
            except Caught as caught:
                raise _caught(one, caught) from None
        return rest


def compile_guardrails(guardrails: Iterable[Any]) -> Guards:
    """The guardrails of an agent, ready to be asked.

    Args:
        guardrails: In the order in which they are asked: what `rt.guardrail` or a template made.

    Raises:
        DefinitionError: One of them is nothing of these.
    """
    if isinstance(guardrails, str | Guardrail) or not isinstance(guardrails, Iterable):
        raise DefinitionError(f"guardrails= is a {type(guardrails).__name__}: give a list, guardrails=[rt.privacy_input()]")
    found = tuple(guardrails)
    for one in found:
        if not isinstance(one, Guardrail):
            name = getattr(one, "__qualname__", type(one).__name__)
            raise DefinitionError(
                f'guardrails= holds {name}: give what @rt.guardrail("input") or a template such as rt.privacy_input() made'
            )
    return Guards(found) if found else NO_GUARDS


# -- one guardrail ---------------------------------------------------------------------------------------------------------------------------------------


async def _through_content(one: Guardrail, content: Any, depth: int) -> Any:
    """Everything in a message's content that a model may be told, through a guardrail; the very same object where nothing was changed.

    What is neither text nor plain data is looked at as the text that a model would be given (`content_text`); where that is changed, it stands in its place.
    """
    if isinstance(content, str):
        put = await _through(one, content)
        return content if put == content else put
    if depth > MAX_DEPTH:
        raise _blocked(one, "the content is nested too deeply to be looked at")
    if isinstance(content, Mapping):
        return await _through_mapping(one, content, depth)
    if isinstance(content, list | tuple | set | frozenset):
        given = list(content)
        parts = [await _through_content(one, item, depth + 1) for item in given]
        return content if all(new is old for new, old in zip(parts, given, strict=True)) else parts
    if content is None or isinstance(content, bool | bytes | bytearray | memoryview):
        return content
    if isinstance(content, int | float) and one.check is not None:  # a function is asked about texts; patterns find numbers, too
        return content
    text = content_text(content)
    put = await _through(one, text)
    return content if put == text else put


async def _through_mapping(one: Guardrail, content: Mapping[Any, Any], depth: int) -> Any:
    items: dict[Any, Any] = {}
    same = True
    for name, item in content.items():
        new_name, new = await _through_content(one, name, depth + 1), await _through_content(one, item, depth + 1)
        same = same and new is item and new_name is name
        if isinstance(new_name, list):
            new_name = content_text(new_name)
        if new_name in items:
            raise _blocked(one, "two names in the content are the same without what it holds")
        items[new_name] = new
    return content if same else items


async def _through(one: Guardrail, text: str) -> str:
    if one.check is None:
        try:
            return filter_text(text, one.detectors, one.replacement)
        except Caught as caught:
            raise _caught(one, caught) from None
    put = await _decision(one, Guarded(one.stage, text), str)
    return text if put is None else str(put)


async def _decision(one: Guardrail, asked: Guarded, kind: type) -> Any:
    """What the guardrail puts in place; None where it allows. Raises GuardrailBlocked; no text of an exception goes on, for it may quote what is blocked."""
    assert one.check is not None
    try:
        answer = one.check(asked)
        if hasattr(type(answer), "__await__"):
            with trio.fail_after(one.timeout):
                answer = await cast("Awaitable[Any]", answer)
    except trio.TooSlowError:
        raise _blocked(one, f"time-out after {one.timeout:g} s (a guardrail fails closed)") from None
    except BaseException as error:
        if ends_all(error):
            raise
        _log.debug("guardrail %s failed", one.name, exc_info=True)
        raise _blocked(one, f"it raised {type(error).__name__} (a guardrail fails closed)") from None
    choice = choice_of(answer)
    if isinstance(choice, Block):
        raise _blocked(one, choice.reason or "no reason given")
    if isinstance(choice, Replace):
        if isinstance(choice.payload, kind):
            return choice.payload
        raise _blocked(one, f"it put a {type(choice.payload).__name__} in place (a guardrail fails closed)")
    if choice is None:
        raise _blocked(one, f"unknown decision, a {type(answer).__name__} (a guardrail fails closed)")
    return None


def _blocked(one: Guardrail, reason: str) -> GuardrailBlocked:
    what = {"input": "the message", "tool": "the tool call", "output": "the answer"}[one.stage]
    return GuardrailBlocked(f"guardrail {one.name} blocked {what}: {reason}", stage=one.stage, guardrail=one.name, reason=reason)


def _caught(one: Guardrail, caught: Caught) -> GuardrailBlocked:
    return _blocked(one, f"it holds {caught.detector}")
