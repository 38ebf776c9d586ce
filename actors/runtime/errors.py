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
    "StartTimeout",
    "StreamClosed",
    "SystemClosed",
    "Unanswered",
    "WrongEventLoop",
    "WrongThread",
    "text_of",
]


class Unanswered(RetinueError):
    """A request was sent and no answer came. Its kinds say why.

    Attributes:
        path: The path of the actor that was asked; after a forward, of the last one.
        begun: Whether a handler had taken the request up. False: it was never carried out, so it is safe to send it again. True: the outcome is unknown, it
            may have been carried out in part or whole. None: not known either; treat it as True.
    """

    def __init__(self, text: str, *, path: str | None = None, begun: bool | None = None) -> None:
        super().__init__(text)
        self.path = path
        self.begun = begun


class AskTimeout(Unanswered, TimeoutError):
    """No answer before the deadline. The outcome is *unknown*, unless `begun` is False: the request may have been carried out."""


class ActorStopped(Unanswered):
    """The target has stopped, or stopped before it answered. The cause, where there is one, is chained as `__cause__`."""


class AskCancelled(Unanswered):
    """The handler of the request was cancelled before it answered (it cancelled itself, or what it ran in was cancelled)."""


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


class StartTimeout(RetinueError, TimeoutError):
    """An actor's constructor and `on_start` took longer than the system allows (`ActorSystem(start_timeout=)`); nothing is left of the start."""


class StreamClosed(RetinueError):
    """The stream ended without its terminal event."""


class SystemClosed(RetinueError):
    """The actor system is closing or closed: it takes no new actors and no new messages."""


class WrongEventLoop(RetinueError, RuntimeError):
    """A trio system was entered under another event loop; the text names what to use instead."""


class WrongThread(RetinueError, RuntimeError):
    """A call that belongs to one thread was made in another (it would deadlock, or corrupt a mailbox)."""


def text_of(error: BaseException) -> str:
    """The error's text, for a text of ours; what an actor raises may not even have one."""
    try:
        return str(error)
    except BaseException as odd:
        return f"(no text: its __str__ raised {type(odd).__qualname__})"
