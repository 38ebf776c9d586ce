"""The body of a request to an OpenAI-compatible endpoint.

The same request gives the same bytes, and a longer conversation begins with the bytes of the shorter one, so that an endpoint's prompt cache
finds it again. Schemas go in as the text that they are: nothing decodes them for each call.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from retinue.actors.llm.calls import is_object
from retinue.actors.llm.completion import ToolCall
from retinue.actors.llm.errors import ModelRefused
from retinue.actors.llm.messages import ChatMessage, Complete, CompleteStream, OutputSpec, ToolSpec
from retinue.actors.llm.profiles.profile import Profile
from retinue.actors.llm.texts import whole

__all__ = ["Payloads"]

_NO_NAMES: Mapping[str, str] = {}
_NO_PARAMETERS: frozenset[str] = frozenset()
_MOST_KEPT = 32
_OTHER_LIMIT = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_LEGAL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class _Tools:
    """How the tools of a request are written."""

    __slots__ = ("ours", "text", "theirs")

    def __init__(self, tools: tuple[ToolSpec, ...], *, strict: bool) -> None:
        self.theirs: dict[str, str] = {}
        for tool in tools:  # names that need no change are taken first, so that no other gets them
            if _LEGAL_NAME.fullmatch(tool.name):
                self.theirs[tool.name] = tool.name
        taken = set(self.theirs)
        for tool in tools:
            if tool.name not in self.theirs:
                self.theirs[tool.name] = _free(_legal(tool.name), taken)
        self.ours = {theirs: ours for ours, theirs in self.theirs.items() if ours != theirs}
        self.text = "[" + ",".join(self._tool(tool, strict) for tool in tools) + "]"

    def _tool(self, tool: ToolSpec, strict: bool) -> str:
        text = f'{{"type":"function","function":{{"name":{_json(self.theirs[tool.name])},"description":{_json(tool.description)}'
        text += f',"parameters":{tool.parameters.strip()}'
        if strict and tool.strict is not None:
            text += f',"strict":{_json(tool.strict)}'
        return text + "}}"


class Payloads:
    """Writes the requests to one model at one endpoint.

    Args:
        profile: What the endpoint takes.
        model: The model's name as the endpoint knows it.
    """

    def __init__(self, profile: Profile, model: str) -> None:
        self._profile = profile
        self._model = model
        self._tools: dict[tuple[tuple[ToolSpec, ...], bool], _Tools] = {}

    def body(self, request: Complete | CompleteStream, *, stream: bool, without: frozenset[str] = _NO_PARAMETERS) -> bytes:
        """Write a request: JSON in UTF-8, no character escaped that need not be; lone surrogates become U+FFFD.

        Args:
            request: What is asked.
            stream: Whether the answer is to come in pieces.
            without: The optional parameters that the endpoint has refused; see `Profile.optional`.

        Raises ModelRefused for what this endpoint cannot take: more texts in `stop` than it knows.
        """
        profile = self._profile
        tools = self._written(request.tools, without) if request.tools else None
        told: list[str] = []
        form = None if request.output is None else self._form(request.output, bool(request.tools), without, told)
        body: dict[str, Any] = {"model": self._model, "messages": self._messages(request.messages, tools, told, without)}
        if request.max_tokens is not None:
            field = profile.limit_field
            body[_OTHER_LIMIT.get(field, field) if field in without else field] = request.max_tokens
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.stop:
            if profile.most_stops is not None and len(request.stop) > profile.most_stops:
                raise ModelRefused(
                    f"the request to model {self._model!r} has {len(request.stop)} texts in stop, and its endpoint (profile {profile.name!r}) "
                    f"takes {profile.most_stops} at most: give fewer"
                )
            body["stop"] = list(request.stop)
        if request.seed is not None and "seed" not in without:
            body[profile.seed_field] = request.seed
        if request.reasoning_effort is not None and profile.effort != "never" and "reasoning_effort" not in without:
            if profile.effort == "object":
                body["reasoning"] = {"effort": request.reasoning_effort}
            else:
                body["reasoning_effort"] = request.reasoning_effort
        if tools is not None:
            self._choose(request, tools, without, body)
        if stream:
            body["stream"] = True
            if profile.include_usage and "stream_options" not in without:
                body["stream_options"] = {"include_usage": True}
        if request.extra is not None:
            for field, value in json.loads(request.extra).items():
                body.setdefault(field, value)
        text = _json(body)
        if tools is not None:
            text = f'{text[:-1]},"tools":{tools.text}}}'
        if form is not None:
            text = f'{text[:-1]},"response_format":{form}}}'
        return _utf8(text)

    def names(self, request: Complete | CompleteStream) -> Mapping[str, str]:
        """Return the names of a request's tools as they are sent, where they differ from ours, to ours."""
        return self._written(request.tools, _NO_PARAMETERS).ours if request.tools else _NO_NAMES

    def _written(self, tools: tuple[ToolSpec, ...], without: frozenset[str]) -> _Tools:
        key = (tools, self._profile.strict and "strict" not in without)
        found = self._tools.get(key)
        if found is None:
            if len(self._tools) >= _MOST_KEPT:
                self._tools.clear()
            found = self._tools[key] = _Tools(tools, strict=key[1])
        return found

    def _choose(self, request: Complete | CompleteStream, tools: _Tools, without: frozenset[str], body: dict[str, Any]) -> None:
        profile = self._profile
        choice = request.tool_choice
        if choice in ("auto", "none"):
            body["tool_choice"] = choice
        elif choice == "required":
            body["tool_choice"] = profile.required_word
        elif choice is not None:
            named = {"type": "function", "function": {"name": tools.theirs[choice]}}
            body["tool_choice"] = named if profile.names_tool else profile.required_word
        if request.parallel_tool_calls is not None and profile.parallel_tool_calls and "parallel_tool_calls" not in without:
            body["parallel_tool_calls"] = request.parallel_tool_calls

    def _form(self, output: OutputSpec, has_tools: bool, without: frozenset[str], told: list[str]) -> str | None:
        profile = self._profile
        if profile.output == "schema" and (profile.output_with_tools or not has_tools):
            strict = f',"strict":{_json(output.strict)}' if output.strict is not None and profile.strict and "strict" not in without else ""
            return (
                f'{{"type":"json_schema","json_schema":{{"name":{_json(_legal(output.name))},"schema":{output.schema.strip()}{strict}}}}}'
            )
        told.append(f"When you answer, answer with JSON and nothing else. It has to fit this JSON Schema:\n{output.schema.strip()}")
        return '{"type":"json_object"}' if profile.output == "object" and (profile.output_with_tools or not has_tools) else None

    def _messages(
        self, messages: tuple[ChatMessage, ...], tools: _Tools | None, told: list[str], without: frozenset[str]
    ) -> list[dict[str, Any]]:
        if told:
            messages = _with_instructions(messages, told)
        profile = self._profile
        role = "system" if "developer" in without and profile.instructions_role == "developer" else profile.instructions_role
        named = profile.sends_names and "name" not in without
        entries = _without_system(messages) if role == "user" else messages
        written = [self._message(entry, role, tools, named) for entry in entries]
        return _joined(written) if profile.alternates else written

    def _message(self, entry: ChatMessage, instructions_role: str, tools: _Tools | None, named: bool) -> dict[str, Any]:
        profile = self._profile
        if entry.role == "tool":
            assert entry.tool_call_id is not None
            return {"role": "tool", "tool_call_id": self._id(entry.tool_call_id), "content": entry.content}
        message: dict[str, Any] = {"role": instructions_role if entry.role == "system" else entry.role, "content": entry.content}
        if named and entry.name is not None:
            message["name"] = _legal(entry.name)
        if entry.role != "assistant":
            return message
        if entry.reasoning and profile.send_back_reasoning != "never":
            if profile.send_back_reasoning == "tags" and profile.think_tags is not None:
                opening, closing = profile.think_tags
                message["content"] = f"{opening}\n{entry.reasoning}\n{closing}\n\n{entry.content}"
            elif profile.send_back_reasoning == "field" or entry.tool_calls:
                message[profile.reasoning_fields[0]] = entry.reasoning
        if entry.tool_calls:
            if not message["content"] and profile.empty_content == "null":
                message["content"] = None
            elif not message["content"] and profile.empty_content == "omit":
                del message["content"]
            message["tool_calls"] = [self._call(call, tools) for call in entry.tool_calls]
        return message

    def _call(self, call: ToolCall, tools: _Tools | None) -> dict[str, Any]:
        name = tools.theirs.get(call.name) if tools is not None else None
        arguments = call.arguments
        if not is_object(arguments):
            # Templates of several servers decode the arguments of earlier calls, and refuse the whole conversation for broken ones.
            arguments = _json({"INVALID_JSON": arguments})
        return {"id": self._id(call.id), "type": "function", "function": {"name": name or _legal(call.name), "arguments": arguments}}

    def _id(self, call_id: str) -> str:
        length = self._profile.call_id
        if length is None or (len(call_id) == length and call_id.isascii() and call_id.isalnum()):
            return call_id
        number = int.from_bytes(hashlib.sha256(_utf8(call_id)).digest())
        letters = []
        for _ in range(length):
            number, rest = divmod(number, len(_LETTERS))
            letters.append(_LETTERS[rest])
        return "".join(letters)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return whole(text).encode()


