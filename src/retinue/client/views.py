"""What a client shows of a system: its actors, and their ends."""

from __future__ import annotations

from typing import Any

import attrs

from retinue.actors.runtime.errors import AskTimeout
from retinue.actors.runtime.watch import StopReason
from retinue.client.answers import malformed
from retinue.remote import error_from_data
from retinue.security.errors import RetinueError

__all__ = ["RemoteActor", "RemoteTerminated", "actor_of", "still_lives", "terminated_of"]


@attrs.frozen
class RemoteActor:
    """A living actor, as it was when the system was asked.

    Attributes:
        path: Its path.
        cls: The name of its class.
        messages: The wire names of the messages that it takes.
        depth: How many messages wait in its mailbox.
        state: What it does, in a word.
    """

    path: str
    cls: str
    messages: tuple[str, ...]
    depth: int
    state: str


@attrs.frozen
class RemoteTerminated:
    """An actor has ended.

    Attributes:
        path: Its path.
        reason: Why.
        error: What it failed with, if it did: one of `retinue.errors`, or a RemoteError.
    """

    path: str
    reason: StopReason
    error: RetinueError | None = None


def actor_of(data: Any) -> RemoteActor:
    """The actor that a gateway's JSON describes. Raises GatewayError."""
    try:
        path, cls, messages, depth, state = (data[key] for key in ("path", "class", "messages", "depth", "state"))
    except (TypeError, KeyError, IndexError):
        raise malformed("the list of actors", "an actor lacks something") from None
    fits = isinstance(messages, list) and all(isinstance(text, str) for text in (path, cls, state, *messages)) and type(depth) is int
    if not fits:
        raise malformed("the list of actors", "an actor has something of another type")
    return RemoteActor(path, cls, tuple(messages), depth, state)


def terminated_of(data: Any) -> RemoteTerminated:
    """The end that a gateway's JSON describes. Raises GatewayError."""
    try:
        path, reason, error = data["path"], StopReason(data["reason"]), data.get("error")
    except (TypeError, KeyError, ValueError, AttributeError):
        raise malformed("the watch", "an end that this version does not know") from None
    if not isinstance(path, str):
        raise malformed("the watch", "an end without a path")
    return RemoteTerminated(path, reason, None if error is None else error_from_data(200, {"error": error}))


def still_lives(path: str, seconds: float) -> AskTimeout:
    """The error for a watch that was given up."""
    return AskTimeout(f"{path} has not ended within {seconds:g} s, as far as is known. Watch it again, or wait longer", path=path)
