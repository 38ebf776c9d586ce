"""What an agent can be told: looked at once, before a run begins, so that nothing in memory can spoil a later request."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Final

from retinue.actors.agents.errors import BadInput
from retinue.actors.agents.message import AgentMessage, Step

__all__ = ["MAX_SESSION", "checked_input", "checked_session", "own_items", "own_message"]

MAX_SESSION: Final = 128
"""Characters of a session's name."""

MAX_INPUT: Final = 10_000_000
"""Characters of one message; a model takes far less."""

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
    elif isinstance(content, dict | list | tuple) and not content:
        raise BadInput(f"{path}: the message is empty: say something")
    if not isinstance(message.sender, str) or not message.sender:
        raise BadInput(f"{path}: the message's sender is {message.sender!r:.100}: give a name")
    return own_message(message, path)


def _check_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInput(
            f"{path}: the message holds half a character (a lone surrogate, {text[error.start]!a}) at position {error.start}: it was read with the wrong encoding; "
            'text.encode("utf-8", "replace").decode() replaces such'
        ) from None


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
