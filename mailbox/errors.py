"""The errors of the mailbox floor."""

from __future__ import annotations

from retinue.security.errors import RetinueError

__all__ = ["GatewayError", "MailboxFull", "RemoteError", "Unhandled", "WireError"]


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


class GatewayError(RetinueError):
    """The gateway of a system could not be asked, or did not answer as one; whether the message was handled is not known unless `delivered` is False.

    Attributes:
        status: The HTTP status, or None where no answer came.
        reason: A stable word: "wrong_url", "unreachable", "broken" (the connection was lost), "timeout", "wrong_server" (it is no gateway), "malformed",
            "unauthorized", "refused_host", "too_large", "rate", "not_found", "closing".
        delivered: False where the message certainly reached no actor; None where that is not known.
        retry_after: Seconds after which there is room for the request ("rate"); None where that is not known.
    """

    def __init__(
        self,
        text: str,
        *,
        status: int | None = None,
        reason: str = "malformed",
        delivered: bool | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.delivered = delivered
        self.retry_after = retry_after


class RemoteError(RetinueError):
    """The handler in the other process raised an error of its own, which does not exist here.

    Attributes:
        type: The name of its class.
    """

    def __init__(self, text: str, *, type: str) -> None:  # noqa: A002 - what everybody calls it
        super().__init__(text)
        self.type = type
