"""The errors of the mailbox floor."""

from __future__ import annotations

from retinue.security.errors import RetinueError

__all__ = ["MailboxFull", "Unhandled", "WireError"]


class MailboxFull(RetinueError):
    """The target's mailbox had no room before the deadline: the message was *not* delivered, so it is safe to send it again."""


class Unhandled(RetinueError, TypeError):
    """The target has no handler for this type of message (or the object is no message at all): it was never sent."""


class WireError(RetinueError, ValueError):
    """Bytes cannot be decoded into a registered message, or a message cannot be encoded.

    Attributes:
        problem: A short machine-readable word: "malformed", "unknown_type", "too_large", "too_deep", "invalid_fields", "not_encodable"…
    """

    def __init__(self, text: str, *, problem: str = "malformed") -> None:
        super().__init__(text)
        self.problem = problem
