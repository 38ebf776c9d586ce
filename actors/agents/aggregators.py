"""Aggregators: from what a session remembers to what the model is sent. Plain functions; they change nothing, templates and examples included.

What they give for a conversation begins with what they gave for its beginning (no clock, no counter in it), so that a provider's prompt cache holds from turn to
turn. And it is always a history that an endpoint takes: each tool call has one result right after it, each result a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.message import AgentMessage, Step
from retinue.actors.agents.parsers import Parser
from retinue.actors.agents.parsers_text import MixedToolParser, ToolParser
from retinue.actors.llm.messages import ChatMessage, Role, ToolCall, chat_message
from retinue.mailbox.constructors import quicken
from retinue.security.errors import DefinitionError

__all__ = [
    "Aggregator",
    "Conversation",
    "Item",
    "Made",
    "continued",
    "default_aggregator",
    "few_shot",
    "grown",
    "repairs",
    "system_of",
    "tool_aggregator",
]

Item: TypeAlias = AgentMessage | Step


@attrs.frozen
class Conversation:
    """What an aggregator is given.

    Attributes:
        items: Messages and steps, oldest first.
        name: The agent's name: messages of this sender are its own.
        instructions: What the agent was told to be; "" for nothing.
        parser: What takes the model's replies apart, where the calls stand in the text.
    """

    items: tuple[Item, ...]
    name: str
    instructions: str = ""
    parser: Parser | None = None


quicken(Conversation)

Aggregator: TypeAlias = Callable[[Conversation], list[ChatMessage]]

NO_RESULT: Final[dict[str | None, str]] = {
    "cancelled": "no result: the call was cancelled; it may or may not have been carried out",
    "denied": "no result: the call was not permitted and not carried out",
    "rejected": "no result: a person rejected the call; it was not carried out",
    "timeout": "no result in time; the call may or may not have been carried out",
    "truncated": "no result: the reply was cut off, and the call was not carried out",
    "limit": "no result: the run came to its limit before the call was carried out",
    None: "no result is known: the run ended before there was one, and the call may or may not have been carried out",
}
"""What a model is told where memory holds a call without its result, by the error of the step that made the call."""


def default_aggregator(conversation: Conversation) -> list[ChatMessage]:
    """The instructions as system message, the agent's own messages as assistant, all others as user; tool calls and results as what they are.

    Messages of others that follow each other become one, joined by a blank line. Content that is no text is written as text (`content_text`). With a parser, whose
    instruction comes after the instructions, calls and results are texts too. A call without its result is given one that says why; a result without its call
    is left out (`repairs` tells of both).
    """
    return list(continued(conversation)[0])


@attrs.frozen
class Made:
    """What the default aggregator has made of the beginning of a conversation, to go on from there. Belongs to a session that asks its model again and again.

    Attributes:
        count: How many items.
        last: The last of them: another object there, and it is another conversation.
        name, parser: Whose it is, and how it was read.
        messages: The messages.
        others: Texts of others that the next item may still join.
        joined: The message that they are until then.
    """

    count: int
    last: Item | None
    name: str
    parser: Parser | None
    messages: tuple[ChatMessage, ...]
    others: tuple[str, ...]
    joined: ChatMessage | None


quicken(Made)


def continued(conversation: Conversation, made: Made | None = None) -> tuple[tuple[ChatMessage, ...], Made]:
    """What `default_aggregator` gives, made from what it gave for the beginning of the same conversation: only what is new costs anything.

    Args:
        conversation: Whole.
        made: What the last call gave, for a conversation whose items this one's begin with; None for the first call. Of another conversation it is not used.

    Returns:
        The messages, and what the next call may go on from.
    """
    messages, after = grown(conversation.items, conversation.name, conversation.parser, made)
    system = system_of(conversation.instructions, conversation.parser)
    return (system + messages if system else messages), after


def grown(items: tuple[Item, ...], name: str, parser: Parser | None, made: Made | None) -> tuple[tuple[ChatMessage, ...], Made]:
    """As `continued`, without the instructions: for whoever has no `Conversation` otherwise."""
    before: tuple[ChatMessage, ...] = ()
    others: list[str] = []
    joined: ChatMessage | None = None
    count = 0
    if (
        made is not None
        and 0 < made.count <= len(items)
        and items[made.count - 1] is made.last
        and made.parser is parser
        and made.name == name
    ):
        count, before, others, joined = made.count, made.messages, list(made.others), made.joined
    waiting = len(others)
    found: list[ChatMessage] = []
    end, kept = _grow(found, others, joined, items, count, name, in_text=parser is not None)
    last = items[end - 1] if end else None
    if kept is not None:  # calls whose results are yet to come are no part of what the next call goes on from
        return before + tuple(found), Made(end, last, name, parser, before + tuple(found[:kept]), (), None)
    messages = before + tuple(found) if found else before
    if not others:
        return messages, Made(end, last, name, parser, messages, (), None)
    if found or joined is None or len(others) != waiting:
        joined = _of_others(others)
    return (*messages, joined), Made(end, last, name, parser, messages, tuple(others), joined)


def few_shot(examples: Iterable[Any], then: Aggregator = default_aggregator) -> Aggregator:
    """An aggregator that puts examples between the instructions and the conversation.

    Args:
        examples: Each a ChatMessage, a pair (user's text, assistant's text), or a dict with "role" and "content". They are copied here, once.
        then: What makes the rest.

    Raises:
        DefinitionError: An example is none of these.
    """
    shots = tuple(message for example in examples for message in _example(example))

    def aggregated(conversation: Conversation) -> list[ChatMessage]:
        messages = then(conversation)
        head = next((index for index, message in enumerate(messages) if message.role != "system"), len(messages))
        return [*messages[:head], *shots, *messages[head:]]

    return aggregated


def tool_aggregator(
    *,
    environment_role: Role = "user",
    environment_begin: str = "",
    environment_end: str = "",
    user_names: Iterable[str] = ("user",),
    few_shot: Iterable[Sequence[Mapping[str, Any]]] = (),
) -> Aggregator:
    """An aggregator for models that call tools in their text (Lagent's InternLMToolAggregator): roles of their own for users and for the environment.

    Each part of the parser's instruction is a system message named after its kind of tool; own messages are written as the parser would write them; tool results,
    and messages of senders that are no users, come from the environment, between its marks. Nothing is merged, nothing left out: a reply that could
    not be parsed stays, beside what it was told.

    Args:
        environment_role: "user" (the default) or "system"; most endpoints know no other.
        environment_begin: Put before what the environment says.
        environment_end: Put after it.
        user_names: The senders that are users.
        few_shot: Conversations, each a sequence of dicts with "role" and "content"; roles are user, assistant, system, environment, and thought or language
            followed by tool (with the tool's type as "name", where there are several).

    Raises:
        DefinitionError: A role that does not exist.
    """
    if environment_role not in ("user", "system"):
        raise DefinitionError(f'tool_aggregator(environment_role={environment_role!r}): use "user" or "system"')
    users = frozenset((user_names,) if isinstance(user_names, str) else user_names)
    shots = tuple(_shot(entry) for conversation in few_shot for entry in conversation)

    def environment(text: str, name: str | None) -> ChatMessage:
        return ChatMessage(environment_role, environment_begin + text + environment_end, name=name)

    def aggregated(conversation: Conversation) -> list[ChatMessage]:
        parser = conversation.parser
        found = [ChatMessage("system", conversation.instructions)] if conversation.instructions else []
        if parser is not None:
            found += [ChatMessage("system", text, name=kind) for kind, text in parser.parts()]
        found += _shown(shots, parser, environment)
        for item in conversation.items:
            if isinstance(item, AgentMessage):
                text = content_text(item.content)
                if item.sender == conversation.name:
                    found.append(ChatMessage("assistant", _canonical(parser, text)))
                else:
                    found.append(ChatMessage("user", text) if item.sender in users else environment(text, None))
            elif item.kind in ("tool_result", "correction"):
                found.append(environment(item.text, _plain_name(item.tool)))
            else:
                found.append(ChatMessage("assistant", _canonical(parser, item.text)))
        return found

    return aggregated


def repairs(items: Iterable[Item]) -> tuple[str, ...]:
    """What aggregators put right in a history that no endpoint would take: one sentence for each call without a result, and each result without a call."""
    told: list[str] = []
    waiting: dict[str, str] = {}
    for item in items:
        if isinstance(item, Step) and item.kind == "tool_result":
            if item.call_id is None or waiting.pop(item.call_id, None) is None:
                told.append(f"a result of {item.tool or 'a tool'} without a call was left out")
            continue
        told += [f"the call of {name} has no result in memory; the model is told so" for name in waiting.values()]
        waiting = {call.id: call.name for call in item.calls} if isinstance(item, Step) and item.kind == "tool_calls" else {}
    told += [f"the call of {name} has no result in memory; the model is told so" for name in waiting.values()]
    return tuple(told)


# -- the default's parts ---------------------------------------------------------------------------------------------------------------------------------


def system_of(instructions: str, parser: Parser | None) -> tuple[ChatMessage, ...]:
    """What the model is told to be: one message, or none."""
    text = instructions
    if parser is not None:
        told = parser.instruction()
        if told:
            text = f"{text}\n\n{told}" if text else told
    return (ChatMessage("system", text),) if text else ()


def _grow(
    found: list[ChatMessage],
    others: list[str],
    joined: ChatMessage | None,
    items: tuple[Item, ...],
    index: int,
    name: str,
    *,
    in_text: bool,
) -> tuple[int, int | None]:
    """Adds the messages of the items from an index on; what others said last waits in `others`. What waits there already is `joined`, where that was made.

    Returns:
        How many items are settled, whatever comes after them; and how many of the messages are theirs, where that is not all of both.
    """
    end = len(items)
    waiting = len(others) if joined is not None else 0
    while index < end:
        item = items[index]
        index += 1
        calling = False
        if isinstance(item, AgentMessage):
            content = item.content
            text = content if content.__class__ is str else content_text(content)
            if item.sender != name:
                others.append(text)
                continue
        else:
            text = item.text
            kind = item.kind
            if kind == "tool_result":
                if in_text:
                    others.append(f"Result of {item.tool or 'the tool'}:\n{text}")
                continue
            if kind == "correction":
                others.append(text)
                continue
            calling = kind == "tool_calls" and not in_text
        if not text and not calling:
            continue
        if others:
            found.append(joined if joined is not None and len(others) == waiting else _of_others(others))
            others.clear()
            waiting = 0
        at, kept = index - 1, len(found)
        if isinstance(item, AgentMessage):
            found.append(_own(text, None))
            continue
        found.append(_own(text, item.reasoning, item.calls if calling else ()))
        if calling:
            index, complete = _results(found, items, index, item)
            if index == end and not complete:
                return at, kept
    return end, None


# The quick constructor is for what the runtime has made or looked at itself; anything else is looked at now, as it always was.


def _own(text: str, reasoning: str | None, calls: tuple[ToolCall, ...] = ()) -> ChatMessage:
    if reasoning is None and text.__class__ is str and (not calls or (len(calls) == 1 and calls[0].__class__ is ToolCall)):
        return chat_message("assistant", text, calls)
    return ChatMessage("assistant", text, calls, reasoning=reasoning)


def _of_others(texts: list[str]) -> ChatMessage:
    text = texts[0] if len(texts) == 1 else "\n\n".join(texts)
    return chat_message("user", text) if text.__class__ is str else ChatMessage("user", text)


def _of_result(text: str, call: ToolCall) -> ChatMessage:
    if text.__class__ is str and call.id.__class__ is str and call.name.__class__ is str:
        return chat_message("tool", text, (), call.id, call.name)
    return ChatMessage("tool", text, (), call.id, call.name)


def _results(found: list[ChatMessage], items: tuple[Item, ...], index: int, step: Step) -> tuple[int, bool]:
    """One result for each call, in their order; the index of what comes after them, and whether every call had one."""
    calls = step.calls
    if len(calls) == 1 and index + 1 == len(items):  # as mostly
        call, item = calls[0], items[index]
        if isinstance(item, Step) and item.kind == "tool_result" and item.call_id == call.id:
            found.append(_of_result(item.text, call))
            return index + 1, True
    results: dict[str, Step] = {}
    complete = True
    while index < len(items):
        item = items[index]
        if not isinstance(item, Step) or item.kind != "tool_result":
            break
        results.setdefault(item.call_id or "", item)
        index += 1
    for call in calls:
        result = results.get(call.id)
        if result is None:
            complete = False
            text = NO_RESULT.get(step.error, NO_RESULT[None])
        else:
            text = result.text
        found.append(_of_result(text, call))
    return index, complete


# -- examples --------------------------------------------------------------------------------------------------------------------------------------------


def _example(example: Any) -> list[ChatMessage]:
    if isinstance(example, ChatMessage):
        return [example]
    try:
        if isinstance(example, Mapping):
            return [ChatMessage(example["role"], example["content"])]
        if isinstance(example, Sequence) and not isinstance(example, str) and len(example) == 2:
            return [ChatMessage("user", example[0]), ChatMessage("assistant", example[1])]
    except (KeyError, TypeError, ValueError) as error:
        raise DefinitionError(f"few_shot: {example!r} is no example: {error}") from None
    raise DefinitionError(f'few_shot: {example!r} is no example: give (user, assistant), a ChatMessage, or {{"role": …, "content": …}}')


_ROLES: Final = ("user", "assistant", "system", "environment", "thought", "language", "tool")


def _shot(entry: Mapping[str, Any]) -> tuple[str, str, str | None]:
    role, content = entry.get("role"), entry.get("content")
    if role not in _ROLES or not isinstance(content, str):
        raise DefinitionError(
            f"tool_aggregator: an example has the role {role!r} and a {type(content).__name__} as content: use one of {', '.join(_ROLES)}, and a str"
        )
    return role, content, entry.get("name")


def _shown(
    shots: tuple[tuple[str, str, str | None], ...], parser: Parser | None, environment: Callable[[str, str | None], ChatMessage]
) -> list[ChatMessage]:
    found: list[ChatMessage] = []
    thought = ""
    for role, content, name in shots:
        if role in ("thought", "language"):
            thought += content
            continue
        if role == "tool":
            found.append(ChatMessage("assistant", thought + _marked(parser, content, name)))
            thought = ""
            continue
        if thought:
            found.append(ChatMessage("assistant", thought))
            thought = ""
        if role == "environment":
            found.append(environment(content, name))
        else:
            found.append(ChatMessage(role, content))  # type: ignore[arg-type]  # _shot has seen to it
    if thought:
        found.append(ChatMessage("assistant", thought))
    return found


def _marked(parser: Parser | None, content: str, name: str | None) -> str:
    parsers = parser.parsers if isinstance(parser, MixedToolParser) else (parser,) if isinstance(parser, ToolParser) else ()
    for one in parsers:
        if name is None or one.tool_type == name:
            return one.begin + content + one.end
    return content


def _canonical(parser: Parser | None, text: str) -> str:
    if parser is None:
        return text
    parsed = parser.parse(text)
    return text if parsed.status == "error" else parser.render(parsed)


def _plain_name(name: str | None) -> str | None:
    return (
        None
        if name is None
        else "".join(character if character.isascii() and (character.isalnum() or character in "_-") else "_" for character in name)
    )