def _legal(name: str) -> str:
    """A name of letters, digits, "_" and "-", 64 at most: endpoints take no others."""
    legal = _ILLEGAL.sub("_", name)
    if len(legal) > 64:
        legal = f"{legal[:55]}_{hashlib.sha256(_utf8(name)).hexdigest()[:8]}"
    return legal or "unnamed"


def _free(name: str, taken: set[str]) -> str:
    found, number = name, 2
    while found in taken:
        end = f"_{number}"
        found, number = name[: 64 - len(end)] + end, number + 1
    taken.add(found)
    return found


def _with_instructions(messages: tuple[ChatMessage, ...], told: list[str]) -> tuple[ChatMessage, ...]:
    """Add to the program's instructions, or begin with them where there are none."""
    first = messages[0]
    if first.role == "system":
        return (ChatMessage("system", "\n\n".join([first.content, *told]), name=first.name), *messages[1:])
    return (ChatMessage("system", "\n\n".join(told)), *messages)


def _without_system(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Put each of the program's instructions before the next user's text; those that no user's text follows become one."""
    found: list[ChatMessage] = []
    waiting: list[str] = []
    for entry in messages:
        if entry.role == "system":
            waiting.append(entry.content)
        elif entry.role == "user" and waiting:
            found.append(ChatMessage("user", "\n\n".join([*waiting, entry.content]), name=entry.name))
            waiting = []
        elif waiting and entry.role == "assistant":
            found += (ChatMessage("user", "\n\n".join(waiting)), entry)
            waiting = []
        else:
            found.append(entry)
    return [*found, ChatMessage("user", "\n\n".join(waiting))] if waiting else found


def _joined(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join neighbours of the same role into one, where neither calls a tool."""
    found: list[dict[str, Any]] = []
    for message in messages:
        last = found[-1] if found else None
        plain = ("user", "assistant")
        if (
            last is not None
            and message["role"] == last["role"]
            and message["role"] in plain
            and "tool_calls" not in message
            and "tool_calls" not in last
        ):
            last["content"] = f"{last['content']}\n\n{message['content']}"
        else:
            found.append(message)
    return found
