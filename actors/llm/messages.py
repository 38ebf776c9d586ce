"""What one says to a model deployment: `Complete` for a whole answer, `CompleteStream` for one in pieces."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, Literal, NoReturn, Self, cast

import attrs

from retinue.actors.llm.completion import Completion, ToolCall
from retinue.actors.llm.events import ModelEvent
from retinue.mailbox.messages import Message, Request, Stream, message

__all__ = ["ChatMessage", "Complete", "CompleteStream", "Completion", "OutputSpec", "Role", "ToolCall", "ToolSpec"]

Role = Literal["system", "user", "assistant", "tool"]
"""Who speaks: the program's instructions, the user, the model, or a tool's result."""

_ROLES = frozenset(("system", "user", "assistant", "tool"))
_TIMEOUT = 600  # seconds: a long answer of a slow model


@attrs.frozen(init=False)
class ChatMessage:
    """One entry of a conversation with a model.

    Attributes:
        role: "system", "user", "assistant" or "tool".
        content: The text; may be "" where an assistant's entry only calls tools.
        tool_calls: The calls that an assistant's entry made; default none. Each is to be answered by an entry "tool" right after it.
        tool_call_id: Which call an entry "tool" answers; needed there, and only there.
        name: Who speaks, for endpoints that tell several users apart; for an entry "tool" the tool's name. Default None.
        reasoning: What the model thought before this entry; sent back to endpoints that want it. Default None.

    Raises TypeError or ValueError for what is none of these.
    """

    __immutable__ = True

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None

    # Written by hand: a conversation is made anew for every call of a model, and the constructor that attrs writes takes twice the time.
    def __init__(
        self,
        role: Role,
        content: str = "",
        tool_calls: tuple[ToolCall, ...] = (),
        tool_call_id: str | None = None,
        name: str | None = None,
        reasoning: str | None = None,
    ) -> None:
        if type(role) is not str or role not in _ROLES:
            raise ValueError(f"ChatMessage.role is {role!r}: use one of system, user, assistant, tool")
        if not isinstance(content, str):
            raise TypeError(f"ChatMessage.content is a {type(content).__name__}: give a str")
        if (tool_call_id is None) == (role == "tool"):
            raise ValueError(f"ChatMessage.tool_call_id is {tool_call_id!r} in an entry {role!r}: entries 'tool' have one, others none")
        _set_role(self, role)
        _set_content(self, content)
        _set_tool_calls(self, tool_calls)
        _set_tool_call_id(self, tool_call_id)
        _set_name(self, name)
        _set_reasoning(self, reasoning)
        if tool_calls != () or tool_call_id is not None or name is not None or reasoning is not None:
            self._check_rest()

    def _check_rest(self) -> None:
        if not isinstance(self.tool_calls, tuple) or not all(isinstance(call, ToolCall) for call in self.tool_calls):
            raise TypeError("ChatMessage.tool_calls is no tuple of ToolCall: give the tool_calls of a Completion")
        if self.tool_calls and self.role != "assistant":
            raise ValueError(f"ChatMessage.tool_calls are given in an entry {self.role!r}: only an assistant's entry calls tools")
        for field, value in (("tool_call_id", self.tool_call_id), ("name", self.name), ("reasoning", self.reasoning)):
            if value is not None and not isinstance(value, str):
                raise TypeError(f"ChatMessage.{field} is a {type(value).__name__}: give a str or None")


_set_role, _set_content, _set_tool_calls, _set_tool_call_id, _set_name, _set_reasoning = (
    getattr(ChatMessage, field.name).__set__ for field in attrs.fields(ChatMessage)
)
_new = object.__new__


def chat_message(
    role: Role, content: str, tool_calls: tuple[ToolCall, ...] = (), tool_call_id: str | None = None, name: str | None = None
) -> ChatMessage:
    """`ChatMessage(…)` for who has seen to it that the fields go together: what a conversation is made of anew for every call of a model is not looked at each time."""
    made = _new(ChatMessage)
    _set_role(made, role)
    _set_content(made, content)
    _set_tool_calls(made, tool_calls)
    _set_tool_call_id(made, tool_call_id)
    _set_name(made, name)
    _set_reasoning(made, None)
    return made


def _check_object(where: str, text: object) -> None:
    advice = "give the text of a JSON object"
    if not isinstance(text, str):
        raise TypeError(f"{where} is a {type(text).__name__}: {advice}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{where} is no JSON: {advice}") from None
    if type(value) is not dict:
        raise ValueError(f"{where} is a JSON {type(value).__name__}: {advice}")


def _check_name(where: str, name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{where} is a {type(name).__name__}: give a str")
    if not name:
        raise ValueError(f"{where} is empty: give the name that the model is to use")


@attrs.frozen
class ToolSpec:
    """What a model is told of a tool that it may call.

    Attributes:
        name: What the model calls it by. Most endpoints take letters, digits, "_" and "-", at most 64.
        description: What it is for.
        parameters: The JSON Schema of its arguments, as JSON text.
        strict: Whether the endpoint is to hold the model to the schema, where it can; default None: the endpoint's own.

    Raises TypeError or ValueError for what is none of these.
    """

    __immutable__ = True

    name: str
    description: str = ""
    parameters: str = '{"type": "object", "properties": {}}'
    strict: bool | None = None

    def __attrs_post_init__(self) -> None:
        _check_name("ToolSpec.name", self.name)
        if not isinstance(self.description, str):
            raise TypeError(f"ToolSpec.description of {self.name!r} is a {type(self.description).__name__}: give a str")
        _check_object(f"ToolSpec.parameters of {self.name!r}", self.parameters)


@attrs.frozen
class OutputSpec:
    """The form that an answer is to have.

    Attributes:
        name: What the model knows it by.
        schema: The JSON Schema of the answer, as JSON text.
        strict: Whether the endpoint is to hold the model to the schema, where it can; default None: the endpoint's own.

    Raises TypeError or ValueError for what is none of these.
    """

    __immutable__ = True

    name: str
    schema: str
    strict: bool | None = None

    def __attrs_post_init__(self) -> None:
        _check_name("OutputSpec.name", self.name)
        _check_object(f"OutputSpec.schema of {self.name!r}", self.schema)


def _conversation(messages: Iterable[ChatMessage]) -> tuple[ChatMessage, ...]:
    if type(messages) is tuple:
        return messages
    if isinstance(messages, str | bytes | ChatMessage) or not isinstance(messages, Iterable):
        raise TypeError(f"Complete.messages is a {type(messages).__name__}: give a sequence of ChatMessage, or use Complete.of(text)")
    return tuple(messages)


def _tuple_of_strings(stop: Iterable[str]) -> tuple[str, ...]:
    if isinstance(stop, str) or not isinstance(stop, Iterable):
        raise TypeError(f"Complete.stop is a {type(stop).__name__}: give a sequence of strings")
    return tuple(stop)


def _tuple_of_tools(tools: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    if type(tools) is tuple:
        return tools
    if isinstance(tools, ToolSpec | str) or not isinstance(tools, Iterable):
        raise TypeError(f"Complete.tools is a {type(tools).__name__}: give a sequence of ToolSpec")
    return tuple(tools)


@message
class _Fields(Message):
    """What `Complete` and `CompleteStream` have in common: all their fields."""

    # One check after the fact instead of a validator for each field: requests are made by the thousand.
    messages: tuple[ChatMessage, ...] = attrs.field(converter=_conversation)
    max_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = attrs.field(default=(), converter=_tuple_of_strings)
    seed: int | None = None
    tools: tuple[ToolSpec, ...] = attrs.field(default=(), converter=_tuple_of_tools)
    tool_choice: str | None = None
    output: OutputSpec | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    extra: str | None = None

    def __attrs_post_init__(self) -> None:
        if not self.messages:
            raise ValueError("Complete.messages is empty: give at least one ChatMessage")
        for item in self.messages:
            if type(item) is not ChatMessage:
                raise TypeError(f"Complete.messages holds a {type(item).__name__}: give ChatMessage(role, content)")
        if self.max_tokens is not None:
            _check_count("max_tokens", self.max_tokens)
            if self.max_tokens < 1:
                raise ValueError(
                    f"Complete.max_tokens is {self.max_tokens}: give a number above zero, or None for the endpoint's own limit"
                )
        if self.seed is not None:
            _check_count("seed", self.seed)
        if self.temperature is not None:
            _check_temperature(self.temperature)
        for word in self.stop:
            if not isinstance(word, str):
                raise TypeError(f"Complete.stop holds a {type(word).__name__}: give strings")
        if self.tools:
            _check_tools(self.tools)
        if self.tool_choice is not None:
            _check_choice(self.tool_choice, self.tools)
        if self.extra is not None:
            _check_extra(self.extra)
        if self.output is not None and not isinstance(self.output, OutputSpec):
            _refuse("output", self.output, "an OutputSpec or None")
        if self.parallel_tool_calls is not None and not isinstance(self.parallel_tool_calls, bool):
            _refuse("parallel_tool_calls", self.parallel_tool_calls, "True, False or None")
        if self.reasoning_effort is not None and not isinstance(self.reasoning_effort, str):
            _refuse("reasoning_effort", self.reasoning_effort, 'a word such as "low", or None')

    @classmethod
    def of(
        cls,
        prompt: str,
        *,
        system: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: tuple[str, ...] = (),
        seed: int | None = None,
        tools: tuple[ToolSpec, ...] = (),
        output: OutputSpec | None = None,
    ) -> Self:
        """Make the request of one user's text, with the system's instructions before it where they are given."""
        user = ChatMessage("user", prompt)
        messages = (user,) if system is None else (ChatMessage("system", system), user)
        return cls(messages, max_tokens=max_tokens, temperature=temperature, stop=stop, seed=seed, tools=tools, output=output)


@message(timeout=_TIMEOUT)
class Complete(_Fields, Request[Completion]):
    """Ask a model deployment to go on with a conversation. Needs the operation `model.complete`.

    Attributes:
        messages: The conversation, oldest first; at least one entry.
        max_tokens: The most tokens the answer may have, or None (the default) for the endpoint's own limit.
        temperature: 0 for the likeliest words, higher for more surprise, or None (the default) for the endpoint's own.
        stop: Texts at which the answer ends; default none.
        seed: Makes sampling repeatable where the endpoint can do that; default None.
        tools: The tools that the model may call; default none.
        tool_choice: "auto" (the model decides), "none", "required" (it must call one), or the name of the tool that it must call;
            default None: the endpoint's own, which is "auto".
        output: The form that the answer is to have; default None: free text.
        parallel_tool_calls: Whether one answer may call several tools; default None: the endpoint's own.
        reasoning_effort: How much the model is to think, in the endpoint's words ("low", "medium", "high"); default None.
        extra: More fields of the request's body, as the text of a JSON object; default None. It may hold none that the other fields or the
            deployment speak of (`model`, `messages`, `max_tokens` …): what a permission was checked against stays what is sent.

    Raises TypeError or ValueError where it is made, for values that no endpoint could take.
    """

    def as_stream(self) -> CompleteStream:
        """The same request, to be answered in pieces."""
        return CompleteStream(
            self.messages, self.max_tokens, self.temperature, self.stop, self.seed, self.tools, self.tool_choice, self.output,
            self.parallel_tool_calls, self.reasoning_effort, self.extra,
        )  # fmt: skip

    def about(self, messages: tuple[ChatMessage, ...]) -> Complete:
        """The same request about another conversation, of which nothing but the kind of its entries is looked at. Raises as the constructor does."""
        plain = messages.__class__ is tuple and len(messages) > 0
        for entry in messages if plain else ():
            plain = plain and entry.__class__ is ChatMessage
        if not plain:  # raises, or makes a tuple of it
            return Complete(
                messages, self.max_tokens, self.temperature, self.stop, self.seed, self.tools, self.tool_choice, self.output,
                self.parallel_tool_calls, self.reasoning_effort, self.extra,
            )  # fmt: skip
        made = _new(Complete)
        for_messages, max_tokens, temperature, stop, seed, tools, tool_choice, output, parallel_tool_calls, reasoning_effort, extra = (
            _STORES
        )
        for_messages(made, messages)
        max_tokens(made, self.max_tokens)
        temperature(made, self.temperature)
        stop(made, self.stop)
        seed(made, self.seed)
        tools(made, self.tools)
        tool_choice(made, self.tool_choice)
        output(made, self.output)
        parallel_tool_calls(made, self.parallel_tool_calls)
        reasoning_effort(made, self.reasoning_effort)
        extra(made, self.extra)
        return made


_STORES = tuple(getattr(Complete, field.name).__set__ for field in attrs.fields(cast(Any, Complete)))


@message(timeout=_TIMEOUT)
class CompleteStream(_Fields, Stream[ModelEvent]):
    """Ask for the same as `Complete`, answered in pieces: `ref.stream(CompleteStream.of("…"))`. Needs the operation `model.complete`.

    It has the fields of `Complete`, so that one permission speaks of both.
    """

    def as_request(self) -> Complete:
        """The same request, to be answered at once."""
        return Complete(
            self.messages, self.max_tokens, self.temperature, self.stop, self.seed, self.tools, self.tool_choice, self.output,
            self.parallel_tool_calls, self.reasoning_effort, self.extra,
        )  # fmt: skip


def _refuse(field: str, value: object, wanted: str) -> NoReturn:
    raise TypeError(f"Complete.{field} is a {type(value).__name__}: give {wanted}")


def _check_count(field: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(field, value, "an int or None")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"Complete.{field} does not fit into 64 bits: give a smaller number")


def _check_temperature(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse("temperature", value, "a number or None")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"Complete.temperature is {value}: give zero (the likeliest words) or more, or None for the endpoint's own")


def _check_tools(tools: tuple[object, ...]) -> None:
    names = set()
    for tool in tools:
        if type(tool) is not ToolSpec:
            raise TypeError(f"Complete.tools holds a {type(tool).__name__}: give ToolSpec(name, description, parameters)")
        if tool.name in names:
            raise ValueError(f"Complete.tools holds two tools named {tool.name!r}: the model could not tell them apart, rename one")
        names.add(tool.name)


def _check_choice(choice: object, tools: tuple[ToolSpec, ...]) -> None:
    if not isinstance(choice, str):
        _refuse("tool_choice", choice, 'a str ("auto", "none", "required", or a tool\'s name) or None')
    if choice not in ("auto", "none", "required") and not any(tool.name == choice for tool in tools):
        names = ", ".join(["auto", "none", "required", *(tool.name for tool in tools)])
        raise ValueError(f"Complete.tool_choice is {choice!r}, and no tool of the request has that name: use one of {names}")


# What a request's other fields say, by all names that endpoints have for it: a permission looks at those fields and not into `extra`.
_OWN = frozenset(
    [
        "model",
        "models",
        "messages",
        "prompt",
        "input",
        "tools",
        "functions",
        "tool_choice",
        "function_call",
        "parallel_tool_calls",
        "stream",
        "stream_options",
        "n",
        "best_of",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "max_new_tokens",
        "n_predict",
        "num_predict",
        "temperature",
        "stop",
        "seed",
        "response_format",
        "reasoning_effort",
    ]
)


def _check_extra(extra: object) -> None:
    _check_object("Complete.extra", extra)
    assert isinstance(extra, str)
    fields = json.loads(extra)
    try:
        json.dumps(fields, allow_nan=False)
    except ValueError:
        raise ValueError(
            "Complete.extra holds a number that JSON cannot say: NaN, an infinite one, or one beyond a float such as 1e999"
        ) from None
    for field in fields:
        if field in _OWN:
            raise ValueError(
                f"Complete.extra holds {field!r}, which is said by a field of Complete or by the deployment: leave it out here"
            )
