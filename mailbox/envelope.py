"""The envelope: what travels with a message.

A plain slots class, not attrs: one is made for every message, and `object.__new__` with stores is the cheapest way to make one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retinue.security.context import SecurityContext

__all__ = ["Envelope", "Postmark"]


class Postmark:
    """The rarer things that may travel with a message or belong to it; most envelopes carry none.

    Attributes:
        approvals: Approval tokens given by the sender, unredeemed.
        trace: A W3C `traceparent`: the span that it was sent in. Passed on to whatever the receiver sends, where that makes no span of its own.
        deadline: When the answer must be there, in the clock's seconds; None until somebody had to know.
        bounded: Whether it is the message's authority that ends then, and not the asker's patience.
        original: The message as it was sent, where a policy may have rewritten it.
        case: What the gate knows of it, while it waits for a person's consent.
        addressed: Whom the sender addressed, where that was a pool, which has handed it to a worker.
        attempts: How many workers of a pool have taken it up.
        span: The span of its turn, once it has begun, in a system that traces.
        hints: What its sender knows about its span, in a system that traces.
    """

    __slots__ = ("addressed", "approvals", "attempts", "bounded", "case", "deadline", "hints", "original", "span", "trace")

    def __init__(self, approvals: tuple[Any, ...] = (), trace: str | None = None) -> None:
        self.approvals = approvals
        self.trace = trace
        self.deadline: float | None = None
        self.bounded = False
        self.original: Any = None
        self.case: Any = None
        self.addressed: Any = None
        self.attempts = 0
        self.span: Any = None
        self.hints: Any = None


class Envelope:
    """A message with what the runtime must know about it.

    Attributes:
        message: The message itself, immutable.
        context: The security context under which it was sent.
        source: Who sent it: the turn that waits for the answer (following `source` from turn to turn gives the ask chain), the sender's cell where
            nobody waits, or None from outside any actor.
        slot: Where the answer goes, or None.
        timeout: Seconds that the asker gave, None for the message class's or the system's default.
        postmark: The rarer things, or None.
    """

    __slots__ = ("context", "message", "postmark", "slot", "source", "timeout")

    message: Any
    context: SecurityContext
    source: Any
    slot: Any
    timeout: float | None
    postmark: Postmark | None
