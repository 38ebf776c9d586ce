"""The errors of the actor core."""

from __future__ import annotations

from retinue.security.errors import RetinueError

__all__ = [
    "ActorStopped",
    "AskCancelled",
    "AskCycle",
    "AskTimeout",
    "NameTaken",
    "Reject",
    "StreamClosed",
    "SystemClosed",
    "WrongEventLoop",
    "WrongThread",
]


class AskTimeout(RetinueError, TimeoutError):
    """No answer before the deadline. The outcome is *unknown*: the request may have been carried out."""


class ActorStopped(RetinueError):
    """The target has stopped, or stopped before it answered. The cause, where there is one, is chained as `__cause__`."""


class AskCancelled(RetinueError):
    """The handler of the request was cancelled before it answered (its actor was stopped or restarted, or it cancelled itself)."""


class AskCycle(RetinueError):
    """The ask would close a ring of actors that wait for each other; the text shows the ring. It was never sent."""


class Reject(RetinueError):
    """Raised by a handler to refuse a request for a reason of its own: an answer, not a failure; the actor keeps its state.

    Attributes:
        reason: What the asker is told.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NameTaken(RetinueError, ValueError):
    """A sibling of that name is alive."""


class StreamClosed(RetinueError):
    """The stream ended without its terminal event."""


class SystemClosed(RetinueError):
    """The actor system is closing or closed: it takes no new actors and no new messages."""


class WrongEventLoop(RetinueError, RuntimeError):
    """A trio system was entered under another event loop; the text names what to use instead."""


class WrongThread(RetinueError, RuntimeError):
    """A call that belongs to one thread was made in another (it would deadlock, or corrupt a mailbox)."""
