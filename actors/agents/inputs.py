"""What an agent can be told: looked at once, before a run begins, so that nothing in memory can spoil a later request."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sized
from typing import Any, Final, cast

import attrs

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.errors import BadInput
from retinue.actors.agents.message import AgentMessage, Step

__all__ = ["MAX_SESSION", "checked_input", "checked_session", "own_items", "own_message"]

MAX_SESSION: Final = 128
"""Characters of a session's name."""

MAX_SENDER: Final = 512
"""Characters of a sender's name."""

MAX_INPUT: Final = 10_000_000
"""Characters of one message; a model takes far less."""

MAX_LEVELS: Final = 100
"""Levels that a message's data is nested: as many as `GetState` writes."""

MAX_PARTS: Final = 100_000
"""Things in a message's data; one that is in it twice counts twice, for a model is told it twice."""

_ATOMS: Final = frozenset({str, int, float, bool, type(None), bytes})


def checked_session(session: object, path: str) -> str:
    """A session's name. Raises BadInput for what is none."""
    if not isinstance(session, str) or not 1 <= len(session) <= MAX_SESSION:
        shown = repr(session)[:100]
        raise BadInput(f"{path}: session={shown} is no name of a session: give a str of 1 to {MAX_SESSION} characters")
    return session


def checked_input(message: AgentMessage, path: str) -> AgentMessage:
    """The message as it can be remembered: nobody else holds what is in it.

    Raises:
        BadInput: It says nothing, too much, or what no model can be told.
    """
    if not isinstance(message, AgentMessage):
        raise BadInput(f"{path}: a {type(message).__name__} is no message for an agent: give a str, or AgentMessage(text)")
    content = message.content
    if isinstance(content, str):
        if not content or content.isspace():
            raise BadInput(f"{path}: the message is empty: say something")
        if len(content) > MAX_INPUT:
            raise BadInput(
                f"{path}: the message has {len(content):,} characters, and at most {MAX_INPUT:,} can be said at once: shorten it"
            )
        if not content.isascii():
            _check_text(content, path)
    elif content is None or isinstance(content, bytes | bytearray | memoryview):
        raise BadInput(f"{path}: the message's content is a {type(content).__name__}: give a str, or plain data such as a dict")
    sender = message.sender
    if not isinstance(sender, str) or not 1 <= len(sender) <= MAX_SENDER:
        raise BadInput(f"{path}: the message's sender is {sender!r:.100}: give a name, of {MAX_SENDER} characters at most")
    if content.__class__ is not str or message.formatted is not None or message.extra is not None:
        for field in ("content", "formatted", "extra"):
            _check_data(getattr(message, field), field, path)
        if (isinstance(content, Sized) and not len(content)) or not content_text(content).strip():
            raise BadInput(f"{path}: the message is empty: say something")
    if path.endswith(sender) and sender == path.rpartition("/")[2]:
        # What others say is never read as the agent's own words, not where they share its name either.
        message = attrs.evolve(cast("Any", message), sender=f"{sender} (another)")
    return own_message(message, path)


def _check_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInput(
            f"{path}: the message holds half a character (a lone surrogate, {text[error.start]!a}) at position {error.start}: it was read with the wrong encoding; "
            'text.encode("utf-8", "replace").decode() replaces such'
        ) from None


def _check_data(data: Any, field: str, path: str) -> None:
    """Raises BadInput for data that could not be told, or written down later."""
    waiting: list[tuple[Any, int]] = [(data, 0)]
    parts = characters = 0
    while waiting:
        value, level = waiting.pop()
        if isinstance(value, str):
            characters += len(value)
            if characters > MAX_INPUT:
                raise BadInput(f"{path}: the texts in the message's {field} have more than {MAX_INPUT:,} characters: shorten them")
            if not value.isascii():
                _check_text(value, path)
            continue
        if isinstance(value, Mapping):
            within = [*value, *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            within = list(value)
        else:
            continue
        if level >= MAX_LEVELS:
            raise BadInput(f"{path}: the message's {field} is nested more than {MAX_LEVELS} levels deep, or in itself: make it flatter")
        parts += len(within)
        if parts > MAX_PARTS:
            raise BadInput(f"{path}: the message's {field} holds more than {MAX_PARTS:,} things: shorten it")
        waiting.extend((each, level + 1) for each in within)


def own_message(message: AgentMessage, path: str = "the agent") -> AgentMessage:
    """The message, with copies of what could change under it."""
    if (
        message.content.__class__ in _ATOMS
        and message.formatted.__class__ in _ATOMS
        and message.extra is None
        and message.__class__ is AgentMessage
    ):
        return message
    try:
        extra = None if message.extra is None else _own(dict(message.extra))
        return AgentMessage(
            _own(message.content),
            message.sender,
            _own(message.formatted),
            message.session,
            message.type,
            message.receiver,
            extra,
            message.usage,
            message.partial,
        )
    except Exception as error:
        raise BadInput(f"{path}: the message holds what cannot be copied ({type(error).__name__}): give plain data") from error


def own_items(items: Iterable[AgentMessage | Step]) -> tuple[AgentMessage | Step, ...]:
    """Items of a memory for somebody else: what they do with them is their own affair."""
    return tuple(own_message(item) if isinstance(item, AgentMessage) else item for item in items)


def _own(value: Any) -> Any:
    return value if value.__class__ in _ATOMS else copy.deepcopy(value)
