"""The envelope: what travels with a message.

A plain slots class, not attrs: one is made for every message, and `object.__new__` with stores is the cheapest way to make one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retinue.security.context import SecurityContext

__all__ = ["Envelope", "Postmark"]


class Postmark:
    """The rarer things that may travel with a message; most envelopes carry none.

    Attributes:
        approvals: Approval tokens given by the sender, unredeemed.
        trace: A W3C `traceparent`, passed on unchanged to whatever the receiver sends.
    """

    __slots__ = ("approvals", "trace")

    def __init__(self, approvals: tuple[Any, ...] = (), trace: str | None = None) -> None:
        self.approvals = approvals
        self.trace = trace


class Envelope:
    """A message with what the runtime must know about it.

    Attributes:
        message: The message itself, immutable.
        context: The security context under which it was sent.
        origin: The sender (the runtime's cell), or None when it was sent from outside any actor.
        slot: Where the answer goes, or None for a tell.
        asker: The turn that waits for the answer, or None: following `asker` from envelope to envelope gives the ask chain.
        timeout: Seconds that the asker gave, None for the message class's or the system's default.
        deadline: When the answer must be there, in the clock's seconds; None until somebody had to know.
        postmark: The rarer things, or None.
    """

    __slots__ = ("asker", "context", "deadline", "message", "origin", "postmark", "slot", "timeout")

    message: Any
    context: SecurityContext
    origin: Any
    slot: Any
    asker: Any
    timeout: float | None
    deadline: float | None
    postmark: Postmark | None
