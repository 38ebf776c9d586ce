"""The root of every error of the project, and the errors of the security floor.

Each error's text says what happened, where (an actor's path, a message's type) and what to do about it. The whole tree, floors above
included, is drawn in `retinue.errors`.
"""

from __future__ import annotations

__all__ = [
    "ApprovalRequired",
    "AuthorityError",
    "DefinitionError",
    "Denied",
    "ForgedContext",
    "NoContext",
    "PatternError",
    "RetinueError",
]


class RetinueError(Exception):
    """The root of all errors that this project raises on purpose."""


class DefinitionError(RetinueError, TypeError):
    """A class, a handler or a message is written in a way that cannot work; raised where it is defined, as early as possible."""


class AuthorityError(RetinueError):
    """The root of what authority refuses."""


class Denied(AuthorityError):
    """The effective context does not permit the operation; nothing was done.

    Attributes:
        operation: The refused operation's dotted name, or None where the refusal is not about one (a forged context, say).
        path: The path of the actor that was addressed, where there is one.
        subject: The subject of the context that was refused.
    """

    def __init__(self, text: str, *, operation: str | None = None, path: str | None = None, subject: str | None = None) -> None:
        super().__init__(text)
        self.operation = operation
        self.path = path
        self.subject = subject


class ForgedContext(Denied):
    """The given context was not made by this system's authority."""


class ApprovalRequired(AuthorityError):
    """The operation needs a person's consent, and no valid approval came with the message; nothing was done.

    Attributes:
        operation: The operation's dotted name.
        path: The path of the actor that was addressed.
    """

    def __init__(self, text: str, *, operation: str | None = None, path: str | None = None) -> None:
        super().__init__(text)
        self.operation = operation
        self.path = path


class NoContext(AuthorityError):
    """A message was sent from a place that has no authority of its own (a foreign thread, say), and no `context=` was given."""


class PatternError(AuthorityError, ValueError):
    """An operation's name or a pattern of operations is malformed."""
